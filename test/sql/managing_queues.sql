--
-- Making, changing, pausing, emptying and dropping queues.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

-- All but the name is optional, and NULL stands for the default.
SELECT name, visibility_timeout, max_delivery_attempts, default_ttl,
	   retry_delay, max_retry_delay, paused, created_at = updated_at AS fresh
	FROM queue_state.create_queue('managed');
SELECT name, visibility_timeout, max_delivery_attempts, default_ttl, retry_delay, max_retry_delay
	FROM queue_state.create_queue('managed.2', '1 minute', 3, '1 hour', '0 seconds', '10 seconds');
SELECT visibility_timeout, max_delivery_attempts, default_ttl, retry_delay, max_retry_delay
	FROM queue_state.create_queue('managed-3', NULL, NULL, NULL, NULL, NULL);

-- A queue is made once.
SELECT queue_state.create_queue('managed');
\echo :LAST_ERROR_SQLSTATE

-- Names at the limits.
SELECT (queue_state.create_queue('z')).name;
SELECT length((queue_state.create_queue(repeat('n', 64))).name);
SELECT queue_state.create_queue(repeat('n', 65));
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('Managed');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('.managed');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('managed-');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue(E'man"ag\ned');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('größe');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue(NULL);
\echo :LAST_ERROR_SQLSTATE

-- Settings at and beyond the limits.
SELECT name, visibility_timeout, max_delivery_attempts, default_ttl, retry_delay, max_retry_delay
	FROM queue_state.update_queue('managed', '1 second', 1, '1 second', '0 seconds', '0 seconds');
SELECT name, visibility_timeout, max_delivery_attempts, default_ttl, retry_delay, max_retry_delay
	FROM queue_state.update_queue('managed', '12 hours', 100, '30 days', '12 hours', '12 hours');
SELECT queue_state.create_queue('refused', visibility_timeout => '0.9 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', visibility_timeout => '12 hours 1 second');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', max_delivery_attempts => 0);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', max_delivery_attempts => 101);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', default_ttl => '0 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', default_ttl => '31 days');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', retry_delay => '-1 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', max_retry_delay => '13 hours');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.create_queue('refused', retry_delay => '1 hour');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.update_queue('managed.2', max_retry_delay => '-1 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM queue_state.queue WHERE name = 'refused';

-- An update changes what is given, and nothing else.
SELECT name, visibility_timeout, max_delivery_attempts, default_ttl, retry_delay, max_retry_delay,
	   updated_at > created_at AS updated
	FROM queue_state.update_queue('managed.2', max_delivery_attempts => 4);
SELECT updated_at AS before FROM queue_state.queue WHERE name = 'managed.2' \gset
SELECT updated_at = :'before' AS unchanged
	FROM queue_state.update_queue('managed.2', max_delivery_attempts => 4);
SELECT updated_at = :'before' AS unchanged FROM queue_state.update_queue('managed.2');

-- A name that is nearly right is suggested.
SELECT queue_state.update_queue('manged.2');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.pause_queue('manged.2');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.resume_queue('manged.2');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.purge_queue('manged.2');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.update_queue(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.pause_queue(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.resume_queue(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.purge_queue(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.drop_queue(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.drop_queue('managed', NULL);
\echo :LAST_ERROR_SQLSTATE

-- A paused queue accepts and does not deliver; leases go on.
SELECT queue_state.enqueue('managed.2', to_jsonb(i)) IS NOT NULL AS enqueued
	FROM generate_series(1, 3) i;
SELECT id, receipt_handle, payload FROM queue_state.dequeue('managed.2') \gset
SELECT queue_state.pause_queue('managed.2') AS first, queue_state.pause_queue('managed.2') AS again;
SELECT count(*) FROM queue_state.dequeue('managed.2', 10);
SELECT queue_state.enqueue('managed.2', '4') IS NOT NULL AS enqueued;
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT queue_state.resume_queue('managed.2') AS first, queue_state.resume_queue('managed.2') AS again;
SELECT payload FROM queue_state.dequeue('managed.2', 10);

-- A purge takes the live messages, leased and delayed ones included, and is
-- no event.  It leaves the dead letters and the other queues.
SELECT queue_state.enqueue('managed.2', '5', delay => '10 minutes') IS NOT NULL AS delayed;
SELECT queue_state.enqueue('managed.2', '6', 'HIGH') IS NOT NULL AS ready;
SELECT queue_state.enqueue('managed', '7') IS NOT NULL AS elsewhere;
SELECT id, receipt_handle FROM queue_state.dequeue('managed.2') \gset
SELECT queue_state.reject(:'id', :'receipt_handle');
SELECT queue_state.enqueue('managed.2', '8') IS NOT NULL AS ready;
SELECT queue_state.purge_queue('managed.2'), queue_state.purge_queue('managed.2') AS again;
SELECT queue_name, priority, ready, in_flight, delayed, dead_letters
	FROM queue_state.physical_state()
	WHERE queue_name LIKE 'managed%' AND ready + in_flight + delayed + dead_letters > 0
	ORDER BY queue_name, priority;
SELECT sum(enqueued_total) AS enqueued, sum(delivered_total) AS delivered,
	   sum(acknowledged_total) AS acknowledged,
	   sum(expired_never_delivered_total + expired_previously_delivered_total) AS expired,
	   sum(dead_lettered_total) AS dead_lettered, sum(dead_letter_purged_total) AS purged
	FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
SELECT * FROM queue_state.verify();

-- A queue that holds anything is dropped only by somebody who says so.
SELECT queue_state.drop_queue('managed.2');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.drop_queue('managed', false);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.drop_queue('managed.2', true) AS first,
	   queue_state.drop_queue('managed.2', true) AS again;
SELECT queue_state.drop_queue('never-made');
SELECT queue_state.drop_queue('managed-3');
SELECT count(*) FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
SELECT * FROM queue_state.verify();

-- Made again under the same name it starts from nothing.
SELECT name FROM queue_state.create_queue('managed.2');
SELECT priority, ready, in_flight, delayed, dead_letters, enqueued_total, delivered_total,
	   acknowledged_total, dead_lettered_total
	FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
SELECT queue_state.enqueue('managed.2', '1') IS NOT NULL AS enqueued;
SELECT ready, enqueued_total FROM queue_state.snapshot()
	WHERE queue_name = 'managed.2' AND priority = 'MEDIUM';

-- The same inside one transaction, where nothing has been applied yet.
BEGIN;
SELECT queue_state.enqueue('managed.2', '2') IS NOT NULL AS enqueued;
SELECT queue_state.drop_queue('managed.2', true);
SELECT name FROM queue_state.create_queue('managed.2');
SELECT queue_state.enqueue('managed.2', '3', 'LOW') IS NOT NULL AS enqueued;
SELECT priority, ready, enqueued_total FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
COMMIT;
SELECT priority, ready, enqueued_total FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
SELECT * FROM queue_state.verify();

-- A drop that is rolled back has not happened.
BEGIN;
SELECT queue_state.drop_queue('managed.2', true);
ROLLBACK;
SELECT priority, ready, enqueued_total FROM queue_state.snapshot() WHERE queue_name = 'managed.2';
BEGIN;
SAVEPOINT dropping;
SELECT queue_state.drop_queue('managed.2', true);
ROLLBACK TO SAVEPOINT dropping;
SELECT queue_state.enqueue('managed.2', '4', 'LOW') IS NOT NULL AS enqueued;
COMMIT;
SELECT priority, ready, enqueued_total FROM queue_state.snapshot() WHERE queue_name = 'managed.2';

-- Nothing of a dropped queue is left in the counters.
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue
	WHERE name LIKE 'managed%' OR name IN ('z', repeat('n', 64)) ORDER BY name;
SELECT count(*) FROM queue_state.queue_priority_state_shard s
	WHERE NOT EXISTS (SELECT FROM queue_state.queue q WHERE q.queue_id = s.queue_id);
SELECT count(*) FROM queue_state.queue_priority_state_pending p
	WHERE NOT EXISTS (SELECT FROM queue_state.queue q WHERE q.queue_id = p.queue_id);
SELECT * FROM queue_state.verify();

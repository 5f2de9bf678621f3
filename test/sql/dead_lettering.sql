--
-- Dead letters: in, back, and out.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('dead', max_delivery_attempts => 2, default_ttl => '1 hour');
SELECT name FROM queue_state.create_queue('dead.other', max_delivery_attempts => 1);

-- Messages that used up their attempts in queues nobody reads.
-- Of the nine: two exhausted HIGH, one with an attempt left, one exhausted
-- but expired, one exhausted under a live lease, one exhausted and delayed
-- beyond now, one READY, one exhausted DELAYED, one of the other queue.
INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, available_after,
									   expires_at, last_delivered_at, last_error, payload)
	SELECT q.queue_id, m.priority::queue_state.message_priority, m.state::queue_state.message_state,
		   m.attempts, clock_timestamp() + m.available, clock_timestamp() + m.expiry,
		   clock_timestamp() - interval '1 minute', 'timed out', to_jsonb(m.what)
	FROM (VALUES
		('dead', 'HIGH', 'IN_FLIGHT', 2, interval '-2 seconds', interval '1 hour', 'exhausted 1'),
		('dead', 'HIGH', 'IN_FLIGHT', 3, '-1 seconds', '1 hour', 'exhausted 2'),
		('dead', 'LOW', 'IN_FLIGHT', 1, '-1 seconds', '1 hour', 'an attempt left'),
		('dead', 'LOW', 'IN_FLIGHT', 2, '-1 seconds', '-1 seconds', 'expired'),
		('dead', 'LOW', 'IN_FLIGHT', 2, '1 hour', '2 hours', 'leased'),
		('dead', 'LOW', 'DELAYED', 2, '1 hour', '2 hours', 'delayed'),
		('dead', 'MEDIUM', 'READY', 2, '-1 seconds', '1 hour', 'ready'),
		('dead', 'MEDIUM', 'DELAYED', 2, '-1 seconds', '1 hour', 'exhausted 3'),
		('dead.other', 'MEDIUM', 'IN_FLIGHT', 1, '-1 seconds', '1 hour', 'exhausted 4'))
		m (queue, priority, state, attempts, available, expiry, what)
		JOIN queue_state.queue q ON q.name = m.queue;
SELECT queue_name, priority, exhausted FROM queue_state.logical_state()
	WHERE queue_name LIKE 'dead%' AND exhausted > 0 ORDER BY queue_name, priority;
SELECT queue_state.dead_letter_exhausted(3) AS bounded, queue_state.dead_letter_exhausted() AS rest,
	   queue_state.dead_letter_exhausted() AS nothing;
SELECT payload, priority, delivery_attempts, reason, last_error FROM queue_state.queue_dead_letter_message
	ORDER BY payload;
SELECT queue_name, priority, dead_letters, dead_lettered_total FROM queue_state.snapshot()
	WHERE queue_name LIKE 'dead%' AND dead_letters > 0;
SELECT payload FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id)
	WHERE q.name LIKE 'dead%' ORDER BY payload;
SELECT queue_state.dead_letter_exhausted(0);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.dead_letter_exhausted(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM queue_state.verify();
SELECT queue_state.purge_queue('dead');

-- Redriven, oldest dead letter first: READY, no attempts, a fresh life, and
-- the history in place.
UPDATE queue_state.queue_dead_letter_message SET enqueued_at = '2024-02-29 12:34:56.789012+02',
	dead_lettered_at = clock_timestamp() - interval '1 hour', headers = '{"a": 1}', deduplication_key = 'key'
	WHERE payload = '"exhausted 1"';
SELECT queue_state.redrive_dead_letters('dead', 1);
SELECT state, priority, delivery_attempts, enqueued_at > clock_timestamp() - interval '1 minute' AS enqueued_now,
	   expires_at - enqueued_at AS ttl, receipt_handle IS NULL AS no_lease,
	   last_delivered_at < enqueued_at AS history, last_error, deduplication_key, headers, payload
	FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id) WHERE q.name = 'dead';

-- A second redrive keeps the first time, also one that is not ours to judge.
SELECT id, receipt_handle FROM queue_state.dequeue('dead') \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'again');
SELECT queue_state.redrive_dead_letters('dead', ids => ARRAY[:'id']::uuid[]) AS once,
	   queue_state.redrive_dead_letters('dead', ids => ARRAY[:'id']::uuid[]) AS again;
SELECT headers, delivery_attempts, last_error FROM queue_state.queue_message WHERE id = :'id';

-- Only those asked for, only of the queue asked for, also while it is paused.
SELECT queue_state.pause_queue('dead');
SELECT queue_state.redrive_dead_letters('dead', ids => '{}') AS none,
	   queue_state.redrive_dead_letters('dead', ids => ARRAY[gen_random_uuid()]) AS unknown,
	   queue_state.redrive_dead_letters('dead.other', ids => ARRAY(
			SELECT id FROM queue_state.queue_dead_letter_message WHERE payload = '"exhausted 2"')) AS of_another,
	   queue_state.redrive_dead_letters('dead', ids => ARRAY(
			SELECT id FROM queue_state.queue_dead_letter_message WHERE payload = '"exhausted 2"')) AS right_one;
SELECT queue_state.redrive_dead_letters('dead') AS rest, queue_state.redrive_dead_letters('dead') AS nothing;
SELECT queue_state.resume_queue('dead');
SELECT queue_name, priority, ready, dead_letters, enqueued_total, dead_lettered_total, dead_letter_redriven_total
	FROM queue_state.snapshot() WHERE queue_name = 'dead';
SELECT count(*) FROM queue_state.dequeue('dead', 10);
SELECT queue_state.purge_queue('dead');

-- A key that a live message holds is left behind; of two dead letters with one
-- key the first keeps it.
SELECT queue_state.enqueue('dead', '"first"', deduplication_key => 'twice') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('dead') \gset
SELECT queue_state.reject(:'id', :'receipt_handle');
SELECT queue_state.enqueue('dead', '"second"', deduplication_key => 'twice') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('dead') \gset
SELECT queue_state.reject(:'id', :'receipt_handle');
SELECT queue_state.enqueue('dead', '"held"', deduplication_key => 'held') AS id \gset
SELECT id, receipt_handle FROM queue_state.dequeue('dead') \gset
SELECT queue_state.reject(:'id', :'receipt_handle');
SELECT queue_state.enqueue('dead', '"holder"', deduplication_key => 'held') IS NOT NULL AS enqueued;
SELECT queue_state.redrive_dead_letters('dead');
SELECT deduplication_key, count(*) FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id)
	WHERE q.name = 'dead' GROUP BY 1 ORDER BY 1;
SELECT payload, deduplication_key FROM queue_state.queue_message WHERE id = :'id';

-- A dead letter whose id is alive, because somebody copied it back by hand, stays.
SELECT id, receipt_handle FROM queue_state.dequeue('dead') \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'original');
INSERT INTO queue_state.queue_message (id, queue_id, payload)
	SELECT id, queue_id, '"copy"' FROM queue_state.queue_dead_letter_message WHERE id = :'id';
SELECT queue_state.redrive_dead_letters('dead');
SELECT payload FROM queue_state.queue_message WHERE id = :'id';
-- And when the copy dies as well, its history replaces the old one.
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT', receipt_handle = gen_random_uuid(),
	available_after = clock_timestamp() + interval '1 minute' WHERE id = :'id'
	RETURNING receipt_handle \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'copied');
SELECT payload, last_error FROM queue_state.queue_dead_letter_message WHERE id = :'id';
SELECT * FROM queue_state.verify();

SELECT queue_state.redrive_dead_letters(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.redrive_dead_letters('daed');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.redrive_dead_letters('dead', 0);
\echo :LAST_ERROR_SQLSTATE

-- Purged by age, bounded, one row for each queue.
INSERT INTO queue_state.queue_dead_letter_message
		(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, dead_lettered_at, reason, payload)
	SELECT gen_random_uuid(), q.queue_id, 'LOW', 1, clock_timestamp(), clock_timestamp(),
		   clock_timestamp() - make_interval(days => i), 'REJECTED', to_jsonb(i)
	FROM queue_state.queue q, generate_series(2, 5) i WHERE q.name LIKE 'dead%';
SELECT * FROM queue_state.purge_dead_letters('6 days');
SELECT * FROM queue_state.purge_dead_letters('3 days', 2);
SELECT * FROM queue_state.purge_dead_letters('3 days');
SELECT * FROM queue_state.purge_dead_letters('3 days');
SELECT queue_name, priority, dead_letters, dead_letter_purged_total FROM queue_state.snapshot()
	WHERE queue_name LIKE 'dead%' AND dead_letters > 0;
SELECT * FROM queue_state.purge_dead_letters('0 seconds');
SELECT sum(dead_letters) FROM queue_state.snapshot() WHERE queue_name LIKE 'dead%';
SELECT queue_state.purge_dead_letters(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.purge_dead_letters('-1 days');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.purge_dead_letters('1 day', 0);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.purge_dead_letters('1 day', NULL);
\echo :LAST_ERROR_SQLSTATE

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue WHERE name LIKE 'dead%' ORDER BY name;

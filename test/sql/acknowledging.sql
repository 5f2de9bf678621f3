--
-- What the holder of a lease can do, and what nobody else can.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('held');
SELECT count(*) FROM queue_state.enqueue_batch('held',
	ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 10) i));

-- Once, and not twice.
SELECT id, receipt_handle FROM queue_state.dequeue('held') \gset
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT count(*) FROM queue_state.queue_message WHERE id = :'id';

-- Neither with another's handle, nor with none, nor a message that is not leased.
SELECT id, receipt_handle FROM queue_state.dequeue('held') \gset
SELECT queue_state.acknowledge(:'id', gen_random_uuid()) AS wrong_handle,
	   queue_state.acknowledge(gen_random_uuid(), :'receipt_handle') AS wrong_id,
	   queue_state.acknowledge(:'id', NULL) AS no_handle,
	   queue_state.acknowledge(NULL, :'receipt_handle') AS no_id,
	   queue_state.acknowledge(m.id, :'receipt_handle') AS ready
	FROM (SELECT id FROM queue_state.queue_message WHERE state = 'READY' LIMIT 1) m;

-- The handle of an earlier delivery leaves the newer one alone.
UPDATE queue_state.queue_message SET available_after = clock_timestamp() WHERE id = :'id';
SELECT queue_state.acknowledge(:'id', :'receipt_handle') AS late,
	   queue_state.extend_lease(:'id', :'receipt_handle', '1 hour') AS late;
SELECT id = :'id' AS same_message, receipt_handle <> :'receipt_handle' AS new_handle, delivery_attempts,
	   receipt_handle AS second_handle FROM queue_state.dequeue('held') \gset
\echo :same_message :new_handle :delivery_attempts
SELECT queue_state.acknowledge(:'id', :'receipt_handle') AS earlier,
	   queue_state.extend_lease(:'id', :'receipt_handle', '1 hour') AS earlier;
SELECT state, delivery_attempts FROM queue_state.queue_message WHERE id = :'id';

-- A lease that is alive can be extended and acknowledged past the message's expiry.
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() - interval '1 hour' WHERE id = :'id';
SELECT queue_state.extend_lease(:'id', :'second_handle', '1 hour') - clock_timestamp()
	BETWEEN '59 minutes' AND '1 hour' AS extended;
SELECT queue_state.extend_lease(:'id', :'second_handle', '1 second') - clock_timestamp()
	BETWEEN '0 s' AND '1 second' AS shortened;
SELECT queue_state.extend_lease(:'id', :'second_handle', '12 hours') AS until \gset
SELECT available_after = :'until' AS told FROM queue_state.queue_message WHERE id = :'id';
SELECT queue_state.acknowledge(:'id', :'second_handle');
SELECT queue_state.extend_lease(:'id', :'second_handle', '1 hour') AS gone,
	   queue_state.extend_lease(NULL, NULL, '1 hour') AS none;
\set VERBOSITY sqlstate
SELECT queue_state.extend_lease(:'id', :'second_handle', NULL);
SELECT queue_state.extend_lease(:'id', :'second_handle', '0.5 s');
SELECT queue_state.extend_lease(:'id', :'second_handle', '12 hours 1 second');
SELECT queue_state.acknowledge_batch(ARRAY[:'id']::uuid[], '{}');
SELECT queue_state.acknowledge_batch(ARRAY[:'id']::uuid[], NULL);
\set VERBOSITY default
SELECT queue_state.acknowledge_batch(ARRAY[:'id', :'id']::uuid[], ARRAY[:'id']::uuid[]);
SELECT queue_state.extend_lease(:'id', :'second_handle', '1 day');

-- Batches count each message once, and only what is held.
CREATE TEMP TABLE lease AS SELECT id, receipt_handle FROM queue_state.dequeue('held', 4);
SELECT queue_state.acknowledge_batch(
	(SELECT array_agg(id) FROM lease) || (SELECT array_agg(id) FROM lease)
		|| gen_random_uuid() || NULL::uuid,
	(SELECT array_agg(receipt_handle) FROM lease) || (SELECT array_agg(receipt_handle) FROM lease)
		|| gen_random_uuid() || gen_random_uuid());
SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) AS again FROM lease;
SELECT queue_state.acknowledge_batch('{}', '{}') AS none, queue_state.acknowledge_batch(NULL, NULL) AS none;
-- handles belong to their ids
TRUNCATE lease;
INSERT INTO lease SELECT id, receipt_handle FROM queue_state.dequeue('held', 2);
SELECT queue_state.acknowledge_batch(array_agg(id ORDER BY id), array_agg(receipt_handle ORDER BY id DESC)) AS crossed,
	   queue_state.acknowledge_batch(array_agg(id ORDER BY id DESC), array_agg(receipt_handle ORDER BY id DESC)) AS straight
	FROM lease;

-- A lease counts from when it was taken, not from the transaction's start.
BEGIN;
SELECT pg_sleep(2.1);
SELECT id, receipt_handle, lease_expires_at - clock_timestamp() BETWEEN '0 s' AND '2 s' AS alive
	FROM queue_state.dequeue('held', 1, '2 seconds') \gset
\echo :alive
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
COMMIT;

-- At the stricter levels too, whatever the snapshot sees.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT id, receipt_handle FROM queue_state.dequeue('held') \gset
SELECT queue_state.extend_lease(:'id', :'receipt_handle', '1 minute') IS NOT NULL AS extended;
SELECT queue_state.acknowledge(:'id', :'receipt_handle'), queue_state.acknowledge(:'id', :'receipt_handle') AS again;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queue_state.enqueue('held', '"last"') IS NOT NULL AS enqueued;
TRUNCATE lease;
INSERT INTO lease SELECT id, receipt_handle FROM queue_state.dequeue('held', 10);
SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) FROM lease;
COMMIT;

BEGIN READ ONLY;
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
ROLLBACK;

SELECT sum(ready) AS ready, sum(in_flight) AS in_flight, sum(enqueued_total) AS enqueued,
	   sum(delivered_total) AS delivered, sum(acknowledged_total) AS acknowledged
	FROM queue_state.snapshot() WHERE queue_name = 'held';

-- After the queue is gone as well.
SELECT queue_state.enqueue('held', '1') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('held') \gset
SELECT queue_state.drop_queue('held', true);
SELECT queue_state.acknowledge(:'id', :'receipt_handle');

SELECT * FROM queue_state.verify();

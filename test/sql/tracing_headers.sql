--
-- Headers pass through unchanged: a trace begun by the producer can be
-- followed to every delivery, into the dead letters and back.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('traced', max_delivery_attempts => 2);
\set trace '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "correlation-id": "order-4711", "nested": {"list": [1, 2.50, null, "ü"]}}'

-- From the enqueue to the first delivery.
SELECT queue_state.enqueue('traced', '{"order": 4711}', headers => :'trace') AS id \gset
SELECT receipt_handle, headers FROM queue_state.dequeue('traced') \gset
SELECT :'headers'::jsonb = :'trace'::jsonb AS delivered_unchanged,
	   :'headers'::jsonb ->> 'traceparent' AS traceparent, :'headers'::jsonb ->> 'correlation-id' AS correlation_id;

-- Given back, and to the next delivery.
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'no stock');
SELECT receipt_handle, headers = :'trace'::jsonb AS unchanged FROM queue_state.dequeue('traced') \gset
SELECT :'unchanged'::boolean AS redelivered_unchanged;

-- To the dead letter, which keeps the whole history.
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'still no stock');
SELECT headers = :'trace'::jsonb AS unchanged, reason, delivery_attempts, last_error
	FROM queue_state.queue_dead_letter_message WHERE id = :'id';

-- And back: the same id and headers, with the first time of enqueueing added.
SELECT to_char(enqueued_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS first_time
	FROM queue_state.queue_dead_letter_message WHERE id = :'id' \gset
SELECT queue_state.redrive_dead_letters('traced', ids => ARRAY[:'id']::uuid[]);
SELECT id, receipt_handle, headers FROM queue_state.dequeue('traced') \gset delivered_
SELECT :'delivered_id' = :'id' AS same_id,
	   :'delivered_headers'::jsonb - 'original-enqueued-at' = :'trace'::jsonb AS unchanged,
	   :'delivered_headers'::jsonb ->> 'original-enqueued-at' = :'first_time' AS first_time_kept;
SELECT queue_state.reject(:'id', :'delivered_receipt_handle', 'no');
SET timezone = 'Asia/Kathmandu';
SELECT queue_state.redrive_dead_letters('traced');
RESET timezone;
SELECT headers ->> 'original-enqueued-at' = :'first_time' AS first_time_still_kept,
	   headers - 'original-enqueued-at' = :'trace'::jsonb AS unchanged
	FROM queue_state.queue_message WHERE id = :'id';

-- In a batch each message has its own; one without headers has none.
SELECT count(*) FROM queue_state.enqueue_batch('traced', ARRAY['1', '2', '3']::jsonb[], 'HIGH',
	headers => ARRAY['{"correlation-id": "a"}', NULL, '{"correlation-id": "c"}']::jsonb[]);
SELECT payload, headers FROM queue_state.dequeue('traced', 3) ORDER BY payload;

-- Elapsed and used up, moved by maintenance.
SELECT queue_state.enqueue('traced', '4', headers => :'trace') AS id \gset
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT', delivery_attempts = 2,
	available_after = clock_timestamp() WHERE id = :'id';
SELECT queue_state.dead_letter_exhausted();
SELECT headers = :'trace'::jsonb AS unchanged FROM queue_state.queue_dead_letter_message WHERE id = :'id';

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('traced', true);

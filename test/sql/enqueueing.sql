--
-- Putting messages into a queue.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('letters', default_ttl => '1 hour');

-- What is not said comes from the queue.
SELECT queue_state.enqueue('letters', '{"to": "Ada"}') AS id \gset
SELECT priority, state, delivery_attempts, expires_at - enqueued_at AS ttl,
	   last_delivered_at, receipt_handle, deduplication_key, headers, payload, last_error,
	   clock_timestamp() - enqueued_at BETWEEN '0 s' AND '1 minute' AS enqueued_now
	FROM queue_state.queue_message WHERE id = :'id';

-- What is said.
SELECT queue_state.enqueue('letters', 'null', 'HIGH', '2 hours', '30 minutes',
						   '{"traceparent": "00-ab-cd-01"}', 'one') AS id \gset
SELECT priority, state, expires_at - enqueued_at AS ttl, available_after - enqueued_at AS delay,
	   deduplication_key, headers, payload
	FROM queue_state.queue_message WHERE id = :'id';
SELECT ready, in_flight, delayed, enqueued_total FROM queue_state.snapshot()
	WHERE queue_name = 'letters';

-- No delay is no delay; the bounds themselves are fine.
SELECT queue_state.enqueue('letters', '1', delay => '0 s') AS no_delay,
	   queue_state.enqueue('letters', '1', ttl => '1 second') AS shortest,
	   queue_state.enqueue('letters', '1', ttl => '30 days') AS longest \gset
SELECT state, expires_at - enqueued_at AS ttl FROM queue_state.queue_message
	WHERE id IN (:'no_delay', :'shortest', :'longest') ORDER BY ttl;

-- The caller's mistakes, each with its own code.
\set VERBOSITY sqlstate
SELECT queue_state.enqueue(NULL, '1');
SELECT queue_state.enqueue('letters', NULL);
SELECT queue_state.enqueue('letters', '1', NULL);
SELECT queue_state.enqueue('no-such-queue', '1');
SELECT queue_state.enqueue('letters', '1', ttl => '0.9 s');
SELECT queue_state.enqueue('letters', '1', ttl => '30 days 1 s');
SELECT queue_state.enqueue('letters', '1', ttl => '-1 day');
SELECT queue_state.enqueue('letters', '1', delay => '-1 s');
SELECT queue_state.enqueue('letters', '1', delay => '1 hour');
SELECT queue_state.enqueue('letters', '1', ttl => '1 minute', delay => '2 minutes');
SELECT queue_state.enqueue('letters', '1', headers => '[]');
SELECT queue_state.enqueue('letters', '1', headers => '"text"');
SELECT queue_state.enqueue('letters', '1', deduplication_key => '');
SELECT queue_state.enqueue('letters', '1', deduplication_key => repeat('k', 257));
\set VERBOSITY default

-- They say what is wrong and what to do.
SELECT queue_state.enqueue('leters', '1');
SELECT queue_state.enqueue('something-else', '1');
SELECT queue_state.enqueue(repeat('x', 100000), '1');
SELECT queue_state.enqueue(NULL, '1');
SELECT queue_state.enqueue('letters', '1', ttl => '31 days');
SELECT queue_state.enqueue('letters', '1', headers => '[1]');
SELECT queue_state.enqueue('letters', '1', deduplication_key => '');

-- A paused queue accepts messages.
SELECT queue_state.pause_queue('letters') IS NOT NULL AS paused;
SELECT queue_state.enqueue('letters', '"while paused"') IS NOT NULL AS accepted;
SELECT queue_state.resume_queue('letters') IS NOT NULL AS resumed;

-- One live message per key: the second gets the first one's id, adds nothing.
SELECT queue_state.enqueue('letters', '"first"', deduplication_key => 'k') AS id \gset
SELECT queue_state.enqueue('letters', '"second"', 'HIGH', deduplication_key => 'k') = :'id' AS same;
SELECT count(*), min(payload::text) FROM queue_state.queue_message WHERE deduplication_key = 'k';
-- keys are a queue's own, and a leased message is still live
SELECT name FROM queue_state.create_queue('parcels');
SELECT queue_state.enqueue('parcels', '1', deduplication_key => 'k') <> :'id' AS another;
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT', receipt_handle = gen_random_uuid(),
		available_after = clock_timestamp() + interval '1 minute', expires_at = clock_timestamp()
	WHERE id = :'id';
SELECT queue_state.enqueue('letters', '"third"', deduplication_key => 'k') = :'id' AS same;
-- an expired one is in nobody's way, and counted as expired
UPDATE queue_state.queue_message SET available_after = clock_timestamp(), delivery_attempts = 1
	WHERE id = :'id';
SELECT queue_state.enqueue('letters', '"fourth"', deduplication_key => 'k') AS id2 \gset
SELECT :'id2' <> :'id' AS another;
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() WHERE id = :'id2';
SELECT queue_state.enqueue('letters', '"fifth"', 'LOW', deduplication_key => 'k') <> :'id2' AS another;
SELECT payload FROM queue_state.queue_message WHERE deduplication_key = 'k' AND priority = 'LOW';
SELECT sum(enqueued_total) AS enqueued, sum(expired_never_delivered_total) AS never,
	   sum(expired_previously_delivered_total) AS previously
	FROM queue_state.snapshot() WHERE queue_name = 'letters';
-- acknowledged: the key is free again
SELECT id, receipt_handle FROM queue_state.dequeue('parcels') \gset
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT queue_state.enqueue('parcels', '2', deduplication_key => 'k') <> :'id' AS another;

-- A trigger that suppresses the row leaves nothing to count.
CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER suppress BEFORE INSERT ON queue_state.queue_message
	FOR EACH ROW WHEN (NEW.payload = '"unwanted"') EXECUTE FUNCTION suppress();
SELECT queue_state.enqueue('parcels', '"unwanted"') IS NULL AS suppressed;
SELECT queue_state.enqueue('parcels', '"unwanted"', deduplication_key => 'u') IS NULL AS suppressed;
SELECT count(*) FROM queue_state.enqueue_batch('parcels', ARRAY['1', '"unwanted"', '2']::jsonb[]);
DROP TRIGGER suppress ON queue_state.queue_message;
DROP FUNCTION suppress();

-- Batches: in order, with one clock reading, also as many as anybody wants.
SELECT name FROM queue_state.create_queue('pallets');
CREATE TEMP TABLE batch AS
	SELECT id, ordinality FROM queue_state.enqueue_batch('pallets',
		ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 1000) i)) WITH ORDINALITY AS b (id);
SELECT count(*), bool_and(m.payload = to_jsonb(b.ordinality)) AS in_order,
	   count(DISTINCT m.enqueued_at) AS moments,
	   bool_and(m.id > before) AS increasing
	FROM (SELECT *, lag(id) OVER (ORDER BY ordinality) AS before FROM batch) b
	JOIN queue_state.queue_message m ON m.id = b.id;
SELECT count(*) FROM queue_state.enqueue_batch('pallets', ARRAY['1', 'null', '{}']::jsonb[], 'LOW',
		'1 hour', '1 minute', ARRAY['{"a": 1}', NULL, '{}']::jsonb[]);
SELECT priority, state, expires_at - enqueued_at AS ttl, available_after - enqueued_at AS delay,
	   headers, payload
	FROM queue_state.queue_message WHERE priority = 'LOW' AND state = 'DELAYED'
		AND queue_id = (SELECT queue_id FROM queue_state.queue WHERE name = 'pallets') ORDER BY id;
SELECT * FROM queue_state.enqueue_batch('pallets', '{}');
SELECT * FROM queue_state.enqueue_batch('pallets', '{}', headers => '{}');
SELECT queue_state.enqueue_batch('pallets', ARRAY['"in the target list"']::jsonb[]) IS NOT NULL AS enqueued;
\set VERBOSITY sqlstate
SELECT queue_state.enqueue_batch(NULL, ARRAY['1']::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', NULL);
SELECT queue_state.enqueue_batch('pallets', ARRAY['1']::jsonb[], NULL);
SELECT queue_state.enqueue_batch('no-such-queue', ARRAY['1']::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', ARRAY['1', NULL]::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', ARRAY[['1', '2'], ['3', '4']]::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', ARRAY['1', '2']::jsonb[], headers => ARRAY['{}']::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', ARRAY['1', '2']::jsonb[], headers => ARRAY['{}', '[]']::jsonb[]);
SELECT queue_state.enqueue_batch('pallets', ARRAY['1']::jsonb[], ttl => '0 s');
SELECT queue_state.enqueue_batch('pallets', ARRAY['1']::jsonb[], delay => '8 days');
\set VERBOSITY default
SELECT priority, ready, delayed, enqueued_total FROM queue_state.snapshot()
	WHERE queue_name = 'pallets';

-- Ids: version 7, increasing, and the shard is the last byte.
SELECT count(*), count(DISTINCT id) AS different, bool_and(id > before) AS increasing,
	   bool_and(substr(id::text, 15, 1) = '7') AS version_7,
	   bool_and(substr(id::text, 20, 1) IN ('8', '9', 'a', 'b')) AS variant,
	   bool_and(queue_state.message_shard(id) =
				get_byte(decode(right(id::text, 2), 'hex'), 0) % 32) AS shard
	FROM (SELECT id, lag(id) OVER (ORDER BY i) AS before
			FROM (SELECT i, queue_state.uuidv7() AS id FROM generate_series(1, 1000) i) made) ordered;
SELECT queue_state.message_shard('00000000-0000-0000-0000-0000000000ff');

-- A batch keeps to a few shards, evenly.
SELECT size, count(*) AS shards, min(messages) AS least, max(messages) AS most
	FROM (SELECT size, count(*) AS messages
			FROM unnest(ARRAY[3, 50, 100, 1000]) AS size,
				 queue_state.enqueue_batch('pallets', array_fill('1'::jsonb, ARRAY[size])) AS id
			GROUP BY size, queue_state.message_shard(id)) AS by_shard
	GROUP BY size ORDER BY size;

SELECT * FROM queue_state.verify();
SELECT name, queue_state.drop_queue(name, true) FROM unnest(ARRAY['letters', 'parcels', 'pallets']) name;

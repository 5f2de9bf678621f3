--
-- Which messages a consumer gets, and in which order.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('work', visibility_timeout => '1 minute');

-- A lease, and all that is told about it.
SELECT queue_state.enqueue('work', '{"n": 1}', headers => '{"a": "b"}') AS id \gset
SELECT d.id = :'id' AS same, d.priority, d.delivery_attempts, d.headers, d.payload,
	   d.lease_expires_at - clock_timestamp() BETWEEN '0 s' AND '1 minute' AS a_minute
	FROM queue_state.dequeue('work') d;
SELECT state, delivery_attempts, receipt_handle IS NOT NULL AS has_handle,
	   available_after - last_delivered_at AS lease,
	   clock_timestamp() - last_delivered_at BETWEEN '0 s' AND '1 minute' AS delivered_now
	FROM queue_state.queue_message WHERE id = :'id';
SELECT count(*) FROM queue_state.dequeue('work');
SELECT queue_state.purge_queue('work');

-- HIGH before MEDIUM before LOW, oldest first, in one batch as in many.
SELECT count(queue_state.enqueue('work', to_jsonb(priority || ' ' || i), priority))
	FROM generate_series(1, 3) i,
		unnest(ARRAY['LOW', 'HIGH', 'MEDIUM']::queue_state.message_priority[]) priority;
SELECT payload FROM queue_state.dequeue('work', 4);
SELECT payload FROM queue_state.dequeue('work');
SELECT payload FROM queue_state.dequeue('work');
SELECT payload FROM queue_state.dequeue('work', 10000);

-- Elapsed leases come first within their priority, in the order in which they
-- elapsed, and a HIGH one before fresh messages of less priority.
UPDATE queue_state.queue_message
	SET available_after = clock_timestamp() - interval '1 hour'
		- CASE payload #>> '{}' WHEN 'MEDIUM 2' THEN interval '2 minutes' WHEN 'MEDIUM 1' THEN interval '1 minute'
			ELSE '0 s' END
	WHERE payload #>> '{}' IN ('HIGH 3', 'MEDIUM 1', 'MEDIUM 2', 'LOW 1');
SELECT count(queue_state.enqueue('work', to_jsonb('new ' || priority), priority))
	FROM unnest(ARRAY['LOW', 'HIGH', 'MEDIUM']::queue_state.message_priority[]) priority;
SELECT payload, delivery_attempts FROM queue_state.dequeue('work', 100);
SELECT queue_state.purge_queue('work');

-- Delayed messages are delivered when their time has come, before READY ones.
SELECT count(queue_state.enqueue('work', '"later"', delay => '1 hour'));
SELECT count(queue_state.enqueue('work', '"ready"'));
SELECT payload FROM queue_state.dequeue('work', 10);
UPDATE queue_state.queue_message SET available_after = clock_timestamp() WHERE state = 'DELAYED';
SELECT count(queue_state.enqueue('work', '"ready"'));
SELECT payload FROM queue_state.dequeue('work', 10);
SELECT queue_state.purge_queue('work');

-- Nothing expired is delivered, READY or elapsed; a live lease keeps it.
SELECT count(queue_state.enqueue('work', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT payload FROM queue_state.dequeue('work', 2);
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() WHERE payload IN ('1', '3');
UPDATE queue_state.queue_message SET available_after = clock_timestamp() WHERE payload = '1';
SELECT payload FROM queue_state.dequeue('work', 10);
SELECT sum(dead_letters) AS dead_letters, sum(expired_backlog) AS expired, sum(elapsed_backlog) AS elapsed
	FROM queue_state.snapshot() WHERE queue_name = 'work';
SELECT queue_state.purge_queue('work');

-- Exhausted messages become dead letters, at most eight at a time, of every
-- priority and also when there is enough to deliver.
SELECT max_delivery_attempts FROM queue_state.update_queue('work', max_delivery_attempts => 2);
SELECT count(*) FROM queue_state.enqueue_batch('work', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 20) i), 'LOW',
	headers => ARRAY(SELECT jsonb_build_object('h', i) FROM generate_series(1, 20) i));
UPDATE queue_state.queue_message SET delivery_attempts = 1;
SELECT count(*) FROM queue_state.dequeue('work', 100);
UPDATE queue_state.queue_message SET available_after = clock_timestamp();
SELECT count(queue_state.enqueue('work', '"good"', 'HIGH')) FROM generate_series(1, 5);
SELECT payload, delivery_attempts FROM queue_state.dequeue('work');
SELECT count(*) FROM queue_state.queue_dead_letter_message;
SELECT payload, delivery_attempts FROM queue_state.dequeue('work', 2);
SELECT count(*) FROM queue_state.queue_dead_letter_message;
SELECT payload, delivery_attempts FROM queue_state.dequeue('work', 10);
SELECT count(*), min(reason) AS reason, bool_and(delivery_attempts = 2) AS attempts,
	   bool_and(headers -> 'h' = payload) AS headers, bool_and(priority = 'LOW') AS priority,
	   bool_and(last_delivered_at IS NOT NULL) AS delivered
	FROM queue_state.queue_dead_letter_message;
SELECT priority, ready, in_flight, exhausted, dead_letters, delivered_total, dead_lettered_total
	FROM queue_state.snapshot() WHERE queue_name = 'work';
SELECT queue_state.purge_queue('work');

-- A paused queue delivers nothing.
SELECT queue_state.enqueue('work', '1') IS NOT NULL AS enqueued;
SELECT queue_state.pause_queue('work') IS NOT NULL AS paused;
SELECT count(*) FROM queue_state.dequeue('work', 10);
SELECT queue_state.resume_queue('work') IS NOT NULL AS resumed;
SELECT count(*) FROM queue_state.dequeue('work', 10);
SELECT queue_state.purge_queue('work');

-- The caller's mistakes.
\set VERBOSITY sqlstate
SELECT * FROM queue_state.dequeue(NULL);
SELECT * FROM queue_state.dequeue('work', NULL);
SELECT * FROM queue_state.dequeue('work', 0);
SELECT * FROM queue_state.dequeue('work', -1);
SELECT * FROM queue_state.dequeue('work', 10001);
SELECT * FROM queue_state.dequeue('work', 1, '0.999 s');
SELECT * FROM queue_state.dequeue('work', 1, '12 hours 1 second');
SELECT * FROM queue_state.dequeue('no-such-queue');
BEGIN READ ONLY;
SELECT * FROM queue_state.dequeue('work');
ROLLBACK;
\set VERBOSITY default
SELECT * FROM queue_state.dequeue('work', 10001);
SELECT * FROM queue_state.dequeue('work', 1, '13 hours');
SELECT * FROM queue_state.dequeue('wrk');

-- What a rollback gives back is delivered at once, and in its old place.
SELECT count(*) FROM queue_state.enqueue_batch('work', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 6) i));
SELECT payload FROM queue_state.dequeue('work', 1);
BEGIN;
SELECT payload FROM queue_state.dequeue('work', 2);
ROLLBACK;
SELECT payload, delivery_attempts FROM queue_state.dequeue('work', 1);
BEGIN;
SAVEPOINT s;
SELECT payload FROM queue_state.dequeue('work', 2);
ROLLBACK TO s;
SELECT payload FROM queue_state.dequeue('work', 1);
SAVEPOINT s;
SELECT payload FROM queue_state.dequeue('work', 1);
RELEASE s;
COMMIT;
SELECT payload FROM queue_state.dequeue('work', 10);
SELECT queue_state.purge_queue('work');

-- Clocks: a message from the future, one from the past behind what was delivered.
SELECT queue_state.enqueue('work', '"now"') AS id \gset
INSERT INTO queue_state.queue_message (queue_id, payload, enqueued_at)
	SELECT queue_id, '"future"', clock_timestamp() + interval '1 day' FROM queue_state.queue WHERE name = 'work';
SELECT payload FROM queue_state.dequeue('work', 10);
INSERT INTO queue_state.queue_message (queue_id, payload, enqueued_at)
	SELECT queue_id, '"past"', clock_timestamp() - interval '1 day' FROM queue_state.queue WHERE name = 'work';
SELECT payload FROM queue_state.dequeue('work', 10);
SELECT queue_state.purge_queue('work');

-- In one transaction, and in one statement, with the enqueueing.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queue_state.enqueue('work', '1') IS NOT NULL AS enqueued;
SELECT payload FROM queue_state.dequeue('work', 10);
COMMIT;
DO $$
DECLARE
	d	queue_state.delivery;
BEGIN
	PERFORM queue_state.enqueue('work', '2');
	SELECT * INTO STRICT d FROM queue_state.dequeue('work');
	IF NOT queue_state.acknowledge(d.id, d.receipt_handle) THEN
		RAISE EXCEPTION 'not acknowledged';
	END IF;
END $$;
SELECT (queue_state.dequeue('work', 10)).payload;
SELECT queue_state.purge_queue('work');

-- No plan of the planner's, whatever it is told or has forgotten.
SELECT count(*) FROM queue_state.enqueue_batch('work', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 50) i));
DELETE FROM pg_statistic WHERE starelid = 'queue_state.queue_message'::regclass;
SET plan_cache_mode = force_custom_plan;
SET enable_indexscan = off;
SET enable_tidscan = off;
SELECT count(*), min((payload)::int), max((payload)::int) FROM queue_state.dequeue('work', 5);
SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) FROM queue_state.dequeue('work', 7);
SHOW plan_cache_mode;
RESET plan_cache_mode;
RESET enable_indexscan;
RESET enable_tidscan;
SELECT count(*), min((payload)::int), max((payload)::int) FROM queue_state.dequeue('work', 100);
SELECT queue_state.purge_queue('work');

-- A user's triggers fire: they see the lease, may change it and may refuse it.
CREATE TABLE seen (payload jsonb, before queue_state.message_state, after queue_state.message_state);
CREATE FUNCTION leased() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF TG_WHEN = 'AFTER' THEN
		INSERT INTO seen VALUES (NEW.payload, OLD.state, NEW.state);
	ELSIF NEW.payload = '2' THEN
		RETURN NULL;
	ELSIF NEW.payload = '3' THEN
		NEW.headers := '{"changed": true}';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER leased_before BEFORE UPDATE ON queue_state.queue_message FOR EACH ROW EXECUTE FUNCTION leased();
CREATE TRIGGER leased_after AFTER UPDATE ON queue_state.queue_message FOR EACH ROW EXECUTE FUNCTION leased();
SELECT count(*) FROM queue_state.enqueue_batch('work', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 4) i));
SELECT payload, headers FROM queue_state.dequeue('work', 4);
SELECT * FROM seen ORDER BY payload;
SELECT payload FROM queue_state.dequeue('work', 4);
SELECT priority, ready, in_flight, delivered_total FROM queue_state.snapshot()
	WHERE queue_name = 'work' AND priority = 'MEDIUM';
DROP TRIGGER leased_before ON queue_state.queue_message;
DROP TRIGGER leased_after ON queue_state.queue_message;
DROP FUNCTION leased();
DROP TABLE seen;
SELECT payload FROM queue_state.dequeue('work', 4);
SELECT queue_state.purge_queue('work');

-- A user's column, added and dropped between calls.
SELECT queue_state.enqueue('work', '"before"') IS NOT NULL AS enqueued;
ALTER TABLE queue_state.queue_message ADD COLUMN tenant integer NOT NULL DEFAULT 7;
SELECT queue_state.enqueue('work', '"with"') IS NOT NULL AS enqueued;
SELECT queue_state.acknowledge(id, receipt_handle), payload FROM queue_state.dequeue('work', 1);
ALTER TABLE queue_state.queue_message DROP COLUMN tenant;
SELECT queue_state.enqueue('work', '"after"') IS NOT NULL AS enqueued;
SELECT queue_state.acknowledge(id, receipt_handle), payload FROM queue_state.dequeue('work', 10);

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('work', true);

--
-- Sessions keep queue details, and never an old answer.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

CREATE FUNCTION ttl_of(name text, OUT ttl interval) LANGUAGE sql AS $$
	WITH e AS MATERIALIZED (SELECT queue_state.enqueue(name, '1') AS id) SELECT NULL::interval FROM e;
	SELECT expires_at - enqueued_at FROM queue_state.queue_message ORDER BY id DESC LIMIT 1;
$$;

-- A change is seen by the next call, in the same transaction too.
SELECT name FROM queue_state.create_queue('cached', default_ttl => '1 hour');
SELECT ttl_of('cached');
SELECT default_ttl FROM queue_state.update_queue('cached', default_ttl => '2 hours');
SELECT ttl_of('cached');
BEGIN;
UPDATE queue_state.queue SET default_ttl = '3 hours' WHERE name = 'cached';
SELECT ttl_of('cached');
ROLLBACK;
SELECT ttl_of('cached');

-- Savepoints take the knowledge back with the change.
BEGIN;
SAVEPOINT s;
SELECT name FROM queue_state.create_queue('brief', default_ttl => '5 minutes');
SELECT ttl_of('brief');
ROLLBACK TO s;
\set VERBOSITY sqlstate
SELECT ttl_of('brief');
\set VERBOSITY default
ROLLBACK;

DO $$
BEGIN
	BEGIN
		PERFORM queue_state.update_queue('cached', default_ttl => '9 hours');
		RAISE NOTICE 'inside: %', ttl_of('cached');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		RAISE NOTICE 'after: %', ttl_of('cached');
	END;
END $$;

-- A queue of the same name is another queue.
SELECT queue_state.drop_queue('cached', true);
\set VERBOSITY sqlstate
SELECT queue_state.enqueue('cached', '1');
SELECT * FROM queue_state.dequeue('cached');
\set VERBOSITY default
SELECT name FROM queue_state.create_queue('cached', default_ttl => '4 hours');
SELECT ttl_of('cached');
SELECT count(*) FROM queue_state.dequeue('cached', 10);

-- A snapshot older than the change does not bring the old answer back.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT ttl_of('cached');
UPDATE queue_state.queue SET default_ttl = '6 hours' WHERE name = 'cached';
SELECT ttl_of('cached');
ROLLBACK;
SELECT ttl_of('cached');

-- Also when triggers are switched off, and for TRUNCATE.
SET session_replication_role = replica;
UPDATE queue_state.queue SET default_ttl = '7 hours' WHERE name = 'cached';
RESET session_replication_role;
SELECT ttl_of('cached');
BEGIN;
TRUNCATE queue_state.queue CASCADE;
\set VERBOSITY sqlstate
SELECT queue_state.enqueue('cached', '1');
\set VERBOSITY default
ROLLBACK;
SELECT ttl_of('cached');

-- More queues than the cache has room for.
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		PERFORM queue_state.create_queue('many-' || i, default_ttl => make_interval(secs => i));
	END LOOP;
	FOR n IN 1 .. 2 LOOP
		FOR i IN 1 .. 300 LOOP
			IF ttl_of('many-' || i) <> make_interval(secs => i) THEN
				RAISE EXCEPTION 'queue % has another''s time to live', i;
			END IF;
			PERFORM queue_state.dequeue('many-' || i);
		END LOOP;
	END LOOP;
END $$;
SELECT count(*), sum(delivered_total) FROM queue_state.snapshot()
	WHERE queue_name LIKE 'many-%' AND priority = 'MEDIUM';
SELECT count(queue_state.drop_queue(name, true)) FROM queue_state.queue WHERE name LIKE 'many-%';

-- Whether a queue exists is kept, too, but not of one that may yet be rolled
-- back, and no longer than it is so.
CREATE FUNCTION insert_message(queue_id integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO queue_state.queue_message (queue_id, payload)
		VALUES (insert_message.queue_id, '1');
	RETURN 'inserted';
EXCEPTION WHEN foreign_key_violation THEN
	RETURN 'no such queue';
END $$;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE division_by_zero; END';
CREATE TRIGGER fail_at_last AFTER INSERT ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION fail();
DO $$
BEGIN
	WITH q AS (
		INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'known') RETURNING queue_id
	)
	INSERT INTO queue_state.queue_message (queue_id, payload) SELECT queue_id, '1' FROM q;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'after the message was counted';
END $$;
DROP FUNCTION fail() CASCADE;
SELECT insert_message(900001);
BEGIN;
INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'known');
SELECT insert_message(900001), insert_message(900001);
ROLLBACK;
SELECT insert_message(900001);
INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'known');
SELECT insert_message(900001), insert_message(900001);
BEGIN;
DELETE FROM queue_state.queue WHERE name = 'known';
SELECT insert_message(900001);
ROLLBACK;
SELECT insert_message(900001), insert_message(0), insert_message(-1), insert_message(900065);
DELETE FROM queue_state.queue WHERE name = 'known';
SELECT insert_message(900001);
INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'known');
SELECT insert_message(900001);
SET session_replication_role = replica;
DELETE FROM queue_state.queue_message WHERE queue_id = 900001;
DELETE FROM queue_state.queue_priority_state_shard WHERE queue_id = 900001;
DELETE FROM queue_state.queue_priority_state_pending WHERE queue_id = 900001;
DELETE FROM queue_state.queue WHERE name = 'known';
RESET session_replication_role;
SELECT insert_message(900001);
DROP FUNCTION insert_message(integer);

-- It is only a trigger.
\set VERBOSITY sqlstate
SELECT queue_state.queue_changed();
\set VERBOSITY default

SELECT * FROM queue_state.verify();

-- An extension that is created again in the same session is another one.
SET client_min_messages = warning;
DROP EXTENSION queue_state CASCADE;
CREATE EXTENSION queue_state;
RESET client_min_messages;
\set VERBOSITY sqlstate
SELECT queue_state.enqueue('cached', '1');
\set VERBOSITY default
SELECT name FROM queue_state.create_queue('cached', default_ttl => '1 minute');
SELECT ttl_of('cached');
SELECT count(*) FROM queue_state.enqueue_batch('cached', ARRAY['2', '3']::jsonb[]);
SELECT count(queue_state.enqueue('cached', '4', deduplication_key => 'k')) FROM generate_series(1, 2);
SELECT payload, queue_state.extend_lease(id, receipt_handle, '1 minute') IS NOT NULL AS extended,
	   queue_state.acknowledge(id, receipt_handle)
	FROM queue_state.dequeue('cached', 3);
SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle))
	FROM queue_state.dequeue('cached', 3);
SELECT * FROM queue_state.verify();

DROP FUNCTION ttl_of(text);
SELECT queue_state.drop_queue('cached', true);

--
-- DROP EXTENSION and CREATE EXTENSION again in one session: every number the
-- backend remembers is another one then.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;

-- Use everything once, so that everything is remembered.
SELECT (queue_state.create_queue('recreated')).queue_id AS q1 \gset
CREATE FUNCTION recreate_use() RETURNS TABLE (step text, result text) LANGUAGE plpgsql AS $$
DECLARE
	d queue_state.delivery;
BEGIN
	PERFORM queue_state.enqueue('recreated', '1', 'HIGH');
	PERFORM queue_state.enqueue_batch('recreated', ARRAY['2', '3']::jsonb[]);
	SELECT * INTO d FROM queue_state.dequeue('recreated');
	RETURN QUERY VALUES ('payload', d.payload::text);
	RETURN QUERY VALUES ('acknowledged', queue_state.acknowledge(d.id, d.receipt_handle)::text);
	SELECT * INTO d FROM queue_state.dequeue('recreated');
	RETURN QUERY VALUES ('rejected', queue_state.reject(d.id, d.receipt_handle)::text);
	RETURN QUERY VALUES ('folded', queue_state.fold_pending()::text);
	RETURN QUERY SELECT 'physical', p::text FROM (SELECT priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name = 'recreated') p;
	RETURN QUERY SELECT 'snapshot', s::text FROM (SELECT priority, ready, in_flight, enqueued_total, delivered_total, acknowledged_total, dead_lettered_total FROM queue_state.snapshot() WHERE queue_name = 'recreated') s;
	RETURN QUERY SELECT 'drift', v::text FROM queue_state.verify() v;
END $$;
-- In one transaction and in several.
SELECT * FROM recreate_use();
TRUNCATE queue_state.queue_message;
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'recreated';

DROP EXTENSION queue_state CASCADE;
SELECT * FROM recreate_use();
CREATE EXTENSION queue_state;
SELECT count(*) FROM queue_state.snapshot();
SELECT (queue_state.create_queue('recreated')).queue_id AS q1 \gset
SELECT * FROM recreate_use();
SELECT ready, in_flight, dead_letters FROM queue_state.physical_state() WHERE queue_name = 'recreated' ORDER BY priority DESC;
SELECT * FROM queue_state.verify();

-- In one transaction, with changes that are not applied yet.
BEGIN;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
DROP EXTENSION queue_state;
COMMIT;
CREATE EXTENSION queue_state;
SELECT (queue_state.create_queue('recreated')).queue_id AS q1 \gset
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
SELECT * FROM queue_state.verify();
BEGIN;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1), (:q1);
DROP EXTENSION queue_state;
CREATE EXTENSION queue_state;
SELECT (queue_state.create_queue('recreated')).queue_id AS q1 \gset
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1), (:q1), (:q1);
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'recreated';
SELECT * FROM queue_state.verify();
COMMIT;
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'recreated';
SELECT * FROM queue_state.verify();

-- A drop that is rolled back.
BEGIN;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
SAVEPOINT a;
DROP EXTENSION queue_state;
SELECT count(*) FROM pg_extension WHERE extname = 'queue_state';
ROLLBACK TO SAVEPOINT a;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
COMMIT;
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'recreated';
SELECT * FROM recreate_use();
SELECT * FROM queue_state.verify();

-- Indexes that are made anew have other numbers as well.
REINDEX TABLE CONCURRENTLY queue_state.queue_priority_state_shard;
REINDEX TABLE CONCURRENTLY queue_state.queue_priority_state_pending;
REINDEX TABLE CONCURRENTLY queue_state.queue_message;
REINDEX TABLE CONCURRENTLY queue_state.queue;
TRUNCATE queue_state.queue_message, queue_state.queue_dead_letter_message;
SELECT * FROM recreate_use();
VACUUM FULL queue_state.queue_priority_state_shard;
CLUSTER queue_state.queue_message USING queue_message_pkey;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'recreated';
SELECT * FROM queue_state.verify();

DROP FUNCTION recreate_use();
SELECT queue_state.drop_queue('recreated', true);
SELECT * FROM queue_state.verify();

-- Before there was any queue, a message needs one all the same.
SET client_min_messages = warning;
DROP EXTENSION queue_state;
CREATE EXTENSION queue_state;
RESET client_min_messages;
INSERT INTO queue_state.queue_message (queue_id) VALUES (77);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM queue_state.verify();

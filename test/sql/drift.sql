--
-- Drift, made on purpose: verify() names it, the guard explains it, rebuild()
-- repairs it, and other queues go on.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('drift')).queue_id AS q1 \gset
SELECT (queue_state.create_queue('drift.2')).queue_id AS q2 \gset
\set state 'SELECT queue_name, priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name LIKE ''drift%'' AND (ready, in_flight, delayed, dead_letters) <> (0, 0, 0, 0); SELECT * FROM queue_state.verify();'
CREATE FUNCTION drift_id(number integer) RETURNS uuid LANGUAGE sql IMMUTABLE
	AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$;
SELECT queue_state.enqueue('drift', '1') IS NOT NULL AS enqueued;
SELECT queue_state.rebuild();
:state

-- Messages that nobody counted.
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (id, queue_id, priority) SELECT drift_id(n), :q1, 'HIGH' FROM generate_series(1, 3) n;
INSERT INTO queue_state.queue_dead_letter_message
		(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)
	VALUES (drift_id(4), :q2, 'LOW', 5, now(), now(), 'REJECTED', '1');
RESET session_replication_role;
:state
-- They are delivered, but a lease takes away from READY what was never added.
SELECT id FROM queue_state.dequeue('drift');
\echo :LAST_ERROR_SQLSTATE
DELETE FROM queue_state.queue_message WHERE id = drift_id(1);
DELETE FROM queue_state.queue_dead_letter_message;
\echo :LAST_ERROR_SQLSTATE
-- The other queue goes on, and so do other shards of this one.
SELECT queue_state.enqueue('drift.2', '2') IS NOT NULL AS enqueued;
SELECT payload FROM queue_state.dequeue('drift.2');
UPDATE queue_state.queue_message SET state = 'DELAYED' WHERE queue_id = :q1 AND priority = 'MEDIUM';
:state
-- After the repair everything works.
SELECT queue_state.rebuild();
SELECT queue_state.rebuild();
:state
WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('drift', 3))
SELECT count(*), count(*) FILTER (WHERE queue_state.acknowledge(d.id, d.receipt_handle)) AS acknowledged FROM d;
DELETE FROM queue_state.queue_dead_letter_message;
:state

-- Messages that went away uncounted.
INSERT INTO queue_state.queue_message (id, queue_id) SELECT drift_id(n), :q1 FROM generate_series(1, 70) n;
ALTER TABLE queue_state.queue_message DISABLE TRIGGER USER;
DELETE FROM queue_state.queue_message WHERE queue_id = :q1 AND id <> drift_id(70);
ALTER TABLE queue_state.queue_message ENABLE TRIGGER USER;
:state
SELECT queue_state.rebuild('drift.2');
SELECT queue_state.rebuild('drift');
:state

-- The counters themselves, changed and deleted.
UPDATE queue_state.queue_priority_state_shard SET ready_count = ready_count + 5, in_flight_count = in_flight_count + 2, delivered = 1000
	WHERE queue_id = :q1 AND priority = 'MEDIUM' AND shard = 6;
:state
SELECT queue_state.rebuild();
:state
DELETE FROM queue_state.queue_priority_state_shard WHERE queue_id = :q1;
:state
SELECT queue_state.rebuild();
:state
-- Event totals stay as they were.
SELECT sum(enqueued_total) AS enqueued FROM queue_state.snapshot() WHERE queue_name = 'drift.2';

-- Two shards wrong in opposite ways: the sum is right, and verify() says so
-- all the same.
INSERT INTO queue_state.queue_message (id, queue_id, priority) VALUES (drift_id(3), :q2, 'HIGH'), (drift_id(4), :q2, 'HIGH');
UPDATE queue_state.queue_priority_state_shard SET ready_count = CASE shard WHEN 3 THEN 0 ELSE 2 END
	WHERE queue_id = :q2 AND priority = 'HIGH' AND shard IN (3, 4);
:state
DELETE FROM queue_state.queue_message WHERE id = drift_id(3);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.rebuild('drift.2');
:state
DELETE FROM queue_state.queue_message WHERE id = drift_id(3);
:state
-- Two states of one shard, and several priorities; MEDIUM has a message with an
-- id, and so a shard, of its own choice.
UPDATE queue_state.queue_priority_state_shard SET ready_count = ready_count + 1, delayed_count = delayed_count + 2, dead_letter_count = 3
	WHERE queue_id = :q2 AND priority <> 'MEDIUM' AND shard = 4;
:state
SELECT queue_state.rebuild();
:state

-- In a transaction: with own changes, and undone by a rollback.
UPDATE queue_state.queue_priority_state_shard SET ready_count = 7 WHERE queue_id = :q2 AND priority = 'HIGH' AND shard = 4;
BEGIN;
INSERT INTO queue_state.queue_message (id, queue_id, priority) VALUES (drift_id(36), :q2, 'HIGH');
SELECT queue_state.rebuild();
:state
SELECT queue_state.rebuild('drift.2');
ROLLBACK;
:state
BEGIN;
SAVEPOINT a;
SELECT queue_state.rebuild('drift.2');
ROLLBACK TO SAVEPOINT a;
DELETE FROM queue_state.queue_message WHERE id = drift_id(4);
SELECT queue_state.rebuild('drift.2');
COMMIT;
:state

-- TRUNCATE ends any drift of its table.
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1), (:q1);
RESET session_replication_role;
UPDATE queue_state.queue_priority_state_shard SET delayed_count = 7 WHERE queue_id = :q2 AND priority = 'HIGH' AND shard = 4;
TRUNCATE queue_state.queue_message;
:state

-- Messages of a queue that does not exist.
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (id, queue_id) VALUES (drift_id(5), 2000000000);
RESET session_replication_role;
:state
DELETE FROM queue_state.queue_message WHERE queue_id = 2000000000;
:state

-- It must see what was committed while it waited.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT queue_state.rebuild();
ROLLBACK;
\echo :LAST_ERROR_SQLSTATE
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queue_state.rebuild('drift');
ROLLBACK;
\echo :LAST_ERROR_SQLSTATE
BEGIN READ ONLY;
SELECT queue_state.rebuild();
ROLLBACK;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY terse
SELECT queue_state.rebuild('drift.3');
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE

DROP FUNCTION drift_id(integer);
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue WHERE name LIKE 'drift%' ORDER BY name;
SELECT * FROM queue_state.verify();

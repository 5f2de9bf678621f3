--
-- What a transaction undoes itself is never written: the counters are changed
-- at its end, by what is left.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('undone')).queue_id AS q1 \gset
INSERT INTO queue_state.queue_message (id, queue_id, priority)
	SELECT ('00000000-0000-4000-' || to_hex(40960 + ordinality) || '-' || lpad(to_hex(n), 12, '0'))::uuid, :q1, p
	FROM unnest(enum_range(NULL::queue_state.message_priority)) WITH ORDINALITY p (p, ordinality), generate_series(10, 19) n;
CREATE TEMP TABLE undone_before AS
	SELECT s.ctid AS version, s.* FROM queue_state.queue_priority_state_shard s;
CREATE TEMP VIEW undone_changed AS
	SELECT s.ctid, s.queue_id, s.priority, s.shard FROM queue_state.queue_priority_state_shard s
	EXCEPT
	SELECT b.version, b.queue_id, b.priority, b.shard FROM undone_before b;

-- There and back, by statements and by savepoints.
BEGIN;
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT';
UPDATE queue_state.queue_message SET state = 'READY';
INSERT INTO queue_state.queue_message (queue_id, payload) SELECT :q1, '"brief"' FROM generate_series(1, 100);
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'undone';
SAVEPOINT a;
DELETE FROM queue_state.queue_message;
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'undone';
ROLLBACK TO SAVEPOINT a;
DELETE FROM queue_state.queue_message WHERE payload = '"brief"';
COMMIT;
SELECT count(*) FROM undone_changed;
SELECT count(*) FROM queue_state.queue_priority_state_pending;
-- Nor does it write a row for a shard that had none.
BEGIN;
INSERT INTO queue_state.queue_message (id, queue_id, priority)
	SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, :q1, 'LOW' FROM generate_series(0, 31) n;
DELETE FROM queue_state.queue_message WHERE id < '00000000-0000-4000-9000-000000000000';
COMMIT;
SELECT count(*) FROM undone_changed;
-- What is left is written once.
BEGIN;
INSERT INTO queue_state.queue_message (id, queue_id) VALUES ('00000000-0000-4000-8000-000000000003', :q1);
UPDATE queue_state.queue_message SET state = 'DELAYED' WHERE id = '00000000-0000-4000-8000-000000000003';
SELECT count(*) FROM undone_changed;
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT' WHERE id = '00000000-0000-4000-8000-000000000003';
COMMIT;
SELECT priority, shard FROM undone_changed;
SELECT priority, ready, in_flight, delayed FROM queue_state.physical_state() WHERE queue_name = 'undone';

-- So the guard speaks at the end of the transaction, not of the statement: a
-- count may be wrong in between.
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (id, queue_id, priority) VALUES ('00000000-0000-4000-8000-000000000004', :q1, 'HIGH');
RESET session_replication_role;
SELECT queue_state.rebuild();
UPDATE queue_state.queue_priority_state_shard SET ready_count = 0 WHERE queue_id = :q1 AND priority = 'HIGH' AND shard = 4;
BEGIN;
DELETE FROM queue_state.queue_message WHERE id = '00000000-0000-4000-8000-000000000004';
SELECT 1 AS "goes on";
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.rebuild();

SELECT queue_state.drop_queue('undone', true);
SELECT * FROM queue_state.verify();

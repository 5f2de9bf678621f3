--
-- rebuild() belongs to its transaction: what is rolled back, in whatever way,
-- was not corrected.  (For prepared transactions see test/t/dump_restore.pl.)
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;

SELECT (queue_state.create_queue('undone')).queue_id AS q \gset
\set drift 'SELECT queue_name, priority, counter, recorded, actual FROM queue_state.verify();'
SELECT queue_state.enqueue('undone', '1') IS NOT NULL AS enqueued;
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (queue_id, priority) SELECT :q, 'HIGH' FROM generate_series(1, 40);
RESET session_replication_role;
:drift

-- an exception after it
DO $$
BEGIN
	PERFORM queue_state.rebuild();
	RAISE EXCEPTION 'too late';
EXCEPTION
	WHEN raise_exception THEN NULL;
END
$$;
:drift

-- a savepoint, with messages counted before, inside and after it
BEGIN;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q);
SAVEPOINT a;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q);
SELECT queue_state.rebuild('undone');
:drift
ROLLBACK TO SAVEPOINT a;
:drift
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q);
COMMIT;
:drift

-- TRUNCATE, then rebuild(), then not after all
BEGIN;
TRUNCATE queue_state.queue_message;
SELECT queue_state.rebuild();
:drift
ROLLBACK;
:drift

-- another error at the end of the transaction
CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$;
CREATE TABLE undone_table (a integer);
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON undone_table DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION fail_at_commit();
BEGIN;
SELECT queue_state.rebuild();
INSERT INTO undone_table VALUES (1);
COMMIT;
:drift
DROP TABLE undone_table;
DROP FUNCTION fail_at_commit();

SELECT queue_state.rebuild('undone');
:drift

-- and the messages that were not counted go like all others
SELECT queue_state.purge_queue('undone');
:drift
SELECT priority, ready FROM queue_state.physical_state() WHERE queue_name = 'undone';
SELECT queue_state.drop_queue('undone');
SELECT * FROM queue_state.verify();

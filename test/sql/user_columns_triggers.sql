--
-- A user's own columns, triggers, rules and constraints on the message tables.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('yours')).queue_id AS q1 \gset
\set state 'SELECT queue_name, priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name LIKE ''yours%'' AND (ready, in_flight, delayed, dead_letters) <> (0, 0, 0, 0); SELECT * FROM queue_state.verify();'

-- Columns come and go between the statements of one session, and of one
-- transaction.
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
ALTER TABLE queue_state.queue_message ADD COLUMN tenant text DEFAULT 'all', ADD COLUMN cost integer;
INSERT INTO queue_state.queue_message (queue_id, tenant, cost) VALUES (:q1, 'one', 5);
SELECT queue_state.enqueue('yours', '1', 'HIGH') IS NOT NULL AS enqueued;
UPDATE queue_state.queue_message SET cost = 7;
:state
BEGIN;
INSERT INTO queue_state.queue_message (queue_id, cost) VALUES (:q1, 1);
ALTER TABLE queue_state.queue_message DROP COLUMN tenant;
INSERT INTO queue_state.queue_message (queue_id, cost) VALUES (:q1, 2);
ALTER TABLE queue_state.queue_message ADD COLUMN tenant integer GENERATED ALWAYS AS (cost * 2) STORED;
UPDATE queue_state.queue_message SET state = 'DELAYED' WHERE tenant = 4;
:state
COMMIT;
SELECT payload FROM queue_state.dequeue('yours');
:state
BEGIN;
ALTER TABLE queue_state.queue_message ADD COLUMN temporary integer;
UPDATE queue_state.queue_message SET temporary = 1, priority = 'LOW';
ROLLBACK;
UPDATE queue_state.queue_message SET priority = 'LOW' WHERE state = 'DELAYED';
:state
ALTER TABLE queue_state.queue_message DROP COLUMN tenant, DROP COLUMN cost;
DELETE FROM queue_state.queue_message WHERE state = 'DELAYED';
:state
ALTER TABLE queue_state.queue_dead_letter_message ADD COLUMN reviewer text;
SELECT queue_state.reject(m.id, m.receipt_handle) FROM queue_state.queue_message m WHERE m.state = 'IN_FLIGHT';
UPDATE queue_state.queue_dead_letter_message SET reviewer = 'somebody';
:state
ALTER TABLE queue_state.queue_dead_letter_message DROP COLUMN reviewer;

-- A row trigger that changes the row, one that suppresses it, and one that
-- writes more rows.
CREATE FUNCTION yours_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.payload = '"urgent"' THEN
		NEW.priority := 'HIGH';
	ELSIF NEW.payload = '"spam"' THEN
		RETURN NULL;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER yours_before BEFORE INSERT OR UPDATE ON queue_state.queue_message
	FOR EACH ROW EXECUTE FUNCTION yours_before();
CREATE FUNCTION yours_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.payload = '"twice"' THEN
		INSERT INTO queue_state.queue_message (queue_id, priority, payload) VALUES (NEW.queue_id, 'LOW', '"copy"');
	ELSIF NEW.payload = '"never"' THEN
		DELETE FROM queue_state.queue_message WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER yours_after AFTER INSERT OR UPDATE ON queue_state.queue_message
	FOR EACH ROW EXECUTE FUNCTION yours_after();
INSERT INTO queue_state.queue_message (queue_id, payload)
	VALUES (:q1, '"urgent"'), (:q1, '"spam"'), (:q1, '"twice"'), (:q1, '"never"'), (:q1, '"plain"');
:state
UPDATE queue_state.queue_message SET payload = '"twice"', state = 'READY' WHERE payload = '"plain"';
:state
UPDATE queue_state.queue_message SET payload = '"spam"', state = 'IN_FLIGHT' WHERE payload = '"copy"';
:state
UPDATE queue_state.queue_message SET payload = '"never"', priority = 'HIGH' WHERE payload = '"copy"';
:state
SELECT queue_state.enqueue('yours', '"urgent"') IS NOT NULL AS enqueued;
:state
DROP TRIGGER yours_before ON queue_state.queue_message;
DROP TRIGGER yours_after ON queue_state.queue_message;

-- A statement trigger that reads the same transition tables, before and after
-- the extension's own in the order of their names.
CREATE TABLE yours_log (n serial, entry text);
CREATE FUNCTION yours_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO yours_log (entry) SELECT TG_NAME || ' ' || count(*) FROM changed;
	RETURN NULL;
END $$;
CREATE TRIGGER aaa AFTER INSERT ON queue_state.queue_message REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION yours_statement();
CREATE TRIGGER zzz AFTER INSERT ON queue_state.queue_message REFERENCING NEW TABLE AS changed
	FOR EACH STATEMENT EXECUTE FUNCTION yours_statement();
INSERT INTO queue_state.queue_message (queue_id) SELECT :q1 FROM generate_series(1, 12);
SELECT entry FROM yours_log ORDER BY n;
:state
DROP TRIGGER aaa ON queue_state.queue_message;
DROP TRIGGER zzz ON queue_state.queue_message;
-- One that writes messages for every statement.
CREATE FUNCTION yours_echo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() < 3 THEN
		INSERT INTO queue_state.queue_message (queue_id, priority, state)
			SELECT q.queue_id, 'LOW', 'DELAYED' FROM queue_state.queue q WHERE q.name = 'yours';
		DELETE FROM queue_state.queue_message WHERE priority = 'MEDIUM';
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER yours_echo AFTER INSERT ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION yours_echo();
INSERT INTO queue_state.queue_message (queue_id, priority) SELECT :q1, 'HIGH' FROM generate_series(1, 3);
:state
DROP TRIGGER yours_echo ON queue_state.queue_message;

-- A rule that turns one statement into two, and a view.
CREATE RULE yours_rule AS ON INSERT TO queue_state.queue_message WHERE NEW.payload = '"both"'
	DO ALSO UPDATE queue_state.queue_message SET state = 'READY' WHERE state = 'DELAYED';
INSERT INTO queue_state.queue_message (queue_id, payload) VALUES (:q1, '"both"');
:state
DROP RULE yours_rule ON queue_state.queue_message;
CREATE VIEW yours_view AS SELECT id, queue_id, priority FROM queue_state.queue_message WHERE priority <> 'LOW' WITH CHECK OPTION;
INSERT INTO yours_view (queue_id, priority) SELECT queue_id, 'MEDIUM' FROM queue_state.queue WHERE name = 'yours';
UPDATE yours_view SET priority = 'HIGH';
:state
DELETE FROM yours_view;
:state
DROP VIEW yours_view;

-- Row-level security hides rows from statements, and not from the counters.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_queue_state_reader;
RESET client_min_messages;
CREATE ROLE regress_queue_state_reader;
GRANT USAGE ON SCHEMA queue_state TO regress_queue_state_reader;
GRANT SELECT, INSERT, DELETE ON queue_state.queue_message TO regress_queue_state_reader;
GRANT EXECUTE ON FUNCTION queue_state.physical_state(), queue_state.verify(), queue_state.uuidv7() TO regress_queue_state_reader;
ALTER TABLE queue_state.queue_message ENABLE ROW LEVEL SECURITY;
CREATE POLICY yours_policy ON queue_state.queue_message TO regress_queue_state_reader USING (priority = 'HIGH');
INSERT INTO queue_state.queue_message (queue_id, priority) VALUES (:q1, 'HIGH'), (:q1, 'HIGH'), (:q1, 'MEDIUM');
SET ROLE regress_queue_state_reader;
INSERT INTO queue_state.queue_message (queue_id, priority) VALUES (:q1, 'HIGH');
SELECT count(*) FROM queue_state.queue_message;
DELETE FROM queue_state.queue_message;
:state
RESET ROLE;
:state
DROP POLICY yours_policy ON queue_state.queue_message;
ALTER TABLE queue_state.queue_message DISABLE ROW LEVEL SECURITY;
DROP OWNED BY regress_queue_state_reader;
DROP ROLE regress_queue_state_reader;

DROP TABLE yours_log;
DROP FUNCTION yours_before, yours_after, yours_statement, yours_echo;
SELECT queue_state.drop_queue('yours', true);
SELECT * FROM queue_state.verify();

--
-- The trigger functions refuse to be called in any way but theirs.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

-- As plain functions.
SELECT queue_state.count_messages();
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.count_dead_letters();
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.count_truncate();
\echo :LAST_ERROR_SQLSTATE

SELECT (queue_state.create_queue('protocol')).queue_id AS q1 \gset

-- FOR EACH ROW, BEFORE, without transition tables, with arguments.
CREATE TRIGGER wrong AFTER INSERT ON queue_state.queue_message
	FOR EACH ROW EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;
CREATE TRIGGER wrong BEFORE INSERT ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;
CREATE TRIGGER wrong AFTER INSERT ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;
CREATE TRIGGER wrong AFTER UPDATE ON queue_state.queue_message REFERENCING OLD TABLE AS before
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
UPDATE queue_state.queue_message SET priority = 'LOW';
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;
CREATE TRIGGER wrong AFTER INSERT ON queue_state.queue_message REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages('argument');
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q1);
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;

-- The wrong event.
CREATE TRIGGER wrong AFTER TRUNCATE ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
TRUNCATE queue_state.queue_message;
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;
CREATE TRIGGER wrong AFTER DELETE ON queue_state.queue_message REFERENCING OLD TABLE AS deleted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_truncate();
DELETE FROM queue_state.queue_message;
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_message;

-- The wrong table: columns are found by their number, so a row of another
-- table would be misread.
CREATE TABLE protocol_other (id text, queue_id text);
CREATE TRIGGER wrong AFTER INSERT ON protocol_other REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO protocol_other VALUES ('short', 'text');
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON protocol_other;
CREATE TRIGGER wrong AFTER INSERT ON protocol_other REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_dead_letters();
INSERT INTO protocol_other VALUES ('short', 'text');
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON protocol_other;
CREATE TRIGGER wrong AFTER TRUNCATE ON protocol_other
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_truncate();
TRUNCATE protocol_other;
\echo :LAST_ERROR_SQLSTATE
DROP TABLE protocol_other;
CREATE TRIGGER wrong AFTER INSERT ON queue_state.queue_dead_letter_message REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
INSERT INTO queue_state.queue_dead_letter_message
		(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)
	VALUES (queue_state.uuidv7(), :q1, 'LOW', 1, now(), now(), 'REJECTED', '1');
\echo :LAST_ERROR_SQLSTATE
DROP TRIGGER wrong ON queue_state.queue_dead_letter_message;

-- The internal functions know the counters by name.
SELECT queue_state.count_event('ready_count', :q1, 'LOW', queue_state.uuidv7());
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.correct_counter('enqueued', :q1, 'LOW', 0::smallint, 1);
\echo :LAST_ERROR_SQLSTATE

-- None of it was counted.
SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('protocol', true);
SELECT * FROM queue_state.verify();

--
-- The counters follow the transaction: rollback, savepoints, exception
-- blocks, TRUNCATE, deferred triggers.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('transactions')).queue_id AS q1 \gset
SELECT (queue_state.create_queue('transactions.2')).queue_id AS q2 \gset
\set state 'SELECT queue_name, priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name LIKE ''transactions%'' AND (ready, in_flight, delayed, dead_letters) <> (0, 0, 0, 0); SELECT * FROM queue_state.verify();'
CREATE FUNCTION transactions_add(queue_id integer, number integer DEFAULT 1,
		priority queue_state.message_priority DEFAULT 'MEDIUM',
		state queue_state.message_state DEFAULT 'READY') RETURNS void LANGUAGE sql AS $$
	INSERT INTO queue_state.queue_message (queue_id, priority, state)
		SELECT transactions_add.queue_id, transactions_add.priority, transactions_add.state
		FROM generate_series(1, number) $$;
CREATE FUNCTION transactions_bury(queue_id integer, number integer DEFAULT 1) RETURNS void LANGUAGE sql AS $$
	INSERT INTO queue_state.queue_dead_letter_message
			(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)
		SELECT queue_state.uuidv7(), transactions_bury.queue_id, 'LOW', 1, now(), now(), 'REJECTED', '1'
		FROM generate_series(1, number) $$;

-- A transaction sees its own changes; a rollback takes them back.
BEGIN;
SELECT transactions_add(:q1, 3);
:state
SELECT transactions_bury(:q1);
DELETE FROM queue_state.queue_message;
:state
ROLLBACK;
:state
BEGIN;
SELECT transactions_add(:q1, 3);
SELECT 1 / 0;
COMMIT;
:state

-- Savepoints, nested, released and rolled back.
BEGIN;
SELECT transactions_add(:q1);
SAVEPOINT a;
SELECT transactions_add(:q1, 10);
SAVEPOINT b;
SELECT transactions_add(:q1, 100);
:state
ROLLBACK TO SAVEPOINT b;
:state
SELECT transactions_add(:q1, 1000);
RELEASE SAVEPOINT b;
ROLLBACK TO SAVEPOINT a;
:state
-- The savepoint is still there and can be rolled back to again.
SELECT transactions_add(:q1, 20);
ROLLBACK TO SAVEPOINT a;
SELECT transactions_add(:q1, 30);
RELEASE SAVEPOINT a;
:state
-- Several levels at once.
SAVEPOINT a;
SAVEPOINT b;
SELECT transactions_add(:q1, 100);
SAVEPOINT c;
SAVEPOINT d;
SELECT transactions_add(:q1, 1000);
RELEASE SAVEPOINT b;
:state
SAVEPOINT b;
DELETE FROM queue_state.queue_message;
:state
ROLLBACK TO SAVEPOINT a;
:state
COMMIT;
:state
-- A level in which nothing happens, between two in which something does.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT transactions_add(:q2);
RELEASE SAVEPOINT b;
SAVEPOINT b;
ROLLBACK TO SAVEPOINT b;
COMMIT;
:state
-- An error inside a savepoint.
BEGIN;
SAVEPOINT a;
SELECT transactions_add(:q1, 5);
SELECT transactions_add(-1);
ROLLBACK TO SAVEPOINT a;
DELETE FROM queue_state.queue_message WHERE queue_id = :q2;
COMMIT;
:state

-- PL/pgSQL exception blocks are savepoints.
CREATE FUNCTION transactions_try(queue_id integer, depth integer, fail_at integer[]) RETURNS integer
	LANGUAGE plpgsql AS $$
BEGIN
	PERFORM transactions_add(queue_id, 1, 'HIGH');
	IF depth = 0 THEN
		RETURN 0;
	END IF;
	BEGIN
		PERFORM transactions_add(queue_id, 1, 'LOW');
		PERFORM transactions_try(queue_id, depth - 1, fail_at);
		IF depth = ANY (fail_at) THEN
			RAISE EXCEPTION 'failed at depth %', depth;
		END IF;
	EXCEPTION WHEN raise_exception THEN
		PERFORM transactions_add(queue_id, 1, 'MEDIUM');
		RETURN depth;
	END;
	RETURN depth;
END $$;
SELECT transactions_try(:q2, 5, '{}');
:state
DELETE FROM queue_state.queue_message;
SELECT transactions_try(:q2, 5, '{3}');
:state
DELETE FROM queue_state.queue_message;
SELECT transactions_try(:q2, 6, '{2,4,6}');
:state
DELETE FROM queue_state.queue_message;
-- So many that they would overflow a fixed array.
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			PERFORM transactions_add(q.queue_id) FROM queue_state.queue q WHERE q.name = 'transactions';
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'every third';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
:state
SELECT transactions_try(:q2, 120, '{50}');
:state

-- Procedures commit on the way.
CREATE PROCEDURE transactions_step(queue_id integer) LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM queue_state.queue_message;
	PERFORM transactions_add(queue_id, 2);
	COMMIT;
	PERFORM transactions_add(queue_id, 4);
	ROLLBACK;
	PERFORM transactions_add(queue_id, 8);
END $$;
CALL transactions_step(:q1);
:state
BEGIN; SELECT transactions_add(:q1); COMMIT AND CHAIN; SELECT transactions_add(:q1, 2); ROLLBACK AND CHAIN; SELECT transactions_add(:q1, 4); COMMIT;
:state
-- Several statements sent at once are one transaction.
SELECT transactions_add(:q1, 100)\; SELECT 1 / 0\; SELECT transactions_add(:q1, 100);
SELECT transactions_add(:q1, 100)\; SELECT transactions_add(:q1, 100);
:state

-- TRUNCATE takes the messages and leaves the dead letters.
SELECT transactions_bury(:q1, 2);
SELECT transactions_add(:q2, 3, 'LOW', 'IN_FLIGHT');
:state
TRUNCATE queue_state.queue_message;
:state
TRUNCATE queue_state.queue_message;
:state
-- After changes of the same transaction, and before others.
SELECT transactions_add(:q1, 7);
BEGIN;
SELECT transactions_add(:q1, 5);
SELECT transactions_add(:q2, 5, 'HIGH', 'DELAYED');
DELETE FROM queue_state.queue_message WHERE queue_id = :q1;
TRUNCATE queue_state.queue_message;
:state
SELECT transactions_add(:q1, 2);
:state
TRUNCATE queue_state.queue_message;
TRUNCATE queue_state.queue_message;
SELECT transactions_add(:q1, 3);
COMMIT;
:state
-- Before a ROLLBACK.
BEGIN;
SELECT transactions_add(:q1);
TRUNCATE queue_state.queue_message;
SELECT transactions_add(:q2);
:state
ROLLBACK;
:state
-- Inside a savepoint that is rolled back, released, or both.
BEGIN;
SELECT transactions_add(:q1, 10);
SAVEPOINT a;
SELECT transactions_add(:q1, 100);
TRUNCATE queue_state.queue_message;
SELECT transactions_add(:q1, 1000);
:state
ROLLBACK TO SAVEPOINT a;
:state
SAVEPOINT b;
TRUNCATE queue_state.queue_message;
SELECT transactions_add(:q1, 40);
RELEASE SAVEPOINT b;
:state
SAVEPOINT c;
SAVEPOINT d;
TRUNCATE queue_state.queue_message;
RELEASE SAVEPOINT d;
SELECT transactions_add(:q2);
ROLLBACK TO SAVEPOINT c;
COMMIT;
:state
-- In an exception block.
DO $$
BEGIN
	TRUNCATE queue_state.queue_message;
	RAISE EXCEPTION 'no';
EXCEPTION WHEN raise_exception THEN
	PERFORM transactions_add(q.queue_id) FROM queue_state.queue q WHERE q.name = 'transactions';
END $$;
:state
-- The dead letters alone, both tables, and everything.
TRUNCATE queue_state.queue_dead_letter_message;
:state
SELECT transactions_bury(:q1, 4);
BEGIN;
SELECT transactions_bury(:q2, 4);
TRUNCATE queue_state.queue_message, queue_state.queue_dead_letter_message;
:state
SELECT transactions_bury(:q2);
SELECT transactions_add(:q2);
COMMIT;
:state
BEGIN;
SELECT transactions_add(:q1, 3);
SELECT transactions_bury(:q1, 3);
TRUNCATE queue_state.queue CASCADE;
SELECT count(*) FROM queue_state.physical_state();
SELECT * FROM queue_state.verify();
ROLLBACK;
:state
BEGIN;
SELECT transactions_add(:q1, 3);
SAVEPOINT a;
TRUNCATE queue_state.queue CASCADE;
ROLLBACK TO SAVEPOINT a;
SELECT transactions_add(:q1, 4);
COMMIT;
:state
SELECT queue_state.enqueue('transactions', '1') IS NOT NULL AS enqueued;
BEGIN;
SELECT queue_state.enqueue('transactions', '1') IS NOT NULL AS enqueued;
TRUNCATE queue_state.queue CASCADE;
SELECT (queue_state.create_queue('transactions')).queue_id AS q1 \gset
SELECT transactions_add(:q1, 2);
SELECT queue_state.enqueue('transactions', '1') IS NOT NULL AS enqueued;
COMMIT;
:state
SELECT priority, ready, enqueued_total FROM queue_state.snapshot() WHERE queue_name = 'transactions';
SELECT (queue_state.create_queue('transactions.2')).queue_id AS q2 \gset
-- A queue made again under the same number in one transaction begins at zero,
-- in the states and in the totals.
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
BEGIN;
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
SELECT transactions_bury(:q2, 2);
DELETE FROM queue_state.queue WHERE queue_id = :q2;
INSERT INTO queue_state.queue (queue_id, name) VALUES (:q2, 'transactions.2');
SELECT transactions_add(:q2, 2, 'HIGH');
DELETE FROM queue_state.queue_message WHERE ctid IN (SELECT m.ctid FROM queue_state.queue_message m WHERE m.queue_id = :q2 LIMIT 1);
:state
COMMIT;
:state
SELECT sum(enqueued_total) AS enqueued FROM queue_state.snapshot() WHERE queue_name = 'transactions.2';
BEGIN;
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
SELECT queue_state.drop_queue('transactions.2', true);
INSERT INTO queue_state.queue (queue_id, name) VALUES (:q2, 'transactions.2');
SAVEPOINT a;
DELETE FROM queue_state.queue WHERE queue_id = :q2;
ROLLBACK TO SAVEPOINT a;
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
COMMIT;
:state
SELECT sum(enqueued_total) AS enqueued FROM queue_state.snapshot() WHERE queue_name = 'transactions.2';
BEGIN;
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
SAVEPOINT a;
DELETE FROM queue_state.queue WHERE queue_id = :q2;
INSERT INTO queue_state.queue (queue_id, name) VALUES (:q2, 'transactions.2');
SELECT transactions_add(:q2, 5);
ROLLBACK TO SAVEPOINT a;
COMMIT;
:state
SELECT sum(enqueued_total) AS enqueued FROM queue_state.snapshot() WHERE queue_name = 'transactions.2';
-- And one that nobody may delete goes on.
CREATE FUNCTION transactions_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER transactions_keep BEFORE DELETE ON queue_state.queue FOR EACH ROW EXECUTE FUNCTION transactions_keep();
BEGIN;
SELECT transactions_add(:q2);
DELETE FROM queue_state.queue WHERE queue_id = :q2;
DELETE FROM queue_state.queue_message WHERE priority = 'HIGH';
COMMIT;
:state
DROP TRIGGER transactions_keep ON queue_state.queue;
DROP FUNCTION transactions_keep();
BEGIN;
SELECT queue_state.enqueue('transactions.2', '1') IS NOT NULL AS enqueued;
SET LOCAL client_min_messages = warning;
TRUNCATE queue_state.queue CASCADE;
INSERT INTO queue_state.queue (queue_id, name) VALUES (:q1, 'transactions'), (:q2, 'transactions.2');
SELECT transactions_add(:q2, 3);
COMMIT;
:state
SELECT sum(enqueued_total) AS enqueued FROM queue_state.snapshot() WHERE queue_name = 'transactions.2';
-- At the higher isolation levels.
BEGIN ISOLATION LEVEL REPEATABLE READ;
:state
SELECT transactions_add(:q1, 2);
TRUNCATE queue_state.queue_message;
SELECT transactions_add(:q1, 2);
COMMIT;
:state
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT transactions_add(:q1, 2);
TRUNCATE queue_state.queue_message;
:state
COMMIT;
:state

-- Event totals are rolled back with their messages.
SELECT sum(enqueued_total) AS enqueued, sum(delivered_total) AS delivered FROM queue_state.snapshot()
	WHERE queue_name LIKE 'transactions%';
BEGIN;
SELECT queue_state.enqueue('transactions', '1') IS NOT NULL AS enqueued;
SAVEPOINT a;
SELECT count(*) FROM queue_state.dequeue('transactions');
SELECT enqueued_total, delivered_total, ready, in_flight FROM queue_state.snapshot()
	WHERE queue_name = 'transactions' AND priority = 'MEDIUM';
ROLLBACK TO SAVEPOINT a;
SELECT enqueued_total, delivered_total, ready, in_flight FROM queue_state.snapshot()
	WHERE queue_name = 'transactions' AND priority = 'MEDIUM';
ROLLBACK;
SELECT enqueued_total, delivered_total, ready, in_flight FROM queue_state.snapshot()
	WHERE queue_name = 'transactions' AND priority = 'MEDIUM';

-- A deferred constraint trigger writes messages when the transaction commits.
CREATE TABLE transactions_outbox (n integer);
CREATE FUNCTION transactions_send() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM queue_state.enqueue('transactions', to_jsonb(NEW.n));
	IF NEW.n < 0 THEN
		DELETE FROM queue_state.queue_message WHERE payload < '0';
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER transactions_send AFTER INSERT ON transactions_outbox
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION transactions_send();
INSERT INTO transactions_outbox VALUES (1);
:state
BEGIN;
INSERT INTO transactions_outbox VALUES (2), (3);
:state
SAVEPOINT a;
INSERT INTO transactions_outbox VALUES (4);
ROLLBACK TO SAVEPOINT a;
INSERT INTO transactions_outbox VALUES (-5), (-6);
COMMIT;
:state
BEGIN;
INSERT INTO transactions_outbox VALUES (7);
SET CONSTRAINTS ALL IMMEDIATE;
:state
ROLLBACK;
:state
-- It fails, and everything with it.
BEGIN;
SELECT transactions_add(:q2);
INSERT INTO transactions_outbox VALUES (8);
SELECT queue_state.drop_queue('transactions', true);
\set VERBOSITY terse
COMMIT;
\set VERBOSITY default
:state
DROP TABLE transactions_outbox;

-- Folding and counting in one transaction.
BEGIN;
SELECT transactions_add(:q1, 5);
SELECT queue_state.fold_pending() >= 0 AS folded;
SAVEPOINT a;
SELECT transactions_add(:q1, 5);
SELECT queue_state.fold_pending() >= 0 AS folded;
ROLLBACK TO SAVEPOINT a;
DELETE FROM queue_state.queue_message WHERE queue_id = :q1;
COMMIT;
:state

-- NOTIFY and temporary tables that are emptied or dropped at commit.
LISTEN transactions;
BEGIN;
CREATE TEMP TABLE transactions_emptied (n integer) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE transactions_dropped (n integer) ON COMMIT DROP;
INSERT INTO transactions_emptied VALUES (1);
SELECT transactions_add(:q1, 3);
NOTIFY transactions;
UNLISTEN transactions;
COMMIT;
:state

DROP FUNCTION transactions_add, transactions_bury, transactions_try, transactions_send;
DROP PROCEDURE transactions_step;
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue WHERE name LIKE 'transactions%' ORDER BY name;
SELECT * FROM queue_state.verify();

--
-- The state functions and verify() beside changes that their own transaction
-- makes at unusual moments: after a cursor was declared, in the same query,
-- at commit, in a cursor that is held, in a procedure that commits.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;
SELECT (queue_state.create_queue('own')).queue_id AS q \gset

-- A cursor is older than what comes after it.
BEGIN;
DECLARE before_enqueue CURSOR FOR SELECT * FROM queue_state.verify();
DECLARE state_before_enqueue CURSOR FOR
	SELECT priority, ready IN (0, 50) AS before_or_after FROM queue_state.snapshot() WHERE queue_name = 'own';
SELECT count(queue_state.enqueue('own', to_jsonb(n))) FROM generate_series(1, 50) n;
FETCH ALL FROM before_enqueue;
FETCH ALL FROM state_before_enqueue;
DECLARE before_delete CURSOR FOR SELECT * FROM queue_state.verify();
DELETE FROM queue_state.queue_message WHERE payload < '11';
FETCH ALL FROM before_delete;
SAVEPOINT s;
DECLARE before_rollback CURSOR FOR SELECT * FROM queue_state.verify();
TRUNCATE queue_state.queue_message;
ROLLBACK TO s;
SELECT * FROM queue_state.verify();
COMMIT;

-- Both in one query, in either order, at every isolation level.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queue_state.enqueue('own', '1') IS NOT NULL AS enqueued, (SELECT count(*) FROM queue_state.verify()) AS drift;
SELECT (SELECT count(*) FROM queue_state.verify()) AS drift, queue_state.enqueue('own', '1') IS NOT NULL AS enqueued;
WITH e AS MATERIALIZED (SELECT queue_state.enqueue('own', '1') AS id)
	SELECT v.* FROM e CROSS JOIN LATERAL (SELECT * FROM queue_state.verify() WHERE e.id IS NOT NULL) v;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('own', 3)),
	a AS MATERIALIZED (SELECT queue_state.acknowledge(d.id, d.receipt_handle) AS done FROM d)
	SELECT v.* FROM a CROSS JOIN LATERAL (SELECT * FROM queue_state.verify() WHERE a.done) v;
WITH gone AS (DELETE FROM queue_state.queue_message RETURNING 1)
	SELECT count(*), (SELECT count(*) FROM queue_state.verify()) AS drift FROM gone;
COMMIT;

-- A deferred trigger enqueues while the transaction commits.
CREATE TABLE own_order (number integer);
CREATE FUNCTION own_enqueue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM queue_state.enqueue('own', to_jsonb(NEW.number));
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER own_enqueue AFTER INSERT ON own_order
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION own_enqueue();
BEGIN;
INSERT INTO own_order SELECT generate_series(1, 100);
SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'own';
COMMIT;
SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'own';
-- A held cursor runs to its end at commit.
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT queue_state.enqueue('own', '1') FROM generate_series(1, 10);
COMMIT;
CLOSE held;
SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'own';
-- A procedure commits and rolls back by itself.
CREATE PROCEDURE own_loop() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		PERFORM queue_state.enqueue('own', '1');
		IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
	END LOOP;
END $$;
CALL own_loop();
SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'own';
SELECT * FROM queue_state.verify();

-- A redriven message has been delivered before, whoever finds it expired.
SELECT queue_state.enqueue('own', '1', 'HIGH', deduplication_key => 'k') AS id \gset
SELECT id = :'id' AS same, receipt_handle FROM queue_state.dequeue('own') \gset
SELECT queue_state.reject(:'id', :'receipt_handle');
SELECT queue_state.redrive_dead_letters('own');
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() - interval '1 second' WHERE id = :'id';
BEGIN;
SELECT * FROM queue_state.expire_messages();
ROLLBACK;
SELECT queue_state.enqueue('own', '2', 'HIGH', deduplication_key => 'k') <> :'id' AS another;
SELECT expired_never_delivered_total, expired_previously_delivered_total
	FROM queue_state.snapshot() WHERE queue_name = 'own' AND priority = 'HIGH';

DROP PROCEDURE own_loop();
DROP TABLE own_order;
DROP FUNCTION own_enqueue();
SELECT queue_state.drop_queue('own', true);
SELECT * FROM queue_state.verify();

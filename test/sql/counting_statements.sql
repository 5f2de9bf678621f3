--
-- Every statement that can change the message tables, and what the counters
-- say after it.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

-- COPY needs to know the numbers.
INSERT INTO queue_state.queue (queue_id, name) VALUES (1000001, 'statements'), (1000002, 'statements.2');
\set q1 1000001
\set q2 1000002
-- The state that is recorded, and where it is not the truth.
\set state 'SELECT queue_name, priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name LIKE ''statements%'' AND (ready, in_flight, delayed, dead_letters) <> (0, 0, 0, 0); SELECT * FROM queue_state.verify();'

-- The shard of this message is `number` modulo 32.
CREATE FUNCTION statements_id(number integer) RETURNS uuid LANGUAGE sql IMMUTABLE
	AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$;
CREATE FUNCTION statements_shards() RETURNS TABLE (shard smallint, ready numeric, in_flight numeric)
	LANGUAGE sql AS $$
	SELECT r.shard, sum(r.ready), sum(r.in_flight) FROM queue_state.rollup_by_shard() r
		WHERE r.queue_id = (SELECT q.queue_id FROM queue_state.queue q WHERE q.name = 'statements')
		GROUP BY r.shard HAVING (sum(r.ready), sum(r.in_flight)) <> (0, 0) ORDER BY r.shard $$;

-- INSERT, of one row and of many, into every priority and state.
INSERT INTO queue_state.queue_message (queue_id, payload) VALUES (:q1, '1');
:state
INSERT INTO queue_state.queue_message (queue_id, priority, state)
	SELECT :q1, p, s FROM unnest(enum_range(NULL::queue_state.message_priority)) p,
						  unnest(enum_range(NULL::queue_state.message_state)) s,
						  generate_series(1, 3);
:state
-- No row at all.
INSERT INTO queue_state.queue_message (queue_id) SELECT :q1 WHERE false;
:state

-- DELETE of some, and of the rest.
DELETE FROM queue_state.queue_message WHERE queue_id = :q1 AND priority = 'HIGH' AND state <> 'DELAYED';
:state
DELETE FROM queue_state.queue_message WHERE queue_id = :q1;
:state

-- The last byte of the id, modulo 32, is the shard.
INSERT INTO queue_state.queue_message (id, queue_id)
	SELECT statements_id(n), :q1 FROM unnest(ARRAY[0, 1, 31, 32, 33, 255, 256 + 64]) n;
SELECT * FROM statements_shards();
SELECT shard, count(*) FROM queue_state.queue_message m, queue_state.message_shard(m.id) shard
	WHERE m.queue_id = :q1 GROUP BY shard ORDER BY shard;

-- UPDATE of every counted column: the old cell loses one, the new gains one.
UPDATE queue_state.queue_message SET id = statements_id(5) WHERE id = statements_id(0);
SELECT * FROM statements_shards();
UPDATE queue_state.queue_message SET priority = 'HIGH' WHERE id = statements_id(5);
:state
UPDATE queue_state.queue_message SET state = 'DELAYED' WHERE id = statements_id(5);
:state
UPDATE queue_state.queue_message SET queue_id = :q2 WHERE id = statements_id(5);
:state
-- All of them at once, and of all rows.
UPDATE queue_state.queue_message SET id = statements_id(6), priority = 'LOW', state = 'IN_FLIGHT', queue_id = :q1
	WHERE id = statements_id(5);
:state
UPDATE queue_state.queue_message SET queue_id = :q1 + :q2 - queue_id, state = 'READY';
:state
-- Two rows change places.
UPDATE queue_state.queue_message SET priority = CASE WHEN id = statements_id(6) THEN 'MEDIUM' ELSE 'LOW' END::queue_state.message_priority
	WHERE id IN (statements_id(6), statements_id(1));
:state

-- UPDATE of every other column moves nothing: not even a version of a shard
-- row is written.
CREATE TEMP TABLE statements_before AS
	SELECT s.ctid AS version, s.* FROM queue_state.queue_priority_state_shard s;
CREATE FUNCTION statements_rows_changed() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (
		SELECT s.ctid, s.queue_id, s.priority, s.shard FROM queue_state.queue_priority_state_shard s
		EXCEPT
		SELECT b.version, b.queue_id, b.priority, b.shard FROM statements_before b) changed $$;
UPDATE queue_state.queue_message SET
	delivery_attempts = delivery_attempts + 1, enqueued_at = enqueued_at - interval '1 hour',
	expires_at = expires_at + interval '1 hour', available_after = available_after + interval '1 hour',
	last_delivered_at = clock_timestamp(), receipt_handle = statements_id(1),
	deduplication_key = id::text, headers = '{"a": 1}', payload = '{"b": 2}', last_error = 'none';
UPDATE queue_state.queue_message SET state = state, queue_id = queue_id, priority = priority, id = id;
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT' WHERE false;
DELETE FROM queue_state.queue_message WHERE false;
INSERT INTO queue_state.queue_message SELECT * FROM queue_state.queue_message WHERE false;
INSERT INTO queue_state.queue_message (id, queue_id) VALUES (statements_id(1), :q1) ON CONFLICT DO NOTHING;
SELECT statements_rows_changed();
SELECT count(*) FROM queue_state.queue_priority_state_pending;
-- But a row that does move writes its shard's row.
UPDATE queue_state.queue_message SET state = 'IN_FLIGHT' WHERE id = statements_id(1);
SELECT statements_rows_changed();
:state

-- A lease is one change; extending it is none.
SELECT (queue_state.create_queue('statements.lease')).queue_id AS q3 \gset
SELECT queue_state.enqueue('statements.lease', '1') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('statements.lease') \gset
DELETE FROM statements_before;
INSERT INTO statements_before SELECT s.ctid, s.* FROM queue_state.queue_priority_state_shard s;
SELECT queue_state.extend_lease(:'id', :'receipt_handle', '1 hour') IS NOT NULL AS extended;
SELECT queue_state.extend_lease(:'receipt_handle', :'receipt_handle', '1 hour') IS NOT NULL AS extended;
SELECT count(*) FROM queue_state.dequeue('statements.lease');
SELECT queue_state.acknowledge(:'receipt_handle', :'receipt_handle');
SELECT statements_rows_changed();
:state
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT statements_rows_changed();
:state

-- INSERT ... ON CONFLICT: each row is inserted, updated or left alone.
TRUNCATE queue_state.queue_message;
INSERT INTO queue_state.queue_message (id, queue_id) SELECT statements_id(n), :q1 FROM generate_series(1, 5) n;
INSERT INTO queue_state.queue_message (id, queue_id) SELECT statements_id(n), :q1 FROM generate_series(4, 7) n
	ON CONFLICT DO NOTHING;
:state
INSERT INTO queue_state.queue_message (id, queue_id, priority) SELECT statements_id(n), :q2, 'LOW' FROM generate_series(6, 9) n
	ON CONFLICT (id) DO UPDATE SET priority = excluded.priority, queue_id = excluded.queue_id, state = 'DELAYED';
:state
INSERT INTO queue_state.queue_message (id, queue_id) SELECT statements_id(n), :q2 FROM generate_series(8, 11) n
	ON CONFLICT (id) DO UPDATE SET state = 'IN_FLIGHT' WHERE queue_message.state = 'READY';
:state

-- MERGE that inserts, updates, deletes and does nothing.
MERGE INTO queue_state.queue_message m
	USING (SELECT n, statements_id(n) AS id FROM generate_series(1, 13) n) s ON m.id = s.id
	WHEN MATCHED AND s.n <= 2 THEN DELETE
	WHEN MATCHED AND s.n = 3 THEN DO NOTHING
	WHEN MATCHED AND m.state = 'DELAYED' THEN UPDATE SET state = 'READY', queue_id = :q1
	WHEN MATCHED THEN UPDATE SET priority = 'HIGH'
	WHEN NOT MATCHED THEN INSERT (id, queue_id, state) VALUES (s.id, :q2, 'IN_FLIGHT');
:state

-- Modifying CTEs that touch the table twice.
WITH moved AS (DELETE FROM queue_state.queue_message WHERE id IN (statements_id(12), statements_id(13)) RETURNING *)
INSERT INTO queue_state.queue_message (id, queue_id, priority, state)
	SELECT statements_id(100 + row_number() OVER ()::integer), :q1, 'LOW', 'DELAYED' FROM moved;
:state
WITH gone AS (DELETE FROM queue_state.queue_message WHERE queue_id = :q1 AND priority = 'LOW' RETURNING id),
	 came AS (INSERT INTO queue_state.queue_message (queue_id, priority) VALUES (:q2, 'HIGH'), (:q2, 'LOW') RETURNING id),
	 more AS (INSERT INTO queue_state.queue_message (queue_id) SELECT :q2 FROM came RETURNING id)
UPDATE queue_state.queue_message SET state = 'READY' WHERE state = 'IN_FLIGHT';
:state
WITH twice AS (UPDATE queue_state.queue_message SET state = 'DELAYED' WHERE priority = 'HIGH' RETURNING id)
UPDATE queue_state.queue_message m SET state = 'IN_FLIGHT' WHERE priority <> 'HIGH' AND EXISTS (SELECT FROM twice);
:state

-- COPY in and out, also what is thrown away half-way.
DELETE FROM queue_state.queue_message;
COPY queue_state.queue_message (id, queue_id, priority, state) FROM STDIN;
00000000-0000-4000-8000-000000000001	1000001	LOW	READY
00000000-0000-4000-8000-000000000002	1000002	HIGH	IN_FLIGHT
00000000-0000-4000-8000-000000000003	1000001	LOW	DELAYED
\.
:state
\set VERBOSITY terse
COPY queue_state.queue_message (id, queue_id) FROM STDIN;
00000000-0000-4000-8000-000000000004	1000001
00000000-0000-4000-8000-000000000003	1000001
\.
\set VERBOSITY default
:state
COPY queue_state.queue_message (queue_id) FROM STDIN;
\.
COPY (SELECT id, queue_id, priority, state FROM queue_state.queue_message ORDER BY id) TO STDOUT;
DELETE FROM queue_state.queue_message;

-- More rows than fit into work_mem: the transition tables are on disk.
BEGIN;
SET LOCAL work_mem = '64kB';
INSERT INTO queue_state.queue_message (id, queue_id, payload)
	SELECT statements_id(n), CASE WHEN n % 3 = 0 THEN :q1 ELSE :q2 END, to_jsonb(repeat('x', 100)) FROM generate_series(1, 20000) n;
:state
UPDATE queue_state.queue_message SET priority = 'LOW' WHERE id < statements_id(10001);
:state
COMMIT;
:state
DELETE FROM queue_state.queue_message WHERE id > statements_id(100);
:state

-- The foreign key to queue cascades, one queue or several a statement.
INSERT INTO queue_state.queue_dead_letter_message
		(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)
	SELECT statements_id(n), CASE WHEN n % 2 = 0 THEN :q1 ELSE :q2 END, 'HIGH', 5, now(), now(), 'REJECTED', '1'
		FROM generate_series(1, 5) n;
:state
UPDATE queue_state.queue_dead_letter_message SET queue_id = :q1, priority = 'LOW', id = statements_id(50)
	WHERE id = statements_id(1);
UPDATE queue_state.queue_dead_letter_message SET last_error = 'none';
:state
DELETE FROM queue_state.queue_dead_letter_message WHERE id = statements_id(2);
:state
DELETE FROM queue_state.queue WHERE queue_id = :q2;
:state
INSERT INTO queue_state.queue (queue_id, name) VALUES (:q2, 'statements.2');
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q2), (:q3), (:q3);
DELETE FROM queue_state.queue WHERE queue_id IN (:q1, :q2);
:state
SELECT count(*) FROM queue_state.queue_priority_state_shard WHERE queue_id IN (:q1, :q2);

-- So may a foreign key of a user's own, by deleting and by changing rows.
CREATE TABLE statements_customer (id integer PRIMARY KEY);
INSERT INTO statements_customer VALUES (1), (2);
ALTER TABLE queue_state.queue_message ADD COLUMN customer integer REFERENCES statements_customer ON DELETE CASCADE ON UPDATE CASCADE;
INSERT INTO queue_state.queue_message (queue_id, customer) SELECT :q3, n % 2 + 1 FROM generate_series(1, 10) n;
:state
UPDATE statements_customer SET id = 3 WHERE id = 1;
:state
DELETE FROM statements_customer WHERE id = 3;
:state
BEGIN;
DELETE FROM statements_customer;
:state
ROLLBACK;
:state
DELETE FROM statements_customer;
:state
ALTER TABLE queue_state.queue_message DROP COLUMN customer;
DROP TABLE statements_customer;

-- A statement that fails half-way changes nothing.
INSERT INTO queue_state.queue_message (id, queue_id)
	SELECT statements_id(n % 4), :q3 FROM generate_series(1, 5) n;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q3), (-1);
\set VERBOSITY terse
UPDATE queue_state.queue_message SET delivery_attempts = -1;
\set VERBOSITY default
:state

-- Names in the search path that look alike change nothing.
CREATE TEMP TABLE queue_priority_state_shard (LIKE queue_state.queue_priority_state_shard);
CREATE TEMP TABLE queue_message (LIKE queue_state.queue_message);
SET search_path = pg_temp, queue_state, pg_catalog;
INSERT INTO queue_state.queue_message (queue_id) VALUES (:q3);
INSERT INTO queue_message (id, queue_id, priority, state, delivery_attempts, enqueued_at, expires_at, available_after, payload)
	SELECT id, queue_id, priority, state, delivery_attempts, enqueued_at, expires_at, available_after, payload
	FROM queue_state.queue_message;
RESET search_path;
:state

DROP FUNCTION statements_shards(), statements_rows_changed(), statements_id(integer);
SELECT queue_state.drop_queue('statements.lease', true);
SELECT * FROM queue_state.verify();

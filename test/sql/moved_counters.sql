--
-- A session finds a counter row also when it is no longer where it was.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

CREATE FUNCTION insert_messages(queue_id integer, count integer) RETURNS void LANGUAGE sql AS $$
	-- all in shard 7
	INSERT INTO queue_state.queue_message (id, queue_id, payload)
		SELECT overlay(gen_random_uuid()::text PLACING '07' FROM 35)::uuid, queue_id, '1'
		FROM generate_series(1, count)
$$;
CREATE VIEW counted AS
	SELECT queue_id, shard, ready_count, (SELECT count(*) FROM queue_state.queue_priority_state_pending) AS pending
	FROM queue_state.queue_priority_state_shard WHERE queue_id BETWEEN 900001 AND 900003 ORDER BY queue_id;

INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'moved'), (900002, 'other');
SELECT insert_messages(900001, 1);
SELECT insert_messages(900001, 2);
SELECT insert_messages(900002, 10);
SELECT insert_messages(900002, 20);
SELECT * FROM counted;

-- The table is written anew, in another order.
CREATE INDEX moved_rows ON queue_state.queue_priority_state_shard (ready_count DESC);
CLUSTER queue_state.queue_priority_state_shard USING moved_rows;
SELECT insert_messages(900001, 4);
SELECT insert_messages(900002, 40);
SELECT insert_messages(900001, 8);
SELECT * FROM counted;
-- With that index no update is HOT.
SELECT insert_messages(900001, 16), insert_messages(900002, 80);
SELECT insert_messages(900001, 32), insert_messages(900002, 160);
SELECT * FROM counted;
DROP INDEX queue_state.moved_rows;
VACUUM FULL queue_state.queue_priority_state_shard;
SELECT insert_messages(900001, 64), insert_messages(900002, 320);
SELECT * FROM counted;
SELECT * FROM queue_state.verify();

-- Another row comes to its place.
DELETE FROM queue_state.queue WHERE queue_id = 900001;
VACUUM queue_state.queue_priority_state_shard;
INSERT INTO queue_state.queue (queue_id, name) VALUES (900003, 'third');
SELECT insert_messages(900003, 5);
INSERT INTO queue_state.queue (queue_id, name) VALUES (900001, 'moved');
SELECT insert_messages(900001, 1);
SELECT insert_messages(900001, 2), insert_messages(900002, 1000), insert_messages(900003, 5);
SELECT * FROM counted;
SELECT * FROM queue_state.verify();

-- The place itself goes.
DELETE FROM queue_state.queue WHERE queue_id BETWEEN 900001 AND 900003;
VACUUM (TRUNCATE) queue_state.queue_priority_state_shard;
INSERT INTO queue_state.queue (queue_id, name) VALUES (900002, 'other');
SELECT insert_messages(900002, 1);
SELECT insert_messages(900002, 2);
SELECT * FROM counted;
SELECT * FROM queue_state.verify();

DROP VIEW counted;
DROP FUNCTION insert_messages(integer, integer);
SELECT queue_state.drop_queue('other', true);

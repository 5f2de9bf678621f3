--
-- Time passes over rows without changing them: logical_state() and snapshot()
-- against a computation over the message rows that knows no counters.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('time', max_delivery_attempts => 3)).queue_id AS q1 \gset
SELECT (queue_state.create_queue('time.2', max_delivery_attempts => 1)).queue_id AS q2 \gset
SELECT (queue_state.create_queue('time.empty')).queue_id AS q3 \gset

-- What the rows say at an instant.  No row of these tests is due or expires
-- within an hour, so that the instant need not be the same.
CREATE FUNCTION time_truth() RETURNS TABLE (queue_name text, priority queue_state.message_priority,
		ready bigint, in_flight bigint, delayed bigint, exhausted bigint,
		expired_backlog bigint, elapsed_backlog bigint, dead_letters bigint,
		oldest_ready timestamptz, oldest_in_flight timestamptz)
LANGUAGE sql AS $$
	WITH classified AS (
		SELECT q.name, m.*, m.expires_at <= clock_timestamp() AS expired,
			   m.state <> 'READY' AND m.available_after <= clock_timestamp() AS elapsed,
			   m.delivery_attempts >= q.max_delivery_attempts AS used_up
		FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id)
	), logical AS (
		SELECT c.*,
			   CASE WHEN c.state = 'READY' THEN CASE WHEN c.expired THEN 'nothing' ELSE 'ready' END
					WHEN NOT c.elapsed THEN CASE c.state WHEN 'IN_FLIGHT' THEN 'in flight' ELSE 'delayed' END
					WHEN c.expired THEN 'nothing'
					WHEN c.used_up THEN 'exhausted'
					ELSE 'ready' END AS is
		FROM classified c
	)
	SELECT q.name, p.priority,
		   count(*) FILTER (WHERE l.is = 'ready'), count(*) FILTER (WHERE l.is = 'in flight'),
		   count(*) FILTER (WHERE l.is = 'delayed'), count(*) FILTER (WHERE l.is = 'exhausted'),
		   count(*) FILTER (WHERE l.state = 'READY' AND l.expired), count(*) FILTER (WHERE l.elapsed),
		   (SELECT count(*) FROM queue_state.queue_dead_letter_message d WHERE d.queue_id = q.queue_id AND d.priority = p.priority),
		   min(l.enqueued_at) FILTER (WHERE l.is = 'ready'), min(l.enqueued_at) FILTER (WHERE l.is = 'in flight')
	FROM queue_state.queue q CROSS JOIN unnest(enum_range(NULL::queue_state.message_priority)) p (priority)
	LEFT JOIN logical l ON l.name = q.name AND l.priority = p.priority
	WHERE q.name LIKE 'time%'
	GROUP BY q.queue_id, q.name, p.priority
$$;
-- Where snapshot() or logical_state() says something else.  Ages are taken at
-- two instants, one after the other.
CREATE FUNCTION time_differences() RETURNS TABLE (queue_name text, priority queue_state.message_priority, what text)
LANGUAGE sql AS $$
	WITH s AS MATERIALIZED (SELECT * FROM queue_state.snapshot()),
		 t AS MATERIALIZED (SELECT t.*, clock_timestamp() AS at FROM time_truth() t),
		 l AS MATERIALIZED (SELECT * FROM queue_state.logical_state())
	SELECT queue_name, priority, 'snapshot ' || (s.ready, s.in_flight, s.delayed, s.exhausted, s.expired_backlog, s.elapsed_backlog, s.dead_letters)::text
		|| ' is ' || (t.ready, t.in_flight, t.delayed, t.exhausted, t.expired_backlog, t.elapsed_backlog, t.dead_letters)::text
	FROM s FULL JOIN t USING (queue_name, priority)
	WHERE coalesce(queue_name LIKE 'time%', true)
		AND (s.ready, s.in_flight, s.delayed, s.exhausted, s.expired_backlog, s.elapsed_backlog, s.dead_letters)
			IS DISTINCT FROM (t.ready, t.in_flight, t.delayed, t.exhausted, t.expired_backlog, t.elapsed_backlog, t.dead_letters)
	UNION ALL
	SELECT queue_name, priority, 'logical_state ' || l::text FROM l JOIN t USING (queue_name, priority)
	WHERE (l.ready, l.in_flight, l.delayed, l.exhausted, l.dead_letters)
			IS DISTINCT FROM (t.ready, t.in_flight, t.delayed, t.exhausted, t.dead_letters)
	UNION ALL
	SELECT queue_name, priority, 'ages ' || s.oldest_ready_age_seconds || ' ' || s.oldest_in_flight_age_seconds
	FROM s JOIN t USING (queue_name, priority)
	WHERE s.oldest_ready_age_seconds NOT BETWEEN
			coalesce(greatest(extract(epoch FROM t.at - t.oldest_ready) - 60, 0), 0)
			AND coalesce(greatest(extract(epoch FROM t.at - t.oldest_ready), 0), 0)
		OR s.oldest_in_flight_age_seconds NOT BETWEEN
			coalesce(greatest(extract(epoch FROM t.at - t.oldest_in_flight) - 60, 0), 0)
			AND coalesce(greatest(extract(epoch FROM t.at - t.oldest_in_flight), 0), 0)
	ORDER BY 1, 2, 3
$$;

-- An empty queue has three rows of zeroes, HIGH first.
SELECT queue_name, priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog, dead_letters,
	   oldest_ready_age_seconds, oldest_in_flight_age_seconds
	FROM queue_state.snapshot() WHERE queue_name = 'time.empty';
SELECT * FROM time_differences();

-- Every combination of state, expired, elapsed and attempts used up, each in
-- a different number, so that no two can be taken for each other.
CREATE TABLE time_combination AS
	SELECT (row_number() OVER (ORDER BY s, expired, elapsed, attempts))::integer AS number, s AS state, expired, elapsed, attempts
	FROM unnest(enum_range(NULL::queue_state.message_state)) s, unnest(ARRAY[false, true]) expired,
		 unnest(ARRAY[false, true]) elapsed, unnest(ARRAY[0, 2, 3, 4]) attempts;
INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, enqueued_at, expires_at, available_after)
	SELECT :q1, 'MEDIUM', c.state, c.attempts,
		   clock_timestamp() - c.number * interval '1 hour' - n * interval '1 minute',
		   clock_timestamp() + CASE WHEN c.expired THEN -1 ELSE 1 END * interval '2 hours',
		   clock_timestamp() + CASE WHEN c.elapsed THEN -1 ELSE 1 END * interval '90 minutes'
	FROM time_combination c, generate_series(1, c.number) n;
SELECT priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog, dead_letters
	FROM queue_state.snapshot() WHERE queue_name = 'time';
SELECT priority, ready, in_flight, delayed FROM queue_state.physical_state() WHERE queue_name = 'time';
SELECT * FROM time_differences();
-- The same in other cells; attempts are used up earlier there.
INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, enqueued_at, expires_at, available_after)
	SELECT :q2, p, m.state, m.delivery_attempts, m.enqueued_at + interval '17 minutes', m.expires_at, m.available_after
	FROM queue_state.queue_message m, unnest(ARRAY['LOW', 'HIGH']::queue_state.message_priority[]) p;
SELECT priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog, dead_letters
	FROM queue_state.snapshot() WHERE queue_name = 'time.2';
SELECT * FROM time_differences();

-- Each combination alone: what is wrong by one is not hidden by others.
CREATE TABLE time_alone (combination text, difference text);
DO $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT * FROM time_combination LOOP
		DELETE FROM queue_state.queue_message;
		INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, enqueued_at, expires_at, available_after)
			SELECT q.queue_id, 'HIGH', c.state, c.attempts, clock_timestamp() - interval '1 day',
				   clock_timestamp() + CASE WHEN c.expired THEN -1 ELSE 1 END * interval '2 hours',
				   clock_timestamp() + CASE WHEN c.elapsed THEN -1 ELSE 1 END * interval '90 minutes'
			FROM queue_state.queue q WHERE q.name = 'time';
		INSERT INTO time_alone SELECT c::text, d.what FROM time_differences() d;
		INSERT INTO time_alone SELECT c::text, v::text FROM queue_state.verify() v;
	END LOOP;
END $$;
SELECT * FROM time_alone;
DELETE FROM queue_state.queue_message;

-- Infinity is a time as well.
INSERT INTO queue_state.queue_message (queue_id, state, expires_at, available_after)
	SELECT :q1, s, e, a FROM unnest(enum_range(NULL::queue_state.message_state)) s,
		unnest(ARRAY['-infinity', 'infinity']::timestamptz[]) e, unnest(ARRAY['-infinity', 'infinity']::timestamptz[]) a;
SELECT priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog, dead_letters
	FROM queue_state.snapshot() WHERE queue_name = 'time';
SELECT * FROM time_differences();
DELETE FROM queue_state.queue_message;

-- Ages.  The oldest in index order may be one that does not count.
INSERT INTO queue_state.queue_message (queue_id, state, enqueued_at, expires_at, available_after, delivery_attempts) VALUES
	(:q1, 'READY', now() - interval '9 hours', now() - interval '2 hours', now(), 0),
	(:q1, 'READY', now() - interval '8 hours', now() + interval '2 hours', now(), 0),
	(:q1, 'READY', now() - interval '7 hours', now() + interval '2 hours', now(), 0),
	(:q1, 'IN_FLIGHT', now() - interval '10 hours', now() + interval '2 hours', now() - interval '1 hour', 5),
	(:q1, 'IN_FLIGHT', now() - interval '6 hours', now() + interval '2 hours', now() + interval '1 hour', 1);
SELECT round(oldest_ready_age_seconds / 3600), round(oldest_in_flight_age_seconds / 3600)
	FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
-- A due retry is ready, and older than what waits its turn.
UPDATE queue_state.queue_message SET delivery_attempts = 1 WHERE delivery_attempts = 5;
SELECT round(oldest_ready_age_seconds / 3600), round(oldest_in_flight_age_seconds / 3600)
	FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
-- Only a due retry is ready.
DELETE FROM queue_state.queue_message WHERE state = 'READY';
SELECT ready, round(oldest_ready_age_seconds / 3600), round(oldest_in_flight_age_seconds / 3600)
	FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
-- A live lease of an expired message is in flight, and has an age.
DELETE FROM queue_state.queue_message;
INSERT INTO queue_state.queue_message (queue_id, state, enqueued_at, expires_at, available_after, delivery_attempts)
	VALUES (:q1, 'IN_FLIGHT', now() - interval '5 hours', now() - interval '2 hours', now() + interval '1 hour', 3);
SELECT in_flight, exhausted, round(oldest_in_flight_age_seconds / 3600)
	FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
-- A message from the future has no age.
DELETE FROM queue_state.queue_message;
INSERT INTO queue_state.queue_message (queue_id, state, enqueued_at, expires_at, available_after)
	SELECT :q1, s, now() + interval '3 hours', now() + interval '4 hours', now() + interval '1 hour'
	FROM unnest(enum_range(NULL::queue_state.message_state)) s;
SELECT ready, in_flight, delayed, oldest_ready_age_seconds, oldest_in_flight_age_seconds
	FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();

-- A change of the queue's setting is seen at once.
DELETE FROM queue_state.queue_message;
INSERT INTO queue_state.queue_message (queue_id, state, available_after, delivery_attempts)
	SELECT :q1, 'IN_FLIGHT', now() - interval '1 hour', n FROM generate_series(1, 5) n;
SELECT ready, exhausted FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT max_delivery_attempts FROM queue_state.update_queue('time', max_delivery_attempts => 5);
SELECT ready, exhausted FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();

-- In a transaction: own changes are seen, at every isolation level.
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE queue_state.queue_message SET state = 'READY', expires_at = now() - interval '1 hour' WHERE delivery_attempts > 2;
SELECT ready, exhausted, expired_backlog FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
DELETE FROM queue_state.queue_message;
SELECT ready, exhausted, expired_backlog FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
SELECT * FROM time_differences();
ROLLBACK;

-- A cursor's snapshot is older than what the transaction does after opening
-- it; and so is that of a statement which changes messages itself.
UPDATE queue_state.queue_message SET state = 'READY', expires_at = now() - interval '1 hour';
BEGIN;
DECLARE late CURSOR FOR SELECT ready, expired_backlog FROM queue_state.snapshot() WHERE queue_name = 'time' AND priority = 'MEDIUM';
DELETE FROM queue_state.queue_message;
FETCH ALL FROM late;
COMMIT;
INSERT INTO queue_state.queue_message (queue_id, enqueued_at, expires_at) VALUES (:q1, now() - interval '2 hours', now() - interval '1 hour');
CREATE FUNCTION time_discard() RETURNS void LANGUAGE sql AS 'DELETE FROM queue_state.queue_message';
SELECT s.ready, s.expired_backlog FROM time_discard() d
	CROSS JOIN LATERAL (SELECT * FROM queue_state.snapshot() WHERE d IS NOT NULL OR true) s
	WHERE s.queue_name = 'time' AND s.priority = 'MEDIUM';
DROP FUNCTION time_discard();
-- Rows a statement is just deleting are still there for it.
INSERT INTO queue_state.queue_message (queue_id, expires_at) VALUES (:q1, now() - interval '1 hour');
WITH gone AS (DELETE FROM queue_state.queue_message RETURNING id)
SELECT count(*), (SELECT max(s.expired_backlog) FROM queue_state.snapshot() s), (SELECT count(*) FROM queue_state.verify()) AS drift FROM gone;

DROP TABLE time_alone, time_combination;
DROP FUNCTION time_differences, time_truth;
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue WHERE name LIKE 'time%' ORDER BY name;
SELECT * FROM queue_state.verify();

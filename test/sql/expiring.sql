--
-- Messages that time has passed over.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('expiring.a');
SELECT name FROM queue_state.create_queue('expiring.b');
SELECT name FROM queue_state.create_queue('expiring.c');

INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, available_after,
									   expires_at, last_delivered_at, payload)
	SELECT q.queue_id, m.priority::queue_state.message_priority, m.state::queue_state.message_state,
		   m.attempts, clock_timestamp() + m.available, clock_timestamp() + m.expiry,
		   CASE WHEN m.attempts > 0 THEN clock_timestamp() END, to_jsonb(m.what)
	FROM (VALUES
		('expiring.a', 'LOW', 'READY', 0, interval '0', interval '-3 seconds', 'goes: READY, never delivered'),
		('expiring.a', 'HIGH', 'READY', 1, '0', '-2 seconds', 'goes: READY, delivered before'),
		('expiring.a', 'HIGH', 'READY', 0, '0', '1 hour', 'stays: READY'),
		('expiring.b', 'LOW', 'DELAYED', 0, '-1 seconds', '-1 seconds', 'goes: DELAYED, due'),
		('expiring.b', 'LOW', 'DELAYED', 2, '1 hour', '-1 seconds', 'goes: DELAYED, not due'),
		('expiring.b', 'LOW', 'DELAYED', 0, '1 hour', '2 hours', 'stays: DELAYED'),
		('expiring.b', 'LOW', 'DELAYED', 0, '-1 seconds', '2 hours', 'stays: DELAYED, due'),
		('expiring.b', 'MEDIUM', 'IN_FLIGHT', 1, '-1 seconds', '-1 seconds', 'goes: lease over'),
		('expiring.b', 'MEDIUM', 'IN_FLIGHT', 1, '1 hour', '-1 seconds', 'stays: leased'),
		('expiring.b', 'MEDIUM', 'IN_FLIGHT', 1, '-1 seconds', '1 hour', 'stays: lease over, not expired'),
		('expiring.c', 'MEDIUM', 'READY', 0, '0', '1 hour', 'stays: untouched queue'))
		m (queue, priority, state, attempts, available, expiry, what)
		JOIN queue_state.queue q ON q.name = m.queue;

-- One call removes at most what it is told to, and says from where.
SELECT sum(never_delivered + previously_delivered) FROM queue_state.expire_messages(2);
SELECT * FROM queue_state.expire_messages(1);
SELECT * FROM queue_state.expire_messages();
SELECT * FROM queue_state.expire_messages();
SELECT payload FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id)
	WHERE q.name LIKE 'expiring%' ORDER BY payload;
SELECT queue_name, priority, expired_never_delivered_total, expired_previously_delivered_total
	FROM queue_state.snapshot()
	WHERE queue_name LIKE 'expiring%'
		AND expired_never_delivered_total + expired_previously_delivered_total > 0;
SELECT * FROM queue_state.verify();

-- A lease alive past the expiry may still be acknowledged.
UPDATE queue_state.queue_message SET receipt_handle = gen_random_uuid()
	WHERE payload = '"stays: leased"' RETURNING id, receipt_handle \gset
SELECT queue_state.acknowledge(:'id', :'receipt_handle');

-- A message is never both expired and delivered.
SELECT queue_state.enqueue('expiring.c', '"late"', ttl => '1 second') AS id \gset
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() WHERE id = :'id';
SELECT payload FROM queue_state.dequeue('expiring.c', 10);
SELECT * FROM queue_state.expire_messages();

-- Rolled back, nothing has expired.
INSERT INTO queue_state.queue_message (queue_id, expires_at)
	SELECT queue_id, clock_timestamp() FROM queue_state.queue WHERE name = 'expiring.c';
BEGIN;
SELECT * FROM queue_state.expire_messages();
ROLLBACK;
SELECT expired_never_delivered_total FROM queue_state.snapshot()
	WHERE queue_name = 'expiring.c' AND priority = 'MEDIUM';
SELECT * FROM queue_state.expire_messages();
SELECT expired_never_delivered_total FROM queue_state.snapshot()
	WHERE queue_name = 'expiring.c' AND priority = 'MEDIUM';

SELECT * FROM queue_state.expire_messages(0);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM queue_state.expire_messages(NULL);
\echo :LAST_ERROR_SQLSTATE

-- What is not due costs nothing: with 20,000 live messages in every state, a
-- call that finds one row reads a few pages, with statistics and without.
INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, available_after)
	SELECT q.queue_id, 'LOW', s.state, 1, clock_timestamp() + interval '1 hour'
	FROM queue_state.queue q, unnest(enum_range(NULL::queue_state.message_state)) s (state),
		 generate_series(1, 6666) WHERE q.name = 'expiring.c';
CREATE FUNCTION pg_temp.pages_read(call text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan	json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || call INTO plan;
	RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
END
$$;
CREATE TEMP TABLE reading (call text, statistics boolean, pages bigint);
DO $$
BEGIN
	FOR round IN 1 .. 2 LOOP
		FOR i IN 1 .. 8 LOOP
			INSERT INTO queue_state.queue_message (queue_id, expires_at)
				SELECT queue_id, clock_timestamp() FROM queue_state.queue WHERE name = 'expiring.c';
			INSERT INTO reading SELECT c.call, round = 2, pg_temp.pages_read(c.call) FROM (VALUES
				('SELECT * FROM queue_state.expire_messages()'),
				('SELECT queue_state.dead_letter_exhausted()'),
				('SELECT * FROM queue_state.purge_dead_letters(''1 day'')')) c (call);
		END LOOP;
		ANALYZE queue_state.queue_message;
	END LOOP;
END
$$;
-- The least of eight calls: the first ones of a session fill its caches.
SELECT call, statistics, min(pages) < 150 AS few FROM reading GROUP BY 1, 2 ORDER BY 1, 2;

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue(name, true) FROM queue_state.queue WHERE name LIKE 'expiring%' ORDER BY name;

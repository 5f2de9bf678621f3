--
-- counting.sql: the oracle, a plain PL/pgSQL twin of the counting.
--
-- Swaps the functions behind the counting triggers for ones that update the
-- shard rows at the end of each statement: easy to read, obviously right, and
-- in everybody's way (that is what src/apply.c is about).  The states are
-- counted by it, and so are the events of the functions written in SQL; those
-- of enqueue(), dequeue() and acknowledge() remain the library's.
--
-- Run it in a database that has the extension, as its owner.  ALTER EXTENSION
-- knows nothing of it; DROP EXTENSION ends it.
--

-- One change of one counter of one shard.
CREATE FUNCTION queue_state.oracle_add(queue_id integer, priority queue_state.message_priority,
									   shard smallint, counter text, amount bigint)
	RETURNS void LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	recorded bigint;
BEGIN
	-- The queue is just being deleted, and its counters with it; or it never
	-- was there, and then oracle_reference() has said so.
	IF amount = 0 OR NOT EXISTS (SELECT FROM queue_state.queue AS q WHERE q.queue_id = oracle_add.queue_id) THEN
		RETURN;
	END IF;

	INSERT INTO queue_state.queue_priority_state_shard
		SELECT oracle_add.queue_id, oracle_add.priority, oracle_add.shard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
		ON CONFLICT DO NOTHING;

	EXECUTE format('SELECT %I FROM queue_state.queue_priority_state_shard'
				   ' WHERE queue_id = $1 AND priority = $2 AND shard = $3 FOR UPDATE', counter)
		INTO recorded USING queue_id, priority, shard;

	IF counter LIKE '%\_count' AND recorded + amount < 0 THEN
		RAISE EXCEPTION 'counter "%" of queue "%", priority % would become negative',
				counter, (SELECT q.name FROM queue_state.queue AS q WHERE q.queue_id = oracle_add.queue_id), priority
			USING ERRCODE = 'check_violation',
				  DETAIL = format('Shard %s records %s and this transaction changes it by %s.', shard, recorded, amount),
				  HINT = 'Messages were written while the counting triggers did not fire. '
						 'SELECT * FROM queue_state.verify() shows the drift, SELECT queue_state.rebuild() repairs it.';
	END IF;

	EXECUTE format('UPDATE queue_state.queue_priority_state_shard SET %1$I = %1$I + $4'
				   ' WHERE queue_id = $1 AND priority = $2 AND shard = $3', counter)
		USING queue_id, priority, shard, amount;
END
$$;

-- What the library's trigger also does: the foreign key.
CREATE FUNCTION queue_state.oracle_reference(table_name text, queue_id integer)
	RETURNS void LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM queue_state.queue AS q WHERE q.queue_id = oracle_reference.queue_id FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'insert or update on table "%" violates foreign key constraint "%"',
				table_name, table_name || '_queue_id_fkey'
			USING ERRCODE = 'foreign_key_violation',
				  DETAIL = format('Key (queue_id)=(%s) is not present in table "queue".', queue_id),
				  HINT = 'SELECT queue_id, name FROM queue_state.queue lists the queues.';
	END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION
	queue_state.oracle_add(integer, queue_state.message_priority, smallint, text, bigint),
	queue_state.oracle_reference(text, integer)
	FROM PUBLIC;

-- The three below know their statement's rows by the names that the triggers
-- in sql/counting.sql give the transition tables.
CREATE OR REPLACE FUNCTION queue_state.count_messages() RETURNS trigger LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		PERFORM queue_state.oracle_reference(TG_TABLE_NAME, r.queue_id)
		FROM (SELECT DISTINCT i.queue_id FROM inserted AS i ORDER BY 1) AS r;
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, c.counter, c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard,
					 lower(r.state::text) || '_count' AS counter, count(*) AS amount
			  FROM inserted AS r GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4) AS c;
	ELSIF TG_OP = 'DELETE' THEN
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, c.counter, c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard,
					 lower(r.state::text) || '_count' AS counter, -count(*) AS amount
			  FROM deleted AS r GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4) AS c;
	ELSE
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, c.counter, c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard,
					 lower(r.state::text) || '_count' AS counter, sum(r.sign) AS amount
			  FROM (SELECT b.queue_id, b.priority, b.id, b.state, -1 AS sign FROM before AS b
					UNION ALL
					SELECT a.queue_id, a.priority, a.id, a.state, 1 FROM after AS a) AS r
			  GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4) AS c;
	END IF;
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION queue_state.count_dead_letters() RETURNS trigger LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		PERFORM queue_state.oracle_reference(TG_TABLE_NAME, r.queue_id)
		FROM (SELECT DISTINCT i.queue_id FROM inserted AS i ORDER BY 1) AS r;
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, 'dead_letter_count', c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard, count(*) AS amount
			  FROM inserted AS r GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) AS c;
	ELSIF TG_OP = 'DELETE' THEN
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, 'dead_letter_count', c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard, -count(*) AS amount
			  FROM deleted AS r GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) AS c;
	ELSE
		PERFORM queue_state.oracle_add(c.queue_id, c.priority, c.shard, 'dead_letter_count', c.amount)
		FROM (SELECT r.queue_id, r.priority, queue_state.message_shard(r.id) AS shard, sum(r.sign) AS amount
			  FROM (SELECT b.queue_id, b.priority, b.id, -1 AS sign FROM before AS b
					UNION ALL
					SELECT a.queue_id, a.priority, a.id, 1 FROM after AS a) AS r
			  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) AS c;
	END IF;
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION queue_state.count_truncate() RETURNS trigger LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_TABLE_NAME = 'queue_message' THEN
		UPDATE queue_state.queue_priority_state_shard SET ready_count = 0, in_flight_count = 0, delayed_count = 0;
		UPDATE queue_state.queue_priority_state_pending SET ready_count = 0, in_flight_count = 0, delayed_count = 0;
	ELSE
		UPDATE queue_state.queue_priority_state_shard SET dead_letter_count = 0;
		UPDATE queue_state.queue_priority_state_pending SET dead_letter_count = 0;
	END IF;
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION queue_state.count_event(counter text, queue_id integer,
												   priority queue_state.message_priority, message_id uuid)
	RETURNS void LANGUAGE plpgsql STRICT
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.oracle_add(queue_id, priority, queue_state.message_shard(message_id), counter, 1);
END
$$;

CREATE OR REPLACE FUNCTION queue_state.correct_counter(counter text, queue_id integer,
													   priority queue_state.message_priority,
													   shard smallint, amount bigint)
	RETURNS void LANGUAGE plpgsql STRICT
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.oracle_add(queue_id, priority, shard, counter, amount);
END
$$;

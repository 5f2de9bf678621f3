--
-- statement_end.sql: counters the well-known way, a trigger that updates the
-- shard rows at the end of each statement.  Run after uncounted.sql.
--
-- It is written with care: the rows of a statement are locked in the order of
-- their key, so that two statements cannot deadlock, only transactions of
-- several statements.  And it is spared what queue_state does besides: its rows
-- exist beforehand, it counts no events, and it is on queue_message alone.
--

INSERT INTO queue_state.queue_priority_state_shard
SELECT q.queue_id, p.priority, s.shard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM queue_state.queue AS q,
	 unnest(enum_range(NULL::queue_state.message_priority)) AS p (priority),
	 generate_series(0, 31) AS s (shard);

CREATE FUNCTION bench.shard(id uuid) RETURNS smallint
	LANGUAGE sql IMMUTABLE AS 'SELECT queue_state.message_shard(id)';

CREATE FUNCTION bench.count_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	d record;
BEGIN
	FOR d IN
		SELECT queue_id, priority, bench.shard(id) AS shard,
			   count(*) FILTER (WHERE state = 'READY') AS ready,
			   count(*) FILTER (WHERE state = 'IN_FLIGHT') AS in_flight,
			   count(*) FILTER (WHERE state = 'DELAYED') AS delayed
		FROM inserted
		GROUP BY 1, 2, 3
		ORDER BY 1, 2, 3
	LOOP
		UPDATE queue_state.queue_priority_state_shard AS s
		SET ready_count = s.ready_count + d.ready,
			in_flight_count = s.in_flight_count + d.in_flight,
			delayed_count = s.delayed_count + d.delayed
		WHERE s.queue_id = d.queue_id AND s.priority = d.priority AND s.shard = d.shard;
	END LOOP;
	RETURN NULL;
END
$$;

CREATE FUNCTION bench.count_delete() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	d record;
BEGIN
	FOR d IN
		SELECT queue_id, priority, bench.shard(id) AS shard,
			   -count(*) FILTER (WHERE state = 'READY') AS ready,
			   -count(*) FILTER (WHERE state = 'IN_FLIGHT') AS in_flight,
			   -count(*) FILTER (WHERE state = 'DELAYED') AS delayed
		FROM deleted
		GROUP BY 1, 2, 3
		ORDER BY 1, 2, 3
	LOOP
		UPDATE queue_state.queue_priority_state_shard AS s
		SET ready_count = s.ready_count + d.ready,
			in_flight_count = s.in_flight_count + d.in_flight,
			delayed_count = s.delayed_count + d.delayed
		WHERE s.queue_id = d.queue_id AND s.priority = d.priority AND s.shard = d.shard;
	END LOOP;
	RETURN NULL;
END
$$;

CREATE FUNCTION bench.count_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	d record;
BEGIN
	FOR d IN
		SELECT queue_id, priority, bench.shard(id) AS shard,
			   coalesce(sum(sign) FILTER (WHERE state = 'READY'), 0) AS ready,
			   coalesce(sum(sign) FILTER (WHERE state = 'IN_FLIGHT'), 0) AS in_flight,
			   coalesce(sum(sign) FILTER (WHERE state = 'DELAYED'), 0) AS delayed
		FROM (SELECT queue_id, priority, id, state, -1 AS sign FROM before
			  UNION ALL
			  SELECT queue_id, priority, id, state, 1 FROM after) AS change
		GROUP BY 1, 2, 3
		ORDER BY 1, 2, 3
	LOOP
		UPDATE queue_state.queue_priority_state_shard AS s
		SET ready_count = s.ready_count + d.ready,
			in_flight_count = s.in_flight_count + d.in_flight,
			delayed_count = s.delayed_count + d.delayed
		WHERE s.queue_id = d.queue_id AND s.priority = d.priority AND s.shard = d.shard;
	END LOOP;
	RETURN NULL;
END
$$;

CREATE FUNCTION bench.count_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE queue_state.queue_priority_state_shard
	SET ready_count = 0, in_flight_count = 0, delayed_count = 0;
	RETURN NULL;
END
$$;

CREATE TRIGGER count_insert AFTER INSERT ON queue_state.queue_message
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION bench.count_insert();
CREATE TRIGGER count_delete AFTER DELETE ON queue_state.queue_message
	REFERENCING OLD TABLE AS deleted
	FOR EACH STATEMENT EXECUTE FUNCTION bench.count_delete();
CREATE TRIGGER count_update AFTER UPDATE ON queue_state.queue_message
	REFERENCING OLD TABLE AS before NEW TABLE AS after
	FOR EACH STATEMENT EXECUTE FUNCTION bench.count_update();
CREATE TRIGGER count_truncate AFTER TRUNCATE ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION bench.count_truncate();

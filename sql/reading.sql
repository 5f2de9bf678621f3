--
-- reading.sql: reading the state, checking it against the truth, and
-- repairing it.
--
-- Everything but rebuild() writes nothing and works on a hot standby.
--

CREATE FUNCTION queue_state.physical_state(
		OUT queue_id integer, OUT queue_name text, OUT priority queue_state.message_priority,
		OUT ready bigint, OUT in_flight bigint, OUT delayed bigint, OUT dead_letters bigint)
	RETURNS SETOF record
	LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 100
	AS 'MODULE_PATHNAME', 'qs_physical_state';
COMMENT ON FUNCTION queue_state.physical_state() IS
'what is written in the message rows, one row per queue and priority; includes this transaction''s own changes. Costs queues x priorities x shards, whatever the backlog';

CREATE FUNCTION queue_state.logical_state(
		OUT queue_id integer, OUT queue_name text, OUT priority queue_state.message_priority,
		OUT ready bigint, OUT in_flight bigint, OUT delayed bigint, OUT exhausted bigint,
		OUT dead_letters bigint)
	RETURNS SETOF record
	LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 100
	AS 'MODULE_PATHNAME', 'qs_logical_state';
COMMENT ON FUNCTION queue_state.logical_state() IS
'what a consumer would see now: the physical state corrected for expired messages, elapsed leases and due delays. Costs in addition one index entry per expired READY and per elapsed message. 23514 if the counters have drifted below zero';

CREATE FUNCTION queue_state.snapshot(
		OUT queue_id integer, OUT queue_name text, OUT priority queue_state.message_priority,
		OUT ready bigint, OUT in_flight bigint, OUT delayed bigint, OUT exhausted bigint,
		OUT expired_backlog bigint, OUT elapsed_backlog bigint, OUT dead_letters bigint,
		OUT oldest_ready_age_seconds double precision,
		OUT oldest_in_flight_age_seconds double precision,
		OUT enqueued_total bigint, OUT delivered_total bigint, OUT acknowledged_total bigint,
		OUT expired_never_delivered_total bigint, OUT expired_previously_delivered_total bigint,
		OUT dead_lettered_total bigint, OUT dead_letter_purged_total bigint,
		OUT dead_letter_redriven_total bigint)
	RETURNS SETOF record
	LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 100
	AS 'MODULE_PATHNAME', 'qs_snapshot';
COMMENT ON FUNCTION queue_state.snapshot() IS
'logical_state() with backlogs, ages of the oldest messages in seconds and event totals, HIGH first, in one MVCC snapshot: what the collector exports. 23514 if the counters have drifted below zero';

CREATE FUNCTION queue_state.rollup_by_shard(
		OUT queue_id integer, OUT priority queue_state.message_priority, OUT shard smallint,
		OUT ready bigint, OUT in_flight bigint, OUT delayed bigint, OUT dead_letters bigint)
	RETURNS SETOF record
	LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 1000
	AS 'MODULE_PATHNAME', 'qs_rollup_by_shard';
COMMENT ON FUNCTION queue_state.rollup_by_shard() IS
'internal: the contributions to every shard (its row, its pending rows, this transaction''s changes), to be summed up';

-- Every counter of every shard twice: as recorded, and as the message tables
-- say, in the snapshot of the calling query.  With row_security off, a policy
-- that would hide messages from it is an error and not drift.
CREATE FUNCTION queue_state.counters_by_shard(
		only_queue_id integer,
		OUT queue_id integer, OUT priority queue_state.message_priority, OUT shard smallint,
		OUT counter text, OUT recorded bigint, OUT actual bigint)
	RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
	SELECT s.queue_id, s.priority, s.shard, c.counter,
		   coalesce(sum(c.value) FILTER (WHERE s.is_recorded), 0)::bigint,
		   coalesce(sum(c.value) FILTER (WHERE NOT s.is_recorded), 0)::bigint
	FROM (SELECT r.queue_id, r.priority, r.shard,
				 r.ready, r.in_flight, r.delayed, r.dead_letters, true AS is_recorded
		  FROM queue_state.rollup_by_shard() AS r
		  UNION ALL
		  SELECT m.queue_id, m.priority, queue_state.message_shard(m.id),
				 count(*) FILTER (WHERE m.state = 'READY'),
				 count(*) FILTER (WHERE m.state = 'IN_FLIGHT'),
				 count(*) FILTER (WHERE m.state = 'DELAYED'), 0, false
		  FROM queue_state.queue_message AS m
		  GROUP BY m.queue_id, m.priority, queue_state.message_shard(m.id)
		  UNION ALL
		  SELECT d.queue_id, d.priority, queue_state.message_shard(d.id),
				 0, 0, 0, count(*), false
		  FROM queue_state.queue_dead_letter_message AS d
		  GROUP BY d.queue_id, d.priority, queue_state.message_shard(d.id)) AS s
	CROSS JOIN LATERAL (VALUES ('ready_count', s.ready), ('in_flight_count', s.in_flight),
							   ('delayed_count', s.delayed), ('dead_letter_count', s.dead_letters))
		AS c (counter, value)
	WHERE only_queue_id IS NULL OR s.queue_id = only_queue_id
	GROUP BY s.queue_id, s.priority, s.shard, c.counter
$$;
COMMENT ON FUNCTION queue_state.counters_by_shard(integer) IS
'internal: recorded and actual state counters of every shard of a queue (NULL: of all queues), for verify() and rebuild()';

CREATE FUNCTION queue_state.drift(
		OUT queue_name text, OUT priority queue_state.message_priority,
		OUT counter text, OUT recorded bigint, OUT actual bigint)
	RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
	WITH by_shard AS MATERIALIZED
	(
		SELECT * FROM queue_state.counters_by_shard(NULL)
	), by_cell AS
	(
		SELECT b.queue_id, b.priority, b.counter,
			   sum(b.recorded)::bigint AS recorded, sum(b.actual)::bigint AS actual
		FROM by_shard AS b
		GROUP BY b.queue_id, b.priority, b.counter
	), drift AS
	(
		SELECT c.queue_id, c.priority, c.counter, NULL::smallint AS shard, c.recorded, c.actual
		FROM by_cell AS c
		WHERE c.recorded <> c.actual
		UNION ALL
		-- shards that are wrong in opposite ways, so that their sum is right
		SELECT b.queue_id, b.priority, b.counter || ' of shard ' || b.shard, b.shard, b.recorded, b.actual
		FROM by_shard AS b JOIN by_cell AS c USING (queue_id, priority, counter)
		WHERE b.recorded <> b.actual AND c.recorded = c.actual
	)
	SELECT coalesce(q.name, 'no queue with id ' || d.queue_id), d.priority, d.counter,
		   d.recorded, d.actual
	FROM drift AS d LEFT JOIN queue_state.queue AS q USING (queue_id)
	ORDER BY q.name, d.queue_id, d.priority DESC, d.counter, d.shard
$$;
COMMENT ON FUNCTION queue_state.drift() IS
'internal: the inside of verify(), in the snapshot of the calling query';

CREATE FUNCTION queue_state.verify(
		OUT queue_name text, OUT priority queue_state.message_priority,
		OUT counter text, OUT recorded bigint, OUT actual bigint)
	RETURNS SETOF record
	LANGUAGE c STABLE PARALLEL RESTRICTED
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_verify';
COMMENT ON FUNCTION queue_state.verify() IS
'drift: every counter whose recorded value is not what the message tables say, in one MVCC snapshot; no row means exact. Reads all messages, locks nothing';

-- Drift is the same in every snapshot: message transactions change recorded
-- and actual values alike.  So it can be taken from one snapshot and added as
-- a correction, and no message transaction need be kept out for that.  Two
-- corrections at a time would be one too many, hence the lock, which message
-- transactions do not meet; the snapshot has to be newer than the lock.
CREATE FUNCTION queue_state.correct_drift(only_queue_id integer) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	correction record;
	corrected bigint := 0;
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'rebuild() cannot run in a % transaction',
				upper(current_setting('transaction_isolation'))
			USING ERRCODE = 'invalid_transaction_state',
				  DETAIL = 'It has to see what was committed while it waited for its locks.',
				  HINT = 'Call it in a READ COMMITTED transaction.';
	END IF;

	LOCK TABLE queue_state.queue_priority_state_shard IN SHARE UPDATE EXCLUSIVE MODE;

	FOR correction IN
		WITH drift AS MATERIALIZED
		(
			SELECT * FROM queue_state.counters_by_shard(only_queue_id) AS c
			WHERE c.recorded <> c.actual
		), corrected AS
		(
			SELECT d.*, queue_state.correct_counter(d.counter, d.queue_id, d.priority, d.shard,
													d.actual - d.recorded)
			FROM drift AS d
		)
		SELECT coalesce(q.name, 'no queue with id ' || c.queue_id) AS queue_name,
			   c.priority, c.counter, sum(c.actual - c.recorded) AS amount,
			   count(*) AS shards, count(c.correct_counter) AS done
		FROM corrected AS c LEFT JOIN queue_state.queue AS q USING (queue_id)
		GROUP BY c.queue_id, q.name, c.priority, c.counter
		ORDER BY q.name, c.queue_id, c.priority DESC, c.counter
	LOOP
		corrected := corrected + 1;
		RAISE NOTICE 'corrected counter "%" of queue "%", priority % by % in % shard(s)',
			correction.counter, correction.queue_name, correction.priority,
			correction.amount, correction.shards;
	END LOOP;

	RETURN corrected;
END
$$;
COMMENT ON FUNCTION queue_state.correct_drift(integer) IS
'internal: the common part of rebuild() and rebuild(queue)';

CREATE FUNCTION queue_state.rebuild() RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Waits for the writers at work, among them loads that are not counted,
	-- and keeps new ones out until this transaction ends.
	LOCK TABLE queue_state.queue_message, queue_state.queue_dead_letter_message
		IN SHARE ROW EXCLUSIVE MODE;
	PERFORM queue_state.fold_pending();
	RETURN queue_state.correct_drift(NULL);
END
$$;
COMMENT ON FUNCTION queue_state.rebuild() IS
'recounts the states of all queues from the message tables and corrects the counters; returns how many were wrong and says which in a NOTICE. Event totals stay. Keeps writers of messages out (SHARE ROW EXCLUSIVE) until the transaction ends, readers not. 25000 unless READ COMMITTED';

CREATE FUNCTION queue_state.rebuild(queue text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	this_queue_id integer;
BEGIN
	-- Nobody may drop the queue meanwhile: the correction would outlive it.
	-- One that is dropped while this waits may be there again, as another.
	FOR attempt IN 1 .. 10 LOOP
		this_queue_id := queue_state.queue_id_of(rebuild.queue);
		PERFORM 1 FROM queue_state.queue AS q
			WHERE q.queue_id = this_queue_id FOR KEY SHARE;
		EXIT WHEN FOUND;
	END LOOP;
	RETURN queue_state.correct_drift(this_queue_id);
END
$$;
COMMENT ON FUNCTION queue_state.rebuild(text) IS
'rebuild() for one queue, keeping no writer out: what is being written meanwhile counts itself. 22004 if the queue is NULL, 42704 if it does not exist, 25000 unless READ COMMITTED';

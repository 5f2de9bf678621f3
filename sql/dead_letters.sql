--
-- dead_letters.sql: into the dead letters, back, and out.
--
-- Every function here picks its rows with SKIP LOCKED, so any number of them
-- may run beside each other and beside consumers.  Plans must not depend on
-- statistics, which are wrong exactly when there is much to clean: hence
-- enable_seqscan = off, ids handed over as arrays, and one index seek for each
-- queue and priority.  jit = off goes with it: a plan that the switches make
-- look dear would be compiled, for 100 ms, to run for one.
--

CREATE FUNCTION queue_state.dead_letter_exhausted(max_messages integer DEFAULT 500)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
	called_at	timestamptz := pg_catalog.clock_timestamp();
	exhausted	uuid[];
BEGIN
	PERFORM queue_state.check_count('max_messages', dead_letter_exhausted.max_messages);

	exhausted := ARRAY(
		SELECT waiting.id
			FROM queue_state.queue q
				CROSS JOIN pg_catalog.unnest(
					pg_catalog.enum_range(NULL::queue_state.message_priority)) p (priority)
				CROSS JOIN LATERAL (
					SELECT m.id FROM queue_state.queue_message m
						WHERE m.queue_id = q.queue_id
							AND m.priority = p.priority
							AND m.state <> 'READY'
							AND m.available_after <= called_at
							AND m.expires_at > called_at
							AND m.delivery_attempts >= q.max_delivery_attempts
						ORDER BY m.available_after
						LIMIT dead_letter_exhausted.max_messages
						FOR UPDATE SKIP LOCKED) waiting
			LIMIT dead_letter_exhausted.max_messages);
	RETURN queue_state.dead_letter(exhausted, 'MAX_DELIVERY_ATTEMPTS_EXHAUSTED', NULL, called_at);
END;
$$;
COMMENT ON FUNCTION queue_state.dead_letter_exhausted(integer) IS
'moves elapsed messages that have used up their delivery attempts to the dead letters, in all queues, and returns how many; dequeue() does the same for the queue it reads, this is for queues nobody reads.
max_messages: at most so many in this call, default 500; a result below it means that nothing is left but what others hold
errors: 22004 max_messages is NULL, 22023 below 1';

CREATE FUNCTION queue_state.redriven_headers(headers jsonb, enqueued_at timestamptz)
RETURNS jsonb
LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT pg_catalog.jsonb_build_object('original-enqueued-at',
				pg_catalog.to_char(enqueued_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
		|| COALESCE(headers, '{}')
$$;
COMMENT ON FUNCTION queue_state.redriven_headers(jsonb, timestamptz) IS
'internal: headers with "original-enqueued-at" added in UTC, unless an earlier redrive has set it';

CREATE FUNCTION queue_state.redrive_dead_letters(queue text, max_messages integer DEFAULT NULL,
												 ids uuid[] DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
DECLARE
	target		integer := queue_state.queue_id_of(redrive_dead_letters.queue);
	fresh_ttl	interval;
	called_at	timestamptz := pg_catalog.clock_timestamp();
	picked		uuid[];
	with_key	uuid[];
	without_key	uuid[];
	redriven	bigint;
BEGIN
	IF redrive_dead_letters.max_messages IS NOT NULL THEN
		PERFORM queue_state.check_count('max_messages', redrive_dead_letters.max_messages);
	END IF;
	SELECT q.default_ttl INTO fresh_ttl FROM queue_state.queue q WHERE q.queue_id = target;

	IF redrive_dead_letters.ids IS NULL THEN
		picked := ARRAY(
			SELECT d.id FROM queue_state.queue_dead_letter_message d
				WHERE d.queue_id = target
				ORDER BY d.dead_lettered_at, d.id
				LIMIT redrive_dead_letters.max_messages
				FOR UPDATE SKIP LOCKED);
	ELSE
		picked := ARRAY(
			SELECT d.id FROM queue_state.queue_dead_letter_message d
				WHERE d.id = ANY (redrive_dead_letters.ids) AND d.queue_id = target
				ORDER BY d.dead_lettered_at, d.id
				LIMIT redrive_dead_letters.max_messages
				FOR UPDATE SKIP LOCKED);
	END IF;

	-- Keys are inserted in their own order, so that two redrivers with the
	-- same keys wait for each other in one direction only.
	WITH inserted AS (
		INSERT INTO queue_state.queue_message AS m
				(id, queue_id, priority, state, delivery_attempts, enqueued_at, expires_at,
				 available_after, last_delivered_at, deduplication_key, headers, payload, last_error)
			SELECT d.id, d.queue_id, d.priority, 'READY', 0, called_at, called_at + fresh_ttl,
				   called_at, d.last_delivered_at, d.deduplication_key,
				   queue_state.redriven_headers(d.headers, d.enqueued_at), d.payload, d.last_error
				FROM queue_state.queue_dead_letter_message d
				WHERE d.id = ANY (picked)
				ORDER BY d.deduplication_key, d.id
			ON CONFLICT DO NOTHING
			RETURNING m.id
	)
	SELECT COALESCE(pg_catalog.array_agg(i.id), '{}') INTO with_key FROM inserted i;

	-- A live message has the key by now: this one goes on without it.  What
	-- is not inserted even so has the id of a live message, and stays a dead
	-- letter.
	WITH inserted AS (
		INSERT INTO queue_state.queue_message AS m
				(id, queue_id, priority, state, delivery_attempts, enqueued_at, expires_at,
				 available_after, last_delivered_at, headers, payload, last_error)
			SELECT d.id, d.queue_id, d.priority, 'READY', 0, called_at, called_at + fresh_ttl,
				   called_at, d.last_delivered_at,
				   queue_state.redriven_headers(d.headers, d.enqueued_at), d.payload, d.last_error
				FROM queue_state.queue_dead_letter_message d
				WHERE d.id = ANY (picked)
					AND d.id <> ALL (with_key)
					AND d.deduplication_key IS NOT NULL
			ON CONFLICT DO NOTHING
			RETURNING m.id
	)
	SELECT COALESCE(pg_catalog.array_agg(i.id), '{}') INTO without_key FROM inserted i;

	WITH gone AS (
		DELETE FROM queue_state.queue_dead_letter_message d
			WHERE d.id = ANY (with_key || without_key)
			RETURNING d.queue_id, d.priority, d.id
	)
	SELECT count(queue_state.count_event('dead_letter_redriven', g.queue_id, g.priority, g.id))
		INTO redriven FROM gone g;
	RETURN redriven;
END;
$$;
COMMENT ON FUNCTION queue_state.redrive_dead_letters(text, integer, uuid[]) IS
'puts dead letters of a queue back to READY, oldest dead letter first, and returns how many.
queue: its name; it may be paused
max_messages: at most so many; NULL, the default, for all
ids: only these; NULL, the default, for any
A redriven message keeps its id, priority, payload, headers, last_delivered_at and last_error.  It has 0 delivery attempts, is enqueued now, and expires after the queue''s default_ttl; its first enqueued_at is kept in the header "original-enqueued-at".  Its deduplication key is dropped if a live message holds it.  A dead letter whose id a live message has stays.  Dead letters that others hold are skipped.
errors: 22004 queue is NULL, 22023 max_messages below 1, 42704 no such queue';

CREATE FUNCTION queue_state.purge_dead_letters(older_than interval,
											   max_messages integer DEFAULT 500)
RETURNS TABLE (queue_name text, purged bigint)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
	called_at	timestamptz := pg_catalog.clock_timestamp();
	old			uuid[];
BEGIN
	PERFORM queue_state.check_duration('older_than', purge_dead_letters.older_than,
									   '0 seconds', '1000 years');
	PERFORM queue_state.check_count('max_messages', purge_dead_letters.max_messages);

	old := ARRAY(
		SELECT d.id FROM queue_state.queue_dead_letter_message d
			WHERE d.dead_lettered_at <= called_at - purge_dead_letters.older_than
			ORDER BY d.dead_lettered_at
			LIMIT purge_dead_letters.max_messages
			FOR UPDATE SKIP LOCKED);
	RETURN QUERY
		WITH gone AS (
			DELETE FROM queue_state.queue_dead_letter_message d
				WHERE d.id = ANY (old)
				RETURNING d.queue_id, d.priority, d.id
		), counted AS (
			SELECT g.queue_id,
				   count(queue_state.count_event('dead_letter_purged', g.queue_id, g.priority, g.id)) AS total
				FROM gone g GROUP BY g.queue_id
		)
		SELECT q.name, c.total
			FROM counted c JOIN queue_state.queue q ON q.queue_id = c.queue_id
			ORDER BY q.name;
END;
$$;
COMMENT ON FUNCTION queue_state.purge_dead_letters(interval, integer) IS
'deletes dead letters of all queues by age, oldest first, and returns one row for each queue that lost any.
older_than: time since the message became a dead letter, 0 seconds to 1000 years
max_messages: at most so many in this call, default 500; fewer in sum means that nothing is left but what others hold
errors: 22004 argument is NULL, 22023 argument out of range';

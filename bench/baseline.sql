--
-- baseline.sql: the plain PL/pgSQL forms of the same operations, as a user
-- would write them over the same tables.  What bench/ compares with.
--

CREATE SCHEMA baseline;

CREATE FUNCTION baseline.dequeue(queue_name text, max_messages integer DEFAULT 1)
	RETURNS SETOF queue_state.delivery
	LANGUAGE plpgsql
AS $$
DECLARE
	q		queue_state.queue;
	moment	timestamptz := clock_timestamp();
BEGIN
	SELECT * INTO STRICT q FROM queue_state.queue WHERE name = queue_name;
	IF q.paused THEN
		RETURN;
	END IF;
	RETURN QUERY
		WITH candidate AS (
			SELECT m.id
				FROM queue_state.queue_message m
				WHERE m.queue_id = q.queue_id
					AND m.expires_at > moment
					AND (m.state = 'READY'
						 OR (m.state <> 'READY'
							 AND m.available_after <= moment
							 AND m.delivery_attempts < q.max_delivery_attempts))
				ORDER BY m.priority DESC, m.enqueued_at, m.id
				LIMIT max_messages
				FOR UPDATE SKIP LOCKED
		)
		UPDATE queue_state.queue_message m
			SET state = 'IN_FLIGHT',
				delivery_attempts = m.delivery_attempts + 1,
				last_delivered_at = moment,
				available_after = moment + q.visibility_timeout,
				receipt_handle = gen_random_uuid()
			FROM candidate c
			WHERE m.id = c.id
			RETURNING m.id, m.receipt_handle, m.priority, m.delivery_attempts,
				m.enqueued_at, m.available_after, m.headers, m.payload;
END;
$$;

-- The kindest form for the planner: READY messages alone, one priority after
-- the other, each in the order of the index.
CREATE FUNCTION baseline.dequeue_ready(queue_name text, max_messages integer DEFAULT 1)
	RETURNS SETOF queue_state.delivery
	LANGUAGE plpgsql
AS $$
DECLARE
	q		queue_state.queue;
	moment	timestamptz := clock_timestamp();
	level	queue_state.message_priority;
	found_now	bigint;
	wanted	bigint := max_messages;
BEGIN
	SELECT * INTO STRICT q FROM queue_state.queue WHERE name = queue_name;
	IF q.paused THEN
		RETURN;
	END IF;
	FOREACH level IN ARRAY ARRAY['HIGH', 'MEDIUM', 'LOW']::queue_state.message_priority[] LOOP
		RETURN QUERY
			WITH candidate AS (
				SELECT m.id
					FROM queue_state.queue_message m
					WHERE m.queue_id = q.queue_id
						AND m.priority = level
						AND m.state = 'READY'
						AND m.expires_at > moment
					ORDER BY m.enqueued_at, m.id
					LIMIT wanted
					FOR UPDATE SKIP LOCKED
			)
			UPDATE queue_state.queue_message m
				SET state = 'IN_FLIGHT',
					delivery_attempts = m.delivery_attempts + 1,
					last_delivered_at = moment,
					available_after = moment + q.visibility_timeout,
					receipt_handle = gen_random_uuid()
				FROM candidate c
				WHERE m.id = c.id
				RETURNING m.id, m.receipt_handle, m.priority, m.delivery_attempts,
					m.enqueued_at, m.available_after, m.headers, m.payload;
		GET DIAGNOSTICS found_now = ROW_COUNT;
		wanted := wanted - found_now;
		EXIT WHEN wanted <= 0;
	END LOOP;
END;
$$;

CREATE FUNCTION baseline.acknowledge(message_id uuid, handle uuid) RETURNS boolean
	LANGUAGE plpgsql
AS $$
BEGIN
	DELETE FROM queue_state.queue_message m
		WHERE m.id = message_id AND m.receipt_handle = handle
			AND m.state = 'IN_FLIGHT' AND m.available_after > clock_timestamp();
	RETURN FOUND;
END;
$$;

CREATE FUNCTION baseline.acknowledge_batch(message_ids uuid[], handles uuid[]) RETURNS bigint
	LANGUAGE plpgsql
AS $$
DECLARE
	acknowledged	bigint;
BEGIN
	DELETE FROM queue_state.queue_message m
		USING unnest(message_ids, handles) AS l (id, handle)
		WHERE m.id = l.id AND m.receipt_handle = l.handle
			AND m.state = 'IN_FLIGHT' AND m.available_after > clock_timestamp();
	GET DIAGNOSTICS acknowledged = ROW_COUNT;
	RETURN acknowledged;
END;
$$;

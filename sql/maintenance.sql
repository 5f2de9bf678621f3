--
-- maintenance.sql: removing what time has passed over.
--
-- Rows are picked with SKIP LOCKED and deleted by id, so this waits for
-- nobody.  The settings keep the planner on the indexes whatever the
-- statistics say; with a million live messages a call reads those that have
-- expired, those that have elapsed, and no others.
--

CREATE FUNCTION queue_state.expire_messages(max_messages integer DEFAULT 500)
RETURNS TABLE (queue_name text, never_delivered bigint, previously_delivered bigint)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
	called_at	timestamptz := pg_catalog.clock_timestamp();
	expired		uuid[];
BEGIN
	PERFORM queue_state.check_count('max_messages', expire_messages.max_messages);

	expired := ARRAY(
		SELECT m.id FROM queue_state.queue_message m
			WHERE m.state = 'READY' AND m.expires_at <= called_at
			ORDER BY m.expires_at
			LIMIT expire_messages.max_messages
			FOR UPDATE SKIP LOCKED);
	expired := expired || ARRAY(
		SELECT m.id FROM queue_state.queue_message m
			WHERE m.state = 'DELAYED' AND m.expires_at <= called_at
			ORDER BY m.expires_at
			LIMIT expire_messages.max_messages - pg_catalog.cardinality(expired)
			FOR UPDATE SKIP LOCKED);
	expired := expired || ARRAY(
		SELECT waiting.id
			FROM queue_state.queue q
				CROSS JOIN pg_catalog.unnest(
					pg_catalog.enum_range(NULL::queue_state.message_priority)) p (priority)
				CROSS JOIN LATERAL (
					SELECT m.id FROM queue_state.queue_message m
						WHERE m.queue_id = q.queue_id
							AND m.priority = p.priority
							AND m.state = 'IN_FLIGHT'
							AND m.available_after <= called_at
							AND m.expires_at <= called_at
						ORDER BY m.available_after
						LIMIT expire_messages.max_messages - pg_catalog.cardinality(expired)
						FOR UPDATE SKIP LOCKED) waiting
			LIMIT expire_messages.max_messages - pg_catalog.cardinality(expired));

	RETURN QUERY
		WITH gone AS (
			DELETE FROM queue_state.queue_message m
				WHERE m.id = ANY (expired)
				RETURNING m.queue_id, m.priority, m.id,
						  m.delivery_attempts = 0 AND m.last_delivered_at IS NULL AS never
		), counted AS (
			SELECT g.queue_id, g.never,
				   count(queue_state.count_event(
							CASE WHEN g.never THEN 'expired_never_delivered'
								 ELSE 'expired_previously_delivered' END,
							g.queue_id, g.priority, g.id)) AS total
				FROM gone g GROUP BY g.queue_id, g.never
		)
		SELECT q.name,
			   COALESCE(pg_catalog.sum(c.total) FILTER (WHERE c.never), 0)::bigint,
			   COALESCE(pg_catalog.sum(c.total) FILTER (WHERE NOT c.never), 0)::bigint
			FROM counted c JOIN queue_state.queue q ON q.queue_id = c.queue_id
			GROUP BY q.name
			ORDER BY q.name;
END;
$$;
COMMENT ON FUNCTION queue_state.expire_messages(integer) IS
'deletes expired messages of all queues and returns one row for each queue that lost any: how many had never been delivered, and how many had.
READY and DELAYED messages go once they are past expires_at, a leased one only when its lease is over too.
max_messages: at most so many in this call, default 500; fewer in sum means that nothing is left but what others hold.  READY messages come first, oldest expiry first.
errors: 22004 max_messages is NULL, 22023 below 1';

--
-- retry.sql: a consumer gives a message back, or up.
--
-- A lease is held while the row is IN_FLIGHT under the caller's receipt
-- handle and available_after is still to come; each function judges it by
-- one clock reading, after locking the row.  Without a lease they change
-- nothing and return false, so a repeated call is harmless; NULL names no lease.
--

-- The caller has locked the messages.  A dead letter with the id of a message
-- is what an operator left behind who copied it back by hand: the message's
-- own history replaces it, because an error here would stop the queue.
CREATE FUNCTION queue_state.dead_letter(ids uuid[], reason text, error text,
										dead_lettered_at timestamptz)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	moved	bigint;
BEGIN
	WITH gone AS (
		DELETE FROM queue_state.queue_message m
			WHERE m.id = ANY (dead_letter.ids)
			RETURNING m.*
	), kept AS (
		INSERT INTO queue_state.queue_dead_letter_message AS d
				(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at,
				 last_delivered_at, dead_lettered_at, reason, deduplication_key,
				 headers, payload, last_error)
			SELECT g.id, g.queue_id, g.priority, g.delivery_attempts, g.enqueued_at,
				   g.expires_at, g.last_delivered_at, dead_letter.dead_lettered_at,
				   dead_letter.reason, g.deduplication_key, g.headers, g.payload,
				   COALESCE(dead_letter.error, g.last_error)
				FROM gone g
			ON CONFLICT (id) DO UPDATE
				SET (queue_id, priority, delivery_attempts, enqueued_at, expires_at,
					 last_delivered_at, dead_lettered_at, reason, deduplication_key,
					 headers, payload, last_error)
					= ROW (excluded.queue_id, excluded.priority, excluded.delivery_attempts,
						   excluded.enqueued_at, excluded.expires_at, excluded.last_delivered_at,
						   excluded.dead_lettered_at, excluded.reason, excluded.deduplication_key,
						   excluded.headers, excluded.payload, excluded.last_error)
			RETURNING d.queue_id, d.priority, d.id
	)
	SELECT count(queue_state.count_event('dead_lettered', k.queue_id, k.priority, k.id))
		INTO moved FROM kept k;
	RETURN moved;
END;
$$;
COMMENT ON FUNCTION queue_state.dead_letter(uuid[], text, text, timestamptz) IS
'internal: moves messages that the caller has locked to the dead letters with their history, counts them, and returns how many; error NULL keeps what the latest nack() said';

CREATE FUNCTION queue_state.nack(id uuid, receipt_handle uuid,
								 delay interval DEFAULT NULL, error text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	leased		record;
	judged_at	timestamptz;
	wait		interval;
	due			timestamptz;
BEGIN
	IF nack.delay IS NOT NULL THEN
		PERFORM queue_state.check_duration('delay', nack.delay, '0 seconds', '30 days');
	END IF;

	SELECT m.delivery_attempts, m.expires_at, m.available_after,
		   q.max_delivery_attempts, q.retry_delay, q.max_retry_delay
		INTO leased
		FROM queue_state.queue_message m
			JOIN queue_state.queue q ON q.queue_id = m.queue_id
		WHERE m.id = nack.id
			AND m.state = 'IN_FLIGHT'
			AND m.receipt_handle = nack.receipt_handle
		FOR UPDATE OF m;
	judged_at := pg_catalog.clock_timestamp();
	IF NOT FOUND OR leased.available_after <= judged_at THEN
		RETURN false;
	END IF;

	IF leased.delivery_attempts >= leased.max_delivery_attempts THEN
		PERFORM queue_state.dead_letter(ARRAY[nack.id], 'MAX_DELIVERY_ATTEMPTS_EXHAUSTED',
										nack.error, judged_at);
		RETURN true;
	END IF;

	-- Full jitter: uniform between 0 and the cap, so that messages which
	-- failed together do not come back together.  In double precision and
	-- with a bounded exponent nothing can overflow: 2^60 seconds is above
	-- any cap.
	wait := COALESCE(nack.delay,
		pg_catalog.make_interval(secs => pg_catalog.random()
			* LEAST(EXTRACT(epoch FROM leased.max_retry_delay)::double precision,
					EXTRACT(epoch FROM leased.retry_delay)::double precision
					* pg_catalog.power(2::double precision,
									   GREATEST(0, LEAST(leased.delivery_attempts - 1, 60))))));
	-- A wait beyond the expiry would hide a message nobody will ever see.
	due := LEAST(judged_at + wait, leased.expires_at);

	UPDATE queue_state.queue_message m
		SET state = CASE WHEN due > judged_at THEN 'DELAYED' ELSE 'READY' END::queue_state.message_state,
			available_after = due,
			receipt_handle = NULL,
			last_error = COALESCE(nack.error, m.last_error)
		WHERE m.id = nack.id;
	RETURN true;
END;
$$;
COMMENT ON FUNCTION queue_state.nack(uuid, uuid, interval, text) IS
'gives a leased message back for another attempt and ends the lease.
id, receipt_handle: as delivered
delay: how long it waits, 0 to 30 days; 0 makes it READY at once; NULL takes a random time between 0 and retry_delay * 2^(attempts - 1), at most max_retry_delay; never beyond the message''s expiry
error: kept in last_error; NULL keeps what is there
returns true if the lease was held, false if it was not (late, repeated, or an earlier delivery''s)
If the attempts are used up the message becomes a dead letter at once.
errors: 22023 delay out of range';

CREATE FUNCTION queue_state.reject(id uuid, receipt_handle uuid, error text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	lease_end	timestamptz;
	judged_at	timestamptz;
BEGIN
	SELECT m.available_after INTO lease_end
		FROM queue_state.queue_message m
		WHERE m.id = reject.id
			AND m.state = 'IN_FLIGHT'
			AND m.receipt_handle = reject.receipt_handle
		FOR UPDATE;
	judged_at := pg_catalog.clock_timestamp();
	IF NOT FOUND OR lease_end <= judged_at THEN
		RETURN false;
	END IF;

	PERFORM queue_state.dead_letter(ARRAY[reject.id], 'REJECTED', reject.error, judged_at);
	RETURN true;
END;
$$;
COMMENT ON FUNCTION queue_state.reject(uuid, uuid, text) IS
'gives a leased message up: it becomes a dead letter at once, whatever attempts are left.
id, receipt_handle: as delivered
error: kept in last_error; NULL keeps what is there
returns true if the lease was held, false if it was not (late, repeated, or an earlier delivery''s); no errors';

--
-- queues.sql: making, changing, emptying and dropping queues.
--
-- Locks.  Whoever inserts a message or a dead letter holds a share of its
-- queue until it commits (src/queue_reference.c).  drop_queue() takes the
-- whole of it, so it sees every insert or makes it fail; while it holds that
-- it waits for nothing else, so it is part of no deadlock.  update_queue(),
-- pause_queue() and resume_queue() lock the queue's row, which no message
-- needs.  purge_queue() skips what is locked.
--

-- The checks below are shared by all functions written in PL/pgSQL.

CREATE FUNCTION queue_state.check_given(argument text, given boolean)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF given IS NOT TRUE THEN
		RAISE EXCEPTION '% must not be null', argument
			USING ERRCODE = 'null_value_not_allowed',
				  DETAIL = pg_catalog.format('The argument "%s" has no default.', argument),
				  HINT = pg_catalog.format('Pass a value for "%s".', argument);
	END IF;
END;
$$;
COMMENT ON FUNCTION queue_state.check_given(text, boolean) IS
'internal: error 22004 naming the argument unless it was given';

CREATE FUNCTION queue_state.check_count(argument text, value integer)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.check_given(argument, value IS NOT NULL);
	IF value < 1 THEN
		RAISE EXCEPTION '% is out of range: %', argument, value
			USING ERRCODE = 'invalid_parameter_value',
				  DETAIL = 'At least one row must be asked for.',
				  HINT = pg_catalog.format('Pass a "%s" of 1 or more.', argument);
	END IF;
END;
$$;
COMMENT ON FUNCTION queue_state.check_count(text, integer) IS
'internal: error 22004 for NULL and 22023 for a number of rows below 1';

CREATE FUNCTION queue_state.check_duration(argument text, value interval,
										   minimum interval, maximum interval)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.check_given(argument, value IS NOT NULL);
	IF value < minimum OR value > maximum THEN
		RAISE EXCEPTION '% is out of range: %', argument, value
			USING ERRCODE = 'invalid_parameter_value',
				  DETAIL = pg_catalog.format('The allowed range is %s to %s.', minimum, maximum),
				  HINT = pg_catalog.format('Pass a "%s" within that range.', argument);
	END IF;
END;
$$;
COMMENT ON FUNCTION queue_state.check_duration(text, interval, interval, interval) IS
'internal: error 22004 for NULL and 22023 for an interval outside [minimum, maximum]';

-- The ranges are those of the table's constraints, which would report 23514
-- and could not say what to do.
CREATE FUNCTION queue_state.check_queue_settings(settings queue_state.queue)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.check_duration('visibility_timeout', settings.visibility_timeout,
									   '1 second', '12 hours');
	IF settings.max_delivery_attempts NOT BETWEEN 1 AND 100 THEN
		RAISE EXCEPTION 'max_delivery_attempts is out of range: %', settings.max_delivery_attempts
			USING ERRCODE = 'invalid_parameter_value',
				  DETAIL = 'The allowed range is 1 to 100.',
				  HINT = 'Pass a "max_delivery_attempts" within that range.';
	END IF;
	PERFORM queue_state.check_duration('default_ttl', settings.default_ttl,
									   '1 second', '30 days');
	PERFORM queue_state.check_duration('retry_delay', settings.retry_delay,
									   '0 seconds', '12 hours');
	PERFORM queue_state.check_duration('max_retry_delay', settings.max_retry_delay,
									   '0 seconds', '12 hours');
	IF settings.retry_delay > settings.max_retry_delay THEN
		RAISE EXCEPTION 'retry_delay must not exceed max_retry_delay'
			USING ERRCODE = 'invalid_parameter_value',
				  DETAIL = pg_catalog.format('retry_delay would be %s and max_retry_delay %s.',
											 settings.retry_delay, settings.max_retry_delay),
				  HINT = 'Pass both so that the base of the backoff is not above its cap.';
	END IF;
END;
$$;
COMMENT ON FUNCTION queue_state.check_queue_settings(queue_state.queue) IS
'internal: error 22023 if a setting of a queue is out of range or contradicts another';

CREATE FUNCTION queue_state.queue_id_of(queue text)
RETURNS integer
LANGUAGE c
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'qs_queue_id_of';
COMMENT ON FUNCTION queue_state.queue_id_of(text) IS
'internal: the id of a queue; error 22004 for NULL, 42704 with the nearest name as a hint if there is none';

CREATE FUNCTION queue_state.lock_queue(queue text)
RETURNS queue_state.queue
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	locked	queue_state.queue;
BEGIN
	-- A queue that is dropped while this waits for its row may be there again,
	-- with another row, the next time.
	FOR attempt IN 1 .. 10 LOOP
		PERFORM queue_state.queue_id_of(lock_queue.queue);
		SELECT q.* INTO locked FROM queue_state.queue q
			WHERE q.name = lock_queue.queue FOR NO KEY UPDATE;
		IF FOUND THEN
			RETURN locked;
		END IF;
	END LOOP;
	RAISE EXCEPTION 'could not serialize access to queue "%"', lock_queue.queue
		USING ERRCODE = 'serialization_failure',
			  DETAIL = 'It was made after this transaction took its snapshot.',
			  HINT = 'The transaction might succeed if retried.';
END;
$$;
COMMENT ON FUNCTION queue_state.lock_queue(text) IS
'internal: the row of a queue, locked against other changes of its settings but not against messages; errors as queue_id_of()';

CREATE FUNCTION queue_state.create_queue(name text,
										 visibility_timeout interval DEFAULT NULL,
										 max_delivery_attempts integer DEFAULT NULL,
										 default_ttl interval DEFAULT NULL,
										 retry_delay interval DEFAULT NULL,
										 max_retry_delay interval DEFAULT NULL)
RETURNS queue_state.queue
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	created		queue_state.queue;
	called_at	timestamptz := pg_catalog.clock_timestamp();
BEGIN
	PERFORM queue_state.check_given('name', create_queue.name IS NOT NULL);
	IF create_queue.name COLLATE "C" !~ '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$' THEN
		RAISE EXCEPTION 'invalid queue name: %', pg_catalog.to_json(create_queue.name)
			USING ERRCODE = 'check_violation',
				  DETAIL = 'A queue name has 1 to 64 bytes: lower-case letters, digits, and inside it also ".", "_" and "-".',
				  HINT = 'Choose a name such as "orders" or "mail.outbound-2".',
				  SCHEMA = 'queue_state', TABLE = 'queue', CONSTRAINT = 'queue_name_check';
	END IF;

	created.visibility_timeout := COALESCE(create_queue.visibility_timeout, interval '30 seconds');
	created.max_delivery_attempts := COALESCE(create_queue.max_delivery_attempts, 5);
	created.default_ttl := COALESCE(create_queue.default_ttl, interval '7 days');
	created.retry_delay := COALESCE(create_queue.retry_delay, interval '1 second');
	created.max_retry_delay := COALESCE(create_queue.max_retry_delay, interval '15 minutes');
	PERFORM queue_state.check_queue_settings(created);

	INSERT INTO queue_state.queue AS q
			(name, visibility_timeout, max_delivery_attempts, default_ttl,
			 retry_delay, max_retry_delay, created_at, updated_at)
		VALUES (create_queue.name, created.visibility_timeout, created.max_delivery_attempts,
				created.default_ttl, created.retry_delay, created.max_retry_delay,
				called_at, called_at)
		ON CONFLICT (name) DO NOTHING
		RETURNING q.* INTO created;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'queue "%" already exists', create_queue.name
			USING ERRCODE = 'duplicate_object',
				  DETAIL = 'A queue keeps its name until it is dropped.',
				  HINT = 'Use queue_state.update_queue() to change its settings.';
	END IF;
	RETURN created;
END;
$$;
COMMENT ON FUNCTION queue_state.create_queue(text, interval, integer, interval, interval, interval) IS
'makes a queue and returns its row.
name: 1 to 64 bytes, lower-case letters, digits, and . _ - inside
visibility_timeout: length of a lease, 1 second to 12 hours, default 30 seconds
max_delivery_attempts: 1 to 100, default 5
default_ttl: life of a message, 1 second to 30 days, default 7 days
retry_delay, max_retry_delay: base and cap of the backoff of nack(), 0 to 12 hours, default 1 second and 15 minutes
NULL stands for the default, except for the name.
errors: 22004 name is NULL, 22023 setting out of range or retry_delay above max_retry_delay, 23514 invalid name, 42710 the queue exists';

CREATE FUNCTION queue_state.update_queue(name text,
										 visibility_timeout interval DEFAULT NULL,
										 max_delivery_attempts integer DEFAULT NULL,
										 default_ttl interval DEFAULT NULL,
										 retry_delay interval DEFAULT NULL,
										 max_retry_delay interval DEFAULT NULL)
RETURNS queue_state.queue
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	old	queue_state.queue;
	new	queue_state.queue;
BEGIN
	PERFORM queue_state.check_given('name', update_queue.name IS NOT NULL);
	old := queue_state.lock_queue(update_queue.name);
	new := old;
	new.visibility_timeout := COALESCE(update_queue.visibility_timeout, old.visibility_timeout);
	new.max_delivery_attempts := COALESCE(update_queue.max_delivery_attempts, old.max_delivery_attempts);
	new.default_ttl := COALESCE(update_queue.default_ttl, old.default_ttl);
	new.retry_delay := COALESCE(update_queue.retry_delay, old.retry_delay);
	new.max_retry_delay := COALESCE(update_queue.max_retry_delay, old.max_retry_delay);
	PERFORM queue_state.check_queue_settings(new);

	-- An update that changes nothing would still make every session read the
	-- queue again.
	IF new IS DISTINCT FROM old THEN
		UPDATE queue_state.queue q
			SET visibility_timeout = new.visibility_timeout,
				max_delivery_attempts = new.max_delivery_attempts,
				default_ttl = new.default_ttl,
				retry_delay = new.retry_delay,
				max_retry_delay = new.max_retry_delay,
				updated_at = pg_catalog.clock_timestamp()
			WHERE q.queue_id = old.queue_id
			RETURNING q.* INTO new;
	END IF;
	RETURN new;
END;
$$;
COMMENT ON FUNCTION queue_state.update_queue(text, interval, integer, interval, interval, interval) IS
'changes the settings that are given, leaves those that are NULL, and returns the queue''s row.
Arguments and units are those of create_queue(); a name never changes.  Leases and expiries already given stay as they are; max_delivery_attempts and the backoff count from the next delivery or nack().
errors: 22004 name is NULL, 22023 setting out of range or retry_delay above max_retry_delay, 42704 no such queue';

CREATE FUNCTION queue_state.set_paused(name text, paused boolean)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	changing	queue_state.queue;
BEGIN
	PERFORM queue_state.check_given('name', set_paused.name IS NOT NULL);
	changing := queue_state.lock_queue(set_paused.name);
	IF changing.paused = set_paused.paused THEN
		RETURN false;
	END IF;
	UPDATE queue_state.queue q
		SET paused = set_paused.paused, updated_at = pg_catalog.clock_timestamp()
		WHERE q.queue_id = changing.queue_id;
	RETURN true;
END;
$$;
COMMENT ON FUNCTION queue_state.set_paused(text, boolean) IS
'internal: the inside of pause_queue() and resume_queue()';

CREATE FUNCTION queue_state.pause_queue(name text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN queue_state.set_paused(pause_queue.name, true);
END;
$$;
COMMENT ON FUNCTION queue_state.pause_queue(text) IS
'stops deliveries: dequeue() returns no row until resume_queue(); enqueue() and the leases already given go on.
returns true if the queue was not paused before, false if it was
errors: 22004 name is NULL, 42704 no such queue';

CREATE FUNCTION queue_state.resume_queue(name text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN queue_state.set_paused(resume_queue.name, false);
END;
$$;
COMMENT ON FUNCTION queue_state.resume_queue(text) IS
'lets a paused queue deliver again.
returns true if the queue was paused before, false if it was not
errors: 22004 name is NULL, 42704 no such queue';

-- "state = 'READY' OR state <> 'READY'" is true for every row and says so in
-- the words of the two partial indexes, which together hold every message of
-- a queue; without it the only way is through the messages of all queues.
CREATE FUNCTION queue_state.purge_queue(name text)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	purged_queue	integer;
	purged			bigint;
BEGIN
	PERFORM queue_state.check_given('name', purge_queue.name IS NOT NULL);
	purged_queue := queue_state.queue_id_of(purge_queue.name);
	DELETE FROM queue_state.queue_message d
		WHERE d.id = ANY (ARRAY(
			SELECT m.id FROM queue_state.queue_message m
				WHERE m.queue_id = purged_queue
					AND (m.state = 'READY' OR m.state <> 'READY')
				FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS purged = ROW_COUNT;
	RETURN purged;
END;
$$;
COMMENT ON FUNCTION queue_state.purge_queue(text) IS
'deletes the live messages of a queue, leased ones included, and returns how many; dead letters stay.
A message that an open transaction holds at this moment is left: call again until the result is 0.  A purge is not an event and changes no total.
errors: 22004 name is NULL, 42704 no such queue';

CREATE FUNCTION queue_state.lock_references(queue_id integer)
RETURNS void
LANGUAGE c STRICT
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'qs_lock_references';
COMMENT ON FUNCTION queue_state.lock_references(integer) IS
'internal: waits for transactions that have added messages or dead letters to a queue, and keeps others from doing so until the subtransaction ends';

CREATE FUNCTION queue_state.drop_queue(name text, discard_messages boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	dropped			integer;
	alone			boolean;
	messages		bigint;
	dead_letters	bigint;
BEGIN
	PERFORM queue_state.check_given('name', drop_queue.name IS NOT NULL);
	PERFORM queue_state.check_given('discard_messages', drop_queue.discard_messages IS NOT NULL);

	-- Fifty times 20 ms: long enough for deliveries that are being committed,
	-- short enough for somebody who waits at a prompt.
	FOR attempt IN 1 .. 50 LOOP
		alone := false;
		BEGIN
			SELECT q.queue_id INTO dropped FROM queue_state.queue q
				WHERE q.name = drop_queue.name;
			IF NOT FOUND THEN
				RETURN false;
			END IF;

			PERFORM queue_state.lock_references(dropped);
			alone := true;

			-- From here on nobody can add a message or a dead letter.  But
			-- somebody who holds a message may be about to, and whoever is
			-- changing the queue's settings as well: waiting for either could
			-- be a deadlock.  So take what is free, or let go and begin again.
			PERFORM 1 FROM queue_state.queue q
				WHERE q.queue_id = dropped FOR UPDATE NOWAIT;
			IF FOUND THEN
				SELECT count(*) INTO messages FROM queue_state.queue_message m
					WHERE m.queue_id = dropped AND (m.state = 'READY' OR m.state <> 'READY');
				SELECT count(*) INTO dead_letters FROM queue_state.queue_dead_letter_message d
					WHERE d.queue_id = dropped;
				IF messages + dead_letters > 0 AND NOT drop_queue.discard_messages THEN
					RAISE EXCEPTION 'queue "%" is not empty', drop_queue.name
						USING ERRCODE = 'object_in_use',
							  DETAIL = pg_catalog.format('It holds %s messages and %s dead letters.',
														 messages, dead_letters),
							  HINT = 'Pass discard_messages => true to drop them with the queue.';
				END IF;

				PERFORM 1 FROM queue_state.queue_message m
					WHERE m.queue_id = dropped AND (m.state = 'READY' OR m.state <> 'READY')
					FOR UPDATE NOWAIT;
				PERFORM 1 FROM queue_state.queue_dead_letter_message d
					WHERE d.queue_id = dropped FOR UPDATE NOWAIT;
				PERFORM 1 FROM queue_state.queue_priority_state_shard s
					WHERE s.queue_id = dropped FOR UPDATE NOWAIT;

				DELETE FROM queue_state.queue_message m
					WHERE m.queue_id = dropped AND (m.state = 'READY' OR m.state <> 'READY');
				DELETE FROM queue_state.queue_dead_letter_message d
					WHERE d.queue_id = dropped;
				DELETE FROM queue_state.queue q WHERE q.queue_id = dropped;
				RETURN true;
			END IF;
			-- Somebody else has dropped it meanwhile: look again.
		EXCEPTION
			WHEN lock_not_available THEN
				-- The caller's own lock_timeout ended the wait.
				IF NOT alone THEN
					RAISE;
				END IF;
		END;
		PERFORM pg_catalog.pg_sleep(0.02);
	END LOOP;

	RAISE EXCEPTION 'queue "%" is in use', drop_queue.name
		USING ERRCODE = 'object_in_use',
			  DETAIL = 'Open transactions hold some of its messages, or its settings.',
			  HINT = 'Call queue_state.pause_queue(), let the consumers finish, and drop it then.';
END;
$$;
COMMENT ON FUNCTION queue_state.drop_queue(text, boolean) IS
'drops a queue with its counters.
discard_messages: true drops its messages and dead letters too; false, the default, refuses if there are any
returns true if the queue was dropped, false if there is none of that name
An enqueue() that has not committed is waited for; one that comes later fails.  A queue made again under the same name starts from 0.
errors: 22004 argument is NULL, 55006 the queue holds messages or dead letters, or open transactions hold some of its messages for longer than a second';

--
-- inbox.sql: what a consumer has already processed.
--
-- A message may be delivered more than once; a consumer that asks
-- process_once() in the transaction that does the work does it once.
--

CREATE FUNCTION queue_state.process_once(consumer text, message_id uuid)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM queue_state.check_given('consumer', process_once.consumer IS NOT NULL);
	PERFORM queue_state.check_given('message_id', process_once.message_id IS NOT NULL);
	-- The name is part of an index entry, which has a size limit.
	IF pg_catalog.octet_length(process_once.consumer) NOT BETWEEN 1 AND 256 THEN
		RAISE EXCEPTION 'consumer is out of range: % bytes',
				pg_catalog.octet_length(process_once.consumer)
			USING ERRCODE = 'invalid_parameter_value',
				  DETAIL = 'The name of a consumer has 1 to 256 bytes.',
				  HINT = 'Name what processes the message, such as "billing".';
	END IF;

	INSERT INTO queue_state.inbox (consumer, message_id, processed_at)
		VALUES (process_once.consumer, process_once.message_id, pg_catalog.clock_timestamp())
		ON CONFLICT ON CONSTRAINT inbox_pkey DO NOTHING;
	RETURN FOUND;
END;
$$;
COMMENT ON FUNCTION queue_state.process_once(text, uuid) IS
'true the first time a consumer asks about a message, false ever after.
consumer: who processes, 1 to 256 bytes; each has a memory of its own
message_id: the id as delivered
The answer belongs to the caller''s transaction: rolled back, the next call is the first.  A second caller waits until the first one''s transaction has ended.
errors: 22004 argument is NULL, 22023 consumer too short or too long';

CREATE FUNCTION queue_state.forget_processed(older_than interval, max_rows integer DEFAULT 500)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
	called_at	timestamptz := pg_catalog.clock_timestamp();
	forgotten	bigint;
BEGIN
	PERFORM queue_state.check_duration('older_than', forget_processed.older_than,
									   '0 seconds', '1000 years');
	PERFORM queue_state.check_count('max_rows', forget_processed.max_rows);

	-- Inbox rows are never updated, so the place of a locked row is its own.
	DELETE FROM queue_state.inbox f
		WHERE f.ctid = ANY (ARRAY(
			SELECT i.ctid FROM queue_state.inbox i
				WHERE i.processed_at <= called_at - forget_processed.older_than
				ORDER BY i.processed_at
				LIMIT forget_processed.max_rows
				FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS forgotten = ROW_COUNT;
	RETURN forgotten;
END;
$$;
COMMENT ON FUNCTION queue_state.forget_processed(interval, integer) IS
'deletes inbox rows by age, oldest first, and returns how many.
older_than: time since process_once() said true, 0 seconds to 1000 years; keep it longer than any message can be delivered again
max_rows: at most so many in this call, default 500; a result below it means that nothing is left but what others hold
errors: 22004 argument is NULL, 22023 argument out of range';

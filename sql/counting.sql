--
-- counting.sql: the triggers that keep the counters, and how the functions
-- written in SQL count events.
--
-- One trigger per event: PostgreSQL allows transition tables for a single
-- event only.  They fire once per statement, at any number of rows.
--

CREATE FUNCTION queue_state.count_messages() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_count_messages';
COMMENT ON FUNCTION queue_state.count_messages() IS
'trigger: counts the rows a statement changed in queue_message';

CREATE FUNCTION queue_state.count_dead_letters() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_count_dead_letters';
COMMENT ON FUNCTION queue_state.count_dead_letters() IS
'trigger: counts the rows a statement changed in queue_dead_letter_message';

CREATE FUNCTION queue_state.count_truncate() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_count_truncate';
COMMENT ON FUNCTION queue_state.count_truncate() IS
'trigger: takes back what was counted of a message table that is truncated';

CREATE TRIGGER count_insert AFTER INSERT ON queue_state.queue_message
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
CREATE TRIGGER count_update AFTER UPDATE ON queue_state.queue_message
	REFERENCING OLD TABLE AS before NEW TABLE AS after
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
CREATE TRIGGER count_delete AFTER DELETE ON queue_state.queue_message
	REFERENCING OLD TABLE AS deleted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_messages();
CREATE TRIGGER count_truncate AFTER TRUNCATE ON queue_state.queue_message
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_truncate();

CREATE TRIGGER count_insert AFTER INSERT ON queue_state.queue_dead_letter_message
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_dead_letters();
CREATE TRIGGER count_update AFTER UPDATE ON queue_state.queue_dead_letter_message
	REFERENCING OLD TABLE AS before NEW TABLE AS after
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_dead_letters();
CREATE TRIGGER count_delete AFTER DELETE ON queue_state.queue_dead_letter_message
	REFERENCING OLD TABLE AS deleted
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_dead_letters();
CREATE TRIGGER count_truncate AFTER TRUNCATE ON queue_state.queue_dead_letter_message
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.count_truncate();

-- The foreign keys to queue cascade and tell pg_dump the order, but their check
-- of inserted rows is done by count_insert; why is in src/queue_reference.c.
-- What happens when somebody enables theirs again (ENABLE TRIGGER ALL,
-- pg_upgrade) is that rows are checked twice.
DO $$
DECLARE
	referencing regclass;
	check_trigger name;
BEGIN
	FOREACH referencing IN ARRAY ARRAY['queue_state.queue_message',
			'queue_state.queue_dead_letter_message']::pg_catalog.regclass[] LOOP
		SELECT t.tgname INTO STRICT check_trigger
		FROM pg_catalog.pg_trigger AS t
		WHERE t.tgrelid OPERATOR(pg_catalog.=) referencing
			AND t.tgfoid OPERATOR(pg_catalog.=) 'pg_catalog."RI_FKey_check_ins"()'::pg_catalog.regprocedure;
		EXECUTE pg_catalog.format('ALTER TABLE %s DISABLE TRIGGER %I', referencing, check_trigger);
	END LOOP;
END
$$;

CREATE FUNCTION queue_state.lock_deleted_queue() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_lock_deleted_queue';
COMMENT ON FUNCTION queue_state.lock_deleted_queue() IS
'trigger: before a queue is deleted, waits for the transactions that add messages to it';

CREATE TRIGGER lock_deleted_queue BEFORE DELETE ON queue_state.queue
	FOR EACH ROW EXECUTE FUNCTION queue_state.lock_deleted_queue();

CREATE FUNCTION queue_state.forget_deleted_queue() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_forget_deleted_queue';
COMMENT ON FUNCTION queue_state.forget_deleted_queue() IS
'trigger: takes back what the transaction has counted for a queue that it deletes';

CREATE TRIGGER forget_deleted_queue AFTER DELETE ON queue_state.queue
	FOR EACH ROW EXECUTE FUNCTION queue_state.forget_deleted_queue();
CREATE TRIGGER forget_truncated_queues AFTER TRUNCATE ON queue_state.queue
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.forget_deleted_queue();

CREATE FUNCTION queue_state.count_event(counter text, queue_id integer,
										priority queue_state.message_priority, message_id uuid)
	RETURNS void
	LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'qs_count_event';
COMMENT ON FUNCTION queue_state.count_event(text, integer, queue_state.message_priority, uuid) IS
'internal: adds one to an event total, named like its column, in the shard of the message; 22023 for an unknown name';

CREATE FUNCTION queue_state.correct_counter(counter text, queue_id integer,
											priority queue_state.message_priority,
											shard smallint, amount bigint)
	RETURNS void
	LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'qs_correct_counter';
COMMENT ON FUNCTION queue_state.correct_counter(text, integer, queue_state.message_priority, smallint, bigint) IS
'internal: adds an amount to a state counter of a shard; 22023 for an unknown name';

CREATE FUNCTION queue_state.fold_pending(max_rows bigint DEFAULT NULL) RETURNS bigint
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'qs_fold_pending';
COMMENT ON FUNCTION queue_state.fold_pending(bigint) IS
'moves pending rows into their shard rows, at most max_rows of them (NULL: all), skipping shards that are busy; returns how many rows it took. Waits for nobody. 22023 if max_rows is less than 1, 25006 on a standby';

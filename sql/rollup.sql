--
-- rollup.sql: the counters, and the triggers that keep them.
--
-- Rollup = shard rows + pending rows; their sum is the physical state.  No
-- row of either table is written by SQL: src/apply.c and src/fold.c do it, in
-- the message's own transaction.  src/rollup.c relies on the column order.
--

CREATE TABLE queue_state.queue_priority_state_shard
(
	queue_id			integer NOT NULL,
	priority			queue_state.message_priority NOT NULL,
	shard				smallint NOT NULL,
	ready_count			bigint NOT NULL,
	in_flight_count		bigint NOT NULL,
	delayed_count		bigint NOT NULL,
	dead_letter_count	bigint NOT NULL,
	enqueued			bigint NOT NULL,
	delivered			bigint NOT NULL,
	acknowledged		bigint NOT NULL,
	expired_never_delivered bigint NOT NULL,
	expired_previously_delivered bigint NOT NULL,
	dead_lettered		bigint NOT NULL,
	dead_letter_purged	bigint NOT NULL,
	dead_letter_redriven bigint NOT NULL,
	CONSTRAINT queue_priority_state_shard_pkey PRIMARY KEY (queue_id, priority, shard),
	CONSTRAINT queue_priority_state_shard_queue_id_fkey FOREIGN KEY (queue_id)
		REFERENCES queue_state.queue (queue_id) ON DELETE CASCADE,
	CONSTRAINT queue_priority_state_shard_shard_check
		CHECK (shard OPERATOR(pg_catalog.>=) 0 AND shard OPERATOR(pg_catalog.<) 32),
	CONSTRAINT queue_priority_state_shard_counts_check
		CHECK (ready_count OPERATOR(pg_catalog.>=) 0
			   AND in_flight_count OPERATOR(pg_catalog.>=) 0
			   AND delayed_count OPERATOR(pg_catalog.>=) 0
			   AND dead_letter_count OPERATOR(pg_catalog.>=) 0)
);

-- Signed changes of shards that could not be changed in place at once.
-- Appending a row waits for nobody; fold_pending() adds them to their shards.
CREATE TABLE queue_state.queue_priority_state_pending
(
	queue_id			integer NOT NULL,
	priority			queue_state.message_priority NOT NULL,
	shard				smallint NOT NULL,
	ready_count			bigint NOT NULL,
	in_flight_count		bigint NOT NULL,
	delayed_count		bigint NOT NULL,
	dead_letter_count	bigint NOT NULL,
	enqueued			bigint NOT NULL,
	delivered			bigint NOT NULL,
	acknowledged		bigint NOT NULL,
	expired_never_delivered bigint NOT NULL,
	expired_previously_delivered bigint NOT NULL,
	dead_lettered		bigint NOT NULL,
	dead_letter_purged	bigint NOT NULL,
	dead_letter_redriven bigint NOT NULL,
	CONSTRAINT queue_priority_state_pending_queue_id_fkey FOREIGN KEY (queue_id)
		REFERENCES queue_state.queue (queue_id) ON DELETE CASCADE,
	CONSTRAINT queue_priority_state_pending_shard_check
		CHECK (shard OPERATOR(pg_catalog.>=) 0 AND shard OPERATOR(pg_catalog.<) 32)
);
CREATE INDEX queue_priority_state_pending_idx
	ON queue_state.queue_priority_state_pending (queue_id, priority, shard);

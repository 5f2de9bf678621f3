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
)
-- fillfactor: half of each page stays free for new versions of its rows, so
-- that counting is a HOT update which touches no index.  With 8 clients on one
-- queue all updates were HOT at 100, 50, 25 and 10 alike, and 13 to 15 of 100
-- changes became pending rows, because somebody else held the row.  While a
-- snapshot of a second's age was always open it was 3 to 4 of 5 at each of them.
-- So less than 50 would buy nothing, and every reading would read more pages;
-- 100 leaves no room at all where a page is full of rows.
-- vacuum_truncate: cutting empty pages off the end takes an exclusive lock,
-- and counting must never meet one.
-- autovacuum: earlier versions are removed by whoever next comes to the page,
-- so vacuum has little to do here and is called for the rows that were deleted.
WITH (fillfactor = 50, vacuum_truncate = off,
	  autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE queue_state.queue_priority_state_shard IS
'counters of a queue, priority and shard: the states of its messages and the totals of its events';
COMMENT ON COLUMN queue_state.queue_priority_state_shard.ready_count IS
'messages whose row says READY; less or more than that may be ready now, see logical_state()';

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
)
-- Rows come and go, so dead ones are removed by number and not by share: live
-- ones are few, and a reading walks over the dead ones.  No vacuum because of
-- insertions: what is inserted is deleted soon.  The table keeps its empty
-- pages (see above) and uses them again.
WITH (vacuum_truncate = off,
	  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
	  autovacuum_vacuum_insert_threshold = -1);
COMMENT ON TABLE queue_state.queue_priority_state_pending IS
'signed counter changes on their way into the shard rows';
CREATE INDEX queue_priority_state_pending_idx
	ON queue_state.queue_priority_state_pending (queue_id, priority, shard);
COMMENT ON INDEX queue_state.queue_priority_state_pending_idx IS
'pending rows of a shard: what a fold takes';

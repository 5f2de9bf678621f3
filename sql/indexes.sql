--
-- indexes.sql: the access paths of a queue.
--
-- Every index is paid for by each message, so each says which question it
-- answers.  The C code scans the first three by name, without the planner.
--

CREATE INDEX queue_message_ready_idx
	ON queue_state.queue_message (queue_id, priority, enqueued_at, id)
	INCLUDE (expires_at)
	WHERE state OPERATOR(pg_catalog.=) 'READY';
COMMENT ON INDEX queue_state.queue_message_ready_idx IS
'READY messages in delivery order: what dequeue() claims next, and the oldest ready';

CREATE INDEX queue_message_waiting_idx
	ON queue_state.queue_message (queue_id, priority, available_after)
	WHERE state OPERATOR(pg_catalog.<>) 'READY';
COMMENT ON INDEX queue_state.queue_message_waiting_idx IS
'leased and delayed messages by the instant they become available: elapsed ones first';

CREATE INDEX queue_message_in_flight_idx
	ON queue_state.queue_message (queue_id, priority, enqueued_at)
	INCLUDE (available_after)
	WHERE state OPERATOR(pg_catalog.=) 'IN_FLIGHT';
COMMENT ON INDEX queue_state.queue_message_in_flight_idx IS
'leased messages by age: the oldest in flight';

CREATE INDEX queue_message_expiry_idx
	ON queue_state.queue_message (expires_at)
	INCLUDE (queue_id, priority)
	WHERE state OPERATOR(pg_catalog.=) 'READY';
COMMENT ON INDEX queue_state.queue_message_expiry_idx IS
'READY messages by expiry: what expire_messages() removes and logical_state() subtracts';

-- Only a delayed message pays for it.  Its expiry can come before its due time
-- when somebody changes expires_at, and the waiting index does not know.
CREATE INDEX queue_message_delayed_expiry_idx
	ON queue_state.queue_message (expires_at)
	WHERE state OPERATOR(pg_catalog.=) 'DELAYED';
COMMENT ON INDEX queue_state.queue_message_delayed_expiry_idx IS
'DELAYED messages by expiry: what expire_messages() removes before it is due';

CREATE UNIQUE INDEX queue_message_deduplication_key_idx
	ON queue_state.queue_message (queue_id, deduplication_key)
	WHERE deduplication_key IS NOT NULL;
COMMENT ON INDEX queue_state.queue_message_deduplication_key_idx IS
'one live message per key; messages without a key are not in it';

CREATE INDEX queue_dead_letter_message_queue_idx
	ON queue_state.queue_dead_letter_message (queue_id, dead_lettered_at, id);
COMMENT ON INDEX queue_state.queue_dead_letter_message_queue_idx IS
'dead letters of a queue, oldest first: what redrive_dead_letters() takes next';

CREATE INDEX queue_dead_letter_message_age_idx
	ON queue_state.queue_dead_letter_message (dead_lettered_at);
COMMENT ON INDEX queue_state.queue_dead_letter_message_age_idx IS
'dead letters of all queues by age: what purge_dead_letters() removes';

CREATE INDEX inbox_processed_at_idx ON queue_state.inbox (processed_at);
COMMENT ON INDEX queue_state.inbox_processed_at_idx IS
'inbox rows by age: what forget_processed() removes';

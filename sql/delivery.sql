--
-- delivery.sql: messages go in, are leased, and are acknowledged.
--
-- The hot path, all of it in src/: enqueue.c, enqueue_batch.c, dequeue.c,
-- claim.c and acknowledge.c.
--

CREATE TYPE queue_state.delivery AS
(
	id					uuid,
	receipt_handle		uuid,
	priority			queue_state.message_priority,
	delivery_attempts	integer,
	enqueued_at			timestamptz,
	lease_expires_at	timestamptz,
	headers				jsonb,
	payload				jsonb
);
COMMENT ON TYPE queue_state.delivery IS
'one delivery of a message: what dequeue() gives to a consumer';

CREATE FUNCTION queue_state.new_receipt_handle() RETURNS uuid
	LANGUAGE c VOLATILE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'qs_new_receipt_handle';
COMMENT ON FUNCTION queue_state.new_receipt_handle() IS
'internal: the receipt handle of a new lease, a UUID of strong random bits (version 4)';

CREATE FUNCTION queue_state.enqueue(queue text, payload jsonb,
									priority queue_state.message_priority DEFAULT 'MEDIUM',
									ttl interval DEFAULT NULL,
									delay interval DEFAULT NULL,
									headers jsonb DEFAULT NULL,
									deduplication_key text DEFAULT NULL)
	RETURNS uuid
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_enqueue';
COMMENT ON FUNCTION queue_state.enqueue(text, jsonb, queue_state.message_priority,
										interval, interval, jsonb, text) IS
'puts a message into a queue and returns its id; ttl (1 second to 30 days, default: the queue''s) says when it expires, delay how long it is not delivered, headers is a JSON object that comes back with each delivery; if the queue has a live message with the same deduplication_key (1 to 256 bytes), its id is returned and nothing is inserted; errors: 42704 unknown queue, 22004 null queue, payload or priority, 22023 ttl, delay, headers or key out of range, or a delay that outlasts the ttl, 40001 in REPEATABLE READ and SERIALIZABLE when another session used the key since the snapshot';

CREATE FUNCTION queue_state.enqueue_batch(queue text, payloads jsonb[],
										  priority queue_state.message_priority DEFAULT 'MEDIUM',
										  ttl interval DEFAULT NULL,
										  delay interval DEFAULT NULL,
										  headers jsonb[] DEFAULT NULL)
	RETURNS SETOF uuid
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_enqueue_batch';
COMMENT ON FUNCTION queue_state.enqueue_batch(text, jsonb[], queue_state.message_priority,
											  interval, interval, jsonb[]) IS
'puts one message for each payload into a queue, with one statement, and returns their ids in the order of the payloads, which is their order of delivery; headers has an object or null for each payload; otherwise like enqueue(); errors: 42704 unknown queue, 22004 null queue, payloads, payload or priority, 22023 ttl, delay or headers out of range, or arrays of different length, 2202E an array of more than one dimension';

CREATE FUNCTION queue_state.dequeue(queue text, max_messages integer DEFAULT 1,
									visibility_timeout interval DEFAULT NULL)
	RETURNS SETOF queue_state.delivery
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_dequeue';
COMMENT ON FUNCTION queue_state.dequeue(text, integer, interval) IS
'leases up to max_messages (1 to 10000) messages: highest priority first, within it those to be delivered again first, then the oldest; each lease lasts visibility_timeout (1 second to 12 hours, default: the queue''s) from this call; no row if the queue is paused or has nothing to deliver; never waits for another session; moves at most 8 exhausted messages of the queue to the dead letters on the way; errors: 42704 unknown queue, 22004 null queue or max_messages, 22023 max_messages or visibility_timeout out of range';

CREATE FUNCTION queue_state.acknowledge(id uuid, receipt_handle uuid)
	RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_acknowledge';
COMMENT ON FUNCTION queue_state.acknowledge(uuid, uuid) IS
'deletes a message that was processed, if the lease that the receipt handle names is still held; false, and nothing done, for one that is stale, late or acknowledged before';

CREATE FUNCTION queue_state.acknowledge_batch(ids uuid[], receipt_handles uuid[])
	RETURNS bigint
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_acknowledge_batch';
COMMENT ON FUNCTION queue_state.acknowledge_batch(uuid[], uuid[]) IS
'acknowledges many messages with one statement and returns how many were; the receipt handle of an id stands at the same place of the other array; those whose lease is not held are left alone, null arrays are empty ones; error 22023: arrays of different length';

CREATE FUNCTION queue_state.extend_lease(id uuid, receipt_handle uuid,
										 visibility_timeout interval)
	RETURNS timestamptz
	LANGUAGE c VOLATILE PARALLEL UNSAFE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'qs_extend_lease';
COMMENT ON FUNCTION queue_state.extend_lease(uuid, uuid, interval) IS
'lets a lease that is held last visibility_timeout (1 second to 12 hours) from now and returns when it ends; NULL, and nothing done, if it is not held; errors: 22004 null visibility_timeout, 22023 visibility_timeout out of range';

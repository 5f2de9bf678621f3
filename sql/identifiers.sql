--
-- identifiers.sql: ids of messages.  Comes before the tables, whose defaults
-- call it.
--

CREATE FUNCTION queue_state.uuidv7() RETURNS uuid
	LANGUAGE c VOLATILE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'qs_generate_uuidv7';
COMMENT ON FUNCTION queue_state.uuidv7() IS
'a new time-ordered UUID (version 7): milliseconds, a 12-bit fraction of the millisecond, 62 strong random bits; each is greater than the one before in the same session, also when the clock steps back';

CREATE FUNCTION queue_state.message_shard(id uuid) RETURNS smallint
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'qs_message_shard';
COMMENT ON FUNCTION queue_state.message_shard(uuid) IS
'the counter shard, 0 to 31, of the message with this id';

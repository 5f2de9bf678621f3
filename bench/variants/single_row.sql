--
-- single_row.sql: one counter row for a queue and priority instead of 32.  Run
-- after statement_end.sql.
--

DELETE FROM queue_state.queue_priority_state_shard WHERE shard <> 0;

CREATE OR REPLACE FUNCTION bench.shard(id uuid) RETURNS smallint
	LANGUAGE sql IMMUTABLE AS 'SELECT 0::smallint';

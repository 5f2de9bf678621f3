--
-- privileges.sql: who may do what, and what a dump contains.  Comes last.
--
-- PUBLIC may do nothing, not even see into the schema.  Every function runs
-- with the rights of the extension's owner, so a role needs USAGE on the
-- schema and EXECUTE on what it calls, and no right on any table.
--

REVOKE ALL ON SCHEMA queue_state FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA queue_state FROM PUBLIC;

-- Reading state is monitoring.  Nothing here shows a payload or a header.
GRANT USAGE ON SCHEMA queue_state TO pg_monitor;
GRANT EXECUTE ON FUNCTION
	queue_state.snapshot(),
	queue_state.verify(),
	queue_state.logical_state(),
	queue_state.physical_state()
	TO pg_monitor;
-- How many counter changes await folding; the rows are numbers only.
GRANT SELECT ON TABLE queue_state.queue_priority_state_pending TO pg_monitor;

-- The truth is dumped, the counters are not: restoring the messages fires the
-- triggers that count them.
SELECT pg_catalog.pg_extension_config_dump('queue_state.queue', '');
SELECT pg_catalog.pg_extension_config_dump('queue_state.queue_queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('queue_state.queue_message', '');
SELECT pg_catalog.pg_extension_config_dump('queue_state.queue_dead_letter_message', '');
SELECT pg_catalog.pg_extension_config_dump('queue_state.inbox', '');

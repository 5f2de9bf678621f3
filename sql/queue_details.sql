--
-- queue_details.sql: tells all sessions when a queue changes.
--
-- Each session keeps the details of the queues it uses.  A row trigger, and
-- one that fires always, so that changes that arrive by replication or under
-- session_replication_role = replica are told as well.
--

CREATE FUNCTION queue_state.queue_changed() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'qs_queue_changed';
COMMENT ON FUNCTION queue_state.queue_changed() IS
'trigger: makes all sessions forget the queue details they keep, at commit';

CREATE TRIGGER queue_changed
	AFTER INSERT OR UPDATE OR DELETE ON queue_state.queue
	FOR EACH ROW EXECUTE FUNCTION queue_state.queue_changed();
ALTER TABLE queue_state.queue ENABLE ALWAYS TRIGGER queue_changed;

CREATE TRIGGER queue_truncated AFTER TRUNCATE ON queue_state.queue
	FOR EACH STATEMENT EXECUTE FUNCTION queue_state.queue_changed();
ALTER TABLE queue_state.queue ENABLE ALWAYS TRIGGER queue_truncated;

--
-- Row-level security on the message tables: it decides what a role may see
-- and change, and never what is counted.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

CREATE ROLE regress_row_security_user;
CREATE ROLE regress_row_security_owner;
SELECT (queue_state.create_queue('guarded')).queue_id AS q \gset
\set state 'SELECT priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name = ''guarded'' ORDER BY priority DESC; SELECT * FROM queue_state.verify();'
GRANT USAGE ON SCHEMA queue_state TO regress_row_security_user;
GRANT SELECT, INSERT, UPDATE, DELETE ON queue_state.queue_message TO regress_row_security_user;
GRANT SELECT ON queue_state.queue TO regress_row_security_user;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queue_state TO regress_row_security_user;

-- Enabled by the owner of the extension, and forced.
ALTER TABLE queue_state.queue_message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE queue_state.queue_dead_letter_message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY low ON queue_state.queue_message USING (priority = 'LOW');

SET ROLE regress_row_security_user;
-- The functions work for all messages, as they do for a role without any right on the table.
SELECT count(queue_state.enqueue('guarded', '1', p)) FROM unnest(enum_range(NULL::queue_state.message_priority)) p,
	generate_series(1, 3);
SELECT count(*) FROM queue_state.dequeue('guarded', 2);
SELECT count(queue_state.reject(id, receipt_handle)) FROM queue_state.dequeue('guarded', 1);
:state
-- Plain SQL reaches what the policy shows, and is counted as far as it reaches.
SELECT priority, count(*) FROM queue_state.queue_message GROUP BY 1;
INSERT INTO queue_state.queue_message (queue_id, priority) VALUES (:q, 'LOW');
INSERT INTO queue_state.queue_message (queue_id, priority) VALUES (:q, 'HIGH');
\echo :LAST_ERROR_SQLSTATE
UPDATE queue_state.queue_message SET state = 'DELAYED';
:state
UPDATE queue_state.queue_message SET priority = 'HIGH';
\echo :LAST_ERROR_SQLSTATE
DELETE FROM queue_state.queue_message WHERE queue_state.message_shard(id) >= 0;
:state
SELECT count(*) FROM queue_state.queue_message;
RESET ROLE;
SELECT sum(ready + in_flight + delayed) AS seen_by_monitoring FROM queue_state.snapshot() WHERE queue_name = 'guarded';

-- The table given to somebody who is no superuser, and is bound by the policy, too.
SELECT relowner::regrole AS former_owner FROM pg_class WHERE oid = 'queue_state.queue_message'::regclass \gset
GRANT ALL ON SCHEMA queue_state TO regress_row_security_owner;
GRANT ALL ON ALL TABLES IN SCHEMA queue_state TO regress_row_security_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queue_state TO regress_row_security_owner;
ALTER TABLE queue_state.queue_message OWNER TO regress_row_security_owner;
SET ROLE regress_row_security_owner;
SELECT count(queue_state.enqueue('guarded', '1', p)) FROM unnest(enum_range(NULL::queue_state.message_priority)) p;
DELETE FROM queue_state.queue_message;
:state
SELECT queue_state.rebuild();
:state
RESET ROLE;

-- Functions that run as such an owner, of a table that hides rows from it,
-- refuse to take those for drift.
ALTER FUNCTION queue_state.verify() OWNER TO regress_row_security_owner;
ALTER FUNCTION queue_state.rebuild() OWNER TO regress_row_security_owner;
SELECT * FROM queue_state.verify();
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.rebuild();
\echo :LAST_ERROR_SQLSTATE
ALTER FUNCTION queue_state.verify() OWNER TO :former_owner;
ALTER FUNCTION queue_state.rebuild() OWNER TO :former_owner;
ALTER TABLE queue_state.queue_message OWNER TO :former_owner;
:state

-- A cascade takes the hidden messages along.
DELETE FROM queue_state.queue WHERE name = 'guarded';
SELECT count(*) FROM queue_state.queue_message WHERE queue_id = :q;
SELECT * FROM queue_state.verify();

DROP POLICY low ON queue_state.queue_message;
ALTER TABLE queue_state.queue_message NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
ALTER TABLE queue_state.queue_dead_letter_message NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
DROP OWNED BY regress_row_security_user, regress_row_security_owner;
DROP ROLE regress_row_security_user, regress_row_security_owner;

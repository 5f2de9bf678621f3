--
-- Who may do what: roles with EXECUTE alone, monitoring, and PUBLIC.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('granted');
CREATE ROLE regress_queue_producer;
CREATE ROLE regress_queue_consumer;
CREATE ROLE regress_queue_operator;
CREATE ROLE regress_queue_monitor IN ROLE pg_monitor;
CREATE ROLE regress_queue_nobody;

-- The GRANTs of docs/sql.md.
GRANT USAGE ON SCHEMA queue_state TO regress_queue_producer, regress_queue_consumer, regress_queue_operator;
GRANT EXECUTE ON FUNCTION
	queue_state.enqueue(text, jsonb, queue_state.message_priority, interval, interval, jsonb, text),
	queue_state.enqueue_batch(text, jsonb[], queue_state.message_priority, interval, interval, jsonb[])
	TO regress_queue_producer;
GRANT EXECUTE ON FUNCTION
	queue_state.dequeue(text, integer, interval),
	queue_state.acknowledge(uuid, uuid),
	queue_state.acknowledge_batch(uuid[], uuid[]),
	queue_state.extend_lease(uuid, uuid, interval),
	queue_state.nack(uuid, uuid, interval, text),
	queue_state.reject(uuid, uuid, text),
	queue_state.process_once(text, uuid)
	TO regress_queue_consumer;
GRANT EXECUTE ON FUNCTION
	queue_state.create_queue(text, interval, integer, interval, interval, interval),
	queue_state.update_queue(text, interval, integer, interval, interval, interval),
	queue_state.drop_queue(text, boolean),
	queue_state.purge_queue(text),
	queue_state.pause_queue(text),
	queue_state.resume_queue(text),
	queue_state.redrive_dead_letters(text, integer, uuid[]),
	queue_state.expire_messages(integer),
	queue_state.dead_letter_exhausted(integer),
	queue_state.purge_dead_letters(interval, integer),
	queue_state.forget_processed(interval, integer),
	queue_state.fold_pending(bigint)
	TO regress_queue_operator;

-- Each does its own work without any right on a table.
SET ROLE regress_queue_producer;
SELECT queue_state.enqueue('granted', '1') IS NOT NULL AS enqueued;
SELECT count(*) FROM queue_state.enqueue_batch('granted', ARRAY['2', '3', '4', '5']::jsonb[]);
SELECT count(*) FROM queue_state.dequeue('granted');
SELECT payload FROM queue_state.queue_message;
INSERT INTO queue_state.queue_message (queue_id) VALUES (1);
SELECT * FROM queue_state.snapshot();
RESET ROLE;

SET ROLE regress_queue_consumer;
SELECT id, receipt_handle, payload FROM queue_state.dequeue('granted') \gset
SELECT :payload AS payload, queue_state.process_once('consumer', :'id') AS first,
	   queue_state.extend_lease(:'id', :'receipt_handle', '1 minute') IS NOT NULL AS extended,
	   queue_state.acknowledge(:'id', :'receipt_handle') AS acknowledged;
SELECT id, receipt_handle FROM queue_state.dequeue('granted') \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '1 hour', 'later');
SELECT id, receipt_handle FROM queue_state.dequeue('granted') \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'never');
SELECT array_agg(id) AS ids, array_agg(receipt_handle) AS handles FROM queue_state.dequeue('granted', 10) \gset
SELECT queue_state.acknowledge_batch(:'ids', :'handles');
SELECT queue_state.enqueue('granted', '1');
SELECT queue_state.purge_queue('granted');
SELECT * FROM queue_state.queue_dead_letter_message;
SELECT * FROM queue_state.inbox;
RESET ROLE;

SET ROLE regress_queue_operator;
SELECT queue_state.redrive_dead_letters('granted');
SELECT name FROM queue_state.create_queue('granted.2');
SELECT name, max_delivery_attempts FROM queue_state.update_queue('granted.2', max_delivery_attempts => 9);
SELECT queue_state.pause_queue('granted.2'), queue_state.resume_queue('granted.2');
SELECT queue_state.drop_queue('granted.2');
SELECT queue_state.purge_queue('granted');
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.dead_letter_exhausted();
SELECT * FROM queue_state.purge_dead_letters('1 day');
SELECT queue_state.forget_processed('0 seconds');
SELECT queue_state.fold_pending() >= 0 AS folded;
SELECT * FROM queue_state.queue;
RESET ROLE;

SET ROLE regress_queue_monitor;
SELECT priority, ready, in_flight, delayed, dead_letters, acknowledged_total
	FROM queue_state.snapshot() WHERE queue_name = 'granted';
SELECT count(*) FROM queue_state.logical_state() WHERE queue_name = 'granted';
SELECT count(*) FROM queue_state.physical_state() WHERE queue_name = 'granted';
SELECT * FROM queue_state.verify();
SELECT queue_state.enqueue('granted', '1');
SELECT queue_state.rebuild();
SELECT payload FROM queue_state.queue_message;
RESET ROLE;

-- Without a grant nothing is seen.
SET ROLE regress_queue_nobody;
SELECT queue_state.enqueue('granted', '1');
SELECT * FROM queue_state.snapshot();
SELECT * FROM queue_state.queue_message;
RESET ROLE;
-- The schema alone opens no function and no table.
GRANT USAGE ON SCHEMA queue_state TO regress_queue_nobody;
SELECT count(*) AS functions, count(*) FILTER (WHERE has_function_privilege('regress_queue_nobody', p.oid, 'EXECUTE')) AS allowed
	INTO TEMP function_right
	FROM pg_proc p WHERE p.pronamespace = 'queue_state'::regnamespace;
SELECT functions > 30 AS some, allowed FROM function_right;
SELECT count(*) > 5 AS some, count(*) FILTER (WHERE has_table_privilege('regress_queue_nobody', c.oid,
		'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')) AS allowed
	FROM pg_class c WHERE c.relnamespace = 'queue_state'::regnamespace AND c.relkind = 'r';
-- pg_monitor has these functions and no other, and of the tables the pending
-- rows, to count them.
SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.pronamespace = 'queue_state'::regnamespace
		AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
	ORDER BY p.proname;
SELECT c.oid::regclass FROM pg_class c
	WHERE c.relnamespace = 'queue_state'::regnamespace AND c.relkind IN ('r', 'v', 'S')
		AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege('pg_monitor', c.oid, 'SELECT, USAGE')
			ELSE has_table_privilege('pg_monitor', c.oid, 'SELECT') END;

-- A dump has the truth and not the counters.
SELECT c.oid::regclass AS dumped
	FROM pg_extension e CROSS JOIN unnest(e.extconfig) x (relation) JOIN pg_class c ON c.oid = x.relation
	WHERE e.extname = 'queue_state' ORDER BY c.relname;

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('granted', true);
DROP OWNED BY regress_queue_producer, regress_queue_consumer, regress_queue_operator, regress_queue_nobody;
DROP ROLE regress_queue_producer, regress_queue_consumer, regress_queue_operator, regress_queue_monitor, regress_queue_nobody;

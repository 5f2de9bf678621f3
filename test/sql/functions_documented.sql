--
-- What holds of every function of the extension, whoever wrote it.  Each
-- query lists those of which it does not hold.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;
SET search_path = queue_state, pg_catalog;

CREATE TEMP VIEW function AS
	SELECT p.oid, p.oid::regprocedure::text AS name, p.proname, p.prosecdef, p.proconfig, p.proacl,
		   l.lanname, obj_description(p.oid, 'pg_proc') AS comment
	FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
		JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
	WHERE e.extname = 'queue_state';

-- Outside of its own schema it has nothing.
SELECT f.name FROM function f JOIN pg_proc p USING (oid)
	WHERE p.pronamespace <> 'queue_state'::regnamespace ORDER BY 1;
-- A comment on each, which names its errors unless it has none.
SELECT name FROM function WHERE comment IS NULL OR comment = '' ORDER BY 1;
-- Nobody executes anything by default.
SELECT name FROM function
	WHERE proacl IS NULL
		OR EXISTS (SELECT FROM aclexplode(proacl) a WHERE a.grantee = 0) ORDER BY 1;
-- What runs with the owner's rights has a search path of its own, the
-- temporary schema last.
SELECT name FROM function
	WHERE prosecdef AND NOT COALESCE('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) ORDER BY 1;
-- And so has whatever looks names up when it runs.
SELECT name FROM function
	WHERE lanname IN ('sql', 'plpgsql')
		AND NOT COALESCE('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) ORDER BY 1;
-- now() is the start of the transaction; a lease is never judged by it.
SELECT f.name FROM function f JOIN pg_proc p USING (oid)
	WHERE p.prosrc ~* '\m(now\s*\(|current_timestamp|localtimestamp|transaction_timestamp)' ORDER BY 1;

-- Tables, types and indexes say what they are for as well.
SELECT c.oid::regclass FROM pg_class c
	WHERE c.relnamespace = 'queue_state'::regnamespace AND c.relkind = 'r'
		AND obj_description(c.oid, 'pg_class') IS NULL ORDER BY c.relname;

-- The contract: names, arguments, results.
\pset format unaligned
SELECT p.proname AS function, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
	FROM pg_proc p
	WHERE p.pronamespace = 'queue_state'::regnamespace AND p.proname IN (
		'create_queue', 'update_queue', 'drop_queue', 'purge_queue', 'pause_queue', 'resume_queue',
		'enqueue', 'enqueue_batch', 'dequeue', 'acknowledge', 'acknowledge_batch', 'extend_lease',
		'nack', 'reject', 'expire_messages', 'dead_letter_exhausted', 'redrive_dead_letters',
		'purge_dead_letters', 'process_once', 'forget_processed', 'message_shard', 'uuidv7',
		'physical_state', 'logical_state', 'snapshot', 'fold_pending', 'verify', 'rebuild')
	ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid) COLLATE "C";

--
-- A caller who owns a schema, puts it first in the search path and fills it
-- with look-alikes gains nothing and breaks nothing.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('hostile', retry_delay => '0 seconds');
CREATE ROLE regress_queue_intruder;
GRANT USAGE ON SCHEMA queue_state TO regress_queue_intruder;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queue_state TO regress_queue_intruder;
CREATE SCHEMA trap AUTHORIZATION regress_queue_intruder;
GRANT TEMPORARY ON DATABASE :"DBNAME" TO regress_queue_intruder;

SET ROLE regress_queue_intruder;
-- Every function and operator below would be taken instead of the server's
-- own if a name were looked up through the caller's path; each raises, and
-- says whose rights it got.
DO $$
DECLARE
	signature	text;
BEGIN
	FOREACH signature IN ARRAY ARRAY[
		'clock_timestamp() RETURNS timestamptz',
		'now() RETURNS timestamptz',
		'random() RETURNS double precision',
		'gen_random_uuid() RETURNS uuid',
		'format(text, VARIADIC "any") RETURNS text',
		'octet_length(text) RETURNS integer',
		'cardinality(anyarray) RETURNS integer',
		'jsonb_build_object(VARIADIC "any") RETURNS jsonb',
		'jsonb_typeof(jsonb) RETURNS text',
		'to_char(timestamp, text) RETURNS text',
		'make_interval(integer, integer, integer, integer, integer, integer, double precision) RETURNS interval',
		'power(double precision, double precision) RETURNS double precision',
		'pg_sleep(double precision) RETURNS void',
		'enum_range(anyenum) RETURNS anyarray',
		'unnest(anyarray) RETURNS SETOF anyelement',
		'int4ge(integer, integer) RETURNS boolean',
		'eq(text, text) RETURNS boolean',
		'eq(integer, integer) RETURNS boolean',
		'eq(uuid, uuid) RETURNS boolean',
		'compare(interval, interval) RETURNS boolean',
		'compare(timestamptz, timestamptz) RETURNS boolean',
		'compare(integer, integer) RETURNS boolean',
		'compare(bigint, bigint) RETURNS boolean',
		'plus(timestamptz, interval) RETURNS timestamptz',
		'plus(bigint, bigint) RETURNS bigint',
		'merge(jsonb, jsonb) RETURNS jsonb',
		'match(text, text) RETURNS boolean']
	LOOP
		IF signature LIKE '%"any"%' THEN
			CONTINUE;	-- only C functions may take "any"
		END IF;
		EXECUTE format($f$CREATE FUNCTION trap.%s LANGUAGE plpgsql AS
			$b$ BEGIN RAISE EXCEPTION 'trapped with the rights of %%', current_user; END $b$ $f$, signature);
	END LOOP;
	CREATE OPERATOR trap.= (FUNCTION = trap.eq, LEFTARG = text, RIGHTARG = text);
	CREATE OPERATOR trap.= (FUNCTION = trap.eq, LEFTARG = integer, RIGHTARG = integer);
	CREATE OPERATOR trap.= (FUNCTION = trap.eq, LEFTARG = uuid, RIGHTARG = uuid);
	CREATE OPERATOR trap.< (FUNCTION = trap.compare, LEFTARG = interval, RIGHTARG = interval);
	CREATE OPERATOR trap.> (FUNCTION = trap.compare, LEFTARG = interval, RIGHTARG = interval);
	CREATE OPERATOR trap.<= (FUNCTION = trap.compare, LEFTARG = timestamptz, RIGHTARG = timestamptz);
	CREATE OPERATOR trap.> (FUNCTION = trap.compare, LEFTARG = timestamptz, RIGHTARG = timestamptz);
	CREATE OPERATOR trap.>= (FUNCTION = trap.compare, LEFTARG = integer, RIGHTARG = integer);
	CREATE OPERATOR trap.< (FUNCTION = trap.compare, LEFTARG = integer, RIGHTARG = integer);
	CREATE OPERATOR trap.> (FUNCTION = trap.compare, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR trap.+ (FUNCTION = trap.plus, LEFTARG = timestamptz, RIGHTARG = interval);
	CREATE OPERATOR trap.+ (FUNCTION = trap.plus, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR trap.|| (FUNCTION = trap.merge, LEFTARG = jsonb, RIGHTARG = jsonb);
	CREATE OPERATOR trap.!~ (FUNCTION = trap.match, LEFTARG = text, RIGHTARG = text);
	CREATE OPERATOR trap.~ (FUNCTION = trap.match, LEFTARG = text, RIGHTARG = text);
END
$$;
-- Tables of the same names, in the trap and in the temporary schema.
CREATE TABLE trap.queue (queue_id integer, name text);
CREATE TABLE trap.queue_message (id uuid);
CREATE TABLE trap.inbox (consumer text);
CREATE TEMP TABLE queue (queue_id integer, name text);
CREATE TEMP TABLE queue_message (id uuid);
CREATE TEMP TABLE pg_class (oid oid);
CREATE TYPE trap.message_priority AS ENUM ('NONE');
SET search_path = trap, pg_temp, pg_catalog, queue_state;

-- The trap is set:
SELECT clock_timestamp();
SELECT 'a'::text = 'a'::text;

-- and nothing of the extension steps into it.
SELECT queue_state.enqueue('hostile', '1', headers => '{"a": 1}') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('hostile') \gset
SELECT queue_state.extend_lease(:'id', :'receipt_handle', '1 minute') IS NOT NULL AS extended;
SELECT queue_state.nack(:'id', :'receipt_handle');
SELECT id, receipt_handle FROM queue_state.dequeue('hostile') \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'error');
SELECT id, receipt_handle FROM queue_state.dequeue('hostile') \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'error');
SELECT queue_state.redrive_dead_letters('hostile', 10);
SELECT id, receipt_handle FROM queue_state.dequeue('hostile') \gset
SELECT queue_state.acknowledge(:'id', :'receipt_handle');
SELECT pg_catalog.count(*) FROM queue_state.enqueue_batch('hostile', ARRAY['1', '2']::jsonb[]);
SELECT pg_catalog.array_agg(id) AS ids, pg_catalog.array_agg(receipt_handle) AS handles
	FROM queue_state.dequeue('hostile', 2) \gset
SELECT queue_state.acknowledge_batch(:'ids', :'handles');
SELECT (queue_state.create_queue('hostile.2')).name;
SELECT (queue_state.update_queue('hostile.2', max_delivery_attempts => 3)).max_delivery_attempts;
SELECT queue_state.pause_queue('hostile.2'), queue_state.resume_queue('hostile.2');
SELECT queue_state.purge_queue('hostile.2');
SELECT queue_state.drop_queue('hostile.2');
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.dead_letter_exhausted();
SELECT * FROM queue_state.purge_dead_letters('1 day');
SELECT queue_state.process_once('intruder', :'id'), queue_state.process_once('intruder', :'id') AS again;
SELECT queue_state.forget_processed('0 seconds');
SELECT queue_state.fold_pending() IS NOT NULL AS folded;
SELECT pg_catalog.count(*) FROM queue_state.snapshot() WHERE queue_name OPERATOR(pg_catalog.=) 'hostile';
SELECT pg_catalog.count(*) FROM queue_state.logical_state() WHERE queue_name OPERATOR(pg_catalog.=) 'hostile';
SELECT pg_catalog.count(*) FROM queue_state.physical_state() WHERE queue_name OPERATOR(pg_catalog.=) 'hostile';
SELECT * FROM queue_state.verify();
SELECT queue_state.rebuild();
SELECT pg_catalog.pg_typeof(queue_state.uuidv7()), queue_state.message_shard(:'id') IS NOT NULL AS shard;
-- The errors as well.
SELECT queue_state.create_queue('Hostile');
SELECT queue_state.enqueue('hostil', '1');
SELECT queue_state.nack(:'id', :'receipt_handle', '-1 seconds');

-- The intruder's own rights end at the functions.
SELECT pg_catalog.count(*) FROM queue_state.queue_message;

RESET search_path;
RESET ROLE;
SELECT priority, ready, in_flight, dead_letters, enqueued_total, acknowledged_total
	FROM queue_state.snapshot() WHERE queue_name = 'hostile';
SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('hostile', true);
SET client_min_messages = warning;
DROP OWNED BY regress_queue_intruder;
DROP ROLE regress_queue_intruder;

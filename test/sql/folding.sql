--
-- fold_pending(), and drift in pending rows: their sums may be negative, and
-- only a whole sum means anything.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT (queue_state.create_queue('folding')).queue_id AS q1 \gset
\set state 'SELECT queue_name, priority, ready, in_flight, delayed, dead_letters FROM queue_state.physical_state() WHERE queue_name LIKE ''folding%'' AND (ready, in_flight, delayed, dead_letters) <> (0, 0, 0, 0); SELECT * FROM queue_state.verify();'
CREATE FUNCTION folding_id(number integer) RETURNS uuid LANGUAGE sql IMMUTABLE
	AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$;
-- What cannot be folded.
SELECT queue_state.fold_pending(0);
\echo :LAST_ERROR_SQLSTATE
BEGIN READ ONLY;
SELECT queue_state.fold_pending();
ROLLBACK;
\echo :LAST_ERROR_SQLSTATE

-- fold_pending() takes no more rows than it is told, and changes no sum.
INSERT INTO queue_state.queue_message (id, queue_id) SELECT folding_id(n), :q1 FROM generate_series(0, 31) n;
INSERT INTO queue_state.queue_priority_state_pending
	SELECT :q1, 'MEDIUM', n % 2, sign, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 10) n, unnest(ARRAY[1, -1]) sign;
SELECT queue_state.fold_pending(7), queue_state.fold_pending(1);
SELECT count(*) FROM queue_state.queue_priority_state_pending;
:state
SELECT queue_state.fold_pending(NULL), queue_state.fold_pending();
SELECT count(*) FROM queue_state.queue_priority_state_pending;
:state
-- Pending rows of a shard that has no row make one; the sum may be negative
-- until the last of them is taken.
INSERT INTO queue_state.queue_priority_state_pending
	SELECT :q1, 'LOW', 17, c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM unnest(ARRAY[-2, 3]) c;
INSERT INTO queue_state.queue_message (id, queue_id, priority) VALUES (folding_id(17 + 32), :q1, 'LOW');
:state
SELECT queue_state.rebuild();
SELECT queue_state.fold_pending(1) <= 1 AS folded;
:state
SELECT queue_state.fold_pending() >= 0 AS folded;
SELECT count(*) FROM queue_state.queue_priority_state_pending;
:state

-- Rows that count what is not there.
INSERT INTO queue_state.queue_priority_state_pending SELECT :q1, 'LOW', 9, -3, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0;
:state
SELECT priority, ready, in_flight FROM queue_state.snapshot() WHERE queue_name = 'folding';
\echo :LAST_ERROR_SQLSTATE
SELECT priority, ready, in_flight FROM queue_state.logical_state() WHERE queue_name = 'folding';
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.fold_pending() > 0 AS folded;
SELECT queue_state.rebuild();
:state
SELECT queue_state.fold_pending() >= 0 AS folded;
SELECT count(*) FROM queue_state.queue_priority_state_pending;
:state

DROP FUNCTION folding_id(integer);
SELECT queue_state.drop_queue('folding', true);
SELECT * FROM queue_state.verify();

--
-- Times at the ends of the calendar, which plain SQL may write: they are
-- counted, delivered and reported like all others, and no age is negative.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;
SELECT (queue_state.create_queue('ends')).queue_id AS q \gset
INSERT INTO queue_state.queue_message (queue_id, priority, enqueued_at, expires_at, payload) VALUES
	(:q, 'HIGH', '-infinity', 'infinity', '"first"'),
	(:q, 'MEDIUM', '4714-11-24 00:00:00+00 BC', 'infinity', '"second"'),
	(:q, 'LOW', 'infinity', 'infinity', '"last"'),
	(:q, 'HIGH', '-infinity', '-infinity', '"never"');
INSERT INTO queue_state.queue_message (queue_id, priority, state, enqueued_at, available_after, expires_at) VALUES
	(:q, 'HIGH', 'DELAYED', '-infinity', 'infinity', 'infinity'),
	(:q, 'HIGH', 'IN_FLIGHT', '-infinity', 'infinity', 'infinity');
\set state 'SELECT priority, ready, in_flight, delayed, expired_backlog, oldest_ready_age_seconds >= 0 AS ready_age, oldest_ready_age_seconds > 1e9 AS old, oldest_in_flight_age_seconds >= 0 AS in_flight_age FROM queue_state.snapshot() WHERE queue_name = ''ends''; SELECT * FROM queue_state.verify();'
:state
SELECT payload FROM queue_state.dequeue('ends', 10);
:state
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.drop_queue('ends', true);
SELECT * FROM queue_state.verify();

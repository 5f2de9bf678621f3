--
-- A backlog that time has passed over: 10,000 elapsed leases and 10,000
-- expired messages.  Reading ends within the collector's statement timeout,
-- fresh messages are delivered past it, and batches clean it up.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;
SELECT (queue_state.create_queue('backlog', visibility_timeout => '1 hour', max_delivery_attempts => 1)).queue_id AS q \gset
INSERT INTO queue_state.queue_message (queue_id, priority, state, delivery_attempts, available_after)
	SELECT :q, 'HIGH', 'IN_FLIGHT', 1, clock_timestamp() - interval '1 second' FROM generate_series(1, 10000);
INSERT INTO queue_state.queue_message (queue_id, priority, expires_at)
	SELECT :q, 'LOW', clock_timestamp() - interval '1 second' FROM generate_series(1, 10000);
\set state 'SELECT priority, ready, in_flight, exhausted, elapsed_backlog, expired_backlog, dead_letters FROM queue_state.snapshot() WHERE queue_name = ''backlog'''
SET statement_timeout = '10s';
:state;
RESET statement_timeout;
SELECT queue_state.enqueue('backlog', '"fresh"', 'LOW') IS NOT NULL AS enqueued;
-- The one that is fresh, and eight exhausted ones out of the way.
SELECT payload FROM queue_state.dequeue('backlog', 10);
:state;
-- A batch is what was asked for, and those that follow end the backlog.
SELECT never_delivered, previously_delivered FROM queue_state.expire_messages(100) WHERE queue_name = 'backlog';
SELECT queue_state.dead_letter_exhausted(100);
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM queue_state.expire_messages(4000) WHERE never_delivered > 0) LOOP END LOOP;
	WHILE queue_state.dead_letter_exhausted(4000) > 0 LOOP END LOOP;
END $$;
:state;
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM queue_state.purge_dead_letters('0 seconds', 4000)) LOOP END LOOP;
END $$;
:state;
SELECT queue_state.drop_queue('backlog', true);
SELECT * FROM queue_state.verify();

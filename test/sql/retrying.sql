--
-- Giving a message back, and giving it up.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT name FROM queue_state.create_queue('retried', max_delivery_attempts => 3,
										  retry_delay => '10 seconds', max_retry_delay => '1 minute');

-- A message given back waits, keeps what went wrong, and has no lease.
SELECT queue_state.enqueue('retried', '"a"') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('retried') \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '5 minutes', 'no answer');
SELECT state, delivery_attempts, receipt_handle IS NULL AS no_lease, last_error,
	   available_after - clock_timestamp() BETWEEN '4 minutes' AND '5 minutes' AS waits,
	   last_delivered_at IS NOT NULL AS was_delivered
	FROM queue_state.queue_message WHERE id = :'id';
SELECT count(*) FROM queue_state.dequeue('retried');

-- It is safe to repeat, and the handle is worth nothing any more.
SELECT queue_state.nack(:'id', :'receipt_handle') AS nack,
	   queue_state.reject(:'id', :'receipt_handle') AS reject,
	   queue_state.acknowledge(:'id', :'receipt_handle') AS acknowledge,
	   queue_state.extend_lease(:'id', :'receipt_handle', '1 minute') AS extend_lease;
SELECT state, last_error FROM queue_state.queue_message WHERE id = :'id';
SELECT queue_state.nack(gen_random_uuid(), :'receipt_handle') AS unknown_message,
	   queue_state.reject(gen_random_uuid(), :'receipt_handle') AS unknown_message;

-- When its time has come it is delivered again; an empty wait makes it READY at once.
UPDATE queue_state.queue_message SET available_after = clock_timestamp() - interval '1 second'
	WHERE id = :'id';
SELECT delivery_attempts FROM queue_state.dequeue('retried');
SELECT receipt_handle FROM queue_state.queue_message WHERE id = :'id' \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds');
SELECT state, delivery_attempts, last_error, receipt_handle IS NULL AS no_lease
	FROM queue_state.queue_message WHERE id = :'id';

-- The third delivery is the last: given back, the message is a dead letter at once.
SELECT receipt_handle, delivery_attempts FROM queue_state.dequeue('retried') \gset
SELECT :delivery_attempts AS delivery_attempts,
	   queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'still no answer') AS given_back,
	   queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'still no answer') AS again;
SELECT count(*) FROM queue_state.queue_message WHERE id = :'id';
SELECT priority, delivery_attempts, reason, payload, last_error,
	   last_delivered_at IS NOT NULL AS was_delivered, expires_at > enqueued_at AS has_expiry
	FROM queue_state.queue_dead_letter_message WHERE id = :'id';

-- NULL as error keeps what an earlier one said.
SELECT queue_state.enqueue('retried', '"b"') IS NOT NULL AS enqueued;
SELECT id, receipt_handle FROM queue_state.dequeue('retried') \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds', 'first');
SELECT id, receipt_handle FROM queue_state.dequeue('retried') \gset
SELECT queue_state.nack(:'id', :'receipt_handle', '0 seconds');
SELECT last_error FROM queue_state.queue_message WHERE id = :'id';

-- A rejected message is a dead letter whatever attempts are left.
SELECT id, receipt_handle FROM queue_state.dequeue('retried') \gset
SELECT queue_state.reject(:'id', :'receipt_handle', 'not JSON we know') AS rejected,
	   queue_state.reject(:'id', :'receipt_handle', 'twice') AS again;
SELECT payload, delivery_attempts, reason, last_error
	FROM queue_state.queue_dead_letter_message WHERE id = :'id';

-- A lease that is over, and one that was taken over, are not held.
SELECT queue_state.enqueue('retried', '"c"') IS NOT NULL AS enqueued;
SELECT id, receipt_handle AS old_handle FROM queue_state.dequeue('retried') \gset
UPDATE queue_state.queue_message SET available_after = clock_timestamp() WHERE id = :'id';
SELECT queue_state.nack(:'id', :'old_handle') AS nack, queue_state.reject(:'id', :'old_handle') AS reject;
SELECT receipt_handle AS new_handle, delivery_attempts FROM queue_state.dequeue('retried') \gset
SELECT queue_state.nack(:'id', :'old_handle') AS nack, queue_state.reject(:'id', :'old_handle') AS reject;
SELECT state, delivery_attempts, receipt_handle = :'new_handle' AS untouched
	FROM queue_state.queue_message WHERE id = :'id';

-- A wait never goes beyond the expiry; past it the message is left to the cleaner.
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() + interval '2 minutes' WHERE id = :'id';
SELECT queue_state.nack(:'id', :'new_handle', '1 hour');
SELECT state, available_after = expires_at AS ends_with_it
	FROM queue_state.queue_message WHERE id = :'id';
UPDATE queue_state.queue_message
	SET available_after = clock_timestamp() - interval '1 second', delivery_attempts = 1 WHERE id = :'id';
SELECT id, receipt_handle FROM queue_state.dequeue('retried') \gset
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() WHERE id = :'id';
SELECT queue_state.nack(:'id', :'receipt_handle', '1 hour');
SELECT count(*) FROM queue_state.dequeue('retried');
SELECT * FROM queue_state.expire_messages();

-- The backoff: uniform between 0 and retry_delay * 2^(attempts - 1), capped.
-- Of 60 waits under each cap all are within it, and not all in one half.
SELECT name FROM queue_state.update_queue('retried', max_delivery_attempts => 100);
SELECT queue_state.enqueue('retried', '"d"', ttl => '1 day') AS id \gset
SELECT set_config('test.id', :'id', false) = :'id' AS set;
CREATE TEMP TABLE wait (attempts integer, least interval, most interval);
DO $$
DECLARE
	message	uuid := current_setting('test.id');
	handle	uuid := gen_random_uuid();
	before	timestamptz;
	attempt	integer;
BEGIN
	FOREACH attempt IN ARRAY ARRAY[1, 2, 3, 4, 99] LOOP
		FOR i IN 1 .. 60 LOOP
			UPDATE queue_state.queue_message
				SET state = 'IN_FLIGHT', receipt_handle = handle, delivery_attempts = attempt,
					available_after = clock_timestamp() + interval '1 minute'
				WHERE id = message;
			before := clock_timestamp();
			IF NOT queue_state.nack(message, handle) THEN
				RAISE EXCEPTION 'the lease was held';
			END IF;
			INSERT INTO wait
				SELECT attempt, available_after - clock_timestamp(), available_after - before
					FROM queue_state.queue_message WHERE id = message;
		END LOOP;
	END LOOP;
END
$$;
SELECT attempts, count(*), bool_and(most >= '0 seconds') AS never_negative,
	   bool_and(least <= cap.value) AS within_cap,
	   bool_or(most < cap.value / 2) AS some_short, bool_or(least > cap.value / 2) AS some_long,
	   count(DISTINCT most) > 40 AS spread
	FROM wait JOIN (VALUES (1, interval '10 seconds'), (2, '20 seconds'), (3, '40 seconds'),
						   (4, '1 minute'), (99, '1 minute')) cap (attempt, value)
		ON cap.attempt = wait.attempts
	GROUP BY attempts ORDER BY attempts;

-- A queue without backoff gives back at once.
SELECT name FROM queue_state.update_queue('retried', retry_delay => '0 seconds');
UPDATE queue_state.queue_message SET available_after = clock_timestamp() - interval '1 second',
	delivery_attempts = 1 WHERE id = :'id';
SELECT receipt_handle FROM queue_state.dequeue('retried') \gset
SELECT queue_state.nack(:'id', :'receipt_handle');
SELECT state FROM queue_state.queue_message WHERE id = :'id';

-- Arguments out of range.
SELECT queue_state.nack(:'id', :'receipt_handle', '-1 seconds');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.nack(:'id', :'receipt_handle', '30 days 1 second');
\echo :LAST_ERROR_SQLSTATE
-- NULL names no lease.
SELECT queue_state.nack(NULL, :'receipt_handle') AS nack, queue_state.nack(:'id', NULL) AS nack,
	   queue_state.reject(NULL, :'receipt_handle') AS reject, queue_state.reject(:'id', NULL) AS reject;

-- A dead letter is one event, a message given back is none.
SELECT sum(dead_lettered_total) AS dead_lettered, sum(dead_letters) AS dead_letters,
	   sum(acknowledged_total) AS acknowledged
	FROM queue_state.snapshot() WHERE queue_name = 'retried';
-- Rolled back, it has not happened.
SELECT receipt_handle FROM queue_state.dequeue('retried') \gset
BEGIN;
SELECT queue_state.reject(:'id', :'receipt_handle');
ROLLBACK;
SELECT sum(dead_lettered_total) AS dead_lettered, sum(dead_letters) AS dead_letters
	FROM queue_state.snapshot() WHERE queue_name = 'retried';
SELECT queue_state.reject(:'id', :'receipt_handle');

SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('retried', true);

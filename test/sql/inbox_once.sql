--
-- The inbox: work that is done once.
--
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS queue_state;
RESET client_min_messages;

SELECT queue_state.uuidv7() AS id \gset

-- True once for each consumer.
SELECT queue_state.process_once('billing', :'id') AS first, queue_state.process_once('billing', :'id') AS again;
SELECT queue_state.process_once('mailing', :'id') AS first, queue_state.process_once('mailing', :'id') AS again;
SELECT queue_state.process_once('Billing', :'id') AS first;

-- The answer belongs to the transaction: undone with it.
SELECT queue_state.uuidv7() AS id \gset
BEGIN;
SELECT queue_state.process_once('billing', :'id');
ROLLBACK;
SELECT queue_state.process_once('billing', :'id');
BEGIN;
SAVEPOINT work;
SELECT queue_state.process_once('mailing', :'id');
ROLLBACK TO SAVEPOINT work;
SELECT queue_state.process_once('mailing', :'id') AS first, queue_state.process_once('mailing', :'id') AS again;
COMMIT;

-- Delivered twice, done once.
SELECT name FROM queue_state.create_queue('once');
CREATE TEMP TABLE account (balance integer);
INSERT INTO account VALUES (0);
SELECT queue_state.enqueue('once', '{"amount": 5}') AS id \gset
SELECT receipt_handle AS first_handle FROM queue_state.dequeue('once') \gset
WITH work AS (SELECT queue_state.process_once('account', :'id') AS first)
UPDATE account SET balance = balance + 5 FROM work WHERE work.first;
UPDATE queue_state.queue_message SET available_after = clock_timestamp() WHERE id = :'id';
SELECT receipt_handle AS second_handle FROM queue_state.dequeue('once') \gset
WITH work AS (SELECT queue_state.process_once('account', :'id') AS first)
UPDATE account SET balance = balance + 5 FROM work WHERE work.first;
SELECT queue_state.acknowledge(:'id', :'first_handle') AS late, queue_state.acknowledge(:'id', :'second_handle') AS held;
SELECT balance FROM account;

-- Retention: by age, bounded, oldest first.
SELECT count(*) FROM queue_state.inbox WHERE consumer IN ('billing', 'Billing', 'mailing', 'account');
UPDATE queue_state.inbox SET processed_at = clock_timestamp() - interval '8 days' WHERE consumer = 'billing';
UPDATE queue_state.inbox SET processed_at = clock_timestamp() - interval '9 days' WHERE consumer = 'Billing';
SELECT queue_state.forget_processed('7 days', 1);
SELECT count(*) FROM queue_state.inbox WHERE consumer = 'Billing';
SELECT queue_state.forget_processed('7 days') AS rest, queue_state.forget_processed('7 days') AS nothing;
SELECT consumer, count(*) FROM queue_state.inbox GROUP BY consumer ORDER BY consumer;
SELECT queue_state.forget_processed('0 seconds');

-- Names at the limits; missing and bad arguments.
SELECT queue_state.process_once(repeat('c', 256), :'id');
SELECT queue_state.process_once(repeat('c', 257), :'id');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.process_once('', :'id');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.process_once(NULL, :'id');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.process_once('billing', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.forget_processed(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.forget_processed('-1 days');
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.forget_processed('1 day', 0);
\echo :LAST_ERROR_SQLSTATE
SELECT queue_state.forget_processed('1 day', NULL);
\echo :LAST_ERROR_SQLSTATE

SELECT queue_state.forget_processed('0 seconds');
SELECT * FROM queue_state.verify();
SELECT queue_state.drop_queue('once', true);

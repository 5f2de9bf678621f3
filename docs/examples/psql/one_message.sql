-- Takes one message of the queue :queue, does its work, and gives it back if
-- that fails.  Says what it did; says nothing if there was no message.

-- The LEFT JOIN makes one row of NULLs when there is none, and \gset leaves
-- the variables of NULLs unset.
SELECT d.id, d.receipt_handle, d.headers ->> 'traceparent' AS traceparent,
	   d.payload ->> 'order' AS order_id
	FROM (SELECT) AS always LEFT JOIN queue_state.dequeue(:'queue') AS d ON true
\gset

\if :{?id}
\else
	\q
\endif

\if :{?order_id}
\else
	-- No retry will make it an order.
	SELECT 'rejected ' || :'id' AS outcome
		FROM queue_state.reject(:'id', :'receipt_handle', 'the payload names no order') AS held
		WHERE held;
	\q
\endif
\if :{?traceparent}
\else
	\set traceparent ''
\endif

BEGIN;
-- The work, once for each message however often it is delivered.
INSERT INTO shipment (order_id, traceparent)
	SELECT :'order_id'::integer, :'traceparent'
	WHERE queue_state.process_once('shipping', :'id');
\if :ERROR
	\set reason :LAST_ERROR_MESSAGE
	ROLLBACK;
	SELECT 'given back ' || :'id' AS outcome
		FROM queue_state.nack(:'id', :'receipt_handle', error => :'reason') AS held
		WHERE held;
	\q
\endif
SELECT queue_state.acknowledge(:'id', :'receipt_handle') AS held
\gset
\if :held
	COMMIT;
	\echo shipped :order_id :traceparent
\else
	-- The lease ended during the work: it is somebody else's now.
	ROLLBACK;
	\echo late :id
\endif

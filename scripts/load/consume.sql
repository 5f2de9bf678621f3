-- The good worker: leases one message, works for a while, acknowledges it.
\set queue random(1, 3)
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt_handle), '{}') AS handles
	FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue]) \gset
\sleep 5 ms
SELECT queue_state.acknowledge_batch(':ids', ':handles');

-- The good worker: leases one message, works for a while, acknowledges it.
-- Few workers look at the third queue, so it has a backlog.
\set queue 1 + random(0, 99) / 45
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt_handle), '{}') AS handles
	FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue]) \gset
\sleep 5 ms
SELECT queue_state.acknowledge_batch(':ids', ':handles');

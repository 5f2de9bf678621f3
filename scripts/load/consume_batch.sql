-- The same, twenty at a time.
\set queue 1 + random(0, 99) / 45
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt_handle), '{}') AS handles
	FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue], 20) \gset
\sleep 20 ms
SELECT queue_state.acknowledge_batch(':ids', ':handles');

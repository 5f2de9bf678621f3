-- 100 messages are claimed, and acknowledged in the next transaction.
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt_handle), '{}') AS handles
FROM queue_state.dequeue('bench', 100) \gset
SELECT queue_state.acknowledge_batch(:ids, :handles);

-- consume_batch.sql with the PL/pgSQL forms.
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt_handle), '{}') AS handles
FROM baseline.dequeue_ready('bench', 100) \gset
SELECT baseline.acknowledge_batch(:ids, :handles);

-- consume_batch.sql with the PL/pgSQL forms.
SELECT array_agg(id) AS ids, array_agg(receipt_handle) AS handles
FROM baseline.dequeue_ready('bench', 100) \gset
SELECT baseline.acknowledge_batch(:ids, :handles);

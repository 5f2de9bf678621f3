-- consume.sql with the PL/pgSQL forms.
SELECT id, receipt_handle AS handle, payload FROM baseline.dequeue_ready('bench') \gset
SELECT baseline.acknowledge(:id, :handle);

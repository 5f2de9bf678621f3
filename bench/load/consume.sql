-- One message is claimed, and acknowledged in the next transaction.
SELECT id, receipt_handle AS handle, payload FROM queue_state.dequeue('bench') \gset
SELECT queue_state.acknowledge(:id, :handle);

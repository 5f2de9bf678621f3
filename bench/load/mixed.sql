-- The life of a message in three transactions, each of which pgbench counts by
-- itself: step 0 enqueues, 1 claims, 2 acknowledges what 1 claimed.  So every
-- client produces and consumes at the same rate.  There is always a backlog,
-- so that a claim finds something.  Started with step = 2.
\set step (:step + 1) % 3
\if :step = 0
	SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
\elif :step = 1
	SELECT id, receipt_handle AS handle, payload FROM queue_state.dequeue('bench') \gset
\else
	SELECT queue_state.acknowledge(:id, :handle);
\endif

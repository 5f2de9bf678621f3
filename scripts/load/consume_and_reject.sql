-- A message that no worker can read: a dead letter at once.
\set queue 1 + random(0, 99) / 45
SELECT count(*) FROM
	(SELECT queue_state.reject(id, receipt_handle, error => 'unreadable')
		FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue])) AS rejected;

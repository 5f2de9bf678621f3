-- A worker that cannot work now: the message is delivered again after a backoff.
\set queue 1 + random(0, 99) / 45
SELECT count(*) FROM
	(SELECT queue_state.nack(id, receipt_handle, error => 'try again later')
		FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue])) AS given_back;

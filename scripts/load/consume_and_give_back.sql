-- A worker that cannot work now: the message is delivered again after a backoff.
\set queue random(1, 3)
SELECT count(*) FROM
	(SELECT queue_state.nack(id, receipt_handle, error => 'try again later')
		FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue])) AS given_back;

-- A worker that dies: the lease elapses, and the message is delivered again or,
-- after its last attempt, becomes a dead letter.
\set queue random(1, 3)
SELECT count(*) FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue]);

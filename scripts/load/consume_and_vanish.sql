-- A worker that dies: the lease elapses, and the message is delivered again or,
-- after its last attempt, becomes a dead letter.
\set queue 1 + random(0, 99) / 45
SELECT count(*) FROM queue_state.dequeue((ARRAY['mail', 'orders', 'reports'])[:queue]);

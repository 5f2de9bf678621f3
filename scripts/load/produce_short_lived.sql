-- A message that nobody wants any more after a second, and that often expires.
\set draw random(1, 100)
SELECT queue_state.enqueue('reports', jsonb_build_object('kind', 'short-lived'),
	(CASE WHEN :draw <= 70 THEN 'HIGH' WHEN :draw <= 90 THEN 'MEDIUM' ELSE 'LOW' END)::queue_state.message_priority,
	ttl => '1 second');

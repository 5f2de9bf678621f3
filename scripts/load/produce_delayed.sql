-- A message for later.
\set draw random(1, 100)
SELECT queue_state.enqueue('mail', jsonb_build_object('kind', 'delayed'),
	(CASE WHEN :draw <= 70 THEN 'HIGH' WHEN :draw <= 90 THEN 'MEDIUM' ELSE 'LOW' END)::queue_state.message_priority,
	delay => '3 seconds');

-- One message: 70 % HIGH, 20 % MEDIUM, 10 % LOW.
\set queue random(1, 3)
\set draw random(1, 100)
SELECT queue_state.enqueue((ARRAY['mail', 'orders', 'reports'])[:queue],
	jsonb_build_object('kind', 'single', 'draw', :draw),
	(CASE WHEN :draw <= 70 THEN 'HIGH' WHEN :draw <= 90 THEN 'MEDIUM' ELSE 'LOW' END)::queue_state.message_priority);

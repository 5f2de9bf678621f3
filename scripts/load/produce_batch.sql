-- Ten messages of one priority, with a header that consumers get back.
\set queue random(1, 3)
\set draw random(1, 100)
SELECT count(*) FROM queue_state.enqueue_batch((ARRAY['mail', 'orders', 'reports'])[:queue],
	ARRAY(SELECT jsonb_build_object('kind', 'batch', 'number', n) FROM generate_series(1, 10) AS n),
	(CASE WHEN :draw <= 70 THEN 'HIGH' WHEN :draw <= 90 THEN 'MEDIUM' ELSE 'LOW' END)::queue_state.message_priority,
	headers => array_fill('{"source": "load"}'::jsonb, ARRAY[10]));

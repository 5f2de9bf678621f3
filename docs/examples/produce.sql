-- A producer: the order and its message are committed together, so neither
-- can exist without the other.  The trace goes along in the headers.

BEGIN;
-- INSERT INTO customer_order ... would be here.
SELECT queue_state.enqueue('orders', pg_catalog.jsonb_build_object('order', i),
	headers => pg_catalog.jsonb_build_object(
		'traceparent', '00-0af7651916cd43dd8448eb211c80319c-' || pg_catalog.lpad(pg_catalog.to_hex(i), 16, '0') || '-01',
		'correlation-id', 'order-' || i),
	deduplication_key => 'order-' || i)
FROM pg_catalog.generate_series(1, 20) AS i;
COMMIT;

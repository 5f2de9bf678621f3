-- What the example workers work on: a queue of orders, and the table that
-- their work goes into.
--
-- The worker's transaction writes the shipment, remembers the message and
-- acknowledges it: all or nothing.

SELECT name FROM queue_state.create_queue('orders',
	visibility_timeout => '30 seconds',
	max_delivery_attempts => 2,
	retry_delay => '0 seconds');

CREATE TABLE shipment
(
	order_id	integer PRIMARY KEY,
	traceparent	text
);

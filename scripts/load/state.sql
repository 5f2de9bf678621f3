-- The table that `make run` shows.
SELECT queue_name AS queue, sum(ready) AS ready, sum(in_flight) AS "in flight",
	sum(delayed) AS delayed, sum(exhausted) AS exhausted, sum(dead_letters) AS dead,
	round(max(oldest_ready_age_seconds)::numeric, 1) AS "oldest s",
	sum(enqueued_total) AS enqueued, sum(delivered_total) AS delivered,
	sum(acknowledged_total) AS acknowledged,
	sum(expired_never_delivered_total + expired_previously_delivered_total) AS expired,
	sum(dead_lettered_total) AS "dead-lettered"
FROM queue_state.snapshot() GROUP BY 1 ORDER BY 1;

"""How long a query takes in the server, its result turned into text and thrown
away."""

from harness import server


def prepare(database):
	server.query(database, """
		CREATE FUNCTION bench.milliseconds(query text, times integer) RETURNS float8 LANGUAGE plpgsql AS $$
		DECLARE
			begun timestamptz := clock_timestamp();
		BEGIN
			FOR i IN 1 .. times LOOP
				EXECUTE format('COPY (%s) TO ''/dev/null''', query);
			END LOOP;
			RETURN extract(epoch FROM clock_timestamp() - begun) * 1000 / times;
		END
		$$""")


# One sample of a short query is the mean of as many as fit into this.
SAMPLE_MS = 50


def alternate(database, queries, rounds):
	"""Milliseconds of each query, by turns in one session that has run each of
	them before."""
	session = server.Session(database)

	def milliseconds(name, times):
		return float(session.run('SELECT bench.milliseconds($query$%s$query$, %d)'
								 % (queries[name], times))[0][0])

	try:
		times = {}
		for name in queries:
			milliseconds(name, 1)
			times[name] = min(max(int(SAMPLE_MS / milliseconds(name, 1)), 1), 100)
		taken = {name: [] for name in queries}
		for _ in range(rounds):
			for name in queries:
				taken[name].append(milliseconds(name, times[name]))
		return taken
	finally:
		session.close()


SNAPSHOT = 'SELECT * FROM queue_state.snapshot()'

# What snapshot() says of the backlog, by reading the messages.
AGGREGATE = '''
	SELECT queue_id, priority,
		   count(*) FILTER (WHERE state = 'READY' AND expires_at > clock_timestamp()) AS ready,
		   count(*) FILTER (WHERE state = 'IN_FLIGHT'
							AND available_after > clock_timestamp()) AS in_flight,
		   count(*) FILTER (WHERE state = 'DELAYED'
							AND available_after > clock_timestamp()) AS delayed,
		   min(enqueued_at) FILTER (WHERE state = 'READY') AS oldest_ready,
		   min(enqueued_at) FILTER (WHERE state = 'IN_FLIGHT') AS oldest_in_flight
	FROM queue_state.queue_message
	GROUP BY queue_id, priority'''

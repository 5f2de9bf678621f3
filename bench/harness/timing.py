"""How long a query takes in the server, its result turned into text and thrown
away."""

from harness import server


def prepare(database):
	server.query(database, """
		CREATE FUNCTION bench.milliseconds(query text) RETURNS float8 LANGUAGE plpgsql AS $$
		DECLARE
			begun timestamptz := clock_timestamp();
		BEGIN
			EXECUTE format('COPY (%s) TO ''/dev/null''', query);
			RETURN extract(epoch FROM clock_timestamp() - begun) * 1000;
		END
		$$""")


def alternate(database, queries, rounds):
	"""Milliseconds of each query, by turns in one session, which has run each of
	them once before."""
	session = server.Session(database)
	try:
		taken = {name: [] for name in queries}
		for turn in range(rounds + 1):
			for name, query in queries.items():
				took = float(session.run("SELECT bench.milliseconds($q$%s$q$)" % query)[0][0])
				if turn > 0:
					taken[name].append(took)
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

"""The databases that are compared.

All begin as copies of one template, with the extension and a queue `bench`
whose leases outlast the benchmark, so they differ in nothing but what their
name says:

counted        the extension as installed
uncounted      nothing counts: no triggers at all, and a library whose event
               totals go nowhere; the functions, the table and its indexes stay
statement_end  the same, with PL/pgSQL triggers that update the counters at the
               end of each statement
single_row     the same, with a single counter row for a queue and priority
plain          the extension, and beside it the PL/pgSQL forms of its functions
"""

import os

from harness import server

TEMPLATE = 'bench_template'

COUNTED = 'counted'
UNCOUNTED = 'uncounted'
STATEMENT_END = 'statement_end'
SINGLE_ROW = 'single_row'
PLAIN = 'plain'

# As in the report.
TITLE = {
	COUNTED: 'queue_state',
	UNCOUNTED: 'no triggers',
	STATEMENT_END: 'statement-end UPDATE',
	SINGLE_ROW: 'single counter row',
	PLAIN: 'plain PL/pgSQL',
}

PAYLOAD = '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}'


def create_template(bench):
	server.query('postgres', 'CREATE DATABASE %s' % TEMPLATE)
	server.query(TEMPLATE, '''
		CREATE EXTENSION queue_state;
		SELECT (queue_state.create_queue('bench', visibility_timeout => '12 hours')).name;
		CREATE SCHEMA bench;
		CREATE FUNCTION bench.fill(count bigint) RETURNS void LANGUAGE sql AS $$
			INSERT INTO queue_state.queue_message (queue_id, payload)
			SELECT q.queue_id, '%s'
			FROM queue_state.queue AS q, generate_series(1, count)
			WHERE q.name = 'bench'
		$$''' % PAYLOAD)


def create(bench, name, kind=None):
	"""Makes database `name`, of that kind, anew."""
	kind = kind or name
	drop(name)
	server.query('postgres', 'CREATE DATABASE %s TEMPLATE %s' % (name, TEMPLATE))
	if kind in (UNCOUNTED, STATEMENT_END, SINGLE_ROW):
		use_library(name, bench.variant_library('uncounted'))
		run_file(bench, name, 'uncounted.sql')
	if kind in (STATEMENT_END, SINGLE_ROW):
		run_file(bench, name, 'statement_end.sql')
	if kind == SINGLE_ROW:
		run_file(bench, name, 'single_row.sql')
	if kind == PLAIN:
		with open(os.path.join(bench.root, 'bench', 'baseline.sql')) as script:
			server.query(name, script.read())
	return name


def drop(name):
	server.query('postgres', 'DROP DATABASE IF EXISTS %s WITH (FORCE)' % name)


def use_library(name, path):
	"""Lets the functions of the extension come from another library."""
	server.query(name, "UPDATE pg_catalog.pg_proc SET probin = '%s'"
				 " WHERE probin = '$libdir/queue_state'" % path)


def run_file(bench, name, file):
	with open(os.path.join(bench.root, 'bench', 'variants', file)) as script:
		server.query(name, script.read())


def empty(name):
	"""Removes all messages and puts the table in order."""
	server.query(name, '''
		TRUNCATE queue_state.queue_message;
		VACUUM ANALYZE queue_state.queue_message;
		VACUUM queue_state.queue_priority_state_shard;
		VACUUM queue_state.queue_priority_state_pending;''')


def top_up(name, ready):
	"""Lets at least so many messages wait, and removes the dead rows."""
	server.query(name, '''
		SELECT bench.fill(greatest(%d - count(*), 0))
		FROM queue_state.queue_message WHERE state = 'READY';
		VACUUM ANALYZE queue_state.queue_message;''' % ready)


def ready(name):
	return int(server.value(
		name, "SELECT count(*) FROM queue_state.queue_message WHERE state = 'READY'"))


def check(name, kind=None):
	"""The counters of what was measured have to be right."""
	kind = kind or name
	if kind == UNCOUNTED:
		return
	if kind in (STATEMENT_END, SINGLE_ROW):
		drift = server.query(name, '''
			SELECT * FROM (SELECT count(*) FILTER (WHERE state = 'READY'),
								  count(*) FILTER (WHERE state = 'IN_FLIGHT')
						   FROM queue_state.queue_message) AS m
			EXCEPT
			SELECT sum(ready_count)::bigint, sum(in_flight_count)::bigint
			FROM queue_state.queue_priority_state_shard''')
	else:
		drift = server.query(name, 'SELECT * FROM queue_state.verify()')
	if drift:
		raise RuntimeError('the counters of %s have drifted: %s' % (name, drift))

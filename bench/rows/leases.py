"""What reading the state costs per elapsed lease: they are looked at one by
one, because only time has changed them."""

from harness import databases, server, timing
from harness.databases import COUNTED
from harness.report import verdict
from harness.statistics import Spread
from rows.backlog import power

SECTION = 'leases'
DATABASE = 'leases'
LIMIT_MS = 1500


def run(bench, report):
	databases.create(bench, DATABASE, COUNTED)
	timing.prepare(DATABASE)
	rows, taken, present = [], {}, 0
	sizes = bench.choose((10**3, 10**4, 10**5, 10**6), (10**3, 10**4, 10**5))
	for size in sizes:
		lapse(present + 1, size, "n * interval '1 millisecond' + random() * interval '30 seconds'")
		present = size
		taken[size] = read(bench, report, rows, size, 'in the order they were taken')
	largest = sizes[-1]
	databases.empty(DATABASE)
	lapse(1, largest, "random() * interval '30 minutes'")
	scattered = read(bench, report, rows, largest, 'in random order')
	per_lease = [taken[size].median / size for size in (largest, largest // 10)]
	report.row(SECTION, 'snapshot(): time per lease at %s against %s' % (
		power(largest), power(largest // 10)), '%.2f' % (per_lease[0] / per_lease[1]),
		'≤ 1.50 (linear)', verdict(per_lease[0] / per_lease[1] <= 1.5))
	if largest == 10**6:
		for spread, order in ((taken[largest], 'the order they were taken'),
							  (scattered, 'random order')):
			report.row(SECTION, 'snapshot() with 10^6 elapsed leases', spread.text(0) + ' ms',
					   '≤ %d ms' % LIMIT_MS, verdict(spread.median <= LIMIT_MS),
					   'leases elapsed in ' + order)
	report.table('Reading with elapsed leases',
				 'One queue; milliseconds in the server. Each lease is looked up in the table: when '
				 'leases elapse in random order that is a jump through memory for each.',
				 ('elapsed leases', 'elapsed', 'snapshot() ms', 'microseconds per lease'), rows)
	databases.check(DATABASE, COUNTED)
	databases.drop(DATABASE)


def lapse(first, last, after):
	"""Adds leases number `first` to `last`; each elapsed `after` an hour ago."""
	server.query(DATABASE, """
		INSERT INTO queue_state.queue_message
			(queue_id, state, delivery_attempts, last_delivered_at, available_after,
			 receipt_handle, payload)
		SELECT q.queue_id, 'IN_FLIGHT', 1, clock_timestamp() - interval '2 hours',
			   clock_timestamp() - interval '1 hour' + %s, gen_random_uuid(), '%s'
		FROM queue_state.queue AS q, generate_series(%d, %d) AS s (n);
		VACUUM ANALYZE queue_state.queue_message;""" % (after, databases.PAYLOAD, first, last),
		'-c synchronous_commit=off')


def read(bench, report, rows, size, order):
	times = timing.alternate(DATABASE, {'snapshot': timing.SNAPSHOT}, bench.rounds)['snapshot']
	for number, value in enumerate(times, 1):
		report.sample(SECTION, power(size) + ' elapsed leases', order, 'snapshot', number, 'ms', value)
	spread = Spread(times)
	rows.append((power(size), order, spread.text(2), '%.2f' % (spread.median * 1000 / size)))
	return spread

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
	for size in bench.choose((10**3, 10**4, 10**5, 10**6), (10**3, 10**4, 10**5)):
		server.query(DATABASE, '''
			INSERT INTO queue_state.queue_message
				(queue_id, state, delivery_attempts, last_delivered_at, available_after,
				 receipt_handle, payload)
			SELECT q.queue_id, 'IN_FLIGHT', 1, clock_timestamp() - interval '1 hour',
				   clock_timestamp() - random() * interval '30 minutes', gen_random_uuid(), '%s'
			FROM queue_state.queue AS q, generate_series(1, %d);
			VACUUM ANALYZE queue_state.queue_message;''' % (databases.PAYLOAD, size - present),
			'-c synchronous_commit=off')
		present = size
		times = timing.alternate(DATABASE, {'snapshot': timing.SNAPSHOT}, bench.rounds)['snapshot']
		for number, value in enumerate(times, 1):
			report.sample(SECTION, power(size) + ' elapsed leases', 'reading', 'snapshot', number, 'ms',
						  value)
		taken[size] = Spread(times)
		rows.append((power(size), taken[size].text(2), '%.2f' % (taken[size].median * 1000 / size)))
	largest = max(taken)
	per_lease = [taken[size].median / size for size in (largest, largest // 10)]
	report.row(SECTION, 'snapshot(): time per lease at %s against %s' % (
		power(largest), power(largest // 10)), '%.2f' % (per_lease[0] / per_lease[1]),
		'≤ 1.50 (linear)', verdict(per_lease[0] / per_lease[1] <= 1.5))
	if largest == 10**6:
		report.row(SECTION, 'snapshot() with 10^6 elapsed leases', taken[largest].text(0) + ' ms',
				   '≤ %d ms' % LIMIT_MS, verdict(taken[largest].median <= LIMIT_MS))
	report.table('Reading with elapsed leases', 'One queue; milliseconds in the server.',
				 ('elapsed leases', 'snapshot() ms', 'microseconds per lease'), rows)
	databases.check(DATABASE, COUNTED)
	databases.drop(DATABASE)

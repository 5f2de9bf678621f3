"""What reading the state costs as the number of queues grows: every shard row
of each exists, as in a system that has run for a while; nineteen queues in
twenty are empty."""

from harness import databases, server, timing
from harness.databases import COUNTED
from harness.report import verdict
from harness.statistics import Spread

SECTION = 'queues'
DATABASE = 'queues'
LIMIT_MS = 300


def run(bench, report):
	databases.create(bench, DATABASE, COUNTED)
	timing.prepare(DATABASE)
	rows, taken = [], {}
	for count in bench.choose((10, 1000, 10000), (10, 100, 1000)):
		add_queues(count)
		times = timing.alternate(DATABASE, {'snapshot': timing.SNAPSHOT}, bench.rounds)['snapshot']
		for number, value in enumerate(times, 1):
			report.sample(SECTION, '%d queues' % count, 'reading', 'snapshot', number, 'ms', value)
		taken[count] = Spread(times)
		rows.append(('%d' % count, taken[count].text(2),
					 '%.1f' % (taken[count].median * 1000 / count)))
	few, many = sorted(taken)[-2:]
	growth = taken[many].median / many / (taken[few].median / few)
	report.row(SECTION, 'snapshot(): time per queue at %d queues against %d' % (many, few),
			   '%.2f' % growth, '≤ 1.50 (linear)', verdict(growth <= 1.5))
	if many == 10000:
		report.row(SECTION, 'snapshot() with 10,000 queues', taken[many].text(0) + ' ms',
				   '≤ %d ms' % LIMIT_MS, verdict(taken[many].median <= LIMIT_MS))
	report.table('Reading many queues', 'All 96 shard rows of each queue; milliseconds in the server.',
				 ('queues', 'snapshot() ms', 'microseconds per queue'), rows)
	databases.check(DATABASE, COUNTED)
	databases.drop(DATABASE)


def add_queues(count):
	"""The shard rows are written directly: making each by a message of its own
	would take an hour."""
	server.query(DATABASE, '''
		INSERT INTO queue_state.queue (name)
		SELECT 'queue-' || n FROM generate_series(1, %d) AS s (n)
		WHERE n > (SELECT count(*) - 1 FROM queue_state.queue);
		SET session_replication_role = replica;
		INSERT INTO queue_state.queue_priority_state_shard
		SELECT q.queue_id, p.priority, s.shard, 0, 0, 0, 0, 1000, 1000, 1000, 0, 0, 0, 0, 0
		FROM queue_state.queue AS q,
			 unnest(enum_range(NULL::queue_state.message_priority)) AS p (priority),
			 generate_series(0, 31) AS s (shard)
		ORDER BY 1, 2, 3
		ON CONFLICT DO NOTHING;
		RESET session_replication_role;
		INSERT INTO queue_state.queue_message (queue_id)
		SELECT queue_id FROM queue_state.queue AS q
		WHERE queue_id %% 20 = 0 AND NOT EXISTS
			(SELECT FROM queue_state.queue_message AS m WHERE m.queue_id = q.queue_id);
		VACUUM ANALYZE queue_state.queue, queue_state.queue_message,
			queue_state.queue_priority_state_shard;''' % (count - 1), '-c synchronous_commit=off')

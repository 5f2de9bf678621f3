"""What reading the state costs as one queue fills up, against counting the
messages."""

import shutil
import time

from harness import databases, plots, server, timing
from harness.databases import COUNTED
from harness.report import SKIPPED, verdict
from harness.statistics import Spread, ratios

SECTION = 'backlog'
DATABASE = 'backlog'
BYTES_PER_MESSAGE = 1000		# with indexes, WAL and what sorting them needs
BATCH = 500000


def run(bench, report):
	databases.create(bench, DATABASE, COUNTED)
	timing.prepare(DATABASE)
	server.query(DATABASE, '''
		CREATE PROCEDURE bench.fill_in_batches(count bigint, batch bigint) LANGUAGE plpgsql AS $$
		BEGIN
			WHILE count > 0 LOOP
				PERFORM bench.fill(least(count, batch));
				COMMIT;
				count := count - batch;
			END LOOP;
		END $$''')
	rows, series, taken, present = [], [[], []], {}, 0
	for size in bench.choose((10**4, 10**5, 10**6, 10**7), (10**4, 10**5)):
		free = shutil.disk_usage(bench.work).free
		if free < (size - present) * BYTES_PER_MESSAGE * 2:
			report.row(SECTION, 'snapshot() with %s messages' % power(size), '–', outcome=SKIPPED,
					   detail='%.0f GB of disk are free, twice %.0f needed' % (
						   free / 1e9, (size - present) * BYTES_PER_MESSAGE / 1e9))
			break
		begun = time.monotonic()
		fill(size - present)
		built = time.monotonic() - begun
		present = size
		times = timing.alternate(DATABASE, {'snapshot': timing.SNAPSHOT,
											'aggregate': timing.AGGREGATE}, bench.rounds)
		for name, values in times.items():
			for number, value in enumerate(values, 1):
				report.sample(SECTION, power(size) + ' messages', 'reading', name, number, 'ms', value)
		snapshot, aggregate = Spread(times['snapshot']), Spread(times['aggregate'])
		taken[size] = snapshot
		series[0].append((size, snapshot.median))
		series[1].append((size, aggregate.median))
		faster = ratios(times['aggregate'], times['snapshot'])
		rows.append((power(size), snapshot.text(3), aggregate.text(1), faster.text(0),
					 '%.0f' % built))
		if size == 10**7:
			report.row(SECTION, 'COUNT/MIN aggregate against snapshot(), 10^7 messages',
					   faster.text(0), '≥ 1000', verdict(faster.median >= 1000))
	smallest, largest = min(taken), max(taken)
	flat = max(spread.median for spread in taken.values()) / min(
		spread.median for spread in taken.values())
	report.row(SECTION, 'snapshot(), %s to %s messages: slowest against fastest' % (
		power(smallest), power(largest)), '%.2f' % flat, '≤ 1.50', verdict(flat <= 1.5))
	report.table('Reading against the backlog', 'Milliseconds in the server, one queue.',
				 ('messages', 'snapshot() ms', 'aggregate ms', 'times faster',
				  'seconds to build and vacuum'), rows)
	plots.draw(report.directory, 'reading.svg', 'Reading the state of a queue',
			   [('', 'messages in the queue', 'milliseconds',
				 ['set logscale xy', 'set xrange [%g:%g]' % (smallest * 0.9, largest * 1.2),
				  'set format x "10^{%L}"', 'set format y "10^{%L}"'],
				 [('snapshot()', series[0]), ('COUNT/MIN aggregate', series[1])])])
	report.plot('reading.svg', 'milliseconds to read the state against messages in the queue')
	databases.check(DATABASE, COUNTED)
	databases.drop(DATABASE)


def fill(count):
	"""Large numbers go in without most of the indexes, which are rebuilt then.
	They cannot be dropped meanwhile: the extension wants them there."""
	rebuild = []
	if count > 10**6:
		rebuild = [line[0] for line in server.query(DATABASE, """
			UPDATE pg_index SET indisready = false, indisvalid = false
			WHERE indrelid = 'queue_state.queue_message'::regclass AND NOT indisprimary
			RETURNING indexrelid::regclass""")]
	server.query(DATABASE, 'CALL bench.fill_in_batches(%d, %d)' % (count, BATCH),
				 '-c synchronous_commit=off')
	for index in rebuild:
		server.query(DATABASE, 'REINDEX INDEX %s' % index)
	server.query(DATABASE, 'VACUUM ANALYZE queue_state.queue_message')


def power(size):
	return '10^%d' % (len(str(size)) - 1)

"""What counting costs the processor: no flush to wait for, two clients."""

from harness import compare, databases, load
from harness.databases import COUNTED, TITLE, UNCOUNTED
from harness.settings import NO_FLUSH
from rows.consume import consume

SECTION = 'processor'
TARGET = 0.80
CLIENTS = 2
VARIANTS = (COUNTED, UNCOUNTED)
# what, script, messages per transaction
KINDS = (
	('single enqueue', 'enqueue', 1),
	('100-row enqueue', 'enqueue_batch', 100),
	('dequeue + acknowledge', 'consume', 1),
	('dequeue + acknowledge, batches of 100', 'consume_batch', 100),
)


def run(bench, report):
	conditions, options = NO_FLUSH
	for variant in VARIANTS:
		databases.create(bench, variant)
	rows = []
	for what, script, messages in bench.choose(KINDS, KINDS[::2]):
		if script.startswith('enqueue'):
			for variant in VARIANTS:
				databases.empty(variant)
			comparison = compare.interleave(
				VARIANTS, bench.rounds,
				lambda variant: load.run(bench, variant, script, CLIENTS, 1, options))
		else:
			comparison = consume(bench, {variant: script for variant in VARIANTS}, CLIENTS, messages,
								 options)
		report.comparison(SECTION, conditions, what, comparison, 'transactions/s', TITLE)
		report.ratio_row(SECTION, what, comparison.ratio(COUNTED, UNCOUNTED), TARGET,
						 '%s, %d clients' % (conditions, CLIENTS))
		for variant in VARIANTS:
			rate = comparison.spread(variant)
			rows.append((what, TITLE[variant], rate.text(0), '%.0f' % (rate.median * messages)))
	report.table('Processor time, synchronous_commit off, %d clients' % CLIENTS, '',
				 ('what', 'variant', 'transactions/s', 'messages/s'), rows)
	for variant in VARIANTS:
		databases.check(variant)
		databases.drop(variant)

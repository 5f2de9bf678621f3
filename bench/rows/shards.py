"""Why 32 shards: the same load on builds with half and with twice as many.

More shards meet less often in one row, and cost more rows to read.
"""

from harness import compare, databases, load, server
from harness.databases import COUNTED

SECTION = 'shards'
WRITERS = 64
COUNTS = (16, 32, 64)
KINDS = (('single enqueue', 'enqueue'), ('100-row enqueue', 'enqueue_batch'))


def run(bench, report):
	variants = ['shards%d' % count for count in COUNTS]
	title = {'shards%d' % count: '%d shards' % count for count in COUNTS}
	for count, variant in zip(COUNTS, variants):
		databases.create(bench, variant, COUNTED)
		if count != 32:
			databases.use_library(variant, bench.variant_library(variant))
			server.query(variant, '''
				ALTER TABLE queue_state.queue_priority_state_shard
					DROP CONSTRAINT queue_priority_state_shard_shard_check;
				ALTER TABLE queue_state.queue_priority_state_pending
					DROP CONSTRAINT queue_priority_state_pending_shard_check;''')
	for conditions, options in bench.sets()[-1:]:
		conditions = '%s, %d writers' % (conditions, WRITERS)
		rows = []
		for what, script in bench.choose(KINDS, KINDS[:1]):
			for variant in variants:
				databases.empty(variant)
			comparison = compare.interleave(
				variants, bench.rounds,
				lambda variant: load.run(bench, variant, script, WRITERS, 1, options))
			report.comparison(SECTION, conditions, what, comparison, 'transactions/s', title)
			for variant in ('shards16', 'shards64'):
				report.ratio_row(SECTION, '%s, %s against 32' % (what, title[variant]),
								 comparison.ratio(variant, 'shards32'), None, conditions)
			for variant in variants:
				pending = int(server.value(
					variant, 'SELECT count(*) FROM queue_state.queue_priority_state_pending'))
				rows.append((what, title[variant], comparison.spread(variant).text(0), pending,
							 comparison.failures(variant)))
		report.table('Shards, ' + conditions, '',
					 ('what', 'variant', 'transactions/s', 'pending rows left', 'failed'), rows)
	for variant in variants:
		databases.check(variant, COUNTED)
		databases.drop(variant)

"""Claiming and acknowledging against the PL/pgSQL forms a user would write.

Both run over the same table with the same counting triggers, each in a
database of its own, because the dead rows of one would slow the other.
"""

from harness import compare, databases, load
from harness.databases import COUNTED, PLAIN, TITLE
from harness.settings import NO_FLUSH, TWO_MILLISECONDS

SECTION = 'consume'
OURS, THEIRS = COUNTED, PLAIN

# what, scripts, messages per transaction, target
KINDS = (
	('dequeue + acknowledge', {OURS: 'consume', THEIRS: 'plain_consume'}, 1, 1.8),
	('dequeue + acknowledge, batches of 100',
	 {OURS: 'consume_batch', THEIRS: 'plain_consume_batch'}, 100, 1.2),
)


def run(bench, report):
	for variant in (OURS, THEIRS):
		databases.create(bench, variant)
	for conditions, options in bench.choose(bench.sets(), []) + [NO_FLUSH]:
		rows = []
		for what, scripts, messages, target in KINDS:
			for consumers in consumer_counts(bench, conditions):
				title = '%s, %d consumer%s' % (what, consumers, 's' if consumers > 1 else '')
				comparison = consume(bench, scripts, consumers, messages, options)
				report.comparison(SECTION, conditions, title, comparison, 'transactions/s', TITLE)
				report.ratio_row(SECTION, title, comparison.ratio(OURS, THEIRS), target, conditions)
				for variant in (OURS, THEIRS):
					rows.append((title, TITLE[variant], comparison.spread(variant).text(0),
								 '%.0f' % (comparison.spread(variant).median * messages),
								 comparison.failures(variant)))
		report.table('Consuming, ' + conditions, '',
					 ('what', 'variant', 'claims acknowledged/s', 'messages/s', 'failed'), rows)
	for variant in (OURS, THEIRS):
		databases.check(variant)
		databases.drop(variant)


def consumer_counts(bench, conditions):
	if bench.quick or conditions == NO_FLUSH[0]:
		return (8,)
	# few consumers who wait 2 ms at each commit measure commit_delay
	return (32,) if conditions == TWO_MILLISECONDS[0] else (1, 8, 32)


def consume(bench, scripts, consumers, messages, options, seconds=1):
	"""Every run begins with a vacuumed table and must not come to its end."""
	wanted = {variant: 1000 * messages if messages > 1 else 15000 for variant in scripts}
	for variant in scripts:
		databases.empty(variant)

	def once(variant):
		while True:
			databases.top_up(variant, wanted[variant])
			sample = load.run(bench, variant, scripts[variant], consumers, seconds, options)
			wanted[variant] = max(wanted[variant], int(2.5 * sample.rate * seconds * messages))
			if databases.ready(variant) > 0:
				return sample
			wanted[variant] *= 2

	return compare.interleave(scripts, bench.rounds, once)

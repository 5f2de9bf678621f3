"""Enqueueing, with and without waiting counters."""

from harness import compare, databases, load, plots
from harness.statistics import Spread, number
from harness.databases import COUNTED, SINGLE_ROW, STATEMENT_END, TITLE, UNCOUNTED

SECTION = 'enqueue'
VARIANTS = (COUNTED, UNCOUNTED, STATEMENT_END, SINGLE_ROW)

# what, script, messages per transaction, target, seconds of a run, clients in
# full and in quick form.  A deadlock is broken after one second.
KINDS = (
	('single enqueue', 'enqueue', 1, 0.85, 1, (1, 8, 64), (16,)),
	('100-row enqueue', 'enqueue_batch', 100, 0.90, 1, (1, 16, 64), (16,)),
	('five enqueues in one transaction', 'enqueue_five', 5, 0.80, 2, (16,), (16,)),
)


def run(bench, report):
	for variant in VARIANTS:
		databases.create(bench, variant)
	throughput = {}
	for conditions, options in bench.sets():
		rows = []
		for what, script, messages, target, seconds, full, quick in KINDS:
			for clients in bench.choose(full, quick):
				# the well-known counters: everywhere in one set, where they are
				# met most often in the other
				shown = bench.choose(VARIANTS, VARIANTS[:3])
				if conditions != bench.sets()[-1][0] and clients != full[-1]:
					shown = VARIANTS[:2]
				for variant in shown:
					databases.empty(variant)
				comparison = compare.interleave(
					shown, bench.rounds,
					lambda variant: load.run(bench, variant, script, clients, seconds, options))
				title = '%s, %d client%s' % (what, clients, 's' if clients > 1 else '')
				report.comparison(SECTION, conditions, title, comparison, 'transactions/s', TITLE)
				judge(report, conditions, title, target, comparison)
				for variant in shown:
					rate = comparison.spread(variant)
					throughput[conditions, what, variant, clients] = rate.median * messages
					rows.append((
						title, TITLE[variant], rate.text(0),
						comparison.ratio(variant, UNCOUNTED).text() if variant != UNCOUNTED else '1',
						number(Spread([sample.latency(99)
									   for sample in comparison.samples[variant]]).median, 1),
						comparison.failures(variant, 'deadlock'),
						'%.1f %%' % (100 * comparison.failures(variant)
									 / max(comparison.total(variant), 1))))
		report.table('Enqueueing, ' + conditions, '',
					 ('what', 'variant', 'transactions/s', 'against no triggers', 'p99 ms',
					  'deadlocks', 'transactions failed'), rows)
	for variant in VARIANTS:
		databases.check(variant)
		databases.drop(variant)
	draw(bench, report, throughput)


def judge(report, conditions, title, target, comparison):
	failures = comparison.failures(COUNTED)
	ratio = comparison.ratio(COUNTED, UNCOUNTED)
	report.row(SECTION, title + ' against no triggers', ratio.text(),
			   '≥ %.2f, none failed' % target,
			   'met' if ratio.median >= target and failures == 0 else '**missed**', conditions,
			   '%d transactions failed' % failures if failures else '')
	for other in list(comparison.samples)[2:]:
		report.ratio_row(SECTION, '%s against %s' % (title, TITLE[other]),
						 comparison.ratio(COUNTED, other), None, conditions,
						 '%d deadlocks there' % comparison.failures(other, 'deadlock'))


def draw(bench, report, throughput):
	conditions = bench.sets()[-1][0]
	panels = []
	for what, _, _, _, _, full, quick in KINDS[:2]:
		clients = bench.choose(full, quick)
		panels.append((
			what + ', ' + conditions, 'clients', 'messages per second',
			['set logscale x 2', 'set xtics (%s)' % ', '.join('%d' % c for c in clients),
			 'set xrange [%g:%g]' % (clients[0] * 0.9, clients[-1] * 1.1), 'set yrange [0:*]'],
			[(TITLE[variant], [(c, throughput[conditions, what, variant, c]) for c in clients])
			 for variant in VARIANTS if (conditions, what, variant, clients[0]) in throughput]))
	plots.draw(report.directory, 'throughput.svg', 'Throughput with and without waiting counters',
			   panels)
	report.plot('throughput.svg', 'messages per second against clients, by kind of counter')

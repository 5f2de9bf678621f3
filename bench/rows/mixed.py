"""A steady load that produces and consumes, and what one forgotten transaction
does to it.

Each client enqueues, claims and acknowledges by turns.  The databases take
turns every few seconds; each of them is under load for a minute in all.  In
`held` one idle REPEATABLE READ transaction keeps, from before the first turn
to after the last, every row that dies.
"""

from harness import compare, databases, load, server
from harness.databases import COUNTED, TITLE, UNCOUNTED
from harness.report import verdict

SECTION = 'mixed'
HELD = 'held'
CLIENTS = 16
BACKLOG = 2000
CALLS = ('enqueue', 'dequeue', 'acknowledge')


def run(bench, report):
	for position, (conditions, options) in enumerate(bench.sets()):
		first = position == 0
		variants = [COUNTED, UNCOUNTED] + ([HELD] if first else [])
		turns, seconds = bench.choose((6, 10) if first else (5, 2), (3, 2))
		measure_set(bench, report, conditions, options, variants, turns, seconds)


def measure_set(bench, report, conditions, options, variants, turns, seconds):
	for variant in variants:
		databases.create(bench, variant, COUNTED if variant == HELD else variant)
		databases.top_up(variant, BACKLOG)
	if HELD in variants:
		holder = bench.keep(server.Session(HELD))
		holder.run('BEGIN ISOLATION LEVEL REPEATABLE READ;'
				   'SELECT count(*) FROM queue_state.queue_message')
	comparison = compare.interleave(
		variants, turns,
		lambda variant: load.run(bench, variant, 'mixed', CLIENTS, seconds, options, cycle=len(CALLS),
								 variables=('step=2',)))
	title = dict(TITLE, held='with an old snapshot')
	conditions = '%s, %d clients' % (conditions, CLIENTS)
	report.comparison(SECTION, conditions, 'mixed load', comparison, 'calls/s', title)
	report.ratio_row(SECTION, 'mixed load against no triggers, %d s each' % (turns * seconds),
					 comparison.ratio(COUNTED, UNCOUNTED), 0.85, conditions)
	if HELD in variants:
		report.ratio_row(SECTION, 'with one idle REPEATABLE READ transaction, against without',
						 comparison.ratio(HELD, COUNTED), 0.85, conditions)
		rates = comparison.figures(HELD)
		others = comparison.figures(COUNTED)
		report.row(SECTION, 'with it, the last %d s against the first' % seconds,
				   '%.2f' % (rates[-1] / rates[0]), '≥ 0.95', verdict(rates[-1] / rates[0] >= 0.95),
				   conditions, 'without it %.2f' % (others[-1] / others[0]))
	rows = []
	for variant in variants:
		for position, call in enumerate(CALLS):
			latencies = [sample.latencies[position] for sample in comparison.samples[variant]]
			merged = [latency for run in latencies for latency in run]
			rows.append((title[variant], comparison.spread(variant).text(0), call,
						 '%.2f' % load.percentile(merged, 50), '%.2f' % load.percentile(merged, 99),
						 comparison.failures(variant)))
	report.table('Mixed load, ' + conditions, '',
				 ('variant', 'calls/s', 'call', 'p50 ms', 'p99 ms', 'failed'), rows)
	if HELD in variants:
		report.table(
			'Rate by turn, ' + conditions, 'Calls/s in each turn of %d s, in order.' % seconds,
			('variant',) + tuple('%d' % turn for turn in range(1, turns + 1)),
			[(title[variant],) + tuple('%.0f' % rate for rate in comparison.figures(variant))
			 for variant in variants])
	bench.end_sessions()
	for variant in variants:
		databases.check(variant, COUNTED if variant == HELD else variant)
		databases.drop(variant)

"""Scrapes of the collector against the least a program with the same HTTP
library can do; bench/scrape measures, this judges."""

import csv
import os
import subprocess

from harness.report import verdict
from harness.statistics import Spread, ratios

SECTION = 'scrape'
PROGRAMS = ('collector', 'bare')
TITLE = {'collector': 'retsu-collector', 'bare': 'bare libmicrohttpd'}


def run(bench, report):
	done = subprocess.run(
		[os.path.join(bench.root, 'bench', 'scrape'), '--runs', bench.choose('10', '3'),
		 '--paced-runs', bench.choose('12', '2'), '--queues', bench.choose('100 10000', '100')],
		stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
	if done.returncode != 0:
		raise RuntimeError('bench/scrape: %s' % done.stderr.strip()[-1000:])
	values = {}
	for line in csv.DictReader(done.stdout.splitlines()):
		key = (line['measure'], line['program'], int(line['queues']), line['encoding'])
		values.setdefault(key, []).append(float(line['value']))
		report.sample(SECTION, ('%s queues %s' % (line['queues'], line['encoding'])).strip(),
					  line['measure'], TITLE.get(line['program'], line['program']), line['run'], '',
					  line['value'])
	rows = []
	for queues in sorted({key[2] for key in values}):
		for encoding in ('identity', 'gzip'):
			conditions = '{:,} queues, {}'.format(queues, encoding)
			for program in PROGRAMS:
				rows.append((conditions, TITLE[program],
							 Spread(values['requests_per_second', program, queues, encoding]).text(0),
							 Spread(values['p50_ms', program, queues, encoding]).text(2),
							 Spread(values['p99_ms', program, queues, encoding]).text(2)))
			report.ratio_row(SECTION, 'scrapes per second against bare libmicrohttpd',
							 ratios(*(values['requests_per_second', program, queues, encoding]
									  for program in PROGRAMS)), 0.9, conditions)
	judge_refreshing(report, values, max(key[2] for key in values))
	report.table('Scraping', '8 clients as fast as they can, made-up queues, no database.',
				 ('conditions', 'program', 'requests/s', 'p50 ms', 'p99 ms'), rows)


def judge_refreshing(report, values, queues):
	"""What a refresh every second costs 64 clients that scrape once a second."""
	conditions = '{:,} queues, gzip, 64 clients once a second'.format(queues)
	without = Spread(values['paced_p99_ms', 'collector', queues, 'gzip'])
	refreshing = Spread(values['paced_p99_ms', 'collector-refreshing', queues, 'gzip'])
	large = queues >= 10000
	report.row(SECTION, 'p99 of a scrape, with a refresh every second', refreshing.text() + ' ms',
			   '< 30 ms' if large else '–', verdict(refreshing.median < 30) if large else 'shown',
			   conditions, 'without refreshes %s ms' % without.text())
	idle = Spread(values['refresh_ms', 'idle', queues, ''])
	scraped = Spread(values['refresh_ms', 'scraped', queues, ''])
	added = scraped.median - idle.median
	report.row(SECTION, 'what scrapes add to a refresh', '%.2f ms' % added,
			   '≤ 5 ms' if large else '–', verdict(added <= 5) if large else 'shown', conditions,
			   'a refresh takes %s ms idle, %s ms scraped' % (idle.text(), scraped.text()))
	memory = values['rss_mib', 'collector', queues, ''][0]
	peak = max(values['peak_mib', 'collector', queues, ''])
	report.row(SECTION, 'resident memory of the serving half, peak', '%.1f MiB' % peak,
			   '≤ 96 MiB' if large else '–', verdict(peak <= 96) if large else 'shown', conditions,
			   '%.1f MiB after serving' % memory)

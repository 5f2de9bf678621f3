"""Runs the rows of the benchmark in order and writes the report.

Called by bench/run, which has built the variants and started the cluster.
"""

import argparse
import importlib
import os
import sys
import time
import traceback

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, ROOT)

from harness import databases, report, server, settings  # noqa: E402

# In the order they run and are reported.
ROWS = ('enqueue', 'processor', 'consume', 'mixed', 'claim', 'traffic', 'foreign_key', 'shards',
		'scrape', 'queues', 'leases', 'backlog')


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument('--quick', action='store_true')
	parser.add_argument('--work', required=True)
	parser.add_argument('--report', required=True)
	parser.add_argument('rows', nargs='*', default=[])
	options = parser.parse_args()
	unknown = set(options.rows) - set(ROWS)
	if unknown:
		parser.error('no such row: %s' % ', '.join(sorted(unknown)))

	bench = settings.Bench(options.quick, options.work, os.path.dirname(ROOT))
	result = report.Report(options.report, bench)
	started = time.monotonic()
	failed = []
	databases.create_template(bench)
	result.describe_machine(server)
	for name in options.rows or ROWS:
		begun = time.monotonic()
		print('%5.0f s  %s' % (begun - started, name), flush=True)
		try:
			importlib.import_module('rows.' + name).run(bench, result)
		except Exception as error:  # one row must not take the others with it
			failed.append(name)
			traceback.print_exc()
			result.failed(name, error)
		finally:
			bench.end_sessions()
		result.took(name, time.monotonic() - begun)
		try:
			result.write(time.monotonic() - started)
		except OSError:  # the next row may find room again
			traceback.print_exc()
	result.write(time.monotonic() - started)
	print('%5.0f s  done; the report is %s' %
		  (time.monotonic() - started, os.path.join(options.report, 'README.md')))
	if failed:
		print('could not be measured: %s' % ', '.join(failed), file=sys.stderr)
	return 1 if failed else 0


sys.exit(main())

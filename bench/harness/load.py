"""Load by pgbench, measured from its log of transactions.

The log tells when each transaction ended and how long it took, so that the
first moments, in which every connection fills its caches, can be left out.
"""

import glob
import os
import subprocess

from harness import server
from harness.statistics import percentile

FAILURES = ('serialization', 'deadlock', 'failed', 'skipped')


class Sample:
	"""One run."""

	def __init__(self, rate, latencies, failures, total, seconds):
		self.rate = rate				# transactions per second that succeeded
		self.latencies = latencies		# milliseconds, by position in the cycle
		self.failures = failures		# by kind
		self.total = total				# transactions in the whole run
		self.seconds = seconds			# that were measured

	def failed(self):
		return sum(self.failures.values())

	def latency(self, percent, position=0):
		return percentile(self.latencies[position], percent)


def run(bench, database, script, clients, seconds, options='', cycle=1, warm_up=None,
		variables=()):
	"""Runs a script of bench/load/ (or a path) and returns its Sample.

	cycle: a client's transactions take turns in this many kinds.
	"""
	prefix = os.path.join(bench.work, 'log', 'transactions')
	for path in glob.glob(prefix + '.*'):
		os.unlink(path)
	if not os.path.isabs(script):
		script = bench.script(script)
	done = subprocess.run(
		[server.program('pgbench'), '--no-vacuum', '--protocol=prepared',
		 '--client=%d' % clients, '--jobs=%d' % min(clients, 2), '--time=%d' % seconds,
		 '--log', '--log-prefix=' + prefix, '--failures-detailed']
		+ ['--define=' + variable for variable in variables] + ['--file=' + script, database],
		capture_output=True, text=True, env=dict(os.environ, PGOPTIONS=options),
		timeout=seconds + 120)
	if done.returncode != 0:
		raise RuntimeError('pgbench on %s with %s: %s' %
						   (database, os.path.basename(script), done.stderr.strip()[-1000:]))
	return measure(glob.glob(prefix + '.*'), seconds, cycle,
				   warm_up if warm_up is not None else 0.25 if seconds < 2 else 0.4)


def measure(paths, seconds, cycle, warm_up):
	ended = []
	failures = {}
	total = 0
	start = None
	for path in paths:
		with open(path) as log:
			for line in log:
				_, number, took, _, second, microsecond = line.split()[:6]
				total += 1
				at = int(second) + int(microsecond) / 1e6
				if took in FAILURES:
					failures[took] = failures.get(took, 0) + 1
					start = at if start is None else min(start, at)
					continue
				latency = float(took) / 1e6
				start = at - latency if start is None else min(start, at - latency)
				ended.append((at, latency * 1e3, int(number) % cycle))
	if start is None:
		return Sample(0.0, [[] for _ in range(cycle)], failures, 0, seconds)
	latencies = [[] for _ in range(cycle)]
	for at, latency, position in ended:
		if start + warm_up <= at < start + seconds:
			latencies[position].append(latency)
	return Sample(sum(map(len, latencies)) / (seconds - warm_up), latencies, failures, total,
				  seconds - warm_up)

"""What a row is told: how long to measure, where things are, what to stop."""

import os

# Commit latencies.  commit_delay sleeps before the flush, at every commit only
# if no other transaction need be active (commit_siblings).
REAL_FSYNC = ('real fsync', '')
TWO_MILLISECONDS = ('2 ms commit', '-c commit_delay=2000 -c commit_siblings=0')
NO_FLUSH = ('no flush', '-c synchronous_commit=off')


class Bench:
	def __init__(self, quick, work, root):
		self.quick = quick
		self.work = work
		self.root = root
		self.rounds = 3 if quick else 5
		self.sessions = []

	def sets(self):
		return [TWO_MILLISECONDS] if self.quick else [REAL_FSYNC, TWO_MILLISECONDS]

	def choose(self, full, quick):
		"""The value of this form of the benchmark."""
		return quick if self.quick else full

	def variant_library(self, name):
		path = os.path.join(self.work, 'variants', name + '.so')
		if not os.path.exists(path):
			raise RuntimeError('the library of variant %s was not built' % name)
		return path

	def script(self, name):
		return os.path.join(self.root, 'bench', 'load', name + '.sql')

	def keep(self, session):
		"""Ends the session with the row, however the row ends."""
		self.sessions.append(session)
		return session

	def end_sessions(self):
		while self.sessions:
			self.sessions.pop().close()

"""Talking to the private cluster, through psql."""

import os
import subprocess

PSQL = ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--field-separator=\t',
		'--set=ON_ERROR_STOP=1']


def program(name):
	return os.path.join(os.environ['BENCH_PROGRAMS'], name)


def query(database, sql, options=''):
	"""Rows of strings.  Several statements run in one session, each by itself."""
	environment = dict(os.environ, PGOPTIONS='-c client_min_messages=warning ' + options)
	done = subprocess.run([program('psql')] + PSQL + ['--dbname', database, '--file=-'],
						  input=sql, capture_output=True, text=True, env=environment,
						  timeout=600)
	if done.returncode != 0:
		raise RuntimeError('%s: %s' % (database, done.stderr.strip()[-2000:]))
	return [line.split('\t') for line in done.stdout.splitlines()]


def value(database, sql, options=''):
	return query(database, sql, options)[-1][0]


class Session:
	"""One connection that stays open between statements."""

	def __init__(self, database, options=''):
		environment = dict(os.environ, PGOPTIONS='-c client_min_messages=warning ' + options)
		self.process = subprocess.Popen(
			[program('psql')] + PSQL + ['--dbname', database], env=environment,
			stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

	def run(self, sql):
		"""Rows of strings; waits until the statements are done."""
		self.process.stdin.write(sql + ';\n\\echo end of answer\n')
		self.process.stdin.flush()
		lines = []
		for line in self.process.stdout:
			if line == 'end of answer\n':
				return [row.split('\t') for row in lines]
			lines.append(line.rstrip('\n'))
		raise RuntimeError('the session ended: %s' % '\n'.join(lines)[-2000:])

	def close(self):
		self.process.stdin.close()
		self.process.stdout.close()
		try:
			self.process.wait(10)
		except subprocess.TimeoutExpired:
			self.process.kill()
			self.process.wait()

"""The report: a page of tables, the raw numbers beside it, and the plots."""

import csv
import datetime
import os
import platform
import shutil

MET, MISSED, SHOWN, SKIPPED, FAILED = 'met', '**missed**', 'shown', 'skipped', '**failed**'


def verdict(reached):
	return MET if reached else MISSED


class Report:
	def __init__(self, directory, bench):
		self.directory = directory
		self.bench = bench
		self.machine = []
		self.verdicts = []
		self.sections = []
		self.samples = []
		self.times = []
		self.plots = []
		if os.path.isdir(directory):
			shutil.rmtree(directory)
		os.makedirs(directory)

	def describe_machine(self, server):
		"""What the figures depend on."""
		def of_file(path, key):
			try:
				with open(path) as lines:
					for line in lines:
						if line.startswith(key):
							return line.split(':', 1)[1].strip()
			except OSError:
				pass
			return 'unknown'

		def of_server(*names):
			return ', '.join('`%s = %s`' % (name, server.value('postgres', 'SHOW ' + name))
							 for name in names)

		memory = of_file('/proc/meminfo', 'MemTotal')
		self.machine = [
			('processor', '%s, %d cores' % (of_file('/proc/cpuinfo', 'model name'), os.cpu_count())),
			('memory', '%.0f GB' % (int(memory.split()[0]) / 1024 / 1024)
			 if memory[0].isdigit() else memory),
			('system', '%s, Linux %s' % (of_os_release(), platform.release())),
			('server', server.value('postgres', 'SELECT version()').split(' on ')[0]),
			('durability', of_server('fsync', 'synchronous_commit', 'full_page_writes',
									 'wal_sync_method')),
			('memory and WAL', of_server('shared_buffers', 'wal_buffers', 'wal_level', 'max_wal_size',
										 'checkpoint_timeout', 'maintenance_work_mem')),
			('vacuum and planning', of_server('autovacuum', 'autovacuum_naptime', 'jit')),
		]
		for name, options in self.bench.sets():
			self.machine.append(('set "%s"' % name, '`%s`, one commit takes %.2f ms' % (
				options or 'commit_delay = 0', commit_latency(server, options))))

	def row(self, section, what, figure, target='–', outcome=SHOWN, conditions='', detail=''):
		"""One line of the table of verdicts."""
		self.verdicts.append((section, what, conditions, figure, target, outcome, detail))

	def ratio_row(self, section, what, spread, target=None, conditions='', detail=''):
		"""A line for a ratio that has to reach its target."""
		self.row(section, what, spread.text(), '≥ %.2f' % target if target else '–',
				 verdict(spread.median >= target) if target else SHOWN, conditions, detail)

	def failed(self, section, error):
		text = ' '.join(str(error).split())[:300].replace('|', '\\|')
		self.row(section, 'could not be measured', '–', outcome=FAILED, detail=text)

	def sample(self, section, conditions, what, variant, number, unit, value):
		self.samples.append((section, conditions, what, variant, number, unit, value))

	def comparison(self, section, conditions, what, comparison, unit, title,
				   figure=lambda sample: sample.rate):
		"""Keeps every sample of a comparison as a raw number."""
		for variant in comparison.samples:
			for number, value in enumerate(comparison.figures(variant, figure), 1):
				self.sample(section, conditions, what, title.get(variant, variant), number, unit,
							round(value, 4))

	def table(self, title, text, columns, rows):
		self.sections.append((title, text, columns, rows))

	def plot(self, file, title):
		self.plots.append((file, title))

	def took(self, section, seconds):
		self.times.append((section, seconds))

	def write(self, seconds):
		"""Called after each row, so that an interrupted run leaves what it has."""
		with open(os.path.join(self.directory, 'samples.csv'), 'w', newline='') as file:
			writer = csv.writer(file, lineterminator='\n')
			writer.writerow(('row', 'conditions', 'what', 'variant', 'round', 'unit', 'value'))
			writer.writerows(self.samples)
		with open(os.path.join(self.directory, 'verdicts.csv'), 'w', newline='') as file:
			writer = csv.writer(file, lineterminator='\n')
			writer.writerow(('row', 'what', 'conditions', 'figure', 'target', 'verdict', 'detail'))
			writer.writerows(self.verdicts)
		with open(os.path.join(self.directory, 'README.md'), 'w') as page:
			page.write(self.page(seconds))

	def page(self, seconds):
		lines = ['# Benchmark report', '']
		lines += ['%s by `make bench%s` in %.0f minutes %02.0f seconds.' % (
			datetime.datetime.now(datetime.timezone.utc).strftime('Measured on %Y-%m-%d'),
			'-quick' if self.bench.quick else '', seconds // 60, seconds % 60), '']
		lines += ['[How to run it, and how to read this](../README.md). Raw numbers: '
				  '[samples.csv](samples.csv), [verdicts.csv](verdicts.csv).', '']
		lines += markdown(('', 'machine and settings'), self.machine)
		lines += ['Load generator and server share the cores, so from two clients on the processor '
				  'is what limits every row that does not wait for a flush: figures are ratios between '
				  'variants on the same processor, and say nothing about how many messages a larger '
				  'machine carries.', '']
		counts = {}
		for line in self.verdicts:
			counts[line[5]] = counts.get(line[5], 0) + 1
		lines += ['## Verdicts', '', ', '.join('%d %s' % (counts[key], key.strip('*')) for key in
											   (MET, MISSED, SHOWN, SKIPPED, FAILED) if key in counts)
				  + '.', '']
		lines += ['A ratio is the median over the rounds of the ratio within each round, with the '
				  'lowest and the highest in brackets.', '']
		lines += markdown(('row', 'what', 'conditions', 'figure', 'target', 'verdict', ''), self.verdicts)
		for file, title in self.plots:
			lines += ['![%s](%s)' % (title, file), '']
		for title, text, columns, rows in self.sections:
			lines += ['## ' + title, '']
			if text:
				lines += [text, '']
			lines += markdown(columns, rows)
		lines += ['## Time taken', '']
		lines += markdown(('row', 'seconds'), [(name, '%.0f' % took) for name, took in self.times])
		return '\n'.join(lines).rstrip('\n') + '\n'


def markdown(columns, rows):
	lines = ['| ' + ' | '.join(columns) + ' |', '|' + ' --- |' * len(columns)]
	lines += ['| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows]
	return lines + ['']


def of_os_release():
	try:
		return platform.freedesktop_os_release()['PRETTY_NAME']
	except (OSError, KeyError):
		return platform.system()


def commit_latency(server, options):
	"""Milliseconds that a commit of one session takes: the median of some."""
	timings = server.query('postgres', '''
		CREATE TABLE commits (t timestamptz);
		CREATE PROCEDURE commit_often() LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1 .. 101 LOOP
				INSERT INTO commits VALUES (clock_timestamp());
				COMMIT;
			END LOOP;
		END $$;
		CALL commit_often();
		SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d) * 1000)
		FROM (SELECT t - lag(t) OVER (ORDER BY t) AS d FROM commits) AS gaps;
		DROP PROCEDURE commit_often;
		DROP TABLE commits;''', options)
	return float(timings[0][0])

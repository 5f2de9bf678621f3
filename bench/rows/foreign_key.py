"""What an ordinary foreign key from messages to their queue would cost.

Its check locks the queue's row (FOR KEY SHARE) once per message: one hot row
for all producers, whose lockers become multixacts.  queue_state checks the
reference itself.  Measured where nothing else is counted.
"""

from harness import compare, databases, load, server
from harness.databases import UNCOUNTED

SECTION = 'foreign_key'
WITH, WITHOUT = 'foreign_key', 'no_foreign_key'
TITLE = {WITH: 'with foreign key check', WITHOUT: 'without'}
# what, script, clients
KINDS = (
	('single enqueue', 'enqueue', (16, 64)),
	('100-row enqueue', 'enqueue_batch', (16,)),
)


def run(bench, report):
	for variant in (WITHOUT, WITH):
		databases.create(bench, variant, UNCOUNTED)
	trigger = server.value(WITH, '''
		SELECT tgname FROM pg_trigger
		WHERE tgrelid = 'queue_state.queue_message'::regclass
			AND tgfoid = '"RI_FKey_check_ins"()'::regprocedure''')
	server.query(WITH, 'ALTER TABLE queue_state.queue_message ENABLE TRIGGER "%s"' % trigger)
	for conditions, options in bench.sets()[:1]:
		rows = []
		for what, script, full in bench.choose(KINDS, KINDS[1:]):
			for clients in bench.choose(full, (16,)):
				for variant in (WITHOUT, WITH):
					databases.empty(variant)
				before = multixacts()
				comparison = compare.interleave(
					(WITHOUT, WITH), bench.rounds,
					lambda variant: load.run(bench, variant, script, clients, 1, options))
				made = multixacts() - before
				title = '%s, %d clients' % (what, clients)
				report.comparison(SECTION, conditions, title, comparison, 'transactions/s', TITLE)
				report.ratio_row(SECTION, title + ', with against without',
								 comparison.ratio(WITH, WITHOUT), None, conditions,
								 '%.2f multixacts per transaction' % (made / max(comparison.total(WITH), 1)))
				for variant in (WITHOUT, WITH):
					rows.append((title, TITLE[variant], comparison.spread(variant).text(0)))
		report.table('Foreign key, ' + conditions, '', ('what', 'variant', 'transactions/s'), rows)
	for variant in (WITHOUT, WITH):
		databases.drop(variant)


def multixacts():
	"""How many there have been; a checkpoint writes the number down."""
	return int(server.value('postgres', """CHECKPOINT;
		SELECT next_multixact_id FROM pg_control_checkpoint()"""))

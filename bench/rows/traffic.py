"""WAL bytes and dead row versions of one message through its life: enqueued,
claimed, acknowledged."""

from harness import databases, load, server
from harness.databases import COUNTED, STATEMENT_END, TITLE, UNCOUNTED

SECTION = 'traffic'
VARIANTS = (COUNTED, UNCOUNTED, STATEMENT_END)
TABLES = ('queue_message', 'queue_priority_state_shard', 'queue_priority_state_pending')


def run(bench, report):
	rows, bytes_per_message = [], {}
	for clients in bench.choose((1, 16), (16,)):
		for variant in VARIANTS:
			databases.create(bench, variant)
			for table in TABLES:
				# vacuum would write WAL of its own, and remove what is to be counted
				server.query(variant, 'ALTER TABLE queue_state.%s SET (autovacuum_enabled = off)' % table)
			databases.top_up(variant, 2000)
			conditions = 'no flush, %d client%s' % (clients, 's' if clients > 1 else '')
			life(bench, variant, clients)
			before = state(variant)
			messages = life(bench, variant, clients)
			after = state(variant)
			change = [(b - a) / messages for a, b in zip(before, after)]
			bytes_per_message[clients, variant] = change[0]
			report.sample(SECTION, conditions, 'life of a message', TITLE[variant], 1, 'WAL bytes',
						  round(change[0], 1))
			rows.append((conditions, TITLE[variant], '%.0f' % change[0], '%.1f' % change[1],
						 '%.3f' % change[2]) + tuple('%.2f' % versions for versions in change[3:]))
			databases.check(variant)
			databases.drop(variant)
		report.row(SECTION, 'WAL bytes per message, against no triggers',
				   '%.0f against %.0f (%.2f)' % (
					   bytes_per_message[clients, COUNTED], bytes_per_message[clients, UNCOUNTED],
					   bytes_per_message[clients, COUNTED] / bytes_per_message[clients, UNCOUNTED]),
				   conditions=conditions)
	report.table('WAL and dead rows through the life of a message',
				 'Versions that died, by table: every update and every deletion leaves one. HOT: the '
				 'share of the updates of shard rows that touched no index and whose dead versions need '
				 'no vacuum.',
				 ('conditions', 'variant', 'WAL bytes', 'WAL records', 'page images',
				  'dead in queue_message', 'dead shard rows', 'of them HOT', 'dead pending rows'), rows)


def life(bench, variant, clients):
	"""How many messages lived."""
	return load.run(bench, variant, 'mixed', clients, 1, '-c synchronous_commit=off', cycle=3,
					variables=('step=2',)).total / 3


def state(variant):
	"""WAL bytes, records and page images; dead versions by table, HOT ones."""
	return [float(cell) for cell in server.query(variant, '''
		SELECT pg_stat_force_next_flush();
		SELECT pg_current_wal_insert_lsn() - '0/0', w.wal_records, w.wal_fpi,
			   m.n_tup_upd + m.n_tup_del, s.n_tup_upd + s.n_tup_del, s.n_tup_hot_upd,
			   p.n_tup_upd + p.n_tup_del
		FROM pg_stat_wal AS w, pg_stat_user_tables AS m, pg_stat_user_tables AS s,
			 pg_stat_user_tables AS p
		WHERE m.relid = 'queue_state.queue_message'::regclass
			AND s.relid = 'queue_state.queue_priority_state_shard'::regclass
			AND p.relid = 'queue_state.queue_priority_state_pending'::regclass''')[-1]]

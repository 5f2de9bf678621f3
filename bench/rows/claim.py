"""What a claim costs as dead row versions pile up: nothing is vacuumed, and an
old snapshot keeps it from being so.

One consumer works through the queue.  At each power of ten it claims single
messages for two seconds, so that the full look it takes once a second is in
the mean.  The server says what each claim took, in time and in pages.
"""

import json

from harness import databases, server
from harness.databases import COUNTED
from harness.report import verdict
from harness.statistics import median, percentile
from rows.backlog import power

SECTION = 'claim'
DATABASE = 'claim'
LIMIT = 1.5


def run(bench, report):
	most = bench.choose(10**6, 10**4)
	databases.create(bench, DATABASE, COUNTED)
	server.query(DATABASE, '''
		ALTER TABLE queue_state.queue_message SET (autovacuum_enabled = off);
		ALTER TABLE queue_state.queue_priority_state_shard SET (autovacuum_enabled = off);
		ALTER TABLE queue_state.queue_priority_state_pending SET (autovacuum_enabled = off);
		CREATE PROCEDURE bench.deliver(count bigint) LANGUAGE plpgsql AS $$
		DECLARE
			ids uuid[];
			handles uuid[];
		BEGIN
			WHILE count > 0 LOOP
				SELECT array_agg(id), array_agg(receipt_handle) INTO ids, handles
				FROM queue_state.dequeue('bench', least(count, 1000)::integer);
				PERFORM queue_state.acknowledge_batch(ids, handles);
				COMMIT;
				count := count - cardinality(ids);
			END LOOP;
		END $$;
		CREATE PROCEDURE bench.claim(seconds float8, INOUT claims jsonb) LANGUAGE plpgsql AS $$
		DECLARE
			stop timestamptz := clock_timestamp() + seconds * interval '1 second';
			plan json;
			result jsonb[];
		BEGIN
			LOOP
				EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM queue_state.dequeue(''bench'')'
				INTO plan;
				COMMIT;
				result := result || jsonb_build_array(
					plan->0->'Execution Time',
					(plan->0->'Plan'->>'Shared Hit Blocks')::bigint
					+ (plan->0->'Plan'->>'Shared Read Blocks')::bigint);
				EXIT WHEN clock_timestamp() >= stop;
			END LOOP;
			claims := to_jsonb(result);
		END $$;
		SELECT bench.fill(%d);''' % (most + 100000),
		'-c synchronous_commit=off')
	server.query(DATABASE, 'VACUUM ANALYZE queue_state.queue_message')
	holder = bench.keep(server.Session(DATABASE))
	holder.run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue_state.queue')
	consumer = bench.keep(server.Session(DATABASE, '-c synchronous_commit=off'))
	rows, means = [], {}
	delivered = 0
	stages = [0] + [10**exponent for exponent in range(3, len(str(most)))]
	for stage in stages:
		consumer.run('CALL bench.deliver(%d)' % max(stage - delivered, 0))
		claims = claim(consumer, 2)
		fresh = bench.keep(server.Session(DATABASE, '-c synchronous_commit=off'))
		first = claim(fresh, 0.0001)[0]
		delivered = max(stage, delivered) + len(claims) + 1
		milliseconds = [took for took, _ in claims]
		pages = [touched for _, touched in claims]
		means[stage] = (sum(milliseconds) / len(claims), sum(pages) / len(claims),
						median(milliseconds), median(pages))
		name = power(stage) if stage else '0'
		for unit, values in (('ms', milliseconds), ('pages', pages)):
			report.sample(SECTION, name + ' deliveries', 'one claim, mean', 'dequeue', 1, unit,
						  round(sum(values) / len(values), 4))
		rows.append((name, len(claims), '%.3f' % means[stage][2], '%.3f' % means[stage][0],
					 '%.3f' % percentile(milliseconds, 99), '%.2f' % max(milliseconds),
					 '%.1f' % means[stage][3], '%.1f' % means[stage][1], '%d' % max(pages),
					 '%.2f' % first[0], first[1]))
	for position, unit in ((0, 'mean time'), (1, 'mean pages'), (2, 'median time'),
						   (3, 'median pages')):
		worst = max(means[stage][position] / means[0][position] for stage in stages[1:])
		report.row(SECTION, '%s of a claim after 10^3 to %s deliveries against the first' % (
			unit, power(most)), '%.2f' % worst, '≤ %.2f' % LIMIT, verdict(worst <= LIMIT),
			'no vacuum, an old snapshot')
	report.table('Claims without vacuum',
				 'Single claims of one session for two seconds at each stage, and the first claim of a '
				 'new session, which looks from the beginning.',
				 ('deliveries before', 'claims', 'median ms', 'mean ms', 'p99 ms', 'longest ms',
				  'median pages', 'mean pages', 'most pages', 'new session ms', 'its pages'), rows)
	bench.end_sessions()
	databases.check(DATABASE, COUNTED)
	databases.drop(DATABASE)


def claim(session, seconds):
	"""[milliseconds, pages] of each claim."""
	return json.loads(session.run('CALL bench.claim(%f, NULL)' % seconds)[0][0])

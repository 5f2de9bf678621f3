#-------------------------------------------------------------------------
#
# claiming.pl
#	  What dequeue() holds to among many sessions and over a large backlog:
#	  never more than asked for, never a message twice, nothing lost, and a
#	  cost that sees neither leases nor expired nor dead rows.
#
# A prepared transaction stands for a session that keeps something open: row
# locks, leases not yet committed, or the horizon that vacuum must respect.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $node = queue_node('main', conf => q{
max_connections = 100
max_prepared_transactions = 5
autovacuum = off
});
my $scripts = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($text) = @_;
	return $node->safe_psql('postgres', $text);
}

# Runs the SCRIPT with pgbench; one test: no client met an error.
sub many_sessions
{
	my ($name, $script, @options) = @_;
	my $file = "$scripts/script.sql";

	append_to_file($file, '');
	open my $handle, '>', $file or die "$file: $!";
	print $handle $script;
	close $handle;
	$node->command_ok([ 'pgbench', '-n', '-f', $file, @options, 'postgres' ], $name);
}

sql(q{
	CREATE TABLE claimed (call bigint, wanted int, id uuid, receipt_handle uuid);
	CREATE SEQUENCE call;

	-- what a claim of the test is written down by
	CREATE FUNCTION claim(queue text, wanted int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO claimed SELECT c.call, wanted, d.id, d.receipt_handle
			FROM (SELECT nextval('call') AS call OFFSET 0) c, queue_state.dequeue(queue, wanted) d
	$$;

	-- pages that the statement touched
	CREATE FUNCTION pages(query text) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		plan	json;
	BEGIN
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
		RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint
			+ (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
	END $$;

	-- the median over several deliveries of one session
	CREATE PROCEDURE delivery_pages(queue text, deliveries int, INOUT median bigint) LANGUAGE plpgsql AS $$
	DECLARE
		used	bigint[];
	BEGIN
		FOR i IN 1 .. deliveries LOOP
			used := used || pages(format('SELECT queue_state.acknowledge(id, receipt_handle)
				FROM queue_state.dequeue(%L)', queue));
			COMMIT;
		END LOOP;
		SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY u) INTO median FROM unnest(used) u;
	END $$;

	SELECT queue_state.create_queue(q, visibility_timeout => '1 hour', max_delivery_attempts => 100)
		FROM unnest('{busy,given_back,locked,short,late,plain,leased,expired,acknowledged}'::text[]) q;
});

# Never more than asked for, never twice, whatever the planner has forgotten.
{
	sql(q{
		SELECT count(*) FROM queue_state.enqueue_batch('busy',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 3000) i));
		DELETE FROM pg_statistic WHERE starelid = 'queue_state.queue_message'::regclass;
		UPDATE pg_class SET reltuples = -1, relpages = 0
			WHERE oid = 'queue_state.queue_message'::regclass;
		SELECT pg_stat_reset_single_table_counters('queue_state.queue_message'::regclass);
	});
	many_sessions('20 sessions claim five each, without statistics',
		"SELECT claim('busy', 5);\n", '-c', 20, '-t', 15);
	many_sessions('64 sessions claim the rest',
		"SELECT claim('busy', 7);\n", '-c', 64, '-t', 10);
	is(sql('SELECT count(*), count(DISTINCT id) FROM claimed'), '3000|3000',
		'each message is claimed once');
	is(sql('SELECT count(*) FROM (SELECT FROM claimed GROUP BY call, wanted
			HAVING count(*) > wanted) more'), '0', 'no call gets more than it asked for');
	ok(poll_until(sub {
			sql(q{SELECT idx_scan > 0 FROM pg_stat_user_tables
				WHERE relname = 'queue_message'}) eq 't' }), 'the activity is recorded');
	is(sql(q{SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'queue_message'}), '0',
		'the table is never scanned');

	# Everybody acknowledges the same leases, in any order.
	sql('CREATE TABLE acknowledged (n bigint)');
	many_sessions('16 sessions acknowledge overlapping batches', q{
		INSERT INTO acknowledged
			SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle))
			FROM (SELECT * FROM claimed ORDER BY random() LIMIT 200) c;
		}, '-c', 16, '-t', 20);
	sql('INSERT INTO acknowledged
			SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) FROM claimed');
	is(sql('SELECT sum(n) FROM acknowledged'), '3000', 'and each lease is acknowledged once');
	verify_is_exact($node, 'exact after many claims');
}

# A lease that is rolled back is delivered to somebody else.
{
	sql(q{
		TRUNCATE claimed;
		SELECT count(*) FROM queue_state.enqueue_batch('given_back',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 1000) i));
		BEGIN;
		SELECT count(*) FROM queue_state.dequeue('given_back', 100);
		PREPARE TRANSACTION 'holder';
	});
	# half of them roll back what they claim
	many_sessions('sessions that roll back among others', q{
		\set refuse random(0, 1)
		BEGIN;
		SELECT claim('given_back', 10);
		\if :refuse
		ROLLBACK;
		\else
		COMMIT;
		\endif
		}, '-c', 8, '-t', 40);
	sql("ROLLBACK PREPARED 'holder'");
	ok(poll_until(sub {
			sql("SELECT claim('given_back', 100)");
			sql('SELECT count(*) FROM claimed') eq '1000' }),
		'everything given back is delivered in the end');
	is(sql('SELECT count(DISTINCT id) FROM claimed'), '1000', 'once');
	verify_is_exact($node, 'exact after rollbacks');
}

# Rows that others have locked are passed over.
{
	sql(q{
		TRUNCATE claimed;
		SELECT count(*) FROM queue_state.enqueue_batch('locked',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 10) i));
		BEGIN;
		SELECT count(*) FROM (SELECT FROM queue_state.queue_message m JOIN queue_state.queue USING (queue_id)
			WHERE name = 'locked' AND payload <= '6' FOR UPDATE OF m) l;
		PREPARE TRANSACTION 'locker';
	});
	is(sql(q{SELECT string_agg(payload::text, ' ') FROM queue_state.dequeue('locked', 3)}), '7 8 9',
		'the first rows that are free');
	is(sql(q{SELECT string_agg(payload::text, ' ') FROM queue_state.dequeue('locked', 3)}), '10',
		'no more than there are');
	sql("COMMIT PREPARED 'locker'");
	is(sql(q{SELECT string_agg(payload::text, ' ') FROM queue_state.dequeue('locked', 10)}),
		'1 2 3 4 5 6', 'and the rest when it is free');
}

# Short leases, most of them left to elapse: no lease of a message begins while
# an earlier one lasts, at any isolation level.
{
	sql(q{
		CREATE TABLE lease (id uuid, attempt int, taken timestamptz, until timestamptz,
			PRIMARY KEY (id, attempt));
		SELECT count(*) FROM queue_state.enqueue_batch('short',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 60) i));
	});
	my $script = q{
		\set outcome random(1, 5)
		BEGIN ISOLATION LEVEL %s;
		WITH d AS (SELECT * FROM queue_state.dequeue('short', 4, '1 second')),
			kept AS (INSERT INTO lease
				SELECT id, delivery_attempts, lease_expires_at - interval '1 second', lease_expires_at FROM d)
		SELECT CASE :outcome WHEN 1 THEN queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) END
			FROM d;
		\if :outcome = 2
		ROLLBACK;
		\else
		COMMIT;
		\endif
	};
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
	{
		many_sessions("12 sessions, $level, let leases elapse", sprintf($script, $level),
			'-c', 12, '-T', 3);
	}
	cmp_ok(sql('SELECT count(*) FROM lease WHERE attempt > 1'), '>', 0, 'messages are delivered again');
	is(sql(q{
		SELECT count(*) FROM (SELECT taken, lag(until) OVER (PARTITION BY id ORDER BY attempt) AS earlier
			FROM lease) l WHERE taken < earlier}), '0', 'and never within a lease');
	verify_is_exact($node, 'exact after many short leases');
}

# A message committed late, behind what a busy session has delivered since, is
# found although there is always enough in front of it.
{
	sql(q{
		BEGIN;
		SELECT queue_state.enqueue('late', '"late"');
		PREPARE TRANSACTION 'producer';
	});
	my ($status, $out, $err) = $node->psql('postgres', q{
		SELECT count(*) FROM queue_state.enqueue_batch('late',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 20) i));
		SELECT count(*) FROM queue_state.dequeue('late', 10);
		COMMIT PREPARED 'producer';
		DO $$
		DECLARE
			until	timestamptz := clock_timestamp() + interval '1 minute';
			got		jsonb;
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM queue_state.enqueue('late', '"new"');
				SELECT payload INTO STRICT got FROM queue_state.dequeue('late');
				COMMIT;
				IF got = '"late"' THEN
					RETURN;
				END IF;
			END LOOP;
			RAISE EXCEPTION 'the late message was never delivered';
		END $$;
	});
	is("$status:$err", '0:', 'a message committed late is delivered among newer ones');
}

# What one delivery touches, in pages, next to a queue without a past.
{
	my $rows = 100_000;

	sql(q{
		SELECT count(*) FROM queue_state.enqueue_batch('plain',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 1000) i));
	});
	my $plain = sql("CALL delivery_pages('plain', 100, NULL)");

	sql(qq{
		SELECT count(*) FROM queue_state.enqueue_batch('leased',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, $rows) i));
		SELECT count(*) FROM (SELECT queue_state.dequeue('leased', 10000)
			FROM generate_series(1, $rows / 10000)) d;
		SELECT count(*) FROM queue_state.enqueue_batch('leased',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 200) i));
	});
	my $leased = sql("CALL delivery_pages('leased', 100, NULL)");
	cmp_ok($leased, '<', 2 * $plain, "$rows live leases cost nothing ($leased pages, $plain without)");

	sql(qq{
		INSERT INTO queue_state.queue_message (queue_id, payload, expires_at)
			SELECT queue_id, to_jsonb(i), clock_timestamp() - interval '1 second'
			FROM queue_state.queue, generate_series(1, $rows) i WHERE name = 'expired';
		SELECT count(*) FROM queue_state.enqueue_batch('expired',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 200) i));
	});
	my $expired = sql("CALL delivery_pages('expired', 100, NULL)");
	cmp_ok($expired, '<', 2 * $plain, "$rows expired messages cost nothing ($expired pages, $plain without)");

	sql(qq{
		SELECT count(*) FROM queue_state.enqueue_batch('acknowledged',
			ARRAY(SELECT to_jsonb(i) FROM generate_series(1, $rows + 200) i));
		BEGIN;
		CREATE TABLE horizon ();
		PREPARE TRANSACTION 'old';
	});
	sql(qq{
		DO \$\$
		BEGIN
			FOR i IN 1 .. $rows / 10000 LOOP
				PERFORM queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle))
					FROM queue_state.dequeue('acknowledged', 10000);
				COMMIT;
			END LOOP;
		END \$\$;
		VACUUM queue_state.queue_message;
	});
	cmp_ok(sql(qq{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'queue_message'}), '>=', $rows,
		'vacuum cannot remove what an old transaction may see');
	my $dead = sql("CALL delivery_pages('acknowledged', 100, NULL)");
	cmp_ok($dead, '<', 2 * $plain, "$rows dead rows cost nothing ($dead pages, $plain without)");

	# Looking back, once a second, does not meet them again, and yet finds what
	# was held when the session passed it.
	sql(q{
		BEGIN;
		SELECT queue_state.enqueue('acknowledged', '"late"');
		PREPARE TRANSACTION 'producer';
	});
	sql(q{
		BEGIN;
		SELECT count(*) FROM queue_state.dequeue('acknowledged');
		PREPARE TRANSACTION 'consumer';
	});
	my ($status, $out, $err) = $node->psql('postgres', q{
		CREATE TEMPORARY TABLE got (payload jsonb);
		CREATE TEMPORARY TABLE used (pages bigint);
		SELECT count(*) FROM queue_state.enqueue_batch('acknowledged',
			ARRAY(SELECT '"new"'::jsonb FROM generate_series(1, 20)));
		SELECT pages($q$
			INSERT INTO got SELECT payload FROM queue_state.dequeue('acknowledged', 110)$q$);
		COMMIT PREPARED 'producer';
		ROLLBACK PREPARED 'consumer';
		DO $$
		DECLARE
			until	timestamptz := clock_timestamp() + interval '4 seconds';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM queue_state.enqueue('acknowledged', '"new"');
				INSERT INTO used SELECT pages($q$
					INSERT INTO got SELECT payload FROM queue_state.dequeue('acknowledged')$q$);
				COMMIT;
			END LOOP;
		END $$;
		SELECT count(*) FILTER (WHERE payload = '"late"'), count(*) FILTER (WHERE payload <> '"new"')
			FROM got;
		SELECT max(pages) FROM used;
	});
	is("$status:$err", '0:', 'a session that looks back');
	like($out, qr/\n1\|101\n/, 'finds a late commit and a lease that was rolled back');
	my ($first, $most) = $out =~ /^20\n(\d+)\n.*\n(\d+)$/s;
	cmp_ok($most, '<', $first / 4,
		"and does not look at the dead rows again ($first pages the first time, then at most $most)");
	sql("ROLLBACK PREPARED 'old'");
	verify_is_exact($node, 'exact after all');
}

done_testing();

#-------------------------------------------------------------------------
#
# counters_concurrent.pl
#	  The counters under concurrent writers: exact in every snapshot, and in
#	  nobody's way.
#
# QS_TEST_SECONDS says how long each load lasts (10).
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{QS_TEST_SECONDS} || 10;
my $node = queue_node(
	'counters', conf => qq(
fsync = off
max_connections = 60
deadlock_timeout = 100ms
autovacuum_naptime = 1s
));
my $scripts = PostgreSQL::Test::Utils::tempdir;

# pgbench script FILE, one for each operation
sub script
{
	my ($name, $text) = @_;
	append_to_file("$scripts/$name.sql", $text);
	return "$scripts/$name.sql";
}

# start_pgbench(OPTION ...): a harness; finish_pgbench() returns its output.
my %output;

sub start_pgbench
{
	my ($name, @options) = @_;
	my $out = '';
	my $harness = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--time', $seconds,
			'--host', $node->host, '--port', $node->port, @options, 'postgres'
		],
		'<', \undef, '&>', \$output{$name});
	return $harness;
}

# Every client goes on to the end only if none of its transactions fails.
sub finish_pgbench
{
	my ($name, $harness) = @_;
	$harness->finish;
	my $good = $harness->result(0) == 0 && $output{$name} !~ /aborted|ERROR/;
	ok($good, "$name: no client had an error");
	diag($output{$name}) unless $good;
	my ($transactions) = $output{$name} =~ /actually processed: (\d+)/;
	return $transactions || 0;
}

sub deadlocks
{
	return $node->safe_psql('postgres',
		"SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'");
}

# Three queues: one is kept almost empty, so that its counters keep coming
# close to zero.
$node->safe_psql(
	'postgres', q{
SELECT queue_state.create_queue(name, retry_delay => '0 seconds') FROM unnest(ARRAY['full', 'hungry', 'moving']) name;
SELECT queue_state.enqueue_batch('full', array_agg(to_jsonb(n))) FROM generate_series(1, 2000) n;
CREATE TABLE check_result (drift text);
-- One call, one snapshot, whatever is written meanwhile.
CREATE PROCEDURE check_all(seconds integer, OUT snapshots bigint) LANGUAGE plpgsql AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + seconds * interval '1 second';
BEGIN
	snapshots := 0;
	WHILE clock_timestamp() < deadline LOOP
		COMMIT;
		SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
		INSERT INTO check_result SELECT 'verify ' || v::text FROM queue_state.verify() v;
		-- the same without verify()
		INSERT INTO check_result
			SELECT 'count ' || coalesce(p.queue_id, m.queue_id) || ' ' || coalesce(p.priority, m.priority)
				|| ' ' || p.counts || ' ' || m.counts
			FROM (SELECT queue_id, priority, (ready, in_flight, delayed)::text AS counts
				  FROM queue_state.physical_state() WHERE (ready, in_flight, delayed) <> (0, 0, 0)) p
			FULL JOIN (SELECT queue_id, priority,
							  (count(*) FILTER (WHERE state = 'READY'), count(*) FILTER (WHERE state = 'IN_FLIGHT'),
							   count(*) FILTER (WHERE state = 'DELAYED'))::text AS counts
					   FROM queue_state.queue_message GROUP BY queue_id, priority) m
				USING (queue_id, priority)
			WHERE p.counts IS DISTINCT FROM m.counts;
		-- never negative, whatever time does
		PERFORM count(*) FROM queue_state.snapshot();
		snapshots := snapshots + 1;
	END LOOP;
END $$;
});

# Every operation; each script is one transaction, some of them roll back.
my %operation = (
	produce => q{SELECT queue_state.enqueue('full', '1', (ARRAY['LOW', 'MEDIUM', 'HIGH'])[1 + :client_id % 3]::queue_state.message_priority);},
	produce_batch => q{SELECT count(*) FROM queue_state.enqueue_batch('moving', ARRAY['1', '2', '3', '4', '5']::jsonb[]);},
	consume => q{WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('full', 3, '1 second')) SELECT queue_state.acknowledge(d.id, d.receipt_handle) FROM d;},
	lose => q{SELECT count(*) FROM queue_state.dequeue('full', 2, '1 second');},
	nack => q{WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('full', 2)) SELECT queue_state.nack(d.id, d.receipt_handle) FROM d;},
	reject => q{WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('full', 1)) SELECT queue_state.reject(d.id, d.receipt_handle) FROM d;},
	hungry_in => q{SELECT queue_state.enqueue('hungry', '1');},
	hungry_out => q{WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('hungry', 10)) SELECT queue_state.acknowledge(d.id, d.receipt_handle) FROM d;},
	rollback => q{BEGIN;
SELECT queue_state.enqueue('full', '1');
SELECT count(*) FROM queue_state.dequeue('hungry', 3);
ROLLBACK;},
	savepoint => q{BEGIN;
SELECT queue_state.enqueue('full', '1');
SAVEPOINT a;
SELECT queue_state.enqueue('moving', '1', 'HIGH');
SAVEPOINT b;
SELECT queue_state.enqueue('hungry', '1');
ROLLBACK TO SAVEPOINT a;
SELECT queue_state.enqueue('hungry', '1', 'LOW');
RELEASE SAVEPOINT a;
COMMIT;},
	insert => q{INSERT INTO queue_state.queue_message (queue_id, state, expires_at)
	SELECT q.queue_id, 'DELAYED', clock_timestamp() + interval '1 second' FROM queue_state.queue q WHERE q.name = 'moving';},
	# Rows are chosen with SKIP LOCKED: waiting for each other would be theirs.
	update => q{\set n random(0, 1)
WITH picked AS MATERIALIZED (SELECT id FROM queue_state.queue_message WHERE state <> 'IN_FLIGHT' LIMIT 4 FOR UPDATE SKIP LOCKED)
UPDATE queue_state.queue_message m SET
	priority = (ARRAY['LOW', 'MEDIUM', 'HIGH'])[1 + (random() * 2)::integer]::queue_state.message_priority,
	state = CASE WHEN random() < 0.5 THEN 'READY' ELSE 'DELAYED' END::queue_state.message_state,
	queue_id = (SELECT q.queue_id FROM queue_state.queue q WHERE q.name = CASE :n WHEN 0 THEN 'full' ELSE 'moving' END)
	FROM picked WHERE m.id = picked.id;},
	delete => q{WITH picked AS MATERIALIZED (SELECT id FROM queue_state.queue_message WHERE queue_id = (SELECT q.queue_id FROM queue_state.queue q WHERE q.name = 'moving') LIMIT 6 FOR UPDATE SKIP LOCKED)
DELETE FROM queue_state.queue_message m USING picked WHERE m.id = picked.id;},
	# Each client has ids of its own.
	upsert => q{\set n random(0, 50)
INSERT INTO queue_state.queue_message (id, queue_id)
	SELECT ('00000000-0000-4000-' || lpad(to_hex(:client_id), 4, '0') || '-' || lpad(to_hex(n), 12, '0'))::uuid, q.queue_id
	FROM queue_state.queue q, generate_series(:n, :n + 3) n WHERE q.name = 'moving'
	ON CONFLICT (id) DO UPDATE SET priority = CASE queue_message.priority WHEN 'LOW' THEN 'HIGH' ELSE 'LOW' END::queue_state.message_priority;},
	merge => q{\set n random(0, 50)
MERGE INTO queue_state.queue_message m
	USING (SELECT ('00000000-0000-4001-' || lpad(to_hex(:client_id), 4, '0') || '-' || lpad(to_hex(n), 12, '0'))::uuid AS id, q.queue_id, n
		   FROM queue_state.queue q, generate_series(:n, :n + 3) n WHERE q.name = 'hungry') s ON m.id = s.id
	WHEN MATCHED AND s.n % 2 = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET state = 'DELAYED', available_after = clock_timestamp()
	WHEN NOT MATCHED THEN INSERT (id, queue_id) VALUES (s.id, s.queue_id);},
	expire => q{SELECT count(*) FROM queue_state.expire_messages(20);},
	dead => q{SELECT queue_state.dead_letter_exhausted(20);},
	redrive => q{SELECT queue_state.redrive_dead_letters('full', 2);},
	purge_dead => q{SELECT count(*) FROM queue_state.purge_dead_letters('0 seconds', 1);},
	fold => q{SELECT queue_state.fold_pending();},
);
my %weight = (produce => 20, consume => 20, hungry_in => 15, hungry_out => 15, savepoint => 10);
my @files;
foreach my $name (sort keys %operation)
{
	my $file = script($name, $operation{$name} . "\n");
	push @files, '--file', "$file@" . ($weight{$name} || 4);
}

# Eight writers do everything; two readers check snapshot after snapshot.
{
	my $writers = start_pgbench('every operation', '--client', 8, '--jobs', 1, @files);
	my @checked = ('', '');
	my @readers = map {
		IPC::Run::start(
			[
				'psql', '-X', '-A', '-t', '-v', 'ON_ERROR_STOP=1',
				'-d', $node->connstr('postgres'), '-c', "CALL check_all($seconds, NULL)"
			],
			'<', \undef, '>', \$checked[$_], '2>', \$output{"reader $_"})
	} 0, 1;
	foreach my $reader (0, 1)
	{
		$readers[$reader]->finish;
		is($output{"reader $reader"} || '', '', "reader $reader had no error");
		cmp_ok($checked[$reader], '>', 5, "reader $reader checked several snapshots");
	}
	cmp_ok(finish_pgbench('every operation', $writers), '>', 100, 'the writers wrote');
	is($node->safe_psql('postgres', 'SELECT string_agg(DISTINCT drift, chr(10)) FROM check_result'),
		'', 'the rollup was the count in each of ' . join(' and ', map { $_ + 0 } @checked) . ' snapshots');
	verify_is_exact($node, 'every operation: the rollup is exact');
	is(deadlocks(), 0, 'every operation: no deadlock');
	is($node->safe_psql('postgres', q{
SELECT count(*) FROM queue_state.snapshot()
	WHERE enqueued_total < 0 OR delivered_total < acknowledged_total}),
		0, 'no more acknowledgements than deliveries');
	note($node->safe_psql('postgres', q{
SELECT sum(enqueued_total) || ' enqueued, ' || sum(delivered_total) || ' delivered, ' || sum(acknowledged_total) || ' acknowledged, '
	|| sum(expired_never_delivered_total + expired_previously_delivered_total) || ' expired, ' || sum(dead_lettered_total) || ' dead-lettered'
	FROM queue_state.snapshot()}));
}

# Without any folder, pending rows stay few.
{
	my $pending = $node->safe_psql('postgres', 'SELECT count(*) FROM queue_state.queue_priority_state_pending');
	cmp_ok($pending, '<', 10000, "pending rows stay bounded ($pending)");
	ok(poll_until(sub {
		$node->safe_psql('postgres', 'SELECT queue_state.fold_pending()');
		return $node->safe_psql('postgres', 'SELECT count(*) FROM queue_state.queue_priority_state_pending') == 0;
	}), 'and an idle system soon has none');
	verify_is_exact($node, 'the fold: the rollup is exact');
}

# Sixteen clients, five enqueues a transaction, at each isolation level.
# pgbench gives a client up at its first error, and it does not retry: so "no
# error" says no deadlock and no serialization failure.
my $five = script('five', "BEGIN;\n" . ("SELECT queue_state.enqueue('five', '1');\n" x 5) . "COMMIT;\n");
foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	$node->safe_psql('postgres', "SELECT queue_state.create_queue('five')");
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . ($level =~ s/ /\\ /r);
	my $clients = start_pgbench($level, '--client', 16, '--jobs', 1, '--file', $five);
	my $transactions = finish_pgbench($level, $clients);
	delete $ENV{PGOPTIONS};
	cmp_ok($transactions, '>', 50, "$level: $transactions transactions");
	is($node->safe_psql('postgres', q{SELECT sum(enqueued_total) FROM queue_state.snapshot() WHERE queue_name = 'five'}),
		5 * $transactions, "$level: every enqueue was counted once");
	is($node->safe_psql('postgres', q{SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'five'}),
		5 * $transactions, "$level: every message was counted once");
	verify_is_exact($node, "$level: the rollup is exact");
	is(deadlocks(), 0, "$level: no deadlock");
	$node->safe_psql('postgres', "SELECT queue_state.drop_queue('five', true)");
}

verify_is_exact($node);
$node->stop;
done_testing();

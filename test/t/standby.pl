#-------------------------------------------------------------------------
#
# standby.pl
#	  A hot standby reads the state and cannot change it; after its promotion
#	  everything goes on where the primary stopped.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IPC::Run;
use MixedMessages;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "max_prepared_transactions = 5\n");
$primary->start;
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# CREATE EXTENSION and all messages arrive by replication.
$primary->safe_psql('postgres', 'CREATE EXTENSION queue_state');
mix_messages($primary, 'postgres');

# Pending rows on the way, too: two transactions that change one shard.
$primary->safe_psql('postgres', <<'END_OF_SQL');
BEGIN;
INSERT INTO queue_state.queue_message (id, queue_id) SELECT '00000000-0000-4000-8000-000000000001', queue_id
	FROM queue_state.queue WHERE name = 'quiet';
PREPARE TRANSACTION 'busy';
INSERT INTO queue_state.queue_message (id, queue_id) SELECT '00000000-0000-4000-8000-000000000101', queue_id
	FROM queue_state.queue WHERE name = 'quiet';
COMMIT PREPARED 'busy';
END_OF_SQL
is($primary->safe_psql('postgres', 'SELECT count(*) > 0 FROM queue_state.queue_priority_state_pending'),
	't', 'there are pending rows');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

# Reading

is_deeply(
	queue_contents($standby, 'postgres'),
	queue_contents($primary, 'postgres'),
	'the standby has the same rows and the same physical state');
verify_is_exact($standby, 'verify() works on the standby, and is empty');
foreach my $what (
	'* FROM queue_state.logical_state()',
	'queue_name, priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog, dead_letters, '
	. 'enqueued_total, delivered_total, acknowledged_total, dead_lettered_total FROM queue_state.snapshot()')
{
	my ($function) = $what =~ /(\w+\(\))$/;
	is($standby->safe_psql('postgres', "SELECT $what"),
		$primary->safe_psql('postgres', "SELECT $what"),
		"$function answers alike on both");
}
foreach my $level ('REPEATABLE READ', 'READ COMMITTED')
{
	is( $standby->safe_psql(
			'postgres', "BEGIN ISOLATION LEVEL $level; SELECT count(*) > 0 FROM queue_state.snapshot(); COMMIT"),
		't',
		"snapshot() works in $level");
}

# Writing

my %refused = (
	'queue_state.fold_pending()' => 'folding',
	'queue_state.rebuild()' => 'rebuilding',
	'queue_state.rebuild(\'orders\')' => 'rebuilding a queue',
	'queue_state.enqueue(\'orders\', \'1\')' => 'enqueueing',
	'count(*) FROM queue_state.dequeue(\'orders\')' => 'dequeueing',
	'queue_state.expire_messages()' => 'expiring',);
foreach my $call (sort keys %refused)
{
	my ($status, $out, $err) =
	  $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	like($err, qr/ERROR:  25006: cannot execute /, "$refused{$call} is refused with 25006");
}

# A load on the primary, read on the standby all the while: exact each time.

$primary->safe_psql('postgres', "SELECT queue_state.create_queue(name) FROM unnest(ARRAY['mail', 'reports']) AS name");
my $load_output = '';
my $load = IPC::Run::start(
	[
		'pgbench', '--no-vacuum', '--client=4', '--time=600',
		(map { ('--file', "$FindBin::Bin/../../scripts/load/$_.sql") } qw(produce_batch consume_batch)),
		'--host' => $primary->host,
		'--port' => $primary->port,
		'postgres'
	],
	'<', \undef, '>', \$load_output, '2>&1');
my $inexact = 0;
my $readings = 0;
my $last_total = -1;
poll_until(
	sub {
		my $drift = $standby->safe_psql('postgres', 'SELECT count(*) FROM queue_state.verify()');
		my $total = $standby->safe_psql('postgres',
			'SELECT sum(enqueued_total) FROM queue_state.snapshot()');
		$inexact++ if $drift;
		# only readings that saw something new count
		$readings++ if $total > $last_total;
		$last_total = $total;
		return $readings >= 20;
	}) or die 'nothing arrives on the standby';
is($inexact, 0, 'exact in 20 snapshots under load');

# Promotion

# whatever the primary has committed by now survives the change
my $committed = $primary->safe_psql('postgres',
	'SELECT sum(enqueued_total) FROM queue_state.snapshot()');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop('immediate');
$load->finish;
$standby->promote;

verify_is_exact($standby, 'exact after promotion');
cmp_ok(
	$standby->safe_psql('postgres', 'SELECT sum(enqueued_total) FROM queue_state.snapshot()'),
	'>=', $committed, 'the event totals go on');
$standby->safe_psql(
	'postgres', <<'END_OF_SQL');
SELECT queue_state.create_queue('new');
SELECT count(queue_state.enqueue('new', '1')) FROM generate_series(1, 100);
SELECT count(queue_state.acknowledge(id, receipt_handle)) FROM queue_state.dequeue('new', 60);
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.dead_letter_exhausted();
END_OF_SQL
is( $standby->safe_psql(
		'postgres',
		"SELECT ready, acknowledged_total FROM queue_state.snapshot() WHERE queue_name = 'new' AND priority = 'MEDIUM'"),
	'40|60',
	'the promoted server takes messages and counts them');
ok( poll_until(
		sub {
			$standby->safe_psql('postgres', 'VACUUM queue_state.queue_priority_state_shard');
			$standby->safe_psql('postgres', 'SELECT queue_state.fold_pending()');
			return $standby->safe_psql('postgres',
				'SELECT count(*) = 0 FROM queue_state.queue_priority_state_pending') eq 't';
		}),
	'it folds what the primary left');
is($standby->safe_psql('postgres', 'SELECT queue_state.rebuild()'), '0', 'rebuild() has nothing to correct');
verify_is_exact($standby);

done_testing();

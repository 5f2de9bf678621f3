#-------------------------------------------------------------------------
#
# crash.pl
#	  Kills the server with SIGKILL under full load, several times.  After each
#	  recovery the rollup is exact and no event total is lower than one that a
#	  client had seen committed.
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

# A crash that keeps the operating system alive loses nothing that reached the
# kernel, so fsync, which the test framework turns off, makes no difference.
my $node = queue_node('main', conf => <<'END_OF_CONF');
max_connections = 40
max_prepared_transactions = 5
autovacuum_naptime = 1s
END_OF_CONF
mix_messages($node, 'postgres');

# The load of `make run`, from which no kind of call is missing, on the queues
# that it expects.
$node->safe_psql('postgres',
	"SELECT queue_state.create_queue('$_', visibility_timeout => '1 second', max_delivery_attempts => 2)")
  foreach qw(mail reports);
my $load = "$FindBin::Bin/../../scripts/load";
my @scripts = map { ('--file', "$load/$_.sql") } qw(
  produce produce_batch produce_short_lived produce_delayed
  consume consume_batch consume_and_vanish consume_and_give_back
  consume_and_reject look_after_dead_letters);

# A prepared transaction survives every crash, and is counted when it commits.
$node->safe_psql('postgres', <<'END_OF_SQL');
BEGIN;
SELECT count(queue_state.enqueue('quiet', to_jsonb(n))) FROM generate_series(1, 100) AS n;
PREPARE TRANSACTION 'survivor';
END_OF_SQL

# What one client saw in each total, in the order of event_totals()
my @seen = (0) x 8;
my $readings = 0;

# True if no total is lower than before; remembers them.
sub totals_have_not_fallen
{
	my @now = split /,/, event_totals($node, 'postgres');
	my $fallen = grep { $now[$_] < $seen[$_] } 0 .. $#seen;
	@seen = @now;
	$readings++;
	return !$fallen && @now == 8;
}

foreach my $round (1 .. 4)
{
	my $output = '';
	my $pgbench = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--client=12', '--time=600', @scripts,
			'--host' => $node->host,
			'--port' => $node->port,
			'postgres'
		],
		'<', \undef, '>', \$output, '2>&1');

	my $enqueued_before = $seen[0];
	my $rising = 1;
	# the crash comes at a different place in the checkpoint cycle each time
	$node->safe_psql('postgres', 'CHECKPOINT') if $round % 2 == 0;
	poll_until(
		sub {
			$rising &&= totals_have_not_fallen();
			$node->safe_psql('postgres', 'SELECT queue_state.fold_pending()')
			  if $readings % 5 == 0;
			return $seen[0] > $enqueued_before + 500;
		}) or die 'the load does nothing: ' . $output;
	ok($rising, "round $round: totals only rise under load");

	$node->kill9;
	$pgbench->finish;
	unlike($output, qr/ERROR/, "round $round: the load met no error but the crash");

	# The backends find out for themselves; until the last one has, no server
	# starts on their shared memory.
	poll_until(
		sub {
			return 1 if $node->start(fail_ok => 1);
			$node->stop('immediate', fail_ok => 1);
			return 0;
		}) or die 'the server does not start';
	ok(totals_have_not_fallen(), "round $round: no total fell");
	verify_is_exact($node, "round $round: exact after recovery");
}

$node->safe_psql('postgres', "COMMIT PREPARED 'survivor'");
is( $node->safe_psql(
		'postgres',
		"SELECT sum(ready), sum(enqueued_total) FROM queue_state.snapshot() WHERE queue_name = 'quiet'"),
	'100|100',
	'what was prepared before the first crash is counted');
verify_is_exact($node);

# VACUUM makes room for them where earlier versions of the rows fill the page,
# as soon as no snapshot, autovacuum's included, needs those any more.
ok( poll_until(
		sub {
			$node->safe_psql('postgres', 'VACUUM queue_state.queue_priority_state_shard');
			$node->safe_psql('postgres', 'SELECT queue_state.fold_pending()');
			return $node->safe_psql('postgres',
				'SELECT count(*) = 0 FROM queue_state.queue_priority_state_pending') eq 't';
		}),
	'all pending rows fold after the crashes');
verify_is_exact($node, 'exact after folding');

done_testing();

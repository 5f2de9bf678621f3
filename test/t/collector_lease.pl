#-------------------------------------------------------------------------
#
# collector_lease.pl
#	  Whatever happens to the leader of two collectors, the other one takes
#	  over in bounded time and there are never two exporters.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use CollectorPair;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;
use Time::HiRes qw(sleep time);

my $clean = $CollectorPair::clean_bound;
my $lock_holders = q{
	SELECT count(*) FROM pg_locks
	WHERE locktype = 'advisory' AND classid = x'72657473'::int8 AND objid = x'71537461'::int8
		AND objsubid = 2 AND granted};

my $node = queue_node('main');
$node->safe_psql('postgres', q{
	SELECT queue_state.create_queue('mail');
	SELECT count(*) FROM queue_state.enqueue_batch('mail', array_fill('{}'::jsonb, ARRAY[10]))});

my $pair = CollectorPair->new($node);
$pair->wait_for_leader;
is($node->safe_psql('postgres', $lock_holders), '1', 'one session holds the lease');

# Ends of the leader's process

$pair->expect_takeover('SIGTERM', $clean, sub { $pair->leader->signal('TERM'); 0 });
is($pair->standby->wait_for_exit(10), 0, 'it ended with status 0');
like($pair->standby->log_text, qr/no longer the leader.*reason=shutdown/, 'and said why it no longer leads');
$pair->start($pair->{standby});

$pair->expect_takeover('SIGKILL', $clean, sub { $pair->leader->signal('KILL'); 0 });
$pair->standby->wait_for_exit(10);
$pair->start($pair->{standby});

# A frozen process: the fence is in the request handler, and the server frees
# the lock because the session is silent.

my ($begun, @answers) = $pair->expect_takeover(
	'SIGSTOP beyond the fence',
	$CollectorPair::partition_bound,
	sub { $pair->leader->signal('STOP'); 0 });
my $frozen = $pair->{standby};
$pair->watch;
my $thawed = time;
$pair->standby->signal('CONT');
ok(poll_until(sub { defined CollectorPair::exports($pair->standby) }, 10), 'SIGCONT: it answers again');
sleep(0.3);
@answers = grep { $_->{who} eq $frozen && $_->{answered} > $thawed } $pair->watched;
ok(scalar @answers, 'SIGCONT: answers were seen');
is($answers[0]{exports}, 0, "SIGCONT: the very first answer is a standby's");
is(scalar(grep { $_->{exports} } @answers), 0, 'SIGCONT: and so are all others');
ok( poll_until(sub { $pair->standby->log_text =~ /no longer the leader/ }, 10),
	'SIGCONT: it has noticed');

# The session

sub leader_pid
{
	return $node->safe_psql('postgres', q{
		SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND classid = x'72657473'::int8 AND objid = x'71537461'::int8});
}

my ($killed_at, @after) = $pair->expect_takeover(
	'pg_terminate_backend', $clean,
	sub {
		my $pid = leader_pid();
		my $at = time;
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		return $at;
	});
{
	my @late = grep { $_->{who} eq $pair->{standby} && $_->{exports} && $_->{sent} > $killed_at + 1 } @after;
	is(scalar @late, 0, 'the series were gone within a second');
}
ok(poll_until(sub { $pair->standby->metrics->{'queue_state_collector_lease_losses_total{reason="connection"}'} == 1 }),
	'the loss is counted as one of the connection');
is($pair->standby->is_running, 1, 'losing the lease is no reason to end');
ok(poll_until(sub { $pair->standby->metrics->{queue_state_collector_database_up} == 1 }),
	'and it is connected again');

# The lock released behind the leader's back: a function that it calls does it.

$node->safe_psql('postgres', q{
	CREATE TABLE release_once (pid int);
	ALTER FUNCTION queue_state.fold_pending(bigint) RENAME TO fold_pending_really;
	CREATE FUNCTION queue_state.fold_pending(max_rows bigint) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		DELETE FROM public.release_once;
		IF FOUND THEN
			PERFORM pg_catalog.pg_advisory_unlock(1919251571, 1901294689);
		END IF;
		RETURN 0;
	END $$});
$pair->expect_takeover(
	'lock released behind its back',
	# it is noticed by the next poll, at the latest an interval later
	$clean + 0.5,
	sub {
		my $at = time;
		$node->safe_psql('postgres', 'INSERT INTO release_once VALUES (1)');
		return $at;
	});
ok( poll_until(sub {
		my $metrics = $pair->standby->metrics;
		return $metrics->{'queue_state_collector_lease_losses_total{reason="lock"}'} +
		  $metrics->{'queue_state_collector_lease_losses_total{reason="connection"}'} >= 1;
	}), 'the leader has noticed, by itself or because the new one ended its session');

# Alone it has to notice by itself; then it may lead again.
is($pair->standby->stop, 0, 'the standby ends');
my $alone = $pair->leader;
$node->safe_psql('postgres', 'INSERT INTO release_once VALUES (1)');
ok(poll_until(sub { $alone->metrics->{'queue_state_collector_lease_losses_total{reason="lock"}'} == 1 }),
	'a leader without rival notices the loss of its lock');
ok(poll_until(sub { CollectorPair::exports($alone) }), 'and takes the lease again');
$node->safe_psql('postgres', q{
	DROP FUNCTION queue_state.fold_pending(bigint);
	ALTER FUNCTION queue_state.fold_pending_really(bigint) RENAME TO fold_pending;
	DROP TABLE release_once});

# A hundred polls, then a step down: the lock was taken once, so it is free.

is($alone->stop, 0, 'the leader ends');
my $busy = start_collector($node, 'busy', @CollectorPair::short,
	'--collector.interval=100ms');
ok(poll_until(sub { $busy->metrics->{queue_state_collections_total} >= 100 }, 60), '100 polls');
is($node->safe_psql('postgres', $lock_holders), '1', 'the lease is held');
is($busy->stop, 0, 'it steps down');
ok( poll_until(sub { $node->safe_psql('postgres', $lock_holders) eq '0' }, 10),
	'the lock is free');
is($node->safe_psql('postgres', 'SELECT pg_try_advisory_lock(1919251571, 1901294689)'),
	't', 'and can be taken');

# A freeze shorter than the fence: the lock is confirmed before anything is
# served again, and the lease goes on.
{
	my @flags = (@CollectorPair::short, '--lease.fence=20s', '--lease.server-ttl=30s');
	my $frozen = start_collector($node, 'frozen', @flags);
	ok(poll_until(sub { CollectorPair::exports($frozen) }, 30), 'short freeze: leads');
	$frozen->signal('STOP');
	sleep(2.5);
	$frozen->signal('CONT');
	ok(poll_until(sub { CollectorPair::exports($frozen) }, 30), 'short freeze: exports again');
	my $count = $frozen->metrics->{queue_state_collections_total};
	ok(poll_until(sub { $frozen->metrics->{queue_state_collections_total} >= $count + 3 }, 30),
		'short freeze: refreshes go on');
	is($frozen->metrics->{queue_state_collector_lease_acquisitions_total}, 1, 'short freeze: it is the same lease');

	# The same, and its session is ended meanwhile: the first answers after the
	# thaw already are a standby's.
	my $other = start_collector($node, 'other', @flags);
	ok(poll_until(sub { $other->log_text =~ /standing by/ }, 30), 'freeze and terminate: there is a standby');
	my $both = bless { node => $node, first => $frozen, second => $other,
		leader => 'first', standby => 'second' }, 'CollectorPair';
	$both->expect_takeover(
		'freeze and terminate', $clean + 3,
		sub {
			my $pid = leader_pid();
			$frozen->signal('STOP');
			sleep(2.5);
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
			poll_until(sub { CollectorPair::exports($other) }, 20);
			$frozen->signal('CONT');
			return 0;
		});
	is($_->stop, 0, 'it ends') foreach $frozen, $other;
}

verify_is_exact($node);
done_testing();

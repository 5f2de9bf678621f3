#-------------------------------------------------------------------------
#
# collector_maintenance.pl
#	  The leader expires, dead-letters, purges and forgets in bounded batches,
#	  and never lets a refresh wait for that.
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

my $node = queue_node('main');

# 1,300 messages that expire, 1,200 whose only delivery is not acknowledged,
# 1,100 old dead letters and 1,100 remembered messages: each takes three batches.
$node->safe_psql('postgres', q{
	SELECT queue_state.create_queue('expiring');
	SELECT queue_state.create_queue('exhausting', visibility_timeout => '1 second', max_delivery_attempts => 1);
	SELECT queue_state.create_queue('rejecting');
	SELECT count(*) FROM queue_state.enqueue_batch('expiring', array_fill('{}'::jsonb, ARRAY[1300]),
		ttl => '1 second');
	SELECT count(*) FROM queue_state.enqueue_batch('exhausting', array_fill('{}'::jsonb, ARRAY[1200]));
	SELECT count(*) FROM queue_state.enqueue_batch('rejecting', array_fill('{}'::jsonb, ARRAY[1100]))});
$node->safe_psql('postgres', q{SELECT count(*) FROM queue_state.dequeue('exhausting', 1000)});
$node->safe_psql('postgres', q{SELECT count(*) FROM queue_state.dequeue('exhausting', 1000)});
$node->safe_psql('postgres', q{
	SELECT count(queue_state.reject(id, receipt_handle, 'bad')) FROM queue_state.dequeue('rejecting', 1000)});
$node->safe_psql('postgres', q{
	SELECT count(queue_state.reject(id, receipt_handle, 'bad')) FROM queue_state.dequeue('rejecting', 1000)});
$node->safe_psql('postgres', q{
	SELECT count(queue_state.process_once('consumer', gen_random_uuid())) FROM generate_series(1, 1100)});

my @flags = (
	'--maintenance.interval=500ms', '--maintenance.dead-letter-retention=0s',
	'--maintenance.processed-retention=0s');

my $pair = CollectorPair->new($node, \@flags);
$pair->wait_for_leader;
my ($leader, $standby) = ($pair->leader, $pair->standby);

sub rows
{
	my ($collector, $task) = @_;
	return $collector->metrics->{"queue_state_maintenance_rows_total{task=\"$task\"}"};
}

ok( poll_until(sub {
		rows($leader, 'expire_messages') >= 1300 && rows($leader, 'dead_letter_exhausted') >= 1
		  && rows($leader, 'purge_dead_letters') >= 1100 && rows($leader, 'forget_processed') >= 1100;
	}, 60), 'all four kinds of work are done')
  or diag($leader->log_text);
ok( poll_until(sub { $node->safe_psql('postgres', q{
			SELECT (SELECT count(*) FROM queue_state.queue_message)
				+ (SELECT count(*) FROM queue_state.queue_dead_letter_message)
				+ (SELECT count(*) FROM queue_state.inbox)}) eq '0' }, 60),
	'nothing is left');
is(rows($leader, 'expire_messages'), 1300, 'each expired message is counted once');
is(rows($leader, 'forget_processed'), 1100, 'each remembered message is counted once');
foreach my $task (qw(expire_messages purge_dead_letters forget_processed))
{
	cmp_ok($leader->metrics->{"queue_state_maintenance_batches_total{task=\"$task\"}"}, '>=', 3, "$task: in bounded batches");
	is($leader->metrics->{"queue_state_maintenance_failures_total{task=\"$task\"}"}, 0, "$task: without a failure");
}
like($leader->log_text, qr/msg=maintenance .*expired=1300 /, 'progress is logged, once a round');
is(rows($standby, 'expire_messages'), 0, 'the standby does none of it');
unlike($standby->log_text, qr/msg=maintenance /, 'and says nothing of it');

# Maintenance that waits for a lock gives up, and the collection goes on.

my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE queue_state.inbox IN ACCESS EXCLUSIVE MODE');
ok(poll_until(sub { $leader->metrics->{'queue_state_maintenance_failures_total{task="forget_processed"}'} >= 1 }, 30),
	'a batch that waits for a lock gives up');
my $before = $leader->metrics->{queue_state_collections_total};
ok(poll_until(sub { $leader->metrics->{queue_state_collections_total} >= $before + 4 }, 30), 'refreshes go on meanwhile');
is(CollectorPair::exports($leader), 1, 'it still leads');
is(scalar(() = $leader->log_text =~ /maintenance failed/g), 1, 'it says so once');
$locker->query_safe('COMMIT');
$locker->quit;
ok(poll_until(sub { $leader->log_text =~ /maintenance succeeds again/ }, 30), 'and once when it is over');

# The new leader takes the work over.

$pair->expect_takeover('SIGTERM', $CollectorPair::clean_bound, sub { $pair->leader->signal('TERM'); 0 });
$node->safe_psql('postgres', q{
	SELECT count(*) FROM queue_state.enqueue_batch('expiring', array_fill('{}'::jsonb, ARRAY[10]), ttl => '1 second')});
ok(poll_until(sub { rows($pair->leader, 'expire_messages') == 10 }, 30), 'the new leader maintains');
is($pair->leader->stop, 0, 'it ends');

# A batch that takes long delays no refresh.
{
	$node->safe_psql('postgres', q{
		ALTER FUNCTION queue_state.forget_processed(interval, integer) RENAME TO forget_really;
		CREATE FUNCTION queue_state.forget_processed(older_than interval, max_rows integer) RETURNS bigint
		LANGUAGE sql AS 'SELECT 0::bigint FROM pg_sleep(20)'});
	my $patient = start_collector($node, 'patient', @CollectorPair::short, @flags,
		'--database.statement-timeout=30s', '--lease.fence=40s', '--lease.server-ttl=80s');
	my $sleeping = q{
		SELECT query_start FROM pg_stat_activity
		WHERE application_name LIKE 'retsu-collector maintain%' AND wait_event = 'PgSleep'};
	ok(poll_until(sub { $node->safe_psql('postgres', $sleeping) ne '' }, 30), 'a batch takes long');
	my $since = $node->safe_psql('postgres', $sleeping);
	my $count = $patient->metrics->{queue_state_collections_total};
	ok(poll_until(sub { $patient->metrics->{queue_state_collections_total} >= $count + 4 }, 15),
		'refreshes go on');
	is($node->safe_psql('postgres', $sleeping), $since, 'while the same batch still runs');
	is($patient->stop, 0, 'a stop does not wait for it');
	ok(poll_until(sub { $node->safe_psql('postgres', $sleeping) eq '' }, 15), 'and the server gives it up');
	$node->safe_psql('postgres', q{
		DROP FUNCTION queue_state.forget_processed(interval, integer);
		ALTER FUNCTION queue_state.forget_really(interval, integer) RENAME TO forget_processed});
}

# Turned off
{
	my $idle = start_collector($node, 'idle', @CollectorPair::short, @flags, '--no-maintenance.enabled');
	$node->safe_psql('postgres', q{
		SELECT count(*) FROM queue_state.enqueue_batch('expiring', array_fill('{}'::jsonb, ARRAY[10]), ttl => '1 second')});
	ok(poll_until(sub { $idle->metrics->{queue_state_collections_total} >= 4 }, 30), 'turned off: it collects');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM queue_state.queue_message'), '10', 'turned off: nothing is removed');
	is($idle->metrics->{'queue_messages_expired_backlog{queue_name="expiring",message_priority="MEDIUM"}'}, 10,
		'turned off: the backlog shows');
	ok(poll_until(sub { ($idle->metrics->{queue_state_drift} // -1) == 0 }, 20), 'turned off: it still verifies');
	is($idle->stop, 0, 'it ends');
}

verify_is_exact($node);
done_testing();

#-------------------------------------------------------------------------
#
# collector_series.pl
#	  No series shows a value that is not true any more: a queue that was
#	  emptied has zeros, one that was dropped has none, nor has a leader that
#	  stepped down; one that was made again starts at 0.
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

my $node = queue_node('main');
my $collector = start_collector($node, 'leader', @CollectorPair::short, '--collector.interval=100ms');

sub series
{
	my ($name, $queue, $more) = @_;
	return $collector->metrics->{"$name\{queue_name=\"$queue\"" . ($more // ',message_priority="HIGH"') . '}'};
}

# Whether VALUE (undef: no such series) is what is exported, soon.
sub becomes
{
	my ($value, $what, @series) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $now;
	ok( poll_until(sub {
			$now = series(@series);
			return defined $value ? defined $now && $now == $value : !defined $now;
		}, 20), $what) or diag('it is ' . ($now // 'absent'));
	return;
}

# A message waits and one is in flight.
$node->safe_psql('postgres', q{
	SELECT queue_state.create_queue('mail');
	SELECT queue_state.create_queue('other');
	SELECT queue_state.enqueue('mail', '1', 'HIGH'), queue_state.enqueue('mail', '2', 'HIGH')});
$node->safe_psql('postgres', q{SELECT count(*) FROM queue_state.dequeue('mail')});
becomes(1, 'one waits', 'queue_messages_ready', 'mail');
becomes(1, 'one is in flight', 'queue_messages_in_flight', 'mail');
ok(poll_until(sub { series('queue_oldest_ready_message_age_seconds', 'mail') > 0.3 }, 20), 'its age grows');

# Emptied
$node->safe_psql('postgres', q{SELECT queue_state.purge_queue('mail')});
becomes(0, 'emptied: none waits', 'queue_messages_ready', 'mail');
becomes(0, 'emptied: none is in flight', 'queue_messages_in_flight', 'mail');
becomes(0, 'emptied: no age is left', 'queue_oldest_ready_message_age_seconds', 'mail');
becomes(2, 'emptied: what was enqueued stays counted', 'queue_messages_enqueued_total', 'mail');

# Dropped
$node->safe_psql('postgres', q{SELECT queue_state.drop_queue('mail')});
becomes(undef, 'dropped: gone', 'queue_messages_ready', 'mail');
unlike(($collector->get('/metrics'))[1], qr/"mail"/, 'dropped: every series of it');
becomes(0, 'dropped: the other queue stays', 'queue_messages_ready', 'other');

# Made again
$node->safe_psql('postgres', q{SELECT queue_state.create_queue('mail'); SELECT queue_state.enqueue('mail', '1', 'HIGH')});
becomes(1, 'made again: it is there', 'queue_messages_ready', 'mail');
is(series('queue_messages_enqueued_total', 'mail'), 1, 'made again: its totals start at 0');
is($collector->metrics->{queue_state_event_regressions_total}, 0, 'made again: that is no regression');

# Stepped down
$node->safe_psql('postgres', q{
	ALTER FUNCTION queue_state.snapshot() RENAME TO snapshot_really});
is($collector->wait_for_exit(20), 75, 'stepped down: ends');
my $standby = start_collector($node, 'demoted', @CollectorPair::short, '--collector.on-failure=demote');
$node->safe_psql('postgres', q{
	ALTER FUNCTION queue_state.snapshot_really() RENAME TO snapshot});
ok(poll_until(sub { CollectorPair::exports($standby) }, 20), 'stepped down: another one leads');
$node->safe_psql('postgres', q{
	ALTER FUNCTION queue_state.snapshot() RENAME TO snapshot_really});
ok(poll_until(sub { !CollectorPair::exports($standby) }, 20), 'stepped down: its series are gone');
my $body = ($standby->get('/metrics'))[1];
unlike($body, qr/queue_messages_|queue_oldest|queue_dead_letter/, 'stepped down: not a line of them');
like($body, qr/^queue_state_collector_leader 0$/m, 'stepped down: it says that it does not lead');
is($standby->stop, 0, 'it ends');
$node->safe_psql('postgres', q{
	ALTER FUNCTION queue_state.snapshot_really() RENAME TO snapshot});

verify_is_exact($node);
done_testing();

#-------------------------------------------------------------------------
#
# web_many.pl
#	  10,001 queues: the oldest 10,000 are exported, the last is counted, and the
#	  memory stays within what is promised, also while one snapshot replaces
#	  another.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $node = queue_node('main');
$node->safe_psql('postgres',
	"INSERT INTO queue_state.queue (name) SELECT 'queue-' || lpad(i::text, 6, '0') FROM generate_series(1, 10001) i"
);
$node->safe_psql('postgres',
	"SELECT count(queue_state.enqueue('queue-' || lpad(i::text, 6, '0'), '{}')) FROM generate_series(1, 10001) i"
);

# Kilobytes, by the kernel.
sub memory
{
	my ($collector, $what) = @_;
	my ($value) = slurp_file('/proc/' . $collector->pid . '/status') =~
	  /^$what:\s+(\d+) kB/m;
	return $value;
}

my @flags = ('--collector.interval=1s', '--no-maintenance.enabled');
my $leader = start_collector($node, 'leader', @flags);

# The whole is 30 MB; looking at its first lines is enough to wait for it.
sub collector_values
{
	my ($body) = @_;
	return { $body =~ /^(queue_state_\w+) (\S+)$/mg };
}
ok( poll_until(
		sub {
			my $value = collector_values(($leader->get('/metrics'))[1]);
			return defined $value->{queue_state_snapshot_queues};
		}),
	'a snapshot is exported');

my ($status, $text) = $leader->get('/metrics');
my $value = collector_values($text);
is($value->{queue_state_snapshot_queues}, 10000, '10,000 queues are exported');
is($value->{queue_state_snapshot_queues_dropped}, 1, 'one is dropped');
like($text, qr/^queue_messages_ready\{queue_name="queue-010000",message_priority="MEDIUM"\} 1$/m,
	'the last that is exported');
unlike($text, qr/queue-010001/, 'the newest is the one that is not');
my %samples;
$samples{$1}++ while $text =~ /^(queue_(?:messages|dead_letter|oldest)_\w+)\{/mg;
is_deeply(
	\%samples,
	{
		(map { $_ => 30000 } qw(
			  queue_messages_ready queue_messages_in_flight queue_messages_delayed
			  queue_messages_exhausted queue_messages_expired_backlog
			  queue_messages_elapsed_backlog queue_dead_letter_messages
			  queue_oldest_ready_message_age_seconds
			  queue_oldest_in_flight_message_age_seconds
			  queue_messages_enqueued_total)),
		(map { $_ => 10000 } qw(
			  queue_messages_delivered_total queue_messages_acknowledged_total
			  queue_messages_dead_lettered_total
			  queue_dead_letter_messages_purged_total
			  queue_dead_letter_messages_redriven_total)),
		queue_messages_expired_total => 20000
	},
	'all series of each queue are there');
my $plain_length = length $text;

# Some refreshes with readers of both kinds between them.
my $collections = $value->{queue_state_collections_total};
ok( poll_until(
		sub {
			my $plain = ($leader->get('/metrics'))[1];
			my $gzip = ($leader->get('/metrics', { 'Accept-Encoding' => 'gzip' }))[1];
			return length($gzip) < $plain_length / 5
			  && collector_values($plain)->{queue_state_collections_total} >= $collections + 5;
		}),
	'five more refreshes');

my $standby = start_collector($node, 'standby', @flags);
ok(poll_until(sub { ($standby->get('/health/ready'))[0] == 200 }), 'a standby');

note sprintf 'text %.1f MB; leader %.1f MiB at most, %.1f MiB now; standby %.1f MiB at most',
  $plain_length / 1e6, memory($leader, 'VmHWM') / 1024,
  memory($leader, 'VmRSS') / 1024, memory($standby, 'VmHWM') / 1024;
cmp_ok(memory($leader, 'VmHWM'), '<=', 96 * 1024, 'the leader never took more than 96 MiB');
cmp_ok(memory($standby, 'VmHWM'), '<=', 12 * 1024, 'a standby never took more than 12 MiB');

# One goes, and the one that was left out takes its place.
$node->safe_psql('postgres', "SELECT queue_state.drop_queue('queue-000001', true)");
ok( poll_until(
		sub {
			$text = ($leader->get('/metrics'))[1];
			return $text !~ /queue-000001/;
		}),
	'a queue that was dropped is not exported any more');
like($text, qr/^queue_messages_ready\{queue_name="queue-010001",message_priority="MEDIUM"\} 1$/m,
	'the one that was left out is');
$value = collector_values($text);
is($value->{queue_state_snapshot_queues}, 10000, '10,000 queues again');
is($value->{queue_state_snapshot_queues_dropped}, 0, 'none is dropped');
is($value->{queue_state_event_regressions_total}, 0, 'no total went down');

is($standby->stop, 0, 'the standby stops in good order');

# The end while two clients have asked and taken no more than the first bytes of
# 30 MB: who reads on gets all of it, who does not holds nothing up.
my @clients;
foreach (1 .. 2)
{
	my $socket = IO::Socket::INET->new(PeerAddr => $leader->address, Timeout => 10)
	  or die "cannot connect: $!";
	syswrite($socket, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	sysread($socket, my $first, 4096);
	push @clients, [ $socket, $first ];
}
$leader->signal('TERM');
ok( poll_until(sub { !IO::Socket::INET->new(PeerAddr => $leader->address, Timeout => 10) }),
	'nobody else gets in any more');
my ($socket, $answer) = @{ $clients[0] };
1 while sysread($socket, $answer, 1 << 20, length $answer);
my ($length) = $answer =~ /^Content-Length: (\d+)\r$/m;
is(length($answer), index($answer, "\r\n\r\n") + 4 + $length,
	'an answer under way is given to its end');
is($leader->wait_for_exit, 0, 'the leader stops in good order');
verify_is_exact($node);
done_testing();

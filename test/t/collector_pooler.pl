#-------------------------------------------------------------------------
#
# collector_pooler.pl
#	  Behind PgBouncer: in transaction mode a lock has no owner, so a collector
#	  refuses to lead and says why; in session mode it may be told to.
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

my ($pgbouncer) = grep { -x $_ } map { "$_/pgbouncer" } (split(/:/, $ENV{PATH}), '/usr/sbin');
BAIL_OUT('pgbouncer is not installed') unless $pgbouncer;

my $node = queue_node('main');
$node->safe_psql('postgres', q{SELECT queue_state.create_queue('mail')});
my $user = $node->safe_psql('postgres', 'SELECT current_user');

my @poolers;

# A PgBouncer in this mode; its port.
sub start_pooler
{
	my ($mode) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $base = "$PostgreSQL::Test::Utils::tmp_check/pgbouncer_$mode";

	append_to_file("$base.txt", qq("$user" ""\n));
	append_to_file("$base.ini", join("\n",
			'[databases]',
			'postgres = host=' . $node->host . ' port=' . $node->port . " user=$user",
			'[pgbouncer]',
			'listen_addr = 127.0.0.1',
			"listen_port = $port",
			'unix_socket_dir =',
			'auth_type = trust',
			"auth_file = $base.txt",
			"logfile = $base.log",
			"pidfile = $base.pid",
			"pool_mode = $mode",
			'default_pool_size = 10',
			''));
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDOUT, '>>', "$base.out");
		open(STDERR, '>>', "$base.out");
		exec($pgbouncer, "$base.ini") or POSIX::_exit(127);
	}
	push @poolers, $pid;
	poll_until(sub { slurp_file("$base.log") =~ /listening on 127\.0\.0\.1/ }, 20)
	  or BAIL_OUT("pgbouncer does not start: " . slurp_file("$base.out"));
	return $port;
}

sub through
{
	my ($port) = @_;
	return "--database.conninfo=host=127.0.0.1 port=$port dbname=postgres user=$user";
}

# Transaction mode

my $transaction = start_pooler('transaction');
my $refusing = start_collector($node, 'refusing', @CollectorPair::short, through($transaction));
ok(poll_until(sub { $refusing->log_text =~ /cannot lead.*a connection pooler is between.*--database.allow-pooler/ }, 20),
	'transaction mode: refuses to lead, says why and what to do');
ok(poll_until(sub { $refusing->metrics->{'queue_state_collection_failures_total{reason="other"}'} >= 3 }, 20),
	'transaction mode: it keeps trying');
is(scalar(() = $refusing->log_text =~ /cannot lead/g), 1, 'transaction mode: it says so once');
is(CollectorPair::exports($refusing), 0, 'transaction mode: exports nothing');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}),
	'0', 'transaction mode: no lock was taken');
is($node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'retsu-collector leader%'}),
	'0', 'transaction mode: nobody claims to lead');
is($refusing->stop, 0, 'it ends');

# Even told to, two collectors that share server processes never both lead.

my @told = map { start_collector($node, "told_$_", @CollectorPair::short, through($transaction),
		'--database.allow-pooler') } 1 .. 2;
my $both = 0;
my $until = time + 4;
while (time < $until)
{
	my @exporting = grep { CollectorPair::exports($_) } @told;
	$both++ if @exporting == 2;
	sleep(0.02);
}
is($both, 0, 'transaction mode, told that it is safe: still never two exporters');
like($told[0]->log_text . $told[1]->log_text, qr/transaction mode/,
	'transaction mode, told that it is safe: the mistake is found out');
$_->stop foreach @told;

# Session mode

my $session = start_pooler('session');
my $pair = CollectorPair->new($node, [ through($session) ]);
ok(poll_until(sub { $pair->{first}->log_text =~ /a connection pooler is between/ }, 20),
	'session mode: refused unless it is allowed');
$_->stop foreach @{$pair}{qw(first second)};

$pair = CollectorPair->new($node, [ through($session), '--database.allow-pooler' ]);
$pair->wait_for_leader;
$pair->expect_takeover('session mode, SIGTERM', $CollectorPair::clean_bound,
	sub { $pair->leader->signal('TERM'); 0 });
$pair->standby->wait_for_exit(10);
$pair->start($pair->{standby});
$pair->expect_takeover(
	'session mode, pg_terminate_backend', $CollectorPair::clean_bound,
	sub {
		my $at = time;
		$node->safe_psql('postgres', q{
			SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted});
		return $at;
	},
	'either');
$_->stop foreach @{$pair}{qw(first second)};
ok(poll_until(sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}) eq '0' }, 20),
	'session mode: the lock is free at the end');

verify_is_exact($node);
done_testing();

END
{
	my $status = $?;
	foreach my $pid (@poolers)
	{
		kill('KILL', $pid);
		waitpid($pid, 0);
	}
	$? = $status;
}

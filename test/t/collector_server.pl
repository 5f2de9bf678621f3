#-------------------------------------------------------------------------
#
# collector_server.pl
#	  What two collectors do when the server or the way to it fails: restarts,
#	  promotion of a standby server, a link that forwards nothing more, a
#	  database that is down.
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
use TcpProxy;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nfsync = off\n");
append_to_file($node->data_dir . '/pg_hba.conf', "host all all 127.0.0.1/32 trust\n");

# The database is down when the collector starts.

my $early = start_collector($node, 'early', @CollectorPair::short);
my ($status) = $early->get('/health/ready');
is($status, 503, 'database down: not ready');
is(($early->get('/health/live'))[0], 200, 'database down: alive');
is($early->metrics->{queue_state_collector_database_up}, 0, 'database down: database_up is 0');
is(CollectorPair::exports($early), 0, "database down: the standby's view");
ok(poll_until(sub { $early->metrics->{'queue_state_collection_failures_total{reason="connection"}'} >= 3 }, 30),
	'database down: it keeps trying');
is(scalar(() = $early->log_text =~ /cannot connect to the database/g),
	1, 'database down: one line for the change of state');

$node->start;
ok(poll_until(sub { $early->metrics->{queue_state_collector_database_up} == 1 }, 60),
	'database up: connected by itself');
ok(poll_until(sub { $early->log_text =~ /msg="the database answers again"/ }, 10),
	'database up: one line for that');
ok(poll_until(sub { $early->log_text =~ /queue_state is not installed.*CREATE EXTENSION/ }, 10),
	'no extension: says so, with the fix');
is(CollectorPair::exports($early), 0, 'no extension: exports nothing');
is($early->metrics->{'queue_state_collection_failures_total{reason="schema"}'} >= 1,
	1, 'no extension: counted as a failure of the schema');
$node->safe_psql('postgres', q{
	CREATE EXTENSION queue_state;
	SELECT queue_state.create_queue('mail');
	SELECT queue_state.enqueue('mail', '{}')});
ok(poll_until(sub { CollectorPair::exports($early) }, 30), 'extension created: leads without a restart');
is($early->stop, 0, 'it ends');

# The server restarts.

my $pair = CollectorPair->new($node);
$pair->wait_for_leader;
my ($restarted) = $pair->expect_takeover(
	'pg_ctl restart -m immediate',
	# both have to reconnect: their waits grow 0.5, 1, 2 s with 20 % jitter
	$CollectorPair::clean_bound + 2.4,
	sub {
		system_or_bail('pg_ctl', '--pgdata', $node->data_dir, '--log', $node->logfile,
			'--mode', 'immediate', '--wait', 'restart');
		$node->_update_pid(1);
		return time;
	},
	'either');
is($pair->leader->is_running && $pair->standby->is_running, 1, 'both collectors live on');
is($pair->leader->stop, 0, 'the leader ends');
is($pair->standby->stop, 0, 'the standby ends');

# The leader's link forwards nothing more; the standby has another way.

my $proxy = TcpProxy->start('127.0.0.1', $node->port);
my $direct = $node->connstr('postgres');
my $through = "host=127.0.0.1 port=" . $proxy->port . " dbname=postgres user="
  . $node->safe_psql('postgres', 'SELECT current_user');
my $first = start_collector($node, 'first', @CollectorPair::short, "--database.conninfo=$through");
ok(poll_until(sub { CollectorPair::exports($first) }, 30), 'the collector behind the proxy leads');
my $second = start_collector($node, 'second', @CollectorPair::short);
my $linked = bless { node => $node, first => $first, second => $second,
	leader => 'first', standby => 'second' }, 'CollectorPair';
my ($held, @answers) = $linked->expect_takeover(
	'a link that stops forwarding', $CollectorPair::partition_bound,
	sub { $proxy->hold; 0 });
my @late = grep { $_->{who} eq 'first' && $_->{exports} && $_->{sent} > $held + 3 + 0.5 } @answers;
is(scalar @late, 0, 'the leader behind it stopped exporting at its fence');
$proxy->release;
$first->wait_for_exit(15) if $first->log_text =~ /exit_code=75/;
ok( !$first->is_running && $first->wait_for_exit == 75
	  || poll_until(sub { $first->metrics->{queue_state_collector_database_up} == 1 }, 30),
	'afterwards it has ended with status 75 or is a standby');
$first->stop if $first->is_running;
is($second->stop, 0, 'the other one ends');

# A standby server is promoted: its own locks mean nothing before.

$node->backup('base');
my $replica = PostgreSQL::Test::Cluster->new('replica');
$replica->init_from_backup($node, 'base', has_streaming => 1);
$replica->start;
my $servers = CollectorPair->new($node, [], [],
	[ '--database.conninfo=' . $replica->connstr('postgres') ]);
is($servers->wait_for_leader, $servers->{first}, 'the collector of the primary leads');
ok(poll_until(sub { $servers->standby->log_text =~ /the server is a standby server/ }, 10),
	'the collector of the standby server refuses to lead and says why');
$servers->expect_takeover(
	'promotion of a standby server', $CollectorPair::clean_bound,
	sub {
		$node->stop('immediate');
		$replica->promote;
		return time;
	});
is($servers->leader->stop, 0, 'its collector ends');
$servers->standby->stop;

verify_is_exact($replica);
done_testing();

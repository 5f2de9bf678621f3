#-------------------------------------------------------------------------
#
# collector_soak.pl
#	  Many scrapes while the database restarts and the lease changes hands,
#	  with collectors that watch their own memory and threads.
#
# Builds the collector with AddressSanitizer and UndefinedBehaviorSanitizer, and
# with ThreadSanitizer; one of each runs, and a plain one under valgrind.  Any
# report of theirs fails the test.  SOAK_SCRAPES says how many scrapes of each
# (`make soak`: 1000); meanwhile other clients scrape all of them without a pause,
# so that requests meet each other.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use CollectorPair;
use IO::Select;
use List::Util qw(min);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;
use Time::HiRes qw(sleep time);

my $scrapes = $ENV{SOAK_SCRAPES} || 60;
my $source = "$FindBin::Bin/../../collector";
my $reports = PostgreSQL::Test::Utils::tempdir();

my %build = (
	address => '-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer',
	thread => '-fsanitize=thread');
foreach my $name (sort keys %build)
{
	is(system_log('make', '--silent', '--jobs=2', '-C', $source, "BUILD=$reports/$name",
			'OPTIMIZE=-O1 -g', "SANITIZE=$build{$name}", 'all'), 0, "built with -fsanitize=$name");
}
my ($valgrind) = grep { -x $_ } map { "$_/valgrind" } split(/:/, $ENV{PATH});
BAIL_OUT('valgrind is not installed') unless $valgrind;

# start_collector() runs one program; valgrind needs arguments of its own.
my $wrapper = "$reports/valgrind.sh";
append_to_file($wrapper, join("\n",
		'#!/bin/sh',
		"exec $valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "
		  . "--log-file=$reports/report.valgrind.%p $source/retsu-collector \"\$@\"", ''));
chmod(0755, $wrapper) or die "could not change $wrapper: $!";

my $node = queue_node('main', conf => "fsync = off\n");
$node->safe_psql('postgres', q{
	SELECT queue_state.create_queue('queue' || n) FROM generate_series(1, 20) n;
	SELECT queue_state.enqueue('queue' || n, '{}') FROM generate_series(1, 20) n});

# Longer times than elsewhere: these programs are many times slower.  They stay
# when a refresh fails, so that each leads now and then.
my @flags = (
	'--collector.interval=300ms', '--database.statement-timeout=3s',
	'--lease.fence=6s', '--lease.server-ttl=12s', '--lease.retry-interval=300ms',
	'--collector.on-failure=demote', '--maintenance.interval=500ms',
	'--maintenance.verify-interval=1s', '--web.enable-openmetrics');
my %collector;
foreach my $name (qw(address thread valgrind))
{
	local $ENV{RETSU_COLLECTOR} = $name eq 'valgrind' ? $wrapper
	  : "$reports/$name/retsu-collector";
	local $ENV{ASAN_OPTIONS} = "log_path=$reports/report.address:detect_leaks=1";
	local $ENV{UBSAN_OPTIONS} = "log_path=$reports/report.undefined:print_stacktrace=1";
	local $ENV{TSAN_OPTIONS} = "log_path=$reports/report.thread:halt_on_error=0";
	$collector{$name} = start_collector($node, $name, @flags);
}

# What is asked for in turn: each format, each page, each error.
my @requests = (
	[ '/metrics' ],
	[ '/metrics', { 'Accept-Encoding' => 'gzip' } ],
	[ '/metrics', { Accept => 'application/openmetrics-text; version=1.0.0' } ],
	[ '/api/v1/snapshot' ], [ '/' ], [ '/health/ready' ], [ '/health/live' ], [ '/nowhere' ]);

# The others stop when the pipe to them is closed, also if this test dies.
my @others;
pipe(my $stop, my $going) or die "could not make a pipe: $!";
foreach my $other (0 .. 2)
{
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		close($going);
		my $select = IO::Select->new($stop);
		for (my $round = $other; !$select->can_read(0); $round++)
		{
			$_->get(@{ $requests[ $round % @requests ] }) foreach values %collector;
		}
		POSIX::_exit(0);
	}
	push @others, $pid;
}
close($stop);

my ($answers, $exports, %led) = (0, 0);
my $restarts = 0;
my $period = min(40, int($scrapes / 5 + 1));
foreach my $round (1 .. $scrapes)
{
	foreach my $name (sort keys %collector)
	{
		my ($status, $body) = $collector{$name}->get(@{ $requests[ $round % @requests ] });
		$answers++ if $status =~ /^(200|404|503)$/;
		my $exporting = CollectorPair::exports($collector{$name});
		$exports++ if $exporting;
		$led{$name}++ if $exporting;
	}
	# Now and then the server goes away, or the leader's session.
	next if $round % $period;
	if ($restarts++ % 2)
	{
		$node->restart;
	}
	else
	{
		$node->safe_psql('postgres', q{
			SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted});
	}
}
close($going);
waitpid($_, 0) foreach @others;
is($answers, $scrapes * keys %collector, 'every request was answered');
cmp_ok($exports, '>', 0, 'queue series were among the answers');
cmp_ok($restarts, '>=', 4, 'sessions were lost meanwhile');
note('exporting answers: ' . join(', ', map { "$_ " . ($led{$_} // 0) } sort keys %collector));

# Each of them leads in turn: whoever does is stopped.
while (%collector)
{
	my $leader = poll_until(
		sub { (grep { CollectorPair::exports($collector{$_}) } sort keys %collector)[0] }, 60);
	ok($leader, 'one of them leads') or last;
	is($collector{$leader}->stop, 0, "$leader: led, and ends with status 0")
	  or diag($collector{$leader}->log_text);
	delete $collector{$leader};
}

is(join('', map { slurp_file($_) } glob("$reports/report.*")), '', 'no report of a sanitizer or of valgrind');

verify_is_exact($node);
done_testing();

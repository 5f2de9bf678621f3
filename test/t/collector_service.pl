#-------------------------------------------------------------------------
#
# collector_service.pl
#	  The collector as a service: what it tells systemd, what `make install`
#	  puts where, and that its documents name every option.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use CollectorPair;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Socket;
use Test::More;
use Time::HiRes qw(sleep time);

my $root = "$FindBin::Bin/../..";
my $program = collector_program();

# The notify protocol

my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $supervisor = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "$directory/notify")
  or BAIL_OUT("could not listen: $!");
$supervisor->blocking(0);

my @messages;

# All messages so far, after CODE was true of one of them.
sub hears
{
	my ($pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $heard = poll_until(
		sub {
			while (defined $supervisor->recv(my $message, 1024))
			{
				push @messages, $message;
			}
			return scalar grep { /$pattern/ } @messages;
		},
		20);
	return ok($heard, $name) || diag(join("\n", @messages));
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
my $collector;
{
	local $ENV{NOTIFY_SOCKET} = "$directory/notify";
	local $ENV{WATCHDOG_USEC} = 4000000;
	$collector = start_collector($node, 'service', @CollectorPair::short);
}
hears(qr/^READY=1$/, 'READY=1 while the database is down');
hears(qr/^STATUS=no database: /, 'STATUS= says so');
hears(qr/^WATCHDOG=1$/, 'WATCHDOG=1 all the same: its threads live');
@messages = ();
hears(qr/^WATCHDOG=1$/, 'and again');
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION queue_state; SELECT queue_state.create_queue('mail')});
hears(qr/^STATUS=leading$/, 'STATUS= says that it leads');

# A frozen process feeds no watchdog.
$collector->signal('STOP');
sleep(0.2);
1 while defined $supervisor->recv(my $late, 1024);
@messages = ();
sleep(2.5);
while (defined $supervisor->recv(my $message, 1024)) { push @messages, $message; }
is(scalar @messages, 0, 'a frozen process says nothing');
$collector->signal('CONT');
hears(qr/^WATCHDOG=1$/, 'a thawed one does');
@messages = ();
is($collector->stop, 0, 'it ends');
hears(qr/^STOPPING=1$/, 'STOPPING=1 at the end');

# What is installed

my $destination = PostgreSQL::Test::Utils::tempdir();
is(system_log('make', '--silent', '-C', "$root/collector", 'install',
		"DESTDIR=$destination", 'prefix=/usr'), 0, 'make install with DESTDIR and prefix');
ok(-x "$destination/usr/sbin/retsu-collector", 'the program');
ok(-f "$destination/usr/share/man/man8/retsu-collector.8", 'the manual page');
my $unit = slurp_file("$destination/usr/lib/systemd/system/retsu-collector.service");
like($unit, qr{^ExecStart=/usr/sbin/retsu-collector$}m, 'the unit runs what was installed');
unlike($unit, qr/\@\w+\@/, 'and has no place left to fill');
is(system_log('make', '--silent', '-C', "$root/collector", 'uninstall',
		"DESTDIR=$destination", 'prefix=/usr'), 0, 'make uninstall');
is(`find $destination -type f`, '', 'leaves nothing behind');

# where this program and this manual page are
append_to_file("$destination/retsu-collector.service", $unit =~ s{^ExecStart=.*}{ExecStart=/bin/true}mr =~ s{^Documentation=.*}{}mr);
my ($stdout, $stderr) = run_command([ 'systemd-analyze', 'verify', "$destination/retsu-collector.service" ]);
is($stdout . $stderr, '', 'systemd-analyze verify has nothing to say');
is(system_log('promtool', 'check', 'config', "$root/deploy/prometheus/prometheus.yml"), 0,
	'promtool accepts the configuration of Prometheus');

# Documents

my ($help) = run_command([ $program, '--help' ]);
my %option = $help =~ /^  --(?:\[no-\])?([a-z.-]+)(?:=\S+)?\n.*?(?:\(default (.*)\))?\n/mg;
cmp_ok(scalar keys %option, '>', 20, 'options were found in --help');
my $guide = slurp_file("$root/docs/collector.md");
my $manual = slurp_file("$root/collector/retsu-collector.8") =~ s/\\-/-/gr;
my @missing;
foreach my $name (sort keys %option)
{
	push @missing, "docs/collector.md: $name" unless $guide =~ /^\| `--(?:\[no-\])?\Q$name\E`/m;
	push @missing, "retsu-collector.8: $name" unless $manual =~ /--(?:\[no-\])?\Q$name\E\\fR/;
	next unless defined $option{$name};
	push @missing, "docs/collector.md: default of $name"
	  unless $guide =~ /^\| `--(?:\[no-\])?\Q$name\E` \| `\Q$option{$name}\E` \|/m;
	push @missing, "retsu-collector.8: default of $name"
	  unless $manual =~ /--(?:\[no-\])?\Q$name\E\\fR.*\n(?:.*\n)?Default: \Q$option{$name}\E\./;
}
is(join("\n", @missing), '', 'guide and manual page know every option and its default');

verify_is_exact($node);
done_testing();

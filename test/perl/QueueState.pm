#-------------------------------------------------------------------------
#
# QueueState.pm
#	  What the TAP tests of this project share, on top of
#	  PostgreSQL::Test::Cluster.
#
#	use FindBin;
#	use lib "$FindBin::Bin/../perl";
#	use QueueState;
#	use PostgreSQL::Test::Utils;
#	use Test::More;
#
#	my $node = queue_node('main', conf => "max_connections = 40\n");
#	$node->safe_psql('postgres', "SELECT queue_state.create_queue('mail')");
#
#	my $collector = start_collector($node, 'first', '--collector.interval=1s');
#	my ($status, $body, $headers) = http_get($collector->address, '/health/ready');
#	my $value = $collector->metrics->{'queue_state_collector_leader'};
#
#	$collector->signal('KILL');
#	$collector->wait_for_exit;
#	ok(poll_until(sub { $other->metrics->{'queue_state_collector_leader'} }),
#		'the standby leads');
#
#	verify_is_exact($node);
#	done_testing();
#
# Run one test with `make test TESTS=test/t/NAME.pl`.
#
#-------------------------------------------------------------------------

package QueueState;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use HTTP::Tiny;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
  queue_node
  verify_is_exact
  collector_program
  start_collector
  http_get
  parse_metrics
  poll_until
);

# Long enough for a loaded machine; nothing waits this long when it works.
my $patience = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 180;

# queue_node(NAME, conf => TEXT, database => NAME)
#
# A started node with the extension in `database` (default postgres); `conf`
# is appended to postgresql.conf before the start.
sub queue_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $database = $option{database} || 'postgres';

	$node->init;
	$node->append_conf('postgresql.conf', $option{conf}) if $option{conf};
	$node->start;
	$node->safe_psql('postgres', "CREATE DATABASE $database")
	  if $database ne 'postgres';
	$node->safe_psql($database, 'CREATE EXTENSION queue_state');
	return $node;
}

# verify_is_exact(NODE [, TEST NAME [, DATABASE]])
#
# One test: queue_state.verify() finds no drift.
sub verify_is_exact
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($node, $name, $database) = @_;
	my ($status, $out, $err) = $node->psql($database || 'postgres',
		'SELECT * FROM queue_state.verify()');

	return is("$status:$out$err", '0:', $name || 'the rollup is exact');
}

# poll_until(CODE [, SECONDS])
#
# Calls CODE until it returns something true, which is returned; false if it
# never does.  An exception in CODE counts as false.
sub poll_until
{
	my ($code, $seconds) = @_;
	my $deadline = time + ($seconds || $patience);

	while (1)
	{
		my $result = eval { $code->() };
		return $result if $result;
		return if time > $deadline;
		sleep(0.02);
	}
}

# http_get(HOST:PORT, PATH [, HEADERS as hash reference])
#
# (status, body, headers).  Status 599 means that there was no answer; the
# body then says why.
sub http_get
{
	my ($address, $path, $headers) = @_;
	my $answer = HTTP::Tiny->new(timeout => 10, keep_alive => 0)
	  ->get("http://$address$path", { headers => $headers || {} });

	return ($answer->{status}, $answer->{content}, $answer->{headers});
}

# parse_metrics(TEXT)
#
# { 'name{label="value"}' => value, ... }, the keys as they stand in TEXT.
sub parse_metrics
{
	my ($text) = @_;
	my %metric;

	foreach my $line (split /\n/, $text)
	{
		next if $line =~ /^(#|$)/;
		$line =~ /^(\S+?(?:\{.*\})?) (\S+)$/
		  or die "not a sample: $line";
		die "twice: $1" if exists $metric{$1};
		$metric{$1} = $2;
	}
	return \%metric;
}

# collector_program(): the one to test, which RETSU_COLLECTOR may name.
sub collector_program
{
	return $ENV{RETSU_COLLECTOR} || "$FindBin::Bin/../../collector/retsu-collector";
}

# start_collector(NODE, NAME [, FLAG ...])
#
# A retsu-collector that reads NODE's database postgres and serves a loopback
# port of its own; returned once it listens.  Later flags win, so a test may
# give another --database.conninfo.  It is killed when the test ends.
sub start_collector
{
	my ($node, $name, @flags) = @_;

	return QueueState::Collector->start($name,
		'--database.conninfo=' . $node->connstr('postgres'), @flags);
}

package QueueState::Collector;

use File::Basename qw(basename);
use POSIX qw(WNOHANG);

my @running;

sub start
{
	my ($class, $name, @flags) = @_;
	my $program = QueueState::collector_program();
	my $self = bless {
		name => $name,
		log => "$PostgreSQL::Test::Utils::log_path/"
		  . basename($0, '.pl') . "_$name.log",
	}, $class;

	# so that an address in the log is this process'
	unlink $self->{log};

	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		# PostgreSQL::Test::Utils ignores it, and that would be inherited
		$SIG{PIPE} = 'DEFAULT';
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', $self->{log});
		open(STDERR, '>>', $self->{log});
		exec($program, '--web.listen-address=127.0.0.1:0', @flags)
		  or warn "could not execute $program: $!\n";
		POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	push @running, $self;

	$self->{address} = QueueState::poll_until(
		sub {
			die "the collector ended" unless $self->is_running;
			return $self->log_text =~ /\b(127\.0\.0\.1:[1-9]\d*)\b/ ? $1 : undef;
		},
		20)
	  or die "collector $name does not listen:\n" . $self->log_text;
	return $self;
}

sub pid { return $_[0]->{pid}; }
sub address { return $_[0]->{address}; }

# Everything it has logged so far.
sub log_text
{
	my ($self) = @_;
	return PostgreSQL::Test::Utils::slurp_file($self->{log});
}

# The status as waitpid() gives it is kept in {status} once it has ended.
sub is_running
{
	my ($self) = @_;
	return 0 if defined $self->{status};
	return 1 if waitpid($self->{pid}, WNOHANG) != $self->{pid};
	$self->{status} = $?;
	return 0;
}

sub signal
{
	my ($self, $signal) = @_;
	return $self->is_running && kill($signal, $self->{pid});
}

# The exit code, 128 + the signal that killed it, or undef if it still runs.
sub wait_for_exit
{
	my ($self, $seconds) = @_;
	QueueState::poll_until(sub { !$self->is_running }, $seconds);
	my $status = $self->{status};
	return unless defined $status;
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# SIGTERM; the exit code.
sub stop
{
	my ($self) = @_;
	$self->signal('TERM');
	return $self->wait_for_exit;
}

# As http_get().
sub get
{
	my ($self, $path, $headers) = @_;
	return QueueState::http_get($self->{address}, $path, $headers);
}

# The samples of /metrics; dies when there is no good answer.
sub metrics
{
	my ($self) = @_;
	my ($status, $body) = $self->get('/metrics');
	die "/metrics of $self->{name}: $status $body" if $status != 200;
	return QueueState::parse_metrics($body);
}

# Before the nodes are stopped: their END block is older than this one.
END
{
	my $status = $?;
	foreach my $collector (@running)
	{
		next unless $collector->is_running;
		kill('CONT', $collector->{pid});
		kill('KILL', $collector->{pid});
		$collector->wait_for_exit(10);
	}
	$? = $status;
}

1;

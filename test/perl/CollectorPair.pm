#-------------------------------------------------------------------------
#
# CollectorPair.pm
#	  Two collectors of one database, watched every 20 ms while something
#	  goes wrong with one of them.
#
#	my $pair = CollectorPair->new($node);
#	$pair->wait_for_leader;
#	$pair->leader->signal('KILL');
#	$pair->expect_takeover('SIGKILL', 2.4);
#
# The watchers are processes of their own that keep asking for /metrics, so they
# also see what happens while the test does something else.  Of each answer
# they note when it was asked for, when it came, and whether it had queue series.
#
#-------------------------------------------------------------------------

package CollectorPair;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;
use Time::HiRes qw(sleep time);

# The design's inequalities, at a tenth of its times: interval + statement
# timeout < fence < server-ttl - statement timeout.
our @short = (
	'--collector.interval=500ms', '--database.statement-timeout=1s',
	'--database.connect-timeout=1s', '--lease.fence=3s',
	'--lease.server-ttl=4500ms', '--lease.retry-interval=500ms',
	'--collector.snapshot-max-age=4500ms', '--log.level=debug');

# What these flags promise, in seconds.  A standby tries again after 1.1 x the
# retry interval at the latest and settles for 0.25 s before it exports.  When
# nobody tells the server, it frees the lock by server-ttl.  The rest is a busy
# machine's.
our $slack = 2;
our $clean_bound = 0.55 + 0.25 + $slack;
our $partition_bound = 4.5 + 0.55 + 0.25 + $slack;

# new(NODE, FLAGS for both [, [FLAGS of the first], [FLAGS of the second]])
sub new
{
	my ($class, $node, $common, $first, $second) = @_;
	my $self = bless {
		node => $node,
		common => $common || [],
		flags => { first => $first || [], second => $second || [] },
	}, $class;

	$self->start($_) foreach qw(first second);
	return $self;
}

sub start
{
	my ($self, $name) = @_;
	$self->{$name} =
	  start_collector($self->{node}, $name, @short, @{ $self->{common} },
		@{ $self->{flags}{$name} });
	return $self->{$name};
}

# What one collector answers: 1 with queue series, 0 without, undef for none.
sub exports
{
	my ($collector) = @_;
	my ($status, $body) = $collector->get('/metrics');
	return if $status != 200;
	return $body =~ /queue_messages_/ ? 1 : 0;
}

# Names the leader and the standby, once exactly one exports.
sub wait_for_leader
{
	my ($self) = @_;
	my $names = poll_until(
		sub {
			my @state = map { exports($self->{$_}) // -1 } qw(first second);
			return "@state" eq '1 0' ? [qw(first second)]
			  : "@state" eq '0 1' ? [qw(second first)]
			  : undef;
		},
		30);
	BAIL_OUT("no leader:\n" . $self->{first}->log_text . $self->{second}->log_text)
	  unless $names;
	@{$self}{qw(leader standby)} = @$names;
	return $self->leader;
}

sub leader { return $_[0]->{ $_[0]->{leader} }; }
sub standby { return $_[0]->{ $_[0]->{standby} }; }

# Starts watching; each watcher writes lines "NAME SENT ANSWERED EXPORTS".
sub watch
{
	my ($self) = @_;
	my $path = "$PostgreSQL::Test::Utils::tmp_check/watch_$$.txt";

	unlink $path;
	my @pids;
	foreach my $name (qw(first second))
	{
		my $pid = fork();
		die "could not fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			watch_one($name, $self->{$name}->address, "$path.$name");
			POSIX::_exit(0);
		}
		push @pids, $pid;
	}
	$self->{watch} = { path => $path, pids => \@pids };
	# Something must have been seen before anything happens.
	poll_until(sub { -s "$path.first" && -s "$path.second" }, 10)
	  or die 'the watcher sees nothing';
	return;
}

sub watch_one
{
	my ($name, $address, $path) = @_;
	my $stop = 0;

	local $SIG{TERM} = sub { $stop = 1 };
	open(my $out, '>', $path) or POSIX::_exit(1);
	$out->autoflush(1);
	while (!$stop)
	{
		my $sent = time;
		my $exports = ask($address);
		my $answered = time;
		printf $out "%s %.6f %.6f %s\n", $name, $sent, $answered,
		  defined $exports ? $exports : 'x';
		my $rest = 0.02 - (time - $sent);
		sleep($rest) if $rest > 0;
	}
	return;
}

# HTTP by hand: the answer is only looked at for its first queue series, and an
# answer that does not come within 200 ms (a frozen process) is none.
sub ask
{
	my ($address) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $address, Timeout => 1)
	  or return;
	my $body = '';
	my $deadline = time + 0.2;

	print $socket "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	my $select = IO::Select->new($socket);
	while (1)
	{
		my $left = $deadline - time;
		return if $left <= 0 || !$select->can_read($left);
		my $length = sysread($socket, $body, 65536, length $body);
		last unless $length;
	}
	return unless $body =~ m{^HTTP/1.1 200};
	return $body =~ /\nqueue_messages_/ ? 1 : 0;
}

# Stops watching; the answers in order of asking.
sub watched
{
	my ($self) = @_;
	my $watch = delete $self->{watch};
	my @answers;

	kill('TERM', @{ $watch->{pids} });
	waitpid($_, 0) foreach @{ $watch->{pids} };
	foreach my $name (qw(first second))
	{
		foreach my $line (split /\n/, slurp_file("$watch->{path}.$name"))
		{
			my ($who, $sent, $answered, $exports) = split / /, $line;
			next if !defined $exports || $exports eq 'x';
			push @answers,
			  { who => $who, sent => $sent, answered => $answered, exports => $exports };
		}
	}
	return sort { $a->{sent} <=> $b->{sent} } @answers;
}

# Answers with series that show two exporters: one collector exported between
# two exports of the other.  Between two answers of one exporter nobody else may
# have been one, unless the lease went to and fro, which no test here makes it do.
sub interleaved
{
	my @exports = grep { $_->{exports} } @_;
	my %first;
	my %last;
	my @found;

	foreach my $answer (@exports)
	{
		my $who = $answer->{who};
		$first{$who} = $answer
		  if !$first{$who} || $answer->{answered} < $first{$who}{answered};
		$last{$who} = $answer if !$last{$who} || $answer->{sent} > $last{$who}{sent};
	}
	foreach my $answer (@exports)
	{
		my ($other) = grep { $_ ne $answer->{who} } keys %first;
		next unless $other;
		push @found, sprintf('%s at %.3f, while %s exported from %.3f to %.3f',
			$answer->{who}, $answer->{sent}, $other,
			$first{$other}{answered}, $last{$other}{sent})
		  if $answer->{sent} > $first{$other}{answered}
		  && $answer->{answered} < $last{$other}{sent};
	}
	return @found;
}

# Runs CODE while watching and asserts that TAKER (default: the standby; or
# 'either') exports within BOUND seconds, and that there never were two
# exporters.  The time counts from the beginning of CODE, or from the time it
# returns.  Whoever exports is the leader afterwards.  Returns that time and the
# answers.
sub expect_takeover
{
	my ($self, $what, $bound, $code, $taker) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($old, $new) = @{$self}{qw(leader standby)};
	my @takers = $taker ? ($new, $old) : ($new);

	$self->watch;
	my $begun = time;
	my $returned = $code->();
	$begun = $returned if $returned && $returned > $begun;
	my $taken = poll_until(
		sub {
			my @now = grep { exports($self->{$_}) } @takers;
			return @now ? $now[0] : undef;
		},
		$bound + 10);
	# What the other one says after that is of interest, too.
	sleep(0.5);
	my @answers = $self->watched;
	$taken ||= $new;
	my ($other) = grep { $_ ne $taken } ($old, $new);

	my ($first) = grep {
		$_->{who} eq $taken && $_->{exports} && ($taken eq $new || $_->{sent} > $begun)
	} @answers;
	my @last = grep { $_->{who} eq $old && $_->{exports}
		&& ($taken eq $new || $_->{sent} < $begun) } @answers;
	my $seen = $first ? $first->{answered} - $begun : -1;

	ok($first && $seen <= $bound, "$what: the lease is taken over in time")
	  or diag($self->{$old}->log_text, $self->{$new}->log_text);
	my @double = interleaved(@answers);
	push @double, grep { $taken eq $new && $first && $_->{sent} > $first->{answered} } @last;
	is(scalar @double, 0, "$what: never two exporters") or diag(explain(\@double));
	note(sprintf('%s: takeover seen after %.2f s, bound %.2f s and %d s for a busy machine; '
			. 'the old leader last exported after %.2f s; %d answers looked at',
			$what, $seen, $bound - $slack, $slack,
			@last ? $last[-1]{answered} - $begun : 0, scalar @answers));
	@{$self}{qw(leader standby)} = ($taken, $other);
	return ($begun, @answers);
}

1;

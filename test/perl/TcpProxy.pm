#-------------------------------------------------------------------------
#
# TcpProxy.pm
#	  A TCP proxy on loopback that can stop forwarding.
#
#	my $proxy = TcpProxy->start('127.0.0.1', $node->port);
#	... "host=127.0.0.1 port=" . $proxy->port ...
#	$proxy->hold;		# both sides stay connected and hear nothing more
#	$proxy->release;
#
# To a client that is a half-open link: no byte, no end.  It differs from
# packets that are dropped in that the kernels go on acknowledging, so only
# what does not rely on TCP's own timers can end such a session.
#
#-------------------------------------------------------------------------

package TcpProxy;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();

my @running;

sub start
{
	my ($class, $host, $port) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 20,
		ReuseAddr => 1) or die "could not listen: $!";
	my $self = bless { port => $listener->sockport }, $class;

	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		forward($listener, $host, $port);
		POSIX::_exit(0);
	}
	$self->{pid} = $pid;
	push @running, $self;
	return $self;
}

sub port { return $_[0]->{port}; }
sub hold { return kill('USR1', $_[0]->{pid}); }
sub release { return kill('USR2', $_[0]->{pid}); }

# New connections are accepted while it holds, as by a kernel behind a broken
# link they would not be, and get nothing either.
sub forward
{
	my ($listener, $host, $port) = @_;
	my $hold = 0;
	my %peer;

	local $SIG{USR1} = sub { $hold = 1 };
	local $SIG{USR2} = sub { $hold = 0 };
	local $SIG{TERM} = 'DEFAULT';
	local $SIG{PIPE} = 'IGNORE';
	my $select = IO::Select->new($listener);
	while (1)
	{
		if ($hold)
		{
			select(undef, undef, undef, 0.02);
			next;
		}
		foreach my $ready ($select->can_read(0.1))
		{
			last if $hold;
			if ($ready == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::INET->new(PeerAddr => "$host:$port");
				next unless $server;
				@peer{ $client, $server } = ($server, $client);
				$select->add($client, $server);
				next;
			}
			my $peer = $peer{$ready} or next;
			my $length = sysread($ready, my $bytes, 65536);
			if ($length)
			{
				syswrite($peer, $bytes);
				next;
			}
			foreach my $end ($ready, $peer)
			{
				$select->remove($end);
				delete $peer{$end};
				close($end);
			}
		}
	}
	return;
}

END
{
	my $status = $?;
	foreach my $proxy (@running)
	{
		kill('KILL', $proxy->{pid});
		waitpid($proxy->{pid}, 0);
	}
	$? = $status;
}

1;

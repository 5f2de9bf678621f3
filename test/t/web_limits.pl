#-------------------------------------------------------------------------
#
# web_limits.pl
#	  What the HTTP service does with clients that are slow, many, wrong or
#	  hostile.  No database is needed for it, and none is there: a collector whose
#	  database is down serves all of this.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use QueueState;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(time);

sub collector
{
	my ($name, @flags) = @_;
	return QueueState::Collector->start($name,
		"--database.conninfo=host=$PostgreSQL::Test::Utils::tmp_check/no-such-server",
		@flags);
}

sub connected
{
	my ($collector, $from) = @_;
	my ($host, $port) = split /:/, $collector->address;
	return IO::Socket::INET->new(
		PeerAddr => $host,
		PeerPort => $port,
		LocalAddr => $from,
		Timeout => 10);
}

# Everything the other side sends until it closes, or until there is nothing
# more to wait for.
sub drain
{
	my ($socket, $seconds) = @_;
	my $select = IO::Select->new($socket);
	my $deadline = time + ($seconds || 20);
	my $text = '';

	while ($select->can_read($deadline - time > 0 ? $deadline - time : 0))
	{
		return $text unless sysread($socket, $text, 65536, length $text);
	}
	return;
}

# exchange(COLLECTOR, BYTES): what comes back for these bytes, to the end.
sub exchange
{
	my ($collector, $bytes) = @_;
	my $socket = connected($collector) or die "cannot connect: $!";

	local $SIG{PIPE} = 'IGNORE';
	syswrite($socket, $bytes);
	return drain($socket);
}

sub closed
{
	my ($collector, $reason) = @_;
	return $collector->metrics->{
		qq(retsu_collector_http_connections_closed_total{reason="$reason"})};
}

sub requests
{
	my ($collector, $handler, $code) = @_;
	return $collector->metrics->{
		qq(retsu_collector_http_requests_total{handler="$handler",code="$code"})};
}

my $one = collector('one', '--web.listen-address=[::1]:0');

# Addresses

my ($second) = $one->log_text =~ /(\[::1\]:[1-9]\d*)/;
ok($second, 'the second address is listened on, and its port is logged');
is((http_get($second, '/health/live'))[0], 200, 'and served');
my $taken = collector_fails('--web.listen-address=' . $one->address);
is($taken->[0], 69, 'a port that is taken: exit 69');
like($taken->[1], qr/\Q@{[$one->address]}\E/, 'and the address is named');

# The exit code and output of a collector that does not start.
sub collector_fails
{
	my @flags = @_;
	return fails(collector_program(), @flags);
}

# The same, with this limit of file descriptors, hard and soft.
sub collector_fails_with_descriptors
{
	my ($limit, @flags) = @_;
	return fails('sh', '-c', "ulimit -n $limit && exec \"\$@\"", 'sh', collector_program(), @flags);
}

sub fails
{
	my @command = @_;
	my $output = '';
	IPC::Run::run(\@command, '<', \undef, '>&', \$output, IPC::Run::timeout(30));
	return [ $? >> 8, $output ];
}

is(collector_fails('--web.listen-address=nonsense')->[0],
	78, 'an address that is none: exit 78');
my $config = "$PostgreSQL::Test::Utils::tmp_check/web.yml";
append_to_file($config, "# nothing\n");
is( collector_fails("--web.config.file=$config", '--config.check')->[0],
	0, 'a web config file that asks for nothing');
append_to_file($config, "basic_auth_users:\n  admin: secret\n");
my $refused = collector_fails("--web.config.file=$config", '--config.check');
is($refused->[0], 78, 'a web config file that asks for a password: exit 78');
like($refused->[1], qr/basic_auth_users.*not supported/, 'and what is not supported is named');
unlike($refused->[1], qr/secret/, 'without its secrets');

# 64 connections and 32 for the rest do not fit into 96, which must be more.
foreach my $check ([], ['--config.check'])
{
	$refused = collector_fails_with_descriptors(96, '--web.max-connections=64', @$check);
	is($refused->[0], 78, "@$check too few file descriptors: exit 78");
	like($refused->[1], qr/max-connections=64 needs more than 96 file descriptors.*limit is 96/,
		'and both numbers are named');
}
is( collector_fails_with_descriptors(97, '--web.max-connections=64', '--config.check')->[0],
	0, 'one more is enough');

# Pages without a database

is((($one->get('/health/live'))[0]), 200, 'alive');
is((($one->get('/livez'))[0]), 200, 'alive, by its other name');
my ($status, $body) = $one->get('/health/ready');
is($status, 503, 'not ready');
like($body, qr/database cannot be reached/, 'and why');
is((($one->get('/readyz'))[0]), 503, 'not ready, by its other name');
is((($one->get('/api/v1/snapshot'))[0]), 503, 'no snapshot');
like((($one->get('/'))[1]), qr/standby.*down/s, 'the status page');
is($one->metrics->{queue_state_collector_database_up}, 0, 'the database is down');
is($one->metrics->{queue_state_collector_leader}, 0, 'nobody leads');

# Methods and paths

foreach my $path (qw(/metrics /health/live /health/ready / /api/v1/snapshot))
{
	my $head = exchange($one, "HEAD $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	my $get = exchange($one, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	my ($head_status) = $head =~ /^HTTP\/1\.1 (\d+)/;
	my ($get_status) = $get =~ /^HTTP\/1\.1 (\d+)/;
	is($head_status, $get_status, "HEAD $path has the status of GET");
	like($head, qr/\r\n\r\n\z/, 'and no body');
	my ($length) = $head =~ /^Content-Length: (\d+)/m;
	cmp_ok($length, '>', 0, 'but the length of one');

	foreach my $method (qw(POST PUT DELETE OPTIONS PATCH TRACE))
	{
		my $answer = exchange($one,
			"$method $path HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
		like($answer, qr/^HTTP\/1\.1 405 .*^Allow: GET, HEAD\r$/ms,
			"$method $path is not allowed, and what is");
	}
}
foreach my $path (
	qw(/metric /metrics/ //metrics /METRICS /health /..%2fmetrics /api/v1/snapshot/x /favicon.ico))
{
	is(($one->get($path))[0], 404, "$path is not found");
}
is(($one->get('/metrics?name=x'))[0], 200, 'a query is ignored');
my $before;
ok( poll_until(
		sub { $before = requests($one, 'other', 404); $before == 8 }),
	'each was counted');
like(exchange($one, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
	qr/^HTTP\/1\.1 404 /, 'a method does not matter where there is no page');
ok(poll_until(sub { requests($one, 'other', 404) == $before + 1 }), 'and that is counted');

# Bodies are thrown away, and so is the rest of a pipeline never mixed up.
like( exchange(
		$one,
		"GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world"
		  . "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
	qr/^HTTP\/1\.1 200 .*alive\nHTTP\/1\.1 404 /s,
	'a body is skipped and the next request answered');
like(exchange($one, "GET /health/live HTTP/1.0\r\n\r\n"),
	qr/^HTTP\/1\.\d 200 .*alive\n\z/s,
	'HTTP/1.0 is answered and closed');

# Malformed

my $malformed = 0;
foreach my $bytes (
	"\r\n\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n",
	"\0\0\0\0\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n",
	"GET /metrics HTTP/1.1\r\n\r\n",
	"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
	"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
	"GET /" . ('a' x 100_000) . " HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n" . join('', map { "X-$_: y\r\n" } 1 .. 20_000) . "\r\n",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . ("\x7f" x 100) . "\r\n\r\n",
	join('', map { chr(($_ * 7919) % 256) } 1 .. 5000) . "\r\n\r\n")
{
	my $socket = connected($one);
	local $SIG{PIPE} = 'IGNORE';
	syswrite($socket, $bytes);
	shutdown($socket, 1);
	my $answer = drain($socket);
	$malformed++ unless defined $answer;
	is(($one->get('/health/live'))[0], 200, 'others are answered after a malformed request');
}
is($malformed, 0, 'every malformed request came to an end');
ok($one->is_running, 'and the collector lives');

# Half-closed: a client that has said all it wants to say still gets its answer.
{
	my $socket = connected($one);
	syswrite($socket, "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	shutdown($socket, 1);
	like(drain($socket), qr/alive\n\z/, 'a half-closed connection is answered');
}

# Also when it did not ask to be closed: it is not kept until it has been idle long.
{
	my $socket = connected($one);
	syswrite($socket, "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
	shutdown($socket, 1);
	like(drain($socket), qr/alive\n\z/, 'and closed, whether it asked for that or not');
}

# A head may be as long as cookies make it, and no longer.
like(exchange($one, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: " . ('a' x 8000) . "\r\n\r\n"),
	qr/^HTTP\/1\.1 200 /, 'a head of 8 kB is read');
like(exchange($one, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: " . ('a' x 32768) . "\r\n\r\n"),
	qr/^HTTP\/1\.1 431 /, 'one of 32 kB is too long');
is($one->stop, 0, 'it stops in good order');

# Limits

my $limited = collector('limited', '--web.max-connections=4', '--web.max-connections-per-ip=2');

# The test's own questions come from 127.0.0.1.
my @from2 = map { connected($limited, '127.0.0.2') } 1 .. 2;
ok(poll_until(sub { $limited->metrics->{retsu_collector_http_connections} == 3 }),
	'two connections, and the one that asks');
like(drain(connected($limited, '127.0.0.2')), qr/^HTTP\/1\.1 503 /,
	'a third from the same address is refused');
ok(poll_until(sub { closed($limited, 'address_limit') == 1 }), 'and counted');
my $keeper = connected($limited, '127.0.0.3');
ok(poll_until(sub { $limited->metrics->{retsu_collector_http_connections} == 4 }),
	'another address is served');
# Not before the connection that asked has gone: until then a fourth is refused, at once.
my $last;
poll_until(sub { !IO::Select->new($last = connected($limited, '127.0.0.3'))->can_read(1) })
  or die 'the fourth connection is refused';
ok( poll_until(
		sub {
			my $answer = drain(connected($limited, '127.0.0.4'));
			return $answer && $answer =~ /^HTTP\/1\.1 503 /;
		}),
	'when all are taken, nobody more is served');

# A connection that is kept alive and idle makes room.
syswrite($last, "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
like(read_some($last), qr/alive\n\z/, 'one is answered and kept alive');
my $newcomer;
ok( poll_until(
		sub {
			$newcomer = connected($limited, '127.0.0.4');
			syswrite($newcomer, "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
			return read_some($newcomer) =~ /^HTTP\/1\.1 200 /;
		}),
	'it makes room for a newcomer');
is(drain($last), '', 'and is closed');
close $_ foreach @from2;
ok(poll_until(sub { closed($limited, 'idle') >= 1 }), 'which is counted');
ok(poll_until(sub { closed($limited, 'connection_limit') >= 1 }), 'as was the refusal');
is($limited->stop, 0, 'it stops in good order');

# One answer of a connection that stays open.
sub read_some
{
	my ($socket) = @_;
	my $text = '';
	my $select = IO::Select->new($socket);

	while ($select->can_read(10) && sysread($socket, $text, 65536, length $text))
	{
		return $text
		  if $text =~ /^Content-Length: (\d+)\r\n(?:.*?\r\n)?\r\n(.*)/ms
		  && length($2) >= $1;
	}
	return $text;
}

# Slowloris: 60 clients that send one byte after the other and never an end.

my $slow = collector(
	'slow',
	'--web.header-timeout=3s', '--web.request-timeout=6s',
	'--web.max-connections=100', '--web.max-connections-per-ip=100');
my $begin = "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ";
my @dripping = map { connected($slow) } 1 .. 60;
syswrite($_, $begin) foreach @dripping;

# and one that has had an answer before it begins to drip
my $second_request = connected($slow);
syswrite($second_request, "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
like(read_some($second_request), qr/alive/, 'one of them was answered before');
push @dripping, $second_request;

my ($answered, $worst, $rounds) = (0, 0, 0);
my $started = time;
my $all_closed = poll_until(
	sub {
		local $SIG{PIPE} = 'IGNORE';
		syswrite($_, 'z') foreach grep { defined } @dripping;
		my $sent = time;
		$answered++ if ($slow->get('/metrics'))[0] == 200;
		$rounds++;
		$worst = time - $sent if time - $sent > $worst;
		foreach my $socket (@dripping)
		{
			undef $socket
			  if defined $socket
			  && IO::Select->new($socket)->can_read(0)
			  && !sysread($socket, my $rest, 65536);
		}
		return !grep { defined } @dripping;
	},
	60);
note(sprintf '%d drippers were closed within %.1f s; the slowest of %d good requests took %.0f ms',
	61, time - $started, $rounds, $worst * 1000);
ok($all_closed, 'every dripping connection is closed, although it never fell silent');
is($answered, $rounds, 'a good client was answered all the while');
ok(poll_until(sub { closed($slow, 'header_timeout') == 61 }), 'they are counted');

# A client that does not take its answer.
my $reluctant = connected($slow);
setsockopt($reluctant, SOL_SOCKET, SO_RCVBUF, 4096);
{
	# as many answers as it takes to fill every buffer on the way
	local $SIG{PIPE} = 'IGNORE';
	$reluctant->blocking(0);
	my $stuck = poll_until(
		sub {
			my $written = syswrite($reluctant, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" x 200);
			return !defined $written || closed($slow, 'request_timeout') > 0;
		});
	ok($stuck, 'a client that sends and never reads gets stuck');
}
ok(poll_until(sub { closed($slow, 'request_timeout') == 1 }, 60),
	'and is closed at the deadline of a request');

# An end while a client is still being answered: it may take its time, but not
# for ever.
is($slow->stop, 0, 'it stops in good order');
done_testing();

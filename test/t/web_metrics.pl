#-------------------------------------------------------------------------
#
# web_metrics.pl
#	  What /metrics and its relatives say about a real database: every value is
#	  that of snapshot(), every series is documented, and independent parsers and
#	  decoders accept all of it, for odd queue names too.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $node = queue_node('main');

# ran(NAME, [COMMAND], INPUT): its standard output; one test, that it succeeded
# and wrote nothing to standard error.
sub ran
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($name, $command, $input) = @_;
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run($command, '<', \$input, '>', \$out, '2>', \$err);

	ok($good && $err eq '', $name) or diag($err, substr($out, 0, 2000));
	return $out;
}

# The names of the families an exposition announces.
sub families
{
	my ($text) = @_;
	return [ sort($text =~ /^# TYPE (\S+) /mg) ];
}

# The series tables of docs/metrics.md: { section => [ [ name, type ], ... ] }
sub documented
{
	my %section;
	my $current;

	foreach my $line (
		split /\n/, slurp_file("$FindBin::Bin/../../docs/metrics.md"))
	{
		$current = $1 if $line =~ /^## (.*)/;
		push @{ $section{$current} }, [ $1, $2 ]
		  if $line =~ /^\| `(\w+)` \| (\w+) \|/;
	}
	return \%section;
}

# Something of everything

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

my $long_name = 'q' . 'x' x 62 . 'q';
sql("SELECT queue_state.create_queue('mail', max_delivery_attempts => 1)");
sql("SELECT queue_state.create_queue('orders')");
sql("SELECT queue_state.create_queue('$long_name')");
sql("SELECT queue_state.create_queue('a.b-c_d')");

foreach my $priority (qw(HIGH MEDIUM LOW))
{
	sql("SELECT queue_state.enqueue_batch('mail', array_fill('{}'::jsonb, ARRAY[20]), '$priority')"
	);
	sql("SELECT queue_state.enqueue('orders', '{}', '$priority', delay => '1 hour')");
}

# delivered and acknowledged, delivered and kept, rejected
sql("SELECT queue_state.acknowledge(id, receipt_handle) FROM queue_state.dequeue('mail', 7, '1 hour')"
);
sql("SELECT count(*) FROM queue_state.dequeue('mail', 5, '1 hour')");
sql("SELECT queue_state.reject(id, receipt_handle, 'bad') FROM queue_state.dequeue('mail', 6, '1 hour')"
);
sql("SELECT queue_state.redrive_dead_letters('mail', 2)");
sql("SELECT count(*) FROM queue_state.purge_dead_letters('0 seconds', 1)");

# expired: one removed, one waiting for the cleaner; and a lease that is over
sql("SELECT queue_state.enqueue('$long_name', '{}', ttl => '1 second')");
$node->poll_query_until('postgres',
	"SELECT bool_and(expires_at < clock_timestamp()) FROM queue_state.queue_message WHERE expires_at < enqueued_at + interval '1 minute'"
) or die 'nothing expires';
sql("SELECT count(*) FROM queue_state.expire_messages()");
sql("SELECT queue_state.enqueue('$long_name', '{}', ttl => '1 second')");
sql("SELECT queue_state.enqueue('$long_name', '{}', 'HIGH')");
sql("SELECT count(*) FROM queue_state.dequeue('$long_name', 1, '1 second')");
$node->poll_query_until('postgres',
	"SELECT count(*) = 2 FROM queue_state.queue_message m JOIN queue_state.queue q USING (queue_id) WHERE q.name = '$long_name' AND (expires_at < clock_timestamp() OR available_after < clock_timestamp())"
) or die 'no lease elapses';

# an exhausted one: its only attempt is over
sql("SELECT count(*) FROM queue_state.dequeue('mail', 1, '1 second')");
$node->poll_query_until('postgres',
	"SELECT sum(exhausted) = 1 FROM queue_state.snapshot()")
  or die 'nothing is exhausted';

my @flags = (
	'--collector.interval=1s', '--no-maintenance.enabled',
	'--web.enable-openmetrics');
my $leader = start_collector($node, 'leader', @flags);
my $started = sql('SELECT extract(epoch FROM clock_timestamp())');
ok( poll_until(
		sub {
			my $time =
			  $leader->metrics->{'queue_state_snapshot_timestamp_seconds'};
			return defined $time && $time > $started;
		}),
	'a snapshot is exported');

# Every value

my ($status, $text, $headers) = $leader->get('/metrics');
is($headers->{'content-type'},
	'text/plain; version=0.0.4; charset=utf-8',
	'the content type of the text format');
my $metric = parse_metrics($text);

my @columns = qw(queue_id queue_name priority ready in_flight delayed exhausted
  expired_backlog elapsed_backlog dead_letters oldest_ready_age_seconds
  oldest_in_flight_age_seconds enqueued_total delivered_total
  acknowledged_total expired_never_delivered_total
  expired_previously_delivered_total dead_lettered_total
  dead_letter_purged_total dead_letter_redriven_total);
my @rows;
foreach my $line (split /\n/,
	sql("SELECT @{[join ', ', @columns]} FROM queue_state.snapshot() ORDER BY queue_id, priority DESC"
	))
{
	my %row;
	@row{@columns} = split /\|/, $line;
	push @rows, \%row;
}
is(scalar @rows, 12, 'a row for each queue and priority');

my %gauge = (
	ready => 'queue_messages_ready',
	in_flight => 'queue_messages_in_flight',
	delayed => 'queue_messages_delayed',
	exhausted => 'queue_messages_exhausted',
	expired_backlog => 'queue_messages_expired_backlog',
	elapsed_backlog => 'queue_messages_elapsed_backlog',
	dead_letters => 'queue_dead_letter_messages',
	enqueued_total => 'queue_messages_enqueued_total');
my %age = (
	oldest_ready_age_seconds => 'queue_oldest_ready_message_age_seconds',
	oldest_in_flight_age_seconds =>
	  'queue_oldest_in_flight_message_age_seconds');
my %event = (
	delivered_total => 'queue_messages_delivered_total{%s}',
	acknowledged_total => 'queue_messages_acknowledged_total{%s}',
	dead_lettered_total => 'queue_messages_dead_lettered_total{%s}',
	dead_letter_purged_total => 'queue_dead_letter_messages_purged_total{%s}',
	dead_letter_redriven_total =>
	  'queue_dead_letter_messages_redriven_total{%s}',
	expired_never_delivered_total =>
	  'queue_messages_expired_total{%s,message_delivery_history="never_delivered"}',
	expired_previously_delivered_total =>
	  'queue_messages_expired_total{%s,message_delivery_history="previously_delivered"}'
);

my (%expected, %exported, %sum, %seen);
foreach my $row (@rows)
{
	my $queue = qq(queue_name="$row->{queue_name}");
	my $labels = qq({$queue,message_priority="$row->{priority}"});
	foreach my $column (keys %gauge)
	{
		$expected{"$gauge{$column}$labels"} = $row->{$column};
		$sum{$column} += $row->{$column};
	}
	foreach my $column (keys %event)
	{
		$expected{ sprintf($event{$column}, $queue) } += $row->{$column};
		$sum{$column} += $row->{$column};
	}
	foreach my $column (keys %age)
	{
		my $value = delete $metric->{"$age{$column}$labels"};
		ok( defined $value
			  && ($value > 0) == ($row->{$column} > 0)
			  && $value <= $row->{$column},
			"$column of $labels was that old already");
		$sum{$column} += $row->{$column};
	}
}
foreach my $name (keys %$metric)
{
	$exported{$name} = $metric->{$name}
	  if $name =~ /^queue_(messages|dead_letter|oldest)_/;
}
is_deeply(\%exported, \%expected,
	'every exported queue series has the value of snapshot(), and no other is exported');

# What would a test of zeros show?
my @zero = grep { $sum{$_} == 0 }
  grep { $_ ne 'expired_previously_delivered_total' } keys %sum;
is("@zero", '', 'every column had something to show');

is($metric->{'queue_state_collector_leader'}, 1, 'it says that it leads');
is($metric->{'queue_state_snapshot_queues'}, 4, 'and how many queues there are');
is($metric->{'queue_state_snapshot_queues_dropped'}, 0, 'with none dropped');
is($metric->{'queue_state_pending_rows'}, 0, 'and nothing left to fold');

# The catalogue

my $standby = start_collector($node, 'standby', @flags);
ok(poll_until(sub { ($standby->get('/health/ready'))[0] == 200 }),
	'the standby is ready');
my $standby_text = ($standby->get('/metrics'))[1];

my $documented = documented();
my %absent = map { $_ => 1 } qw(process_virtual_memory_max_bytes);
my @everywhere = grep { !$absent{ $_->[0] } }
  map { @{ $documented->{$_} } } 'The collector', 'The process';
my @leader_only =
  map { @{ $documented->{$_} } } 'Queue series', 'The snapshot';

# verify() runs from time to time
ok( poll_until(
		sub { defined $leader->metrics->{'queue_state_drift'} }, 60),
	'the drift is exported once verify() has run');
$text = ($leader->get('/metrics'))[1];
is_deeply(
	families($text),
	[ sort map { $_->[0] } @everywhere, @leader_only ],
	'the leader exports what docs/metrics.md lists');
is_deeply(
	families($standby_text),
	[ sort map { $_->[0] } @everywhere ],
	'a standby exports what docs/metrics.md lists for every replica');
foreach my $series (@everywhere, @leader_only)
{
	my ($name, $type) = @$series;
	$type = 'gauge' if $type eq 'info';
	like($text, qr/^# HELP $name \S.*\n# TYPE $name $type\n$name/m,
		"$name is announced as a $type before its samples");
}
unlike($standby_text, qr/queue_messages_/, 'a standby does not say queue_messages_');
is(($standby->get('/api/v1/snapshot'))[0], 503, 'a standby has no snapshot');
like(($leader->get('/'))[1], qr/leader.*\Q$long_name\E/s, 'the status page says who leads and the queues');
like(($standby->get('/'))[1], qr/standby/, 'and who does not');

ran('promtool accepts the leader', [ 'promtool', 'check', 'metrics' ], $text);
ran('promtool accepts the standby',
	[ 'promtool', 'check', 'metrics' ],
	$standby_text);

# JSON

my $json = decode_json(($leader->get('/api/v1/snapshot'))[1]);
my @json_rows;
foreach my $row (@{ $json->{rows} })
{
	push @json_rows,
	  { map { $_ => $row->{$_} } grep { !/age_seconds/ } keys %$row };
}
is_deeply(
	\@json_rows,
	[
		map {
			my $row = $_;
			+{ map { $_ => $row->{$_} } grep { !/age_seconds/ } @columns }
		} @rows
	],
	'the JSON has the rows of snapshot()');
is($json->{queues}, 4, 'and the number of queues');

# Odd names

# No name like these can be made through the functions; one that got in some
# other way must not break the exposition.
$node->safe_psql('postgres',
	"CREATE DATABASE odd ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
$node->safe_psql('odd', 'CREATE EXTENSION queue_state');
$node->safe_psql(
	'odd', q{
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN
		SELECT conname FROM pg_constraint
		WHERE conrelid = 'queue_state.queue'::regclass AND contype = 'c'
	LOOP
		EXECUTE format('ALTER TABLE queue_state.queue DROP CONSTRAINT %I', name);
	END LOOP;
END
$$;
SELECT setseed(0.5);
INSERT INTO queue_state.queue (name)
SELECT i || ' ' || string_agg(chr((array[34, 92, 10, 9, 13, 39, 44, 123, 125, 61, 35, 32, 110,
										 252, 8364, 128512, 1, 127, 8232, 65533, 133, 160])
								  [1 + floor(random() * 22)::int]), '')
FROM generate_series(1, 300) i, generate_series(1, 12) k
GROUP BY i ORDER BY i;
});
my $odd = QueueState::Collector->start('odd',
	'--database.conninfo=' . $node->connstr('odd'), @flags);
ok(poll_until(sub { ($odd->get('/metrics'))[1] =~ /^queue_messages_ready/m }),
	'odd names are exported');
my $odd_text = ($odd->get('/metrics'))[1];
my $odd_openmetrics;
($status, $odd_openmetrics, $headers) =
  $odd->get('/metrics', { 'Accept' => 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5' });
is($headers->{'content-type'},
	'application/openmetrics-text; version=1.0.0; charset=utf-8',
	'the content type of OpenMetrics');
like($odd_openmetrics, qr/\n# EOF\n\z/, 'which has an end');

# The names as they are in the database, in hexadecimal, and the samples of one
# family as an independent parser sees them.
my $names = $node->safe_psql('odd',
	"SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex'), ' ' ORDER BY queue_id) FROM queue_state.queue"
);
my $parse = <<'PYTHON';
import sys
data = sys.stdin.buffer.read()
names, text = data.split(b'\n', 1)
if sys.argv[1] == 'text':
    from prometheus_client.parser import text_string_to_metric_families as parse
else:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = list(parse(text.decode('utf-8')))
found = [s.labels['queue_name']
         for f in families if f.name == 'queue_messages_ready'
         for s in f.samples if s.labels['message_priority'] == 'LOW']
expected = [bytes.fromhex(n).decode('utf-8') for n in names.decode().split()]
if found != expected:
    for pair in zip(found, expected):
        if pair[0] != pair[1]:
            sys.exit('%r is not %r' % pair)
    sys.exit('%d names, not %d' % (len(found), len(expected)))
print(len(families))
PYTHON
foreach my $format ([ 'text', $odd_text ], [ 'openmetrics', $odd_openmetrics ])
{
	my $count = ran(
		"an independent parser of $format->[0] finds every name",
		[ '/usr/bin/python3', '-c', $parse, $format->[0] ],
		"$names\n$format->[1]");
	cmp_ok($count, '==', scalar @{ families($format->[1]) },
		'and as many families as are announced');
}
ran('promtool accepts odd names', [ 'promtool', 'check', 'metrics' ], $odd_text);
my $odd_json = ($odd->get('/api/v1/snapshot'))[1];
is(scalar @{ decode_json($odd_json)->{rows} }, 900, 'and so does a JSON parser');

# gzip

# What does not change from one request to the next.
sub constant_part
{
	my ($body) = @_;
	return join "\n", grep { /queue_(messages|dead_letter|oldest)_/ } split /\n/, $body;
}

my $file = "$PostgreSQL::Test::Utils::tmp_check/body.gz";
foreach my $accept (
	[ 'text', 'text/plain' ],
	[ 'OpenMetrics', 'application/openmetrics-text' ])
{
	my ($name, $type) = @$accept;
	my ($plain, $compressed);

	# between two snapshots, so that both are of one
	poll_until(
		sub {
			($status, $plain) = $leader->get('/metrics', { Accept => $type });
			($status, $compressed, $headers) =
			  $leader->get('/metrics',
				{ Accept => $type, 'Accept-Encoding' => 'gzip' });
			my $later = ($leader->get('/metrics', { Accept => $type }))[1];
			return constant_part($plain) eq constant_part($later);
		});
	is($headers->{'content-encoding'}, 'gzip', "$name: gzip on demand");
	cmp_ok(length $compressed, '<', length($plain) / 4, 'and it is smaller');
	open(my $out, '>:raw', $file) or die "$file: $!";
	print $out $compressed;
	close $out;
	my $gunzip = ran("$name: gunzip", [ 'gunzip', '-c', $file ], '');
	is(constant_part($gunzip), constant_part($plain), 'the same series');
	is( ran("$name: gzip of Python",
			[ '/usr/bin/python3', '-c', 'import gzip, sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())', $file ],
			''),
		$gunzip,
		'the same bytes');
	is( ran("$name: zlib of Python, to the very end",
			[
				'/usr/bin/python3', '-c',
				'import zlib, sys; d = zlib.decompressobj(31); sys.stdout.buffer.write(d.decompress(open(sys.argv[1], "rb").read())); assert d.eof and not d.unused_data',
				$file
			],
			''),
		$gunzip,
		'the same bytes');
	my $curl = ran("$name: curl",
		[ 'curl', '-sS', '--compressed', '-H', "Accept: $type", 'http://' . $leader->address . '/metrics' ],
		'');
	is_deeply(families($curl), families($gunzip), 'the same families');
}

is($leader->stop, 0, 'the leader ends in good order');
verify_is_exact($node);
done_testing();

#-------------------------------------------------------------------------
#
# prometheus.pl
#	  The whole chain with a real Prometheus: messages flow, two collectors are
#	  scraped over loopback, and what Prometheus answers is what the database
#	  says; also after the leader was killed.
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
use Time::HiRes;

my @queues = qw(mail orders reports);

my $node = queue_node('main');
$node->safe_psql('postgres',
	"SELECT queue_state.create_queue('$_', visibility_timeout => '2 seconds', max_delivery_attempts => 2)"
) foreach @queues;

# Messages

# The load of `make run`, which uses every kind of call, for as long as it is
# let.
sub start_load
{
	my $load = "$FindBin::Bin/../../scripts/load";
	my @scripts = map { ('--file', "$load/$_.sql") } qw(
	  produce produce_batch produce_short_lived produce_delayed
	  consume consume_batch consume_and_vanish consume_and_give_back
	  consume_and_reject look_after_dead_letters);

	my $output = '';
	my $pgbench = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--client=2', '--rate=100',
			'--time=600', @scripts,
			'--host' => $node->host,
			'--port' => $node->port,
			'postgres'
		],
		'<', \undef, '>', \$output, '2>&1');
	return { process => $pgbench, output => \$output };
}

sub stop_load
{
	my ($load) = @_;
	my $running = $load->{process}->pumpable;
	$load->{process}->kill_kill;
	ok($running, 'the load ran all the time') or diag(${ $load->{output} });
	unlike(${ $load->{output} }, qr/aborted|ERROR/, 'the load met no error');
	return;
}

# What snapshot() says, as { 'metric queue priority' => value }; a metric that
# has no priority label is summed over it.
my %counter_column = (queue_messages_enqueued_total => 'enqueued_total');
my %queue_counter_column = (
	queue_messages_delivered_total => 'delivered_total',
	queue_messages_acknowledged_total => 'acknowledged_total',
	queue_messages_dead_lettered_total => 'dead_lettered_total',
	queue_messages_expired_total =>
	  'expired_never_delivered_total + expired_previously_delivered_total',
	queue_dead_letter_messages_purged_total => 'dead_letter_purged_total',
	queue_dead_letter_messages_redriven_total => 'dead_letter_redriven_total');
my %gauge_column = (
	queue_messages_ready => 'ready',
	queue_messages_in_flight => 'in_flight',
	queue_messages_delayed => 'delayed',
	queue_messages_exhausted => 'exhausted',
	queue_messages_expired_backlog => 'expired_backlog',
	queue_messages_elapsed_backlog => 'elapsed_backlog',
	queue_dead_letter_messages => 'dead_letters');

sub database_says
{
	my ($by_priority, $by_queue) = @_;
	my @parts = (
		map({
				"SELECT '$_ ' || queue_name || ' ' || priority, $by_priority->{$_} FROM state"
		} sort keys %$by_priority),
		map({
				"SELECT '$_ ' || queue_name || ' ', sum($by_queue->{$_}) FROM state GROUP BY queue_name"
		} sort keys %$by_queue));
	my $rows = $node->safe_psql('postgres',
			'WITH state AS MATERIALIZED (SELECT * FROM queue_state.snapshot()) '
		  . join(' UNION ALL ', @parts));
	return { map { split /\|/ } split /\n/, $rows };
}

sub counters_in_database
{
	return database_says(\%counter_column, \%queue_counter_column);
}

# Collectors

my @flags = ('--collector.interval=1s', '--lease.retry-interval=1s',
	'--maintenance.interval=1s');
my %collector = map { $_ => start_collector($node, $_, @flags) } qw(first second);

# Which collectors export queues now.  One after the other: nothing in this test
# hands the lease over within a round, so two would be two at one instant.
my $most_exporters = 0;

sub exporters
{
	my @exporters;
	foreach my $name (sort keys %collector)
	{
		next unless $collector{$name}->is_running;
		my ($status, $body) = $collector{$name}->get('/metrics');
		push @exporters, $name
		  if $status == 200 && $body =~ /queue_messages_/;
	}
	$most_exporters = @exporters if @exporters > $most_exporters;
	return @exporters;
}

ok(poll_until(sub { exporters() == 1 }), 'one collector leads');
my ($leader) = exporters();
my ($standby) = grep { $_ ne $leader } keys %collector;

# Prometheus

my $prometheus_port = PostgreSQL::Test::Cluster::get_free_port();
my $directory = PostgreSQL::Test::Utils::tempdir();
append_to_file("$directory/prometheus.yml", <<"EOT");
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: queue_state
    static_configs:
      - targets:
          - $collector{first}->{address}
          - $collector{second}->{address}
EOT
command_ok([ 'promtool', 'check', 'config', "$directory/prometheus.yml" ],
	'the configuration of Prometheus is valid');

my $prometheus_log = '';
my $prometheus = IPC::Run::start(
	[
		'prometheus',
		"--config.file=$directory/prometheus.yml",
		"--storage.tsdb.path=$directory/data",
		"--web.listen-address=127.0.0.1:$prometheus_port"
	],
	'<', \undef, '>', \$prometheus_log, '2>&1');

# Before the nodes and the collectors are stopped, however the test ends.
END
{
	my $status = $?;
	$prometheus->kill_kill if $prometheus;
	$? = $status;
}

# An instant query: { 'metric queue priority' => value } with an empty word for
# what has no such label.
sub prometheus_says
{
	my ($query) = @_;
	my $encoded = $query;
	$encoded =~ s/([^A-Za-z0-9_.-])/sprintf('%%%02X', ord($1))/ge;
	my ($status, $body) =
	  http_get("127.0.0.1:$prometheus_port", "/api/v1/query?query=$encoded");
	die "Prometheus: $status $body" if $status != 200;

	my %answer;
	foreach my $sample (@{ decode_json($body)->{data}->{result} })
	{
		my $label = $sample->{metric};
		my $key = join ' ',
		  map { defined $_ ? $_ : '' } @$label{qw(metric queue_name message_priority)};
		die "$query answers $key twice" if exists $answer{$key};
		$answer{$key} = $sample->{value}->[1];
	}
	return \%answer;
}

# The idioms of the README, for many metrics at once.  The name of a metric is
# lost in an aggregation, so it is kept in a label.
sub with_names
{
	my ($idiom, @metrics) = @_;
	return join ' or ', map {
		(my $query = $idiom) =~ s/\?/$_/;
		qq{label_replace($query, "metric", "$_", "", "")}
	} @metrics;
}

sub counters_in_prometheus
{
	return {
		%{
			prometheus_says(
				with_names(
					'max without (instance, pod) (max_over_time(?[3m]))',
					sort keys %counter_column))
		},
		%{
			prometheus_says(
				with_names(
					'sum by (queue_name) (max without (instance, pod) (max_over_time(?[3m])))',
					sort keys %queue_counter_column))
		}
	};
}

sub gauges_in_prometheus
{
	return prometheus_says(
		with_names('max without (instance, pod) (?)', sort keys %gauge_column));
}

# The differences, one a line; empty if both say the same.
sub differences
{
	my ($prometheus, $database) = @_;
	my %keys = (%$prometheus, %$database);
	my $text = '';
	foreach my $key (sort keys %keys)
	{
		my ($p, $d) = map { $_->{$key} // 'nothing' } $prometheus, $database;
		$text .= "$key: $p in Prometheus, $d in the database\n" if $p ne $d;
	}
	return $text;
}

# Nothing Prometheus knows may be ahead of the database, or behind what the
# database said before the latest scrape.
sub values_fit_between
{
	my ($before, $prometheus, $after, $name) = @_;
	my $wrong = '';
	foreach my $key (sort keys %$before)
	{
		my $value = $prometheus->{$key};
		$wrong .= "$key: " . ($value // 'nothing') . " is not in $before->{$key} .. $after->{$key}\n"
		  unless defined $value && $before->{$key} <= $value && $value <= $after->{$key};
	}
	return is($wrong, '', $name);
}

# Has Prometheus a snapshot that was taken after this moment?
sub has_snapshot_since
{
	my ($moment) = @_;
	my ($taken) =
	  values %{ prometheus_says('max(queue_state_snapshot_timestamp_seconds)') };
	return defined $taken && $taken > $moment;
}

sub database_time
{
	return $node->safe_psql('postgres',
		'SELECT extract(epoch FROM clock_timestamp())');
}

sub prometheus_follows
{
	my ($name) = @_;
	my $before = counters_in_database();
	my $moment = database_time();
	ok( poll_until(
			sub { exporters(); return has_snapshot_since($moment); }),
		"$name: a newer snapshot arrives")
	  or diag($prometheus_log);
	my $prometheus = counters_in_prometheus();
	values_fit_between($before, $prometheus, counters_in_database(),
		"$name: the counters are those of the database");
	return $prometheus;
}

# 1. while messages flow

my $load = start_load();
ok( poll_until(
		sub {
			exporters();
			my $state = counters_in_database();
			return !grep { /dead_lettered|expired|redriven|purged/ ? 0 : $state->{$_} == 0 }
			  keys %$state;
		}),
	'messages flow in every queue and priority');
prometheus_follows('under load') foreach 1 .. 3;

my $body = $collector{$leader}->metrics;
is($body->{queue_state_collector_leader}, 1, 'the leader says that it leads');
is($collector{$standby}->metrics->{queue_state_collector_leader},
	0, 'the standby says that it does not');
unlike(($collector{$standby}->get('/metrics'))[1],
	qr/queue_messages_/, 'the standby has no queue series, not even their help');
foreach my $name (sort keys %collector)
{
	my ($out, $err);
	my ($status, $text) = $collector{$name}->get('/metrics');
	my $good =
	  IPC::Run::run([ 'promtool', 'check', 'metrics' ], '<', \$text, '>', \$out, '2>', \$err);
	ok($good && "$out$err" eq '', "promtool finds no fault with the $name collector")
	  or diag("$out$err");
}
stop_load($load);

# 2. at rest: every value is the database's

# Time still passes over what the load has left: leases elapse, delays end.  So
# compare until nothing differs, and read the database on both sides.
sub prometheus_agrees
{
	my ($name) = @_;
	my $difference;
	ok( poll_until(
			sub {
				exporters();
				my $state =
				  database_says({ %gauge_column, %counter_column }, \%queue_counter_column);
				$difference = differences(
					{ %{ gauges_in_prometheus() }, %{ counters_in_prometheus() } }, $state);
				return $difference eq '';
			}),
		"$name: Prometheus has what snapshot() says")
	  or diag($difference);
	return;
}

prometheus_agrees('at rest');

# An age grows between two readings of the database, and Prometheus' is from
# between them; unless the oldest message goes meanwhile (its lease elapses, say),
# and then the readings are made again.
{
	my %age_column = (
		queue_oldest_ready_message_age_seconds => 'oldest_ready_age_seconds',
		queue_oldest_in_flight_message_age_seconds => 'oldest_in_flight_age_seconds');
	my ($before, $prometheus, $after);
	ok( poll_until(
			sub {
				$before = database_says(\%age_column, {});
				my $moment = database_time();
				poll_until(sub { exporters(); return has_snapshot_since($moment); }) or return 0;
				$prometheus = prometheus_says(
					with_names('max without (instance, pod) (?)', sort keys %age_column));
				$after = database_says(\%age_column, {});
				return !grep { $after->{$_} < $before->{$_} } keys %$before;
			}),
		'at rest: a newer snapshot arrives');
	values_fit_between($before, $prometheus, $after, 'at rest: the ages are those of the database');
	cmp_ok($before->{'queue_oldest_ready_message_age_seconds mail HIGH'},
		'>', 0, 'and there is one to compare');
}

# 3. the leader is killed while messages flow

$load = start_load();
my $before_kill = prometheus_follows('before the kill');
$collector{$leader}->signal('KILL');
$collector{$leader}->wait_for_exit;
ok(poll_until(sub { join(',', exporters()) eq $standby }),
	'the standby leads after the leader was killed');
my $after_kill = prometheus_follows('after the kill');
is(join("\n", grep { $after_kill->{$_} < $before_kill->{$_} } sort keys %$before_kill),
	'', 'no counter goes back at the handover');
ok( poll_until(
		sub {
			my $up = prometheus_says('sum(up)');
			return (values %$up)[0] == 1;
		}),
	'Prometheus sees one collector');
stop_load($load);
prometheus_agrees('after the handover');

# 4. the killed one comes back as a standby

$collector{$leader} = start_collector($node, "$leader again", @flags);
ok( poll_until(
		sub {
			exporters();
			my $metrics = $collector{$leader}->metrics;
			return $metrics->{queue_state_collector_database_up};
		}),
	'the killed collector comes back');
is(join(',', exporters()), $standby, 'and the leader stays');
is($most_exporters, 1, 'there was never more than one exporter');

is($collector{$_}->stop, 0, "the $_ collector ends in order") foreach sort keys %collector;
verify_is_exact($node);
done_testing();

#-------------------------------------------------------------------------
#
# old_snapshot.pl
#	  An idle REPEATABLE READ transaction keeps every dead row alive while
#	  messages flow at full speed.  The counters stay exact, the shard rows stay
#	  on their pages, folding keeps the pending rows few, and after the release
#	  everything goes back to its size.
#
# Ten seconds of it; bench/old_snapshot holds it for longer and measures.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;
use Time::HiRes qw(time);

my $node = queue_node('main', conf => "max_connections = 40\n");
my $directory = PostgreSQL::Test::Utils::tempdir;
my $held_seconds = 10;

sub query { return $node->safe_psql('postgres', $_[0]); }
sub table_pages { return query("SELECT pg_relation_size('queue_state.queue_priority_state_$_[0]') / 8192"); }
sub pending_rows { return query('SELECT count(*) FROM queue_state.queue_priority_state_pending'); }

# { 'queue priority shard' => page }
sub pages_of_shards
{
	return map { split /=/ } split /\n/, query(<<'END_OF_SQL');
SELECT concat_ws(' ', queue_id, priority, shard) || '=' || (ctid::text::point)[0]
	FROM queue_state.queue_priority_state_shard
END_OF_SQL
}

query("SELECT queue_state.create_queue('orders')");
append_to_file("$directory/produce.sql", <<'END_OF_SQL');
\set draw random(1, 3)
SELECT queue_state.enqueue('orders', '1',
	(ARRAY['LOW', 'MEDIUM', 'HIGH'])[:draw]::queue_state.message_priority);
END_OF_SQL
append_to_file("$directory/consume.sql", <<'END_OF_SQL');
SELECT queue_state.acknowledge(id, receipt_handle) FROM queue_state.dequeue('orders', 2);
END_OF_SQL

my $load_output = '';
my $load = IPC::Run::start(
	[
		'pgbench', '--no-vacuum', '--client=12', '--time=600',
		'--file' => "$directory/produce.sql",
		'--file' => "$directory/consume.sql",
		'--host' => $node->host,
		'--port' => $node->port,
		'postgres'
	],
	'<', \undef, '>', \$load_output, '2>&1');

# until every shard has its row, and the load is at work
poll_until(
	sub {
		return query('SELECT count(*) = 96 FROM queue_state.queue_priority_state_shard') eq 't'
		  && query('SELECT sum(acknowledged_total) > 1000 FROM queue_state.snapshot()') eq 't';
	}) or die "the load does nothing: $load_output";

my ($order, $answer) = ('', '');
my $holder = IPC::Run::start([ 'psql', '--no-psqlrc', '--quiet', '--tuples-only', '--no-align',
		'--dbname' => $node->connstr('postgres') ],
	'<', \$order, '>', \$answer, '2>&1');
$order = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT sum(enqueued_total) FROM queue_state.snapshot();\n";
poll_until(sub { $holder->pump_nb; return $answer =~ /^\d+\n/ }) or die "no snapshot: $answer";
my ($total_then) = $answer =~ /^(\d+)/;

my %page_before = pages_of_shards();
my $shard_pages_before = table_pages('shard');
my $processed_before = query('SELECT sum(enqueued_total + acknowledged_total) FROM queue_state.snapshot()');
my $end = time + $held_seconds;
my ($readings, $inexact, $most_pending) = (0, 0, 0);
while (time < $end)
{
	my $pending = pending_rows();
	$most_pending = $pending if $pending > $most_pending;
	$readings++;
	$inexact++ if query('SELECT count(*) FROM queue_state.verify()') != 0;
	query('SELECT queue_state.fold_pending()') if $readings % 5 == 0;
}
my $processed = query('SELECT sum(enqueued_total + acknowledged_total) FROM queue_state.snapshot()');
my %page_after = pages_of_shards();
ok($load->pumpable, 'the load ran all the time') or diag($load_output);
$load->kill_kill;
unlike($load_output, qr/ERROR|aborted/, 'and met no error');
poll_until(sub { query("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'") eq 't' });

is($inexact, 0, "exact in $readings readings");
cmp_ok($processed - $processed_before, '>', $held_seconds * 20, 'messages flowed');

# Room on a page is looked at without a lock, so that a row may lose a race for
# the last place on its page and move.  That is rare.
my @moved = grep { $page_after{$_} != $page_before{$_} } keys %page_before;
cmp_ok(scalar @moved, '<=', 5, 'the shard rows stay on their pages');

# 8 are too few to be added up, and each shard has some that came meanwhile
query('SELECT queue_state.fold_pending()');
my $pending_left = pending_rows();
cmp_ok($pending_left, '<=', 96 * 8, 'folding keeps the pending rows few');
my $pending_pages = table_pages('pending');
verify_is_exact($node, 'exact while the snapshot is held');

$answer = '';
$order = "SELECT sum(enqueued_total) FROM queue_state.snapshot();\n";
poll_until(sub { $holder->pump_nb; return $answer =~ /^\d+\n/ }) or die "no snapshot: $answer";
is($answer, "$total_then\n", 'the old snapshot still reads its own time');
$order = "SELECT count(*) FROM queue_state.verify();\n";
$answer = '';
poll_until(sub { $holder->pump_nb; return $answer =~ /^\d+\n/ }) or die "no verify: $answer";
is($answer, "0\n", 'and is exact');
# Reading walks past the dead from two sides.  Here they are in front of the
# living, behind them, and on both sides, and some of the living have expired
# or elapsed; what is read must be what a count over the messages says.

foreach my $remaining (
	[ newest => 'n <= 60' ],
	[ oldest => 'n > 740' ],
	[ middle => 'n BETWEEN 370 AND 430' ],
	[ both => 'n <= 30 OR n > 770' ],
	[ few => 'n IN (397, 402)' ],
	[ none => 'false' ])
{
	my ($name, $condition) = @$remaining;
	query(<<"END_OF_SQL");
SELECT queue_state.create_queue('$name', max_delivery_attempts => 3);
INSERT INTO queue_state.queue_message
		(queue_id, payload, priority, state, delivery_attempts, enqueued_at, expires_at, available_after)
	SELECT queue_id, to_jsonb(n), CASE WHEN n % 5 = 0 THEN 'HIGH' ELSE 'LOW' END::queue_state.message_priority,
		(ARRAY['READY', 'IN_FLIGHT', 'DELAYED'])[1 + n % 3]::queue_state.message_state, n % 4,
		now() - n * interval '1 minute' - interval '30 seconds',
		now() + CASE WHEN n % 7 = 0 THEN -1 ELSE 20 END * interval '1 hour',
		now() + CASE WHEN n % 2 = 0 THEN -1 ELSE 20 END * interval '1 hour'
		FROM queue_state.queue, generate_series(1, 800) AS n WHERE name = '$name';
DELETE FROM queue_state.queue_message USING (SELECT id AS other_id, (payload #>> '{}')::int AS n
		FROM queue_state.queue_message
		WHERE queue_id = (SELECT queue_id FROM queue_state.queue WHERE name = '$name')) AS o
	WHERE id = other_id AND NOT ($condition);
END_OF_SQL
}
my $counted = query(<<'END_OF_SQL');
WITH message AS
(
	SELECT q.name, m.priority, m.enqueued_at, m.state, m.expires_at <= now() AS expired,
		m.state <> 'READY' AND m.available_after <= now() AS elapsed,
		m.delivery_attempts >= q.max_delivery_attempts AS used_up
	FROM queue_state.queue AS q JOIN queue_state.queue_message AS m USING (queue_id)
), judged AS
(
	SELECT *, NOT expired AND (state = 'READY' OR elapsed AND NOT used_up) AS ready,
		state = 'IN_FLIGHT' AND NOT elapsed AS in_flight
	FROM message
)
SELECT q.name, p.priority, count(*) FILTER (WHERE ready), count(*) FILTER (WHERE in_flight),
		count(*) FILTER (WHERE state = 'DELAYED' AND NOT elapsed),
		count(*) FILTER (WHERE elapsed AND NOT expired AND used_up),
		count(*) FILTER (WHERE state = 'READY' AND expired), count(*) FILTER (WHERE elapsed),
		coalesce(floor(extract(epoch FROM now() - min(enqueued_at) FILTER (WHERE ready)) / 60), 0),
		coalesce(floor(extract(epoch FROM now() - min(enqueued_at) FILTER (WHERE in_flight)) / 60), 0)
	FROM queue_state.queue AS q
		CROSS JOIN unnest(enum_range(NULL::queue_state.message_priority)) AS p (priority)
		LEFT JOIN judged AS j ON j.name = q.name AND j.priority = p.priority
	WHERE q.name <> 'orders'
	GROUP BY q.name, p.priority ORDER BY q.name, p.priority
END_OF_SQL
is( query(<<'END_OF_SQL'),
SELECT queue_name, priority, ready, in_flight, delayed, exhausted, expired_backlog, elapsed_backlog,
		floor(oldest_ready_age_seconds / 60), floor(oldest_in_flight_age_seconds / 60)
	FROM queue_state.snapshot() WHERE queue_name <> 'orders' ORDER BY queue_name, priority
END_OF_SQL
	$counted, 'whatever the dead stand in front of, the reading is what a count says');
verify_is_exact($node, 'and exact');

$order = "COMMIT;\n";
$holder->finish;

# After the release

ok( poll_until(
		sub {
			query('VACUUM queue_state.queue_priority_state_shard');
			query('SELECT queue_state.fold_pending()');
			return pending_rows() == 0;
		}),
	'after the release all pending rows fold');
# The table keeps its pages for the next time, unless told.
ok( poll_until(
		sub {
			query('VACUUM (TRUNCATE) queue_state.queue_priority_state_pending');
			return table_pages('pending') == 0;
		}),
	'and VACUUM (TRUNCATE) gives back their pages');
cmp_ok(table_pages('shard'), '<=', $shard_pages_before + 40, 'the shard rows have the pages they had');
verify_is_exact($node);

note(sprintf '%d events in %d s; %d of 96 shard rows moved; at most %d pending rows, %d after a fold, on %d pages',
	$processed - $processed_before, $held_seconds, scalar @moved, $most_pending, $pending_left, $pending_pages);

done_testing();

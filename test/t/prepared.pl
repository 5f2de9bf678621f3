#-------------------------------------------------------------------------
#
# prepared.pl
#	  Prepared transactions: while one with many enqueues is left open nobody
#	  waits, and its end from another session is exact.
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = queue_node('prepared', conf => "max_prepared_transactions = 10\n");

sub state_of
{
	my ($queue) = @_;
	return $node->safe_psql('postgres', qq{
SELECT string_agg(concat_ws(' ', priority, ready, in_flight, delayed), ', ' ORDER BY priority DESC)
	FROM queue_state.physical_state()
	WHERE queue_name = '$queue' AND (ready, in_flight, delayed) <> (0, 0, 0)});
}

sub pending
{
	return $node->safe_psql('postgres', 'SELECT count(*) FROM queue_state.queue_priority_state_pending');
}

# Any wait for a lock is an error at once.
sub without_waiting
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($sql, $name) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET lock_timeout = '50ms';\n$sql", on_error_stop => 1);
	is("$status:$err", '0:', $name);
	return $out;
}

my $enqueue_1000 = q{SELECT count(queue_state.enqueue('shared', to_jsonb(n), (ARRAY['LOW', 'MEDIUM', 'HIGH'])[1 + n % 3]::queue_state.message_priority))
	FROM generate_series(1, 1000) n;};
$node->safe_psql('postgres', q{SELECT queue_state.create_queue('shared'), queue_state.create_queue('other')});

# Once with no shard row there yet, so that the prepared transaction is the one
# that makes them, and once with all of them there.
foreach my $round ('new shards', 'old shards')
{
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		my $before = state_of('shared');
		my $name = "$round, $end";

		$node->safe_psql('postgres', "BEGIN;\n$enqueue_1000\nPREPARE TRANSACTION 'open'");
		is(state_of('shared'), $before, "$name: nothing of it is seen before its end");

		without_waiting(q{
SELECT queue_state.enqueue('shared', '0', p) FROM unnest(enum_range(NULL::queue_state.message_priority)) p, generate_series(1, 100);
WITH d AS MATERIALIZED (SELECT * FROM queue_state.dequeue('shared', 150))
SELECT count(*) FILTER (WHERE queue_state.acknowledge(d.id, d.receipt_handle)) FROM d;
SELECT queue_state.enqueue('other', '0') FROM generate_series(1, 10);
DELETE FROM queue_state.queue_message WHERE queue_id = (SELECT q.queue_id FROM queue_state.queue q WHERE q.name = 'other');
SELECT count(*) FROM queue_state.expire_messages();
SELECT queue_state.fold_pending();
SELECT queue_state.rebuild('shared');
SELECT count(*) FROM queue_state.snapshot();
SELECT count(*) FROM queue_state.verify();
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queue_state.enqueue('shared', '0');
COMMIT;
}, "$name: nobody waits");
		cmp_ok(pending(), '>', 0, "$name: what would have waited is pending");
		verify_is_exact($node, "$name: exact while it is open");

		my $expected = $node->safe_psql('postgres', qq{
SELECT sum(ready) + CASE '$end' WHEN 'COMMIT' THEN 1000 ELSE 0 END FROM queue_state.physical_state() WHERE queue_name = 'shared'});
		my $total = $node->safe_psql('postgres', qq{
SELECT sum(enqueued_total) + CASE '$end' WHEN 'COMMIT' THEN 1000 ELSE 0 END FROM queue_state.snapshot() WHERE queue_name = 'shared'});
		$node->safe_psql('postgres', "$end PREPARED 'open'");
		is($node->safe_psql('postgres', q{SELECT sum(ready) FROM queue_state.physical_state() WHERE queue_name = 'shared'}),
			$expected, "$name: its end from another session counts");
		is($node->safe_psql('postgres', q{SELECT sum(enqueued_total) FROM queue_state.snapshot() WHERE queue_name = 'shared'}),
			$total, "$name: in the totals too");
		verify_is_exact($node, "$name: exact after its end");
		# Where a page has no room for more versions, it takes another fold.
		ok(poll_until(sub { $node->safe_psql('postgres', 'SELECT queue_state.fold_pending()'); return pending() == 0; }),
			"$name: all is folded afterwards");
		verify_is_exact($node, "$name: exact after the fold");
	}
	if ($round eq 'new shards')
	{
		is($node->safe_psql('postgres', q{SELECT count(*) FROM queue_state.queue_priority_state_shard s JOIN queue_state.queue q USING (queue_id) WHERE q.name = 'shared'}),
			96, 'every shard has its row');
	}
}

# Savepoints, TRUNCATE and a fold in it; and the server restarts meanwhile.
$node->safe_psql('postgres', q{
BEGIN;
SELECT queue_state.enqueue('other', '1');
SAVEPOINT a;
SELECT queue_state.enqueue('other', '2');
ROLLBACK TO SAVEPOINT a;
SELECT queue_state.fold_pending();
TRUNCATE queue_state.queue_message;
SELECT queue_state.enqueue('other', '3', 'HIGH');
PREPARE TRANSACTION 'truncated'});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'it survives a crash');
$node->safe_psql('postgres', "COMMIT PREPARED 'truncated'");
is(state_of('shared'), '', 'its TRUNCATE counts');
is(state_of('other'), 'HIGH 1 0 0', 'and what came after it');
verify_is_exact($node);

# Two at a time in the same shards.
$node->safe_psql('postgres', "BEGIN;\n$enqueue_1000\nPREPARE TRANSACTION 'one'");
$node->safe_psql('postgres', "BEGIN;\n$enqueue_1000\nPREPARE TRANSACTION 'two'");
without_waiting("BEGIN;\n$enqueue_1000\nROLLBACK;", 'a third does not wait either');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'one'");
$node->safe_psql('postgres', "COMMIT PREPARED 'two'");
is(state_of('shared'), 'HIGH 333 0 0, MEDIUM 334 0 0, LOW 333 0 0', 'one of two was committed');

# A change that is refused cannot be prepared.
$node->safe_psql('postgres', q{
SET session_replication_role = replica;
INSERT INTO queue_state.queue_message (id, queue_id, priority)
	SELECT '00000000-0000-4000-8000-000000000001', q.queue_id, 'LOW' FROM queue_state.queue q WHERE q.name = 'other'});
my ($status, $out, $err) = $node->psql('postgres', q{
BEGIN;
DELETE FROM queue_state.queue_message WHERE id = '00000000-0000-4000-8000-000000000001';
PREPARE TRANSACTION 'refused'});
like($err, qr/counter "ready_count" of queue "other", priority LOW would become negative/, 'the guard fires at PREPARE');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'and nothing is prepared');
$node->safe_psql('postgres', 'SELECT queue_state.rebuild()');

verify_is_exact($node);
$node->stop;
done_testing();

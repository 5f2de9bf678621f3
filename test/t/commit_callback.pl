#-------------------------------------------------------------------------
#
# commit_callback.pl
#	  Another module changes messages in a callback of its own at commit or
#	  prepare, before or after the counters of the transaction were applied:
#	  they are counted all the same, and only if the transaction commits.
#
# Builds test/module/commit_writer.c.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = "$FindBin::Bin/../module";
my $writer = "$directory/commit_writer";
is(system_log('make', '--silent', '-C', $directory, 'PG_CONFIG=' . ($ENV{PG_CONFIG} || 'pg_config')),
	0, 'the module is built');

my $node = queue_node('main', conf => "max_prepared_transactions = 2\n");
$node->safe_psql('postgres', "SELECT queue_state.create_queue('mail', visibility_timeout => '1 hour')");

# The one that is loaded first is called last.
my $load_queue_state = "SELECT queue_state.verify();";
my %order = (
	'after the counters were applied' => "LOAD '$writer'; $load_queue_state",
	'before the counters are applied' => "$load_queue_state LOAD '$writer';");

# end_with(ORDER, STATEMENT, END): a transaction that enqueues two messages, and
# runs the statement as it ends.
sub end_with
{
	my ($order, $statement, $end) = @_;

	return $node->psql('postgres', "
		$order{$order}
		BEGIN;
		SET LOCAL commit_writer.statement = \$statement\$$statement\$statement\$;
		SELECT queue_state.enqueue_batch('mail', ARRAY['1', '2']::jsonb[]);
		$end;", on_error_stop => 1);
}

# What is there and what has happened, as one line.
sub counts
{
	return $node->safe_psql('postgres', q{
		SELECT sum(ready), sum(in_flight), sum(delayed), sum(dead_letters), sum(enqueued_total),
			sum(delivered_total), sum(acknowledged_total), sum(dead_lettered_total)
		FROM queue_state.snapshot()});
}

# Moves the line by what each change adds to it.
sub moved
{
	my ($line, @by) = @_;
	my @values = split(/\|/, $line);

	return join('|', map { $values[$_] + $by[$_] } 0 .. $#values);
}

my $leased = q{FROM queue_state.queue_message WHERE state = 'IN_FLIGHT' LIMIT 1};
my @statements = (
	#                ready, in flight, delayed, dead; enqueued, delivered, acknowledged, dead-lettered
	[ 'enqueue()', q{SELECT queue_state.enqueue('mail', '1')}, 1, 0, 0, 0, 1, 0, 0, 0 ],
	[ 'enqueue() with a delay', q{SELECT queue_state.enqueue('mail', '1', delay => '1 hour')},
		0, 0, 1, 0, 1, 0, 0, 0 ],
	[ 'enqueue_batch()', q{SELECT queue_state.enqueue_batch('mail', ARRAY['1', '2', '3']::jsonb[])},
		3, 0, 0, 0, 3, 0, 0, 0 ],
	[ 'dequeue()', q{SELECT queue_state.dequeue('mail', 4)}, -4, 4, 0, 0, 0, 4, 0, 0 ],
	[ 'acknowledge()', "SELECT queue_state.acknowledge(id, receipt_handle) $leased", 0, -1, 0, 0, 0, 0, 1, 0 ],
	[ 'nack()', "SELECT queue_state.nack(id, receipt_handle, '1 hour') $leased", 0, -1, 1, 0, 0, 0, 0, 0 ],
	[ 'reject()', "SELECT queue_state.reject(id, receipt_handle, 'no') $leased", 0, -1, 0, 1, 0, 0, 0, 1 ],
	[ 'DELETE', "DELETE FROM queue_state.queue_message WHERE id = (SELECT id $leased)", 0, -1, 0, 0, 0, 0, 0, 0 ],
	[ 'a block that is rolled back', q{DO $$
		BEGIN
			PERFORM queue_state.enqueue('mail', '1');
			BEGIN
				PERFORM queue_state.enqueue('mail', '2');
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
				PERFORM queue_state.enqueue('mail', '3');
			END;
		END $$}, 2, 0, 0, 0, 2, 0, 0, 0 ]);

foreach my $order (sort keys %order)
{
	foreach my $case (@statements)
	{
		my ($name, $statement, @by) = @$case;
		my $before = counts();

		is(end_with($order, $statement, 'COMMIT'), 0, "$name $order: commits");
		is(counts(), moved(moved($before, 2, 0, 0, 0, 2, 0, 0, 0), @by), 'and is counted');
	}

	my $before = counts();
	my $enqueue = q{SELECT queue_state.enqueue('mail', '1')};
	is(end_with($order, $enqueue, "PREPARE TRANSACTION 'three'"), 0, "PREPARE TRANSACTION $order: prepares");
	is(counts(), $before, 'and is not counted yet');
	$node->safe_psql('postgres', "COMMIT PREPARED 'three'");
	is(counts(), moved($before, 3, 0, 0, 0, 3, 0, 0, 0), 'until it is committed');

	$before = counts();
	my $failing = q{DO $$ BEGIN PERFORM queue_state.enqueue('mail', '1'); RAISE division_by_zero; END $$};
	isnt(end_with($order, $failing, 'COMMIT'), 0, "a statement that fails $order: the transaction too");
	is(counts(), $before, 'and nothing is counted');
}

verify_is_exact($node);
done_testing();

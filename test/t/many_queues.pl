#-------------------------------------------------------------------------
#
# many_queues.pl
#	  Tens of thousands of queues in one transaction, with a small lock table:
#	  a restore must neither run out of locks nor be in anybody's way.
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $queues = 20000;
my $node = queue_node(
	'many', conf => qq(
fsync = off
max_connections = 10
max_locks_per_transaction = 10
max_prepared_transactions = 2
));

sub look
{
	my ($sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

my $messages = 'SELECT sum(ready) FROM queue_state.physical_state()';

look(qq{
INSERT INTO queue_state.queue (name) SELECT 'q' || n FROM generate_series(1, $queues) n;
CREATE TABLE load AS SELECT queue_state.uuidv7() AS id, n AS queue_id FROM generate_series(1, $queues) n});
my $file = PostgreSQL::Test::Utils::tempdir . '/load';
look("COPY load TO '$file'");

# Left open as a prepared transaction, which has made all its shard rows.
look(qq{
BEGIN;
COPY queue_state.queue_message (id, queue_id) FROM '$file';
PREPARE TRANSACTION 'load'});
pass('one COPY fills all queues');
my ($status, $out, $err) = $node->psql('postgres', "SET lock_timeout = '50ms';\n"
	  . join('', map { "SELECT queue_state.enqueue('q$_', '1');\n" } 1 .. 100)
	  . "SELECT queue_state.fold_pending();\nSELECT count(*) FROM queue_state.snapshot();\n"
	  . "SELECT (queue_state.create_queue('new')).name;\nSELECT queue_state.enqueue('new', '1');\n",
	on_error_stop => 1);
is("$status:$err", '0:', 'nobody waits for it');
is(look($messages), 101, 'what others wrote is counted');

# A queue is not dropped under it, in either order.
($status, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '50ms'; SELECT queue_state.drop_queue('q20000', true)});
like($err, qr/lock timeout/, 'a queue that it refers to cannot be dropped');
($status, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '50ms'; DELETE FROM queue_state.queue WHERE name = 'q1'});
like($err, qr/lock timeout/, 'nor deleted');
verify_is_exact($node, 'exact while it is open');

look("COMMIT PREPARED 'load'");
is(look($messages), $queues + 101, 'it is counted when it commits');
verify_is_exact($node, 'exact after its commit');
ok(poll_until(sub {
	look('SELECT queue_state.fold_pending()');
	return look('SELECT count(*) FROM queue_state.queue_priority_state_pending') == 0;
}), 'all is folded afterwards');
verify_is_exact($node, 'exact after the fold');

# As much in a savepoint, and away with it.
look(qq{
BEGIN;
SAVEPOINT a;
UPDATE queue_state.queue_message SET state = 'DELAYED', priority = 'LOW';
SAVEPOINT b;
DELETE FROM queue_state.queue_message WHERE queue_id % 2 = 0;
ROLLBACK TO SAVEPOINT b;
DELETE FROM queue_state.queue_message WHERE queue_id % 2 = 1;
RELEASE SAVEPOINT a;
COMMIT});
verify_is_exact($node, 'exact after changing everything in savepoints');
is(look('SELECT sum(ready), sum(delayed) FROM queue_state.physical_state()'),
	'0|' . ($queues / 2 + 50), 'half of all is left, and delayed');
is(look(q{SELECT queue_state.drop_queue('q2', true)}), 't', 'a queue can be dropped again');
look('DELETE FROM queue_state.queue_message');
is(look($messages), 0, 'all counters come back to zero');
verify_is_exact($node);
$node->stop;
done_testing();

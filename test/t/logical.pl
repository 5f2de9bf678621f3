#-------------------------------------------------------------------------
#
# logical.pl
#	  A logical replication subscriber.  The apply worker fires no statement
#	  triggers, so nothing that arrives is counted: verify() says so, rebuild()
#	  repairs it, and from the switch-over on the subscriber counts by itself.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use MixedMessages;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->start;
$publisher->safe_psql('postgres', 'CREATE EXTENSION queue_state');
mix_messages($publisher, 'postgres');

my $subscriber = queue_node('subscriber');

# What the guide says: the truth is published and the counters are not.
$publisher->safe_psql('postgres', <<'END_OF_SQL');
CREATE PUBLICATION messages FOR TABLE queue_state.queue, queue_state.queue_message,
	queue_state.queue_dead_letter_message, queue_state.inbox;
END_OF_SQL
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION messages CONNECTION '$connection' PUBLICATION messages");
$subscriber->wait_for_subscription_sync;

# True as soon as the subscriber has the rows that the publisher has now.
sub caught_up
{
	$publisher->wait_for_catchup('messages');
	my $there = queue_contents($publisher, 'postgres');
	my $here = queue_contents($subscriber, 'postgres');
	return is_deeply([ @{$here}{qw(queue queue_message queue_dead_letter_message inbox)} ],
		[ @{$there}{qw(queue queue_message queue_dead_letter_message inbox)} ], shift);
}

caught_up('the subscriber has the same rows');

# The first copy and everything after it
$publisher->safe_psql('postgres', <<'END_OF_SQL');
SELECT queue_state.create_queue('late');
SELECT count(queue_state.enqueue('late', '1')) FROM generate_series(1, 50);
SELECT count(queue_state.acknowledge(id, receipt_handle)) FROM queue_state.dequeue('late', 20);
SELECT count(queue_state.reject(id, receipt_handle)) FROM queue_state.dequeue('late', 5);
END_OF_SQL
caught_up('changes arrive');

is( $subscriber->safe_psql('postgres', <<'END_OF_SQL'),
SELECT queue_name, priority, counter, recorded, actual FROM queue_state.verify()
	WHERE queue_name = 'late'
END_OF_SQL
	"late|MEDIUM|dead_letter_count|0|5\nlate|MEDIUM|ready_count|0|25",
	'verify() on the subscriber shows what was not counted');
my ($status, $out, $err) = $subscriber->psql('postgres', <<'END_OF_SQL');
DELETE FROM queue_state.queue_message
	WHERE queue_id = (SELECT queue_id FROM queue_state.queue WHERE name = 'late')
END_OF_SQL
like($err, qr/counter "ready_count" of queue "late", priority MEDIUM would become negative/,
	'what was not counted cannot go');

# Reading while it is a subscriber: rebuild() first, under the running load
is($subscriber->safe_psql('postgres', "SELECT queue_state.rebuild('late')"),
	'2', 'rebuild() of a queue corrects two counters');
is($subscriber->safe_psql('postgres', "SELECT count(*) FROM queue_state.verify() WHERE queue_name = 'late'"),
	'0', 'and of no other queue');
cmp_ok($subscriber->safe_psql('postgres', 'SELECT queue_state.rebuild()'), '>', 0, 'rebuild() corrects all');
verify_is_exact($subscriber, 'the subscriber is exact after rebuild()');
is( $subscriber->safe_psql('postgres', 'SELECT * FROM queue_state.physical_state() ORDER BY 1, 3'),
	$publisher->safe_psql('postgres', 'SELECT * FROM queue_state.physical_state() ORDER BY 1, 3'),
	'and has the state of the publisher');

# So do the settings of a queue, which sessions keep in memory.
$publisher->safe_psql('postgres', "SELECT queue_state.pause_queue('late')");
$publisher->wait_for_catchup('messages');
is( $subscriber->safe_psql('postgres', "SELECT count(*) FROM queue_state.dequeue('late')"),
	'0', 'a pause arrives');
$publisher->safe_psql('postgres', "SELECT queue_state.resume_queue('late')");

# Switch-over, as the guide says: stop the writers, let the rest arrive, drop
# the subscription, set the sequence, rebuild.
$publisher->safe_psql('postgres', "SELECT queue_state.enqueue('late', '\"the last\"')");
caught_up('the rest has arrived');
$subscriber->safe_psql(
	'postgres', <<'END_OF_SQL');
DROP SUBSCRIPTION messages;
SELECT setval('queue_state.queue_queue_id_seq', max(queue_id)) FROM queue_state.queue;
SELECT queue_state.rebuild();
END_OF_SQL
verify_is_exact($subscriber, 'exact after the switch-over');
$subscriber->safe_psql(
	'postgres', <<'END_OF_SQL');
SELECT queue_state.create_queue('own');
SELECT count(queue_state.enqueue('own', '1')) FROM generate_series(1, 10);
SELECT count(queue_state.acknowledge(id, receipt_handle)) FROM queue_state.dequeue('late', 100);
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.drop_queue('mail.outbound', true);
END_OF_SQL
is( $subscriber->safe_psql(
		'postgres',
		"SELECT queue_name, ready FROM queue_state.logical_state()
			WHERE queue_name IN ('late', 'own') AND priority = 'MEDIUM'"),
	"late|0\nown|10",
	'the former subscriber counts by itself');
verify_is_exact($subscriber);
verify_is_exact($publisher, 'the publisher was exact all the time');

done_testing();

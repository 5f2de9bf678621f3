#-------------------------------------------------------------------------
#
# rare_operations.pl
#	  Queues are purged, dropped and made again, dead letters redriven and
#	  purged, messages expired, while producers and consumers are at work in
#	  transactions of several steps: no deadlock, no error but the documented
#	  ones, exact counters, and every message accounted for.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = queue_node('main', conf => "deadlock_timeout = 50ms\n");

# What may happen to somebody whose queue is dropped under his feet, and to
# somebody who drops one that is in use.  Anything else ends the test.
$node->safe_psql(
	'postgres', q{
CREATE FUNCTION allowed(call text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE call;
EXCEPTION
	WHEN undefined_object OR foreign_key_violation OR duplicate_object OR object_in_use THEN
		NULL;
END
$$;

-- Leases some messages and does one of everything with them.
CREATE FUNCTION consume(queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	message	record;
BEGIN
	FOR message IN SELECT * FROM queue_state.dequeue(queue, 3) LOOP
		CASE (random() * 7)::integer
			WHEN 0 THEN PERFORM queue_state.nack(message.id, message.receipt_handle, '0 seconds');
			WHEN 1 THEN PERFORM queue_state.nack(message.id, message.receipt_handle, error => 'later');
			WHEN 2 THEN PERFORM queue_state.reject(message.id, message.receipt_handle, 'never');
			WHEN 3 THEN PERFORM queue_state.extend_lease(message.id, message.receipt_handle, '2 seconds');
			WHEN 4 THEN NULL;	-- forgotten: its lease elapses
			ELSE PERFORM queue_state.acknowledge(message.id, message.receipt_handle);
		END CASE;
	END LOOP;
END
$$;

SELECT queue_state.create_queue(name, visibility_timeout => '1 second', max_delivery_attempts => 3,
								default_ttl => '2 seconds', retry_delay => '100 milliseconds')
	FROM unnest(ARRAY['steady', 'changing']) name;
});

$node->pgbench(
	'-n -c 10 -j 2 -t 250',
	0,
	[qr/processed: 2500\/2500/],
	[qr/^$/],
	'everything at once',
	{
		# weights add up to 40
		'produce@10' => q{
			BEGIN;
			SELECT allowed($$SELECT queue_state.enqueue('steady', '1')$$);
			SELECT allowed($$SELECT queue_state.enqueue('changing', '2', 'HIGH', delay => '0.1 seconds')$$);
			SELECT allowed($$SELECT queue_state.enqueue_batch('steady', ARRAY['3', '4', '5']::jsonb[], 'LOW')$$);
			END;
		},
		# Holds messages of one queue when it asks for the other's row, and
		# the other way round.
		'consume_and_produce@10' => q{
			BEGIN;
			SELECT allowed($$SELECT consume('changing')$$);
			SELECT allowed($$SELECT queue_state.enqueue('changing', '6')$$);
			SELECT allowed($$SELECT consume('steady')$$);
			SELECT allowed($$SELECT queue_state.enqueue('steady', '7')$$);
			END;
		},
		'consume@8' => q{
			SELECT allowed($$SELECT consume('steady')$$);
		},
		'produce_with_key@2' => q{
			\set key random(1, 5)
			SELECT allowed($$SELECT queue_state.enqueue('steady', '8', deduplication_key => 'key :key')$$);
		},
		'expire@2' => q{
			SELECT count(*) FROM queue_state.expire_messages(20);
		},
		'exhausted@1' => q{
			SELECT queue_state.dead_letter_exhausted(20);
		},
		'redrive@2' => q{
			SELECT allowed($$SELECT queue_state.redrive_dead_letters('steady', 10)$$);
			SELECT allowed($$SELECT queue_state.redrive_dead_letters('changing')$$);
		},
		'purge_dead@1' => q{
			SELECT count(*) FROM queue_state.purge_dead_letters('0.5 seconds', 3);
		},
		'purge@1' => q{
			SELECT allowed($$SELECT queue_state.purge_queue('changing')$$);
		},
		'drop@1' => q{
			SELECT allowed($$SELECT queue_state.drop_queue('changing', true)$$);
			SELECT allowed($$SELECT queue_state.create_queue('changing', visibility_timeout => '1 second', default_ttl => '2 seconds')$$);
		},
		'change@1' => q{
			\set attempts random(1, 4)
			SELECT allowed($$SELECT queue_state.update_queue('steady', max_delivery_attempts => :attempts)$$);
			SELECT allowed($$SELECT queue_state.pause_queue('changing')$$);
			SELECT allowed($$SELECT queue_state.resume_queue('changing')$$);
		},
		'fold@1' => q{
			SELECT queue_state.fold_pending();
		},
	});

$node->safe_psql('postgres', 'SELECT pg_stat_force_next_flush()');
is( $node->safe_psql(
		'postgres',
		q{SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()}),
	'0',
	'no deadlock');
verify_is_exact($node);

is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM (SELECT queue_id FROM queue_state.queue_priority_state_shard
			UNION ALL SELECT queue_id FROM queue_state.queue_priority_state_pending) c
		WHERE NOT EXISTS (SELECT FROM queue_state.queue q WHERE q.queue_id = c.queue_id)}),
	'0',
	'no counter outlives its queue');

# The books of the queue that was never purged and never dropped.
my $books = q{
	SELECT sum(enqueued_total + dead_letter_redriven_total) =
		   sum(acknowledged_total + expired_never_delivered_total + expired_previously_delivered_total
			   + dead_lettered_total + p.ready + p.in_flight + p.delayed),
		   sum(dead_lettered_total) = sum(dead_letter_redriven_total + dead_letter_purged_total + s.dead_letters),
		   bool_and(delivered_total >= acknowledged_total)
	FROM queue_state.snapshot() s JOIN queue_state.physical_state() p USING (queue_id, priority)
	WHERE s.queue_name = 'steady'};
is($node->safe_psql('postgres', $books),
	't|t|t', 'every message and every dead letter is accounted for');
is( $node->safe_psql(
		'postgres', q{
		SELECT sum(enqueued_total) > 0, sum(acknowledged_total) > 0, sum(dead_lettered_total) > 0,
			   sum(dead_letter_redriven_total) > 0
		FROM queue_state.snapshot() WHERE queue_name = 'steady'}),
	't|t|t|t',
	'everything happened');

cmp_ok($node->safe_psql('postgres', q{SELECT queue_id FROM queue_state.queue WHERE name = 'changing'}),
	'>', 2, 'the other queue was dropped and made again');

# Left alone, maintenance brings the queue to rest.
ok( poll_until(
		sub {
			$node->safe_psql(
				'postgres', q{
				SELECT count(*) FROM queue_state.expire_messages();
				SELECT queue_state.dead_letter_exhausted();
				SELECT count(*) FROM queue_state.queue_message}) =~ /\n0$/;
		}),
	'everything expires in the end');
is($node->safe_psql('postgres', $books), 't|t|t', 'and the books are right');
verify_is_exact($node);

# A thousand dead letters go back while consumers are at work.
my $consume = q{
	WITH delivered AS MATERIALIZED (SELECT * FROM queue_state.dequeue('redriven', 20)),
		 noted AS (INSERT INTO seen SELECT id, delivery_attempts FROM delivered)
	SELECT queue_state.acknowledge_batch(array_agg(id), array_agg(receipt_handle)) FROM delivered;
};
$node->safe_psql(
	'postgres', q{
	CREATE TABLE seen (id uuid, delivery_attempts integer);
	SELECT queue_state.create_queue('redriven', max_delivery_attempts => 1);
	SELECT count(*) FROM queue_state.enqueue_batch('redriven',
		ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 1000) i));
	SELECT count(queue_state.reject(id, receipt_handle)) FROM queue_state.dequeue('redriven', 1000)});
$node->pgbench(
	'-n -c 6 -j 2 -t 50',
	0,
	[qr/processed: 300\/300/],
	[qr/^$/],
	'redrive beside consumers',
	{
		'redrive_hundred@1' => q{SELECT queue_state.redrive_dead_letters('redriven', 100);},
		'consume_redriven@4' => $consume,
	});
$node->safe_psql('postgres', q{SELECT queue_state.redrive_dead_letters('redriven')});
ok( poll_until(
		sub {
			$node->safe_psql('postgres', $consume);
			$node->safe_psql('postgres', 'SELECT count(*) FROM queue_state.queue_message') eq '0';
		}),
	'all are worked off');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), min(delivery_attempts), max(delivery_attempts) FROM seen'),
	'1000|1000|1|1', 'each is delivered once, as its first attempt');
is( $node->safe_psql(
		'postgres', q{
		SELECT sum(enqueued_total), sum(dead_lettered_total), sum(dead_letter_redriven_total),
			   sum(acknowledged_total), sum(dead_letters)
		FROM queue_state.snapshot() WHERE queue_name = 'redriven'}),
	'1000|1000|1000|1000|0',
	'and counted once');
verify_is_exact($node);

done_testing();

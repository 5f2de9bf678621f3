#-------------------------------------------------------------------------
#
# MixedMessages.pm
#	  Queues with messages in every state, for the tests of what happens to
#	  whole databases: dump, crash, replication, upgrade.
#
#	mix_messages($node, 'postgres');	# the extension is there already
#	my $before = queue_contents($node, 'postgres');
#	...
#	is_deeply(queue_contents($other, 'postgres'), $before, 'same rows');
#
#-------------------------------------------------------------------------

package MixedMessages;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(mix_messages queue_contents event_totals);

# 1,000 live messages in three queues: READY of each priority, some of them
# expired; leases alive, elapsed and exhausted; DELAYED, some of them due; and
# 80 dead letters, 50 inbox rows.  Values are chosen to be awkward to quote.
my $mixture = <<'END_OF_SQL';
SELECT queue_state.create_queue('orders', max_delivery_attempts => 1);
SELECT queue_state.create_queue('mail.outbound', visibility_timeout => '1 hour');
SELECT queue_state.create_queue('quiet');

SELECT count(*)
	FROM (VALUES ('orders'), ('mail.outbound')) AS q (name),
		unnest(enum_range(NULL::queue_state.message_priority)) AS p (priority),
		queue_state.enqueue_batch(q.name,
			ARRAY(SELECT jsonb_build_object('n', n, 'text',
						E'tab\t newline\n back\\slash "double" ''single'' \\. grün ' || n)
				FROM generate_series(1, 150) AS n),
			p.priority,
			headers => ARRAY(SELECT CASE WHEN n % 2 = 0 THEN jsonb_build_object('trace', n) END
				FROM generate_series(1, 150) AS n));
SELECT count(queue_state.enqueue('orders', to_jsonb(n), 'LOW', delay => '1 hour'))
	FROM generate_series(1, 60) AS n;
SELECT count(queue_state.enqueue('mail.outbound', 'null', deduplication_key => E'key \\ ' || n))
	FROM generate_series(1, 120) AS n;

-- live leases; 40 messages go back and wait, 80 become dead letters
SELECT count(*) FROM queue_state.dequeue('mail.outbound', 100);
SELECT count(queue_state.nack(d.id, d.receipt_handle, '2 hours', E'not\tnow'))
	FROM queue_state.dequeue('mail.outbound', 40) AS d;
SELECT count(queue_state.reject(d.id, d.receipt_handle, 'unreadable'))
	FROM queue_state.dequeue('mail.outbound', 50) AS d;
SELECT count(queue_state.nack(d.id, d.receipt_handle, error => 'the last attempt'))
	FROM queue_state.dequeue('orders', 30) AS d;
SELECT count(*) FROM queue_state.dequeue('orders', 70);

-- time passes
UPDATE queue_state.queue_message SET expires_at = clock_timestamp() - interval '1 minute'
	WHERE state = 'READY' AND (payload ->> 'n')::int % 10 = 3;
UPDATE queue_state.queue_message SET available_after = clock_timestamp() - interval '1 minute'
	WHERE state = 'DELAYED' AND queue_state.message_shard(id) % 3 = 0;
UPDATE queue_state.queue_message SET available_after = clock_timestamp() - interval '1 minute'
	WHERE state = 'IN_FLIGHT' AND queue_state.message_shard(id) % 4 = 0;

SELECT count(queue_state.process_once(E'bill\\ing', m.id))
	FROM (SELECT id FROM queue_state.queue_message ORDER BY id LIMIT 50) AS m;
SELECT queue_state.pause_queue('quiet');
END_OF_SQL

sub mix_messages
{
	my ($node, $database) = @_;
	$node->safe_psql($database, $mixture);
	my $live = $node->safe_psql($database,
		'SELECT count(*) FROM queue_state.queue_message');
	my $dead = $node->safe_psql($database,
		'SELECT count(*) FROM queue_state.queue_dead_letter_message');
	die "$live messages, $dead dead letters" if $live != 1000 || $dead != 80;
	return;
}

# { table => all of its rows as one text, state => what physical_state() says,
# columns => { table => those that were read } }.  With the result of an
# earlier call, the columns of that time: an upgrade may add others.
sub queue_contents
{
	my ($node, $database, $earlier) = @_;
	my %contents;

	foreach my $table (
		qw(queue queue_message queue_dead_letter_message inbox))
	{
		my $columns =
			$earlier
		  ? $earlier->{columns}{$table}
		  : $node->safe_psql($database, <<"END_OF_SQL");
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
	WHERE attrelid = 'queue_state.$table'::regclass AND attnum > 0 AND NOT attisdropped
END_OF_SQL
		$contents{columns}{$table} = $columns;
		$contents{$table} = $node->safe_psql($database,
			"SELECT row FROM (SELECT ROW ($columns)::text FROM queue_state.$table) AS r (row) ORDER BY row COLLATE \"C\"");
	}
	$contents{state} = $node->safe_psql($database,
		'SELECT * FROM queue_state.physical_state() ORDER BY queue_id, priority');
	return \%contents;
}

# "enqueued,delivered,acknowledged,..." over all queues
sub event_totals
{
	my ($node, $database) = @_;
	return $node->safe_psql($database, <<'END_OF_SQL');
SELECT concat_ws(',', sum(enqueued_total), sum(delivered_total), sum(acknowledged_total),
		sum(expired_never_delivered_total), sum(expired_previously_delivered_total),
		sum(dead_lettered_total), sum(dead_letter_purged_total),
		sum(dead_letter_redriven_total))
	FROM queue_state.snapshot()
END_OF_SQL
}

1;

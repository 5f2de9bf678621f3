#-------------------------------------------------------------------------
#
# oracle.pl
#	  The library against the oracle of test/oracle/: both are given the same
#	  few thousand random statements, in two databases, and must count the
#	  same all the time.
#
# The seed is printed.  QS_TEST_SEED=N repeats a run, QS_TEST_STATEMENTS=N says
# how long it is.
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{QS_TEST_SEED} || (time ^ $$) % 1000000;
my $statements = $ENV{QS_TEST_STATEMENTS} || 3000;
srand($seed);
diag("QS_TEST_SEED=$seed") if $ENV{QS_TEST_SEED};
note("QS_TEST_SEED=$seed");

my $node = queue_node('oracle', database => 'library', conf => "fsync = off\n");
$node->safe_psql('postgres', 'CREATE DATABASE oracle');
$node->safe_psql('oracle', 'CREATE EXTENSION queue_state');
$node->safe_psql('oracle', slurp_file("$FindBin::Bin/../oracle/counting.sql"));

# Few ids, so that statements meet the same rows again and again; shards 0-31.
my $ids = 150;
my @queues = (1 .. 4);

sub pick { return $_[ rand @_ ]; }
sub id { return sprintf("'00000000-0000-4000-8000-%012x'", 1 + rand $ids); }
sub queue { return pick(@queues); }
sub priority { return pick("'LOW'", "'MEDIUM'", "'HIGH'"); }
sub state { return pick("'READY'", "'READY'", "'IN_FLIGHT'", "'DELAYED'"); }

# The same in both databases: no clock and no random() decides which rows.
sub condition
{
	return pick(
		sub { 'id = ' . id() },
		sub { 'id = ' . id() },
		sub { 'id IN (' . join(', ', map { id() } 1 .. 8) . ')' },
		sub { 'queue_id = ' . queue() . ' AND priority = ' . priority() . ' AND state = ' . state() },
		sub { 'priority = ' . priority() . ' AND id < ' . id() },
		sub { 'delivery_attempts % ' . int(2 + rand 5) . ' = 0 AND queue_id = ' . queue() },
		sub { 'false' },
		sub { 'true' })->();
}

sub assignment
{
	return join(', ', pick(
		sub { 'state = ' . state() },
		sub { 'state = ' . state() . ', available_after = now()' },
		sub { 'priority = ' . priority() },
		sub { 'queue_id = ' . queue() },
		sub { 'queue_id = 1 + queue_id % 4, priority = ' . priority() . ', state = ' . state() },
		# an id that is taken, or given to two rows, is an error for both
		sub { 'id = ' . id() },
		sub { 'delivery_attempts = delivery_attempts + 1' },
		sub { "payload = '" . int(rand 100) . "', headers = '{}', last_error = NULL, deduplication_key = NULL" },
		sub { "expires_at = now(), enqueued_at = now(), last_delivered_at = now(), receipt_handle = id" })->());
}

sub row { return '(' . join(', ', id(), queue(), priority(), state(), int(rand 20)) . ')'; }
sub rows { return join(', ', map { row() } 1 .. 1 + rand 6); }

my $columns = '(id, queue_id, priority, state, delivery_attempts)';
my $message = 'queue_state.queue_message';
my $dead = 'queue_state.queue_dead_letter_message';
my $dead_columns = "$dead (id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)";

my %statement = (
	insert => sub { "INSERT INTO $message $columns VALUES " . rows() },
	insert_do_nothing => sub { "INSERT INTO $message $columns VALUES " . rows() . ' ON CONFLICT DO NOTHING' },
	insert_wrong => sub { "INSERT INTO $message $columns VALUES " . row() . ", ('00000000-0000-4000-8000-00000000ffff', 99, 'LOW', 'READY', 0)" },
	update => sub { "UPDATE $message SET " . assignment() . ' WHERE ' . condition() },
	update_id => sub { "UPDATE $message SET id = " . id() . ' WHERE id = ' . id() },
	delete => sub { "DELETE FROM $message WHERE " . condition() . ' AND ' . condition() },
	upsert => sub { "INSERT INTO $message $columns VALUES " . row()
		. ' ON CONFLICT (id) DO UPDATE SET queue_id = excluded.queue_id, priority = ' . priority() . ', state = excluded.state'
		. pick('', " WHERE queue_message.state <> 'DELAYED'") },
	merge => sub { "MERGE INTO $message m USING (SELECT DISTINCT ON (id) * FROM (VALUES " . rows() . ') v (id, queue_id, priority, state, n)) s'
		. ' ON m.id = s.id::uuid'
		. ' WHEN MATCHED AND s.n % 3 = 0 THEN DELETE'
		. ' WHEN MATCHED AND s.n % 3 = 1 THEN UPDATE SET state = ' . state() . ', priority = s.priority::queue_state.message_priority'
		. ' WHEN MATCHED THEN DO NOTHING'
		. ' WHEN NOT MATCHED THEN INSERT ' . $columns
		. ' VALUES (s.id::uuid, s.queue_id, s.priority::queue_state.message_priority, s.state::queue_state.message_state, s.n)' },
	copy => sub { "COPY $message $columns FROM STDIN;\n"
		. join('', map { (row() =~ s/[()']//gr =~ s/, /\t/gr) . "\n" } 1 .. 1 + rand 4) . '\.' },
	cte_move => sub { "WITH gone AS (DELETE FROM $message WHERE " . condition() . ' AND id < ' . id() . ' RETURNING *)'
		. " INSERT INTO $dead_columns SELECT id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, 'REJECTED', payload FROM gone" },
	cte_twice => sub { "WITH one AS (UPDATE $message SET " . assignment() . " WHERE state = 'READY' RETURNING id)"
		. " UPDATE $message SET state = " . state() . " WHERE state = 'DELAYED' AND EXISTS (SELECT FROM one)" },
	dead_back => sub { "WITH back AS (DELETE FROM $dead WHERE " . ('id < ' . id()) . ' RETURNING *)'
		. " INSERT INTO $message $columns SELECT id, queue_id, priority, 'READY', 0 FROM back ON CONFLICT (id) DO UPDATE SET state = 'READY'" },
	dead_update => sub { "UPDATE $dead SET " . pick('priority = ' . priority(), 'queue_id = ' . queue(), 'id = ' . id(), "last_error = 'x'")
		. ' WHERE id = ' . id() },
	dead_delete => sub { "DELETE FROM $dead WHERE id IN (" . join(', ', map { id() } 1 .. 20) . ')' },
	block => sub { "DO \$\$ BEGIN UPDATE $message SET " . assignment() . ' WHERE ' . condition()
		. "; BEGIN DELETE FROM $message WHERE " . condition() . '; ' . pick('RAISE EXCEPTION USING MESSAGE = \'no\'', 'NULL')
		. "; EXCEPTION WHEN OTHERS THEN INSERT INTO $message $columns VALUES " . row() . ' ON CONFLICT DO NOTHING; END; END $$' },
	queue_again => sub { my $queue = queue(); "DELETE FROM queue_state.queue WHERE queue_id = $queue;\nINSERT INTO queue_state.queue (queue_id, name) VALUES ($queue, 'q$queue') ON CONFLICT DO NOTHING" },
	truncate => sub { 'TRUNCATE ' . pick($message, $dead, "$message, $dead") },
	fold => sub { 'SELECT queue_state.fold_pending() >= 0' },
	rebuild => sub { 'SELECT queue_state.rebuild()' },
);
my %weight = (
	insert => 12, insert_do_nothing => 12, update => 30, delete => 6, upsert => 12, merge => 12, copy => 6,
	cte_move => 4, dead_back => 4, block => 6, queue_again => 0.4, truncate => 0.4, fold => 1, rebuild => 1);
my @kinds = sort keys %statement;
my $all = 0;
$all += ($weight{$_} // 2) foreach @kinds;

my %used;

sub random_statement
{
	my $point = rand $all;
	foreach my $kind (@kinds)
	{
		$point -= $weight{$kind} // 2;
		next if $point > 0;
		$used{$kind}++;
		my $text = $statement{$kind}->();
		# so that both must also fail alike
		return $text . ($kind eq 'copy' ? '' : ';') . "\n\\echo :SQLSTATE";
	}
	return 'SELECT 1;';
}

# Everything that is counted, and the messages themselves.
my $look = q{
SELECT r.queue_id, r.priority, r.shard, sum(r.ready), sum(r.in_flight), sum(r.delayed), sum(r.dead_letters)
	FROM queue_state.rollup_by_shard() r
	GROUP BY 1, 2, 3 HAVING (sum(r.ready), sum(r.in_flight), sum(r.delayed), sum(r.dead_letters)) <> (0, 0, 0, 0) ORDER BY 1, 2, 3;
SELECT p.queue_id, p.priority, p.ready, p.in_flight, p.delayed, p.dead_letters FROM queue_state.physical_state() p;
SELECT count(*), md5(string_agg(concat_ws(' ', id, queue_id, priority, state, delivery_attempts), ',' ORDER BY id))
	FROM queue_state.queue_message;
SELECT 'drift', * FROM queue_state.verify();
};

# A transaction with nested savepoints, some of them rolled back; statements
# that fail are rolled back alone by psql's ON_ERROR_ROLLBACK.
sub random_transaction
{
	my @open;
	my $text = "BEGIN;\n";
	for (1 .. 2 + rand 12)
	{
		my $what = rand;
		if ($what < 0.15)
		{
			push @open, 's' . @open;
			$text .= "SAVEPOINT $open[-1];\n";
		}
		elsif ($what < 0.25 && @open)
		{
			my $to = int rand @open;
			$text .= "RELEASE SAVEPOINT $open[$to];\n";
			splice @open, $to;
		}
		elsif ($what < 0.35 && @open)
		{
			my $to = int rand @open;
			$text .= "ROLLBACK TO SAVEPOINT $open[$to];\n";
			splice @open, $to + 1;
		}
		else
		{
			$text .= random_statement() . "\n";
			$text .= $look if rand() < 0.1;
			$statements--;
		}
	}
	return $text . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
}

$node->safe_psql($_, q{INSERT INTO queue_state.queue (queue_id, name) SELECT n, 'q' || n FROM generate_series(1, 4) n})
  foreach 'library', 'oracle';

my $batches = 0;
while ($statements > 0)
{
	my $text = "\\set ON_ERROR_ROLLBACK on\n\\set VERBOSITY sqlstate\n\\set SHOW_CONTEXT never\nSET client_min_messages = error;\n";
	for (1 .. 20)
	{
		if (rand() < 0.5)
		{
			$text .= random_statement() . "\n";
			$statements--;
		}
		else
		{
			$text .= random_transaction();
		}
		$text .= $look;
	}

	my %answer;
	foreach my $database ('library', 'oracle')
	{
		my ($status, $out, $err) = $node->psql($database, $text, on_error_stop => 0, extra_params => ['--echo-all']);
		$answer{$database} = $out;
	}
	$batches++;
	next if $answer{library} eq $answer{oracle} && $answer{library} !~ /^drift/m;

		foreach my $database (sort keys %answer)
	{
		open my $file, '>', "$PostgreSQL::Test::Utils::log_path/oracle_$database.txt";
		print $file $answer{$database};
		close $file;
	}
	open my $file, '>', "$PostgreSQL::Test::Utils::log_path/oracle_statements.sql";
	print $file $text;
	close $file;
	fail("batch $batches: library and oracle count the same");
	diag("QS_TEST_SEED=$seed; the statements and both answers are oracle_* in $PostgreSQL::Test::Utils::log_path");
	last;
}

ok($batches > 0 && $statements <= 0, 'all statements were run');
is(join(' ', grep { !$used{$_} } @kinds), '', 'every kind of statement was among them');
note(join(', ', map { "$used{$_} $_" } @kinds));
my $last = $node->safe_psql('library', $look);
is($last, $node->safe_psql('oracle', $look), "library and oracle count the same (QS_TEST_SEED=$seed)");
like($last, qr/^[1-4]\|(LOW|MEDIUM|HIGH)\|\d+\|\d+/m, 'there is something to count');
verify_is_exact($node, 'the library is exact', 'library');
verify_is_exact($node, 'the oracle is exact', 'oracle');
$node->stop;
done_testing();

#-------------------------------------------------------------------------
#
# dump_restore.pl
#	  A dump holds the messages and not the counters; restoring it counts them
#	  again.  Every way of dumping and restoring gives back the same rows and an
#	  exact rollup, and says nothing on the way.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use IPC::Run;
use MixedMessages;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $node = queue_node('main', database => 'source', conf => "max_prepared_transactions = 2\n");
my $directory = PostgreSQL::Test::Utils::tempdir;

# The programs of this node's installation, connected to it.
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;

# runs_silently(TEST NAME, COMMAND ...): succeeds and has nothing to say
sub runs_silently
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($name, @command) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err);
	is("$? $err", '0 ', $name);
	return $out;
}

my $databases = 0;

# An empty database; its name.
sub new_database
{
	my ($statement) = @_;
	my $name = 'target' . ++$databases;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, $statement) if $statement;
	return $name;
}

my $before;

# restored_exactly(DATABASE, HOW)
sub restored_exactly
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($database, $how) = @_;

	is_deeply(queue_contents($node, $database), $before, "$how: same rows");
	verify_is_exact($node, "$how: exact rollup", $database);
	is( $node->safe_psql(
			$database, <<'END_OF_SQL'),
SELECT (queue_state.create_queue('one-more')).queue_id > max(queue_id) FROM queue_state.queue
END_OF_SQL
		't',
		"$how: the next queue gets an id of its own");
	$node->safe_psql(
		$database, <<'END_OF_SQL');
SELECT queue_state.enqueue('orders', '1');
SELECT count(queue_state.acknowledge(id, receipt_handle)) FROM queue_state.dequeue('orders', 5);
SELECT * FROM queue_state.expire_messages();
SELECT queue_state.dead_letter_exhausted();
SELECT count(*) FROM queue_state.redrive_dead_letters('orders', 10);
SELECT queue_state.drop_queue('mail.outbound', discard_messages => true);
END_OF_SQL
	verify_is_exact($node, "$how: exact after more work", $database);
	return;
}

my @psql = qw(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --output /dev/null);

mix_messages($node, 'source');
$node->safe_psql(
	'source', <<'END_OF_SQL');
CREATE ROLE producer LOGIN;
GRANT USAGE ON SCHEMA queue_state TO producer;
GRANT EXECUTE ON FUNCTION queue_state.enqueue(text, jsonb, queue_state.message_priority,
	interval, interval, jsonb, text) TO producer;
END_OF_SQL
verify_is_exact($node, 'the source is exact', 'source');
$before = queue_contents($node, 'source');

# Whole databases

my $plain = "$directory/plain.sql";
runs_silently('pg_dump, plain', 'pg_dump', '--file', $plain, 'source');
unlike(slurp_file($plain), qr/^COPY queue_state\.queue_priority_state/m,
	'the rollup is not dumped');
my $target = new_database;
runs_silently('psql of a plain dump', @psql, '--file', $plain, $target);
restored_exactly($target, 'plain');
is( $node->safe_psql(
		$target,
		"SELECT queue_state.enqueue('orders', '1') IS NOT NULL",
		extra_params => [ '--username', 'producer' ]),
	't',
	'plain: privileges on the functions are restored');

# psql reads a whole dump in one transaction, too
$target = new_database;
runs_silently('psql in one transaction', @psql, '--single-transaction', '--file', $plain, $target);
restored_exactly($target, 'one transaction');

runs_silently('pg_dump, custom', 'pg_dump', '--format=custom', '--file', "$directory/custom", 'source');
$target = new_database;
runs_silently('pg_restore', 'pg_restore', '--exit-on-error', '--dbname', $target, "$directory/custom");
restored_exactly($target, 'custom');

runs_silently('pg_dump, directory, 4 jobs', 'pg_dump', '--format=directory', '--jobs=4',
	'--file', "$directory/directory", 'source');
$target = new_database;
runs_silently('pg_restore, 4 jobs', 'pg_restore', '--exit-on-error', '--jobs=4', '--dbname', $target,
	"$directory/directory");
restored_exactly($target, 'directory');

# The order of a parallel restore is anybody's guess; here is every one of them

my $load_queue = "INSERT INTO queue_state.queue (queue_id, name) VALUES (7, 'late')";
my $load_message = q{COPY queue_state.queue_message (queue_id) FROM PROGRAM 'echo 7'};
my $load_dead_letter = <<'END_OF_SQL';
COPY queue_state.queue_dead_letter_message
	(id, queue_id, priority, delivery_attempts, enqueued_at, expires_at, reason, payload)
	FROM PROGRAM 'echo $(cat /proc/sys/kernel/random/uuid),7,LOW,1,2026-01-01,2027-01-01,REJECTED,1' (FORMAT csv)
END_OF_SQL
my $late_state = <<'END_OF_SQL';
SELECT priority, ready, dead_letters FROM queue_state.physical_state() WHERE queue_name = 'late'
	ORDER BY priority DESC
END_OF_SQL

$target = new_database('CREATE EXTENSION queue_state');
$node->safe_psql($target, "$load_message; $load_dead_letter; $load_message");
$node->safe_psql($target, "$load_message; $load_message");
$node->safe_psql($target,
	'DELETE FROM queue_state.queue_message WHERE id = (SELECT max(id::text)::uuid FROM queue_state.queue_message)');
verify_is_exact($node, 'messages before their queue: exact without it', $target);
$node->safe_psql($target, $load_queue);
is($node->safe_psql($target, $late_state), "HIGH|0|0\nMEDIUM|3|0\nLOW|0|1",
	'messages before their queue: counted');
verify_is_exact($node, 'messages before their queue: exact', $target);
my ($refused, $nothing, $complaint) = $node->psql($target,
	"SELECT queue_state.drop_queue('late', true); $load_message");
like($complaint, qr/violates foreign key constraint "queue_message_queue_id_fkey"/,
	'once there was a queue, a message needs one');
($refused, $nothing, $complaint) = $node->psql($target, $load_dead_letter);
like($complaint, qr/violates foreign key constraint "queue_dead_letter_message_queue_id_fkey"/,
	'and so does a dead letter');
verify_is_exact($node, 'nothing of it was counted', $target);

# messages that are complete while their queue is not
$target = new_database('CREATE EXTENSION queue_state');
$node->safe_psql($target, "BEGIN; $load_queue; PREPARE TRANSACTION 'load'");
my ($message_out, $message_err) = ('', '');
my $loading = IPC::Run::start([ 'psql', '--no-psqlrc', '--quiet', '--command', $load_message, $target ],
	'<', \undef, '>', \$message_out, '2>', \$message_err);
$node->poll_query_until($target, <<'END_OF_SQL') or die 'the message does not wait';
SELECT count(*) = 1 FROM pg_stat_activity
	WHERE datname = current_database() AND wait_event = 'transactionid'
END_OF_SQL
$node->safe_psql($target, "COMMIT PREPARED 'load'");
$loading->finish;
is($message_err, '', 'messages with their queue: accepted');
is($node->safe_psql($target, $late_state), "HIGH|0|0\nMEDIUM|1|0\nLOW|0|0",
	'messages with their queue: counted');
verify_is_exact($node, 'messages with their queue: exact', $target);

# With INSERT statements, one at a time, and into a database whose sessions
# have no search_path to speak of
runs_silently('pg_dump --inserts', 'pg_dump', '--inserts', '--file', "$directory/inserts.sql", 'source');
$target = new_database;
$node->safe_psql('postgres', "ALTER DATABASE $target SET search_path = ''");
runs_silently('psql of INSERTs', @psql, '--file', "$directory/inserts.sql", $target);
restored_exactly($target, 'INSERTs, empty search_path');

# Data into a fresh extension

my $data = "$directory/data.sql";
runs_silently('pg_dump --data-only', 'pg_dump', '--data-only', '--file', $data, 'source');
$target = new_database('CREATE EXTENSION queue_state');
runs_silently('psql of data', @psql, '--file', $data, $target);
restored_exactly($target, 'data only');

# A role that may read everything and is no superuser makes the same dump; one
# that may write everything restores it.  Only CREATE EXTENSION needs more.
$node->safe_psql(
	'source', <<'END_OF_SQL');
CREATE ROLE backup LOGIN;
GRANT pg_read_all_data TO backup;
CREATE ROLE loader LOGIN;
GRANT pg_write_all_data TO loader;
CREATE ROLE application LOGIN;
ALTER DATABASE source OWNER TO application;
GRANT USAGE ON SCHEMA queue_state TO application;
GRANT SELECT ON ALL TABLES IN SCHEMA queue_state TO application;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA queue_state TO application;
END_OF_SQL
runs_silently('pg_dump by pg_read_all_data', 'pg_dump', '--username=backup', '--file',
	"$directory/backup.sql", 'source');
$target = new_database;
runs_silently('psql of it', @psql, '--file', "$directory/backup.sql", $target);
restored_exactly($target, 'dumped by pg_read_all_data');

runs_silently('pg_dump by the owner of the database', 'pg_dump', '--username=application', '--data-only',
	'--file', "$directory/application.sql", 'source');
$target = new_database('CREATE EXTENSION queue_state');
runs_silently('psql by pg_write_all_data', @psql, '--username=loader', '--file',
	"$directory/application.sql", $target);
restored_exactly($target, 'dumped by the owner, loaded by pg_write_all_data');

# The one way that is not counted: it says so, and rebuild() repairs it

runs_silently('pg_dump --disable-triggers', 'pg_dump', '--data-only', '--disable-triggers', '--file',
	"$directory/uncounted.sql", 'source');
$target = new_database('CREATE EXTENSION queue_state');
runs_silently('psql of it', @psql, '--file', "$directory/uncounted.sql", $target);
cmp_ok($node->safe_psql($target, 'SELECT count(*) FROM queue_state.verify()'),
	'>', 0, 'no triggers: verify() shows the drift');
my ($status, $out, $err) = $node->psql($target, <<'END_OF_SQL');
SELECT queue_state.acknowledge(id, receipt_handle) FROM queue_state.queue_message
	WHERE state = 'IN_FLIGHT' AND available_after > clock_timestamp() LIMIT 1
END_OF_SQL
like( $err,
	qr/counter "in_flight_count" of queue "[a-z.]+", priority [A-Z]+ would become negative.*queue_state\.rebuild\(\) repairs it/s,
	'no triggers: an uncounted message cannot go, and the error says what to do');
cmp_ok($node->safe_psql($target, "BEGIN; SELECT queue_state.rebuild(); PREPARE TRANSACTION 'rebuild'"),
	'>', 0, 'no triggers: rebuild() corrects it');
my $drift = $node->safe_psql($target, 'SELECT * FROM queue_state.verify()');
isnt($drift, '', 'but not while it is only prepared');
$node->safe_psql($target, "ROLLBACK PREPARED 'rebuild'");
is($node->safe_psql($target, 'SELECT * FROM queue_state.verify()'), $drift, 'nor when that is rolled back');
$node->safe_psql($target, "BEGIN; SELECT queue_state.rebuild(); PREPARE TRANSACTION 'rebuild'");
$node->safe_psql($target, "COMMIT PREPARED 'rebuild'");
restored_exactly($target, 'no triggers, then rebuild()');

# DISABLE TRIGGER ALL and ENABLE TRIGGER ALL forget which ones were ALWAYS
is( $node->safe_psql($target, <<'END_OF_SQL'),
ALTER TABLE queue_state.queue ENABLE ALWAYS TRIGGER queue_changed;
ALTER TABLE queue_state.queue ENABLE ALWAYS TRIGGER queue_truncated;
SELECT string_agg(tgname || ' ' || tgenabled::text, ', ' ORDER BY tgname) FROM pg_trigger
	WHERE tgname LIKE 'queue\_%' AND tgrelid = 'queue_state.queue'::regclass
END_OF_SQL
	'queue_changed A, queue_truncated A',
	'no triggers: the statements of the guide bring back the ALWAYS triggers');

# What users added to the tables

my $added = <<'END_OF_SQL';
CREATE TABLE public.audit (id uuid, tenant text);
CREATE FUNCTION public.audit_message() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.audit VALUES (NEW.id, NEW.tenant); RETURN NEW; END $$;
END_OF_SQL
my $added_to_table = <<'END_OF_SQL';
ALTER TABLE queue_state.queue_message ADD COLUMN tenant text;
CREATE TRIGGER audit BEFORE INSERT ON queue_state.queue_message
	FOR EACH ROW EXECUTE FUNCTION public.audit_message();
END_OF_SQL
$node->safe_psql('source', $added . $added_to_table);
$node->safe_psql('source', <<'END_OF_SQL');
UPDATE queue_state.queue_message SET tenant = 'acme' WHERE queue_state.message_shard(id) = 7;
SELECT queue_state.enqueue('orders', '"audited"');
END_OF_SQL
$before = queue_contents($node, 'source');

# A dump says CREATE EXTENSION and nothing about what was added to its tables,
# so that comes between its sections.
runs_silently('pg_dump with additions', 'pg_dump', '--format=custom', '--file', "$directory/added", 'source');
$target = new_database;
runs_silently('pg_restore --section=pre-data', 'pg_restore', '--exit-on-error', '--section=pre-data',
	'--dbname', $target, "$directory/added");
$node->safe_psql($target, $added_to_table);
runs_silently('pg_restore of the rest', 'pg_restore', '--exit-on-error', '--section=data',
	'--section=post-data', '--dbname', $target, "$directory/added");
is($node->safe_psql($target, 'SELECT count(*) > 1000 FROM public.audit'),
	't', 'additions: the trigger fired for the restored messages');
restored_exactly($target, 'additions');

# Row-level security hides no message from a dump by a superuser; like the
# column, it has to be set up anew.
$node->safe_psql('source', <<'END_OF_SQL');
ALTER TABLE queue_state.queue_message DROP COLUMN tenant;
DROP TRIGGER audit ON queue_state.queue_message;
ALTER TABLE queue_state.queue_message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY urgent ON queue_state.queue_message USING (priority = 'HIGH');
END_OF_SQL
$before = queue_contents($node, 'source');
runs_silently('pg_dump with policies', 'pg_dump', '--file', "$directory/policies.sql", 'source');
$target = new_database;
runs_silently('psql of it', @psql, '--file', "$directory/policies.sql", $target);
restored_exactly($target, 'policies');

done_testing();

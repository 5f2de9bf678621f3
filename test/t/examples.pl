#-------------------------------------------------------------------------
#
# examples.pl
#	  Runs what the documentation shows: the SQL of docs/sql.md and
#	  docs/patterns.md, and the workers of docs/examples against the same work.
#	  What succeeds is done once and acknowledged, what fails is retried and
#	  ends as a dead letter, poison does so at once, and SIGTERM leaves no lease
#	  behind.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use File::Copy qw(copy);
use FindBin;
use IPC::Run;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

my $examples = "$FindBin::Bin/../../docs/examples";
my $node     = queue_node('main');

# The examples take their connection from these.
$ENV{PGHOST}     = $node->host;
$ENV{PGPORT}     = $node->port;
$ENV{PGDATABASE} = 'postgres';

$node->run_log([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$examples/setup.sql" ]);

# The output of a program, or nothing if it fails or is not there.
sub output_of
{
	my @command = @_;
	my ($out, $err) = ('', '');
	my $worked = eval { IPC::Run::run(\@command, '>', \$out, '2>', \$err) };

	note "@command: $err" unless $worked;
	return $worked ? $out : undef;
}

sub value
{
	return $node->safe_psql('postgres', $_[0]);
}

# The command that starts each worker, and why there is none.
sub psql_worker
{
	return ["$examples/psql/worker.sh"];
}

sub python_worker
{
	# The distribution's psycopg belongs to the distribution's Python.
	foreach my $python ($ENV{PYTHON} || (), 'python3', '/usr/bin/python3')
	{
		return [ $python, "$examples/python/worker.py" ]
		  if defined output_of($python, '-c', 'import psycopg');
	}
	BAIL_OUT('python3-psycopg is missing: scripts/install-packages installs it');
}

sub c_worker
{
	my $flags = output_of('pkg-config', '--cflags', '--libs', 'libpq');
	my $program = PostgreSQL::Test::Utils::tempdir() . '/worker';

	ok( defined output_of(
			$ENV{CC} || 'cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-o', $program,
			"$examples/c/worker.c", split(' ', $flags)),
		'the C worker compiles');
	return [$program];
}

sub node_worker
{
	my $directory = PostgreSQL::Test::Utils::tempdir();

	return 'there is no node' unless defined output_of('node', '--version');
	copy("$examples/node/$_", $directory) foreach ('worker.js', 'package.json');
	# Debian's node finds what Debian's client needs
	if (-d '/usr/share/nodejs/pg')
	{
		mkdir "$directory/node_modules";
		symlink('/usr/share/nodejs/pg', "$directory/node_modules/pg");
		return [ 'node', "$directory/worker.js" ];
	}
	# Its cache may be somebody else's, or not be writable.
	local $ENV{npm_config_cache} = "$directory/cache";
	return 'npm could not install the package pg'
	  unless defined output_of('npm', 'install', '--prefix', $directory,
		'--no-audit', '--no-fund', '--fetch-retries=1', '--fetch-timeout=20000');
	return [ 'node', "$directory/worker.js" ];
}

sub start
{
	my ($command, $log) = @_;

	return IPC::Run::start([ @$command, 'orders' ], '<', \undef, '>', $log, '2>&1');
}

# SIGTERM, and a worker that stops by itself.
sub stop
{
	my ($worker) = @_;

	$worker->signal('TERM');
	$worker->finish;
	return $worker->result(0);
}

sub test_worker
{
	my ($name, $command) = @_;
	my $log = '';

	value('TRUNCATE shipment; SELECT queue_state.purge_queue(\'orders\');');
	value('SELECT count(*) FROM queue_state.purge_dead_letters(\'0 seconds\')');
	value('SELECT queue_state.forget_processed(\'0 seconds\', 100000)');

	# Twenty orders, one that was done before, one that is none, one that fails.
	$node->run_log([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$examples/produce.sql" ]);
	value(q{
		SELECT queue_state.process_once('shipping', queue_state.enqueue('orders', '{"order": 21}'));
		SELECT queue_state.enqueue('orders', '{"note": "no order"}');
		SELECT queue_state.enqueue('orders', '{"order": "many"}');
		SELECT queue_state.enqueue('orders', '{"order": 22}')});

	my $worker = start($command, \$log);
	ok( poll_until(sub { $worker->pumpable && $worker->pump_nb; value('SELECT count(*) FROM queue_state.queue_message') == 0 }),
		"$name: the queue is worked off");
	is(stop($worker), 0, "$name: stops on SIGTERM") or diag $log;
	like($log, qr/stopped\n$/, "$name: and says so");

	# Twenty and order 22.
	is(value('SELECT count(*), min(order_id), max(order_id) FILTER (WHERE order_id <= 20), bool_or(order_id = 21) FROM shipment'),
		'21|1|20|f', "$name: each order is shipped once, and not again what was before");
	is(value('SELECT count(*) FROM shipment WHERE traceparent ~ \'^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$\''),
		'20', "$name: the trace reaches the work");
	like($log, qr/00-0af7651916cd43dd8448eb211c80319c-0000000000000014-01/, "$name: and the log");
	is( value('SELECT reason, delivery_attempts, payload FROM queue_state.queue_dead_letter_message ORDER BY reason'),
		qq{MAX_DELIVERY_ATTEMPTS_EXHAUSTED|2|{"order": "many"}\nREJECTED|1|{"note": "no order"}},
		"$name: what cannot work is a dead letter");
	like( value('SELECT last_error FROM queue_state.queue_dead_letter_message WHERE reason <> \'REJECTED\''),
		qr/many/, "$name: that says why");

	# Stopped in the middle, it leaves nothing leased, and nothing half done.
	value('TRUNCATE shipment');
	value(q{
		SELECT queue_state.update_queue('orders', max_delivery_attempts => 5);
		SELECT count(*) FROM queue_state.enqueue_batch('orders',
			ARRAY(SELECT jsonb_build_object('order', i) FROM generate_series(1, 3000) i))});
	$log    = '';
	$worker = start($command, \$log);
	ok(poll_until(sub { $worker->pump_nb; value('SELECT count(*) FROM shipment') > 0 }),
		"$name: at work");
	is(stop($worker), 0, "$name: stops on SIGTERM in the middle of work") or diag $log;
	is(value("SELECT count(*) FROM queue_state.queue_message WHERE state = 'IN_FLIGHT'"),
		'0', "$name: no lease is left");
	is(value('SELECT (SELECT count(*) FROM shipment) + (SELECT count(*) FROM queue_state.queue_message)'),
		'3000', "$name: each order is shipped or still there");
	value(q{SELECT queue_state.update_queue('orders', max_delivery_attempts => 2)});
	verify_is_exact($node, "$name: the rollup is exact");
}

# The SQL blocks of a page, in one session from top to bottom.
sub test_page
{
	my ($page) = @_;
	my $text     = slurp_file("$FindBin::Bin/../../docs/$page.md");
	my $database = "docs_$page";

	value("CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION queue_state');
	my $sql = join('', $text =~ /^```sql\n(.*?)^```$/msg);
	my ($status, $out, $err) = $node->psql($database, $sql, extra_params => [ '-v', 'ON_ERROR_STOP=1' ]);
	is("$status:$err", '0:', "$page.md: its SQL runs");
	verify_is_exact($node, "$page.md: the rollup is exact", $database);
	return ($text, $out);
}

my ($reference) = test_page('sql');
foreach my $function (
	split /\n/, value(q{
		SELECT DISTINCT proname FROM pg_proc
		WHERE pronamespace = 'queue_state'::regnamespace
			AND obj_description(oid, 'pg_proc') !~ '^(internal|trigger):'
		ORDER BY 1}))
{
	like($reference, qr/^### (.*, )?\Q$function\E(,.*)?$/m, "sql.md: describes $function()");
}
my (undef, $patterns) = test_page('patterns');
like($patterns, qr/"original-enqueued-at": "[0-9T:.-]+Z"/, 'patterns.md: shows the headers after a redrive');

test_worker('psql',   psql_worker());
test_worker('Python', python_worker());
test_worker('C',      c_worker());

SKIP:
{
	my $command = node_worker();

	skip($command, 1) unless ref $command;
	test_worker('Node', $command);
}

done_testing();

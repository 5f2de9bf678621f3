#-------------------------------------------------------------------------
#
# collector_faults.pl
#	  What the collector does when a refresh fails, for each way it can fail
#	  and each thing it can be told to do then; and how it ends.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use CollectorPair;
use Fcntl qw(F_GETPIPE_SZ F_SETPIPE_SZ);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = queue_node('main');
$node->safe_psql('postgres', q{
	SELECT queue_state.create_queue('mail');
	SELECT count(*) FROM queue_state.enqueue_batch('mail', array_fill('{}'::jsonb, ARRAY[7]));
	CREATE ROLE reader LOGIN});

my @short = @CollectorPair::short;
my $as_reader = '--database.conninfo=' . $node->connstr('postgres') . ' user=reader';

sub failures
{
	my ($collector, $reason) = @_;
	return $collector->metrics->{"queue_state_collection_failures_total{reason=\"$reason\"}"};
}

sub start_leader
{
	my ($name, @flags) = @_;
	my $collector = start_collector($node, $name, @short, @flags);
	ok(poll_until(sub { CollectorPair::exports($collector) }, 30), "$name: leads")
	  or diag($collector->log_text);
	return $collector;
}

# A function of the extension replaced by BODY until restore_function().
sub replace_snapshot
{
	my ($body) = @_;
	$node->safe_psql('postgres', qq{
		ALTER FUNCTION queue_state.snapshot() RENAME TO snapshot_really;
		CREATE FUNCTION queue_state.snapshot() RETURNS TABLE (queue_id int, queue_name text, priority text,
			ready bigint, in_flight bigint, delayed bigint, exhausted bigint, expired_backlog bigint,
			elapsed_backlog bigint, dead_letters bigint, oldest_ready_age_seconds float8,
			oldest_in_flight_age_seconds float8, enqueued_total bigint, delivered_total bigint,
			acknowledged_total bigint, expired_never_delivered_total bigint,
			expired_previously_delivered_total bigint, dead_lettered_total bigint,
			dead_letter_purged_total bigint, dead_letter_redriven_total bigint)
		LANGUAGE sql AS \$\$ $body \$\$});
	return;
}

sub restore_snapshot
{
	$node->safe_psql('postgres', q{
		DROP FUNCTION queue_state.snapshot();
		ALTER FUNCTION queue_state.snapshot_really() RENAME TO snapshot});
	return;
}

# One row a priority, with these expressions for priority and ready.
sub rows
{
	my ($priority, $ready) = @_;
	return "SELECT 1, 'mail', $priority, $ready, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0 "
	  . "FROM unnest('{HIGH,MEDIUM,LOW}'::text[]) p";
}

# Permission

my $reader = start_collector($node, 'reader', @short, $as_reader);
ok(poll_until(sub { $reader->log_text =~ /may not execute queue_state\.snapshot\(\).*GRANT pg_monitor/ }, 20),
	'permission denied: says so, with the fix');
cmp_ok(failures($reader, 'permission'), '>=', 1, 'permission denied: counted');
is($reader->metrics->{queue_state_collector_database_up}, 1, 'permission denied: the database is up');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0',
	'permission denied: no lease taken');
$node->safe_psql('postgres', 'GRANT pg_monitor TO reader');
ok(poll_until(sub { CollectorPair::exports($reader) }, 20), 'granted: leads without a restart');
my $metrics = $reader->metrics;
is($metrics->{'queue_messages_ready{queue_name="mail",message_priority="MEDIUM"}'}, 7, 'pg_monitor is enough to read');
is($metrics->{queue_state_pending_rows} =~ /^\d+$/, 1, 'and to count the pending rows');
ok(poll_until(sub { ($reader->metrics->{queue_state_drift} // -1) == 0 }, 20), 'and to verify');
is(scalar(() = $reader->log_text =~ /pending rows are not folded/g), 1, 'that it may not fold is said once');
ok(poll_until(sub { $reader->log_text =~ /maintenance is incomplete.*expire_messages/ }, 20),
	'so is that it may not maintain');
my $collections = $reader->metrics->{queue_state_collections_total};
ok(poll_until(sub { $reader->metrics->{queue_state_collections_total} > $collections + 2 }, 20), 'the collection goes on');
is(scalar(() = $reader->log_text =~ /pending rows are not folded|maintenance is incomplete/g), 2, 'and both stay one line');
is($reader->stop, 0, 'it ends');

# The extension's version

$node->safe_psql('postgres', q{UPDATE pg_extension SET extversion = '99.0' WHERE extname = 'queue_state'});
my $old = start_collector($node, 'old', @short);
ok(poll_until(sub { $old->log_text =~ /is version 99\.0, this collector is/ }, 20), 'wrong major version: says so');
cmp_ok(failures($old, 'schema'), '>=', 1, 'wrong major version: counted');
is(CollectorPair::exports($old), 0, 'wrong major version: exports nothing');
my $version = $node->safe_psql('postgres',
	q{SELECT default_version FROM pg_available_extensions WHERE name = 'queue_state'});
$node->safe_psql('postgres', qq{UPDATE pg_extension SET extversion = '$version' WHERE extname = 'queue_state'});
ok(poll_until(sub { CollectorPair::exports($old) }, 20), 'right version: leads without a restart');
is($old->stop, 0, 'it ends');

# A lock on the messages, with --collector.on-failure=exit

my $waiting = start_leader('waiting');
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE queue_state.queue_message IN ACCESS EXCLUSIVE MODE');
my $most = 0;
poll_until(sub {
	my $count = $node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_stat_activity
		WHERE application_name LIKE 'retsu-collector leader%' AND state = 'active'});
	$most = $count if $count > $most;
	return !$waiting->is_running;
}, 20);
is($waiting->wait_for_exit(20), 75, 'lock wait, on-failure=exit: ends with status 75');
cmp_ok($most, '<=', 1, 'lock wait: never two queries at once');
like($waiting->log_text, qr/a refresh failed.*lock timeout/, 'lock wait: says why');
like($waiting->log_text, qr/no longer the leader.*reason=refresh/, 'lock wait: and that it does not lead');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0',
	'lock wait: the lease is free');

# The same with demote: it stays, and recovers.

my $demoted = start_collector($node, 'demoted', @short, '--collector.on-failure=demote');
ok(poll_until(sub { failures($demoted, 'timeout') >= 2 }, 30), 'lock wait, on-failure=demote: fails again and again');
is($demoted->is_running, 1, 'demote: lives on');
cmp_ok($demoted->metrics->{'queue_state_collector_lease_losses_total{reason="refresh"}'}, '>=', 1, 'demote: steps down each time');
cmp_ok($demoted->metrics->{'queue_state_collection_duration_seconds_count{outcome="failure"}'}, '>=', 1,
	'demote: the duration of the attempt is recorded');
$locker->query_safe('COMMIT');
$locker->quit;
ok(poll_until(sub { CollectorPair::exports($demoted) }, 20), 'demote: leads again once it can');
is($demoted->stop, 0, 'it ends');

# A query that does not come back: the server ends it, and there is never a second.

{
	my $collector = start_leader('hung');
	my $running = q{
		SELECT count(*) FROM pg_stat_activity
		WHERE application_name LIKE 'retsu-collector leader%' AND state = 'active'
			AND query LIKE '%snapshot%'};
	replace_snapshot(rows('p', '(SELECT 1 FROM pg_sleep(60))'));
	ok(poll_until(sub { $node->safe_psql('postgres', $running) eq '1' }, 20), 'hung query: it runs');
	my $highest = 1;
	poll_until(sub {
		my $count = $node->safe_psql('postgres', $running);
		$highest = $count if $count > $highest;
		return !$collector->is_running;
	}, 20);
	is($collector->wait_for_exit(20), 75, 'hung query: ends with status 75');
	is($highest, 1, 'hung query: never two queries at once');
	like($collector->log_text, qr/a refresh failed.*statement timeout/, 'hung query: says why');
	restore_snapshot();
}

# Values that cannot be true: the whole snapshot is refused.

foreach my $case (
	[ 'a negative count', rows('p', "CASE p WHEN 'LOW' THEN -1 ELSE 5 END") ],
	[ 'NULL', rows('p', "CASE p WHEN 'LOW' THEN NULL ELSE 5 END::bigint") ],
	[ 'an unknown priority', rows("CASE p WHEN 'LOW' THEN 'URGENT' ELSE p END", 5) ])
{
	my ($what, $body) = @$case;
	my $collector = start_leader($what =~ s/ /_/gr, '--collector.on-failure=demote');
	replace_snapshot($body);
	ok(poll_until(sub { failures($collector, 'negative_count') >= 1 }, 20), "$what: counted as negative_count");
	ok(poll_until(sub { !CollectorPair::exports($collector) }, 20), "$what: nothing is exported");
	unlike(($collector->get('/metrics'))[1], qr/queue_messages_/, "$what: not one line");
	like($collector->log_text, qr/a refresh failed.*mail/, "$what: the log names the queue");
	restore_snapshot();
	ok(poll_until(sub { CollectorPair::exports($collector) }, 20), "$what: leads again afterwards");
	is($collector->stop, 0, "$what: it ends");
}

# A sum that the extension itself refuses

{
	my $collector = start_leader('refused', $as_reader, '--collector.on-failure=demote');
	$node->safe_psql('postgres', q{
		INSERT INTO queue_state.queue_priority_state_pending
		SELECT queue_id, 'LOW', 0, -5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM queue_state.queue});
	ok(poll_until(sub { failures($collector, 'negative_count') >= 1 }, 20),
		'a negative sum: the error 23514 is counted as negative_count');
	is(CollectorPair::exports($collector), 0, 'a negative sum: nothing is exported');
	$node->safe_psql('postgres', q{DELETE FROM queue_state.queue_priority_state_pending WHERE ready_count = -5});
	ok(poll_until(sub { CollectorPair::exports($collector) }, 20), 'a negative sum: leads again afterwards');
	is($collector->stop, 0, 'it ends');
}

# Drift that verify() finds

{
	my $collector = start_leader('drift', '--collector.on-failure=demote', '--maintenance.verify-interval=500ms');
	$node->safe_psql('postgres', q{
		SET session_replication_role = replica;
		CREATE TABLE saved AS SELECT * FROM queue_state.queue_message;
		DELETE FROM queue_state.queue_message});
	ok(poll_until(sub { $collector->metrics->{queue_state_drift} }, 20), 'drift: verify() finds it, the metric tells');
	like($collector->log_text, qr/the counters disagree with the messages.*mail.*rebuild/, 'drift: and the log');
	$node->safe_psql('postgres', q{
		SET session_replication_role = replica;
		INSERT INTO queue_state.queue_message SELECT * FROM saved;
		DROP TABLE saved});
	ok(poll_until(sub { ($collector->metrics->{queue_state_drift} // -1) == 0 }, 20), 'drift: gone again');
	is($collector->stop, 0, 'it ends');
}

# No memory for a new snapshot: the old one stays, and so does the lease.

{
	my $collector = start_leader('starved', '--collector.snapshot-max-age=60s');
	my $size = slurp_file('/proc/' . $collector->pid . '/status') =~ /^VmData:\s+(\d+) kB/m ? $1 : 0;
	system_or_bail('prlimit', '--pid', $collector->pid, '--data=' . ($size + 1024) * 1024);
	replace_snapshot("SELECT q, 'queue' || q, p, 1, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0 "
		  . "FROM generate_series(1, 3000) q, unnest('{HIGH,MEDIUM,LOW}'::text[]) p");
	ok(poll_until(sub { failures($collector, 'resource') >= 2 }, 20), 'no memory: counted as resource');
	my $metrics = $collector->metrics;
	is($metrics->{queue_state_snapshot_queues}, 1, 'no memory: the old snapshot is still served');
	is($metrics->{queue_state_collector_leader}, 1, 'no memory: it still leads');
	restore_snapshot();
	my $collections = $metrics->{'queue_state_collection_duration_seconds_count{outcome="success"}'};
	ok(poll_until(sub {
			$collector->metrics->{'queue_state_collection_duration_seconds_count{outcome="success"}'} > $collections + 1;
		}, 20), 'no memory: refreshes succeed again when there is less to read');
	is($collector->stop, 0, 'it ends');
}

# Event totals that go back, as after a restore

{
	my $collector = start_leader('restored');
	my $series = 'queue_messages_enqueued_total{queue_name="mail",message_priority="MEDIUM"}';
	is($collector->metrics->{$series}, 7, 'regression: the total before');
	$node->safe_psql('postgres', q{UPDATE queue_state.queue_priority_state_shard SET enqueued = 0});
	ok(poll_until(sub { ($collector->metrics->{queue_state_event_regressions_total} // 0) >= 1 }, 20), 'regression: counted');
	is($collector->metrics->{$series}, 7, 'regression: the old value is exported');
	like($collector->log_text, qr/event totals are lower than exported before/, 'regression: logged');
	$node->safe_psql('postgres', q{
		SELECT count(*) FROM queue_state.enqueue_batch('mail', array_fill('{}'::jsonb, ARRAY[9]))});
	ok(poll_until(sub { $collector->metrics->{$series} == 9 }, 20), 'regression: until it is overtaken');
	is($collector->stop, 0, 'it ends');
}

# Without a lease

{
	my $alone = start_leader('alone', '--no-lease.enabled');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0', 'no lease: no lock');
	$node->stop('fast');
	ok(poll_until(sub { $alone->metrics->{queue_state_collector_database_up} == 0 }, 20), 'no lease: the database is down');
	is(CollectorPair::exports($alone), 1, 'no lease: the last snapshot stays');
	my $age = $alone->metrics->{queue_state_snapshot_age_seconds};
	sleep(0.3);
	cmp_ok($alone->metrics->{queue_state_snapshot_age_seconds}, '>', $age, 'no lease: its age grows');
	ok(poll_until(sub { !CollectorPair::exports($alone) }, 20), 'no lease: until --collector.snapshot-max-age');
	$node->start;
	ok(poll_until(sub { CollectorPair::exports($alone) }, 60), 'no lease: exports again');
	is($alone->metrics->{queue_state_collector_lease_acquisitions_total}, 1, 'no lease: one acquisition in all');
	is($alone->stop, 0, 'it ends');
}

# How it ends

{
	my $collector = start_leader('twice');
	# A client that is being answered, slowly, keeps the end waiting.
	my $socket = IO::Socket::INET->new(PeerAddr => $collector->address);
	print $socket "GET /metrics HTTP/1.1\r\n";
	$collector->signal('STOP');
	my $begun = time;
	$collector->signal('TERM');
	$collector->signal('CONT');
	my $code = $collector->wait_for_exit(20);
	is($code, 0, 'SIGTERM with an open request: status 0');
	cmp_ok(time - $begun, '<', 10, 'SIGTERM: within 10 s');
}

# A second signal while an answer is under way means now.
{
	replace_snapshot("SELECT q, 'queue' || q, p, 1, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0 "
		  . "FROM generate_series(1, 3000) q, unnest('{HIGH,MEDIUM,LOW}'::text[]) p");
	my $collector = start_leader('impatient');
	my $socket = IO::Socket::INET->new(PeerAddr => $collector->address);
	print $socket "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	# The beginning of several MB, of which no more is taken.
	sysread($socket, my $beginning, 100);
	my $begun = time;
	$collector->signal('TERM');
	ok(poll_until(sub { $collector->log_text =~ /msg=stopping/ }, 10), 'SIGTERM during an answer: stopping');
	is($collector->is_running, 1, 'SIGTERM during an answer: the answer is waited for');
	$collector->signal('TERM');
	is($collector->wait_for_exit(10), 128 + 15, 'a second SIGTERM: ends by it');
	cmp_ok(time - $begun, '<', 4, 'a second SIGTERM: now');

	$collector = start_leader('patient');
	$socket = IO::Socket::INET->new(PeerAddr => $collector->address);
	print $socket "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	sysread($socket, $beginning, 100);
	$begun = time;
	is($collector->stop, 0, 'SIGTERM during an answer that is never taken: status 0');
	cmp_ok(time - $begun, '<', 10, 'SIGTERM during an answer that is never taken: within 10 s');
	restore_snapshot();
}

# A reader of the log that is stuck must not stop anything.
{
	pipe(my $read, my $write) or die "could not make a pipe: $!";
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $program = collector_program();

	fcntl($write, F_SETPIPE_SZ, 4096);
	# Full from the start.
	$write->blocking(0);
	1 while syswrite($write, 'x' x 4096);
	1 while syswrite($write, 'x');
	$write->blocking(1);
	my $pid = fork();
	if ($pid == 0)
	{
		open(STDERR, '>&', $write);
		exec($program, @short, "--web.listen-address=127.0.0.1:$port",
			'--database.conninfo=' . $node->connstr('postgres'))
		  or POSIX::_exit(127);
	}
	my $get = sub { return (http_get("127.0.0.1:$port", '/metrics'))[1]; };
	ok(poll_until(sub { $get->() =~ /queue_messages_/ }, 20), 'stuck log: leads all the same');
	like($get->(), qr/^retsu_collector_log_messages_dropped_total [1-9]/m, 'stuck log: what is lost is counted');
	kill('TERM', $pid);
	waitpid($pid, 0);
	is($?, 0, 'stuck log: ends in order');
}

# The password comes from a file or from systemd, and is read for each connection.
{
	my $secrets = PostgreSQL::Test::Utils::tempdir();
	my $hba = $node->data_dir . '/pg_hba.conf';
	my $rules = slurp_file($hba);
	my $as_guarded = '--database.conninfo=' . $node->connstr('postgres') . ' user=guarded';

	$node->safe_psql('postgres', q{
		CREATE ROLE guarded LOGIN PASSWORD 'hunter2' IN ROLE pg_monitor});
	write_file($hba, "local all guarded scram-sha-256\n$rules");
	$node->reload;
	write_file("$secrets/database-password", "wrong\n");
	my $guarded = start_collector($node, 'guarded', @short, $as_guarded,
		"--database.password-file=$secrets/database-password");
	ok(poll_until(sub { failures($guarded, 'permission') >= 1 }, 20), 'wrong password: counted as permission');
	is($guarded->metrics->{queue_state_collector_database_up}, 0, 'wrong password: the database is not up');
	write_file("$secrets/database-password", "hunter2\n");
	ok(poll_until(sub { CollectorPair::exports($guarded) }, 40), 'right password: leads without a restart');
	unlike($guarded->log_text, qr/hunter2/, 'right password: it is not in the log');
	is($guarded->stop, 0, 'it ends');

	local $ENV{CREDENTIALS_DIRECTORY} = $secrets;
	$guarded = start_leader('credential', $as_guarded);
	is($guarded->stop, 0, 'it ends');
	write_file($hba, $rules);
	$node->reload;
}

sub write_file
{
	my ($path, $text) = @_;

	open(my $file, '>', $path) or die "could not open $path: $!";
	print $file $text;
	close($file) or die "could not write $path: $!";
	return;
}

# Configuration

sub run_collector
{
	my (@flags) = @_;
	my $program = collector_program();
	my ($out, $err) = ('', '');

	IPC::Run::run([ $program, @flags ], '>', \$out, '2>', \$err);
	return ($? >> 8, $out . $err);
}

my ($code, $output) = run_collector('--config.check');
is($code, 0, 'config.check: the defaults are valid');
($code, $output) = run_collector('--config.check', '--lease.fence=20s');
is("$code " . ($output =~ /lease\.fence/), '78 1', 'config.check: a contradiction is 78 and named');
($code, $output) = run_collector('--lease.fence=20');
is($code, 64, 'a duration without unit is 64');
($code, $output) = run_collector('--version');
is($output, "retsu-collector $version\n", 'the version is that of the extension');
($code, $output) = run_collector('--config.check', '--database.conninfo=postgres://me:hunter2@[broken');
is($code, 78, 'an invalid conninfo is 78');
unlike($output, qr/hunter2/, 'and is not printed');
my $taken = start_collector($node, 'taken', @short, '--database.conninfo=host=/nonexistent password=hunter2');
($code, $output) = run_collector(@short, '--web.listen-address=' . $taken->address);
is($code, 69, 'an address in use is 69');
ok(poll_until(sub { $taken->log_text =~ /cannot connect to the database/ }, 20), 'a failed connect is logged');
unlike($taken->log_text . ($taken->get('/'))[1] . ($taken->get('/metrics'))[1], qr/hunter2/,
	'no password in log, status page or metrics');
is($taken->stop, 0, 'it ends');

verify_is_exact($node);
done_testing();

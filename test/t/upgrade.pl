#-------------------------------------------------------------------------
#
# upgrade.pl
#	  ALTER EXTENSION ... UPDATE leads from every released version to the same
#	  catalog as CREATE EXTENSION, and keeps the messages and their counters; a
#	  library that does not fit the SQL objects says what to do.
#
# Released versions are the frozen scripts in sql/ (docs/releasing.md).  So that
# the comparison is seen to work, also with no released version to start from,
# the second half does the same with versions made up here, in a copy of the
# server's installation that goes when the test ends.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use ExtensionCatalog;
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use File::Path qw(make_path);
use MixedMessages;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $root = "$FindBin::Bin/../..";
my ($version) = slurp_file("$root/queue_state.control") =~ /^default_version = '(.*)'$/m;
my $current = slurp_file("$root/queue_state--$version.sql");

# upgraded_is_fresh(NODE, FROM, TO, TEST NAME)
#
# Fills the extension of one version, updates it and compares it with another
# made at once.
sub upgraded_is_fresh
{
	my ($node, $from, $to) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(upgraded fresh);
	$node->safe_psql('upgraded', "CREATE EXTENSION queue_state VERSION '$from'");
	mix_messages($node, 'upgraded');
	my $contents = queue_contents($node, 'upgraded');
	my $totals = event_totals($node, 'upgraded');

	$node->safe_psql('upgraded', "ALTER EXTENSION queue_state UPDATE TO '$to'");
	$node->safe_psql('fresh', "CREATE EXTENSION queue_state VERSION '$to'");

	is_deeply(
		[ extension_differences(describe_extension($node, 'upgraded'), describe_extension($node, 'fresh')) ],
		[],
		"from $from to $to: the catalog of CREATE EXTENSION");
	is_deeply(queue_contents($node, 'upgraded', $contents), $contents, "from $from to $to: same messages");
	is(event_totals($node, 'upgraded'), $totals, "from $from to $to: same event totals");
	verify_is_exact($node, "from $from to $to: exact", 'upgraded');
	$node->safe_psql('upgraded', "SELECT queue_state.drop_queue('orders', true)");
	verify_is_exact($node, "from $from to $to: exact after more work", 'upgraded');

	$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(upgraded fresh);
	return;
}

# Released versions

my @released = map { basename($_) =~ /^queue_state--([^-]+)\.sql$/ } glob("$root/sql/queue_state--*.sql");

my $node = queue_node('main');
is($node->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'queue_state'"),
	$version, 'CREATE EXTENSION makes the version of the control file');
my $description = describe_extension($node, 'postgres');
like($description, qr/^function queue_state\.verify\(.*: definition: /m, 'the description has functions');
like($description, qr/^table queue_state\.queue_message: column 1: id uuid /m, 'and columns');
foreach my $from (@released)
{
	if ($from eq $version)
	{
		is($current, slurp_file("$root/sql/queue_state--$version.sql"),
			"version $version is released, and so nothing of it may change");
	}
	else
	{
		upgraded_is_fresh($node, $from, $version);
	}
}
is( $node->safe_psql('postgres', "SELECT string_agg(source, ' ') FROM pg_extension_update_paths('queue_state')
		WHERE target = '$version' AND path IS NULL"),
	'',
	'from every version that is installed there is a way to the current one');

# The same with versions made up

# The server finds its other directories relative to its program, so a copy of
# the programs has an installation of its own; all else are links.
sub copied_installation
{
	my ($copy) = @_;
	my %is;

	foreach my $kind (qw(bindir sharedir pkglibdir))
	{
		chomp($is{$kind} = `pg_config --$kind`);
		make_path("$copy/$is{$kind}");
	}
	foreach my $program (qw(postgres initdb pg_ctl psql pg_config pg_controldata pgbench))
	{
		copy("$is{bindir}/$program", "$copy/$is{bindir}/$program")
		  or die "could not copy $program: $!";
		chmod 0755, "$copy/$is{bindir}/$program";
	}
	make_path("$copy/$is{sharedir}/extension");
	foreach my $directory ($is{pkglibdir}, $is{sharedir}, "$is{sharedir}/extension")
	{
		foreach my $file (glob("$directory/*"))
		{
			next if -e "$copy/$file" || $file =~ m{/extension/queue_state};
			symlink($file, "$copy/$file") or die "could not link $file: $!";
		}
	}
	return ("$copy/" . dirname($is{bindir}), "$copy/$is{sharedir}/extension");
}

my ($installation, $scripts) = copied_installation(PostgreSQL::Test::Utils::tempdir);

sub write_script
{
	my ($name, $text) = @_;
	append_to_file("$scripts/queue_state$name", $text);
	return;
}

# The next version adds some of everything; the one after it has a step in
# which something was forgotten, once of each kind.
my $next = "$version.1";
my $broken = "$version.2";
my $added = <<'END_OF_SQL';
ALTER TABLE queue_state.queue ADD COLUMN note text;
COMMENT ON COLUMN queue_state.queue.note IS 'free text';
ALTER TABLE queue_state.inbox SET (fillfactor = 90);
CREATE INDEX queue_note_idx ON queue_state.queue (note);
CREATE FUNCTION queue_state.note_of(queue text) RETURNS text LANGUAGE sql STABLE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$ SELECT q.note FROM queue_state.queue AS q WHERE q.name = note_of.queue $$;
COMMENT ON FUNCTION queue_state.note_of(text) IS 'the note of a queue';
REVOKE EXECUTE ON FUNCTION queue_state.note_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_state.note_of(text) TO pg_monitor;
END_OF_SQL

write_script('.control', slurp_file("$root/queue_state.control"));
write_script("--$version.sql", $current);
write_script("--$next.sql", $current . $added);
write_script("--$version--$next.sql", $added);

my %forgotten = (
	'an index' => 'CREATE INDEX queue_paused_idx ON queue_state.queue (paused);',
	'a comment' => "COMMENT ON COLUMN queue_state.queue.paused IS 'another text';",
	'a privilege' => 'GRANT EXECUTE ON FUNCTION queue_state.uuidv7() TO pg_monitor;',
	'an option' => 'ALTER TABLE queue_state.queue_message SET (fillfactor = 70);',
	'a trigger state' => 'ALTER TABLE queue_state.queue DISABLE TRIGGER queue_changed;',
	'a function body' => 'CREATE OR REPLACE FUNCTION queue_state.note_of(queue text) RETURNS text LANGUAGE sql STABLE
		SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT note_of.queue $$;',
	'a table to dump' => "CREATE TABLE queue_state.more (); SELECT pg_catalog.pg_extension_config_dump('queue_state.more', '');",
	'a constraint' => 'ALTER TABLE queue_state.inbox ADD CHECK (consumer <> \'\');',
	'a column default' => "ALTER TABLE queue_state.queue ALTER COLUMN note SET DEFAULT 'none';",
	'a type' => "CREATE TYPE queue_state.more_states AS ENUM ('A');",);
my $step = 0;
foreach my $what (sort keys %forgotten)
{
	$step++;
	write_script("--$broken.$step.sql", "$current$added$forgotten{$what}\n");
	write_script("--$next--$broken.$step.sql", "-- nothing\n");
}
# and versions that this library cannot serve
write_script('--99.0.sql', $current);
write_script('--0.1.sql', $current);
write_script("--0.1--$version.sql", "-- nothing\n");

my $other = PostgreSQL::Test::Cluster->new('other', install_path => $installation);
$other->init;
$other->start;

upgraded_is_fresh($other, $version, $next);

$other->safe_psql('postgres', 'CREATE DATABASE upgraded');
$other->safe_psql('upgraded', "CREATE EXTENSION queue_state VERSION '$version'");
$step = 0;
foreach my $what (sort keys %forgotten)
{
	$step++;
	my @differences = extension_differences(
		describe_extension($other, 'upgraded', "ALTER EXTENSION queue_state UPDATE TO '$broken.$step'"),
		describe_extension($other, 'postgres', "CREATE EXTENSION queue_state VERSION '$broken.$step'"));
	cmp_ok(scalar @differences, '>', 0, "a step that forgets $what is found out");
	cmp_ok(scalar @differences, '<', 10, "and little else than $what is reported")
	  or diag(join "\n", @differences);
}

# Library and SQL objects that do not fit

$other->safe_psql('postgres', "CREATE EXTENSION queue_state VERSION '99.0'");
my ($status, $out, $err) =
  $other->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM queue_state.snapshot()");
like($err, qr/ERROR:  55000: library "queue_state" version \Q$version\E is older than the extension's SQL version 99\.0/,
	'a library that is too old says so');
like($err, qr/HINT:  Install the matching library and reconnect/, 'and what to do');

$other->safe_psql('postgres', "DROP EXTENSION queue_state; CREATE EXTENSION queue_state VERSION '0.1'");
($status, $out, $err) =
  $other->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM queue_state.snapshot()");
like($err, qr/ERROR:  55000: extension "queue_state" version 0\.1 is too old for its library version \Q$version\E/,
	'SQL objects that are too old say so');
like($err, qr/HINT:  Run ALTER EXTENSION queue_state UPDATE/, 'and what to do');

# in one session, which must not remember what was wrong
($status, $out, $err) = $other->psql('postgres', <<'END_OF_SQL', on_error_stop => 0);
SELECT count(*) FROM queue_state.snapshot();
ALTER EXTENSION queue_state UPDATE;
SELECT (queue_state.create_queue('mail')).name;
SELECT queue_state.enqueue('mail', '1') IS NOT NULL;
END_OF_SQL
is($out, "mail\nt", 'after the update the same session works');
verify_is_exact($other);

done_testing();

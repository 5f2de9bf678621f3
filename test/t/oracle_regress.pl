#-------------------------------------------------------------------------
#
# oracle_regress.pl
#	  The regression tests, with the oracle of test/oracle/ counting in the
#	  place of the library: what they expect is what an obviously right
#	  implementation does.
#
#-------------------------------------------------------------------------
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use QueueState;
use PostgreSQL::Test::Utils;
use Test::More;

# Tests of the library's own ways.
my %not_of_the_oracle = (
	counting_at_commit => 'it counts at the end of each statement',
	folding => 'it has no pending rows',
	recreate_extension => 'DROP EXTENSION drops it',
	trigger_protocol => 'PL/pgSQL checks that for it',
);

my $root = "$FindBin::Bin/../..";
my $oracle = "$root/test/oracle/counting.sql";
my @tests = grep { !exists $not_of_the_oracle{$_} }
  map { m{([^/]+)\.sql$} ? $1 : () } sort glob("$root/test/sql/*.sql");
ok(@tests > 0, 'there are regression tests');

my $node = queue_node('oracle', database => 'contrib_regression');
$node->safe_psql('contrib_regression', slurp_file($oracle));

# Something would be wrong if the tests could not tell the two apart.
is($node->safe_psql('contrib_regression', q{
SELECT string_agg(DISTINCT l.lanname, ' ') FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
	WHERE p.pronamespace = 'queue_state'::regnamespace
		AND p.proname IN ('count_messages', 'count_dead_letters', 'count_truncate', 'count_event', 'correct_counter')}),
	'plpgsql', 'the oracle counts');

# Where pg_regress finds both without being told, in every version.
my $output = PostgreSQL::Test::Utils::tempdir;
symlink("$root/test/sql", "$output/sql");
symlink("$root/expected", "$output/expected");
chdir $output or die "could not change to $output: $!";
my $passed = run_log(
	[
		$ENV{PG_REGRESS}, '--use-existing', '--dlpath=.', '--dbname=contrib_regression', '--bindir=',
		'--host=' . $node->host, '--port=' . $node->port, @tests
	]);
ok($passed, 'the regression tests pass: ' . join(' ', @tests));
diag(slurp_file("$output/regression.diffs")) if -s "$output/regression.diffs";

verify_is_exact($node, 'the rollup is exact', 'contrib_regression');
$node->stop;
done_testing();

#-------------------------------------------------------------------------
#
# pg_upgrade.pl
#	  pg_upgrade has nothing to say about a cluster with queues, and takes
#	  messages, counters and event totals along as they are.
#
# From the server under test to itself; or from the one whose installation
# directory is in $OLD_INSTALLATION, with the extension installed there too.
#
#-------------------------------------------------------------------------

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";

use ExtensionCatalog;
use IPC::Run;
use MixedMessages;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueState;
use Test::More;

my $old = PostgreSQL::Test::Cluster->new('old',
	$ENV{OLD_INSTALLATION} ? (install_path => $ENV{OLD_INSTALLATION}) : ());
$old->init;
$old->start;
$old->safe_psql('postgres', 'CREATE EXTENSION queue_state');
mix_messages($old, 'postgres');
$old->safe_psql(
	'postgres', <<'END_OF_SQL');
CREATE ROLE producer;
GRANT USAGE ON SCHEMA queue_state TO producer;
ALTER TABLE queue_state.queue_message ADD COLUMN tenant text;
END_OF_SQL
my $contents = queue_contents($old, 'postgres');
my $totals = event_totals($old, 'postgres');
my $description = describe_extension($old, 'postgres');
verify_is_exact($old, 'the old cluster is exact');
$old->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;

my @upgrade = (
	'pg_upgrade', '--no-sync',
	'--old-datadir' => $old->data_dir,
	'--new-datadir' => $new->data_dir,
	'--old-bindir' => $old->config_data('--bindir'),
	'--new-bindir' => $new->config_data('--bindir'),
	'--socketdir' => $new->host,
	'--old-port' => $old->port,
	'--new-port' => $new->port);

# It writes into the current directory.
chdir $PostgreSQL::Test::Utils::tmp_check;

my ($out, $err) = ('', '');
IPC::Run::run([ @upgrade, '--check' ], '<', \undef, '>', \$out, '2>', \$err);
is($?, 0, 'pg_upgrade --check');
is($err, '', 'writes no error');
like($out, qr/Clusters are compatible/, 'and finds the clusters compatible');
unlike($out, qr/warning|fatal|failure|notice/i, 'it has nothing to say') or diag($out);

IPC::Run::run(\@upgrade, '<', \undef, '>', \$out, '2>', \$err);
is($?, 0, 'pg_upgrade') or diag($out);
is($err, '', 'writes no error');

$new->start;
is_deeply(queue_contents($new, 'postgres'), $contents, 'same messages, and the column that was added');
is(event_totals($new, 'postgres'), $totals, 'same event totals');
verify_is_exact($new, 'exact at once');

# The foreign keys' own checks, which the extension does instead, are enabled
# again: rows are checked twice, and nothing else differs.
my @differences = grep { !/RI_ConstraintTrigger_c_/ }
  extension_differences($description, describe_extension($new, 'postgres'));
is_deeply(\@differences, [], 'the catalog is the same');

$new->safe_psql(
	'postgres', <<'END_OF_SQL');
SELECT queue_state.create_queue('new');
SELECT queue_state.enqueue('new', '1');
SELECT count(queue_state.acknowledge(id, receipt_handle)) FROM queue_state.dequeue('new');
SELECT queue_state.drop_queue('orders', true);
END_OF_SQL
verify_is_exact($new, 'exact after more work');

done_testing();

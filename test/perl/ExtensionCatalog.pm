#-------------------------------------------------------------------------
#
# ExtensionCatalog.pm
#	  Everything the catalogs say about the extension in a database, as text
#	  that does not depend on OIDs: what has to be the same after an upgrade as
#	  after CREATE EXTENSION.
#
#	my @differences = extension_differences(
#		describe_extension($node, 'upgraded'), describe_extension($node, 'fresh'));
#
#-------------------------------------------------------------------------

package ExtensionCatalog;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(describe_extension extension_differences);

# Columns are numbered by their order, not by attnum, which a dropped column
# shifts.  The triggers behind foreign keys are named after an OID, and some
# servers number the versions of a column's attributes among its options.
my $description = <<'END_OF_SQL';
WITH member AS
(
	SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS name
	FROM pg_depend AS d
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'queue_state')
), relation AS
(
	SELECT c.*, m.name
	FROM member AS m JOIN pg_class AS c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
), privilege AS
(
	SELECT 'pg_class'::regclass AS classid, oid AS objid, relacl AS acl FROM pg_class
	UNION ALL SELECT 'pg_proc'::regclass, oid, proacl FROM pg_proc
	UNION ALL SELECT 'pg_type'::regclass, oid, typacl FROM pg_type
	UNION ALL SELECT 'pg_namespace'::regclass, oid, nspacl FROM pg_namespace
), line (subject, what, value) AS
(
	SELECT name, 'member', '' FROM member
	UNION ALL
	SELECT 'extension', 'dumped with ' || coalesce(nullif(filter, ''), 'all rows'), relid::regclass::text
	FROM pg_extension, unnest(extconfig, extcondition) AS c (relid, filter)
	WHERE extname = 'queue_state'
	UNION ALL
	SELECT 'extension', 'schema', nspname || CASE WHEN extrelocatable THEN ', relocatable' ELSE '' END
	FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
	WHERE extname = 'queue_state'
	UNION ALL
	SELECT m.name, 'privilege', item::text
	FROM member AS m JOIN privilege AS p USING (classid, objid), unnest(p.acl) AS item
	UNION ALL
	SELECT m.name, 'initial privilege', item::text
	FROM member AS m JOIN pg_init_privs AS p ON p.classoid = m.classid AND p.objoid = m.objid,
		unnest(p.initprivs) AS item
	UNION ALL
	SELECT m.name, 'comment', d.description
	FROM member AS m JOIN pg_description AS d ON d.classoid = m.classid AND d.objoid = m.objid
	WHERE d.objsubid = 0
	UNION ALL
	SELECT m.name, 'definition', pg_get_functiondef(p.oid)
	FROM member AS m JOIN pg_proc AS p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
	UNION ALL
	SELECT m.name, 'value', row_number() OVER (PARTITION BY e.enumtypid ORDER BY e.enumsortorder) || ' ' || e.enumlabel
	FROM member AS m JOIN pg_enum AS e ON m.classid = 'pg_type'::regclass AND m.objid = e.enumtypid
	UNION ALL
	SELECT name, 'kind', concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity,
			relreplident, (SELECT amname FROM pg_am WHERE oid = relam))
	FROM relation
	UNION ALL
	SELECT name, 'option', option FROM relation, unnest(reloptions) AS option
	UNION ALL
	SELECT r.name, 'column ' || row_number() OVER (PARTITION BY r.oid ORDER BY a.attnum),
		concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
			a.attnotnull, a.attidentity, a.attgenerated, a.attstorage,
			(SELECT array_agg(o ORDER BY o) FROM unnest(a.attoptions) AS o WHERE o NOT LIKE 'pg\_attver=%'),
			pg_get_expr(d.adbin, d.adrelid), a.attacl, col_description(r.oid, a.attnum))
	FROM relation AS r JOIN pg_attribute AS a ON a.attrelid = r.oid
		LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT r.name, 'constraint', concat_ws(' ', c.conname, pg_get_constraintdef(c.oid), c.convalidated,
		obj_description(c.oid, 'pg_constraint'))
	FROM relation AS r JOIN pg_constraint AS c ON c.conrelid = r.oid
	UNION ALL
	SELECT r.name, 'index', concat_ws(' ', pg_get_indexdef(i.indexrelid), c.reloptions, i.indisvalid,
		i.indisclustered, i.indisreplident, obj_description(c.oid, 'pg_class'))
	FROM relation AS r JOIN pg_index AS i ON i.indrelid = r.oid JOIN pg_class AS c ON c.oid = i.indexrelid
	UNION ALL
	SELECT r.name, 'trigger', concat_ws(' ',
		regexp_replace(pg_get_triggerdef(t.oid), '"(RI_ConstraintTrigger_[ac]_)\d+"', '\1'),
		t.tgenabled, obj_description(t.oid, 'pg_trigger'))
	FROM relation AS r JOIN pg_trigger AS t ON t.tgrelid = r.oid
	UNION ALL
	SELECT r.name, 'policy', concat_ws(' ', p.polname, p.polcmd, pg_get_expr(p.polqual, p.polrelid))
	FROM relation AS r JOIN pg_policy AS p ON p.polrelid = r.oid
	UNION ALL
	SELECT r.name, 'sequence', concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement,
		s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
	FROM relation AS r JOIN pg_sequence AS s ON s.seqrelid = r.oid
)
SELECT concat_ws(': ', subject, what, value) FROM line ORDER BY 1
END_OF_SQL

# With a statement: as it would be after it, which is rolled back.
sub describe_extension
{
	my ($node, $database, $statement) = @_;
	$statement = '' unless defined $statement;
	return $node->safe_psql($database, "BEGIN; $statement; $description; ROLLBACK");
}

# The lines that only one of two descriptions has, as "- LINE" and "+ LINE".
sub extension_differences
{
	my ($one, $other) = @_;
	my %count;

	$count{$_}-- foreach split /\n/, $one;
	$count{$_}++ foreach split /\n/, $other;
	return map { ($count{$_} < 0 ? '- ' : '+ ') . $_ } grep { $count{$_} } sort keys %count;
}

1;

/*-------------------------------------------------------------------------
 *
 * catalog.c
 *	  Where this extension's objects are in the current database; see
 *	  catalog.h.
 *
 * One static struct per backend (a backend never changes its database).  The
 * invalidation callback may run at any moment and only marks it stale; the
 * next qs_catalog() fills it again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "compat.h"

#define SCHEMA_NAME "queue_state"
#define EXTENSION_NAME "queue_state"

/* The oldest SQL version whose tables and functions this library serves. */
#define OLDEST_SQL_MAJOR 1
#define OLDEST_SQL_MINOR 0

static const char *const priority_labels[PRIORITY_COUNT] = { "LOW", "MEDIUM", "HIGH" };
static const char *const state_labels[MESSAGE_STATE_COUNT] = { "READY", "IN_FLIGHT", "DELAYED" };

static const char *const counter_names[COUNTER_COUNT] = {
	"ready_count", "in_flight_count", "delayed_count", "dead_letter_count",
	"enqueued", "delivered", "acknowledged",
	"expired_never_delivered", "expired_previously_delivered",
	"dead_lettered", "dead_letter_purged", "dead_letter_redriven"
};

static Catalog catalog;
static bool catalog_valid = false;
static bool callback_registered = false;

static void
invalidate(Datum arg, Oid relid)
{
	if (relid == InvalidOid ||
		relid == catalog.queue ||
		relid == catalog.message ||
		relid == catalog.dead_letter ||
		relid == catalog.shard ||
		relid == catalog.pending)
		catalog_valid = false;
}

static Oid
lookup_relation(Oid namespace, const char *name)
{
	Oid relid = get_relname_relid(name, namespace);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s.%s\" does not exist", SCHEMA_NAME, name),
				 errdetail("The extension \"%s\" is not complete in this database.", EXTENSION_NAME),
				 errhint("Restore the relation, or drop and create the extension.")));
	return relid;
}

static AttrNumber
lookup_column(Oid relid, const char *name)
{
	AttrNumber attnum = get_attnum(relid, name);

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s.%s\" does not exist",
						name, SCHEMA_NAME, get_rel_name(relid)),
				 errhint("Columns may be added to the tables of this extension, but not renamed or dropped.")));
	return attnum;
}

static Oid
lookup_enum_value(Oid type, const char *label)
{
	Oid value = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
								ObjectIdGetDatum(type),
								CStringGetDatum(label));

	if (!OidIsValid(value))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("enum value \"%s\" does not exist in schema \"%s\"", label, SCHEMA_NAME),
				 errhint("Values may not be renamed or dropped from the types of this extension.")));
	return value;
}

/*
 * The version of the installed SQL objects, as a palloc'd string.
 */
static char *
installed_version(void)
{
	Relation relation;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple tuple;
	char *version = NULL;

	relation = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(EXTENSION_NAME));
	scan = systable_beginscan(relation, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool isnull;
		Datum datum = heap_getattr(tuple, Anum_pg_extension_extversion,
								   RelationGetDescr(relation), &isnull);

		if (!isnull)
			version = text_to_cstring(DatumGetTextPP(datum));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);

	if (version == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" is not installed in this database", EXTENSION_NAME),
				 errhint("Run CREATE EXTENSION %s.", EXTENSION_NAME)));
	return version;
}

static bool
parse_version(const char *version, int *major, int *minor)
{
	return sscanf(version, "%d.%d", major, minor) == 2;
}

/*
 * Library and SQL objects are installed separately and meet here.  This
 * library serves every SQL version from OLDEST_SQL up to its own.
 */
static void
check_version(const char *installed)
{
	int library_major = 0;
	int library_minor = 0;
	int sql_major;
	int sql_minor;

	if (!parse_version(QS_VERSION, &library_major, &library_minor))
		elog(ERROR, "library version \"%s\" is not a version", QS_VERSION);

	if (!parse_version(installed, &sql_major, &sql_minor) ||
		sql_major > library_major ||
		(sql_major == library_major && sql_minor > library_minor))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library \"%s\" version %s is older than the extension's SQL version %s",
						EXTENSION_NAME, QS_VERSION, installed),
				 errhint("Install the matching library and reconnect; a session keeps the library it has loaded.")));

	if (sql_major < OLDEST_SQL_MAJOR ||
		(sql_major == OLDEST_SQL_MAJOR && sql_minor < OLDEST_SQL_MINOR))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" version %s is too old for its library version %s",
						EXTENSION_NAME, installed, QS_VERSION),
				 errhint("Run ALTER EXTENSION %s UPDATE.", EXTENSION_NAME)));
}

static void
fill_catalog(Catalog *c)
{
	Oid namespace = get_namespace_oid(SCHEMA_NAME, true);
	Oid state_type;

	check_version(installed_version());

	c->queue = lookup_relation(namespace, "queue");
	c->message = lookup_relation(namespace, "queue_message");
	c->dead_letter = lookup_relation(namespace, "queue_dead_letter_message");
	c->shard = lookup_relation(namespace, "queue_priority_state_shard");
	c->pending = lookup_relation(namespace, "queue_priority_state_pending");

	c->queue_pkey = lookup_relation(namespace, "queue_pkey");
	c->queue_name_key = lookup_relation(namespace, "queue_name_key");
	c->ready_index = lookup_relation(namespace, "queue_message_ready_idx");
	c->waiting_index = lookup_relation(namespace, "queue_message_waiting_idx");
	c->in_flight_index = lookup_relation(namespace, "queue_message_in_flight_idx");
	c->expiry_index = lookup_relation(namespace, "queue_message_expiry_idx");
	c->shard_pkey = lookup_relation(namespace, "queue_priority_state_shard_pkey");
	c->pending_index = lookup_relation(namespace, "queue_priority_state_pending_idx");

	c->message_column.id = lookup_column(c->message, "id");
	c->message_column.queue_id = lookup_column(c->message, "queue_id");
	c->message_column.priority = lookup_column(c->message, "priority");
	c->message_column.state = lookup_column(c->message, "state");
	c->message_column.delivery_attempts = lookup_column(c->message, "delivery_attempts");
	c->message_column.enqueued_at = lookup_column(c->message, "enqueued_at");
	c->message_column.expires_at = lookup_column(c->message, "expires_at");
	c->message_column.available_after = lookup_column(c->message, "available_after");

	c->dead_letter_column.id = lookup_column(c->dead_letter, "id");
	c->dead_letter_column.queue_id = lookup_column(c->dead_letter, "queue_id");
	c->dead_letter_column.priority = lookup_column(c->dead_letter, "priority");

	c->priority_type = get_atttype(c->message, c->message_column.priority);
	for (int i = 0; i < PRIORITY_COUNT; i++)
		c->priority[i] = lookup_enum_value(c->priority_type, priority_labels[i]);

	state_type = get_atttype(c->message, c->message_column.state);
	for (int i = 0; i < MESSAGE_STATE_COUNT; i++)
		c->state[i] = lookup_enum_value(state_type, state_labels[i]);
}

const Catalog *
qs_catalog(void)
{
	if (!callback_registered)
	{
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
		callback_registered = true;
	}

	/*
	 * Fill the struct itself, so that an invalidation that arrives meanwhile
	 * is compared with the new OIDs; then it is filled once more.
	 */
	while (!catalog_valid)
	{
		catalog_valid = true;
		PG_TRY();
		{
			fill_catalog(&catalog);
		}
		PG_CATCH();
		{
			catalog_valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}

	return &catalog;
}

Priority
qs_priority_of_oid(Oid value)
{
	const Catalog *c = qs_catalog();

	for (int i = 0; i < PRIORITY_COUNT; i++)
	{
		if (c->priority[i] == value)
			return (Priority) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown value of type \"%s.message_priority\"", SCHEMA_NAME),
			 errdetail("Counters are kept for LOW, MEDIUM and HIGH only."),
			 errhint("Do not add values to the types of this extension.")));
}

MessageState
qs_state_of_oid(Oid value)
{
	const Catalog *c = qs_catalog();

	for (int i = 0; i < MESSAGE_STATE_COUNT; i++)
	{
		if (c->state[i] == value)
			return (MessageState) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown value of type \"%s.message_state\"", SCHEMA_NAME),
			 errdetail("Counters are kept for READY, IN_FLIGHT and DELAYED only."),
			 errhint("Do not add values to the types of this extension.")));
}

const char *
qs_counter_name(Counter counter)
{
	return counter_names[counter];
}

const char *
qs_priority_name(Priority priority)
{
	return priority_labels[priority];
}

char *
qs_queue_name(int32 queue_id)
{
	Catalog c = *qs_catalog();
	Relation queue;
	Relation pkey;
	ScanKeyData scankey;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	char *name = NULL;

	queue = table_open(c.queue, AccessShareLock);
	pkey = index_open(c.queue_pkey, AccessShareLock);
	slot = table_slot_create(queue, NULL);

	ScanKeyInit(&scankey, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	scan = qs_index_beginscan(queue, pkey, SnapshotSelf, 1);
	index_rescan(scan, &scankey, 1, NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool isnull;
		Datum datum = slot_getattr(slot, lookup_column(c.queue, "name"), &isnull);

		if (!isnull)
			name = TextDatumGetCString(datum);
	}
	index_endscan(scan);

	ExecDropSingleTupleTableSlot(slot);
	index_close(pkey, AccessShareLock);
	table_close(queue, AccessShareLock);

	return name;
}

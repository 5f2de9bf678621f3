/*-------------------------------------------------------------------------
 *
 * queue_details.c
 *	  Bounded per-backend cache of queue details; see queue_details.h.
 *
 * Rows of an ordinary table send no invalidation messages.  So a trigger on
 * queue_state.queue sends one for the table's relcache entry whenever a row
 * changes, and PostgreSQL delivers it: to this backend at the next command,
 * or when the change is rolled back, and to all others at commit.  The
 * callback only advances `generation`; an entry of an older generation is
 * read anew.  Nothing is freed from the callback, which can run at any lock.
 *
 * The row is read with the latest snapshot at every isolation level: with the
 * snapshot of a REPEATABLE READ transaction an old row would stay in the
 * cache after that transaction, its invalidation long delivered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "catalog.h"
#include "queue_details.h"

/* Columns of queue_state.queue, in the order of sql/tables.sql. */
enum
{
	COLUMN_QUEUE_ID = 1,
	COLUMN_NAME,
	COLUMN_VISIBILITY_TIMEOUT,
	COLUMN_MAX_DELIVERY_ATTEMPTS,
	COLUMN_DEFAULT_TTL,
	COLUMN_RETRY_DELAY,
	COLUMN_MAX_RETRY_DELAY,
	COLUMN_PAUSED
};

#define MAX_NAME_LENGTH 64

/* Beyond this the cache starts over: it serves sessions that use few queues. */
#define MAX_ENTRIES 256

/* Of a name that is too long to be one, this much is shown. */
#define MAX_SHOWN_LENGTH 100

/* How many single-character edits still make a name a likely misspelling. */
#define MAX_NAME_DISTANCE 3

typedef struct Entry
{
	char name[MAX_NAME_LENGTH + 1]; /* hash key, zero-terminated */
	uint64 generation;
	QueueDetails details;
} Entry;

PG_FUNCTION_INFO_V1(qs_queue_changed);

static HTAB *cache;
static uint64 generation = 1; /* 0 is never current */
static Oid watched_queue;	  /* the table that the entries were read from */

static bool read_queue(const char *name, QueueDetails *details,
					   uint64 *read_generation);
static Entry *make_entry(const char *name);
static char *nearest_name(const char *name);

static void
forget(Datum argument, Oid relation)
{
	if (relation == InvalidOid || relation == watched_queue)
		generation++;
}

void
qs_null_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name),
			 errdetail("The argument \"%s\" is null.", name),
			 errhint("Pass a value, or leave the argument out if it has a default.")));
}

void
qs_queue_details(const text *name, QueueDetails *details)
{
	char key[MAX_NAME_LENGTH + 1];
	int length = VARSIZE_ANY_EXHDR(name);
	Entry *entry;
	uint64 read_generation;

	if (length <= MAX_NAME_LENGTH)
	{
		memcpy(key, VARDATA_ANY(name), length);
		key[length] = '\0';

		/* In a long transaction nothing else may have looked for messages. */
		AcceptInvalidationMessages();

		if (cache != NULL)
		{
			entry = hash_search(cache, key, HASH_FIND, NULL);
			if (entry != NULL && entry->generation == generation)
			{
				*details = entry->details;
				return;
			}
		}

		if (read_queue(key, details, &read_generation))
		{
			entry = make_entry(key);
			entry->details = *details;
			entry->generation = read_generation;
			return;
		}
	}

	{
		char *given = text_to_cstring(name);
		char *nearest = nearest_name(given);
		bool clipped = length > MAX_SHOWN_LENGTH;

		if (clipped)
			given[pg_mbcliplen(given, length, MAX_SHOWN_LENGTH)] = '\0';

		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("queue \"%s%s\" does not exist", given,
						clipped ? "..." : ""),
				 errdetail("There is no row with this name in queue_state.queue."),
				 nearest != NULL ?
					 errhint("Perhaps you meant the queue \"%s\".", nearest) :
					 errhint("Create it with queue_state.create_queue().")));
	}
}

static Interval
interval_column(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool isnull;

	return *DatumGetIntervalP(heap_getattr(tuple, column, descriptor, &isnull));
}

/*
 * `read_generation` is what the cache was at before the row was read: if an
 * invalidation arrives meanwhile, the entry is stale from the start.
 */
static bool
read_queue(const char *name, QueueDetails *details, uint64 *read_generation)
{
	static bool registered = false;
	const Catalog *catalog = qs_catalog();
	Oid queue = catalog->queue;
	Oid index = catalog->queue_name_key;
	Relation relation;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found = false;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
		registered = true;
	}
	watched_queue = queue;
	relation = table_open(queue, AccessShareLock);
	*read_generation = generation;

	PushActiveSnapshot(GetLatestSnapshot());
	ScanKeyInit(&key, COLUMN_NAME, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	scan = systable_beginscan(relation, index, true, GetActiveSnapshot(), 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		TupleDesc descriptor = RelationGetDescr(relation);
		bool isnull;

		found = true;
		details->queue_id =
			DatumGetInt32(heap_getattr(tuple, COLUMN_QUEUE_ID, descriptor,
									   &isnull));
		details->visibility_timeout =
			interval_column(tuple, descriptor, COLUMN_VISIBILITY_TIMEOUT);
		details->max_delivery_attempts =
			DatumGetInt32(heap_getattr(tuple, COLUMN_MAX_DELIVERY_ATTEMPTS,
									   descriptor, &isnull));
		details->default_ttl =
			interval_column(tuple, descriptor, COLUMN_DEFAULT_TTL);
		details->retry_delay =
			interval_column(tuple, descriptor, COLUMN_RETRY_DELAY);
		details->max_retry_delay =
			interval_column(tuple, descriptor, COLUMN_MAX_RETRY_DELAY);
		details->paused =
			DatumGetBool(heap_getattr(tuple, COLUMN_PAUSED, descriptor,
									  &isnull));
	}
	systable_endscan(scan);
	PopActiveSnapshot();
	table_close(relation, AccessShareLock);
	return found;
}

static Entry *
make_entry(const char *name)
{
	Entry *entry;
	bool found;

	if (cache != NULL && hash_get_num_entries(cache) >= MAX_ENTRIES)
	{
		HTAB *full = cache;

		cache = NULL;
		hash_destroy(full);
	}
	if (cache == NULL)
	{
		HASHCTL control = { 0 };

		control.keysize = sizeof(entry->name);
		control.entrysize = sizeof(Entry);
		control.hcxt = CacheMemoryContext;
		cache = hash_create("queue_state queue details", 16, &control,
							HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	entry = hash_search(cache, name, HASH_ENTER, &found);
	entry->generation = 0;
	return entry;
}

/* The existing name fewest edits away, or NULL if none is near. */
static char *
nearest_name(const char *name)
{
	int length = strlen(name);
	int bound = Min(MAX_NAME_DISTANCE, length / 2);
	char *nearest = NULL;
	Relation relation;
	SysScanDesc scan;
	HeapTuple tuple;

	if (length > MAX_NAME_LENGTH + MAX_NAME_DISTANCE)
		return NULL;

	relation = table_open(qs_catalog()->queue, AccessShareLock);
	PushActiveSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(relation, InvalidOid, false, GetActiveSnapshot(),
							  0, NULL);
	while (bound > 0 && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool isnull;
		Datum value = heap_getattr(tuple, COLUMN_NAME,
								   RelationGetDescr(relation), &isnull);
		char *candidate = TextDatumGetCString(value);
		int distance;

		CHECK_FOR_INTERRUPTS();
		distance = varstr_levenshtein_less_equal(name, length, candidate,
												 strlen(candidate), 1, 1, 1,
												 bound, true);
		if (distance <= bound)
		{
			nearest = candidate;
			bound = distance - 1;
		}
	}
	systable_endscan(scan);
	PopActiveSnapshot();
	table_close(relation, AccessShareLock);
	return nearest;
}

/*
 * Trigger on queue_state.queue: whatever changed, all backends forget the
 * details they have of any queue.
 */
Datum
qs_queue_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be called as a trigger", "queue_changed()")));
	if (!TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be fired AFTER the change",
						"queue_changed()")));

	CacheInvalidateRelcacheByRelid(RelationGetRelid(trigger->tg_relation));
	return PointerGetDatum(NULL);
}

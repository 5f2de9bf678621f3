/*-------------------------------------------------------------------------
 *
 * rollup.c
 *	  Rows of the two counter tables; see rollup.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/itemid.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "compat.h"
#include "rollup.h"
#include "whereabouts.h"

/* Columns of both tables, in the order of sql/rollup.sql. */
enum
{
	COLUMN_QUEUE_ID,
	COLUMN_PRIORITY,
	COLUMN_SHARD,
	COLUMN_FIRST_COUNTER,
	COLUMN_COUNT = COLUMN_FIRST_COUNTER + COUNTER_COUNT
};

#define SHARD_KEY_COLUMNS COLUMN_FIRST_COUNTER

static void
check_layout(Relation relation)
{
	if (RelationGetDescr(relation)->natts < COLUMN_COUNT)
		elog(ERROR, "relation \"%s\" has %d columns, expected %d",
			 RelationGetRelationName(relation),
			 RelationGetDescr(relation)->natts, COLUMN_COUNT);
}

void
qs_rollup_open(Rollup *rollup)
{
	memset(rollup, 0, sizeof(Rollup));
	rollup->shard = table_open(qs_catalog()->shard, RowExclusiveLock);
	check_layout(rollup->shard);
	rollup->shard_slot = table_slot_create(rollup->shard, NULL);
}

void
qs_rollup_open_pending(Rollup *rollup)
{
	if (rollup->pending != NULL)
		return;
	rollup->pending = table_open(qs_catalog()->pending, RowExclusiveLock);
	check_layout(rollup->pending);
	rollup->pending_slot = table_slot_create(rollup->pending, NULL);
}

/* Locks stay until the end of the transaction, as after any write. */
void
qs_rollup_close(Rollup *rollup)
{
	if (rollup->pending_index != NULL)
		index_close(rollup->pending_index, NoLock);
	if (rollup->pending != NULL)
	{
		ExecDropSingleTupleTableSlot(rollup->pending_slot);
		table_close(rollup->pending, NoLock);
	}
	if (rollup->shard_pkey != NULL)
		index_close(rollup->shard_pkey, NoLock);
	ExecDropSingleTupleTableSlot(rollup->shard_slot);
	table_close(rollup->shard, NoLock);
}

static void
init_scan_keys(ScanKey scankeys, const ShardKey *key)
{
	ScanKeyInit(&scankeys[COLUMN_QUEUE_ID], COLUMN_QUEUE_ID + 1,
				BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(key->queue_id));
	ScanKeyInit(&scankeys[COLUMN_PRIORITY], COLUMN_PRIORITY + 1,
				BTEqualStrategyNumber, F_ENUM_EQ,
				ObjectIdGetDatum(qs_catalog()->priority[key->priority]));
	ScanKeyInit(&scankeys[COLUMN_SHARD], COLUMN_SHARD + 1,
				BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(key->shard));
}

static IndexScanDesc
begin_shard_scan(Rollup *rollup, const ShardKey *key, Snapshot snapshot)
{
	ScanKeyData scankeys[SHARD_KEY_COLUMNS];
	IndexScanDesc scan;

	if (rollup->shard_pkey == NULL)
		rollup->shard_pkey = index_open(qs_catalog()->shard_pkey, RowExclusiveLock);
	init_scan_keys(scankeys, key);
	scan = qs_index_beginscan(rollup->shard, rollup->shard_pkey, snapshot,
							  SHARD_KEY_COLUMNS);
	index_rescan(scan, scankeys, SHARD_KEY_COLUMNS, NULL, 0);

	return scan;
}

bool
qs_rollup_find_shard(Rollup *rollup, const ShardKey *key)
{
	return qs_whereabouts_fetch(rollup->shard, key, rollup->shard_slot) ||
		   qs_rollup_search_shard(rollup, key, SnapshotSelf);
}

bool
qs_rollup_search_shard(Rollup *rollup, const ShardKey *key, Snapshot snapshot)
{
	IndexScanDesc scan = begin_shard_scan(rollup, key, snapshot);
	ItemPointer tid;
	bool found = false;

	while (!found && (tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData root = *tid; /* fetching replaces it */

		found = index_fetch_heap(scan, rollup->shard_slot);
		if (found)
			qs_whereabouts_remember(key, &root, rollup->shard_slot);
	}
	index_endscan(scan);

	return found;
}

bool
qs_rollup_shard_is_visible(Rollup *rollup, const ShardKey *key, Snapshot snapshot)
{
	IndexScanDesc scan = begin_shard_scan(rollup, key, SnapshotAny);
	bool visible = false;

	while (!visible && index_getnext_slot(scan, ForwardScanDirection, rollup->shard_slot))
		visible = table_tuple_satisfies_snapshot(rollup->shard, rollup->shard_slot, snapshot);
	index_endscan(scan);

	return visible;
}

IndexScanDesc
qs_rollup_begin_pending_scan(Rollup *rollup, const ShardKey *key)
{
	ScanKeyData scankeys[SHARD_KEY_COLUMNS];
	IndexScanDesc scan;

	qs_rollup_open_pending(rollup);
	if (rollup->pending_index == NULL)
		rollup->pending_index = index_open(qs_catalog()->pending_index, RowExclusiveLock);
	init_scan_keys(scankeys, key);
	scan = qs_index_beginscan(rollup->pending, rollup->pending_index,
							  SnapshotSelf, SHARD_KEY_COLUMNS);
	index_rescan(scan, scankeys, SHARD_KEY_COLUMNS, NULL, 0);

	return scan;
}

ShardKey
qs_rollup_row_key(TupleTableSlot *slot)
{
	ShardKey key;

	slot_getsomeattrs(slot, COLUMN_COUNT);
	key.queue_id = DatumGetInt32(slot->tts_values[COLUMN_QUEUE_ID]);
	key.priority = qs_priority_of_oid(DatumGetObjectId(slot->tts_values[COLUMN_PRIORITY]));
	key.shard = DatumGetInt16(slot->tts_values[COLUMN_SHARD]);

	return key;
}

void
qs_rollup_row_counters(TupleTableSlot *slot, Counters *counters)
{
	slot_getsomeattrs(slot, COLUMN_COUNT);
	for (int i = 0; i < COUNTER_COUNT; i++)
		counters->value[i] = DatumGetInt64(slot->tts_values[COLUMN_FIRST_COUNTER + i]);
}

bool
qs_rollup_has_room(Rollup *rollup)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) rollup->shard_slot;
	Page page = BufferGetPage(slot->buffer);

	/*
	 * Read without the content lock: the pin keeps the page there, and a
	 * wrong answer costs a version on another page or a pending row too many.
	 */
	return PageGetHeapFreeSpace(page) >= MAXALIGN(slot->base.tuple->t_len);
}

/*
 * A virtual slot for a row of `relation`.
 */
static TupleTableSlot *
make_row(Relation relation, const ShardKey *key, const Counters *counters)
{
	TupleDesc desc = RelationGetDescr(relation);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);

	ExecClearTuple(slot);
	memset(slot->tts_isnull, false, sizeof(bool) * COLUMN_COUNT);
	memset(slot->tts_isnull + COLUMN_COUNT, true, sizeof(bool) * (desc->natts - COLUMN_COUNT));
	slot->tts_values[COLUMN_QUEUE_ID] = Int32GetDatum(key->queue_id);
	slot->tts_values[COLUMN_PRIORITY] = ObjectIdGetDatum(qs_catalog()->priority[key->priority]);
	slot->tts_values[COLUMN_SHARD] = Int16GetDatum(key->shard);
	for (int i = 0; i < COUNTER_COUNT; i++)
		slot->tts_values[COLUMN_FIRST_COUNTER + i] = Int64GetDatum(counters->value[i]);
	ExecStoreVirtualTuple(slot);

	return slot;
}

/*
 * Index entries for the row in `slot`, in every index of the relation: a DBA
 * may have added one of his own.
 *
 * A unique index cannot meet a conflicting row here (see qs_lock_creation()),
 * so the check neither waits nor fails.
 */
static void
insert_index_entries(Relation relation, TupleTableSlot *slot)
{
	List *indexes = RelationGetIndexList(relation);
	ListCell *cell;

	foreach (cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
		IndexInfo *info = BuildIndexInfo(index);
		Datum values[INDEX_MAX_KEYS];
		bool isnull[INDEX_MAX_KEYS];

		if (info->ii_Expressions != NIL || info->ii_Predicate != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" has expressions or a predicate",
							RelationGetRelationName(index)),
					 errdetail("The counters of queue_state support plain indexes only."),
					 errhint("Drop the index.")));

		FormIndexDatum(info, slot, NULL, values, isnull);
		index_insert(index, values, isnull, &slot->tts_tid, relation,
					 info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, info);
		index_close(index, NoLock);
	}
	list_free(indexes);
}

static void
insert_row(Relation relation, const ShardKey *key, const Counters *counters)
{
	TupleTableSlot *row = make_row(relation, key, counters);

	table_tuple_insert(relation, row, GetCurrentCommandId(true), 0, NULL);
	insert_index_entries(relation, row);
	ExecDropSingleTupleTableSlot(row);
}

void
qs_rollup_insert_shard(Rollup *rollup, const ShardKey *key, const Counters *counters)
{
	insert_row(rollup->shard, key, counters);
}

void
qs_rollup_insert_pending(Rollup *rollup, const ShardKey *key, const Counters *counters)
{
	qs_rollup_open_pending(rollup);
	insert_row(rollup->pending, key, counters);
}

static TM_Result
update_shard(Rollup *rollup, const ShardKey *key, const Counters *counters, bool wait)
{
	TupleTableSlot *row = make_row(rollup->shard, key, counters);
	TM_FailureData failure;
	TM_Result result;
	bool update_indexes;

	result = qs_table_tuple_update(rollup->shard, &rollup->shard_slot->tts_tid,
								   row, GetCurrentCommandId(true), wait,
								   &failure, &update_indexes);
	if (result == TM_Ok && update_indexes)
		insert_index_entries(rollup->shard, row);
	ExecDropSingleTupleTableSlot(row);

	return result;
}

TM_Result
qs_rollup_update_shard(Rollup *rollup, const ShardKey *key, const Counters *counters)
{
	return update_shard(rollup, key, counters, false);
}

/*
 * wait = true: for a row that this transaction has locked itself, false
 * answers TM_BeingModified, and a caller that took that for "busy" would lose
 * the pending rows it has deleted.  Nobody else can hold the row, so there is
 * no wait.
 */
void
qs_rollup_update_locked_shard(Rollup *rollup, const ShardKey *key, const Counters *counters)
{
	TM_Result result = update_shard(rollup, key, counters, true);

	if (result != TM_Ok)
		elog(ERROR, "unexpected result %d from updating a locked counter row", result);
}

TM_Result
qs_rollup_lock_shard(Rollup *rollup)
{
	TM_FailureData failure;
	ItemPointerData tid = rollup->shard_slot->tts_tid;

	/* The slot is refilled with the locked version. */
	return table_tuple_lock(rollup->shard, &tid, SnapshotSelf,
							rollup->shard_slot, GetCurrentCommandId(true),
							LockTupleNoKeyExclusive, LockWaitSkip, 0, &failure);
}

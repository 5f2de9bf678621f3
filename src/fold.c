/*-------------------------------------------------------------------------
 *
 * fold.c
 *	  fold_pending(): moves pending rows into their shard rows.
 *
 * A shard that is busy is skipped: whoever holds it may be folding it.  Where
 * the shard row's page has no room (an old snapshot keeps its earlier
 * versions) the pending rows are added up into one instead, so that shard
 * rows stay on their pages and the number of live pending rows stays small.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "delta.h"
#include "pending.h"
#include "rollup.h"

PG_FUNCTION_INFO_V1(qs_fold_pending);

/* Fewer pending rows than this are not worth adding up into one. */
#define MIN_ROWS_TO_ADD_UP 8

typedef struct PendingShard
{
	ShardKey key;
	int64 rows;
} PendingShard;

static int
pending_shard_compare(const void *a, const void *b)
{
	return qs_shard_key_compare(&((const PendingShard *) a)->key,
								&((const PendingShard *) b)->key);
}

/*
 * Which shards have pending rows, and about how many, in key order.
 */
static PendingShard *
list_pending_shards(Rollup *rollup, int *count)
{
	HASHCTL control = {
		.keysize = sizeof(ShardKey),
		.entrysize = sizeof(PendingShard),
		.hcxt = CurrentMemoryContext
	};
	HTAB *shards = hash_create("queue_state pending shards", 256, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	HASH_SEQ_STATUS status;
	PendingShard *shard;
	PendingShard *list;
	TableScanDesc scan;

	qs_rollup_open_pending(rollup);
	scan = table_beginscan(rollup->pending, SnapshotSelf, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, rollup->pending_slot))
	{
		ShardKey key = qs_rollup_row_key(rollup->pending_slot);
		bool found;

		CHECK_FOR_INTERRUPTS();
		shard = hash_search(shards, &key, HASH_ENTER, &found);
		if (!found)
			shard->rows = 0;
		shard->rows++;
	}
	table_endscan(scan);
	ExecClearTuple(rollup->pending_slot);

	list = palloc(sizeof(PendingShard) * (hash_get_num_entries(shards) + 1));
	*count = 0;
	hash_seq_init(&status, shards);
	while ((shard = hash_seq_search(&status)) != NULL)
		list[(*count)++] = *shard;
	hash_destroy(shards);
	qsort(list, *count, sizeof(PendingShard), pending_shard_compare);

	return list;
}

/*
 * Makes the missing shard row out of its pending rows.
 */
static int64
fold_into_new_row(Rollup *rollup, const ShardKey *key, int64 max_rows)
{
	Counters sum = { 0 };
	int64 taken;

	if (qs_lock_creation(rollup, key) != CREATION_LOCKED)
		return 0;

	taken = qs_take_pending(rollup, key, max_rows, &sum);
	if (taken == 0)
		return 0;
	if (qs_counters_negative(&sum) == (Counter) COUNTER_COUNT)
		qs_rollup_insert_shard(rollup, key, &sum);
	else
		qs_rollup_insert_pending(rollup, key, &sum);

	return taken;
}

/*
 * Returns how many pending rows of the shard were taken.
 */
static int64
fold_shard(Rollup *rollup, const PendingShard *shard, int64 max_rows)
{
	const ShardKey *key = &shard->key;
	Counters counters;
	Counters sum = { 0 };
	bool has_room;
	int64 taken;

	if (!qs_rollup_find_shard(rollup, key))
		return fold_into_new_row(rollup, key, max_rows);

	has_room = qs_rollup_has_room(rollup);
	if (!has_room && shard->rows < MIN_ROWS_TO_ADD_UP)
		return 0;

	if (qs_rollup_lock_shard(rollup) != TM_Ok)
		return 0;

	qs_rollup_row_counters(rollup->shard_slot, &counters);
	taken = qs_take_pending(rollup, key, max_rows, &sum);
	if (taken == 0)
		return 0;
	qs_counters_add(&counters, &sum);

	/*
	 * A part of the pending rows can add up to less than the row can give;
	 * the rest makes up for it later.
	 */
	if (has_room && qs_counters_negative(&counters) == (Counter) COUNTER_COUNT)
		qs_rollup_update_locked_shard(rollup, key, &counters);
	else
		qs_rollup_insert_pending(rollup, key, &sum);

	return taken;
}

Datum
qs_fold_pending(PG_FUNCTION_ARGS)
{
	int64 max_rows = PG_ARGISNULL(0) ? PG_INT64_MAX : PG_GETARG_INT64(0);
	int64 folded = 0;
	Rollup rollup;
	PendingShard *shards;
	int count;

	PreventCommandIfReadOnly("fold_pending()");
	PreventCommandIfParallelMode("fold_pending()");
	PreventCommandDuringRecovery("fold_pending()");

	if (max_rows < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows is out of range: " INT64_FORMAT, max_rows),
				 errdetail("At least one row must be asked for."),
				 errhint("Pass NULL to fold all pending rows.")));

	qs_rollup_open(&rollup);
	shards = list_pending_shards(&rollup, &count);
	for (int i = 0; i < count && folded < max_rows; i++)
		folded += fold_shard(&rollup, &shards[i], max_rows - folded);
	qs_rollup_close(&rollup);

	CommandCounterIncrement();

	PG_RETURN_INT64(folded);
}

/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  Who may take pending rows, and who may make a shard row.
 *
 * Two rules keep the rollup exact while nobody waits for anybody:
 *
 *	- pending rows of a shard are deleted only by whoever holds its shard row,
 *	  or the right to make it; so no two transactions take the same ones;
 *	- a shard row is made only by whoever holds the right to make it; so no two
 *	  inserts of one key meet in the primary key.
 *
 * The right to make shard rows is a heavyweight lock on an object tag: the
 * shard's own, plus a shared one on the tag of all shards.  A transaction that
 * makes very many rows (a restore) takes the tag of all shards exclusively
 * instead, or the lock table would overflow.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "pending.h"
#include "queue_reference.h"
#include "shard.h"

/* From this many rows on, a transaction needs the right to make all of them. */
#define MAX_SINGLE_CREATIONS 64

/*
 * Objects under the shard table's OID: queue ids are positive, so zero is
 * free to mean all of them.
 */
#define ALL_SHARDS 0

static int creations = 0; /* by this transaction */

static bool
conditional_lock(Rollup *rollup, uint32 object, uint16 subobject, LOCKMODE mode)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationGetRelid(rollup->shard),
					   object, subobject);
	return LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

static bool
conditional_lock_creation(Rollup *rollup, const ShardKey *key)
{
	if (creations++ >= MAX_SINGLE_CREATIONS)
		return conditional_lock(rollup, ALL_SHARDS, 0, ExclusiveLock);

	return conditional_lock(rollup, ALL_SHARDS, 0, ShareLock) &&
		   conditional_lock(rollup, (uint32) key->queue_id,
							(uint16) (key->priority * QS_SHARD_COUNT + key->shard),
							ExclusiveLock);
}

/*
 * To be asked under the creation lock; then a "no" is certain.
 *
 * A row that is moving to another page can be missed: its old index entry is
 * read before the new one is there, and its old version is looked at after the
 * move was committed.  That is so with SnapshotSelf and with a dirty snapshot.
 * Of a row in an MVCC snapshot there is always one version that is visible,
 * and it has been in the index since before the snapshot.  The dirty one is
 * for rows that somebody inserts by hand.
 */
static bool
shard_exists(Rollup *rollup, const ShardKey *key)
{
	SnapshotData dirty;
	Snapshot snapshot;
	bool exists;

	InitDirtySnapshot(dirty);
	if (qs_rollup_search_shard(rollup, key, &dirty))
		return true;

	snapshot = RegisterSnapshot(GetLatestSnapshot());
	exists = qs_rollup_shard_is_visible(rollup, key, snapshot);
	UnregisterSnapshot(snapshot);

	return exists;
}

Creation
qs_lock_creation(Rollup *rollup, const ShardKey *key)
{
	/*
	 * First of all: the changes of a transaction that has dropped the queue
	 * are not to be appended because somebody has one of the locks.
	 */
	if (qs_deleted_queue(key->queue_id))
		return CREATION_NO_QUEUE;

	if (!conditional_lock_creation(rollup, key))
		return CREATION_BUSY;

	/*
	 * A folder changes no message, so nothing else keeps the queue from being
	 * dropped before the new row is visible to whoever drops it.
	 */
	if (!qs_try_reference_queue(key->queue_id))
		return CREATION_BUSY;

	if (shard_exists(rollup, key))
		return CREATION_MOVED;

	/* Now that it cannot be dropped any more. */
	if (!qs_queue_may_exist(key->queue_id))
		return CREATION_NO_QUEUE;

	return CREATION_LOCKED;
}

int64
qs_take_pending(Rollup *rollup, const ShardKey *key, int64 max_rows,
				Counters *counters)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan = qs_rollup_begin_pending_scan(rollup, key);
	TupleTableSlot *slot = rollup->pending_slot;
	int64 taken = 0;

	while (taken < max_rows && index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		Counters change;
		TM_FailureData failure;
		TM_Result result;

		CHECK_FOR_INTERRUPTS();

		/*
		 * Only a consistent set of pending rows adds up: the scan alone,
		 * under SnapshotSelf, could see a decrement and not the increment
		 * before it, which it passed a moment too early.  The scan does not
		 * use the MVCC snapshot itself because that would take SSI predicate
		 * locks.
		 */
		if (!table_tuple_satisfies_snapshot(rollup->pending, slot, snapshot))
			continue;

		qs_rollup_row_counters(slot, &change);
		result = table_tuple_delete(rollup->pending, &slot->tts_tid,
									GetCurrentCommandId(true), InvalidSnapshot,
									InvalidSnapshot, false, &failure, false);

		/*
		 * Only the removal of the whole queue can have come first; then the
		 * row is no longer ours to count.
		 */
		if (result != TM_Ok)
			continue;

		qs_counters_add(counters, &change);
		taken++;
	}

	index_endscan(scan);
	ExecClearTuple(slot);
	UnregisterSnapshot(snapshot);

	return taken;
}

void
qs_pending_end_transaction(void)
{
	creations = 0;
}

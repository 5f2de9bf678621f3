/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  Which leases are held; see lease.h.
 *
 * The rows are found through the primary key without the planner: a join with
 * the given leases would be planned by guesses, and a bad one reads every
 * live lease.  They are locked before the statement that changes them, for
 * two reasons: batches that lock in the order of ids never deadlock, and in
 * REPEATABLE READ and SERIALIZABLE a statement that met a row changed since
 * the snapshot would fail, where a stale receipt handle is to be answered
 * with false.  The statement then finds them by address, and meets nobody.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "lease.h"

typedef struct LeaseSearch
{
	Relation message;
	Relation index;
	TupleTableSlot *slot;
	TimestampTz now;
	LockTupleMode mode;
	Oid in_flight;
	AttrNumber state_column;
	AttrNumber time_column;
	AttrNumber handle_column;
} LeaseSearch;

static TM_Result lock_lease(LeaseSearch *search, IndexScanDesc scan,
							const Lease *lease, ItemPointer tid);
static bool is_held(LeaseSearch *search, const Lease *lease);

int
qs_lock_leases(Relation message, const Lease *leases, int count,
			   TimestampTz now, LockTupleMode mode, ItemPointerData *tids)
{
	const Catalog *catalog = qs_catalog();
	LeaseSearch search;
	bool quiet;
	int i = 0;
	int held = 0;

	search.message = message;
	search.now = now;
	search.mode = mode;
	search.in_flight = catalog->state[STATE_IN_FLIGHT];
	search.state_column = catalog->message_column.state;
	search.time_column = catalog->message_column.available_after;
	search.handle_column = get_attnum(RelationGetRelid(message),
									  "receipt_handle");
	search.index = index_open(get_relname_relid("queue_message_pkey",
												RelationGetNamespace(message)),
							  AccessShareLock);
	search.slot = table_slot_create(message, NULL);

	/*
	 * In SERIALIZABLE an MVCC scan leaves predicate locks on index pages that
	 * every enqueue() and dequeue() writes to, which made one transaction in
	 * a hundred fail.  A non-MVCC scan leaves none.  It can miss a row that is
	 * being moved, so what it does not find is looked up again, properly.
	 */
	quiet = IsolationIsSerializable();

	/* this command may follow others of the same transaction */
	CommandCounterIncrement();
	while (i < count)
	{
		IndexScanDesc scan;
		bool look_anew = false;

		PushActiveSnapshot(GetLatestSnapshot());
		scan = qs_index_beginscan(message, search.index, quiet ? SnapshotSelf : GetActiveSnapshot(), 1);
		while (i < count && !look_anew)
		{
			TM_Result outcome;

			CHECK_FOR_INTERRUPTS();
			outcome = lock_lease(&search, scan, &leases[i], &tids[held]);
			if (outcome == TM_Ok)
				held++;
			/* a version that changed before the lock is looked up anew, too */
			look_anew = outcome == TM_Updated || (outcome != TM_Ok && quiet);
			if (!look_anew)
				i++;
		}
		index_endscan(scan);
		PopActiveSnapshot();
		quiet = false;
	}

	ExecDropSingleTupleTableSlot(search.slot);
	index_close(search.index, AccessShareLock);
	return held;
}

/*
 * TM_Ok: locked.  TM_Updated: there is a newer version than the snapshot
 * sees.  Anything else: not held.
 */
static TM_Result
lock_lease(LeaseSearch *search, IndexScanDesc scan, const Lease *lease,
		   ItemPointer tid)
{
	ScanKeyData key;
	TM_FailureData failure;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(&lease->id));
	index_rescan(scan, &key, 1, NULL, 0);
	if (!index_getnext_slot(scan, ForwardScanDirection, search->slot) ||
		!is_held(search, lease))
		return TM_Deleted;

	*tid = search->slot->tts_tid;
	return table_tuple_lock(search->message, tid, GetActiveSnapshot(),
							search->slot, GetCurrentCommandId(false),
							search->mode, LockWaitBlock, 0, &failure);
}

static bool
is_held(LeaseSearch *search, const Lease *lease)
{
	TupleTableSlot *slot = search->slot;
	Datum value;
	bool isnull;

	value = slot_getattr(slot, search->state_column, &isnull);
	if (DatumGetObjectId(value) != search->in_flight)
		return false;
	value = slot_getattr(slot, search->time_column, &isnull);
	if (DatumGetTimestampTz(value) <= search->now)
		return false;
	value = slot_getattr(slot, search->handle_column, &isnull);
	return !isnull && memcmp(DatumGetUUIDP(value)->data,
							 lease->receipt_handle.data, UUID_LEN) == 0;
}

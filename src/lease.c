/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  Is a lease held?  See lease.h.
 *
 * In REPEATABLE READ and SERIALIZABLE a plain DELETE of a message that was
 * delivered again or acknowledged since the snapshot is a serialization
 * failure, but a stale receipt handle is to be answered with false.  So in
 * these levels the latest version of the row is found and locked first; the
 * statement that follows then meets nobody.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "lease.h"

static bool
is_held(TupleTableSlot *slot, AttrNumber handle_column,
		const pg_uuid_t *receipt_handle, TimestampTz now)
{
	const Catalog *catalog = qs_catalog();
	AttrNumber	state_column = catalog->message_column.state;
	AttrNumber	time_column = catalog->message_column.available_after;
	Oid			in_flight = catalog->state[STATE_IN_FLIGHT];
	Datum		value;
	bool		isnull;

	value = slot_getattr(slot, state_column, &isnull);
	if (DatumGetObjectId(value) != in_flight)
		return false;
	value = slot_getattr(slot, time_column, &isnull);
	if (DatumGetTimestampTz(value) <= now)
		return false;
	value = slot_getattr(slot, handle_column, &isnull);
	return !isnull && memcmp(DatumGetUUIDP(value)->data, receipt_handle->data,
							 UUID_LEN) == 0;
}

bool
qs_lock_lease(Relation message, const pg_uuid_t *id,
			  const pg_uuid_t *receipt_handle, TimestampTz now,
			  LockTupleMode mode)
{
	AttrNumber	handle_column = get_attnum(RelationGetRelid(message),
										   "receipt_handle");
	Oid			primary_key = get_relname_relid("queue_message_pkey",
												RelationGetNamespace(message));
	Relation	index = index_open(primary_key, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(message, NULL);
	TM_Result	outcome;

	/* A version that changed between look and lock is looked up again. */
	do
	{
		IndexScanDesc scan;
		ScanKeyData key;

		outcome = TM_Deleted;
		CommandCounterIncrement();
		PushActiveSnapshot(GetLatestSnapshot());
		scan = qs_index_beginscan(message, index, GetActiveSnapshot(), 1);
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
					UUIDPGetDatum(id));
		index_rescan(scan, &key, 1, NULL, 0);
		if (index_getnext_slot(scan, ForwardScanDirection, slot) &&
			is_held(slot, handle_column, receipt_handle, now))
		{
			ItemPointerData tid = slot->tts_tid;
			TM_FailureData failure;

			outcome = table_tuple_lock(message, &tid, GetActiveSnapshot(),
									   slot, GetCurrentCommandId(false), mode,
									   LockWaitBlock, 0, &failure);
		}
		index_endscan(scan);
		PopActiveSnapshot();
	} while (outcome == TM_Updated);

	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return outcome == TM_Ok;
}

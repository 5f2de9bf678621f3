/*-------------------------------------------------------------------------
 *
 * acknowledge.c
 *	  acknowledge(), acknowledge_batch() and extend_lease(): what the holder
 *	  of a lease can do with it.
 *
 * A lease is held while the message is IN_FLIGHT, has this receipt handle and
 * available_after is to come, by the clock and not by the transaction's
 * start.  Whoever no longer holds it is told so and gets no error, so that
 * every call can be repeated.
 *
 * Batches take their row locks in the order of ids: no two of them deadlock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "catalog.h"
#include "duration.h"
#include "lease.h"
#include "plan.h"
#include "queue_details.h"
#include "returned.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(qs_acknowledge);
PG_FUNCTION_INFO_V1(qs_acknowledge_batch);
PG_FUNCTION_INFO_V1(qs_extend_lease);

static Statement acknowledge_statement = {
	.text = "DELETE FROM queue_state.queue_message AS m"
			" WHERE m.ctid OPERATOR(pg_catalog.=) ANY ($1)"
			" RETURNING m.id, m.queue_id, m.priority",
	.result = SPI_OK_DELETE_RETURNING,
	.argument_count = 1,
	.argument = { ARGUMENT_TID_ARRAY }
};

static Statement extend_statement = {
	.text = "UPDATE queue_state.queue_message AS m SET available_after = $2"
			" WHERE m.ctid OPERATOR(pg_catalog.=) ANY ($1)"
			" RETURNING m.available_after",
	.result = SPI_OK_UPDATE_RETURNING,
	.argument_count = 2,
	.argument = { ARGUMENT_TID_ARRAY, ARGUMENT_TIMESTAMPTZ }
};

static int64 acknowledge(const Lease *leases, int count);
static int read_leases(ArrayType *ids, ArrayType *handles, Lease **leases);

/*
 * acknowledge(id uuid, receipt_handle uuid) returns boolean
 */
Datum
qs_acknowledge(PG_FUNCTION_ARGS)
{
	Lease lease;

	PreventCommandIfReadOnly("acknowledge()");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_BOOL(false);
	lease.id = *PG_GETARG_UUID_P(0);
	lease.receipt_handle = *PG_GETARG_UUID_P(1);
	PG_RETURN_BOOL(acknowledge(&lease, 1) > 0);
}

/*
 * acknowledge_batch(ids uuid[], receipt_handles uuid[]) returns bigint
 *
 * Null arrays are what array_agg() makes of no rows: nothing to do.
 */
Datum
qs_acknowledge_batch(PG_FUNCTION_ARGS)
{
	Lease *leases;
	int count;

	PreventCommandIfReadOnly("acknowledge_batch()");
	count = read_leases(PG_ARGISNULL(0) ? NULL : PG_GETARG_ARRAYTYPE_P(0),
						PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1),
						&leases);
	PG_RETURN_INT64(acknowledge(leases, count));
}

static int64
acknowledge(const Lease *leases, int count)
{
	TimestampTz now = GetCurrentTimestamp();
	Relation message = table_open(qs_catalog()->message, RowExclusiveLock);
	ItemPointerData *tids = palloc(count * sizeof(ItemPointerData));
	int held;
	int64 acknowledged = 0;

	held = qs_lock_leases(message, leases, count, now, LockTupleExclusive,
						  tids);
	if (held > 0)
	{
		Datum value = qs_tid_array(tids, held);

		SPI_connect();
		qs_execute_latest(&acknowledge_statement, &value, NULL);
		acknowledged = SPI_processed;
		qs_count_events(COUNTER_ACKNOWLEDGED);
		SPI_finish();
		qs_count_done();
	}
	table_close(message, NoLock);
	return acknowledged;
}

/*
 * extend_lease(id uuid, receipt_handle uuid, visibility_timeout interval)
 * returns timestamptz
 */
Datum
qs_extend_lease(PG_FUNCTION_ARGS)
{
	TimestampTz now = GetCurrentTimestamp();
	const Interval *timeout;
	Relation message;
	Lease lease;
	ItemPointerData tid;
	TimestampTz until = 0;
	bool extended = false;

	PreventCommandIfReadOnly("extend_lease()");
	if (PG_ARGISNULL(2))
		qs_null_argument("visibility_timeout");
	timeout = PG_GETARG_INTERVAL_P(2);
	qs_check_visibility_timeout(timeout);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	lease.id = *PG_GETARG_UUID_P(0);
	lease.receipt_handle = *PG_GETARG_UUID_P(1);

	message = table_open(qs_catalog()->message, RowExclusiveLock);
	if (qs_lock_leases(message, &lease, 1, now, LockTupleNoKeyExclusive,
					   &tid) > 0)
	{
		Datum values[2];
		bool isnull;

		values[0] = qs_tid_array(&tid, 1);
		values[1] = TimestampTzGetDatum(qs_time_after(now, timeout));
		SPI_connect();
		qs_execute_latest(&extend_statement, values, NULL);
		extended = SPI_processed > 0;
		if (extended)
			until = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0],
													  SPI_tuptable->tupdesc,
													  1, &isnull));
		SPI_finish();
		qs_count_done();
	}
	table_close(message, NoLock);
	if (!extended)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(until);
}

static int
compare_leases(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(Lease));
}

/*
 * The leases of two parallel arrays, sorted by id and each once.  A null
 * element names no lease.
 */
static int
read_leases(ArrayType *ids, ArrayType *handles, Lease **leases)
{
	Datum *id = NULL;
	Datum *handle = NULL;
	bool *id_null = NULL;
	bool *handle_null = NULL;
	int id_count = 0;
	int handle_count = 0;
	int count = 0;
	int distinct = 0;
	Lease *lease;

	if (ids != NULL)
		deconstruct_array(ids, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR,
						  &id, &id_null, &id_count);
	if (handles != NULL)
		deconstruct_array(handles, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR,
						  &handle, &handle_null, &handle_count);
	if (id_count != handle_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ids and receipt_handles differ in length"),
				 errdetail("There are %d ids and %d receipt handles.",
						   id_count, handle_count),
				 errhint("Give the receipt handle of each id at the same place.")));

	lease = palloc(id_count * sizeof(Lease));
	for (int i = 0; i < id_count; i++)
		if (!id_null[i] && !handle_null[i])
		{
			lease[count].id = *DatumGetUUIDP(id[i]);
			lease[count].receipt_handle = *DatumGetUUIDP(handle[i]);
			count++;
		}
	qsort(lease, count, sizeof(Lease), compare_leases);
	for (int i = 0; i < count; i++)
		if (i == 0 || compare_leases(&lease[i], &lease[i - 1]) != 0)
			lease[distinct++] = lease[i];
	*leases = lease;
	return distinct;
}

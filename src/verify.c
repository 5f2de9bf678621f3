/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  verify(): the drift, as rows.
 *
 * The query is SQL, in drift().  What SQL cannot say is which of this
 * transaction's own changes it has to see: all that have been counted.  The
 * snapshot of a cursor, or of a statement that calls enqueue(), is older than
 * the latest of them.  A new snapshot would be too new: it would show what
 * the statement at work has changed so far, which is counted at its end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/snapmgr.h"

#include "transaction.h"

PG_FUNCTION_INFO_V1(qs_verify);

#define VERIFY_COLUMNS 5

Datum
qs_verify(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Snapshot snapshot;
	SPIPlanPtr plan;

	InitMaterializedSRF(fcinfo, 0);

	PushCopiedSnapshot(GetActiveSnapshot());
	snapshot = GetActiveSnapshot();
	snapshot->curcid = Max(snapshot->curcid, qs_command_after_changes());

	SPI_connect();
	plan = SPI_prepare("SELECT d.queue_name, d.priority, d.counter, d.recorded, d.actual"
					   " FROM queue_state.drift() AS d",
					   0, NULL);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, snapshot, InvalidSnapshot,
							 true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not compare the counters: %s", SPI_result_code_string(SPI_result));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Datum value[VERIFY_COLUMNS];
		bool isnull[VERIFY_COLUMNS];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, value, isnull);
		tuplestore_putvalues(result->setResult, result->setDesc, value, isnull);
	}
	SPI_finish();
	PopActiveSnapshot();

	return (Datum) 0;
}

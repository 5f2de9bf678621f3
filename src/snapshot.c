/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  physical_state(), logical_state(), snapshot(): the state of all queues
 *	  as rows, one per queue and priority, HIGH first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "reader.h"
#include "state.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(qs_physical_state);
PG_FUNCTION_INFO_V1(qs_logical_state);
PG_FUNCTION_INFO_V1(qs_snapshot);
PG_FUNCTION_INFO_V1(qs_rollup_by_shard);

/* The widest of the results, snapshot(), has 20 columns. */
#define MAX_COLUMNS 20

/* A result row while it is being put together; no column is ever null. */
typedef struct Row
{
	Datum value[MAX_COLUMNS];
	int columns;
} Row;

static void
put(Row *row, Datum value)
{
	Assert(row->columns < MAX_COLUMNS);
	row->value[row->columns++] = value;
}

static void
put_count(Row *row, int64 count)
{
	put(row, Int64GetDatum(count));
}

/*
 * Seconds since the message was enqueued; 0 where there is none, or where
 * its clock was ahead of ours.
 */
static void
put_age(Row *row, TimestampTz enqueued_at, TimestampTz now)
{
	float8 age = 0;

	/* In floating point, where the ends of the calendar do not overflow. */
	if (enqueued_at != DT_NOEND && enqueued_at < now)
		age = ((float8) now - (float8) enqueued_at) / USECS_PER_SEC;
	put(row, Float8GetDatum(age));
}

static void
put_physical(Row *row, const CellState *cell)
{
	put_count(row, cell->physical.value[COUNTER_READY]);
	put_count(row, cell->physical.value[COUNTER_IN_FLIGHT]);
	put_count(row, cell->physical.value[COUNTER_DELAYED]);
	put_count(row, cell->physical.value[COUNTER_DEAD_LETTER]);
}

static void
put_logical(Row *row, const CellState *cell)
{
	put_count(row, cell->ready);
	put_count(row, cell->in_flight);
	put_count(row, cell->delayed);
	put_count(row, cell->exhausted);
	put_count(row, cell->physical.value[COUNTER_DEAD_LETTER]);
}

static void
put_snapshot(Row *row, const CellState *cell, TimestampTz now)
{
	put_count(row, cell->ready);
	put_count(row, cell->in_flight);
	put_count(row, cell->delayed);
	put_count(row, cell->exhausted);
	put_count(row, cell->expired_backlog);
	put_count(row, cell->elapsed_backlog);
	put_count(row, cell->physical.value[COUNTER_DEAD_LETTER]);
	put_age(row, cell->oldest_ready, now);
	put_age(row, cell->oldest_in_flight, now);
	for (Counter counter = STATE_COUNTER_COUNT; counter < COUNTER_COUNT; counter++)
		put_count(row, cell->physical.value[counter]);
}

static void
return_state(FunctionCallInfo fcinfo, StateDepth depth)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Snapshot snapshot;
	AllState *state;
	Oid priorities[PRIORITY_COUNT];
	bool isnull[MAX_COLUMNS] = { false };

	InitMaterializedSRF(fcinfo, 0);

	/*
	 * The snapshot of a cursor, or of a statement that calls enqueue(), is
	 * older than this transaction's latest changes.  They are among the
	 * changes that are not applied yet, so the messages must be read with
	 * them.
	 */
	PushCopiedSnapshot(GetActiveSnapshot());
	snapshot = GetActiveSnapshot();
	snapshot->curcid = Max(snapshot->curcid, qs_command_after_changes());
	state = qs_read_state(snapshot, depth);
	PopActiveSnapshot();

	memcpy(priorities, qs_catalog()->priority, sizeof(priorities));

	for (int i = 0; i < state->queue_count; i++)
	{
		QueueState *queue = &state->queue[i];
		Datum name = CStringGetTextDatum(queue->name);

		for (int p = PRIORITY_HIGH; p >= PRIORITY_LOW; p--)
		{
			CellState *cell = &queue->cell[p];
			Row row = { .columns = 0 };

			put(&row, Int32GetDatum(queue->queue_id));
			put(&row, name);
			put(&row, ObjectIdGetDatum(priorities[p]));
			switch (depth)
			{
				case DEPTH_PHYSICAL:
					put_physical(&row, cell);
					break;
				case DEPTH_LOGICAL:
					put_logical(&row, cell);
					break;
				case DEPTH_OLDEST:
					put_snapshot(&row, cell, state->now);
					break;
			}
			if (row.columns != result->setDesc->natts)
				elog(ERROR, "function returns %d columns, declared are %d",
					 row.columns, result->setDesc->natts);
			tuplestore_putvalues(result->setResult, result->setDesc, row.value, isnull);
		}
	}
}

Datum
qs_physical_state(PG_FUNCTION_ARGS)
{
	return_state(fcinfo, DEPTH_PHYSICAL);
	return (Datum) 0;
}

Datum
qs_logical_state(PG_FUNCTION_ARGS)
{
	return_state(fcinfo, DEPTH_LOGICAL);
	return (Datum) 0;
}

Datum
qs_snapshot(PG_FUNCTION_ARGS)
{
	return_state(fcinfo, DEPTH_OLDEST);
	return (Datum) 0;
}

static void
return_contribution(const ShardKey *key, const Counters *counters, void *arg)
{
	ReturnSetInfo *result = arg;
	bool isnull[MAX_COLUMNS] = { false };
	Row row = { .columns = 0 };

	put(&row, Int32GetDatum(key->queue_id));
	put(&row, ObjectIdGetDatum(qs_catalog()->priority[key->priority]));
	put(&row, Int16GetDatum(key->shard));
	for (int i = 0; i < STATE_COUNTER_COUNT; i++)
		put_count(&row, counters->value[i]);
	tuplestore_putvalues(result->setResult, result->setDesc, row.value, isnull);
}

/*
 * rollup_by_shard(): the state counters of every contribution to a shard, for
 * verify() and rebuild() to sum up.
 */
Datum
qs_rollup_by_shard(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	qs_read_rollup(GetActiveSnapshot(), return_contribution, fcinfo->resultinfo);
	return (Datum) 0;
}

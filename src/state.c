/*-------------------------------------------------------------------------
 *
 * state.c
 *	  The state of every queue at one instant; see state.h.
 *
 * The rollup says what is written in the message rows.  Time passes over
 * rows without changing them, so the rows it has passed over are visited
 * through the indexes that order them by time, and nothing else is.  The
 * indexes are scanned directly: a plan chosen by cost may visit every message
 * when statistics are old.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "reader.h"
#include "rollup.h"
#include "state.h"

/* The message table and its indexes, open for reading. */
typedef struct MessageReader
{
	Catalog		catalog;
	Snapshot	snapshot;
	Relation	message;
	Relation	ready_index;
	Relation	waiting_index;
	Relation	in_flight_index;
	Relation	expiry_index;
	TupleTableSlot *slot;
} MessageReader;

static int
queue_state_compare(const void *a, const void *b)
{
	int32		left = ((const QueueState *) a)->queue_id;
	int32		right = ((const QueueState *) b)->queue_id;

	return (left > right) - (left < right);
}

static QueueState *
find_queue(AllState *state, int32 queue_id)
{
	QueueState	key = {.queue_id = queue_id};

	return bsearch(&key, state->queue, state->queue_count, sizeof(QueueState),
				   queue_state_compare);
}

static void
read_queues(AllState *state, Snapshot snapshot)
{
	Oid			relid = qs_catalog()->queue;
	AttrNumber	queue_id_column = get_attnum(relid, "queue_id");
	AttrNumber	name_column = get_attnum(relid, "name");
	AttrNumber	attempts_column = get_attnum(relid, "max_delivery_attempts");
	Relation	relation = table_open(relid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, qs_reading_snapshot(snapshot), 0, NULL);
	int			allocated = 64;

	state->queue = palloc(sizeof(QueueState) * allocated);
	state->queue_count = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		QueueState *queue;
		bool		isnull;

		if (!qs_row_is_visible(relation, slot, snapshot))
			continue;
		if (state->queue_count == allocated)
		{
			allocated *= 2;
			state->queue = repalloc_huge(state->queue, sizeof(QueueState) * allocated);
		}
		queue = &state->queue[state->queue_count++];
		memset(queue, 0, sizeof(QueueState));
		queue->queue_id = DatumGetInt32(slot_getattr(slot, queue_id_column, &isnull));
		queue->name = TextDatumGetCString(slot_getattr(slot, name_column, &isnull));
		queue->max_delivery_attempts = DatumGetInt32(slot_getattr(slot, attempts_column, &isnull));
		for (int i = 0; i < PRIORITY_COUNT; i++)
		{
			queue->cell[i].oldest_ready = DT_NOEND;
			queue->cell[i].oldest_in_flight = DT_NOEND;
		}
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(relation, AccessShareLock);

	qsort(state->queue, state->queue_count, sizeof(QueueState), queue_state_compare);
}

/* The rows of a queue lie together, so the last queue found is a good guess. */
typedef struct SumTarget
{
	AllState   *state;
	QueueState *last;
} SumTarget;

static void
add_to_cell(const ShardKey *key, const Counters *counters, void *arg)
{
	SumTarget  *target = arg;
	Counters   *sum;

	if (target->last == NULL || target->last->queue_id != key->queue_id)
		target->last = find_queue(target->state, key->queue_id);
	if (target->last == NULL)
		return;					/* verify() tells of rows without a queue */

	sum = &target->last->cell[key->priority].physical;
	for (int i = 0; i < COUNTER_COUNT; i++)
		sum->value[i] += counters->value[i];
}

static void
open_messages(MessageReader *reader, Snapshot snapshot)
{
	reader->catalog = *qs_catalog();
	reader->snapshot = snapshot;
	reader->message = table_open(reader->catalog.message, AccessShareLock);
	reader->ready_index = index_open(reader->catalog.ready_index, AccessShareLock);
	reader->waiting_index = index_open(reader->catalog.waiting_index, AccessShareLock);
	reader->in_flight_index = index_open(reader->catalog.in_flight_index, AccessShareLock);
	reader->expiry_index = index_open(reader->catalog.expiry_index, AccessShareLock);
	reader->slot = table_slot_create(reader->message, NULL);
}

static void
close_messages(MessageReader *reader)
{
	ExecDropSingleTupleTableSlot(reader->slot);
	index_close(reader->expiry_index, AccessShareLock);
	index_close(reader->in_flight_index, AccessShareLock);
	index_close(reader->waiting_index, AccessShareLock);
	index_close(reader->ready_index, AccessShareLock);
	table_close(reader->message, AccessShareLock);
}

static IndexScanDesc
begin_index_scan(MessageReader *reader, Relation index, ScanKey keys, int nkeys)
{
	IndexScanDesc scan = qs_index_beginscan(reader->message, index,
											qs_reading_snapshot(reader->snapshot), nkeys);

	index_rescan(scan, keys, nkeys, NULL, 0);
	return scan;
}

static bool
next_row(MessageReader *reader, IndexScanDesc scan)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!index_getnext_slot(scan, ForwardScanDirection, reader->slot))
			return false;
	} while (!qs_row_is_visible(reader->message, reader->slot, reader->snapshot));

	return true;
}

static Datum
column(MessageReader *reader, AttrNumber attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(reader->slot, attnum, &isnull);

	Assert(!isnull);
	return value;
}

static TimestampTz
time_column(MessageReader *reader, AttrNumber attnum)
{
	return DatumGetTimestampTz(column(reader, attnum));
}

/* Scan keys of one cell: queue_id and priority lead the indexes used so. */
#define CELL_KEYS 2

static void
init_cell_keys(MessageReader *reader, ScanKey keys, int32 queue_id, Priority priority)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_ENUM_EQ,
				ObjectIdGetDatum(reader->catalog.priority[priority]));
}

/*
 * READY rows past their expiry are ready for nobody.  One scan serves all
 * queues: the index leads with the time.
 */
static void
subtract_expired_ready(AllState *state, MessageReader *reader)
{
	ScanKeyData key;
	IndexScanDesc scan;

	ScanKeyInit(&key, 1, BTLessEqualStrategyNumber, F_TIMESTAMP_LE,
				TimestampTzGetDatum(state->now));
	scan = begin_index_scan(reader, reader->expiry_index, &key, 1);
	while (next_row(reader, scan))
	{
		int32		queue_id = DatumGetInt32(column(reader, reader->catalog.message_column.queue_id));
		Oid			priority = DatumGetObjectId(column(reader, reader->catalog.message_column.priority));
		QueueState *queue = find_queue(state, queue_id);
		CellState  *cell;

		if (queue == NULL)
			continue;
		cell = &queue->cell[qs_priority_of_oid(priority)];
		cell->expired_backlog++;
		cell->ready--;
	}
	index_endscan(scan);
}

/*
 * Elapsed rows are no longer what is written in them: they are ready again,
 * exhausted, or expired and then nothing.
 */
static void
correct_elapsed(AllState *state, MessageReader *reader, QueueState *queue, Priority priority)
{
	CellState  *cell = &queue->cell[priority];
	ScanKeyData keys[CELL_KEYS + 1];
	IndexScanDesc scan;

	init_cell_keys(reader, keys, queue->queue_id, priority);
	ScanKeyInit(&keys[CELL_KEYS], CELL_KEYS + 1, BTLessEqualStrategyNumber, F_TIMESTAMP_LE,
				TimestampTzGetDatum(state->now));
	scan = begin_index_scan(reader, reader->waiting_index, keys, CELL_KEYS + 1);
	while (next_row(reader, scan))
	{
		Oid			row_state = DatumGetObjectId(column(reader, reader->catalog.message_column.state));
		int32		attempts = DatumGetInt32(column(reader, reader->catalog.message_column.delivery_attempts));

		cell->elapsed_backlog++;
		if (row_state == reader->catalog.state[STATE_IN_FLIGHT])
			cell->in_flight--;
		else
			cell->delayed--;

		if (time_column(reader, reader->catalog.message_column.expires_at) <= state->now)
			continue;
		if (attempts >= queue->max_delivery_attempts)
		{
			cell->exhausted++;
			continue;
		}
		cell->ready++;
		cell->oldest_ready = Min(cell->oldest_ready,
								 time_column(reader, reader->catalog.message_column.enqueued_at));
	}
	index_endscan(scan);
}

/*
 * When the first row in index order whose `alive_until` lies in the future
 * was enqueued.
 */
static TimestampTz
oldest_in_index(MessageReader *reader, Relation index, int32 queue_id,
				Priority priority, AttrNumber alive_until, TimestampTz now)
{
	ScanKeyData keys[CELL_KEYS];
	IndexScanDesc scan;
	TimestampTz oldest = DT_NOEND;

	init_cell_keys(reader, keys, queue_id, priority);
	scan = begin_index_scan(reader, index, keys, CELL_KEYS);
	while (next_row(reader, scan))
	{
		if (time_column(reader, alive_until) > now)
		{
			oldest = time_column(reader, reader->catalog.message_column.enqueued_at);
			break;
		}
	}
	index_endscan(scan);

	return oldest;
}

static void
refuse_if_drifted(const QueueState *queue, Priority priority)
{
	const CellState *cell = &queue->cell[priority];

	if (cell->ready < 0 || cell->in_flight < 0 || cell->delayed < 0 ||
		qs_counters_negative(&cell->physical) != (Counter) COUNTER_COUNT)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("state of queue \"%s\", priority %s is negative",
						queue->name, qs_priority_name(priority)),
				 errdetail("Corrected for time there are " INT64_FORMAT " ready, " INT64_FORMAT
						   " in flight and " INT64_FORMAT " delayed messages.",
						   cell->ready, cell->in_flight, cell->delayed),
				 errhint("The counters have drifted. SELECT * FROM queue_state.verify() shows where, "
						 "SELECT queue_state.rebuild() repairs it.")));
}

static void
correct_for_time(AllState *state, Snapshot snapshot, StateDepth depth)
{
	MessageReader reader;

	open_messages(&reader, snapshot);

	for (int i = 0; i < state->queue_count; i++)
	{
		for (Priority p = PRIORITY_LOW; p < PRIORITY_COUNT; p++)
		{
			CellState  *cell = &state->queue[i].cell[p];

			cell->ready = cell->physical.value[COUNTER_READY];
			cell->in_flight = cell->physical.value[COUNTER_IN_FLIGHT];
			cell->delayed = cell->physical.value[COUNTER_DELAYED];
		}
	}

	subtract_expired_ready(state, &reader);

	/* Where a count is zero, no index is searched. */
	for (int i = 0; i < state->queue_count; i++)
	{
		QueueState *queue = &state->queue[i];

		for (Priority p = PRIORITY_LOW; p < PRIORITY_COUNT; p++)
		{
			CellState  *cell = &queue->cell[p];
			int64		unexpired_ready = cell->ready;

			if (cell->in_flight != 0 || cell->delayed != 0)
				correct_elapsed(state, &reader, queue, p);
			refuse_if_drifted(queue, p);
			if (depth < DEPTH_OLDEST)
				continue;

			if (unexpired_ready > 0)
				cell->oldest_ready = Min(cell->oldest_ready,
										 oldest_in_index(&reader, reader.ready_index, queue->queue_id, p,
														 reader.catalog.message_column.expires_at, state->now));
			if (cell->in_flight > 0)
				cell->oldest_in_flight =
					oldest_in_index(&reader, reader.in_flight_index, queue->queue_id, p,
									reader.catalog.message_column.available_after, state->now);
		}
	}

	close_messages(&reader);
}

AllState *
qs_read_state(Snapshot snapshot, StateDepth depth)
{
	AllState   *state = palloc0(sizeof(AllState));
	SumTarget	target = {.state = state};

	read_queues(state, snapshot);
	qs_read_rollup(snapshot, add_to_cell, &target);

	/* After the snapshot: no row of it can have been made in the future. */
	state->now = GetCurrentTimestamp();
	if (depth >= DEPTH_LOGICAL)
		correct_for_time(state, snapshot, depth);

	return state;
}

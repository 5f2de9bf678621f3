/*-------------------------------------------------------------------------
 *
 * correction.c
 *	  What time has made of the stored states; see correction.h.
 *
 * Time passes over rows without changing them, so the rows it has passed over
 * are visited through the indexes that order them by time, and nothing else
 * is.  The indexes are walked directly: a plan chosen by cost may visit every
 * message when statistics are old.
 *
 * The walks know from the rollup how many rows there are to be met.  A walk
 * that comes over a dead entry takes a step on the other side as well, and is
 * done as soon as no row is left unmet.  So it costs no more than twice the
 * shorter way, however long an old snapshot has kept the dead on the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "correction.h"
#include "rollup.h"
#include "walk.h"

/* The message table and its indexes, open for reading. */
typedef struct MessageReader
{
	Catalog catalog;
	Snapshot snapshot;
	Relation message;
	Relation ready_index;
	Relation waiting_index;
	Relation in_flight_index;
	Relation expiry_index;
} MessageReader;

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
}

static void
close_messages(MessageReader *reader)
{
	index_close(reader->expiry_index, AccessShareLock);
	index_close(reader->in_flight_index, AccessShareLock);
	index_close(reader->waiting_index, AccessShareLock);
	index_close(reader->ready_index, AccessShareLock);
	table_close(reader->message, AccessShareLock);
}

static void
init_walk(Walk *walk, MessageReader *reader, Relation index, const ScanKeyData *keys,
		  int nkeys, ScanDirection direction)
{
	qs_walk_init(walk, reader->message, index, reader->snapshot, keys, nkeys, direction);
}

static Datum
column(Walk *walk, AttrNumber attnum)
{
	bool isnull;
	Datum value = slot_getattr(walk->slot, attnum, &isnull);

	Assert(!isnull);
	return value;
}

static TimestampTz
time_column(Walk *walk, AttrNumber attnum)
{
	return DatumGetTimestampTz(column(walk, attnum));
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
 * A key for the instants up to now, or for those after it.
 */
static void
init_time_key(ScanKey key, AttrNumber attnum, bool past, TimestampTz now)
{
	ScanKeyInit(key, attnum, past ? BTLessEqualStrategyNumber : BTGreaterStrategyNumber,
				past ? F_TIMESTAMP_LE : F_TIMESTAMP_GT, TimestampTzGetDatum(now));
}

static CellState *
cell_of_row(AllState *state, MessageReader *reader, Walk *walk)
{
	int32 queue_id = DatumGetInt32(column(walk, reader->catalog.message_column.queue_id));
	Oid priority = DatumGetObjectId(column(walk, reader->catalog.message_column.priority));
	QueueState *queue = qs_find_queue(state, queue_id);

	return queue != NULL ? &queue->cell[qs_priority_of_oid(priority)] : NULL;
}

/*
 * READY rows past their expiry are ready for nobody.  One walk serves all
 * queues: the index leads with the time.
 */
static void
subtract_expired_ready(AllState *state, MessageReader *reader)
{
	ScanKeyData key;
	Walk expired;
	Walk unexpired;
	WalkStep step;
	int64 unmet = 0;

	for (int i = 0; i < state->queue_count; i++)
	{
		for (Priority p = PRIORITY_LOW; p < PRIORITY_COUNT; p++)
			unmet += state->queue[i].cell[p].ready;
	}

	init_time_key(&key, 1, true, state->now);
	init_walk(&expired, reader, reader->expiry_index, &key, 1, ForwardScanDirection);
	init_time_key(&key, 1, false, state->now);
	init_walk(&unexpired, reader, reader->expiry_index, &key, 1, ForwardScanDirection);

	while ((step = qs_walk_step(&expired)) != WALK_END)
	{
		if (step == WALK_DEAD)
		{
			if (qs_walk_step(&unexpired) == WALK_ROW &&
				cell_of_row(state, reader, &unexpired) != NULL)
				unmet--;
			if (unmet == 0)
				break;
		}
		else
		{
			CellState *cell = cell_of_row(state, reader, &expired);

			if (cell == NULL)
				continue;
			cell->expired_backlog++;
			cell->ready--;
			unmet--;
		}
	}
	qs_walk_end(&unexpired);
	qs_walk_end(&expired);
}

/*
 * An elapsed row is no longer what is written in it: it is ready again,
 * exhausted, or expired and then nothing.
 */
static void
correct_elapsed_row(AllState *state, MessageReader *reader, QueueState *queue,
					CellState *cell, Walk *walk)
{
	Oid row_state = DatumGetObjectId(column(walk, reader->catalog.message_column.state));
	int32 attempts = DatumGetInt32(column(walk, reader->catalog.message_column.delivery_attempts));

	cell->elapsed_backlog++;
	if (row_state == reader->catalog.state[STATE_IN_FLIGHT])
		cell->in_flight--;
	else
		cell->delayed--;

	if (time_column(walk, reader->catalog.message_column.expires_at) <= state->now)
		return;
	if (attempts >= queue->max_delivery_attempts)
	{
		cell->exhausted++;
		return;
	}
	cell->ready++;
	cell->oldest_ready = Min(cell->oldest_ready,
							 time_column(walk, reader->catalog.message_column.enqueued_at));
}

static void
correct_elapsed(AllState *state, MessageReader *reader, QueueState *queue, Priority priority)
{
	CellState *cell = &queue->cell[priority];
	int64 unmet = cell->in_flight + cell->delayed;
	ScanKeyData keys[CELL_KEYS + 1];
	Walk elapsed;
	Walk waiting;
	WalkStep step;

	init_cell_keys(reader, keys, queue->queue_id, priority);
	init_time_key(&keys[CELL_KEYS], CELL_KEYS + 1, true, state->now);
	init_walk(&elapsed, reader, reader->waiting_index, keys, CELL_KEYS + 1, ForwardScanDirection);
	init_time_key(&keys[CELL_KEYS], CELL_KEYS + 1, false, state->now);
	init_walk(&waiting, reader, reader->waiting_index, keys, CELL_KEYS + 1, ForwardScanDirection);

	while ((step = qs_walk_step(&elapsed)) != WALK_END)
	{
		if (step == WALK_DEAD)
		{
			if (qs_walk_step(&waiting) == WALK_ROW)
				unmet--;
			if (unmet == 0)
				break;
		}
		else
		{
			correct_elapsed_row(state, reader, queue, cell, &elapsed);
			unmet--;
		}
	}
	qs_walk_end(&waiting);
	qs_walk_end(&elapsed);
}

/*
 * When the first of the `unmet` rows in index order whose `alive_until` lies
 * in the future was enqueued.
 */
static TimestampTz
oldest_in_index(MessageReader *reader, Relation index, int32 queue_id, Priority priority,
				int64 unmet, AttrNumber alive_until, TimestampTz now)
{
	AttrNumber enqueued_at = reader->catalog.message_column.enqueued_at;
	ScanKeyData keys[CELL_KEYS];
	Walk from_oldest;
	Walk from_newest;
	WalkStep step;
	TimestampTz oldest = DT_NOEND;

	init_cell_keys(reader, keys, queue_id, priority);
	init_walk(&from_oldest, reader, index, keys, CELL_KEYS, ForwardScanDirection);
	init_walk(&from_newest, reader, index, keys, CELL_KEYS, BackwardScanDirection);

	while (unmet > 0 && (step = qs_walk_step(&from_oldest)) != WALK_END)
	{
		if (step == WALK_DEAD)
		{
			if (qs_walk_step(&from_newest) == WALK_ROW)
			{
				unmet--;
				if (time_column(&from_newest, alive_until) > now)
					oldest = time_column(&from_newest, enqueued_at);
			}
		}
		else
		{
			unmet--;
			if (time_column(&from_oldest, alive_until) > now)
			{
				oldest = time_column(&from_oldest, enqueued_at);
				break;
			}
		}
	}
	qs_walk_end(&from_newest);
	qs_walk_end(&from_oldest);

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

void
qs_correct_for_time(AllState *state, Snapshot snapshot, StateDepth depth)
{
	MessageReader reader;

	open_messages(&reader, snapshot);

	for (int i = 0; i < state->queue_count; i++)
	{
		for (Priority p = PRIORITY_LOW; p < PRIORITY_COUNT; p++)
		{
			CellState *cell = &state->queue[i].cell[p];

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
			CellState *cell = &queue->cell[p];
			int64 unexpired_ready = cell->ready;

			if (cell->in_flight != 0 || cell->delayed != 0)
				correct_elapsed(state, &reader, queue, p);
			refuse_if_drifted(queue, p);
			if (depth < DEPTH_OLDEST)
				continue;

			if (unexpired_ready > 0)
				cell->oldest_ready = Min(cell->oldest_ready,
										 oldest_in_index(&reader, reader.ready_index, queue->queue_id, p,
														 cell->physical.value[COUNTER_READY],
														 reader.catalog.message_column.expires_at, state->now));
			if (cell->in_flight > 0)
				cell->oldest_in_flight =
					oldest_in_index(&reader, reader.in_flight_index, queue->queue_id, p,
									cell->physical.value[COUNTER_IN_FLIGHT],
									reader.catalog.message_column.available_after, state->now);
		}
	}

	close_messages(&reader);
}

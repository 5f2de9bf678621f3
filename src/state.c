/*-------------------------------------------------------------------------
 *
 * state.c
 *	  The state of every queue at one instant; see state.h.
 *
 * The rollup says what is written in the message rows; what time has made of
 * that is in correction.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "correction.h"
#include "reader.h"
#include "state.h"

static int
queue_state_compare(const void *a, const void *b)
{
	int32 left = ((const QueueState *) a)->queue_id;
	int32 right = ((const QueueState *) b)->queue_id;

	return (left > right) - (left < right);
}

QueueState *
qs_find_queue(AllState *state, int32 queue_id)
{
	QueueState key = { .queue_id = queue_id };

	return bsearch(&key, state->queue, state->queue_count, sizeof(QueueState),
				   queue_state_compare);
}

static void
read_queues(AllState *state, Snapshot snapshot)
{
	Oid relid = qs_catalog()->queue;
	AttrNumber queue_id_column = get_attnum(relid, "queue_id");
	AttrNumber name_column = get_attnum(relid, "name");
	AttrNumber attempts_column = get_attnum(relid, "max_delivery_attempts");
	Relation relation = table_open(relid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, qs_reading_snapshot(snapshot), 0, NULL);
	int allocated = 64;

	state->queue = palloc(sizeof(QueueState) * allocated);
	state->queue_count = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		QueueState *queue;
		bool isnull;

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
	AllState *state;
	QueueState *last;
} SumTarget;

static void
add_to_cell(const ShardKey *key, const Counters *counters, void *arg)
{
	SumTarget *target = arg;
	Counters *sum;

	if (target->last == NULL || target->last->queue_id != key->queue_id)
		target->last = qs_find_queue(target->state, key->queue_id);
	if (target->last == NULL)
		return; /* verify() tells of rows without a queue */

	sum = &target->last->cell[key->priority].physical;
	for (int i = 0; i < COUNTER_COUNT; i++)
		sum->value[i] += counters->value[i];
}

AllState *
qs_read_state(Snapshot snapshot, StateDepth depth)
{
	AllState *state = palloc0(sizeof(AllState));
	SumTarget target = { .state = state };

	read_queues(state, snapshot);
	qs_read_rollup(snapshot, add_to_cell, &target);

	/* After the snapshot: no row of it can have been made in the future. */
	state->now = GetCurrentTimestamp();
	if (depth >= DEPTH_LOGICAL)
		qs_correct_for_time(state, snapshot, depth);

	return state;
}

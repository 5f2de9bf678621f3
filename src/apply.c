/*-------------------------------------------------------------------------
 *
 * apply.c
 *	  Writing counter changes into the rollup without ever waiting.
 *
 * A change goes into its shard row when that is free of charge: nobody holds
 * the row, and its page has room for another version, so that the update
 * stays HOT and an old snapshot cannot make the version chain grow past one
 * page.  Otherwise it is appended as a pending row, which can always be done
 * at once.  Because nothing here waits for another transaction there is no
 * lock order to keep, and no deadlock.
 *
 * The rules about who may delete pending rows and make shard rows are in
 * pending.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/pg_prng.h"
#include "utils/snapmgr.h"

#include "apply.h"
#include "catalog.h"
#include "pending.h"
#include "rollup.h"

/*
 * One application in this many folds its shard on the way, so that pending
 * rows stay bounded when nobody calls fold_pending().
 */
#define FOLD_ONE_IN 64

/*
 * How often a row that moved is looked up again before the change is
 * appended.  Each round means that somebody else committed meanwhile.
 */
#define MAX_LOOKUPS 4

typedef enum Outcome
{
	OUTCOME_DONE, /* the shard row has it */
	OUTCOME_BUSY, /* it cannot be changed or made now */
	OUTCOME_MOVED /* the row was changed meanwhile: look again */
} Outcome;

/*
 * Promise: a change that would make a state counter negative is refused.
 */
static void
refuse_if_negative(const ShardKey *key, const Counters *result, const Counters *change)
{
	Counter counter = qs_counters_negative(result);

	if (counter == (Counter) COUNTER_COUNT)
		return;

	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("counter \"%s\" of queue \"%s\", priority %s would become negative",
					qs_counter_name(counter), qs_queue_name(key->queue_id),
					qs_priority_name(key->priority)),
			 errdetail("Shard %d records " INT64_FORMAT " and this transaction changes it by " INT64_FORMAT ".",
					   key->shard,
					   result->value[counter] - change->value[counter],
					   change->value[counter]),
			 errhint("Messages were written while the counting triggers did not fire. "
					 "SELECT * FROM queue_state.verify() shows the drift, SELECT queue_state.rebuild() repairs it.")));
}

static void
append(Rollup *rollup, const Delta *delta)
{
	qs_rollup_insert_pending(rollup, &delta->key, &delta->change);
}

static bool
gains_messages(const Counters *change)
{
	for (int i = 0; i < STATE_COUNTER_COUNT; i++)
	{
		if (change->value[i] > 0)
			return true;
	}
	return false;
}

static bool
has_pending(Rollup *rollup, const ShardKey *key)
{
	IndexScanDesc scan = qs_rollup_begin_pending_scan(rollup, key);
	bool found = index_getnext_slot(scan, ForwardScanDirection, rollup->pending_slot);

	index_endscan(scan);
	ExecClearTuple(rollup->pending_slot);

	return found;
}

/*
 * The shard row was not found: makes it, with the change and the pending rows
 * in it.
 */
static Outcome
create_shard(Rollup *rollup, const Delta *delta)
{
	Counters counters = delta->change;

	switch (qs_lock_creation(rollup, &delta->key))
	{
		case CREATION_BUSY:
			return OUTCOME_BUSY;
		case CREATION_MOVED:
			return OUTCOME_MOVED;
		case CREATION_NO_QUEUE:

			/*
			 * If this transaction has dropped the queue, its counters are
			 * gone and there is nothing left to take from them.  Otherwise
			 * messages are restored before their queue, and wait for it.
			 */
			if (gains_messages(&delta->change) || has_pending(rollup, &delta->key))
				return OUTCOME_BUSY;
			return OUTCOME_DONE;
		case CREATION_LOCKED:
			break;
	}

	qs_take_pending(rollup, &delta->key, PG_INT64_MAX, &counters);
	refuse_if_negative(&delta->key, &counters, &delta->change);
	qs_rollup_insert_shard(rollup, &delta->key, &counters);

	return OUTCOME_DONE;
}

/*
 * Locks the found row, takes its pending rows and writes the sum of row,
 * pending rows and change.
 */
static Outcome
change_with_pending(Rollup *rollup, const Delta *delta)
{
	Counters counters;

	switch (qs_rollup_lock_shard(rollup))
	{
		case TM_Ok:
			break;
		case TM_WouldBlock:
			return OUTCOME_BUSY;
		case TM_Updated:
		case TM_Deleted:
			return OUTCOME_MOVED;
		default:
			elog(ERROR, "unexpected result from locking a counter row");
	}

	qs_rollup_row_counters(rollup->shard_slot, &counters);
	qs_counters_add(&counters, &delta->change);
	qs_take_pending(rollup, &delta->key, PG_INT64_MAX, &counters);
	refuse_if_negative(&delta->key, &counters, &delta->change);
	qs_rollup_update_locked_shard(rollup, &delta->key, &counters);

	return OUTCOME_DONE;
}

static Outcome
change_in_place(Rollup *rollup, const Delta *delta, const Counters *counters)
{
	switch (qs_rollup_update_shard(rollup, &delta->key, counters))
	{
		case TM_Ok:
			return OUTCOME_DONE;
		case TM_BeingModified:
			return OUTCOME_BUSY;
		case TM_Updated:
		case TM_Deleted:
			return OUTCOME_MOVED;
		default:
			elog(ERROR, "unexpected result from updating a counter row");
	}
}

static Outcome
try_apply(Rollup *rollup, const Delta *delta)
{
	Counters counters;

	if (!qs_rollup_find_shard(rollup, &delta->key))
		return create_shard(rollup, delta);

	if (!qs_rollup_has_room(rollup))
		return OUTCOME_BUSY;

	qs_rollup_row_counters(rollup->shard_slot, &counters);
	qs_counters_add(&counters, &delta->change);

	if (qs_counters_negative(&counters) != (Counter) COUNTER_COUNT ||
		pg_prng_uint64(&pg_global_prng_state) % FOLD_ONE_IN == 0)
		return change_with_pending(rollup, delta);

	return change_in_place(rollup, delta, &counters);
}

static void
apply_delta(Rollup *rollup, const Delta *delta)
{
	for (int i = 0; i < MAX_LOOKUPS; i++)
	{
		switch (try_apply(rollup, delta))
		{
			case OUTCOME_DONE:
				return;
			case OUTCOME_BUSY:
				append(rollup, delta);
				return;
			case OUTCOME_MOVED:
				break;
		}
	}
	append(rollup, delta);
}

void
qs_apply(const DeltaStack *deltas)
{
	Delta *sum;
	int count = qs_delta_sum(deltas, &sum);
	Rollup rollup;

	if (count == 0)
		return;

	/*
	 * This transaction may have changed the same rows before (a fold, an
	 * earlier application); make that visible.
	 */
	CommandCounterIncrement();

	qs_rollup_open(&rollup);
	for (int i = 0; i < count; i++)
		apply_delta(&rollup, &sum[i]);
	qs_rollup_close(&rollup);
	pfree(sum);

	/* For whatever else runs before this transaction ends. */
	CommandCounterIncrement();
}

/*-------------------------------------------------------------------------
 *
 * rollup.h
 *	  Rows of the two counter tables: finding, making and changing them.
 *
 * The tables are written through the table access method and not through
 * SQL, because a statement would take an MVCC snapshot (and with it SSI
 * predicate locks and serialization failures), wait for row locks, and fire
 * triggers.  Nothing here ever waits for another transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_ROLLUP_H
#define QS_ROLLUP_H

#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "counter.h"

/* The counter tables, open for writing; lives within one operation. */
typedef struct Rollup
{
	Relation shard;
	TupleTableSlot *shard_slot; /* the row found last, with its page pinned */

	/* NULL until they are needed, which is seldom */
	Relation shard_pkey;
	Relation pending;
	Relation pending_index;
	TupleTableSlot *pending_slot;
} Rollup;

extern void qs_rollup_open(Rollup *rollup);
extern void qs_rollup_close(Rollup *rollup);

/* Opens the pending rows, if they are not; the functions below do it. */
extern void qs_rollup_open_pending(Rollup *rollup);

/*
 * Finds the newest committed (or own) version of the shard row of `key` into
 * rollup->shard_slot.  A row that is just moving to another page can be
 * missed.  qs_rollup_search_shard() does not start where it was found before,
 * and takes any snapshot.
 */
extern bool qs_rollup_find_shard(Rollup *rollup, const ShardKey *key);
extern bool qs_rollup_search_shard(Rollup *rollup, const ShardKey *key, Snapshot snapshot);

/*
 * Whether `key` has a shard row in an MVCC snapshot, which misses none.  Takes
 * no predicate locks.
 */
extern bool qs_rollup_shard_is_visible(Rollup *rollup, const ShardKey *key, Snapshot snapshot);

/* An index scan of the pending rows of `key`. */
extern IndexScanDesc qs_rollup_begin_pending_scan(Rollup *rollup, const ShardKey *key);

/* The key and the counters of a row of either table. */
extern ShardKey qs_rollup_row_key(TupleTableSlot *slot);
extern void qs_rollup_row_counters(TupleTableSlot *slot, Counters *counters);

/* Is there room on the found row's page for another version of it? */
extern bool qs_rollup_has_room(Rollup *rollup);

/*
 * Replaces the counters of the found row.  Answers TM_BeingModified instead
 * of waiting for whoever holds the row; that may be this transaction itself.
 */
extern TM_Result qs_rollup_update_shard(Rollup *rollup, const ShardKey *key,
										const Counters *counters);

/*
 * Locks the found row, or answers TM_WouldBlock; and replaces the counters of
 * a row locked so, which cannot fail.
 */
extern TM_Result qs_rollup_lock_shard(Rollup *rollup);
extern void qs_rollup_update_locked_shard(Rollup *rollup, const ShardKey *key,
										  const Counters *counters);

extern void qs_rollup_insert_shard(Rollup *rollup, const ShardKey *key,
								   const Counters *counters);
extern void qs_rollup_insert_pending(Rollup *rollup, const ShardKey *key,
									 const Counters *counters);

/* counters += change */
static inline void
qs_counters_add(Counters *counters, const Counters *change)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		counters->value[i] += change->value[i];
}

/* The first state counter below zero, or COUNTER_COUNT. */
static inline Counter
qs_counters_negative(const Counters *counters)
{
	for (int i = 0; i < STATE_COUNTER_COUNT; i++)
	{
		if (counters->value[i] < 0)
			return (Counter) i;
	}
	return (Counter) COUNTER_COUNT;
}

#endif /* QS_ROLLUP_H */

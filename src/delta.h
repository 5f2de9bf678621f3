/*-------------------------------------------------------------------------
 *
 * delta.h
 *	  Signed counter changes of one transaction, by shard and by
 *	  subtransaction.
 *
 * A stack with one level per subtransaction that changed something.  A level
 * is merged into the one below when its subtransaction is released, and
 * dropped when it is rolled back.  What the whole stack sums up to is what
 * the transaction changes.
 *
 * Pure: no catalogs, no SPI.  In the server all memory belongs to
 * TopTransactionContext and dies with it; built with FRONTEND it is malloc'ed,
 * which is how the unit test runs without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_DELTA_H
#define QS_DELTA_H

#include "counter.h"

typedef struct DeltaLevel DeltaLevel;

typedef struct DeltaStack
{
	DeltaLevel *top; /* NULL if nothing was changed */
} DeltaStack;

/* What one shard is changed by. */
typedef struct Delta
{
	ShardKey key;
	Counters change;
} Delta;

/* Is the topmost level that of this subtransaction? */
extern bool qs_delta_has_level(const DeltaStack *stack, int nest_level);

/*
 * Makes the level of `nest_level`, which must not be below the topmost, and
 * says which table its changes, and those below it, are meant for.  What was
 * meant for another table is taken back: that table has been dropped, unless
 * this subtransaction is rolled back.
 */
extern void qs_delta_begin(DeltaStack *stack, int nest_level, uint32_t table);

/* Which table the changes are meant for; 0 if there are none. */
extern uint32_t qs_delta_table(const DeltaStack *stack);

/* Adds to the topmost level, which must be that of `nest_level`. */
extern void qs_delta_add(DeltaStack *stack, int nest_level, ShardKey key,
						 Counter counter, int64_t amount);

/*
 * Takes back, on the topmost level, what all levels say about a queue, or
 * about all queues: their counters are gone, unless this subtransaction is
 * rolled back.  The level is made by qs_delta_begin().
 */
extern void qs_delta_forget_queue(DeltaStack *stack, int32_t queue_id);
extern void qs_delta_forget_all(DeltaStack *stack);

/* The subtransaction at `nest_level` was released or rolled back. */
extern void qs_delta_release(DeltaStack *stack, int nest_level);
extern void qs_delta_rollback(DeltaStack *stack, int nest_level);

/* Forgets everything and frees it. */
extern void qs_delta_reset(DeltaStack *stack);

/*
 * The sum over all levels as an array sorted by key, without shards whose
 * changes cancel out.  Returns its length; *deltas is NULL when it is 0.
 */
extern int qs_delta_sum(const DeltaStack *stack, Delta **deltas);

/* Total order of keys: queue, priority, shard. */
extern int qs_shard_key_compare(const ShardKey *a, const ShardKey *b);

#endif /* QS_DELTA_H */

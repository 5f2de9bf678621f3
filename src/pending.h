/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  Who may take pending rows, and who may make a shard row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_PENDING_H
#define QS_PENDING_H

#include "postgres.h"

#include "rollup.h"

typedef enum Creation
{
	CREATION_LOCKED,  /* there is no such row, and only we may make it */
	CREATION_BUSY,	  /* somebody else is making rows */
	CREATION_MOVED,	  /* there is such a row after all */
	CREATION_NO_QUEUE /* its queue does not exist */
} Creation;

/*
 * Takes the right to make the shard row of `key`, without waiting.  It lasts
 * until the end of the transaction.
 */
extern Creation qs_lock_creation(Rollup *rollup, const ShardKey *key);

/*
 * Deletes the pending rows of a shard that are visible in a snapshot taken
 * now, at most `max_rows`, and adds them to *counters.  Returns how many.
 *
 * The caller holds the shard row, or the right to make it.
 */
extern int64 qs_take_pending(Rollup *rollup, const ShardKey *key, int64 max_rows,
							 Counters *counters);

/* To be called when a transaction ends. */
extern void qs_pending_end_transaction(void);

#endif /* QS_PENDING_H */

/*-------------------------------------------------------------------------
 *
 * whereabouts.h
 *	  Where this backend has last found shard rows, so that the next change
 *	  of one needs no index.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_WHEREABOUTS_H
#define QS_WHEREABOUTS_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "counter.h"

/*
 * Reads the newest committed (or own) version of the shard row of `key` into
 * the slot, with its page pinned.  False says nothing about the row: it has
 * to be looked up.
 */
extern bool qs_whereabouts_fetch(Relation shard, const ShardKey *key, TupleTableSlot *slot);

/*
 * The row in the slot is that of `key`, and `root` is what the index says
 * about it.
 */
extern void qs_whereabouts_remember(const ShardKey *key, ItemPointer root,
									TupleTableSlot *slot);

#endif /* QS_WHEREABOUTS_H */

/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Reading the rollup.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_READER_H
#define QS_READER_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "counter.h"

/* Called for every contribution to a shard; a shard can have several. */
typedef void (*RollupReader)(const ShardKey *key, const Counters *counters, void *arg);

/*
 * Calls `reader` for every shard row and pending row visible in `snapshot`,
 * and for what this transaction has changed and not yet applied.  `reader`
 * may itself count.
 *
 * Reading writes nothing and works on a hot standby.  In a SERIALIZABLE
 * transaction it takes no predicate locks, so that it cannot make a message
 * transaction fail; what is read here is not part of the serialization.
 */
extern void qs_read_rollup(Snapshot snapshot, RollupReader reader, void *arg);

/*
 * The test that goes with a scan begun by qs_reading_snapshot(): is the row in
 * `slot` visible in `snapshot`?
 */
extern Snapshot qs_reading_snapshot(Snapshot snapshot);
extern bool qs_row_is_visible(Relation relation, TupleTableSlot *slot, Snapshot snapshot);

#endif /* QS_READER_H */

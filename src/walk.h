/*-------------------------------------------------------------------------
 *
 * walk.h
 *	  Walking along an index entry by entry, so that the walker notices when
 *	  it passes over rows that are not there any more.
 *
 * An old snapshot keeps dead entries in an index, and an ordinary scan passes
 * all of them in silence.  Whoever knows how many live rows there are can walk
 * from two ends at a time and stop when it has met them all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_WALK_H
#define QS_WALK_H

#include "postgres.h"

#include "access/genam.h"
#include "access/sdir.h"
#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#define WALK_MAX_KEYS 3

typedef struct Walk
{
	Relation heap;
	Relation index;
	Snapshot snapshot;
	ScanKeyData keys[WALK_MAX_KEYS];
	int nkeys;
	ScanDirection direction;
	IndexScanDesc scan;	  /* NULL until the first step */
	TupleTableSlot *slot; /* the row that was met last */
	bool ended;
} Walk;

typedef enum WalkStep
{
	WALK_ROW,  /* a row that the snapshot sees is in the slot */
	WALK_DEAD, /* an entry whose row it does not see */
	WALK_END
} WalkStep;

/* Costs nothing yet; the keys are copied. */
extern void qs_walk_init(Walk *walk, Relation heap, Relation index, Snapshot snapshot,
						 const ScanKeyData *keys, int nkeys, ScanDirection direction);
/* WALK_END for ever after the first. */
extern WalkStep qs_walk_step(Walk *walk);
extern void qs_walk_end(Walk *walk);

#endif /* QS_WALK_H */

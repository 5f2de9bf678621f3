/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  Walking along an index entry by entry; see walk.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "miscadmin.h"

#include "compat.h"
#include "reader.h"
#include "walk.h"

void
qs_walk_init(Walk *walk, Relation heap, Relation index, Snapshot snapshot,
			 const ScanKeyData *keys, int nkeys, ScanDirection direction)
{
	Assert(nkeys <= WALK_MAX_KEYS);

	walk->heap = heap;
	walk->index = index;
	walk->snapshot = snapshot;
	memcpy(walk->keys, keys, sizeof(ScanKeyData) * nkeys);
	walk->nkeys = nkeys;
	walk->direction = direction;
	walk->scan = NULL;
	walk->slot = NULL;
	walk->ended = false;
}

WalkStep
qs_walk_step(Walk *walk)
{
	CHECK_FOR_INTERRUPTS();

	/* A B-tree scan that is asked again after its end begins anew. */
	if (walk->ended)
		return WALK_END;
	if (walk->scan == NULL)
	{
		walk->slot = table_slot_create(walk->heap, NULL);
		walk->scan = qs_index_beginscan(walk->heap, walk->index,
										qs_reading_snapshot(walk->snapshot), walk->nkeys);
		index_rescan(walk->scan, walk->keys, walk->nkeys, NULL, 0);
	}

	/* An entry can lead to several versions of a row, one after the other. */
	if (!walk->scan->xs_heap_continue &&
		index_getnext_tid(walk->scan, walk->direction) == NULL)
	{
		walk->ended = true;
		return WALK_END;
	}
	if (!index_fetch_heap(walk->scan, walk->slot) ||
		!qs_row_is_visible(walk->heap, walk->slot, walk->snapshot))
		return WALK_DEAD;

	return WALK_ROW;
}

void
qs_walk_end(Walk *walk)
{
	if (walk->scan == NULL)
		return;
	index_endscan(walk->scan);
	ExecDropSingleTupleTableSlot(walk->slot);
}

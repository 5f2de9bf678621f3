/*-------------------------------------------------------------------------
 *
 * whereabouts.c
 *	  Where this backend has last found shard rows; see whereabouts.h.
 *
 * A shard row stays where it is as long as its updates are HOT, and looking it
 * up costs as much as changing it.  What is remembered is the root of its
 * chain of versions and the buffer of its page.  It can be outdated at any
 * time (the row was moved or deleted, its place was given to another row, the
 * table was written anew), so nothing is believed: the page must still be in
 * that buffer, and the version found there must bear the key.  As the key is
 * unique, that is the row.
 *
 * All state is backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "delta.h"
#include "rollup.h"
#include "shard.h"
#include "whereabouts.h"

/*
 * Each row at one place of the array, where others may take turns with it.
 * The shards of a queue and priority lie side by side.
 */
#define PLACES 1024

/*
 * Dead versions are pruned away once less than this is left of the page, and
 * not tried to be at each change: that cost a third of finding the row.
 */
#define PRUNE_BELOW (BLCKSZ / 4)

typedef struct Whereabouts
{
	ShardKey key;
	ItemPointerData root;
	Buffer buffer; /* InvalidBuffer: nothing is remembered here */
} Whereabouts;

static Whereabouts places[PLACES];

static Whereabouts *
place_of(const ShardKey *key)
{
	uint32 group = hash_combine(murmurhash32((uint32) key->queue_id), key->priority);

	return &places[(group * QS_SHARD_COUNT + key->shard) % PLACES];
}

bool
qs_whereabouts_fetch(Relation shard, const ShardKey *key, TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *heap_slot = (BufferHeapTupleTableSlot *) slot;
	Whereabouts *place = place_of(key);
	ItemPointerData tid = place->root;
	bool found;

	if (!BufferIsValid(place->buffer) || qs_shard_key_compare(&place->key, key) != 0 ||
		!qs_read_recent_buffer(shard, ItemPointerGetBlockNumber(&tid), place->buffer))
		return false;

	if (PageGetHeapFreeSpace(BufferGetPage(place->buffer)) < PRUNE_BELOW)
		heap_page_prune_opt(shard, place->buffer);

	ExecClearTuple(slot);
	LockBuffer(place->buffer, BUFFER_LOCK_SHARE);
	found = heap_hot_search_buffer(&tid, shard, place->buffer, SnapshotSelf,
								   &heap_slot->base.tupdata, NULL, true);
	LockBuffer(place->buffer, BUFFER_LOCK_UNLOCK);
	if (found)
	{
		ShardKey found_key;

		ExecStorePinnedBufferHeapTuple(&heap_slot->base.tupdata, slot, place->buffer);
		found_key = qs_rollup_row_key(slot);
		if (qs_shard_key_compare(&found_key, key) == 0)
			return true;
		ExecClearTuple(slot);
	}
	else
		ReleaseBuffer(place->buffer);

	place->buffer = InvalidBuffer;
	return false;
}

void
qs_whereabouts_remember(const ShardKey *key, ItemPointer root, TupleTableSlot *slot)
{
	Whereabouts *place = place_of(key);

	place->key = *key;
	place->root = *root;
	place->buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
}

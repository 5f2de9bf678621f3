/*-------------------------------------------------------------------------
 *
 * tally.c
 *	  Counts rows that differ in their shards alone together; see tally.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tally.h"
#include "transaction.h"

void
qs_tally_add(Tally *tally, Counter counter, int32 queue_id, Priority priority,
			 int shard, int64 amount)
{
	if (!tally->open || tally->counter != counter || tally->queue_id != queue_id ||
		tally->priority != priority)
	{
		qs_tally_end(tally);
		tally->open = true;
		tally->counter = counter;
		tally->queue_id = queue_id;
		tally->priority = priority;
	}
	tally->amount[shard] += amount;
}

void
qs_tally_end(Tally *tally)
{
	if (!tally->open)
		return;
	for (int shard = 0; shard < QS_SHARD_COUNT; shard++)
	{
		if (tally->amount[shard] == 0)
			continue;
		qs_count(tally->counter, tally->queue_id, tally->priority, shard,
				 tally->amount[shard]);
		tally->amount[shard] = 0;
	}
	tally->open = false;
}

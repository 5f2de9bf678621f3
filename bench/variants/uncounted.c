/*-------------------------------------------------------------------------
 *
 * uncounted.c
 *	  In the place of src/transaction.c: nothing is counted.
 *
 * For bench/ alone.  Without the triggers the functions would still count
 * their events at commit; a baseline that does not count must not do that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "transaction.h"

void
qs_count(Counter counter, int32 queue_id, Priority priority, int shard,
		 int64 amount)
{
}

const DeltaStack *
qs_unapplied_deltas(void)
{
	return NULL;
}

void
qs_count_done(void)
{
}

void
qs_transaction_init(void)
{
}

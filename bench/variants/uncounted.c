/*-------------------------------------------------------------------------
 *
 * uncounted.c
 *	  In the place of the qs_count() of src/transaction.c: nothing is counted.
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

/*-------------------------------------------------------------------------
 *
 * entropy.c
 *	  Strong random bytes in small portions; see entropy.h.
 *
 * pg_strong_random() costs one to three microseconds however little is asked
 * of it, which is a tenth of what a message of a batch costs in all.  So it is asked
 * for many bytes at a time.  Each byte is given once and wiped; the store
 * belongs to one backend and no process is forked from that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "entropy.h"

static uint8 store[64 * ENTROPY_MAX_BYTES];
static int left; /* so many bytes at the end of the store are unused */

void
qs_random_bytes(uint8 *bytes, int count)
{
	uint8 *from;

	Assert(count <= ENTROPY_MAX_BYTES);
	if (left < count)
	{
		left = 0;
		if (!pg_strong_random(store, sizeof(store)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		left = sizeof(store);
	}
	from = store + sizeof(store) - left;
	memcpy(bytes, from, count);
	memset(from, 0, count);
	left -= count;
}

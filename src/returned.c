/*-------------------------------------------------------------------------
 *
 * returned.c
 *	  Counts the events of the rows that a statement returned; see returned.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/uuid.h"

#include "catalog.h"
#include "returned.h"
#include "shard.h"
#include "tally.h"

void
qs_count_events(Counter counter)
{
	TupleDesc descriptor = SPI_tuptable->tupdesc;
	Tally tally = { 0 };

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple row = SPI_tuptable->vals[i];
		bool isnull;
		Datum id = SPI_getbinval(row, descriptor, 1, &isnull);
		Datum queue_id = SPI_getbinval(row, descriptor, 2, &isnull);
		Datum priority = SPI_getbinval(row, descriptor, 3, &isnull);

		qs_tally_add(&tally, counter, DatumGetInt32(queue_id),
					 qs_priority_of_oid(DatumGetObjectId(priority)),
					 qs_shard_of_uuid(DatumGetUUIDP(id)->data), 1);
	}
	qs_tally_end(&tally);
}

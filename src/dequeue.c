/*-------------------------------------------------------------------------
 *
 * dequeue.c
 *	  dequeue(): leases messages to a consumer.
 *
 * claim.c picks and locks the rows; here one UPDATE through the executor
 * leases them, so that all triggers fire, also a user's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "catalog.h"
#include "claim.h"
#include "duration.h"
#include "plan.h"
#include "queue_details.h"
#include "shard.h"
#include "transaction.h"

#define MAX_MESSAGES 10000

/* A row that the UPDATE returned, and its place in the order of delivery. */
typedef struct Delivery
{
	int place;
	HeapTuple tuple;
} Delivery;

/* A candidate found by its id. */
typedef struct Place
{
	pg_uuid_t id;
	int place;
} Place;

PG_FUNCTION_INFO_V1(qs_dequeue);

/* Its result is a row of the composite type delivery. */
static Statement lease_statement = {
	.text = "UPDATE queue_state.queue_message AS m"
			" SET state = 'IN_FLIGHT',"
			" delivery_attempts = m.delivery_attempts OPERATOR(pg_catalog.+) 1,"
			" last_delivered_at = $2, available_after = $3,"
			" receipt_handle = queue_state.new_receipt_handle()"
			" WHERE m.ctid OPERATOR(pg_catalog.=) ANY ($1)"
			" RETURNING m.id, m.receipt_handle, m.priority, m.delivery_attempts,"
			" m.enqueued_at, m.available_after, m.headers, m.payload",
	.result = SPI_OK_UPDATE_RETURNING,
	.argument_count = 3,
	.argument = { ARGUMENT_TID_ARRAY, ARGUMENT_TIMESTAMPTZ, ARGUMENT_TIMESTAMPTZ }
};

enum
{
	DELIVERY_ID = 1,
	DELIVERY_PRIORITY = 3
};

static Statement dead_letter_statement = {
	.text = "SELECT queue_state.dead_letter($1,"
			" 'MAX_DELIVERY_ATTEMPTS_EXHAUSTED', NULL, $2)",
	.result = SPI_OK_SELECT,
	.argument_count = 2,
	.argument = { ARGUMENT_UUID_ARRAY, ARGUMENT_TIMESTAMPTZ }
};

static void make_dead_letters(const Claim *claim, TimestampTz now);
static void lease(const Claim *claim, const QueueDetails *queue,
				  TimestampTz now, const Interval *visibility_timeout,
				  ReturnSetInfo *result);
static Delivery *in_order(const Claim *claim);

/*
 * dequeue(queue text, max_messages integer, visibility_timeout interval)
 * returns setof delivery
 */
Datum
qs_dequeue(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	QueueDetails queue;
	int32 wanted;
	TimestampTz now;
	Relation message;
	Claim claim;

	PreventCommandIfReadOnly("dequeue()");
	QS_GETARG_QUEUE(0, &queue);
	if (PG_ARGISNULL(1))
		qs_null_argument("max_messages");
	wanted = PG_GETARG_INT32(1);
	if (wanted < 1 || wanted > MAX_MESSAGES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_messages is out of range"),
				 errdetail("It is %d; the bounds are 1 and %d.",
						   wanted, MAX_MESSAGES),
				 errhint("Call dequeue() again for more messages.")));
	if (!PG_ARGISNULL(2))
	{
		queue.visibility_timeout = *PG_GETARG_INTERVAL_P(2);
		qs_check_visibility_timeout(&queue.visibility_timeout);
	}

	InitMaterializedSRF(fcinfo, 0);
	if (queue.paused)
		return (Datum) 0;

	now = GetCurrentTimestamp();
	message = table_open(qs_catalog()->message, RowExclusiveLock);
	SPI_connect();
	qs_claim(message, &queue, now, wanted, &claim);
	if (claim.exhausted_count > 0)
		make_dead_letters(&claim, now);
	if (claim.count > 0)
		lease(&claim, &queue, now, &queue.visibility_timeout, result);
	SPI_finish();
	table_close(message, NoLock);
	qs_count_done();
	return (Datum) 0;
}

static void
make_dead_letters(const Claim *claim, TimestampTz now)
{
	Datum ids[CLAIM_MAX_EXHAUSTED];
	Datum values[2];

	for (int i = 0; i < claim->exhausted_count; i++)
		ids[i] = UUIDPGetDatum(&claim->exhausted[i]);
	values[0] = PointerGetDatum(construct_array(ids, claim->exhausted_count,
												UUIDOID, UUID_LEN, false,
												TYPALIGN_CHAR));
	values[1] = TimestampTzGetDatum(now);
	qs_execute(&dead_letter_statement, values, NULL);
}

static void
lease(const Claim *claim, const QueueDetails *queue, TimestampTz now,
	  const Interval *visibility_timeout, ReturnSetInfo *result)
{
	ItemPointerData *tids = palloc(claim->count * sizeof(ItemPointerData));
	Datum values[3];
	Delivery *delivery;
	TupleDesc descriptor;

	for (int i = 0; i < claim->count; i++)
		tids[i] = claim->candidate[i].tid;
	values[0] = qs_tid_array(tids, claim->count);
	values[1] = TimestampTzGetDatum(now);
	values[2] = TimestampTzGetDatum(qs_time_after(now, visibility_timeout));
	qs_execute(&lease_statement, values, NULL);

	descriptor = SPI_tuptable->tupdesc;
	delivery = in_order(claim);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple tuple = delivery[i].tuple;
		bool isnull;
		Datum id = SPI_getbinval(tuple, descriptor, DELIVERY_ID, &isnull);
		Datum priority = SPI_getbinval(tuple, descriptor,
									   DELIVERY_PRIORITY, &isnull);

		qs_count(COUNTER_DELIVERED, queue->queue_id,
				 qs_priority_of_oid(DatumGetObjectId(priority)),
				 qs_shard_of_uuid(DatumGetUUIDP(id)->data), 1);
		tuplestore_puttuple(result->setResult, tuple);
	}
}

static int
compare_ids(const void *a, const void *b)
{
	return memcmp(((const Place *) a)->id.data, ((const Place *) b)->id.data,
				  UUID_LEN);
}

static int
compare_places(const void *a, const void *b)
{
	int left = ((const Delivery *) a)->place;
	int right = ((const Delivery *) b)->place;

	return left < right ? -1 : left > right;
}

/*
 * The returned rows in the order in which they were claimed; the UPDATE takes
 * them in physical order.  There can be fewer, and a row can have another id,
 * by a user's BEFORE trigger: one that is not recognized comes last.
 */
static Delivery *
in_order(const Claim *claim)
{
	Delivery *delivery = palloc(Max(SPI_processed, 1) * sizeof(Delivery));
	Place *place = palloc(claim->count * sizeof(Place));

	for (int i = 0; i < claim->count; i++)
	{
		place[i].id = claim->candidate[i].id;
		place[i].place = i;
	}
	qsort(place, claim->count, sizeof(Place), compare_ids);

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		Place key;
		Place *found;
		bool isnull;

		key.id = *DatumGetUUIDP(SPI_getbinval(tuple, SPI_tuptable->tupdesc,
											  DELIVERY_ID, &isnull));
		found = bsearch(&key, place, claim->count, sizeof(Place), compare_ids);
		delivery[i].place = found != NULL ? found->place : claim->count;
		delivery[i].tuple = tuple;
	}
	qsort(delivery, SPI_processed, sizeof(Delivery), compare_places);
	return delivery;
}

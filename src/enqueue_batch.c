/*-------------------------------------------------------------------------
 *
 * enqueue_batch.c
 *	  enqueue_batch(): puts many messages into a queue with one statement.
 *
 * All have the same enqueued_at; their ids increase in the order given, and
 * so does their order of delivery.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "enqueue.h"
#include "identifier.h"
#include "plan.h"
#include "returned.h"
#include "shard.h"
#include "transaction.h"

/* A batch keeps to one shard for so many messages, but at most to so many. */
#define MESSAGES_PER_SHARD 25
#define MAX_BATCH_SHARDS 8

PG_FUNCTION_INFO_V1(qs_enqueue_batch);

static Statement insert_statement = {
	.text = "INSERT INTO queue_state.queue_message AS m (id, queue_id,"
			" priority, state, enqueued_at, expires_at, available_after, payload,"
			" headers)"
			" SELECT b.id, $1, $2, $3, $4, $5, $6, b.payload, b.headers"
			" FROM ROWS FROM (pg_catalog.unnest($7), pg_catalog.unnest($8),"
			" pg_catalog.unnest($9)) AS b (id, payload, headers)"
			" RETURNING m.id, m.queue_id, m.priority",
	.result = SPI_OK_INSERT_RETURNING,
	.argument_count = 9,
	.argument = { ARGUMENT_INT4, ARGUMENT_PRIORITY, ARGUMENT_STATE,
				  ARGUMENT_TIMESTAMPTZ, ARGUMENT_TIMESTAMPTZ, ARGUMENT_TIMESTAMPTZ,
				  ARGUMENT_UUID_ARRAY, ARGUMENT_JSONB_ARRAY, ARGUMENT_JSONB_ARRAY }
};

static int check_payloads(ArrayType *payloads);
static void check_headers(ArrayType *headers, int count);
static Datum new_ids(int count);

/*
 * enqueue_batch(queue text, payloads jsonb[], priority message_priority,
 * ttl interval, delay interval, headers jsonb[]) returns setof uuid
 */
Datum
qs_enqueue_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	QueueDetails queue;
	Schedule schedule;
	int count;
	Datum values[9];
	char nulls[] = "         ";

	PreventCommandIfReadOnly("enqueue_batch()");
	QS_GETARG_QUEUE(0, &queue);
	if (PG_ARGISNULL(1))
		qs_null_argument("payloads");
	if (PG_ARGISNULL(2))
		qs_null_argument("priority");
	count = check_payloads(PG_GETARG_ARRAYTYPE_P(1));
	if (!PG_ARGISNULL(5))
		check_headers(PG_GETARG_ARRAYTYPE_P(5), count);
	qs_schedule(&queue, PG_ARGISNULL(3) ? NULL : PG_GETARG_INTERVAL_P(3),
				PG_ARGISNULL(4) ? NULL : PG_GETARG_INTERVAL_P(4), &schedule);

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (count == 0)
		return (Datum) 0;

	values[0] = Int32GetDatum(queue.queue_id);
	values[1] = PG_GETARG_DATUM(2);
	values[2] = qs_state_datum(schedule.state);
	values[3] = TimestampTzGetDatum(schedule.enqueued_at);
	values[4] = TimestampTzGetDatum(schedule.expires_at);
	values[5] = TimestampTzGetDatum(schedule.available_after);
	values[6] = new_ids(count);
	values[7] = PG_GETARG_DATUM(1);
	values[8] = PG_GETARG_DATUM(5);
	if (PG_ARGISNULL(5))
		nulls[8] = 'n';

	SPI_connect();
	qs_execute(&insert_statement, values, nulls);
	qs_count_events(COUNTER_ENQUEUED);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool isnull;
		Datum id = SPI_getbinval(SPI_tuptable->vals[i],
								 SPI_tuptable->tupdesc, 1, &isnull);

		tuplestore_putvalues(result->setResult, result->setDesc, &id, &isnull);
	}
	SPI_finish();
	qs_count_done();
	return (Datum) 0;
}

static void
check_dimensions(ArrayType *array, const char *name)
{
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must be a one-dimensional array", name),
				 errdetail("It has %d dimensions.", ARR_NDIM(array)),
				 errhint("A payload that is an array itself is one jsonb element.")));
}

/* How many there are; none may be null. */
static int
check_payloads(ArrayType *payloads)
{
	check_dimensions(payloads, "payloads");
	if (array_contains_nulls(payloads))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("payload must not be null"),
				 errdetail("An element of payloads is null."),
				 errhint("The JSON value null is a payload: 'null'::jsonb.")));
	return ArrayGetNItems(ARR_NDIM(payloads), ARR_DIMS(payloads));
}

static void
check_headers(ArrayType *headers, int count)
{
	Datum *element;
	bool *isnull;
	int header_count;

	check_dimensions(headers, "headers");
	deconstruct_array(headers, JSONBOID, -1, false, TYPALIGN_INT, &element,
					  &isnull, &header_count);
	if (header_count != count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payloads and headers differ in length"),
				 errdetail("There are %d payloads and %d headers.",
						   count, header_count),
				 errhint("Give null for a message without headers.")));
	for (int i = 0; i < header_count; i++)
		if (!isnull[i])
			qs_check_headers(DatumGetJsonbP(element[i]));
}

/*
 * Gives a batch ids of a few shards that lie side by side.  Counting changes
 * each shard once per transaction, however many messages it has there: with
 * ids of random shards a hundred messages would change all of them.  Large
 * batches do not keep to one shard alone, because messages enqueued together
 * are consumed at the same time, by consumers that count in the shards of
 * their messages.
 *
 * Takes log2(QS_SHARD_COUNT) of the 62 random bits.
 */
static void
gather_in_shards(pg_uuid_t *ids, int count)
{
	int first = qs_shard_of_uuid(ids[0].data);
	int shards = Max(1, Min(count / MESSAGES_PER_SHARD, MAX_BATCH_SHARDS));

	for (int i = 1; i < count; i++)
	{
		uint8 *byte = &ids[i].data[UUID_LEN - 1];
		int shard = (first + i % shards) % QS_SHARD_COUNT;

		*byte = *byte - *byte % QS_SHARD_COUNT + shard;
	}
}

static Datum
new_ids(int count)
{
	pg_uuid_t *ids = palloc(count * sizeof(pg_uuid_t));
	Datum *elements = palloc(count * sizeof(Datum));

	qs_new_ids(ids, count);
	gather_in_shards(ids, count);
	for (int i = 0; i < count; i++)
		elements[i] = UUIDPGetDatum(&ids[i]);
	return PointerGetDatum(construct_array(elements, count, UUIDOID, UUID_LEN,
										   false, TYPALIGN_CHAR));
}

/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  enqueue(): puts one message into a queue.
 *
 * With a deduplication key the unique index decides: of two sessions that
 * enqueue the same key the second waits for the first, and both get the id of
 * the one message.  (No other wait is ever made here.)  In REPEATABLE READ
 * and SERIALIZABLE a message with the key that was committed since the
 * snapshot is a serialization failure (40001), as for any unique key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "duration.h"
#include "enqueue.h"
#include "identifier.h"
#include "plan.h"
#include "returned.h"
#include "transaction.h"

#define MAX_DEDUPLICATION_KEY_LENGTH 256

/*
 * A message with the same key can be acknowledged between the attempt to
 * insert and the attempt to read its id, so both are repeated.  If nothing
 * comes of it that often, it is a user's trigger that suppresses the row.
 */
#define MAX_ATTEMPTS 100

PG_FUNCTION_INFO_V1(qs_enqueue);

#define INSERT_MESSAGE                                                    \
	"INSERT INTO queue_state.queue_message AS m (id, queue_id, priority," \
	" state, enqueued_at, expires_at, available_after, headers, payload," \
	" deduplication_key)"                                                 \
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"

#define RETURNING_MESSAGE \
	" RETURNING m.id, m.queue_id, m.priority"

#define INSERT_ARGUMENTS                                                      \
	{                                                                         \
		ARGUMENT_UUID, ARGUMENT_INT4, ARGUMENT_PRIORITY, ARGUMENT_STATE,      \
			ARGUMENT_TIMESTAMPTZ, ARGUMENT_TIMESTAMPTZ, ARGUMENT_TIMESTAMPTZ, \
			ARGUMENT_JSONB, ARGUMENT_JSONB, ARGUMENT_TEXT                     \
	}

enum
{
	INSERT_ID,
	INSERT_QUEUE_ID,
	INSERT_PRIORITY,
	INSERT_STATE,
	INSERT_ENQUEUED_AT,
	INSERT_EXPIRES_AT,
	INSERT_AVAILABLE_AFTER,
	INSERT_HEADERS,
	INSERT_PAYLOAD,
	INSERT_DEDUPLICATION_KEY,
	INSERT_ARGUMENT_COUNT
};

static Statement insert_statement = {
	.text = INSERT_MESSAGE RETURNING_MESSAGE,
	.result = SPI_OK_INSERT_RETURNING,
	.argument_count = INSERT_ARGUMENT_COUNT,
	.argument = INSERT_ARGUMENTS
};

static Statement insert_unique_statement = {
	.text = INSERT_MESSAGE
	" ON CONFLICT (queue_id, deduplication_key)"
	" WHERE deduplication_key IS NOT NULL DO NOTHING" RETURNING_MESSAGE,
	.result = SPI_OK_INSERT_RETURNING,
	.argument_count = INSERT_ARGUMENT_COUNT,
	.argument = INSERT_ARGUMENTS
};

/* A lease that is alive keeps an expired message alive. */
#define IS_EXPIRED                                      \
	"m.expires_at OPERATOR(pg_catalog.<=) $3"           \
	" AND (m.state OPERATOR(pg_catalog.<>) 'IN_FLIGHT'" \
	" OR m.available_after OPERATOR(pg_catalog.<=) $3)"

#define WITH_KEY                                  \
	" WHERE m.queue_id OPERATOR(pg_catalog.=) $1" \
	" AND m.deduplication_key OPERATOR(pg_catalog.=) $2"

static Statement find_statement = {
	.text = "SELECT m.id, " IS_EXPIRED
			" FROM queue_state.queue_message AS m" WITH_KEY,
	.result = SPI_OK_SELECT,
	.argument_count = 3,
	.argument = { ARGUMENT_INT4, ARGUMENT_TEXT, ARGUMENT_TIMESTAMPTZ }
};

static Statement expire_statement = {
	.text = "DELETE FROM queue_state.queue_message AS m" WITH_KEY
			" AND " IS_EXPIRED
			" RETURNING m.id, m.queue_id, m.priority,"
			" m.delivery_attempts OPERATOR(pg_catalog.=) 0"
			" AND m.last_delivered_at IS NULL",
	.result = SPI_OK_DELETE_RETURNING,
	.argument_count = 3,
	.argument = { ARGUMENT_INT4, ARGUMENT_TEXT, ARGUMENT_TIMESTAMPTZ }
};

#define EXPIRED_NEVER_DELIVERED 4

static bool insert(Datum *values, const char *nulls, pg_uuid_t *id);
static bool insert_unique(Datum *values, const char *nulls, pg_uuid_t *id);
static bool find_or_expire(Datum *values, pg_uuid_t *id);

/*
 * enqueue(queue text, payload jsonb, priority message_priority, ttl interval,
 * delay interval, headers jsonb, deduplication_key text) returns uuid
 */
Datum
qs_enqueue(PG_FUNCTION_ARGS)
{
	QueueDetails queue;
	Schedule schedule;
	Datum values[INSERT_ARGUMENT_COUNT];
	char nulls[INSERT_ARGUMENT_COUNT + 1];
	pg_uuid_t *id = palloc(sizeof(pg_uuid_t));
	bool inserted;

	PreventCommandIfReadOnly("enqueue()");
	QS_GETARG_QUEUE(0, &queue);
	if (PG_ARGISNULL(1))
		qs_null_argument("payload");
	if (PG_ARGISNULL(2))
		qs_null_argument("priority");
	qs_schedule(&queue, PG_ARGISNULL(3) ? NULL : PG_GETARG_INTERVAL_P(3),
				PG_ARGISNULL(4) ? NULL : PG_GETARG_INTERVAL_P(4), &schedule);
	if (!PG_ARGISNULL(5))
		qs_check_headers(PG_GETARG_JSONB_P(5));

	qs_new_ids(id, 1);
	memset(nulls, ' ', INSERT_ARGUMENT_COUNT);
	nulls[INSERT_ARGUMENT_COUNT] = '\0';
	values[INSERT_ID] = UUIDPGetDatum(id);
	values[INSERT_QUEUE_ID] = Int32GetDatum(queue.queue_id);
	values[INSERT_PRIORITY] = PG_GETARG_DATUM(2);
	values[INSERT_STATE] = qs_state_datum(schedule.state);
	values[INSERT_ENQUEUED_AT] = TimestampTzGetDatum(schedule.enqueued_at);
	values[INSERT_EXPIRES_AT] = TimestampTzGetDatum(schedule.expires_at);
	values[INSERT_AVAILABLE_AFTER] =
		TimestampTzGetDatum(schedule.available_after);
	values[INSERT_PAYLOAD] = PG_GETARG_DATUM(1);
	values[INSERT_HEADERS] = PG_GETARG_DATUM(5);
	if (PG_ARGISNULL(5))
		nulls[INSERT_HEADERS] = 'n';
	values[INSERT_DEDUPLICATION_KEY] = PG_GETARG_DATUM(6);
	if (PG_ARGISNULL(6))
		nulls[INSERT_DEDUPLICATION_KEY] = 'n';

	SPI_connect();
	if (PG_ARGISNULL(6))
		inserted = insert(values, nulls, id);
	else
	{
		int length = toast_raw_datum_size(values[INSERT_DEDUPLICATION_KEY]) - VARHDRSZ;

		if (length < 1 || length > MAX_DEDUPLICATION_KEY_LENGTH)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("deduplication key is out of range"),
					 errdetail("It has %d bytes; the bounds are 1 and %d.",
							   length, MAX_DEDUPLICATION_KEY_LENGTH),
					 errhint("Pass NULL for no key; a digest makes a short key of a long one.")));
		inserted = insert_unique(values, nulls, id);
	}
	SPI_finish();
	qs_count_done();
	if (!inserted)
		PG_RETURN_NULL(); /* a user's trigger suppressed it */
	PG_RETURN_UUID_P(id);
}

void
qs_schedule(const QueueDetails *queue, const Interval *ttl,
			const Interval *delay, Schedule *schedule)
{
	TimestampTz now = GetCurrentTimestamp();

	if (ttl == NULL)
		ttl = &queue->default_ttl;
	else
		qs_check_ttl(ttl);

	schedule->state = STATE_READY;
	schedule->enqueued_at = now;
	schedule->expires_at = qs_time_after(now, ttl);
	schedule->available_after = now;

	if (delay != NULL && qs_check_delay(delay))
	{
		schedule->state = STATE_DELAYED;
		schedule->available_after = qs_time_after(now, delay);
		if (schedule->available_after >= schedule->expires_at)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("delay is not shorter than the time to live"),
					 errdetail("The message would expire at %s and become available only at %s.",
							   pstrdup(timestamptz_to_str(schedule->expires_at)),
							   pstrdup(timestamptz_to_str(schedule->available_after))),
					 errhint("Give a longer time to live.")));
	}
}

void
qs_check_headers(Jsonb *headers)
{
	if (!JB_ROOT_IS_OBJECT(headers))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("headers must be a JSON object"),
				 JB_ROOT_IS_SCALAR(headers) ?
					 errdetail("The value is a scalar.") :
					 errdetail("The value is an array."),
				 errhint("Give an object such as {\"correlation_id\": \"42\"}, or null.")));
}

Datum
qs_state_datum(MessageState state)
{
	return ObjectIdGetDatum(qs_catalog()->state[state]);
}

static bool
insert(Datum *values, const char *nulls, pg_uuid_t *id)
{
	bool isnull;

	qs_execute(&insert_statement, values, nulls);
	if (SPI_processed == 0)
		return false;
	qs_count_events(COUNTER_ENQUEUED);
	*id = *DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, 1, &isnull));
	return true;
}

static bool
insert_unique(Datum *values, const char *nulls, pg_uuid_t *id)
{
	for (int i = 0; i < MAX_ATTEMPTS; i++)
	{
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		qs_execute(&insert_unique_statement, values, nulls);
		if (SPI_processed > 0)
		{
			qs_count_events(COUNTER_ENQUEUED);
			*id = *DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[0],
											   SPI_tuptable->tupdesc, 1,
											   &isnull));
			return true;
		}
		if (find_or_expire(values, id))
			return true;
	}
	return false;
}

/*
 * The id of the live message with the key, if there is one.  An expired one
 * is deleted, and counted as expire_messages() would.
 */
static bool
find_or_expire(Datum *values, pg_uuid_t *id)
{
	Datum arguments[3];
	HeapTuple row;
	bool isnull;
	Datum never;

	arguments[0] = values[INSERT_QUEUE_ID];
	arguments[1] = values[INSERT_DEDUPLICATION_KEY];
	arguments[2] = values[INSERT_ENQUEUED_AT];
	qs_execute(&find_statement, arguments, NULL);
	if (SPI_processed == 0)
		return false;

	row = SPI_tuptable->vals[0];
	if (!DatumGetBool(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull)))
	{
		*id = *DatumGetUUIDP(SPI_getbinval(row, SPI_tuptable->tupdesc, 1,
										   &isnull));
		return true;
	}

	qs_execute(&expire_statement, arguments, NULL);
	if (SPI_processed > 0)
	{
		never = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
							  EXPIRED_NEVER_DELIVERED, &isnull);
		qs_count_events(DatumGetBool(never) ?
							COUNTER_EXPIRED_NEVER_DELIVERED :
							COUNTER_EXPIRED_PREVIOUSLY_DELIVERED);
	}
	return false;
}

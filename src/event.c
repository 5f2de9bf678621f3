/*-------------------------------------------------------------------------
 *
 * event.c
 *	  How the functions written in SQL count: count_event() for the event
 *	  totals, correct_counter() for rebuild().
 *
 * Internal: nobody but the extension's owner may execute them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog.h"
#include "shard.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(qs_count_event);
PG_FUNCTION_INFO_V1(qs_correct_counter);

static Counter
counter_of_name(const char *name, Counter first, Counter last)
{
	for (Counter counter = first; counter <= last; counter++)
	{
		if (strcmp(name, qs_counter_name(counter)) == 0)
			return counter;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown counter \"%s\"", name),
			 errhint("Counters are named like the columns of queue_state.queue_priority_state_shard.")));
}

/*
 * count_event(counter text, queue_id integer, priority, message_id uuid)
 */
Datum
qs_count_event(PG_FUNCTION_ARGS)
{
	Counter counter = counter_of_name(text_to_cstring(PG_GETARG_TEXT_PP(0)),
									  COUNTER_ENQUEUED, COUNTER_DEAD_LETTER_REDRIVEN);
	int32 queue_id = PG_GETARG_INT32(1);
	Priority priority = qs_priority_of_oid(PG_GETARG_OID(2));
	pg_uuid_t *id = PG_GETARG_UUID_P(3);

	qs_count(counter, queue_id, priority, qs_shard_of_uuid(id->data), 1);
	qs_count_done();

	PG_RETURN_VOID();
}

/*
 * correct_counter(counter text, queue_id integer, priority, shard smallint,
 *				   amount bigint)
 */
Datum
qs_correct_counter(PG_FUNCTION_ARGS)
{
	Counter counter = counter_of_name(text_to_cstring(PG_GETARG_TEXT_PP(0)),
									  COUNTER_READY, COUNTER_DEAD_LETTER);
	int32 queue_id = PG_GETARG_INT32(1);
	Priority priority = qs_priority_of_oid(PG_GETARG_OID(2));
	int shard = PG_GETARG_INT16(3);

	qs_count(counter, queue_id, priority, shard, PG_GETARG_INT64(4));
	qs_count_done();

	PG_RETURN_VOID();
}

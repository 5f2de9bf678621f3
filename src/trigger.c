/*-------------------------------------------------------------------------
 *
 * trigger.c
 *	  The statement triggers that count what happened to the message tables.
 *
 * Each walks the transition tables of its statement once and folds both into
 * signed changes: every old row is one less, every new row one more, in the
 * cell (queue, priority, shard) and state that the row says.  Rows that
 * changed no counted column cancel out.  OLD and NEW rows are never paired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "catalog.h"
#include "queue_reference.h"
#include "reader.h"
#include "shard.h"
#include "tally.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(qs_count_messages);
PG_FUNCTION_INFO_V1(qs_count_dead_letters);
PG_FUNCTION_INFO_V1(qs_count_truncate);
PG_FUNCTION_INFO_V1(qs_forget_deleted_queue);

/* Where in a row the cell is written, and which counter the row belongs to. */
typedef struct CountedColumns
{
	AttrNumber id;
	AttrNumber queue_id;
	AttrNumber priority;
	AttrNumber state; /* InvalidAttrNumber: dead letters have none */
} CountedColumns;

static TriggerData *
check_trigger_protocol(FunctionCallInfo fcinfo, const char *function)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", function)));
	if (!TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired AFTER and FOR EACH STATEMENT", function)));
	if (trigger->tg_trigger->tgnargs != 0)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" takes no arguments", function)));
	return trigger;
}

/*
 * Columns are found by their numbers in one table; a row of another would be
 * misread.
 */
static void
check_relation(TriggerData *trigger, Oid expected, const char *function)
{
	if (RelationGetRelid(trigger->tg_relation) != expected)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must not be fired by table \"%s\"",
						function, RelationGetRelationName(trigger->tg_relation)),
				 errdetail("It serves one table of the extension \"queue_state\"."),
				 errhint("Drop the trigger.")));
}

/*
 * A statement's event must come with the transition tables it can have.
 */
static void
check_transition_tables(TriggerData *trigger, const char *function)
{
	bool has_old = trigger->tg_oldtable != NULL;
	bool has_new = trigger->tg_newtable != NULL;
	bool complete;

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		complete = has_new;
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		complete = has_old && has_new;
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		complete = has_old;
	else
		complete = false;

	if (!complete)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" needs the transition tables of INSERT, UPDATE or DELETE",
						function),
				 errhint("Create one trigger for each event, with REFERENCING OLD TABLE and NEW TABLE.")));
}

static Counter
state_counter(MessageState state)
{
	switch (state)
	{
		case STATE_READY:
			return COUNTER_READY;
		case STATE_IN_FLIGHT:
			return COUNTER_IN_FLIGHT;
		case STATE_DELAYED:
			return COUNTER_DELAYED;
	}
	pg_unreachable();
}

/*
 * All counted columns are NOT NULL; a missing one means that somebody dropped
 * that constraint.
 */
static Datum
get_counted_column(TupleTableSlot *slot, AttrNumber attnum)
{
	bool isnull;
	Datum value = slot_getattr(slot, attnum, &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("null value in column \"%s\" cannot be counted",
						NameStr(TupleDescAttr(slot->tts_tupleDescriptor, attnum - 1)->attname))));
	return value;
}

/*
 * Counts every row of a transition table `sign` times.  With `reference`, it
 * also sees to it that their queues exist and stay.
 */
static void
count_rows(Relation relation, Tuplestorestate *rows, const CountedColumns *columns,
		   int sign, bool reference)
{
	TupleTableSlot *slot;
	int64 referenced = PG_INT64_MIN; /* no queue id */
	int64 looked_at = PG_INT64_MIN;
	bool deleted = false;
	Tally tally = { 0 };

	if (rows == NULL)
		return;

	/*
	 * Another trigger may have left the store's read pointer anywhere.  The
	 * store belongs to the statement: it is neither kept nor freed here.
	 */
	tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
	tuplestore_rescan(rows);

	slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(rows, true, false, slot))
	{
		pg_uuid_t *id = DatumGetUUIDP(get_counted_column(slot, columns->id));
		int32 queue_id = DatumGetInt32(get_counted_column(slot, columns->queue_id));
		Priority priority = qs_priority_of_oid(DatumGetObjectId(get_counted_column(slot, columns->priority)));
		Counter counter = COUNTER_DEAD_LETTER;

		CHECK_FOR_INTERRUPTS();

		if (reference && queue_id != referenced)
		{
			qs_reference_queue(relation, queue_id);
			referenced = queue_id;
		}

		/*
		 * Rows that go with their queue: its counters go as well, and may
		 * already be gone.
		 */
		if (sign < 0 && queue_id != looked_at)
		{
			deleted = qs_deleted_queue(queue_id);
			looked_at = queue_id;
		}
		if (deleted)
			continue;

		if (columns->state != InvalidAttrNumber)
			counter = state_counter(qs_state_of_oid(DatumGetObjectId(get_counted_column(slot, columns->state))));

		qs_tally_add(&tally, counter, queue_id, priority, qs_shard_of_uuid(id->data), sign);
	}
	qs_tally_end(&tally);
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_select_read_pointer(rows, 0);
}

static void
count_statement(TriggerData *trigger, const CountedColumns *columns)
{
	/*
	 * INSERT also checks the reference to the queue, in place of the foreign
	 * key's own trigger (see sql/counting.sql); UPDATE leaves that to it.
	 */
	bool reference = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);

	count_rows(trigger->tg_relation, trigger->tg_oldtable, columns, -1, false);
	count_rows(trigger->tg_relation, trigger->tg_newtable, columns, +1, reference);
	qs_count_done();
}

/*
 * count_messages(): AFTER INSERT, UPDATE or DELETE on queue_message.
 */
Datum
qs_count_messages(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = check_trigger_protocol(fcinfo, "count_messages");
	const Catalog *catalog = qs_catalog();
	CountedColumns columns = {
		.id = catalog->message_column.id,
		.queue_id = catalog->message_column.queue_id,
		.priority = catalog->message_column.priority,
		.state = catalog->message_column.state
	};

	check_relation(trigger, qs_catalog()->message, "count_messages");
	check_transition_tables(trigger, "count_messages");
	count_statement(trigger, &columns);

	return PointerGetDatum(NULL);
}

/*
 * count_dead_letters(): the same on queue_dead_letter_message.
 */
Datum
qs_count_dead_letters(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = check_trigger_protocol(fcinfo, "count_dead_letters");
	const Catalog *catalog = qs_catalog();
	CountedColumns columns = {
		.id = catalog->dead_letter_column.id,
		.queue_id = catalog->dead_letter_column.queue_id,
		.priority = catalog->dead_letter_column.priority,
		.state = InvalidAttrNumber
	};

	check_relation(trigger, qs_catalog()->dead_letter, "count_dead_letters");
	check_transition_tables(trigger, "count_dead_letters");
	count_statement(trigger, &columns);

	return PointerGetDatum(NULL);
}

/* Which counters a TRUNCATE sets to zero. */
typedef struct TruncatedCounters
{
	Counter first;
	Counter last;
} TruncatedCounters;

static void
count_back_to_zero(const ShardKey *key, const Counters *counters, void *arg)
{
	const TruncatedCounters *truncated = arg;

	for (Counter counter = truncated->first; counter <= truncated->last; counter++)
	{
		if (counters->value[counter] != 0)
			qs_count(counter, key->queue_id, (Priority) key->priority, key->shard,
					 -counters->value[counter]);
	}
}

/*
 * count_truncate(): AFTER TRUNCATE on either table.
 *
 * TRUNCATE has no transition table, but its exclusive lock means that the
 * rollup, together with what this transaction has changed before, is what was
 * in the table.  So it is taken back like any other change: at commit, and
 * not at all after a rollback.
 */
Datum
qs_count_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = check_trigger_protocol(fcinfo, "count_truncate");
	Snapshot snapshot;
	TruncatedCounters truncated;

	if (!TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired by TRUNCATE", "count_truncate")));

	if (RelationGetRelid(trigger->tg_relation) == qs_catalog()->message)
		truncated = (TruncatedCounters){ COUNTER_READY, COUNTER_DELAYED };
	else
	{
		check_relation(trigger, qs_catalog()->dead_letter, "count_truncate");
		truncated = (TruncatedCounters){ COUNTER_DEAD_LETTER, COUNTER_DEAD_LETTER };
	}

	/* The lock is newer than the transaction's snapshot may be. */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	qs_read_rollup(snapshot, count_back_to_zero, &truncated);
	UnregisterSnapshot(snapshot);
	qs_count_done();

	return PointerGetDatum(NULL);
}

/*
 * forget_deleted_queue(): AFTER DELETE FOR EACH ROW and AFTER TRUNCATE on
 * queue.
 *
 * A queue can be made again under the same number in the same transaction;
 * what the earlier one's messages changed must not be counted for it.
 */
Datum
qs_forget_deleted_queue(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		!(TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ?
			  TRIGGER_FIRED_FOR_ROW(trigger->tg_event) :
			  TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired AFTER DELETE and FOR EACH ROW, or AFTER TRUNCATE",
						"forget_deleted_queue")));
	check_relation(trigger, qs_catalog()->queue, "forget_deleted_queue");

	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		Relation queue = trigger->tg_relation;
		bool isnull;
		Datum queue_id = heap_getattr(trigger->tg_trigtuple,
									  get_attnum(RelationGetRelid(queue), "queue_id"),
									  RelationGetDescr(queue), &isnull);

		if (!isnull)
			qs_forget_queue(DatumGetInt32(queue_id));
	}
	else
		qs_forget_all_queues();
	qs_count_done();

	return PointerGetDatum(NULL);
}

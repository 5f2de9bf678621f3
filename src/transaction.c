/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Holds the counter changes of the current transaction and applies them
 *	  when it commits or prepares.
 *
 * The changes live in backend memory until XACT_EVENT_PRE_COMMIT, so a
 * message transaction touches a counter row only at its very end.  Nothing
 * here enters user-defined code: the rollup is written through the table
 * access method, which queues no triggers.
 *
 * All state is backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/syscache.h"

#include "apply.h"
#include "catalog.h"
#include "pending.h"
#include "queue_reference.h"
#include "transaction.h"

static DeltaStack deltas;

/* The first command after the latest of them that changed messages. */
static CommandId command_after_changes = FirstCommandId;

/*
 * Set between the application at PRE_COMMIT and the end of the transaction.
 * Callbacks of other modules may still write messages in that window.
 */
static bool applied = false;

/*
 * Makes the level of the current subtransaction and returns its number.
 *
 * Locks the counter tables now and not at commit, so that DDL on them is met
 * by the statement.  Locks and levels are released and inherited at the same
 * moments, so once per level is enough.
 */
static int
begin_level(void)
{
	int nest_level = GetCurrentTransactionNestLevel();
	Oid table = qs_catalog()->shard;

	if (!qs_delta_has_level(&deltas, nest_level) || qs_delta_table(&deltas) != table)
	{
		Oid pending = qs_catalog()->pending;

		LockRelationOid(table, RowExclusiveLock);
		LockRelationOid(pending, RowExclusiveLock);
		qs_delta_begin(&deltas, nest_level, table);
	}

	return nest_level;
}

void
qs_count(Counter counter, int32 queue_id, Priority priority, int shard,
		 int64 amount)
{
	int nest_level = begin_level();
	ShardKey key = { queue_id, priority, shard };

	qs_delta_add(&deltas, nest_level, key, counter, amount);

	/* Events come after the command whose rows are counted in the state. */
	if (counter < STATE_COUNTER_COUNT)
		command_after_changes = GetCurrentCommandId(false) + 1;
}

void
qs_forget_queue(int32 queue_id)
{
	if (deltas.top == NULL)
		return;
	begin_level();
	qs_delta_forget_queue(&deltas, queue_id);
}

void
qs_forget_all_queues(void)
{
	if (deltas.top == NULL)
		return;
	begin_level();
	qs_delta_forget_all(&deltas);
}

CommandId
qs_command_after_changes(void)
{
	return command_after_changes;
}

const DeltaStack *
qs_unapplied_deltas(void)
{
	if (qs_delta_table(&deltas) != qs_catalog()->shard)
		return NULL; /* none, or the extension was dropped */
	return &deltas;
}

/*
 * This transaction may have dropped the extension, and its counters with it,
 * after it changed messages.
 */
static bool
counters_were_dropped(void)
{
	return !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(qs_delta_table(&deltas)));
}

static void
apply_deltas(void)
{
	if (deltas.top == NULL)
		return;
	if (!counters_were_dropped())
		qs_apply(&deltas);
	qs_delta_reset(&deltas);
}

void
qs_count_done(void)
{
	if (applied)
		apply_deltas();
}

static void
transaction_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			apply_deltas();
			applied = true;
			break;

		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			/* The memory belongs to TopTransactionContext, which goes now. */
			deltas.top = NULL;
			command_after_changes = FirstCommandId;
			applied = false;
			qs_pending_end_transaction();
			qs_reference_end_transaction();
			break;

		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* Parallel workers write no messages. */
			break;
	}
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId subid,
						SubTransactionId parent_subid, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;

		case SUBXACT_EVENT_COMMIT_SUB:
			qs_delta_release(&deltas, GetCurrentTransactionNestLevel());
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			qs_delta_rollback(&deltas, GetCurrentTransactionNestLevel());
			break;
	}
}

void
qs_transaction_init(void)
{
	RegisterXactCallback(transaction_callback, NULL);
	RegisterSubXactCallback(subtransaction_callback, NULL);
}

/*-------------------------------------------------------------------------
 *
 * queue_reference.c
 *	  The reference from messages and dead letters to their queue.
 *
 * It is declared as a foreign key, but checked here, once per statement and
 * queue.  The foreign key's own check runs once per message and locks the
 * queue's row FOR KEY SHARE: all producers of a queue then write to one row,
 * and the ones at work together make a multixact of all of them.  Batches of
 * 100 were a fifth slower with it, and 16 clients used up millions of
 * multixact members a minute.
 *
 * The lock here is a heavyweight one on an object tag, shared among messages'
 * transactions and exclusive for the one that deletes the queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "compat.h"
#include "queue_reference.h"

PG_FUNCTION_INFO_V1(qs_lock_deleted_queue);
PG_FUNCTION_INFO_V1(qs_lock_references);

/*
 * From this many queues on, a transaction takes its share of all of them at
 * once, or the lock table would overflow (a restore).
 */
#define MAX_SINGLE_REFERENCES 64

static int references = 0; /* single ones, by this transaction */

/*
 * Queues that this backend has seen in the table, each at its id modulo
 * KNOWN_QUEUES; 0, which is no queue's id, where there is none.  Whoever
 * changes the table says so by invalidation, and before its locks are
 * released (see queue_details.c).  So a known queue exists, for whoever has
 * its lock and has listened since.
 */
#define KNOWN_QUEUES 64
static int32 known_queue[KNOWN_QUEUES];
static Oid known_in; /* the table that they were seen in */

static void
set_queue_tag(LOCKTAG *tag, int32 queue_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, qs_catalog()->queue, (uint32) queue_id, 0);
}

static void
set_all_queues_tag(LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, qs_catalog()->queue, 0, 1);
}

static bool
lock_shared(const LOCKTAG *tag, LOCKMODE mode, bool dont_wait)
{
	return qs_lock_held_by_me(tag, mode) ||
		   LockAcquire(tag, mode, false, dont_wait) != LOCKACQUIRE_NOT_AVAIL;
}

static bool
reference_queue(int32 queue_id, bool dont_wait)
{
	LOCKTAG tag;

	set_queue_tag(&tag, queue_id);
	if (qs_lock_held_by_me(&tag, AccessShareLock))
		return true;
	if (references >= MAX_SINGLE_REFERENCES)
	{
		set_all_queues_tag(&tag);
		return lock_shared(&tag, ShareLock, dont_wait);
	}
	references++;
	return lock_shared(&tag, AccessShareLock, dont_wait);
}

/*
 * In this order: whoever refers to many queues and waits for this one must
 * not be waited for.
 */
static void
lock_against_references(int32 queue_id)
{
	LOCKTAG tag;

	set_queue_tag(&tag, queue_id);
	(void) LockAcquire(&tag, AccessExclusiveLock, false, false);
	set_all_queues_tag(&tag);
	(void) LockAcquire(&tag, RowExclusiveLock, false, false);
}

void
qs_reference_end_transaction(void)
{
	references = 0;
}

static void
forget_known(Datum argument, Oid relation)
{
	if (relation == InvalidOid || relation == known_in)
		memset(known_queue, 0, sizeof(known_queue));
}

static bool
queue_is_known(int32 queue_id)
{
	AcceptInvalidationMessages();
	return queue_id != 0 && known_queue[(uint32) queue_id % KNOWN_QUEUES] == queue_id &&
		   known_in == qs_catalog()->queue;
}

/*
 * To be called with the newest version of the queue's row.  One that this
 * transaction has made itself is not kept: it can be rolled back before
 * anybody, this backend included, has been told of it.
 */
static void
remember_known(Relation queue, int32 queue_id, TupleTableSlot *slot)
{
	static bool registered = false;
	bool isnull;
	Datum inserter = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	if (TransactionIdIsCurrentTransactionId(DatumGetTransactionId(inserter)))
		return;
	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget_known, (Datum) 0);
		registered = true;
	}
	if (known_in != RelationGetRelid(queue))
	{
		memset(known_queue, 0, sizeof(known_queue));
		known_in = RelationGetRelid(queue);
	}
	known_queue[(uint32) queue_id % KNOWN_QUEUES] = queue_id;
}

static bool
queue_exists(Relation queue, Relation pkey, int32 queue_id, Snapshot snapshot)
{
	TupleTableSlot *slot = table_slot_create(queue, NULL);
	ScanKeyData key;
	IndexScanDesc scan;
	bool exists;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	scan = qs_index_beginscan(queue, pkey, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	exists = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (exists && snapshot == SnapshotSelf)
		remember_known(queue, queue_id, slot);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);

	return exists;
}

/*
 * The transaction of a row of `queue` that is not committed yet, if any.
 */
static TransactionId
inserting_transaction(Relation queue)
{
	TupleTableSlot *slot = table_slot_create(queue, NULL);
	TransactionId inserter = InvalidTransactionId;
	SnapshotData dirty;
	TableScanDesc scan;

	InitDirtySnapshot(dirty);
	scan = table_beginscan(queue, &dirty, 0, NULL);
	while (!TransactionIdIsValid(inserter) &&
		   table_scan_getnextslot(scan, ForwardScanDirection, slot))
		inserter = dirty.xmin;
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);

	return inserter;
}

static bool
is_copying(void)
{
	return ActivePortal != NULL && ActivePortal->commandTag == CMDTAG_COPY;
}

/*
 * Decides about a queue that was not found at first sight.
 *
 * A parallel restore loads messages and queues at the same time, in any
 * order: pg_restore takes no notice of foreign keys between the tables of an
 * extension.  So what COPY brings is taken on trust while the table of queues
 * is as CREATE EXTENSION made it, without a page; and when queues are just
 * being loaded, the answer is theirs to wait for.  Once it had a row, the
 * table keeps its pages (vacuum_truncate is off).
 */
static bool
queue_exists_or_is_coming(Relation queue, Relation pkey, int32 queue_id)
{
	bool copying = is_copying();

	while (true)
	{
		/* In this order: what comes in between is then seen by the last. */
		bool untouched = copying && RelationGetNumberOfBlocks(queue) == 0;
		TransactionId inserter = copying ? inserting_transaction(queue) : InvalidTransactionId;
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
		bool exists = queue_exists(queue, pkey, queue_id, snapshot);

		UnregisterSnapshot(snapshot);
		if (exists || untouched)
			return true;
		if (!TransactionIdIsValid(inserter))
			return false;
		XactLockTableWait(inserter, NULL, NULL, XLTW_None);
	}
}

void
qs_reference_queue(Relation referencing, int32 queue_id)
{
	Oid pkey_oid;
	Relation queue;
	Relation pkey;
	bool exists;

	(void) reference_queue(queue_id, false);
	if (queue_is_known(queue_id))
		return;

	pkey_oid = qs_catalog()->queue_pkey;
	queue = table_open(qs_catalog()->queue, AccessShareLock);
	pkey = index_open(pkey_oid, AccessShareLock);

	/*
	 * SnapshotSelf costs no snapshot and no predicate lock, but can miss a row
	 * that is just being updated; only an MVCC snapshot's "no" is certain.
	 */
	exists = queue_exists(queue, pkey, queue_id, SnapshotSelf) ||
			 queue_exists_or_is_coming(queue, pkey, queue_id);
	index_close(pkey, AccessShareLock);
	table_close(queue, AccessShareLock);

	if (!exists)
	{
		const char *table = RelationGetRelationName(referencing);
		char *constraint = psprintf("%s_queue_id_fkey", table);

		ereport(ERROR,
				(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
				 errmsg("insert or update on table \"%s\" violates foreign key constraint \"%s\"",
						table, constraint),
				 errdetail("Key (queue_id)=(%d) is not present in table \"%s\".", queue_id, "queue"),
				 errhint("SELECT queue_id, name FROM queue_state.queue lists the queues."),
				 errtableconstraint(referencing, constraint)));
	}
}

bool
qs_try_reference_queue(int32 queue_id)
{
	return reference_queue(queue_id, true);
}

bool
qs_queue_may_exist(int32 queue_id)
{
	Oid pkey_oid = qs_catalog()->queue_pkey;
	Relation queue = table_open(qs_catalog()->queue, AccessShareLock);
	Relation pkey = index_open(pkey_oid, AccessShareLock);
	SnapshotData dirty;
	bool may_exist;

	InitDirtySnapshot(dirty);
	may_exist = queue_exists(queue, pkey, queue_id, &dirty) ||
				RelationGetNumberOfBlocks(queue) == 0;
	if (!may_exist)
	{
		/* A row that was just being updated can have been missed above. */
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

		may_exist = queue_exists(queue, pkey, queue_id, snapshot);
		UnregisterSnapshot(snapshot);
	}
	index_close(pkey, AccessShareLock);
	table_close(queue, AccessShareLock);

	return may_exist;
}

bool
qs_deleted_queue(int32 queue_id)
{
	LOCKTAG tag;

	/* Whoever deletes a queue has this lock until his transaction ends. */
	set_queue_tag(&tag, queue_id);
	return qs_lock_held_by_me(&tag, AccessExclusiveLock) && !qs_queue_may_exist(queue_id);
}

/*
 * lock_deleted_queue(): BEFORE DELETE FOR EACH ROW on queue.
 *
 * Waits for transactions that reference the queue; those that come later
 * wait, and then find that it is gone.  The cascade of the foreign key runs
 * after this, with a snapshot that sees their messages.
 */
Datum
qs_lock_deleted_queue(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	bool isnull;
	Datum queue_id;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE DELETE and FOR EACH ROW",
						"lock_deleted_queue")));

	queue_id = heap_getattr(trigger->tg_trigtuple,
							SPI_fnumber(RelationGetDescr(trigger->tg_relation), "queue_id"),
							RelationGetDescr(trigger->tg_relation), &isnull);
	if (!isnull)
		lock_against_references(DatumGetInt32(queue_id));

	return PointerGetDatum(trigger->tg_trigtuple);
}

/*
 * lock_references(queue_id integer)
 *
 * For drop_queue(), which has to look at the queue's messages before it
 * deletes the queue: waits and keeps away like the trigger above, until the
 * (sub)transaction ends.
 */
Datum
qs_lock_references(PG_FUNCTION_ARGS)
{
	lock_against_references(PG_GETARG_INT32(0));
	PG_RETURN_VOID();
}

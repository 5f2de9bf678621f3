/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Picks the messages that a dequeue() gets, without the planner.
 *
 * From HIGH to LOW, and within a priority first the elapsed rows in the order
 * in which they elapsed, then the READY rows in the order of enqueueing: the
 * two indexes made for that are scanned and each usable row is locked unless
 * another session has it.  Live leases are never met, the scan ends before
 * them.  Expired READY rows are told by the index entry alone.  What stands at
 * the head of an order in vain is passed once, not at each call (position.h).
 *
 * Nothing here waits for another session: rows it holds are skipped, and so
 * are rows that it changed since the snapshot, at every isolation level.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "claim.h"
#include "compat.h"

/* Columns of the indexes, in the order of sql/indexes.sql. */
enum
{
	INDEX_COLUMN_QUEUE_ID = 1,
	INDEX_COLUMN_PRIORITY,
	INDEX_COLUMN_TIME,
	INDEX_COLUMN_ID,		/* of the READY index alone */
	INDEX_COLUMN_EXPIRES_AT /* of the READY index alone */
};

#define KEY_COUNT 4 /* of either order, at most */

/*
 * How far behind a look may end to meet exhausted rows again that it left to
 * later calls.
 */
#define LEFT_BEHIND_MAX 64

/* One order of the queue, being scanned. */
typedef struct OrderScan
{
	Relation index;
	IndexScanDesc scan;
} OrderScan;

typedef struct ClaimState
{
	Relation message;
	const QueueDetails *queue;
	TimestampTz now;
	int wanted;
	int allocated;
	Catalog catalog;
	Snapshot snapshot;		  /* decides what is visible */
	SnapshotData uncommitted; /* what the scans see */
	TupleTableSlot *slot;
	TupleTableSlot *locked_slot;
	OrderScan order_scan[ORDER_COUNT];
	Position looked_from[PRIORITY_COUNT][ORDER_COUNT];
	Claim *claim;
} ClaimState;

typedef enum Verdict
{
	VERDICT_TAKEN,	  /* a candidate, or to become a dead letter */
	VERDICT_FINISHED, /* dead to every snapshot to come, or expired */
	VERDICT_HELD,	  /* by another session, or not visible yet */
	VERDICT_LEFT,	  /* exhausted, and this call has enough of them */
	VERDICT_STOP	  /* usable, and this call has enough of them */
} Verdict;

static void open_order(ClaimState *state, Order order, Oid index);
static void look(ClaimState *state, Priority priority, Order order);
static void look_again(ClaimState *state, Priority priority, Order order);
static int64 look_between(ClaimState *state, Priority priority, Order order,
						  const Position *from, const Position *until,
						  Marks *marks);
static Verdict look_at_row(ClaimState *state, Priority priority, Order order,
						   const Position *position);
static Verdict consider(ClaimState *state, Priority priority, Order order,
						const Position *position);
static bool lock_row(ClaimState *state, ItemPointer tid);
static int compare_candidates(const void *a, const void *b);

void
qs_claim(Relation message, const QueueDetails *queue, TimestampTz now,
		 int wanted, Claim *claim)
{
	ClaimState state = { 0 };
	int found;

	claim->count = 0;
	claim->exhausted_count = 0;
	state.allocated = Min(wanted, 128);
	claim->candidate = palloc(state.allocated * sizeof(Candidate));

	state.message = message;
	state.queue = queue;
	state.now = now;
	state.wanted = wanted;
	state.claim = claim;
	state.catalog = *qs_catalog();

	/*
	 * READ COMMITTED looks at what is committed now.  The stricter levels see
	 * what the executor's UPDATE will see.
	 *
	 * The scans see more: what others have not committed yet.  So they tell
	 * rows that are finished from rows that may come (back).  And in
	 * SERIALIZABLE an MVCC scan would leave predicate locks on index pages
	 * that every enqueue() writes to, though skipping what is locked is no
	 * serializable read anyway.
	 */
	CommandCounterIncrement();
	PushActiveSnapshot(IsolationUsesXactSnapshot() ?
						   GetTransactionSnapshot() :
						   GetLatestSnapshot());
	state.snapshot = GetActiveSnapshot();
	InitDirtySnapshot(state.uncommitted);

	state.slot = table_slot_create(message, NULL);
	state.locked_slot = table_slot_create(message, NULL);
	open_order(&state, ORDER_ELAPSED, state.catalog.waiting_index);
	open_order(&state, ORDER_READY, state.catalog.ready_index);

	for (int p = PRIORITY_HIGH; p >= PRIORITY_LOW; p--)
		for (int o = 0; o < ORDER_COUNT; o++)
			look(&state, p, o);

	found = claim->count;
	if (found < wanted)
		for (int p = PRIORITY_HIGH; p >= PRIORITY_LOW; p--)
			for (int o = 0; o < ORDER_COUNT; o++)
				look_again(&state, p, o);
	if (claim->count > found)
		qsort(claim->candidate, claim->count, sizeof(Candidate),
			  compare_candidates);

	for (int o = 0; o < ORDER_COUNT; o++)
	{
		index_endscan(state.order_scan[o].scan);
		index_close(state.order_scan[o].index, AccessShareLock);
	}
	ExecDropSingleTupleTableSlot(state.slot);
	ExecDropSingleTupleTableSlot(state.locked_slot);
	PopActiveSnapshot();
}

static void
open_order(ClaimState *state, Order order, Oid index)
{
	OrderScan *order_scan = &state->order_scan[order];

	order_scan->index = index_open(index, AccessShareLock);
	order_scan->scan = qs_index_beginscan(state->message, order_scan->index,
										  &state->uncommitted, order == ORDER_READY ? KEY_COUNT - 1 : KEY_COUNT);
	/* positions and expiry are read from the index entries */
	order_scan->scan->xs_want_itup = true;
}

static Trail *
trail_of(ClaimState *state, Priority priority, Order order)
{
	return qs_trail(RelationGetRelid(state->message), state->queue->queue_id,
					priority, order);
}

/*
 * Enough candidates?  The elapsed rows of all priorities are looked at even
 * then, for the exhausted ones among them.
 */
static bool
satisfied(const ClaimState *state, Order order)
{
	return state->claim->count >= state->wanted &&
		   (order == ORDER_READY ||
			state->claim->exhausted_count >= CLAIM_MAX_EXHAUSTED);
}

static const Position *
place_of(const Trail *trail, LookBack back)
{
	return back == FROM_BEGINNING ? &qs_beginning : &trail->marks.watermark;
}

/*
 * Looks from `from` on, and until `until` unless that is NULL, and moves the
 * watermark if the look was one over all that stands behind it.  The answer is
 * how many entries were met in vain.
 */
static int64
look_from(ClaimState *state, Trail *trail, Priority priority, Order order,
		  const Position *from, const Position *until)
{
	Marks marks = { .watermark = *from, .start = *from };
	int64 vain;

	vain = look_between(state, priority, order, from, until, &marks);
	if (qs_position_compare(from, &trail->marks.watermark) > 0)
		marks.watermark = trail->marks.watermark;
	if (until != NULL)
		marks.start = trail->marks.start;
	if (qs_position_compare(&marks.watermark, &trail->marks.watermark) != 0 ||
		qs_position_compare(&marks.start, &trail->marks.start) != 0)
		qs_trail_move(trail, &marks);
	return vain;
}

/* Looks from the remembered start, or from further back if that is due. */
static void
look(ClaimState *state, Priority priority, Order order)
{
	Trail *trail = trail_of(state, priority, order);
	Position *from = &state->looked_from[priority][order];
	int64 vain;

	if (satisfied(state, order))
		return;

	for (int back = FROM_BEGINNING; back >= FROM_WATERMARK; back--)
		if (qs_look_back_due(trail, back, state->now))
		{
			*from = *place_of(trail, back);
			vain = look_from(state, trail, priority, order, from, NULL);
			qs_look_back_done(trail, back, state->now, vain);
			return;
		}
	*from = trail->marks.start;
	look_from(state, trail, priority, order, from, NULL);
}

/* There was too little: looks at what is in front of the first look. */
static void
look_again(ClaimState *state, Priority priority, Order order)
{
	Trail *trail = trail_of(state, priority, order);
	Position until = state->looked_from[priority][order];

	for (int back = FROM_WATERMARK; back <= FROM_BEGINNING; back++)
	{
		Position from = *place_of(trail, back);
		int64 vain;

		if (state->claim->count >= state->wanted)
			return;
		if (qs_position_compare(&from, &until) >= 0 ||
			!qs_look_back_allowed(trail, back, state->now))
			continue;
		vain = look_from(state, trail, priority, order, &from, &until);
		qs_look_back_done(trail, back, state->now, vain);
		until = from;
	}
}

/*
 * Starts the scan of one order at a position.  The keys are copied by
 * index_rescan(), but not the members of the row comparison.
 */
static void
start_scan(ClaimState *state, Priority priority, Order order,
		   const Position *from, ScanKeyData row_key[2])
{
	ScanKeyData key[KEY_COUNT];
	int count = 0;

	ScanKeyInit(&key[count++], INDEX_COLUMN_QUEUE_ID, BTEqualStrategyNumber,
				F_INT4EQ, Int32GetDatum(state->queue->queue_id));
	ScanKeyInit(&key[count++], INDEX_COLUMN_PRIORITY, BTEqualStrategyNumber,
				F_ENUM_EQ,
				ObjectIdGetDatum(state->catalog.priority[priority]));
	if (order == ORDER_ELAPSED)
	{
		ScanKeyInit(&key[count++], INDEX_COLUMN_TIME,
					BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
					TimestampTzGetDatum(from->time));
		ScanKeyInit(&key[count++], INDEX_COLUMN_TIME,
					BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
					TimestampTzGetDatum(state->now));
	}
	else
	{
		/* (enqueued_at, id) >= from; its members name comparison functions */
		ScanKeyEntryInitialize(&row_key[0], SK_ROW_MEMBER, INDEX_COLUMN_TIME,
							   BTGreaterEqualStrategyNumber, InvalidOid,
							   InvalidOid, F_TIMESTAMPTZ_CMP,
							   TimestampTzGetDatum(from->time));
		ScanKeyEntryInitialize(&row_key[1], SK_ROW_MEMBER | SK_ROW_END,
							   INDEX_COLUMN_ID, BTGreaterEqualStrategyNumber,
							   InvalidOid, InvalidOid, F_UUID_CMP,
							   PointerGetDatum(from->tie));
		memset(&key[count], 0, sizeof(ScanKeyData));
		key[count].sk_flags = SK_ROW_HEADER;
		key[count].sk_attno = INDEX_COLUMN_TIME;
		key[count].sk_strategy = BTGreaterEqualStrategyNumber;
		key[count].sk_argument = PointerGetDatum(row_key);
		count++;
	}
	index_rescan(state->order_scan[order].scan, key, count, NULL, 0);
}

/* The entry's place in the order, and whether it is known to be expired. */
static void
read_entry(const ClaimState *state, Order order, IndexScanDesc scan,
		   Position *position, bool *expired)
{
	Datum value;
	bool isnull;

	value = index_getattr(scan->xs_itup, INDEX_COLUMN_TIME, scan->xs_itupdesc,
						  &isnull);
	position->time = DatumGetTimestampTz(value);
	if (order == ORDER_ELAPSED)
	{
		uint32 block = ItemPointerGetBlockNumber(&scan->xs_heaptid);
		uint16 offset = ItemPointerGetOffsetNumber(&scan->xs_heaptid);

		block = pg_hton32(block);
		offset = pg_hton16(offset);
		memset(position->tie, 0, UUID_LEN);
		memcpy(position->tie, &block, sizeof(block));
		memcpy(position->tie + sizeof(block), &offset, sizeof(offset));
		*expired = false;
		return;
	}
	value = index_getattr(scan->xs_itup, INDEX_COLUMN_ID, scan->xs_itupdesc,
						  &isnull);
	memcpy(position->tie, DatumGetUUIDP(value)->data, UUID_LEN);
	value = index_getattr(scan->xs_itup, INDEX_COLUMN_EXPIRES_AT,
						  scan->xs_itupdesc, &isnull);
	*expired = DatumGetTimestampTz(value) <= state->now;
}

/*
 * Looks at [from, until) of one order, or at all from `from` on if `until` is
 * NULL.  The watermark becomes the position up to which all was finished, the
 * start that up to which all was dealt with.  The answer is how many entries
 * were met in vain.
 */
static int64
look_between(ClaimState *state, Priority priority, Order order,
			 const Position *from, const Position *until, Marks *marks)
{
	IndexScanDesc scan = state->order_scan[order].scan;
	TimestampTz limit = qs_watermark_limit(state->now);
	bool finished = true; /* all so far */
	ScanKeyData row_key[2];
	int64 vain = 0;
	Position left;
	int64 since_left = 0;

	start_scan(state, priority, order, from, row_key);
	while (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		Position position;
		bool expired;
		Verdict verdict;

		CHECK_FOR_INTERRUPTS();
		read_entry(state, order, scan, &position, &expired);
		if (until != NULL && qs_position_compare(&position, until) >= 0)
			break;

		/* The scan starts with all rows of that instant. */
		if (qs_position_compare(&position, from) < 0)
		{
			vain++;
			continue;
		}

		verdict = expired ? VERDICT_FINISHED :
							look_at_row(state, priority, order, &position);
		if (verdict == VERDICT_STOP)
			break;
		if (verdict == VERDICT_LEFT && since_left == 0)
		{
			left = position;
			since_left = 1;
		}
		else if (since_left > 0)
			since_left++;
		if (verdict != VERDICT_TAKEN)
			vain++;

		if (verdict != VERDICT_FINISHED || position.time > limit)
			finished = false;
		if (finished)
			marks->watermark = position;

		/*
		 * An old snapshot does not see what others have enqueued since: that
		 * must not be passed for the transactions to come.
		 */
		if (verdict != VERDICT_HELD || !IsolationUsesXactSnapshot())
			marks->start = position;
		if (satisfied(state, order))
			break;
	}

	/* A few exhausted rows are worth meeting again, many are not. */
	if (since_left > 0 && since_left <= LEFT_BEHIND_MAX)
		marks->start = left;
	return vain;
}

/* What is to be done with the row of the entry that the scan is at. */
static Verdict
look_at_row(ClaimState *state, Priority priority, Order order,
			const Position *position)
{
	IndexScanDesc scan = state->order_scan[order].scan;

	/* A row that this transaction deleted is invisible to it at once. */
	if (!index_fetch_heap(scan, state->slot))
		return VERDICT_FINISHED;
	if (!table_tuple_satisfies_snapshot(state->message, state->slot,
										state->snapshot))
		return VERDICT_HELD;
	return consider(state, priority, order, position);
}

/* What is to be done with the row in the slot; does it, too. */
static Verdict
consider(ClaimState *state, Priority priority, Order order,
		 const Position *position)
{
	TupleTableSlot *slot = state->slot;
	Claim *claim = state->claim;
	ItemPointerData tid = slot->tts_tid;
	pg_uuid_t id;
	Candidate *candidate;
	Datum value;
	bool isnull;

	value = slot_getattr(slot, state->catalog.message_column.id, &isnull);
	id = *DatumGetUUIDP(value);

	if (order == ORDER_ELAPSED)
	{
		value = slot_getattr(slot, state->catalog.message_column.expires_at,
							 &isnull);
		if (DatumGetTimestampTz(value) <= state->now)
			return VERDICT_FINISHED; /* left for expire_messages() */

		value = slot_getattr(slot,
							 state->catalog.message_column.delivery_attempts,
							 &isnull);
		if (DatumGetInt32(value) >= state->queue->max_delivery_attempts)
		{
			if (claim->exhausted_count >= CLAIM_MAX_EXHAUSTED)
				return VERDICT_LEFT;
			if (!lock_row(state, &tid))
				return VERDICT_HELD;
			claim->exhausted[claim->exhausted_count++] = id;
			return VERDICT_TAKEN;
		}
		if (claim->count >= state->wanted)
			return VERDICT_STOP;
	}

	if (!lock_row(state, &tid))
		return VERDICT_HELD;
	if (claim->count >= state->allocated)
	{
		state->allocated = Min(state->wanted, state->allocated * 2);
		claim->candidate = repalloc(claim->candidate,
									state->allocated * sizeof(Candidate));
	}
	candidate = &claim->candidate[claim->count++];
	candidate->tid = tid;
	candidate->priority = priority;
	candidate->order = order;
	candidate->position = *position;
	candidate->id = id;
	return VERDICT_TAKEN;
}

/*
 * Locks this very version of the row, as the UPDATE of columns outside the
 * primary key would.  False if another session has it or has changed it.
 * Without following updates there is nothing to check again after the lock:
 * the version is the one that was read.
 */
static bool
lock_row(ClaimState *state, ItemPointer tid)
{
	ItemPointerData target = *tid;
	TM_FailureData failure;
	TM_Result result;

	result = table_tuple_lock(state->message, &target, state->snapshot,
							  state->locked_slot, GetCurrentCommandId(false),
							  LockTupleNoKeyExclusive, LockWaitSkip, 0,
							  &failure);
	ExecClearTuple(state->locked_slot);
	return result == TM_Ok;
}

/* The order of delivery. */
static int
compare_candidates(const void *a, const void *b)
{
	const Candidate *left = a;
	const Candidate *right = b;

	if (left->priority != right->priority)
		return left->priority > right->priority ? -1 : 1;
	if (left->order != right->order)
		return left->order < right->order ? -1 : 1;
	return qs_position_compare(&left->position, &right->position);
}

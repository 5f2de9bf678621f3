/*-------------------------------------------------------------------------
 *
 * position.h
 *	  Where in the delivery order a backend last found work.
 *
 * Dead row versions pile up at the head of each order for as long as any
 * snapshot can see them, expired and held rows stand there too.  A look that
 * starts where the last one ended passes none of them again.  What it would
 * miss (a late commit, a lease that another session rolls back) is found by
 * looking back, which is due once a second and whenever a look finds too
 * little.
 *
 * Looking back goes no further than a watermark.  All that a look met in front
 * of it was finished for good: dead for every snapshot to come, or expired.  A
 * row that is held, or not committed yet, keeps the watermark in front of
 * itself; so looking back costs what a second of traffic and the longest open
 * transaction cost, however many dead rows pile up.  Only a row that was put
 * in behind the watermark escapes it: a plain INSERT or UPDATE with an old
 * time.  For these the beginning is looked at, too, once a second as long as
 * that is cheap.
 *
 * Either look is put off in proportion to what it cost the last time.
 *
 * This is memory of one backend: no locks, and losing it costs one look.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_POSITION_H
#define QS_POSITION_H

#include "postgres.h"

#include "counter.h"
#include "datatype/timestamp.h"
#include "utils/uuid.h"

/* The two orders of a queue and priority that are scanned for candidates. */
typedef enum Order
{
	ORDER_ELAPSED, /* by available_after */
	ORDER_READY	   /* by enqueued_at, id */
} Order;

#define ORDER_COUNT (ORDER_READY + 1)

/*
 * A place in an order.  Many rows can elapse at the same instant: a batch that
 * was leased or delayed together.  Among these the index has the order of
 * their addresses, so for ORDER_ELAPSED the tie is broken by the address,
 * most significant byte first and padded with zeroes.
 */
typedef struct Position
{
	TimestampTz time;
	uint8 tie[UUID_LEN]; /* the id, or the address */
} Position;

typedef struct Marks
{
	Position watermark; /* what was in front of it is finished for good */
	Position start;		/* where the next look begins, not before that */
} Marks;

/* From where to look back. */
typedef enum LookBack
{
	FROM_WATERMARK,
	FROM_BEGINNING
} LookBack;

#define LOOK_BACK_COUNT (FROM_BEGINNING + 1)

typedef struct LookTimes
{
	TimestampTz looked_at;	   /* time of the last look */
	TimestampTz put_off_until; /* none before this because it found little */
	TimestampTz due_at;		   /* one at this time in any case */
} LookTimes;

/* What is remembered of one order of one queue and priority. */
typedef struct Trail
{
	Marks marks;
	Marks settled;	 /* the same, before this transaction moved them */
	uint64 moved_in; /* the transaction that moved them last */
	LookTimes look_times[LOOK_BACK_COUNT];
} Trail;

extern const Position qs_beginning;

extern int qs_position_compare(const Position *a, const Position *b);

/* The trail, new ones at the beginning. */
extern Trail *qs_trail(Oid message_table, int32 queue_id, Priority priority,
					   Order order);

/*
 * The last entry that may be in front of the watermark.  The time of an entry
 * is read from the clock before the entry is written, and so long a writer may
 * have been held up in between.
 */
extern TimestampTz qs_watermark_limit(TimestampTz now);

/* Is looking back due, though the last look found enough? */
extern bool qs_look_back_due(const Trail *trail, LookBack back,
							 TimestampTz now);

/* May it be done because there was too little? */
extern bool qs_look_back_allowed(const Trail *trail, LookBack back,
								 TimestampTz now);

/* It was done, and `entries` were met in vain. */
extern void qs_look_back_done(Trail *trail, LookBack back, TimestampTz now,
							  int64 entries);

/* The marks are these from now on, unless the transaction rolls back. */
extern void qs_trail_move(Trail *trail, const Marks *marks);

#endif /* QS_POSITION_H */

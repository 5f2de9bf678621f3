/*-------------------------------------------------------------------------
 *
 * position.h
 *	  Where in the delivery order a backend last found work.
 *
 * Dead row versions pile up at the head of each order for as long as any
 * snapshot can see them, expired and locked rows stand there too.  A look
 * that starts where the last one ended passes none of them again.  What it
 * would miss (a late commit, a lease rolled back by another session) is found
 * by a look from the beginning, which is due at least once a second and
 * whenever a look finds too little.  Only when such a look has become
 * expensive is it put off, in proportion to its cost.
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

/* What is remembered of one order of one queue and priority. */
typedef struct Trail
{
	Position start;			   /* where the next look begins */
	Position settled;		   /* the same, before this transaction moved it */
	uint64 moved_in;		   /* the transaction that moved it last */
	TimestampTz looked_at;	   /* time of the last look from the beginning */
	TimestampTz put_off_until; /* none before this because it found little */
	TimestampTz due_at;		   /* one at this time in any case */
} Trail;

extern const Position qs_beginning;

extern int qs_position_compare(const Position *a, const Position *b);

/* The trail, new ones at the beginning. */
extern Trail *qs_trail(Oid message_table, int32 queue_id, Priority priority,
					   Order order);

/* Is a look from the beginning due, though the last look found enough? */
extern bool qs_full_look_due(const Trail *trail, TimestampTz now);

/* May the beginning be looked at because there was too little? */
extern bool qs_full_look_allowed(const Trail *trail, TimestampTz now);

/* The beginning was looked at, and `entries` were in vain. */
extern void qs_full_look_done(Trail *trail, TimestampTz now, int64 entries);

/* The next look starts here, unless the transaction rolls back. */
extern void qs_trail_move(Trail *trail, const Position *start);

#endif /* QS_POSITION_H */

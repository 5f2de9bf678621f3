/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The state of every queue at one instant.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_STATE_H
#define QS_STATE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

#include "counter.h"

/* One queue and priority. */
typedef struct CellState
{
	Counters physical; /* the rollup: stored states and event totals */

	/* What time has made of the stored states. */
	int64 ready;
	int64 in_flight;
	int64 delayed;
	int64 exhausted;
	int64 expired_backlog;
	int64 elapsed_backlog;

	/* DT_NOEND where there is no such message. */
	TimestampTz oldest_ready; /* enqueued_at */
	TimestampTz oldest_in_flight;
} CellState;

typedef struct QueueState
{
	int32 queue_id;
	char *name;
	int32 max_delivery_attempts;
	CellState cell[PRIORITY_COUNT];
} QueueState;

typedef struct AllState
{
	QueueState *queue; /* by queue_id */
	int queue_count;
	TimestampTz now; /* the instant it is true for */
} AllState;

/* How much of it is wanted; each includes the ones before. */
typedef enum StateDepth
{
	DEPTH_PHYSICAL, /* the sums: no message row is read */
	DEPTH_LOGICAL,	/* corrected for time */
	DEPTH_OLDEST	/* and the oldest messages */
} StateDepth;

/* NULL if there is none of that id. */
extern QueueState *qs_find_queue(AllState *state, int32 queue_id);

/*
 * Reads everything in one MVCC snapshot into the current memory context.
 *
 * Costs queues x priorities x shards, one index entry per expired READY row
 * and per elapsed row, and two index seeks per priority that has messages.
 *
 * Errors: 23514 if a count corrected for time is negative, which is drift.
 */
extern AllState *qs_read_state(Snapshot snapshot, StateDepth depth);

#endif /* QS_STATE_H */

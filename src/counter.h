/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  The counters a shard row holds, and the key that finds one.
 *
 * The order of Counter is the column order of queue_priority_state_shard and
 * queue_priority_state_pending.  The first four say what is in the message
 * tables now and never go below zero; the rest count events and only grow.
 *
 * Pure: no server, no catalogs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_COUNTER_H
#define QS_COUNTER_H

#include <stdint.h>

typedef enum Counter
{
	COUNTER_READY,
	COUNTER_IN_FLIGHT,
	COUNTER_DELAYED,
	COUNTER_DEAD_LETTER,
	COUNTER_ENQUEUED,
	COUNTER_DELIVERED,
	COUNTER_ACKNOWLEDGED,
	COUNTER_EXPIRED_NEVER_DELIVERED,
	COUNTER_EXPIRED_PREVIOUSLY_DELIVERED,
	COUNTER_DEAD_LETTERED,
	COUNTER_DEAD_LETTER_PURGED,
	COUNTER_DEAD_LETTER_REDRIVEN
} Counter;

#define COUNTER_COUNT (COUNTER_DEAD_LETTER_REDRIVEN + 1)
#define STATE_COUNTER_COUNT (COUNTER_DEAD_LETTER + 1)

/* In the order of the message_priority enum. */
typedef enum Priority
{
	PRIORITY_LOW,
	PRIORITY_MEDIUM,
	PRIORITY_HIGH
} Priority;

#define PRIORITY_COUNT (PRIORITY_HIGH + 1)

/* Which shard row a change belongs to. */
typedef struct ShardKey
{
	int32_t queue_id;
	int16_t priority; /* a Priority */
	int16_t shard;	  /* 0 .. QS_SHARD_COUNT - 1 */
} ShardKey;

typedef struct Counters
{
	int64_t value[COUNTER_COUNT];
} Counters;

#endif /* QS_COUNTER_H */

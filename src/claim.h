/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Which messages a dequeue() gets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_CLAIM_H
#define QS_CLAIM_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/relcache.h"

#include "position.h"
#include "queue_details.h"

/* How many exhausted messages one dequeue() makes dead letters of. */
#define CLAIM_MAX_EXHAUSTED 8

/* A message that is locked and may be leased. */
typedef struct Candidate
{
	ItemPointerData tid;
	Priority priority;
	Order order;
	Position position;
	pg_uuid_t id;
} Candidate;

typedef struct Claim
{
	int count;
	Candidate *candidate; /* in the order of delivery */
	int exhausted_count;
	pg_uuid_t exhausted[CLAIM_MAX_EXHAUSTED]; /* locked, too */
} Claim;

/*
 * Picks and locks up to `wanted` messages of the queue.  `message` is
 * queue_message, opened with RowExclusiveLock.
 */
extern void qs_claim(Relation message, const QueueDetails *queue,
					 TimestampTz now, int wanted, Claim *claim);

#endif /* QS_CLAIM_H */

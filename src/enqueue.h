/*-------------------------------------------------------------------------
 *
 * enqueue.h
 *	  What all ways of enqueueing check and derive alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_ENQUEUE_H
#define QS_ENQUEUE_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"

#include "catalog.h"
#include "queue_details.h"

/* What messages enqueued by one call have in common. */
typedef struct Schedule
{
	MessageState state; /* READY or DELAYED */
	TimestampTz enqueued_at;
	TimestampTz expires_at;
	TimestampTz available_after;
} Schedule;

/*
 * Null intervals stand for the queue's default and for no delay.
 *
 * Errors: 22023 for a time to live or a delay out of range, and for a delay
 * that outlasts the time to live.
 */
extern void qs_schedule(const QueueDetails *queue, const Interval *ttl,
						const Interval *delay, Schedule *schedule);

/* Error 22023 unless the headers are a JSON object. */
extern void qs_check_headers(Jsonb *headers);

/* The OID of a message_state. */
extern Datum qs_state_datum(MessageState state);

#endif /* QS_ENQUEUE_H */

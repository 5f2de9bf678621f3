/*-------------------------------------------------------------------------
 *
 * queue_details.h
 *	  What the functions on messages need to know of a queue, by its name,
 *	  without reading the table each time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_QUEUE_DETAILS_H
#define QS_QUEUE_DETAILS_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct QueueDetails
{
	int32 queue_id;
	Interval visibility_timeout;
	int32 max_delivery_attempts;
	Interval default_ttl;
	Interval retry_delay;
	Interval max_retry_delay;
	bool paused;
} QueueDetails;

/*
 * The queue's details as last committed, or as changed by this transaction.
 *
 * Errors: 42704 if there is no such queue, with the nearest name as a hint.
 */
extern void qs_queue_details(const text *name, QueueDetails *details);

/* For the function argument that names a queue; 22004 if it is null. */
#define QS_GETARG_QUEUE(n, details)                        \
	do                                                     \
	{                                                      \
		if (PG_ARGISNULL(n))                               \
			qs_null_argument("queue");                     \
		qs_queue_details(PG_GETARG_TEXT_PP(n), (details)); \
	} while (0)

/* Error 22004: the named argument must not be null. */
extern _Noreturn void qs_null_argument(const char *name);

#endif /* QS_QUEUE_DETAILS_H */

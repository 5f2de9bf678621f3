/*-------------------------------------------------------------------------
 *
 * queue_reference.h
 *	  The reference from messages to their queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_QUEUE_REFERENCE_H
#define QS_QUEUE_REFERENCE_H

#include "postgres.h"

/*
 * Keeps the queue from being deleted until this transaction ends, waiting if
 * it is just being deleted.
 *
 * Errors: 23503 if it does not exist.
 */
extern void qs_reference_queue(int32 queue_id);

#endif							/* QS_QUEUE_REFERENCE_H */

/*-------------------------------------------------------------------------
 *
 * queue_reference.h
 *	  The reference from messages and dead letters to their queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_QUEUE_REFERENCE_H
#define QS_QUEUE_REFERENCE_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * For a row of `referencing`: keeps the queue from being deleted until this transaction ends, waiting if
 * it is just being deleted.
 *
 * Errors: 23503 if it does not exist, unless the database is just being
 * restored.
 */
extern void qs_reference_queue(Relation referencing, int32 queue_id);

#endif							/* QS_QUEUE_REFERENCE_H */

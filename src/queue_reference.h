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

/*
 * The same without waiting and without a look at the queue: false if it is
 * just being deleted.
 */
extern bool qs_try_reference_queue(int32 queue_id);

/* Whether this transaction has deleted the queue. */
extern bool qs_deleted_queue(int32 queue_id);

/*
 * Whether the queue is in the table, committed or not.  True also while no
 * queue has ever been: a restore may load messages first.
 */
extern bool qs_queue_may_exist(int32 queue_id);

/* To be called when a transaction ends. */
extern void qs_reference_end_transaction(void);

#endif /* QS_QUEUE_REFERENCE_H */

/*-------------------------------------------------------------------------
 *
 * transaction.h
 *	  Counter changes of the current transaction, from the statement that
 *	  makes them to the commit that applies them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_TRANSACTION_H
#define QS_TRANSACTION_H

#include "postgres.h"

#include "counter.h"
#include "delta.h"

/*
 * Adds `amount` to one counter of one shard for this (sub)transaction.  It
 * becomes part of the rollup at commit and is dropped by a rollback.
 */
extern void qs_count(Counter counter, int32 queue_id, Priority priority,
					 int shard, int64 amount);

/*
 * A queue, or all of them, was deleted with its counters: what this
 * transaction changed before is not meant for a queue that is made later
 * under the same number.
 */
extern void qs_forget_queue(int32 queue_id);
extern void qs_forget_all_queues(void);

/* This transaction's changes that are not in the rollup yet, or NULL. */
extern const DeltaStack *qs_unapplied_deltas(void);

/* A snapshot of this command sees the messages behind all these changes. */
extern CommandId qs_command_after_changes(void);

/*
 * To be called after the last qs_count() of a trigger or function: applies
 * the changes right away if this transaction has already applied the rest
 * (a write from another extension's PRE_COMMIT callback), else does nothing.
 */
extern void qs_count_done(void);

/* Registers the transaction callbacks; from _PG_init(). */
extern void qs_transaction_init(void);

#endif /* QS_TRANSACTION_H */

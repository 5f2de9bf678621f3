/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Which leases are held, and by which rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_LEASE_H
#define QS_LEASE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/lockoptions.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

/* One lease, as its holder names it. */
typedef struct Lease
{
	pg_uuid_t id;
	pg_uuid_t receipt_handle;
} Lease;

/*
 * Locks the messages whose lease is held now, as committed by anybody, at
 * every isolation level.  Waits for a session that is changing such a row, in
 * the order in which the leases are given.  `message` is queue_message,
 * opened with RowExclusiveLock.
 *
 * The answer is how many are held; their rows are tids[0 .. answer - 1].
 */
extern int qs_lock_leases(Relation message, const Lease *leases, int count,
						  TimestampTz now, LockTupleMode mode,
						  ItemPointerData *tids);

#endif /* QS_LEASE_H */

/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Is a lease held?  For the isolation levels in which SQL cannot tell.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_LEASE_H
#define QS_LEASE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/lockoptions.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

/*
 * Locks the message if the lease that the receipt handle names is held now,
 * as committed by anybody, whatever the transaction's snapshot sees.  Waits
 * for a session that is changing the row.  `message` is queue_message, opened
 * with RowExclusiveLock.
 */
extern bool qs_lock_lease(Relation message, const pg_uuid_t *id,
						  const pg_uuid_t *receipt_handle, TimestampTz now,
						  LockTupleMode mode);

#endif							/* QS_LEASE_H */

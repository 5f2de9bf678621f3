/*-------------------------------------------------------------------------
 *
 * identifier.h
 *	  Ids of new messages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_IDENTIFIER_H
#define QS_IDENTIFIER_H

#include "postgres.h"

#include "utils/uuid.h"

/* Fills `ids` with `count` new ids in increasing order. */
extern void qs_new_ids(pg_uuid_t *ids, int count);

#endif /* QS_IDENTIFIER_H */

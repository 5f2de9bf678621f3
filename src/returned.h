/*-------------------------------------------------------------------------
 *
 * returned.h
 *	  Counts the events of the rows that a statement returned.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_RETURNED_H
#define QS_RETURNED_H

#include "postgres.h"

#include "counter.h"

/*
 * Counts one event for each row that the statement just run through SPI
 * returned.  Its first three columns must be id, queue_id and priority: as
 * stored, which a user's trigger may have made other than what was given.
 */
extern void qs_count_events(Counter counter);

#endif /* QS_RETURNED_H */

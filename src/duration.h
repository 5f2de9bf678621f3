/*-------------------------------------------------------------------------
 *
 * duration.h
 *	  Intervals given by users: checked against their bounds, added to a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_DURATION_H
#define QS_DURATION_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * Errors (22023) unless the interval is within the bounds that the table
 * constraints of a queue also have.  `what` names it in the message.
 */
extern void qs_check_visibility_timeout(const Interval *interval);
extern void qs_check_ttl(const Interval *interval);

/* Errors (22023) if the interval is negative; true if it is above zero. */
extern bool qs_check_delay(const Interval *interval);

/* time + interval, as the + operator of SQL has it. */
extern TimestampTz qs_time_after(TimestampTz time, const Interval *interval);

#endif /* QS_DURATION_H */

/*
 * sqlstate.h
 *	  What an error of the server means for the collector.
 *
 * Pure: knows neither libpq nor a session.
 */
#ifndef RETSU_SQLSTATE_H
#define RETSU_SQLSTATE_H

#include <stddef.h>

#include "status.h"

/* The reason that is exported for an SQLSTATE; "" is a lost connection. */
extern FailureReason sqlstate_reason(const char *sqlstate);

/*
 * Takes the SQLSTATE out of the verbose message of a refused connect, and what
 * follows the message proper with it.  `sqlstate` has room for 6 bytes and is
 * "" when there is none.
 */
extern void sqlstate_extract(char *message, char *sqlstate);

/* Copies a message of several lines as one. */
extern void sqlstate_one_line(char *target, size_t size, const char *text);

#endif /* RETSU_SQLSTATE_H */

/*
 * connector.h
 *	  A connect that ends on time, whatever it is that hangs.
 *
 * Private to database.c; the second of the two files that know libpq.
 */
#ifndef RETSU_CONNECTOR_H
#define RETSU_CONNECTOR_H

#include <libpq-fe.h>

#include "worker.h"

struct connector;

enum connector_outcome
{
	CONNECTOR_DONE,	   /* *conn is the caller's, good or bad */
	CONNECTOR_LATE,	   /* the deadline passed */
	CONNECTOR_STUCK,   /* an earlier attempt still hangs */
	CONNECTOR_STOPPED, /* the process is to end */
	CONNECTOR_FAILED   /* no thread, memory or descriptor */
};

/*
 * Connects with these libpq parameters, which are copied.  *slot remembers an
 * attempt that was given up; it starts as NULL and is passed again each time.
 */
extern enum connector_outcome connector_run(struct connector **slot,
											const char *const *keywords,
											const char *const *values,
											PQnoticeReceiver notice,
											struct worker *worker,
											int64_t deadline_ms, PGconn **conn);

/* Lets go of an attempt that was given up, if there is one. */
extern void connector_abandon(struct connector **slot);

#endif /* RETSU_CONNECTOR_H */

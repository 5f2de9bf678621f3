/*
 * maintenance.h
 *	  The maintenance thread: cleans up and verifies while this replica leads.
 *
 * A worker's run function with a session of its own, so that neither a long
 * clean-up nor a long verify() delays a refresh.
 */
#ifndef RETSU_MAINTENANCE_H
#define RETSU_MAINTENANCE_H

#include <stdint.h>

#include "options.h"
#include "worker.h"

struct maintenance_context
{
	const struct options *options;
	const char *instance;
};

/* `context` is a struct maintenance_context that outlives the worker. */
extern void maintenance_run(struct worker *worker, void *context);

/* Rows of the last verify(); -1 while none has succeeded.  Any thread. */
extern int64_t maintenance_drift(void);

#endif /* RETSU_MAINTENANCE_H */

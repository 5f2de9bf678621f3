/*
 * collect.h
 *	  The collecting loop: elects, reads, publishes.
 *
 * A worker's run function.  Its session holds the lease and does the reading,
 * and is used for nothing else.
 */
#ifndef RETSU_COLLECT_H
#define RETSU_COLLECT_H

#include <stdint.h>

#include "options.h"
#include "worker.h"

struct collect_context
{
	const struct options *options;
	const char *instance;

	/* Asks main to end the process with this exit code; any thread. */
	void (*end_process)(int exit_code);
};

/* `context` is a struct collect_context that outlives the worker. */
extern void collect_run(struct worker *worker, void *context);

#endif /* RETSU_COLLECT_H */

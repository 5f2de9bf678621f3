/*
 * metrics.h
 *		The series that are rendered for each request: the collector itself, this
 *		process, and the snapshot as a whole.  The queue series are in body.h.
 *
 * Pure but for process_usage(): what it needs of the clock and of the build is
 * handed in, so that tests can compare the result byte by byte.
 */
#ifndef RETSU_METRICS_H
#define RETSU_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"
#include "snapshot.h"
#include "text.h"

typedef struct MetricsContext
{
	int64_t now_ns; /* CLOCK_BOOTTIME */
	const char *version;
	const ProcessUsage *process;
} MetricsContext;

/*
 * Append all of them.  snapshot is NULL on a standby, which then exports nothing
 * that only a leader does.
 */
extern void metrics_render(Text *text, TextFormat format,
						   const MetricsContext *context,
						   const Snapshot *snapshot);

/* Whether a handler can answer with a code; only these pairs are exported. */
extern bool metrics_request_possible(int handler, int code);

#endif /* RETSU_METRICS_H */

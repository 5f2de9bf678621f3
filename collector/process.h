/*
 * process.h
 *		This process as the kernel sees it, for the process_* series.
 */
#ifndef RETSU_PROCESS_H
#define RETSU_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ProcessUsage
{
	int64_t cpu_ns;			/* user and system */
	int64_t start_time_ns;	/* since the epoch; 0 if unknown */
	int64_t resident_bytes; /* -1 if unknown, as all below */
	int64_t virtual_bytes;
	int64_t virtual_limit; /* -1 also for unlimited */
	int64_t open_fds;
	int64_t max_fds;
	int64_t threads;
} ProcessUsage;

/*
 * Called for every scrape, from any thread: a few system calls, no allocation
 * that lasts, no lock.
 */
extern void process_usage(ProcessUsage *usage);

#endif /* RETSU_PROCESS_H */

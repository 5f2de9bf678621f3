/*
 * clock.h
 *	  The collector's only clock for deadlines: the boot clock, in milliseconds.
 *
 * CLOCK_BOOTTIME goes on while the machine is suspended and is not moved by
 * a clock step.  A lease measured by CLOCK_MONOTONIC would stand still while
 * a virtual machine is paused, and its holder would wake up still believing
 * in it.  poll(2) sleeps on the monotonic clock, so every wait is cut into
 * slices (worker.h) and the deadline is looked at again after each.
 */
#ifndef RETSU_CLOCK_H
#define RETSU_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A point of the boot clock, or a span of it; the unit is in every name. */
static inline int64_t
clock_ms(void)
{
	struct timespec ts;

	/* Cannot fail for a clock the kernel has; 0 would only mean "long ago". */
	if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0)
		return 0;
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The same in seconds with a fraction, for durations that are exported. */
static inline double
clock_seconds(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0)
		return 0;
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

#endif /* RETSU_CLOCK_H */

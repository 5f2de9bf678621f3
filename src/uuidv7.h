/*-------------------------------------------------------------------------
 *
 * uuidv7.h
 *	  Time-ordered UUIDs (RFC 9562, version 7).
 *
 * 48 bits of Unix milliseconds, then a 12-bit fraction of the millisecond in
 * rand_a (method 3 of the RFC), then 62 random bits.  Two values made with
 * one UuidClock always increase, also while the system clock stands still or
 * steps back: the time part then runs ahead of it in steps of 244 ns.
 *
 * Pure: no server, no clock and no random source of its own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_UUIDV7_H
#define QS_UUIDV7_H

#include <stdint.h>

#define UUIDV7_LENGTH 16
#define UUIDV7_RANDOM_BYTES 8

/* The time part of the value made last: milliseconds << 12 | fraction. */
typedef struct UuidClock
{
	uint64_t last;
} UuidClock;

/*
 * `milliseconds` since 1970 and `nanoseconds` (0 .. 999999) within that
 * millisecond are the time now; `random` must come from a strong source.
 */
extern void qs_uuidv7(UuidClock *clock, uint64_t milliseconds,
					  uint32_t nanoseconds,
					  const uint8_t random[UUIDV7_RANDOM_BYTES],
					  uint8_t uuid[UUIDV7_LENGTH]);

#endif /* QS_UUIDV7_H */

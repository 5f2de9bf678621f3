/*
 * backoff.h
 *	  How long to wait before the next attempt: growing, capped, jittered.
 *
 * Pure: randomness is handed in, so that a test sees every value.  Without
 * jitter all collectors would come back at a restarted server together.
 */
#ifndef RETSU_BACKOFF_H
#define RETSU_BACKOFF_H

#include <stdint.h>

struct backoff
{
	int64_t first_ms;
	int64_t cap_ms;
	int64_t next_ms; /* before jitter */
};

extern void backoff_init(struct backoff *backoff, int64_t first_ms,
						 int64_t cap_ms);
extern void backoff_reset(struct backoff *backoff);

/* The wait before the next attempt; the one after is twice as long. */
extern int64_t backoff_next(struct backoff *backoff, uint32_t random);

/* `ms` moved by at most `percent` either way, evenly over `random`. */
extern int64_t backoff_jitter(int64_t ms, int percent, uint32_t random);

#endif /* RETSU_BACKOFF_H */

/*
 * backoff.c
 *	  How long to wait before the next attempt: growing, capped, jittered.
 */
#include "backoff.h"

/* Enough to spread a herd, small enough that "every 5 s" stays true. */
#define JITTER_PERCENT 20

void
backoff_init(struct backoff *backoff, int64_t first_ms, int64_t cap_ms)
{
	backoff->first_ms = first_ms;
	backoff->cap_ms = cap_ms < first_ms ? first_ms : cap_ms;
	backoff->next_ms = first_ms;
}

void
backoff_reset(struct backoff *backoff)
{
	backoff->next_ms = backoff->first_ms;
}

int64_t
backoff_next(struct backoff *backoff, uint32_t random)
{
	int64_t wait = backoff->next_ms;

	if (backoff->next_ms >= backoff->cap_ms / 2)
		backoff->next_ms = backoff->cap_ms;
	else
		backoff->next_ms *= 2;
	return backoff_jitter(wait, JITTER_PERCENT, random);
}

int64_t
backoff_jitter(int64_t ms, int percent, uint32_t random)
{
	int64_t spread = ms * percent / 100;

	/* 0 maps to -spread and UINT32_MAX to +spread. */
	return ms - spread +
		   (int64_t) ((double) random / UINT32_MAX * (double) (2 * spread) + 0.5);
}

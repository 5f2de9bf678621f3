/*
 * backoff_test.c
 *	  The waits grow, are capped, and stay within their jitter.
 */
#include "tap.h"

#include "backoff.h"

#define MIDDLE (UINT32_MAX / 2)

int
main(void)
{
	static const int64_t expected[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
	struct backoff backoff;
	int64_t low = INT64_MAX;
	int64_t high = 0;

	backoff_init(&backoff, 1000, 30000);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		is_int(backoff_next(&backoff, MIDDLE), expected[i], "the next wait");
	backoff_reset(&backoff);
	is_int(backoff_next(&backoff, MIDDLE), 1000, "after a reset it begins again");

	backoff_init(&backoff, 100, 50);
	is_int(backoff_next(&backoff, MIDDLE), 100, "a cap below the first wait is raised");
	is_int(backoff_next(&backoff, MIDDLE), 100, "and is the cap");

	is_int(backoff_jitter(5000, 20, 0), 4000, "the least of 20 %");
	is_int(backoff_jitter(5000, 20, UINT32_MAX), 6000, "the most of 20 %");
	is_int(backoff_jitter(5000, 0, UINT32_MAX), 5000, "no jitter");
	for (uint32_t i = 0; i < 10000; i++)
	{
		int64_t wait = backoff_jitter(5000, 20, i * 429496u);

		low = wait < low ? wait : low;
		high = wait > high ? wait : high;
	}
	ok(low >= 4000 && low < 4010 && high > 5990 && high <= 6000,
	   "evenly spread randomness gives all of the range");
	return tap_done();
}

/*-------------------------------------------------------------------------
 *
 * uuidv7_test.c
 *	  Ids increase whatever the clock does, and are UUIDs of version 7.
 *
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "uuidv7.h"
#include "../../collector/test/tap.h"

/* 2026-01-02 03:04:05.678 */
#define SOME_TIME UINT64_C(1767323045678)

static uint64_t
milliseconds_of(const uint8_t *uuid)
{
	uint64_t value = 0;

	for (int i = 0; i < 6; i++)
		value = value << 8 | uuid[i];
	return value;
}

static unsigned
fraction_of(const uint8_t *uuid)
{
	return (uuid[6] & 0x0f) << 8 | uuid[7];
}

static void
test_layout(void)
{
	const uint8_t zeroes[UUIDV7_RANDOM_BYTES] = { 0 };
	const uint8_t ones[UUIDV7_RANDOM_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	UuidClock clock = { 0 };
	uint8_t low[UUIDV7_LENGTH];
	uint8_t high[UUIDV7_LENGTH];

	qs_uuidv7(&clock, SOME_TIME, 0, zeroes, low);
	qs_uuidv7(&clock, SOME_TIME, 500000, ones, high);

	ok(milliseconds_of(low) == SOME_TIME, "48 bits of milliseconds");
	ok(low[6] >> 4 == 7 && high[6] >> 4 == 7, "version 7");
	ok(low[8] >> 6 == 2 && high[8] >> 6 == 2, "variant 10");
	ok(fraction_of(low) == 0, "the start of a millisecond");
	ok(fraction_of(high) == 2048, "half a millisecond is half of rand_a");
	ok(memcmp(high + 9, ones + 1, UUIDV7_RANDOM_BYTES - 1) == 0 &&
		   (high[8] & 0x3f) == 0x3f && (low[8] & 0x3f) == 0,
	   "all other bits are the random ones");
}

static void
test_last_nanosecond(void)
{
	const uint8_t random[UUIDV7_RANDOM_BYTES] = { 0 };
	UuidClock clock = { 0 };
	uint8_t uuid[UUIDV7_LENGTH];

	qs_uuidv7(&clock, SOME_TIME, 999999, random, uuid);
	ok(milliseconds_of(uuid) == SOME_TIME && fraction_of(uuid) == 4095,
	   "the last nanosecond stays in its millisecond");
	qs_uuidv7(&clock, SOME_TIME, 999999, random, uuid);
	ok(milliseconds_of(uuid) == SOME_TIME + 1 && fraction_of(uuid) == 0,
	   "a full fraction carries into the milliseconds");
}

/* Ids at a clock that is moved by `step` nanoseconds each time. */
static bool
increases(int64_t step, int count)
{
	/* random bits that fall, so that they cannot make the order by chance */
	uint8_t random[UUIDV7_RANDOM_BYTES];
	UuidClock clock = { 0 };
	uint64_t nanoseconds = SOME_TIME * 1000000;
	uint8_t previous[UUIDV7_LENGTH] = { 0 };
	uint8_t uuid[UUIDV7_LENGTH];

	for (int i = 0; i < count; i++)
	{
		memset(random, 0xff - i % 0x100, sizeof(random));
		qs_uuidv7(&clock, nanoseconds / 1000000, nanoseconds % 1000000,
				  random, uuid);
		if (memcmp(uuid, previous, UUIDV7_LENGTH) <= 0)
			return false;
		memcpy(previous, uuid, UUIDV7_LENGTH);
		nanoseconds += step;
	}
	return true;
}

static void
test_order(void)
{
	ok(increases(1000, 10000), "increases with the clock");
	ok(increases(0, 10000), "increases while the clock stands still");
	ok(increases(-1000000, 10000), "increases while the clock runs back");
}

static void
test_step_back(void)
{
	const uint8_t random[UUIDV7_RANDOM_BYTES] = { 0 };
	UuidClock clock = { 0 };
	uint8_t before[UUIDV7_LENGTH];
	uint8_t stepped[UUIDV7_LENGTH];
	uint8_t after[UUIDV7_LENGTH];

	qs_uuidv7(&clock, SOME_TIME, 0, random, before);
	qs_uuidv7(&clock, SOME_TIME - 5000, 0, random, stepped);
	qs_uuidv7(&clock, SOME_TIME + 5000, 0, random, after);
	ok(milliseconds_of(stepped) == SOME_TIME && fraction_of(stepped) == 1,
	   "a clock that stepped back is waited for in the smallest steps");
	ok(milliseconds_of(after) == SOME_TIME + 5000 && fraction_of(after) == 0,
	   "and followed again once it is ahead");
}

int
main(void)
{
	test_layout();
	test_last_nanosecond();
	test_order();
	test_step_back();
	return tap_done();
}

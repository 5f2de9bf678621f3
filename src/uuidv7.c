/*-------------------------------------------------------------------------
 *
 * uuidv7.c
 *	  Time-ordered UUIDs; see uuidv7.h.  Pure.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "uuidv7.h"

#define FRACTION_BITS 12
#define FRACTION_MASK 0xfff
#define NANOSECONDS_PER_MS 1000000

#define VERSION_BITS 0x70
#define VARIANT_BITS 0x80
#define VARIANT_MASK 0x3f

void
qs_uuidv7(UuidClock *clock, uint64_t milliseconds, uint32_t nanoseconds,
		  const uint8_t random[UUIDV7_RANDOM_BYTES],
		  uint8_t uuid[UUIDV7_LENGTH])
{
	uint64_t time;
	unsigned fraction;

	fraction = ((uint64_t) nanoseconds << FRACTION_BITS) / NANOSECONDS_PER_MS;
	time = milliseconds << FRACTION_BITS | (fraction & FRACTION_MASK);
	if (time <= clock->last)
		time = clock->last + 1;
	clock->last = time;

	milliseconds = time >> FRACTION_BITS;
	fraction = time & FRACTION_MASK;

	for (int i = 0; i < 6; i++)
		uuid[i] = milliseconds >> (8 * (5 - i));
	uuid[6] = VERSION_BITS | fraction >> 8;
	uuid[7] = fraction & 0xff;
	memcpy(uuid + 8, random, UUIDV7_RANDOM_BYTES);
	uuid[8] = VARIANT_BITS | (uuid[8] & VARIANT_MASK);
}

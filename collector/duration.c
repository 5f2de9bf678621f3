/*
 * duration.c
 *	  Lengths of time as people write them: 500ms, 15s, 1h30m, 14d.
 *
 * A bare number is refused on purpose: "30" has meant seconds to one program
 * and milliseconds to the next, and a lease is no place to find out.
 */
#include "duration.h"

#include <stdio.h>
#include <string.h>

static const struct
{
	const char *name;
	int64_t milliseconds;
} units[] = {
	{ "w", INT64_C(604800000) },
	{ "d", INT64_C(86400000) },
	{ "h", INT64_C(3600000) },
	{ "m", INT64_C(60000) },
	{ "s", INT64_C(1000) },
	{ "ms", INT64_C(1) }
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

bool
duration_parse(const char *text, int64_t *milliseconds)
{
	int64_t total = 0;
	size_t next_unit = 0; /* units before this one were used already */

	if (*text == '\0')
		return false;

	while (*text != '\0')
	{
		int64_t number = 0;
		size_t length;
		size_t unit;
		int64_t part;

		if (*text < '0' || *text > '9')
			return false;
		for (; *text >= '0' && *text <= '9'; text++)
		{
			if (__builtin_mul_overflow(number, (int64_t) 10, &number) ||
				__builtin_add_overflow(number, (int64_t) (*text - '0'), &number))
				return false;
		}

		length = strspn(text, "abcdefghijklmnopqrstuvwxyz");
		for (unit = next_unit; unit < UNIT_COUNT; unit++)
		{
			if (strlen(units[unit].name) == length &&
				strncmp(units[unit].name, text, length) == 0)
				break;
		}
		if (unit == UNIT_COUNT)
			return false;
		next_unit = unit + 1;
		text += length;

		if (__builtin_mul_overflow(number, units[unit].milliseconds, &part) ||
			__builtin_add_overflow(total, part, &total))
			return false;
	}

	*milliseconds = total;
	return true;
}

void
duration_format(int64_t milliseconds, char *buffer, size_t size)
{
	size_t used = 0;

	if (milliseconds <= 0)
	{
		snprintf(buffer, size, "0s");
		return;
	}

	buffer[0] = '\0';
	for (size_t unit = 0; unit < UNIT_COUNT; unit++)
	{
		int64_t number = milliseconds / units[unit].milliseconds;
		int length;

		if (number == 0)
			continue;
		milliseconds -= number * units[unit].milliseconds;
		length = snprintf(buffer + used, size - used, "%lld%s",
						  (long long) number, units[unit].name);
		if (length < 0 || (size_t) length >= size - used)
			return;
		used += (size_t) length;
	}
}

/*
 * tap.h
 *	  What the unit tests share: results as TAP, one program a module.
 *
 * A test calls ok(), is_int() and is_text() and ends with `return tap_done();`.
 * Included once, by the test itself.
 */
#ifndef RETSU_TEST_TAP_H
#define RETSU_TEST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count = 0;
static int tap_failures = 0;

/* One result; the name is a format.  Returns `good`, to make the next depend. */
static bool __attribute__((format(printf, 2, 3), unused))
ok(bool good, const char *format, ...)
{
	va_list arguments;

	tap_count++;
	if (!good)
		tap_failures++;
	printf("%sok %d - ", good ? "" : "not ", tap_count);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
	return good;
}

static bool __attribute__((unused))
is_int(long long got, long long expected, const char *name)
{
	if (!ok(got == expected, "%s", name))
		printf("#        got: %lld\n#   expected: %lld\n", got, expected);
	return got == expected;
}

static bool __attribute__((unused))
is_text(const char *got, const char *expected, const char *name)
{
	bool good = got != NULL && strcmp(got, expected) == 0;

	if (!ok(good, "%s", name))
		printf("#        got: \"%s\"\n#   expected: \"%s\"\n",
			   got != NULL ? got : "NULL", expected);
	return good;
}

/* Prints the plan; the exit status of the program. */
static int __attribute__((unused))
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures == 0 ? 0 : 1;
}

#endif /* RETSU_TEST_TAP_H */

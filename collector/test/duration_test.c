/*
 * duration_test.c
 *	  Which lengths of time are understood, and that they read back the same.
 */
#include "tap.h"

#include "duration.h"

static void
reads(const char *text, int64_t expected)
{
	int64_t value = -1;
	char formatted[64];
	int64_t again = -1;

	ok(duration_parse(text, &value) && value == expected, "\"%s\" is %lld ms",
	   text, (long long) expected);
	duration_format(value, formatted, sizeof(formatted));
	ok(duration_parse(formatted, &again) && again == expected,
	   "\"%s\" is written as \"%s\" and reads back", text, formatted);
}

static void
refuses(const char *text)
{
	int64_t value = 12345;

	ok(!duration_parse(text, &value), "\"%s\" is refused", text);
}

int
main(void)
{
	reads("500ms", 500);
	reads("15s", 15000);
	reads("1m", 60000);
	reads("1h30m", 5400000);
	reads("14d", INT64_C(1209600000));
	reads("2w1d3h4m5s6ms", INT64_C(1306800000) + 3 * 3600000 + 4 * 60000 + 5006 - 10800000);
	reads("0s", 0);
	reads("007s", 7000);

	refuses("");
	refuses("15");
	refuses("s");
	refuses("15 s");
	refuses(" 15s");
	refuses("15s ");
	refuses("-1s");
	refuses("+1s");
	refuses("1.5s");
	refuses("15S");
	refuses("15sec");
	refuses("1s1m"); /* larger units first */
	refuses("1s1s");
	refuses("1ms1s");
	refuses("1m1");
	refuses("9223372036854775808ms");
	refuses("9223372036854775807s");
	refuses("15250284452471w1ms9223372036854775807ms");
	return tap_done();
}

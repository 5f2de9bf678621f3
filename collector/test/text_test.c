/*
 * text_test.c
 *	  Numbers, escapes and broken UTF-8 in the text format.
 */
#include "tap.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "sample.h"
#include "text.h"

static const char *
integer(int64_t value)
{
	Text text = TEXT_EMPTY;
	const char *result;

	text_integer(&text, value);
	result = sample_string(&text);
	text_free(&text);
	return result;
}

static const char *
number(double value)
{
	Text text = TEXT_EMPTY;
	const char *result;

	text_double(&text, value);
	result = sample_string(&text);
	text_free(&text);
	return result;
}

static const char *
seconds(int64_t value)
{
	Text text = TEXT_EMPTY;
	const char *result;

	text_seconds(&text, value);
	result = sample_string(&text);
	text_free(&text);
	return result;
}

static const char *
label(const char *value)
{
	Text text = TEXT_EMPTY;
	const char *result;

	text_label_value(&text, value);
	result = sample_string(&text);
	text_free(&text);
	return result;
}

static void
test_numbers(void)
{
	is_text(integer(0), "0", "zero");
	is_text(integer(-1), "-1", "a negative number");
	is_text(integer(INT64_MAX), "9223372036854775807", "the greatest bigint");
	is_text(integer(INT64_MIN), "-9223372036854775808", "the least bigint");
	is_text(integer(INT64_C(9007199254740993)), "9007199254740993",
			"an integer that no double can hold");
	is_text(number(0), "0", "a double of 0");
	is_text(number(0.1), "0.10000000000000001", "17 digits");
	is_text(number(1e300), "1.0000000000000001e+300", "a large double");
	is_text(number(15), "15", "a whole double");
	is_text(number(NAN), "NaN", "not a number");
	is_text(number(INFINITY), "+Inf", "infinity");
	is_text(number(-INFINITY), "-Inf", "negative infinity");
	is_text(seconds(0), "0", "no seconds");
	is_text(seconds(INT64_C(1500000000)), "1.5", "seconds and a half");
	is_text(seconds(-1), "-0.000000001", "a negative nanosecond");
	is_text(seconds(INT64_C(1700000000123456000)), "1700000000.123456",
			"a time keeps its microseconds");

	srand(1);
	for (int i = 0; i < 10000; i++)
	{
		double value = ldexp((double) rand() / RAND_MAX, rand() % 200 - 100);

		if (strtod(number(value), NULL) != value)
		{
			ok(false, "%a does not read back", value);
			return;
		}
	}
	ok(true, "10,000 doubles read back to themselves");
}

static bool
is_as_printf(double value)
{
	char expected[40];

	snprintf(expected, sizeof(expected), "%.17g", value);
	if (strcmp(number(value), expected) == 0)
		return true;
	ok(false, "%a is %s as %%.17g, not %s", value, expected, number(value));
	return false;
}

/* Digits made here are those of printf, to the last one and at every border. */
static void
test_digits(void)
{
	for (int exponent = -6; exponent <= 17; exponent++)
	{
		char words[16];
		double power;

		snprintf(words, sizeof(words), "1e%d", exponent);
		power = strtod(words, NULL);
		if (!is_as_printf(power) || !is_as_printf(power * (1 - DBL_EPSILON / 2)) ||
			!is_as_printf(power * (1 + DBL_EPSILON)) || !is_as_printf(power / 2) ||
			!is_as_printf(-power))
			return;
	}
	for (int i = 0; i < 200000; i++)
	{
		double significant = (double) rand() / RAND_MAX + rand();

		/* any number; microseconds, as ages are; and halves, which are ties */
		if (!is_as_printf(ldexp(significant, rand() % 70 - 48)) ||
			!is_as_printf(floor(significant * 1000) / 1e6) ||
			!is_as_printf(ldexp(floor(significant), -(rand() % 40))))
			return;
	}
	ok(true, "600,000 doubles are written as printf does");
}

/* Whatever the locale writes, a point comes out. */
static void
test_locale(void)
{
	char comma[] = "1,5";
	char arabic[] = "1\xD9\xAB"
					"25e-05";
	char point[] = "1.5";
	char whole[] = "15";

	text_fix_point(comma, ",");
	is_text(comma, "1.5", "a comma");
	text_fix_point(arabic, "\xD9\xAB");
	is_text(arabic, "1.25e-05", "two bytes");
	text_fix_point(point, ".");
	is_text(point, "1.5", "a point");
	text_fix_point(whole, ",");
	is_text(whole, "15", "none");
}

static void
test_labels(void)
{
	static const char *const cases[][3] = {
		{ "", "", "nothing" },
		{ "plain.name-1_2", "plain.name-1_2", "an ordinary name" },
		{ "a\\b", "a\\\\b", "a backslash" },
		{ "a\"b", "a\\\"b", "a quote" },
		{ "a\nb", "a\\nb", "a line feed" },
		{ "a\tb\rc", "a\tb\rc", "other control characters stay" },
		{ "\\n", "\\\\n", "a backslash before an n" },
		{ "gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F", "two-byte characters" },
		{ "\xE2\x82\xAC", "\xE2\x82\xAC", "a three-byte character" },
		{ "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80", "a four-byte character" },
		{ "a\x80z", "a\xEF\xBF\xBDz", "a continuation byte alone" },
		{ "a\xC3", "a\xEF\xBF\xBD", "a character cut at the end" },
		{ "a\xE2\x82z", "a\xEF\xBF\xBDz", "a character cut in the middle is one mark" },
		{ "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD", "an overlong form" },
		{ "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "a surrogate" },
		{ "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
		  "beyond Unicode" },
		{ "\xFF\"\n", "\xEF\xBF\xBD\\\"\\n", "a bad byte before escapes" }
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_text(label(cases[i][0]), cases[i][1], cases[i][2]);
}

static bool
is_valid_utf8(const char *string)
{
	const unsigned char *s = (const unsigned char *) string;

	while (*s != '\0')
	{
		int skip;
		int length = text_utf8(s, &skip);

		if (length == 0)
			return false;
		s += length;
	}
	return true;
}

/* What a parser makes of an escaped value; false if it is not one. */
static bool
unescape(const char *value, char *result)
{
	for (; *value != '\0'; value++)
	{
		if (*value == '"' || *value == '\n')
			return false;
		if (*value != '\\')
		{
			*result++ = *value;
			continue;
		}
		value++;
		if (*value == 'n')
			*result++ = '\n';
		else if (*value == '\\' || *value == '"')
			*result++ = *value;
		else
			return false;
	}
	*result = '\0';
	return true;
}

static void
test_fuzz(void)
{
	/* bytes that matter come up often */
	static const unsigned char likely[] = { '"', '\\', '\n', 'n', 0xC3, 0xE2, 0x82,
											0xAC, 0xF0, 0x9F, 0xED, 0xA0, 0xFF, 0x80 };
	int broken = 0;

	srand(2);
	for (int i = 0; i < 50000; i++)
	{
		char value[40];
		char back[200];
		const char *escaped;
		int length = rand() % 39;

		for (int k = 0; k < length; k++)
			value[k] = (char) (rand() % 2 ? likely[(size_t) rand() % sizeof(likely)] : rand() % 255 + 1);
		value[length] = '\0';
		escaped = label(value);
		if (!is_valid_utf8(escaped) || !unescape(escaped, back))
			broken++;
		else if (is_valid_utf8(value) && strcmp(back, value) != 0)
			broken++;
	}
	is_int(broken, 0, "50,000 arbitrary values are valid, and read back if they were UTF-8");
}

static void
test_families(void)
{
	Text text = TEXT_EMPTY;
	Family counter = { "a_total", FAMILY_COUNTER, "One \\ two\nthree \"four\"." };
	Family info = { "b_info", FAMILY_INFO, "B." };

	text_family(&text, FORMAT_TEXT, &counter);
	text_family(&text, FORMAT_TEXT, &info);
	is_text(sample_string(&text),
			"# HELP a_total One \\\\ two\\nthree \"four\".\n# TYPE a_total counter\n"
			"# HELP b_info B.\n# TYPE b_info gauge\n",
			"families in the text format");
	text_free(&text);
	text_family(&text, FORMAT_OPENMETRICS, &counter);
	text_family(&text, FORMAT_OPENMETRICS, &info);
	is_text(sample_string(&text),
			"# HELP a One \\\\ two\\nthree \\\"four\\\".\n# TYPE a counter\n"
			"# HELP b B.\n# TYPE b info\n",
			"families in OpenMetrics");
	text_free(&text);
}

static void
test_memory(void)
{
	Text text = TEXT_EMPTY;

	text_string(&text, "kept");
	ok(!text_reserve(&text, SIZE_MAX / 2), "an absurd size is refused");
	ok(text.failed, "and remembered");
	text_string(&text, "more");
	is_int((long long) text.length, 4, "nothing is added after a failure");
	text_free(&text);
	ok(!text.failed && text.data == NULL, "a freed buffer can be used again");
}

int
main(void)
{
	test_numbers();
	test_digits();
	test_locale();
	test_labels();
	test_fuzz();
	test_families();
	test_memory();
	return tap_done();
}

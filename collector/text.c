/*
 * text.c
 *		A growing buffer, and the words of the Prometheus text format.
 */
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

void
text_free(Text *text)
{
	free(text->data);
	*text = (Text) TEXT_EMPTY;
}

bool
text_reserve(Text *text, size_t more)
{
	size_t capacity;
	char *data;

	if (text->failed)
		return false;
	if (more <= text->capacity - text->length)
		return true;
	if (more > SIZE_MAX / 4 - text->length)
	{
		text->failed = true;
		return false;
	}

	/*
	 * Half as much again.  Blocks of this size come from mmap: growing one moves
	 * page tables, not bytes, and pages never written cost no memory.
	 */
	capacity = text->capacity + text->capacity / 2;
	if (capacity < text->length + more)
		capacity = text->length + more;
	if (capacity < 256)
		capacity = 256;
	data = realloc(text->data, capacity);
	if (data == NULL)
	{
		text->failed = true;
		return false;
	}
	text->data = data;
	text->capacity = capacity;
	return true;
}

void
text_shrink(Text *text)
{
	char *data;

	if (text->failed || text->length == 0 || text->length == text->capacity)
		return;
	data = realloc(text->data, text->length);
	if (data != NULL)
	{
		text->data = data;
		text->capacity = text->length;
	}
}

void
text_bytes(Text *text, const char *bytes, size_t length)
{
	if (length == 0 || !text_reserve(text, length))
		return;
	memcpy(text->data + text->length, bytes, length);
	text->length += length;
}

void
text_string(Text *text, const char *string)
{
	text_bytes(text, string, strlen(string));
}

void
text_char(Text *text, char c)
{
	text_bytes(text, &c, 1);
}

/*
 * Written by hand because it is done 400,000 times a refresh at 10,000 queues;
 * through printf that alone would cost as much as all the rest of a rendering.
 */
void
text_integer(Text *text, int64_t value)
{
	char digits[20];
	int position = sizeof(digits);
	uint64_t rest = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;

	do
	{
		digits[--position] = (char) ('0' + rest % 10);
		rest /= 10;
	} while (rest != 0);
	if (!text_reserve(text, sizeof(digits) + 1))
		return;
	if (value < 0)
		text->data[text->length++] = '-';
	memcpy(text->data + text->length, digits + position,
		   sizeof(digits) - (size_t) position);
	text->length += sizeof(digits) - (size_t) position;
}

void
text_fix_point(char *number, const char *point)
{
	size_t length = strlen(point);
	char *found = strstr(number, point);

	if (found == NULL || length == 0)
		return;
	*found = '.';
	memmove(found + 1, found + length, strlen(found + length) + 1);
}

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 Wide;

/*
 * integer / 2^shift * 10^places, rounded as printf does: to the nearest, to even
 * if there are two.  The caller sees to it that the product has less than 128 bits
 * and the shift is positive.
 */
static Wide
scale(uint64_t integer, int shift, int places)
{
	static const uint64_t tens[] = {
		1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
		1000000000, UINT64_C(10000000000)
	};
	Wide product = (Wide) integer * tens[places / 2] * tens[places - places / 2];
	Wide half = (Wide) 1 << (shift - 1);
	Wide rest = product & ((half << 1) - 1);
	Wide scaled = product >> shift;

	return scaled + (rest > half || (rest == half && (scaled & 1) != 0));
}

/*
 * A number from 1e-4 up to 1e15 as "%.17g" writes it, which needs no exponent
 * there.  The ages of 10,000 queues are 60,000 numbers, and printf spent as long
 * on them as all the rest of a rendering took.
 */
static void
append_digits(Text *text, double value)
{
	const uint64_t limit = UINT64_C(100000000000000000); /* 18 digits */
	char digits[17];
	int exponent;
	double fraction = frexp(value, &exponent);
	uint64_t integer = (uint64_t) ldexp(fraction, 53); /* value * 2^shift */
	int shift = 53 - exponent;
	int places;
	int length = 17;
	int whole;
	uint64_t rest;
	Wide scaled;

	/* A guess from the power of two, which may be one off. */
	places = 16 - (exponent - 1) * 1233 / 4096;
	while ((scaled = scale(integer, shift, places)) >= limit)
		places--;
	while (scaled < limit / 10)
		scaled = scale(integer, shift, ++places);

	rest = (uint64_t) scaled;
	for (int i = 16; i >= 0; i--)
	{
		digits[i] = (char) ('0' + rest % 10);
		rest /= 10;
	}
	whole = 17 - places;
	while (length > 1 && length > whole && digits[length - 1] == '0')
		length--;
	if (whole <= 0)
	{
		text_bytes(text, "0.000", (size_t) (2 - whole));
		text_bytes(text, digits, (size_t) length);
		return;
	}
	text_bytes(text, digits, (size_t) whole);
	if (length > whole)
	{
		text_char(text, '.');
		text_bytes(text, digits + whole, (size_t) (length - whole));
	}
}
#endif

void
text_double(Text *text, double value)
{
	char buffer[40];

	if (isnan(value))
	{
		text_string(text, "NaN");
		return;
	}
	if (isinf(value))
	{
		text_string(text, value > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (value == 0)
	{
		/* by far the most frequent value: the age in an empty queue */
		text_char(text, '0');
		return;
	}
#ifdef __SIZEOF_INT128__
	if (value >= 1e-4 && value < 1e15)
	{
		append_digits(text, value);
		return;
	}
#endif
	snprintf(buffer, sizeof(buffer), "%.17g", value);

	/* Nothing here sets a locale, but a library may. */
	text_fix_point(buffer, localeconv()->decimal_point);
	text_string(text, buffer);
}

void
text_seconds(Text *text, int64_t nanoseconds)
{
	uint64_t rest = nanoseconds < 0 ? 0 - (uint64_t) nanoseconds : (uint64_t) nanoseconds;
	uint64_t fraction = rest % 1000000000;
	char digits[9];
	int length = 9;

	if (nanoseconds < 0)
		text_char(text, '-');
	text_integer(text, (int64_t) (rest / 1000000000));
	if (fraction == 0)
		return;
	for (int i = 8; i >= 0; i--)
	{
		digits[i] = (char) ('0' + fraction % 10);
		fraction /= 10;
	}
	while (digits[length - 1] == '0')
		length--;
	text_char(text, '.');
	text_bytes(text, digits, (size_t) length);
}

int
text_utf8(const unsigned char *s, int *skip)
{
	unsigned char low = 0x80;
	unsigned char high = 0xBF;
	int length;

	*skip = 1;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xC2 && s[0] <= 0xDF)
		length = 2;
	else if (s[0] >= 0xE0 && s[0] <= 0xEF)
		length = 3;
	else if (s[0] >= 0xF0 && s[0] <= 0xF4)
		length = 4;
	else
		return 0;

	/* The second byte rules out overlong forms, surrogates and > U+10FFFF. */
	if (s[0] == 0xE0)
		low = 0xA0;
	else if (s[0] == 0xED)
		high = 0x9F;
	else if (s[0] == 0xF0)
		low = 0x90;
	else if (s[0] == 0xF4)
		high = 0x8F;

	for (int i = 1; i < length; i++)
	{
		/* A terminating zero byte fails this too, so s is never overrun. */
		if (s[i] < low || s[i] > high)
		{
			*skip = i;
			return 0;
		}
		low = 0x80;
		high = 0xBF;
	}
	return length;
}

int
text_character(Text *text, const unsigned char *s)
{
	int skip;
	int length = text_utf8(s, &skip);

	if (length == 0)
	{
		text_string(text, REPLACEMENT);
		return skip;
	}
	text_bytes(text, (const char *) s, (size_t) length);
	return length;
}

void
text_label_value(Text *text, const char *value)
{
	const unsigned char *s = (const unsigned char *) value;

	while (*s != '\0')
	{
		const unsigned char *plain = s;

		while (*s >= 0x20 && *s < 0x80 && *s != '\\' && *s != '"')
			s++;
		text_bytes(text, (const char *) plain, (size_t) (s - plain));
		if (*s == '\0')
			break;
		if (*s == '\\')
			text_string(text, "\\\\");
		else if (*s == '"')
			text_string(text, "\\\"");
		else if (*s == '\n')
			text_string(text, "\\n");
		else
		{
			s += text_character(text, s);
			continue;
		}
		s++;
	}
}

/*
 * HELP escapes \ and LF; OpenMetrics escapes the quote as well.
 */
static void
append_help(Text *text, TextFormat format, const char *help)
{
	for (const char *c = help; *c != '\0'; c++)
	{
		if (*c == '\\')
			text_string(text, "\\\\");
		else if (*c == '\n')
			text_string(text, "\\n");
		else if (*c == '"' && format == FORMAT_OPENMETRICS)
			text_string(text, "\\\"");
		else
			text_char(text, *c);
	}
}

void
text_family(Text *text, TextFormat format, const Family *family)
{
	static const char *const type_names[][2] = {
		[FAMILY_GAUGE] = { "gauge", "gauge" },
		[FAMILY_COUNTER] = { "counter", "counter" },
		[FAMILY_HISTOGRAM] = { "histogram", "histogram" },
		[FAMILY_INFO] = { "gauge", "info" }
	};
	size_t length = strlen(family->name);

	if (format == FORMAT_OPENMETRICS)
	{
		if (family->type == FAMILY_COUNTER)
			length -= strlen("_total");
		else if (family->type == FAMILY_INFO)
			length -= strlen("_info");
	}
	text_string(text, "# HELP ");
	text_bytes(text, family->name, length);
	text_char(text, ' ');
	append_help(text, format, family->help);
	text_string(text, "\n# TYPE ");
	text_bytes(text, family->name, length);
	text_char(text, ' ');
	text_string(text, type_names[family->type][format]);
	text_char(text, '\n');
}

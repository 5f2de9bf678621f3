/*
 * text.h
 *		A growing buffer, and the words of the Prometheus text format.
 *
 * Pure: no clock, no lock, no global state.  A Text belongs to one thread.
 *
 * Running out of memory is remembered in the buffer and makes every later call
 * do nothing, so that a long rendering is checked once, at its end.
 */
#ifndef RETSU_TEXT_H
#define RETSU_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Text
{
	char *data; /* not terminated; NULL while empty */
	size_t length;
	size_t capacity;
	bool failed; /* out of memory, contents are useless */
} Text;

#define TEXT_EMPTY        \
	{                     \
		NULL, 0, 0, false \
	}

extern void text_free(Text *text);

/* Make room for this many more bytes; false if there is no memory. */
extern bool text_reserve(Text *text, size_t more);

/* Give back what was reserved and not used. */
extern void text_shrink(Text *text);

extern void text_bytes(Text *text, const char *bytes, size_t length);
extern void text_string(Text *text, const char *string);
extern void text_char(Text *text, char c);
extern void text_integer(Text *text, int64_t value);

/*
 * 17 significant digits, so that it reads back to the same double, with a point
 * whatever the locale; NaN, +Inf, -Inf as the format spells them.
 */
extern void text_double(Text *text, double value);

/*
 * Put a point where printf wrote the decimal point of some locale, which may be
 * of more than one byte.
 */
extern void text_fix_point(char *number, const char *point);

/* Seconds from nanoseconds, exact: digits are not lost to a double on the way. */
extern void text_seconds(Text *text, int64_t nanoseconds);

/*
 * The contents of a label value between its quotes: \ " and LF are escaped and
 * nothing else is; what is not UTF-8 becomes U+FFFD.
 */
extern void text_label_value(Text *text, const char *value);

/*
 * The length of the UTF-8 sequence at s, or 0 if there is none; *skip is then
 * how many bytes one U+FFFD stands for (the longest start of a sequence that
 * could have been valid).  s is terminated by a zero byte.
 */
extern int text_utf8(const unsigned char *s, int *skip);

/*
 * Appends the character at s, or U+FFFD if there is none, and returns how many
 * bytes of s that were.
 */
extern int text_character(Text *text, const unsigned char *s);

/* Types of a metric family. */
typedef enum FamilyType
{
	FAMILY_GAUGE,
	FAMILY_COUNTER,
	FAMILY_HISTOGRAM,
	FAMILY_INFO /* a gauge of value 1 in the text format */
} FamilyType;

/* The two formats a family can be announced in. */
typedef enum TextFormat
{
	FORMAT_TEXT,	   /* Prometheus text format 0.0.4 */
	FORMAT_OPENMETRICS /* OpenMetrics 1.0 */
} TextFormat;

/*
 * A family.  name is the name of its samples in the text format, with _total
 * for a counter and _info for an info; OpenMetrics announces it without.
 */
typedef struct Family
{
	const char *name;
	FamilyType type;
	const char *help;
} Family;

/* The HELP and TYPE lines that open a family. */
extern void text_family(Text *text, TextFormat format, const Family *family);

#endif /* RETSU_TEXT_H */

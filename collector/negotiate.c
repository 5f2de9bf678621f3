/*
 * negotiate.c
 *		What a client's Accept and Accept-Encoding headers ask for.
 */
#include "negotiate.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A run of characters inside a header; not terminated. */
typedef struct Span
{
	const char *start;
	size_t length;
} Span;

static Span
trim(const char *start, const char *end)
{
	while (start < end && (*start == ' ' || *start == '\t'))
		start++;
	while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (Span){ start, (size_t) (end - start) };
}

static bool
span_is(Span span, const char *word)
{
	return span.length == strlen(word) &&
		   strncasecmp(span.start, word, span.length) == 0;
}

/*
 * Cut the next piece off *rest at a separator; false when nothing is left.  None
 * of the values looked at here can hold a separator in quotes.
 */
static bool
next_piece(const char **rest, const char *end, char separator, Span *piece)
{
	const char *start = *rest;
	const char *stop;

	if (start > end)
		return false;
	stop = memchr(start, separator, (size_t) (end - start));
	if (stop == NULL)
		stop = end;
	*piece = trim(start, stop);
	*rest = stop + 1;
	return true;
}

/*
 * A weight in thousandths: at most three digits follow the point.  Anything
 * else is no weight, and counts as not wanted.
 */
static int
parse_weight(Span value)
{
	int weight;
	int scale = 100;

	if (value.length == 0 || value.length > 5 ||
		(value.start[0] != '0' && value.start[0] != '1'))
		return 0;
	weight = (value.start[0] - '0') * 1000;
	if (value.length == 1)
		return weight;
	if (value.start[1] != '.')
		return 0;
	for (size_t i = 2; i < value.length; i++)
	{
		if (!isdigit((unsigned char) value.start[i]))
			return 0;
		weight += (value.start[i] - '0') * scale;
		scale /= 10;
	}
	return weight > 1000 ? 0 : weight;
}

/* One element of a header's list: what, how much, and its version parameter. */
typedef struct Element
{
	Span name;
	int weight;
	Span version;
} Element;

static bool
next_element(const char **rest, const char *end, Element *element)
{
	Span whole;
	Span piece;
	const char *inner;

	if (!next_piece(rest, end, ',', &whole))
		return false;
	inner = whole.start;
	element->weight = 1000;
	element->version = (Span){ NULL, 0 };
	if (!next_piece(&inner, whole.start + whole.length, ';', &element->name))
		return false;
	while (next_piece(&inner, whole.start + whole.length, ';', &piece))
	{
		const char *equals = memchr(piece.start, '=', piece.length);
		Span key;
		Span value;

		if (equals == NULL)
			continue;
		key = trim(piece.start, equals);
		value = trim(equals + 1, piece.start + piece.length);
		if (span_is(key, "q"))
			element->weight = parse_weight(value);
		else if (span_is(key, "version"))
			element->version = value;
	}
	return true;
}

bool
negotiate_gzip(const char *accept_encoding)
{
	const char *rest = accept_encoding;
	const char *end;
	Element element;
	bool any = false;

	if (accept_encoding == NULL)
		return false;
	end = accept_encoding + strlen(accept_encoding);
	while (next_element(&rest, end, &element))
	{
		if (span_is(element.name, "gzip") || span_is(element.name, "x-gzip"))
			return element.weight > 0;
		if (span_is(element.name, "*"))
			any = element.weight > 0;
	}
	return any;
}

TextFormat
negotiate_format(const char *accept)
{
	const char *rest = accept;
	const char *end;
	Element element;
	int openmetrics = 0;
	int text = -1; /* named by the client */
	int any = 0;   /* covered by a wildcard */

	if (accept == NULL)
		return FORMAT_TEXT;
	end = accept + strlen(accept);
	while (next_element(&rest, end, &element))
	{
		if (span_is(element.name, "application/openmetrics-text"))
		{
			if ((element.version.start == NULL ||
				 span_is(element.version, "1.0.0")) &&
				element.weight > openmetrics)
				openmetrics = element.weight;
		}
		else if (span_is(element.name, "text/plain"))
		{
			if ((element.version.start == NULL ||
				 span_is(element.version, "0.0.4")) &&
				element.weight > text)
				text = element.weight;
		}
		else if (span_is(element.name, "*/*") || span_is(element.name, "text/*"))
		{
			if (element.weight > any)
				any = element.weight;
		}
	}
	if (text < 0)
		text = any;
	return openmetrics > 0 && openmetrics >= text ? FORMAT_OPENMETRICS : FORMAT_TEXT;
}

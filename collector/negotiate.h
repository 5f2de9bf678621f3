/*
 * negotiate.h
 *		What a client's Accept and Accept-Encoding headers ask for.
 *
 * Pure.  A header is NULL when the client did not send it.
 */
#ifndef RETSU_NEGOTIATE_H
#define RETSU_NEGOTIATE_H

#include <stdbool.h>

#include "text.h"

/* Whether the client takes gzip.  A client that says nothing gets plain bytes. */
extern bool negotiate_gzip(const char *accept_encoding);

/*
 * OpenMetrics 1.0 if the client wants it at least as much as plain text, else
 * the text format.  What cannot be understood is ignored: a scrape is better
 * answered in the older format than refused.
 */
extern TextFormat negotiate_format(const char *accept);

#endif /* RETSU_NEGOTIATE_H */

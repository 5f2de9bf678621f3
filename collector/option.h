/*
 * option.h
 *	  The table of options; private to option.c and options.c.
 */
#ifndef RETSU_OPTION_H
#define RETSU_OPTION_H

#include <stddef.h>
#include <stdint.h>

#define ENVIRONMENT_PREFIX "RETSU_COLLECTOR_"

enum option_type
{
	OPTION_TEXT,
	OPTION_LIST,
	OPTION_BOOL,
	OPTION_COUNT,
	OPTION_DURATION,
	OPTION_CHOICE
};

struct option_row
{
	const char *name;
	enum option_type type;
	size_t offset;		  /* of the value in struct options */
	const char *fallback; /* the default, as it would be written */
	int64_t minimum;	  /* counts and durations (ms) */
	int64_t maximum;
	const char *const *choices; /* ended by NULL; the value is the index */
	const char *help;
};

/* The table ends with a row without name. */
extern const struct option_row option_rows[];

#define OPTION_COUNT_MAX 64 /* more than there are rows */

/* The row of this name, which need not end with a zero byte; or NULL. */
extern const struct option_row *option_find(const char *name, size_t length);

/* RETSU_COLLECTOR_LEASE_SERVER_TTL for lease.server-ttl */
extern void option_environment_name(const struct option_row *row, char *buffer,
									size_t size);

#endif /* RETSU_OPTION_H */

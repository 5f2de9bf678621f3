/*
 * page.h
 *		The status page for people, and the words of the readiness check.
 */
#ifndef RETSU_PAGE_H
#define RETSU_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"
#include "text.h"

typedef struct PageContext
{
	int64_t now_ns;
	const char *version;
	const char *instance;
} PageContext;

/* snapshot is NULL on a standby. */
extern void page_render(Text *text, const PageContext *context,
						const Snapshot *snapshot);

/*
 * Ready means: the database answers and, when this replica holds the lease, its
 * snapshot is fresh.  The words say why not, in one line.
 */
extern bool page_ready(int64_t now_ns, const char **words);

#endif /* RETSU_PAGE_H */

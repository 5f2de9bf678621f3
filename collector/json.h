/*
 * json.h
 *		A snapshot as JSON, for /api/v1/snapshot.
 *
 * Written piece by piece straight from the rows while it is being sent: at
 * 10,000 queues the whole would be 15 MB for each reader, and nobody polls it.
 */
#ifndef RETSU_JSON_H
#define RETSU_JSON_H

#include <stdint.h>

#include "snapshot.h"
#include "text.h"

/* A JSON string with its quotes; what is not UTF-8 becomes U+FFFD. */
extern void json_string(Text *text, const char *value);

/*
 * The document is json_open(), json_queue() for each queue in order, and
 * json_close().  Each row has the names of the columns of snapshot().
 */
extern void json_open(Text *text, const Snapshot *snapshot, int64_t now_ns);
extern void json_queue(Text *text, const Snapshot *snapshot, int64_t queue);
extern void json_close(Text *text);

#endif /* RETSU_JSON_H */

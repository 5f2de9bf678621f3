/*
 * body.h
 *		The queue series of a snapshot, as they go over the wire.
 *
 * Rendered once, when the snapshot is made.  The samples are the same bytes in
 * both formats, only the lines that announce a family differ; so OpenMetrics is
 * a list of pieces that shares them and costs almost no memory of its own.  Each
 * piece is also kept deflated up to a full flush, see gzip.h.
 */
#ifndef RETSU_BODY_H
#define RETSU_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "snapshot.h"
#include "text.h"

#define BODY_FAMILIES 16

/* Bytes to send, in order: two pieces for each family, or one for them all. */
typedef struct BodyView
{
	struct iovec parts[2 * BODY_FAMILIES];
	int count;
	size_t length; /* sum of the parts */
} BodyView;

typedef struct Body
{
	BodyView plain[2]; /* by TextFormat */
	BodyView deflated[2];
	uint32_t checksum[2]; /* of the plain bytes, for gzip */

	/* what the views point into */
	Text text;
	Text text_deflated;
	Text heads; /* OpenMetrics announcements */
	Text heads_deflated;
} Body;

/* Render all rows of a snapshot; false when out of memory. */
extern bool body_render(Body *body, const Snapshot *snapshot);
extern void body_free(Body *body);

/* The body of a finished snapshot. */
extern const Body *snapshot_body(const Snapshot *snapshot);

#endif /* RETSU_BODY_H */

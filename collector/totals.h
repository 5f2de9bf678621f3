/*
 * totals.h
 *		The event totals exported so far, so that none ever goes down.
 *
 * snapshot.h says why.  Belongs to the collecting thread; no lock.
 */
#ifndef RETSU_TOTALS_H
#define RETSU_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

/*
 * Raise the totals of rows (all priorities of `queues` queues, by ascending
 * queue_id) to what was exported before, count what went down, and remember what
 * is exported now.  Queues that are not among them are forgotten.  False when out
 * of memory; nothing has changed then.
 */
extern bool totals_apply(Totals *totals, SnapshotRow *rows, int64_t queues);

#endif /* RETSU_TOTALS_H */

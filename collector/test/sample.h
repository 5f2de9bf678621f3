/*
 * sample.h
 *	  Small made-up snapshots for the tests.  Include tap.h first.
 */
#ifndef RETSU_TEST_SAMPLE_H
#define RETSU_TEST_SAMPLE_H

#include <stdlib.h>

#include "snapshot.h"
#include "text.h"

static const SnapshotInfo sample_info = {
	.sent_boottime_ns = INT64_C(100000000000),
	.wall_time_us = INT64_C(1700000000123456),
	.pending_rows = 3,
	.drift = -1,
	.extension_version = "1.0"
};

/* Every value is a different one, so that a mix-up shows. */
static SnapshotRow __attribute__((unused))
sample_row(int32_t queue_id, int priority, int64_t base)
{
	SnapshotRow row = { .queue_id = queue_id, .priority = (SnapshotPriority) priority };

	for (int i = 0; i < COUNTER_COUNT; i++)
		row.counters[i] = base + priority * 100 + i;
	for (int i = 0; i < AGE_COUNT; i++)
		row.ages[i] = (double) (base + priority * 10 + i) / 10.0;
	for (int i = 0; i < TOTAL_COUNT; i++)
		row.totals[i] = base * 10 + priority * 1000 + i;
	return row;
}

static SnapshotResult __attribute__((unused))
sample_queue(Snapshot *snapshot, int32_t queue_id, const char *name, int64_t base)
{
	SnapshotResult result = SNAPSHOT_OK;

	for (int p = 0; p < PRIORITY_COUNT && result == SNAPSHOT_OK; p++)
	{
		SnapshotRow row = sample_row(queue_id, p, base);

		result = snapshot_add(snapshot, name, &row);
	}
	return result;
}

/* The contents of a Text as a string that lives until the next call. */
static __attribute__((unused)) const char *
sample_string(const Text *text)
{
	static char *copy;

	free(copy);
	copy = malloc(text->length + 1);
	if (copy == NULL)
		abort();
	if (text->length > 0)
		memcpy(copy, text->data, text->length);
	copy[text->length] = '\0';
	return copy;
}

#endif /* RETSU_TEST_SAMPLE_H */

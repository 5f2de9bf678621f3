/*
 * totals.c
 *		The event totals exported so far, so that none ever goes down.
 */
#include "totals.h"

#include <stdlib.h>
#include <string.h>

typedef struct TotalsEntry
{
	int32_t queue_id;

	/* one bit for each total that is behind what was exported */
	uint32_t behind;
	int64_t exported[PRIORITY_COUNT * TOTAL_COUNT];
} TotalsEntry;

_Static_assert(PRIORITY_COUNT *TOTAL_COUNT <= 32, "one bit for each total");

struct Totals
{
	TotalsEntry *entries; /* by ascending queue_id */
	int64_t count;
	int64_t regressions;
};

Totals *
totals_create(void)
{
	return calloc(1, sizeof(Totals));
}

void
totals_free(Totals *totals)
{
	if (totals == NULL)
		return;
	free(totals->entries);
	free(totals);
}

int64_t
totals_regressions(const Totals *totals)
{
	return totals->regressions;
}

/*
 * One queue.  A total that stays behind is one regression, not one a refresh.
 */
static void
apply_queue(Totals *totals, const TotalsEntry *before, TotalsEntry *after,
			SnapshotRow *rows)
{
	after->queue_id = rows[0].queue_id;
	after->behind = 0;
	for (int i = 0; i < PRIORITY_COUNT * TOTAL_COUNT; i++)
	{
		int64_t *value = &rows[i / TOTAL_COUNT].totals[i % TOTAL_COUNT];
		uint32_t bit = UINT32_C(1) << i;

		if (before != NULL && *value < before->exported[i])
		{
			if ((before->behind & bit) == 0)
				totals->regressions++;
			after->behind |= bit;
			*value = before->exported[i];
		}
		after->exported[i] = *value;
	}
}

/*
 * Nearly always the queues are those of the last time; then nothing has to be
 * allocated.
 */
static bool
same_queues(const Totals *totals, const SnapshotRow *rows, int64_t queues)
{
	if (totals->count != queues)
		return false;
	for (int64_t i = 0; i < queues; i++)
	{
		if (totals->entries[i].queue_id != rows[i * PRIORITY_COUNT].queue_id)
			return false;
	}
	return true;
}

bool
totals_apply(Totals *totals, SnapshotRow *rows, int64_t queues)
{
	TotalsEntry *entries = NULL;
	int64_t old = 0;

	if (same_queues(totals, rows, queues))
	{
		for (int64_t i = 0; i < queues; i++)
		{
			TotalsEntry before = totals->entries[i];

			apply_queue(totals, &before, &totals->entries[i],
						&rows[i * PRIORITY_COUNT]);
		}
		return true;
	}
	if (queues > 0)
	{
		entries = malloc((size_t) queues * sizeof(*entries));
		if (entries == NULL)
			return false;
	}
	for (int64_t i = 0; i < queues; i++)
	{
		SnapshotRow *queue = &rows[i * PRIORITY_COUNT];
		const TotalsEntry *before = NULL;

		while (old < totals->count &&
			   totals->entries[old].queue_id < queue->queue_id)
			old++;
		if (old < totals->count &&
			totals->entries[old].queue_id == queue->queue_id)
			before = &totals->entries[old];
		apply_queue(totals, before, &entries[i], queue);
	}
	free(totals->entries);
	totals->entries = entries;
	totals->count = queues;
	return true;
}

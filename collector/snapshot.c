/*
 * snapshot.c
 *		One immutable reading of everything the collector exports.
 */
#include "snapshot.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "body.h"
#include "text.h"
#include "totals.h"

struct Snapshot
{
	atomic_int references;

	SnapshotInfo info;
	char *extension_version; /* what info points to */
	int64_t max_queues;
	int64_t queues;
	int64_t dropped;
	int64_t regressions;

	SnapshotRow *rows;	  /* queues * PRIORITY_COUNT, by queue_id */
	int64_t row_capacity; /* in queues */
	size_t *name_offsets; /* into names; as many as row_capacity */
	Text names;			  /* each terminated by a zero byte */
	Body body;

	/* While it is being built: the queue whose rows are coming in. */
	bool open;
	bool open_dropped;
	int32_t open_id;
	unsigned open_priorities; /* one bit each */
};

#define ALL_PRIORITIES ((1u << PRIORITY_COUNT) - 1)

/*
 * The snapshot that is served, and until when.  The lock guards these two; a
 * writer holds it for two assignments, a reader for three.
 */
static pthread_rwlock_t current_lock = PTHREAD_RWLOCK_INITIALIZER;
static Snapshot *current;
static int64_t current_deadline_ns;

static const char *const priority_names[PRIORITY_COUNT] = {
	[PRIORITY_HIGH] = "HIGH",
	[PRIORITY_MEDIUM] = "MEDIUM",
	[PRIORITY_LOW] = "LOW"
};

const char *
snapshot_priority_name(SnapshotPriority priority)
{
	return priority_names[priority];
}

bool
snapshot_priority_parse(const char *name, SnapshotPriority *priority)
{
	for (int p = 0; p < PRIORITY_COUNT; p++)
	{
		if (strcmp(name, priority_names[p]) == 0)
		{
			*priority = (SnapshotPriority) p;
			return true;
		}
	}
	return false;
}

int64_t
boottime_ns(void)
{
	struct timespec now;

	/* Cannot fail on a kernel that has the clock, and every supported one does. */
	if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		abort();
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

Snapshot *
snapshot_begin(int64_t max_queues)
{
	Snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (snapshot == NULL)
		return NULL;
	atomic_init(&snapshot->references, 1);
	snapshot->max_queues = max_queues;
	return snapshot;
}

static void
snapshot_free(Snapshot *snapshot)
{
	body_free(&snapshot->body);
	text_free(&snapshot->names);
	free(snapshot->rows);
	free(snapshot->name_offsets);
	free(snapshot->extension_version);
	free(snapshot);
}

static bool
row_is_valid(const SnapshotRow *row)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
	{
		if (row->counters[i] < 0)
			return false;
	}
	for (int i = 0; i < TOTAL_COUNT; i++)
	{
		if (row->totals[i] < 0)
			return false;
	}
	for (int i = 0; i < AGE_COUNT; i++)
	{
		/* also false for NaN */
		if (!(row->ages[i] >= 0) || isinf(row->ages[i]))
			return false;
	}
	return true;
}

/*
 * Room for one more queue.
 */
static bool
grow(Snapshot *snapshot)
{
	int64_t capacity = snapshot->row_capacity * 2;
	SnapshotRow *rows;
	size_t *offsets;

	if (snapshot->queues < snapshot->row_capacity)
		return true;
	if (capacity == 0)
		capacity = 64;
	rows = realloc(snapshot->rows,
				   (size_t) capacity * PRIORITY_COUNT * sizeof(*rows));
	if (rows == NULL)
		return false;
	snapshot->rows = rows;
	offsets = realloc(snapshot->name_offsets, (size_t) capacity * sizeof(*offsets));
	if (offsets == NULL)
		return false;
	snapshot->name_offsets = offsets;
	snapshot->row_capacity = capacity;
	return true;
}

static SnapshotResult
open_queue(Snapshot *snapshot, const char *queue_name, int32_t queue_id)
{
	if (snapshot->open &&
		(queue_id < snapshot->open_id || snapshot->open_priorities != ALL_PRIORITIES))
		return SNAPSHOT_MALFORMED;

	snapshot->open = true;
	snapshot->open_id = queue_id;
	snapshot->open_priorities = 0;
	snapshot->open_dropped = snapshot->queues >= snapshot->max_queues;
	if (snapshot->open_dropped)
	{
		snapshot->dropped++;
		return SNAPSHOT_OK;
	}
	if (!grow(snapshot))
		return SNAPSHOT_NO_MEMORY;
	snapshot->name_offsets[snapshot->queues] = snapshot->names.length;
	text_bytes(&snapshot->names, queue_name, strlen(queue_name) + 1);
	if (snapshot->names.failed)
		return SNAPSHOT_NO_MEMORY;
	snapshot->queues++;
	return SNAPSHOT_OK;
}

SnapshotResult
snapshot_add(Snapshot *snapshot, const char *queue_name, const SnapshotRow *row)
{
	if (!row_is_valid(row))
		return SNAPSHOT_NEGATIVE;
	if ((unsigned) row->priority >= PRIORITY_COUNT)
		return SNAPSHOT_MALFORMED;
	if (!snapshot->open || row->queue_id != snapshot->open_id)
	{
		SnapshotResult result = open_queue(snapshot, queue_name, row->queue_id);

		if (result != SNAPSHOT_OK)
			return result;
	}
	if (snapshot->open_priorities & (1u << row->priority))
		return SNAPSHOT_MALFORMED;
	snapshot->open_priorities |= 1u << row->priority;
	if (!snapshot->open_dropped)
		snapshot->rows[(snapshot->queues - 1) * PRIORITY_COUNT + row->priority] = *row;
	return SNAPSHOT_OK;
}

SnapshotResult
snapshot_finish(Snapshot *snapshot, const SnapshotInfo *info, Totals *totals)
{
	if (snapshot->open && snapshot->open_priorities != ALL_PRIORITIES)
		return SNAPSHOT_MALFORMED;

	snapshot->info = *info;
	snapshot->extension_version = strdup(info->extension_version);
	if (snapshot->extension_version == NULL)
		return SNAPSHOT_NO_MEMORY;
	snapshot->info.extension_version = snapshot->extension_version;

	if (snapshot->queues > 0 && snapshot->queues < snapshot->row_capacity)
	{
		SnapshotRow *rows = realloc(snapshot->rows,
									(size_t) snapshot->queues * PRIORITY_COUNT *
										sizeof(*rows));

		if (rows != NULL)
			snapshot->rows = rows;
	}
	text_shrink(&snapshot->names);

	if (!totals_apply(totals, snapshot->rows, snapshot->queues))
		return SNAPSHOT_NO_MEMORY;
	snapshot->regressions = totals_regressions(totals);
	if (!body_render(&snapshot->body, snapshot))
		return SNAPSHOT_NO_MEMORY;
	return SNAPSHOT_OK;
}

/*
 * Put another snapshot, or none, in place of the current one.
 */
static void
replace_current(Snapshot *snapshot, int64_t deadline_ns)
{
	Snapshot *previous;

	pthread_rwlock_wrlock(&current_lock);
	previous = current;
	current = snapshot;
	current_deadline_ns = deadline_ns;
	pthread_rwlock_unlock(&current_lock);

	/* Freeing tens of megabytes takes time: never under the lock. */
	snapshot_release(previous);
}

void
snapshot_publish(Snapshot *snapshot, int64_t deadline_ns)
{
	replace_current(snapshot, deadline_ns);
}

void
snapshot_withdraw(void)
{
	replace_current(NULL, 0);
}

void
snapshot_extend(int64_t deadline_ns)
{
	pthread_rwlock_wrlock(&current_lock);
	if (current != NULL && deadline_ns > current_deadline_ns)
		current_deadline_ns = deadline_ns;
	pthread_rwlock_unlock(&current_lock);
}

Snapshot *
snapshot_acquire(int64_t now_ns)
{
	Snapshot *snapshot = NULL;

	pthread_rwlock_rdlock(&current_lock);
	if (current != NULL && now_ns < current_deadline_ns)
	{
		snapshot = current;
		snapshot_reference(snapshot);
	}
	pthread_rwlock_unlock(&current_lock);
	return snapshot;
}

bool
snapshot_is_served(int64_t now_ns)
{
	bool served;

	pthread_rwlock_rdlock(&current_lock);
	served = current != NULL && now_ns < current_deadline_ns;
	pthread_rwlock_unlock(&current_lock);
	return served;
}

void
snapshot_reference(Snapshot *snapshot)
{
	/* Whoever calls holds a reference or the lock, so it cannot be 0 here. */
	atomic_fetch_add_explicit(&snapshot->references, 1, memory_order_relaxed);
}

void
snapshot_release(Snapshot *snapshot)
{
	if (snapshot == NULL)
		return;

	/*
	 * Release, so that what this thread read comes before the free; acquire, so
	 * that the one who frees comes after what all others read.
	 */
	if (atomic_fetch_sub_explicit(&snapshot->references, 1,
								  memory_order_acq_rel) == 1)
		snapshot_free(snapshot);
}

const SnapshotInfo *
snapshot_info(const Snapshot *snapshot)
{
	return &snapshot->info;
}

int64_t
snapshot_queues(const Snapshot *snapshot)
{
	return snapshot->queues;
}

int64_t
snapshot_queues_dropped(const Snapshot *snapshot)
{
	return snapshot->dropped;
}

int64_t
snapshot_regressions(const Snapshot *snapshot)
{
	return snapshot->regressions;
}

const char *
snapshot_queue_name(const Snapshot *snapshot, int64_t queue)
{
	return snapshot->names.data + snapshot->name_offsets[queue];
}

const SnapshotRow *
snapshot_row(const Snapshot *snapshot, int64_t queue, SnapshotPriority priority)
{
	return &snapshot->rows[queue * PRIORITY_COUNT + priority];
}

const Body *
snapshot_body(const Snapshot *snapshot)
{
	return &snapshot->body;
}

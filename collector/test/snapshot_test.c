/*
 * snapshot_test.c
 *	  What is refused, what is kept, who may see it until when, and that readers
 *	  in other threads always see one whole snapshot.
 */
#include "tap.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "body.h"
#include "sample.h"
#include "snapshot.h"

static Totals *totals;

static Snapshot *
finished(int64_t base)
{
	Snapshot *snapshot = snapshot_begin(100);

	if (snapshot == NULL ||
		sample_queue(snapshot, 1, "a", base) != SNAPSHOT_OK ||
		sample_queue(snapshot, 2, "b", base) != SNAPSHOT_OK ||
		snapshot_finish(snapshot, &sample_info, totals) != SNAPSHOT_OK)
		abort();
	return snapshot;
}

static void
test_refused(void)
{
	SnapshotRow row;
	Snapshot *snapshot;

	for (int i = 0; i < COUNTER_COUNT + TOTAL_COUNT + AGE_COUNT; i++)
	{
		row = sample_row(1, PRIORITY_HIGH, 5);
		if (i < COUNTER_COUNT)
			row.counters[i] = -1;
		else if (i < COUNTER_COUNT + TOTAL_COUNT)
			row.totals[i - COUNTER_COUNT] = -1;
		else
			row.ages[i - COUNTER_COUNT - TOTAL_COUNT] = -0.5;
		snapshot = snapshot_begin(10);
		is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_NEGATIVE,
			   "a negative value is refused");
		snapshot_release(snapshot);
	}
	row = sample_row(1, PRIORITY_HIGH, 5);
	row.ages[0] = NAN;
	snapshot = snapshot_begin(10);
	is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_NEGATIVE, "an age that is no number");
	row.ages[0] = INFINITY;
	is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_NEGATIVE, "an endless age");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(10);
	row = sample_row(1, PRIORITY_HIGH, 5);
	snapshot_add(snapshot, "a", &row);
	is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_MALFORMED, "the same row twice");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(10);
	snapshot_add(snapshot, "a", &row);
	row.queue_id = 2;
	is_int(snapshot_add(snapshot, "b", &row), SNAPSHOT_MALFORMED,
		   "the next queue before all priorities of the last");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(10);
	snapshot_add(snapshot, "a", &row);
	is_int(snapshot_finish(snapshot, &sample_info, totals), SNAPSHOT_MALFORMED,
		   "the end before all priorities");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(10);
	is_int(sample_queue(snapshot, 7, "a", 1), SNAPSHOT_OK, "a queue");
	is_int(sample_queue(snapshot, 6, "b", 1), SNAPSHOT_MALFORMED, "an older one after it");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(10);
	row = sample_row(1, 0, 5);
	row.priority = (SnapshotPriority) PRIORITY_COUNT;
	is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_MALFORMED, "an unknown priority");
	snapshot_release(snapshot);
	snapshot_release(NULL);
}

static void
test_dropped(void)
{
	Snapshot *snapshot = snapshot_begin(2);
	SnapshotRow row;

	for (int q = 1; q <= 5; q++)
		sample_queue(snapshot, q, q < 3 ? "kept" : "dropped", 1);
	is_int(snapshot_finish(snapshot, &sample_info, totals), SNAPSHOT_OK, "too many queues");
	is_int(snapshot_queues(snapshot), 2, "as many as allowed are kept");
	is_int(snapshot_queues_dropped(snapshot), 3, "the others are counted");
	is_text(snapshot_queue_name(snapshot, 1), "kept", "the oldest are kept");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(0);
	row = sample_row(1, PRIORITY_HIGH, 5);
	row.counters[0] = -1;
	is_int(snapshot_add(snapshot, "a", &row), SNAPSHOT_NEGATIVE,
		   "a negative count in a dropped queue is refused all the same");
	snapshot_release(snapshot);
}

static int64_t
total_of(Totals *own, int32_t queue_id, int64_t value)
{
	Snapshot *snapshot = snapshot_begin(10);
	int64_t result;

	for (int p = 0; p < PRIORITY_COUNT; p++)
	{
		SnapshotRow row = { .queue_id = queue_id, .priority = (SnapshotPriority) p };

		row.totals[TOTAL_ENQUEUED] = value;
		snapshot_add(snapshot, "q", &row);
	}
	if (snapshot_finish(snapshot, &sample_info, own) != SNAPSHOT_OK)
		abort();
	result = snapshot_row(snapshot, 0, PRIORITY_LOW)->totals[TOTAL_ENQUEUED];
	is_int(snapshot_regressions(snapshot), totals_regressions(own),
		   "the snapshot carries the regressions");
	snapshot_release(snapshot);
	return result;
}

static void
test_totals(void)
{
	Totals *own = totals_create();

	is_int(total_of(own, 1, 100), 100, "a total");
	is_int(total_of(own, 1, 120), 120, "it grows");
	is_int(total_of(own, 1, 90), 120, "it falls: the old value stays");
	is_int(totals_regressions(own), 3, "one regression for each priority");
	is_int(total_of(own, 1, 95), 120, "it is still behind");
	is_int(totals_regressions(own), 3, "which is no new regression");
	is_int(total_of(own, 1, 120), 120, "it has caught up");
	is_int(total_of(own, 1, 121), 121, "it is overtaken");
	is_int(total_of(own, 1, 0), 121, "it falls again");
	is_int(totals_regressions(own), 6, "and that counts again");
	is_int(total_of(own, 2, 5), 5, "another queue under the same name starts anew");
	is_int(totals_regressions(own), 6, "which is no regression");
	totals_free(own);
	totals_free(NULL);
}

static void
test_publication(void)
{
	Snapshot *snapshot;
	Snapshot *held;

	ok(snapshot_acquire(0) == NULL, "nothing is published at first");
	snapshot_withdraw();
	snapshot_extend(1000);
	ok(snapshot_acquire(0) == NULL, "extending nothing gives nothing");

	snapshot = finished(1);
	snapshot_publish(snapshot, 500);
	held = snapshot_acquire(499);
	ok(held == snapshot, "within its deadline it is served");
	ok(snapshot_is_served(499), "and said to be");
	ok(snapshot_acquire(500) == NULL, "at the deadline it is not");
	ok(!snapshot_is_served(500), "nor said to be");
	snapshot_extend(600);
	snapshot_release(snapshot_acquire(599));
	ok(snapshot_is_served(599), "a round trip extends it");
	snapshot_extend(400);
	ok(snapshot_is_served(599), "the deadline does not move back");
	snapshot_withdraw();
	ok(snapshot_acquire(0) == NULL, "withdrawn is withdrawn");
	snapshot_extend(INT64_MAX);
	ok(snapshot_acquire(0) == NULL, "and does not come back");
	is_text(snapshot_queue_name(held, 0), "a", "a reader keeps what it holds");
	is_int(snapshot_info(held)->pending_rows, 3, "all of it");
	is_text(snapshot_info(held)->extension_version, "1.0", "strings as well");
	snapshot_release(held);
}

/* Readers against a publisher. */
static atomic_bool done;
static atomic_int mixed;
static atomic_int seen;

static void *
read_snapshots(void *argument)
{
	(void) argument;
	while (!atomic_load(&done))
	{
		Snapshot *snapshot = snapshot_acquire(1);
		const Body *body;
		int64_t base;

		if (snapshot == NULL)
			continue;
		base = snapshot_row(snapshot, 0, PRIORITY_HIGH)->counters[0];
		body = snapshot_body(snapshot);
		for (int q = 0; q < 2; q++)
		{
			for (int p = 0; p < PRIORITY_COUNT; p++)
			{
				if (snapshot_row(snapshot, q, p)->counters[0] != base + p * 100)
					atomic_fetch_add(&mixed, 1);
			}
		}
		/* touch the text too, as sending it would */
		if (body->plain[FORMAT_TEXT].length != body->text.length ||
			memchr(body->text.data, '#', body->text.length) == NULL)
			atomic_fetch_add(&mixed, 1);
		snapshot_release(snapshot);
		atomic_fetch_add(&seen, 1);
	}
	return NULL;
}

static void
test_threads(void)
{
	pthread_t readers[4];

	for (int i = 0; i < 4; i++)
	{
		if (pthread_create(&readers[i], NULL, read_snapshots, NULL) != 0)
			abort();
	}
	for (int round = 0; round < 400 || atomic_load(&seen) < 1000; round++)
	{
		snapshot_publish(finished(1000 + round), 1000);
		snapshot_extend(2000);
		if (round % 7 == 0)
			snapshot_withdraw();
	}
	atomic_store(&done, true);
	for (int i = 0; i < 4; i++)
		pthread_join(readers[i], NULL);
	snapshot_withdraw();
	is_int(atomic_load(&mixed), 0, "no reader saw parts of two snapshots");
}

/* Two views show the same samples; the format differs in announcements only. */
static void
test_views(void)
{
	Snapshot *snapshot = finished(50);
	const Body *body = snapshot_body(snapshot);

	for (int f = 0; f < 2; f++)
	{
		size_t sum = 0;

		for (int i = 0; i < body->plain[f].count; i++)
			sum += body->plain[f].parts[i].iov_len;
		is_int((long long) sum, (long long) body->plain[f].length, "a view is its parts");
	}
	ok(body->plain[FORMAT_OPENMETRICS].length < body->plain[FORMAT_TEXT].length,
	   "OpenMetrics announces counters without _total");
	snapshot_release(snapshot);

	snapshot = snapshot_begin(5);
	is_int(snapshot_finish(snapshot, &sample_info, totals), SNAPSHOT_OK,
		   "no queues at all is a snapshot");
	is_int(snapshot_queues(snapshot), 0, "of nothing");
	snapshot_release(snapshot);
}

/* Sanitizers take terabytes of address space for themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_MEMORY false
#else
#define LIMIT_MEMORY true
#endif

/*
 * Without memory a snapshot is refused, and what was exported stays as it was.
 */
static void
test_memory(void)
{
	struct rlimit before;
	struct rlimit tight;
	SnapshotResult result = SNAPSHOT_OK;
	Snapshot *served = finished(7);
	Snapshot *snapshot = snapshot_begin(100000);

	snapshot_publish(served, 1000);
	for (int q = 1; q <= 20000 && result == SNAPSHOT_OK; q++)
		result = sample_queue(snapshot, q, "a-name-as-long-as-most", q);
	is_int(result, SNAPSHOT_OK, "many rows");
	if (LIMIT_MEMORY)
	{
		if (getrlimit(RLIMIT_AS, &before) != 0)
			abort();
		tight = before;
		tight.rlim_cur = 1;
		if (setrlimit(RLIMIT_AS, &tight) != 0)
			abort();
		result = snapshot_finish(snapshot, &sample_info, totals);
		if (setrlimit(RLIMIT_AS, &before) != 0)
			abort();
		is_int(result, SNAPSHOT_NO_MEMORY, "and no memory to render them");
	}
	snapshot_release(snapshot);
	ok(snapshot_is_served(1), "the one before is still served");
	snapshot = snapshot_acquire(1);
	ok(snapshot == served, "the very same");
	snapshot_release(snapshot);
	snapshot_withdraw();
}

int
main(void)
{
	totals = totals_create();
	test_refused();
	test_dropped();
	test_totals();
	test_publication();
	test_threads();
	test_views();
	test_memory();
	totals_free(totals);
	return tap_done();
}

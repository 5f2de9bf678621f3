/*
 * watch.c
 *	  The watch over the leader's session, and how long a snapshot is served.
 *
 * The deadline that request handlers look at is the earliest of three: the
 * fence, the greatest age of a snapshot, and a short time after this thread
 * last saw its session alive.  It is moved on while this thread waits, and only
 * by this thread.
 */
#include "collector.h"

#include <stdio.h>

#include "clock.h"

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What bounds the time for which the current snapshot is served. */
int64_t
watch_serve_until(const struct collector *collector)
{
	int64_t age_ms = collector->read_ms +
					 collector->options->collector_snapshot_max_age;

	if (!collector->options->lease_enabled)
		return age_ms;
	return earlier(age_ms, earlier(collector->fence_ms,
								   collector->looked_ms + LOOK_LIMIT_MS));
}

/* The session was looked at and lives; worker_wait() calls this as it waits. */
void
watch_look(void *context)
{
	struct collector *collector = context;
	int64_t now_ms = clock_ms();

	if (now_ms - collector->looked_ms > LOOK_LIMIT_MS)
		collector->stale = true;
	collector->looked_ms = now_ms;
	if (collector->lease.state == LEASE_LEADER && !collector->stale)
		snapshot_extend(watch_serve_until(collector) * 1000000);
}

bool
watch_lose(struct outcome *outcome, LossReason loss, const char *text)
{
	outcome->event = LEASE_LOST;
	outcome->loss = loss;
	snprintf(outcome->text, sizeof(outcome->text), "%s", text);
	return false;
}

/*
 * Sleeps until the next tick of the interval, counted from the first refresh.
 * A tick that passed meanwhile is skipped, not made up.
 */
struct outcome
watch_until_tick(struct collector *collector)
{
	struct outcome outcome = { .event = LEASE_REFRESHED };
	int64_t interval_ms = collector->options->collector_interval;
	int64_t now_ms = clock_ms();
	int64_t due_ms;
	enum worker_wake wake;

	/* After a refresh ahead of time its tick is still to come. */
	if (now_ms >= collector->tick_ms)
		collector->tick_ms += interval_ms *
							  ((now_ms - collector->tick_ms) / interval_ms + 1);
	due_ms = collector->tick_ms;
	if (collector->options->lease_enabled)
		due_ms = earlier(due_ms, collector->fence_ms);

	/* After a freeze the lock is confirmed at once, not at the next tick. */
	do
		wake = database_idle(collector->database,
							 earlier(due_ms, clock_ms() + LOOK_LIMIT_MS / 4));
	while (wake == WORKER_DUE && clock_ms() < due_ms && !collector->stale);

	switch (wake)
	{
		case WORKER_READY:
			/* The lock is free already: nothing comes before this. */
			if (collector->options->lease_enabled)
				snapshot_withdraw();
			watch_lose(&outcome, LOSS_CONNECTION,
					   database_last_error(collector->database)->text);
			status_set_database_up(false);
			log_complaint(&collector->unreachable, LOG_LEVEL_WARN,
						  "lost the session with the database", outcome.text,
						  NULL);
			break;
		case WORKER_STOP:
			outcome.event = LEASE_STOPPED;
			break;
		case WORKER_DUE:
			if (collector->options->lease_enabled &&
				clock_ms() >= collector->fence_ms)
				watch_lose(&outcome, LOSS_FENCE,
						   "no good round trip within lease.fence");
			break;
	}
	return outcome;
}

/*
 * collect.c
 *	  The collecting loop: elects, reads, publishes.
 *
 * lease.c decides, candidacy.c, refresh.c and watch.c act and report what
 * happened, this file carries out what is decided.  What must hold:
 *
 *	- Whatever ends leadership withdraws the snapshot before it closes the
 *	  session, because the server gives the lock away the moment it sees that.
 *	- Between refreshes the session's socket is watched.
 *	- There is never more than one statement under way.
 */
#include "collect.h"

#include <sys/random.h>

#include "clock.h"
#include "collector.h"

/* First and longest wait between attempts to connect. */
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_CAP_MS 30000

/* Standbys try again this much earlier or later, so that they do not collide. */
#define RETRY_JITTER_PERCENT 10

static uint32_t
random_number(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint32_t) clock_ms() * 2654435761u;
	return number;
}

static void
log_loss(LossReason reason, const char *text)
{
	log_line(reason == LOSS_SHUTDOWN ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
			 "no longer the leader", "reason", status_loss_name(reason), "detail", text,
			 (char *) 0);
}

static enum lease_wait
carry_out(struct collector *collector, const struct outcome *outcome)
{
	enum lease_state before = collector->lease.state;
	struct lease_answer answer = lease_step(&collector->lease, outcome->event,
											outcome->loss);

	if (answer.actions & LEASE_WITHDRAW)
		snapshot_withdraw();
	if (answer.actions & LEASE_COUNT_ACQUIRED)
	{
		collector->stood_by = false;
		status_lease_acquired();
		log_info("leading");
		collector->tick_ms = clock_ms();
	}
	if (answer.actions & LEASE_COUNT_LOST)
	{
		status_lease_lost(answer.reason);
		log_loss(answer.reason, outcome->text);
	}
	if (answer.actions & LEASE_DISCONNECT)
		database_disconnect(collector->database);
	if (answer.actions & LEASE_EXIT_FAILED)
		collector->context->end_process(EXIT_CODE_FAILED);

	if (collector->lease.state != before)
		log_debug("state", "from", lease_state_name(before),
				  "to", lease_state_name(collector->lease.state));
	return answer.wait;
}

/* How long that is; LEASE_WAIT_INTERVAL is watch_until_tick()'s. */
static int64_t
wait_ms(struct collector *collector, enum lease_wait wait)
{
	int64_t retry_ms = collector->options->lease_retry_interval;

	switch (wait)
	{
		case LEASE_WAIT_BACKOFF:
			return backoff_next(&collector->backoff, random_number());
		case LEASE_WAIT_RETRY:
			return backoff_jitter(retry_ms, RETRY_JITTER_PERCENT,
								  random_number());
		case LEASE_WAIT_YIELD:
			/* A standby's longest wait is 1.1 times the interval. */
			return retry_ms * 13 / 10;
		case LEASE_WAIT_NONE:
		case LEASE_WAIT_INTERVAL:
			break;
	}
	return 0;
}

/* What to do next while not leading; waiting done before. */
static enum lease_event
attempt(struct collector *collector)
{
	if (collector->lease.state == LEASE_CONNECTING)
		return candidacy_connect(collector);
	return candidacy_try(collector);
}

static struct outcome
pause_standby(struct collector *collector, enum lease_wait wait)
{
	struct outcome outcome = { .event = LEASE_BUSY };
	int64_t until_ms = clock_ms() + wait_ms(collector, wait);
	enum worker_wake wake;

	if (collector->lease.state == LEASE_STANDBY)
		wake = database_idle(collector->database, until_ms);
	else
		wake = worker_wait(collector->worker, -1, 0, until_ms);

	if (wake == WORKER_STOP)
		outcome.event = LEASE_STOPPED;
	else if (wake == WORKER_READY)
	{
		outcome.event = LEASE_LOST;
		outcome.loss = LOSS_CONNECTION;
		status_set_database_up(false);
		log_complaint(&collector->unreachable, LOG_LEVEL_WARN,
					  "lost the session with the database",
					  database_last_error(collector->database)->text, NULL);
	}
	return outcome;
}

static void
loop(struct collector *collector)
{
	enum lease_wait wait = LEASE_WAIT_NONE;

	while (collector->lease.state != LEASE_ENDED)
	{
		struct outcome outcome = { .event = LEASE_STOPPED };

		if (worker_stopping(collector->worker))
			;
		else if (wait == LEASE_WAIT_INTERVAL)
		{
			outcome = watch_until_tick(collector);
			if (outcome.event == LEASE_REFRESHED)
				outcome = refresh(collector);
		}
		else
		{
			if (wait != LEASE_WAIT_NONE)
			{
				outcome = pause_standby(collector, wait);
				if (outcome.event != LEASE_BUSY)
				{
					wait = carry_out(collector, &outcome);
					continue;
				}
			}
			if (collector->lease.state == LEASE_LEADER)
				outcome = refresh(collector);
			else
				outcome.event = attempt(collector);
			if (worker_stopping(collector->worker))
				outcome.event = LEASE_STOPPED;
		}
		wait = carry_out(collector, &outcome);
	}
}

void
collect_run(struct worker *worker, void *context)
{
	struct collector collector = {
		.worker = worker,
		.context = context
	};

	collector.options = collector.context->options;
	lease_init(&collector.lease, collector.options->lease_enabled,
			   collector.options->collector_on_failure == ON_FAILURE_EXIT);
	backoff_init(&collector.backoff,
				 collector.options->lease_retry_interval < BACKOFF_FIRST_MS ?
					 collector.options->lease_retry_interval :
					 BACKOFF_FIRST_MS,
				 BACKOFF_CAP_MS);
	collector.totals = totals_create();
	collector.database = database_create(collector.options, "collect",
										 collector.context->instance, worker);
	if (collector.totals == NULL || collector.database == NULL)
	{
		log_error("out of memory");
		collector.context->end_process(EXIT_CODE_SYSTEM);
	}
	else
	{
		worker->on_quiet = watch_look;
		worker->quiet_context = &collector;
		loop(&collector);
	}

	database_destroy(collector.database);
	totals_free(collector.totals);
}

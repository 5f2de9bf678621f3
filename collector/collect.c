/*
 * collect.c
 *	  The collecting loop: elects, reads, publishes.
 *
 * lease.c decides, reading.c asks, this file carries out.  What must hold:
 *
 *	- A snapshot is published only with a deadline counted from the time at
 *	  which a check of the lock was sent that came back good.  The request
 *	  handlers look at that deadline, so a frozen process stops exporting
 *	  without running a line of this file.
 *	- Whatever ends leadership withdraws the snapshot before it closes the
 *	  session, because the server gives the lock away the moment it sees that.
 *	- Between refreshes the session's socket is watched.
 */
#include "collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "backoff.h"
#include "clock.h"
#include "database.h"
#include "lease.h"
#include "log.h"
#include "maintenance.h"
#include "reading.h"
#include "snapshot.h"
#include "status.h"

/* First and longest wait between attempts to connect. */
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_CAP_MS 30000

/*
 * How long the collecting thread may not have looked at its session for the
 * snapshot still to be served.  A process that was frozen for longer answers
 * as a standby when it thaws, until the lock has been confirmed: its session
 * may have ended meanwhile, and the request threads may run first.
 */
#define LOOK_LIMIT_MS 2000

/*
 * From taking the lock to exporting.  A lock that comes free because a session
 * ended is seen by its leader at the same moment as by us; this is its head
 * start for withdrawing its series.
 */
#define SETTLE_MS 250
#define SETTLE_LOOK_MS 50

/* Standbys try again this much earlier or later, so that they do not collide. */
#define RETRY_JITTER_PERCENT 10

struct collector
{
	struct worker *worker;
	const struct collect_context *context;
	const struct options *options;
	struct database *database;
	struct lease lease;
	struct backoff backoff;
	Totals	   *totals;
	struct reading_extension extension;
	int64_t		tick_ms;		/* when the last refresh was due */
	int64_t		fence_ms;		/* when the lease counts as lost; leader only */
	int64_t		read_ms;		/* when the current snapshot was asked for */
	int64_t		looked_ms;		/* when the session was last seen alive */
	bool		stale;			/* it was out of sight for too long */
	bool		stood_by;		/* said once that another one leads */

	/* Conditions that are logged when they come and when they go. */
	struct log_complaint unreachable;
	struct log_complaint refused;
	struct log_complaint failing;
	struct log_complaint no_fold;
};

static uint32_t
random_number(void)
{
	uint32_t	number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint32_t) clock_ms() * 2654435761u;
	return number;
}

static int64_t
wall_time_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/*
 * A refresh has the statement timeout for itself and half of what the fence
 * leaves over, for the network; the server's own timeout comes first, so that
 * a slow statement is told from a dead link.
 */
static int64_t
refresh_budget(const struct options *options)
{
	int64_t		spare = options->lease_fence - options->collector_interval -
		options->database_statement_timeout;

	if (!options->lease_enabled)
		spare = options->database_statement_timeout / 2;
	return options->database_statement_timeout + spare / 2;
}

/* --- the watch over the session --- */

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What bounds the time for which the current snapshot is served. */
static int64_t
serve_until(const struct collector *collector)
{
	int64_t		age_ms = collector->read_ms +
		collector->options->collector_snapshot_max_age;

	if (!collector->options->lease_enabled)
		return age_ms;
	return earlier(age_ms, earlier(collector->fence_ms,
								   collector->looked_ms + LOOK_LIMIT_MS));
}

/* The session was looked at and lives; worker_wait() calls this as it waits. */
static void
look(void *context)
{
	struct collector *collector = context;
	int64_t		now_ms = clock_ms();

	if (now_ms - collector->looked_ms > LOOK_LIMIT_MS)
		collector->stale = true;
	collector->looked_ms = now_ms;
	if (collector->lease.state == LEASE_LEADER && !collector->stale)
		snapshot_extend(serve_until(collector) * 1000000);
}

/* --- becoming able to lead --- */

static enum lease_event
refuse(struct collector *collector, FailureReason reason, const char *detail,
	   const char *hint)
{
	status_attempt_failed(reason);
	status_set_message(detail);
	log_complaint(&collector->refused, LOG_LEVEL_ERROR, "cannot lead", detail,
				  hint);
	return LEASE_REFUSED;
}

static enum lease_event
try_connect(struct collector *collector)
{
	if (database_connect(collector->database))
	{
		backoff_reset(&collector->backoff);
		status_set_database_up(true);
		log_recovery(&collector->unreachable, "the database answers again");
		log_info("connected to the database", "backend_pid",
				 LOG_NUMBER(database_backend_pid(collector->database)));
		return LEASE_CONNECTED;
	}
	if (!worker_stopping(collector->worker))
	{
		const struct database_error *error = database_last_error(collector->database);

		status_set_database_up(false);
		status_attempt_failed(error->reason);
		status_set_message(error->text);
		log_complaint(&collector->unreachable, LOG_LEVEL_ERROR,
					  "cannot connect to the database", error->text, error->hint);
	}
	return LEASE_UNREACHABLE;
}

/* The statement failed: is the session gone, or is something amiss? */
static enum lease_event
statement_failed(struct collector *collector)
{
	const struct database_error *error = database_last_error(collector->database);

	if (database_is_connected(collector->database))
		return refuse(collector, error->reason, error->text, error->hint);
	if (!worker_stopping(collector->worker))
	{
		status_set_database_up(false);
		status_attempt_failed(error->reason);
		status_set_message(error->text);
		log_complaint(&collector->unreachable, LOG_LEVEL_ERROR,
					  "lost the session with the database", error->text,
					  error->hint);
	}
	return LEASE_LOST;
}

static enum lease_event
check_extension(struct collector *collector, int64_t deadline_ms)
{
	struct reading_extension *extension = &collector->extension;
	char		text[256];

	if (!reading_check_extension(collector->database, deadline_ms, extension))
		return statement_failed(collector);
	if (extension->version[0] == '\0')
		return refuse(collector, FAILURE_SCHEMA,
					  "the extension queue_state is not installed in this database",
					  "Run CREATE EXTENSION queue_state, or connect to the database that has it.");
	if (!reading_version_supported(extension->version))
	{
		snprintf(text, sizeof(text),
				 "the extension queue_state is version %s, this collector is %s",
				 extension->version, RETSU_VERSION);
		return refuse(collector, FAILURE_SCHEMA, text,
					  "Run the collector of the same major version.");
	}
	if (!extension->may_read)
		return refuse(collector, FAILURE_PERMISSION,
					  "the role may not execute queue_state.snapshot()",
					  "Run GRANT pg_monitor TO the collector's role.");
	return LEASE_GRANTED;
}

static enum lease_event
check_session(struct collector *collector, int64_t deadline_ms)
{
	struct reading_lease lease;

	if (database_is_pooled(collector->database) &&
		!collector->options->database_allow_pooler)
		return refuse(collector, FAILURE_OTHER,
					  "another server process answers than the one connected to: "
					  "a connection pooler is between, and a lock taken through it has no owner",
					  "Connect to the server itself, or set --database.allow-pooler if the pooler is in session mode.");

	if (!reading_check_lease(collector->database, collector->context->instance,
							 deadline_ms, &lease))
		return statement_failed(collector);
	if (lease.in_recovery)
		return refuse(collector, FAILURE_OTHER,
					  "the server is a standby server; its locks are its own",
					  "Connect to the primary, for instance with target_session_attrs=read-write.");

	/*
	 * Seen before the lock is tried: taking a lock that this server process
	 * already holds would succeed, whoever took it first.
	 */
	if (lease.locked || !lease.same_session ||
		lease.backend_pid != database_backend_pid(collector->database))
		return refuse(collector, FAILURE_OTHER,
					  "the server process changes between statements: "
					  "the connection pooler is in transaction mode",
					  "Connect to the server itself, or to a pool in session mode.");
	return LEASE_GRANTED;
}

/*
 * The lock is ours.  Before anything is exported its former holder must have
 * stopped: a leader whose session still lives has not noticed that its lock is
 * gone.  Ending its session makes it notice; if that is not permitted, it
 * finds out by its next refresh, and is past its fence in any case after that
 * time.
 */
static enum lease_event
settle(struct collector *collector)
{
	int64_t		limit_ms = clock_ms() + collector->options->lease_fence;
	int64_t		settled_ms = clock_ms() + SETTLE_MS;
	int64_t		warned_pid = 0;

	if (!reading_announce(collector->database, collector->context->instance,
						  limit_ms))
		return statement_failed(collector);

	for (;;)
	{
		int64_t		pid;

		if (!reading_find_predecessor(collector->database, limit_ms, &pid))
			return statement_failed(collector);
		if (pid != 0 && pid != warned_pid)
		{
			log_warn("the former leader has lost the lease without knowing; ending its session",
					 "backend_pid", LOG_NUMBER(pid));
			warned_pid = pid;
			if (!reading_end_session(collector->database, limit_ms, pid) &&
				!database_is_connected(collector->database))
				return statement_failed(collector);
		}
		if (pid != 0)
			settled_ms = clock_ms() + SETTLE_MS;
		if (clock_ms() >= settled_ms || clock_ms() >= limit_ms)
			return LEASE_GRANTED;
		switch (database_idle(collector->database, clock_ms() + SETTLE_LOOK_MS))
		{
			case WORKER_DUE:
				break;
			case WORKER_STOP:
				return LEASE_STOPPED;
			case WORKER_READY:
				return LEASE_LOST;
		}
	}
}

static enum lease_event
try_to_lead(struct collector *collector)
{
	int64_t		deadline_ms = clock_ms() + refresh_budget(collector->options);
	enum lease_event event;
	bool		taken;

	if (collector->options->lease_enabled)
	{
		event = check_session(collector, deadline_ms);
		if (event != LEASE_GRANTED)
			return event;
	}
	event = check_extension(collector, deadline_ms);
	if (event != LEASE_GRANTED)
		return event;

	status_set_database_up(true);
	log_recovery(&collector->refused, "can lead again");
	status_set_message("");
	if (!collector->options->lease_enabled)
		return LEASE_GRANTED;
	if (!reading_try_lock(collector->database, deadline_ms, &taken))
		return statement_failed(collector);
	if (taken)
		return settle(collector);
	if (!collector->stood_by)
		log_info("standing by, another collector leads");
	collector->stood_by = true;
	return LEASE_BUSY;
}

/* --- leading --- */

/* What a refresh came to. */
struct outcome
{
	enum lease_event event;
	LossReason	loss;			/* of LEASE_LOST */
	FailureReason reason;		/* of LEASE_REFRESH_FAILED */
	bool		no_memory;		/* it failed in this process, not over there */
	char		text[512];
};

static bool
fail_by_error(struct collector *collector, struct outcome *outcome)
{
	const struct database_error *error = database_last_error(collector->database);

	outcome->event = LEASE_REFRESH_FAILED;
	outcome->reason = error->reason;
	snprintf(outcome->text, sizeof(outcome->text), "%s", error->text);
	return false;
}

static bool
lose(struct outcome *outcome, LossReason loss, const char *text)
{
	outcome->event = LEASE_LOST;
	outcome->loss = loss;
	snprintf(outcome->text, sizeof(outcome->text), "%s", text);
	return false;
}

/* Does the server still see this session as the holder of the lease? */
static bool
confirm_lease(struct collector *collector, int64_t deadline_ms,
			  struct outcome *outcome)
{
	struct reading_lease lease;

	/* An answer that was asked for before a freeze says nothing any more. */
	do
	{
		collector->stale = false;
		collector->looked_ms = clock_ms();
		if (!reading_check_lease(collector->database,
								 collector->context->instance, deadline_ms,
								 &lease))
			return fail_by_error(collector, outcome);
		collector->fence_ms = database_sent_ms(collector->database) +
			collector->options->lease_fence;
		if (clock_ms() - collector->looked_ms > LOOK_LIMIT_MS)
			collector->stale = true;
	} while (collector->stale);

	if (!collector->options->lease_enabled)
		return true;
	if (lease.in_recovery)
		return lose(outcome, LOSS_RECOVERY, "the server has become a standby server");
	if (lease.backend_pid != database_backend_pid(collector->database) ||
		!lease.same_session)
		return lose(outcome, LOSS_LOCK,
					"another server process answers: the connection pooler is in transaction mode");
	if (!lease.locked)
		return lose(outcome, LOSS_LOCK,
					"the session no longer holds the advisory lock");
	return true;
}

/* Folding is a service to the reading; the reading does not depend on it. */
static bool
fold(struct collector *collector, int64_t deadline_ms, int64_t *pending_rows,
	 struct outcome *outcome)
{
	int64_t		folded;

	*pending_rows = -1;
	if (!collector->extension.may_fold)
		log_complaint(&collector->no_fold, LOG_LEVEL_WARN,
					  "pending rows are not folded",
					  "the role may not execute queue_state.fold_pending()",
					  "Grant EXECUTE on it, or have another role call it now and then.");
	else if (reading_fold(collector->database, deadline_ms, &folded))
	{
		log_recovery(&collector->no_fold, "pending rows are folded again");
		if (folded > 0)
			log_debug("folded pending rows", "rows", LOG_NUMBER(folded));
	}
	else if (database_is_connected(collector->database))
		log_complaint(&collector->no_fold, LOG_LEVEL_WARN,
					  "pending rows are not folded",
					  database_last_error(collector->database)->text,
					  database_last_error(collector->database)->hint);
	else
		return fail_by_error(collector, outcome);

	if (collector->extension.may_count_pending &&
		!reading_count_pending(collector->database, deadline_ms, pending_rows))
	{
		*pending_rows = -1;
		if (!database_is_connected(collector->database))
			return fail_by_error(collector, outcome);
	}
	return true;
}

static bool
fail_by_result(SnapshotResult result, struct outcome *outcome)
{
	outcome->event = LEASE_REFRESH_FAILED;
	outcome->no_memory = result == SNAPSHOT_NO_MEMORY;
	outcome->reason = outcome->no_memory ? FAILURE_RESOURCE :
		FAILURE_NEGATIVE_COUNT;
	snprintf(outcome->text, sizeof(outcome->text), "%s",
			 outcome->no_memory ? "out of memory" :
			 "the reading is not one row for each queue and priority");
	return false;
}

/* Reads, renders and returns the snapshot, or NULL with *outcome filled. */
static Snapshot *
read_snapshot(struct collector *collector, int64_t deadline_ms,
			  int64_t pending_rows, struct outcome *outcome)
{
	Snapshot   *snapshot = snapshot_begin(collector->options->collector_max_queues);
	SnapshotInfo info = {
		.wall_time_us = wall_time_us(),
		.pending_rows = pending_rows,
		.drift = maintenance_drift(),
		.extension_version = collector->extension.version
	};
	SnapshotResult result;

	if (snapshot == NULL)
	{
		fail_by_result(SNAPSHOT_NO_MEMORY, outcome);
		return NULL;
	}
	if (!reading_snapshot(collector->database, deadline_ms, snapshot,
						  &outcome->reason, outcome->text, sizeof(outcome->text)))
	{
		outcome->event = LEASE_REFRESH_FAILED;
		outcome->no_memory = outcome->reason == FAILURE_RESOURCE &&
			database_is_connected(collector->database) &&
			database_last_error(collector->database)->sqlstate[0] == '\0';
		snapshot_release(snapshot);
		return NULL;
	}
	info.sent_boottime_ns = database_sent_ms(collector->database) * 1000000;
	result = snapshot_finish(snapshot, &info, collector->totals);
	if (result != SNAPSHOT_OK)
	{
		fail_by_result(result, outcome);
		snapshot_release(snapshot);
		return NULL;
	}
	return snapshot;
}

static void
report_regressions(struct collector *collector, int64_t before)
{
	int64_t		after = totals_regressions(collector->totals);

	if (after > before)
		log_warn("event totals are lower than exported before; the old values stay until overtaken",
				 "totals", LOG_NUMBER(after - before),
				 "hint", "The database was restored, or failed over with loss.");
}

static bool
refresh_steps(struct collector *collector, struct outcome *outcome)
{
	const struct options *options = collector->options;
	int64_t		deadline_ms = clock_ms() + refresh_budget(options);
	int64_t		regressions = totals_regressions(collector->totals);
	int64_t		pending_rows;
	Snapshot   *snapshot;

	if (!confirm_lease(collector, deadline_ms, outcome))
		return false;
	if (options->lease_enabled)
		snapshot_extend(serve_until(collector) * 1000000);

	if (!fold(collector, deadline_ms, &pending_rows, outcome))
		return false;
	snapshot = read_snapshot(collector, deadline_ms, pending_rows, outcome);
	if (snapshot == NULL)
		return false;

	report_regressions(collector, regressions);

	look(collector);
	if (collector->stale && !confirm_lease(collector, deadline_ms, outcome))
	{
		snapshot_release(snapshot);
		return false;
	}
	collector->read_ms = snapshot_info(snapshot)->sent_boottime_ns / 1000000;
	snapshot_publish(snapshot, serve_until(collector) * 1000000);
	return true;
}

static struct outcome
refresh(struct collector *collector)
{
	struct outcome outcome = {.event = LEASE_REFRESHED};
	int64_t		begun_ns = boottime_ns();
	int64_t		duration_ns;

	if (refresh_steps(collector, &outcome))
	{
		status_collection_succeeded(boottime_ns() - begun_ns);
		status_set_database_up(true);
		status_set_message("");
		log_recovery(&collector->failing, "refreshes succeed again");
		return outcome;
	}
	if (worker_stopping(collector->worker))
	{
		outcome.event = LEASE_STOPPED;
		return outcome;
	}
	duration_ns = boottime_ns() - begun_ns;
	status_set_message(outcome.text);
	if (outcome.event == LEASE_REFRESH_FAILED)
	{
		status_collection_failed(outcome.reason, duration_ns);
		if (outcome.reason == FAILURE_CONNECTION)
			status_set_database_up(false);
		log_complaint(&collector->failing, LOG_LEVEL_ERROR, "a refresh failed",
					  outcome.text,
					  database_last_error(collector->database)->hint);

		/*
		 * The lease is ours and the database is well: the snapshot there is
		 * goes on being served, for as long as its age allows.
		 */
		if (outcome.no_memory)
			outcome.event = LEASE_REFRESHED;
	}
	return outcome;
}

/*
 * Sleeps until the next tick of the interval, counted from the first refresh.
 * A tick that passed meanwhile is skipped, not made up.
 */
static struct outcome
wait_for_tick(struct collector *collector)
{
	struct outcome outcome = {.event = LEASE_REFRESHED};
	int64_t		interval_ms = collector->options->collector_interval;
	int64_t		now_ms = clock_ms();
	int64_t		due_ms;
	enum worker_wake wake;

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
			lose(&outcome, LOSS_CONNECTION,
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
				lose(&outcome, LOSS_FENCE,
					 "no good round trip within lease.fence");
			break;
	}
	return outcome;
}

/* --- carrying out what lease.c decides --- */

static void
log_loss(LossReason reason, const char *text)
{
	static const char *const names[LOSS_COUNT] = {
		[LOSS_CONNECTION] = "connection",
		[LOSS_REFRESH] = "refresh",
		[LOSS_LOCK] = "lock",
		[LOSS_RECOVERY] = "recovery",
		[LOSS_FENCE] = "fence",
		[LOSS_SHUTDOWN] = "shutdown"
	};

	log_line(reason == LOSS_SHUTDOWN ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
			 "no longer the leader", "reason", names[reason], "detail", text,
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

/* How long that is; LEASE_WAIT_INTERVAL is wait_for_tick()'s. */
static int64_t
wait_ms(struct collector *collector, enum lease_wait wait)
{
	int64_t		retry_ms = collector->options->lease_retry_interval;

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
		return try_connect(collector);
	return try_to_lead(collector);
}

static struct outcome
pause_standby(struct collector *collector, enum lease_wait wait)
{
	struct outcome outcome = {.event = LEASE_BUSY};
	int64_t		until_ms = clock_ms() + wait_ms(collector, wait);
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
		struct outcome outcome = {.event = LEASE_STOPPED};

		if (worker_stopping(collector->worker))
			;
		else if (wait == LEASE_WAIT_INTERVAL)
		{
			outcome = wait_for_tick(collector);
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
				 collector.options->lease_retry_interval : BACKOFF_FIRST_MS,
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
		worker->on_quiet = look;
		worker->quiet_context = &collector;
		loop(&collector);
	}

	database_destroy(collector.database);
	totals_free(collector.totals);
}

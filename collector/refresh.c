/*
 * refresh.c
 *	  One refresh: confirm the lease, fold, read, publish.
 *
 * A snapshot is published only with a deadline counted from the time at which
 * a check of the lock was sent that came back good, and only if the session has
 * not been out of sight since.
 */
#include "collector.h"

#include <stdio.h>
#include <time.h>

#include "clock.h"
#include "maintenance.h"

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
int64_t
refresh_budget(const struct options *options)
{
	int64_t spare = options->lease_fence - options->collector_interval -
					options->database_statement_timeout;

	if (!options->lease_enabled)
		spare = options->database_statement_timeout / 2;
	return options->database_statement_timeout + spare / 2;
}

static bool
fail_by_error(struct collector *collector, struct outcome *outcome)
{
	const struct database_error *error = database_last_error(collector->database);

	outcome->event = LEASE_REFRESH_FAILED;
	outcome->reason = error->reason;
	snprintf(outcome->text, sizeof(outcome->text), "%s", error->text);
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
		return watch_lose(outcome, LOSS_RECOVERY, "the server has become a standby server");
	if (lease.backend_pid != database_backend_pid(collector->database) ||
		!lease.same_session)
		return watch_lose(outcome, LOSS_LOCK,
						  "another server process answers: the connection pooler is in transaction mode");
	if (!lease.locked)
		return watch_lose(outcome, LOSS_LOCK,
						  "the session no longer holds the advisory lock");
	return true;
}

/* Looked at each time: it may be updated, and grants come and go. */
static bool
check_extension(struct collector *collector, int64_t deadline_ms,
				struct outcome *outcome)
{
	struct reading_problem problem;

	if (!reading_check_extension(collector->database, deadline_ms,
								 &collector->extension))
		return fail_by_error(collector, outcome);
	if (reading_extension_usable(&collector->extension, &problem))
		return true;
	outcome->event = LEASE_REFRESH_FAILED;
	outcome->reason = problem.reason;
	snprintf(outcome->text, sizeof(outcome->text), "%s", problem.text);
	return false;
}

/* Folding is a service to the reading; the reading does not depend on it. */
static bool
fold(struct collector *collector, int64_t deadline_ms, int64_t *pending_rows,
	 struct outcome *outcome)
{
	int64_t folded;

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
	Snapshot *snapshot = snapshot_begin(collector->options->collector_max_queues);
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
	int64_t after = totals_regressions(collector->totals);

	if (after > before)
		log_warn("event totals are lower than exported before; the old values stay until overtaken",
				 "totals", LOG_NUMBER(after - before),
				 "hint", "The database was restored, or failed over with loss.");
}

static bool
refresh_steps(struct collector *collector, struct outcome *outcome)
{
	const struct options *options = collector->options;
	int64_t deadline_ms = clock_ms() + refresh_budget(options);
	int64_t regressions = totals_regressions(collector->totals);
	int64_t pending_rows;
	Snapshot *snapshot;

	if (!confirm_lease(collector, deadline_ms, outcome))
		return false;
	if (options->lease_enabled)
		snapshot_extend(watch_serve_until(collector) * 1000000);

	if (!check_extension(collector, deadline_ms, outcome) ||
		!fold(collector, deadline_ms, &pending_rows, outcome))
		return false;
	snapshot = read_snapshot(collector, deadline_ms, pending_rows, outcome);
	if (snapshot == NULL)
		return false;

	report_regressions(collector, regressions);

	watch_look(collector);
	if (collector->stale && !confirm_lease(collector, deadline_ms, outcome))
	{
		snapshot_release(snapshot);
		return false;
	}
	collector->read_ms = snapshot_info(snapshot)->sent_boottime_ns / 1000000;
	snapshot_publish(snapshot, watch_serve_until(collector) * 1000000);
	return true;
}

struct outcome
refresh(struct collector *collector)
{
	struct outcome outcome = { .event = LEASE_REFRESHED };
	int64_t begun_ns = boottime_ns();
	int64_t duration_ns;

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

/*
 * candidacy.c
 *	  From no session to the lease: connect, check, take the lock, settle.
 *
 * Whatever keeps this replica from leading is said in the log once, with what
 * to do about it, counted by reason, and tried again: a grant or a CREATE
 * EXTENSION takes effect without a restart.
 */
#include "collector.h"

#include <stdio.h>

#include "clock.h"

/*
 * From taking the lock to exporting.  A lock that comes free because a session
 * ended is seen by its leader at the same moment as by us; this is its head
 * start for withdrawing its series.
 */
#define SETTLE_MS 250
#define SETTLE_LOOK_MS 50

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

enum lease_event
candidacy_connect(struct collector *collector)
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
	struct reading_problem problem;

	if (!reading_check_extension(collector->database, deadline_ms,
								 &collector->extension))
		return statement_failed(collector);
	if (!reading_extension_usable(&collector->extension, &problem))
		return refuse(collector, problem.reason, problem.text, problem.hint);
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
	int64_t limit_ms = clock_ms() + collector->options->lease_fence;
	int64_t settled_ms = clock_ms() + SETTLE_MS;
	int64_t warned_pid = 0;

	if (!reading_announce(collector->database, collector->context->instance,
						  limit_ms))
		return statement_failed(collector);

	for (;;)
	{
		int64_t pid;

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

enum lease_event
candidacy_try(struct collector *collector)
{
	int64_t deadline_ms = clock_ms() + refresh_budget(collector->options);
	enum lease_event event;
	bool taken;

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

/*
 * maintenance.c
 *	  The maintenance thread: cleans up and verifies while this replica leads.
 *
 * Each statement takes a bounded batch in a transaction of its own.  While
 * batches come back full the next follows after a short pause, so a backlog
 * is worked off without ever holding many row locks or filling the log with
 * one huge transaction.  The functions are safe to be run by several callers
 * at once; leading only keeps replicas from doing the same work twice.
 */
#include "maintenance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "database.h"
#include "log.h"
#include "snapshot.h"
#include "status.h"

#define BATCH_ROWS 500
#define BATCH_PAUSE_MS 50

/* How often a thread with nothing to do looks whether it leads now. */
#define LOOK_MS 500

static atomic_int_fast64_t drift = -1;

struct maintenance
{
	struct worker *worker;
	const struct options *options;
	struct database *database;
	int64_t clean_due_ms;
	int64_t verify_due_ms;
	bool permitted[MAINTENANCE_COUNT];
	bool may_verify;

	struct log_complaint unreachable;
	struct log_complaint not_permitted;
	struct log_complaint failing[MAINTENANCE_COUNT];
	struct log_complaint not_verified;
	struct log_complaint drifting;
};

int64_t
maintenance_drift(void)
{
	return atomic_load(&drift);
}

static int64_t
statement_deadline(const struct maintenance *maintenance)
{
	/* The server's own timeout comes first, the margin is for the network. */
	return clock_ms() + maintenance->options->database_statement_timeout * 3 / 2;
}

static void
task_statement(const struct maintenance *maintenance, MaintenanceTask task,
			   char *sql, size_t size)
{
	const struct options *options = maintenance->options;

	switch (task)
	{
		case MAINTENANCE_EXPIRE:
			snprintf(sql, size,
					 "SELECT pg_catalog.sum(never_delivered + previously_delivered)"
					 " FROM queue_state.expire_messages(%d)",
					 BATCH_ROWS);
			break;
		case MAINTENANCE_DEAD_LETTER:
			snprintf(sql, size, "SELECT queue_state.dead_letter_exhausted(%d)",
					 BATCH_ROWS);
			break;
		case MAINTENANCE_PURGE:
			snprintf(sql, size,
					 "SELECT pg_catalog.sum(purged) FROM queue_state.purge_dead_letters("
					 "pg_catalog.make_interval(secs => %lld / 1000.0), %d)",
					 (long long) options->maintenance_dead_letter_retention,
					 BATCH_ROWS);
			break;
		case MAINTENANCE_FORGET:
		case MAINTENANCE_COUNT:
			snprintf(sql, size,
					 "SELECT queue_state.forget_processed("
					 "pg_catalog.make_interval(secs => %lld / 1000.0), %d)",
					 (long long) options->maintenance_processed_retention,
					 BATCH_ROWS);
			break;
	}
}

static bool
read_permission(const struct database_row *row, void *context)
{
	struct maintenance *maintenance = context;
	const char *name = database_value(row, 0);

	if (name == NULL)
		return true;
	if (strcmp(name, "verify") == 0)
		maintenance->may_verify = true;
	for (int task = 0; task < MAINTENANCE_COUNT; task++)
	{
		if (strcmp(name, status_task_name(task)) == 0)
			maintenance->permitted[task] = true;
	}
	return true;
}

/* Looked up each round: a grant takes effect without a restart. */
static bool
check_permissions(struct maintenance *maintenance)
{
	memset(maintenance->permitted, 0, sizeof(maintenance->permitted));
	maintenance->may_verify = false;
	return database_run(maintenance->database,
						"SELECT p.proname FROM pg_catalog.pg_proc p"
						" JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
						" WHERE n.nspname = 'queue_state' AND p.proname IN"
						" ('expire_messages', 'dead_letter_exhausted',"
						"  'purge_dead_letters', 'forget_processed', 'verify')"
						" AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')"
						" AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')",
						statement_deadline(maintenance), read_permission,
						maintenance);
}

static void
report_permissions(struct maintenance *maintenance)
{
	char missing[256] = "the role may not execute";
	bool any = false;

	for (int task = 0; task < MAINTENANCE_COUNT; task++)
	{
		if (maintenance->permitted[task])
			continue;
		snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing),
				 "%s %s()", any ? "," : "", status_task_name(task));
		any = true;
	}
	if (any)
		log_complaint(&maintenance->not_permitted, LOG_LEVEL_WARN,
					  "maintenance is incomplete", missing,
					  "Grant EXECUTE on them in schema queue_state, or set --no-maintenance.enabled.");
	else
		log_recovery(&maintenance->not_permitted, "maintenance is permitted");
}

/* One batch; the number of rows, or -1 when it failed. */
static int64_t
run_batch(struct maintenance *maintenance, MaintenanceTask task)
{
	struct log_complaint *failing = &maintenance->failing[task];
	char sql[256];
	int64_t rows;

	task_statement(maintenance, task, sql, sizeof(sql));
	if (database_run_number(maintenance->database, sql,
							statement_deadline(maintenance), &rows))
	{
		status_maintenance_batch(task, rows);
		log_recovery(failing, "maintenance succeeds again");
		return rows;
	}
	if (!worker_stopping(maintenance->worker))
	{
		char detail[600];

		status_maintenance_failed(task);
		snprintf(detail, sizeof(detail), "%s(): %s", status_task_name(task),
				 database_last_error(maintenance->database)->text);
		log_complaint(failing, LOG_LEVEL_WARN, "maintenance failed", detail,
					  database_last_error(maintenance->database)->hint);
	}
	return -1;
}

/*
 * The lease may have gone while a batch ran.  The fence is asked as well: the
 * thread that counts losses could be the one that hangs.
 */
static bool
leads(void)
{
	return status_leads() && snapshot_is_served(boottime_ns());
}

/* Batches of each task in turn, until none comes back full. */
static void
clean(struct maintenance *maintenance)
{
	int64_t rows[MAINTENANCE_COUNT] = { 0 };
	bool full[MAINTENANCE_COUNT];
	bool again = true;
	int64_t total = 0;

	memcpy(full, maintenance->permitted, sizeof(full));
	while (again && leads())
	{
		again = false;
		for (int task = 0; task < MAINTENANCE_COUNT; task++)
		{
			int64_t batch;

			if (!full[task])
				continue;
			batch = run_batch(maintenance, (MaintenanceTask) task);
			if (!database_is_connected(maintenance->database))
				return;
			if (batch > 0)
			{
				rows[task] += batch;
				total += batch;
			}
			full[task] = batch >= BATCH_ROWS;
			again |= full[task];
		}
		if (again && worker_wait(maintenance->worker, -1, 0,
								 clock_ms() + BATCH_PAUSE_MS) == WORKER_STOP)
			break;
	}
	if (total > 0)
		log_info("maintenance",
				 "expired", LOG_NUMBER(rows[MAINTENANCE_EXPIRE]),
				 "dead_lettered", LOG_NUMBER(rows[MAINTENANCE_DEAD_LETTER]),
				 "purged", LOG_NUMBER(rows[MAINTENANCE_PURGE]),
				 "forgotten", LOG_NUMBER(rows[MAINTENANCE_FORGET]));
}

/* What verify() found: how many rows, and the first of them in words. */
struct finding
{
	int64_t rows;
	char first[256];
};

static bool
read_finding(const struct database_row *row, void *context)
{
	struct finding *finding = context;

	if (finding->rows++ == 0)
	{
		const char *fields[5];

		for (int i = 0; i < 5; i++)
		{
			fields[i] = database_value(row, i);
			if (fields[i] == NULL)
				fields[i] = "NULL";
		}
		snprintf(finding->first, sizeof(finding->first),
				 "queue \"%s\", priority %s, counter %s: recorded %s, actual %s",
				 fields[0], fields[1], fields[2], fields[3], fields[4]);
	}
	return true;
}

static void
verify(struct maintenance *maintenance)
{
	struct finding finding = { 0 };

	if (!maintenance->may_verify ||
		!database_run(maintenance->database,
					  "SELECT queue_name, priority, counter, recorded, actual"
					  " FROM queue_state.verify()",
					  statement_deadline(maintenance), read_finding, &finding))
	{
		if (worker_stopping(maintenance->worker))
			return;
		/* An old answer would be taken for a new one. */
		atomic_store(&drift, -1);
		log_complaint(&maintenance->not_verified, LOG_LEVEL_WARN,
					  "the counters are not verified",
					  maintenance->may_verify ?
						  database_last_error(maintenance->database)->text :
						  "the role may not execute queue_state.verify()",
					  maintenance->may_verify ? NULL :
												"Run GRANT pg_monitor TO the collector's role.");
		return;
	}

	log_recovery(&maintenance->not_verified, "the counters are verified again");
	atomic_store(&drift, finding.rows);
	if (finding.rows > 0)
		log_complaint(&maintenance->drifting, LOG_LEVEL_ERROR,
					  "the counters disagree with the messages", finding.first,
					  "Find out what wrote past the triggers, then run queue_state.rebuild().");
	else
		log_recovery(&maintenance->drifting,
					 "the counters agree with the messages again");
}

static bool
connect_session(struct maintenance *maintenance)
{
	if (database_is_connected(maintenance->database))
		return true;
	if (database_connect(maintenance->database))
	{
		log_recovery(&maintenance->unreachable, "maintenance is connected again");
		return true;
	}
	if (!worker_stopping(maintenance->worker))
		log_complaint(&maintenance->unreachable, LOG_LEVEL_WARN,
					  "maintenance cannot connect to the database",
					  database_last_error(maintenance->database)->text, NULL);
	return false;
}

/* One round of whatever is due. */
static void
take_turn(struct maintenance *maintenance)
{
	const struct options *options = maintenance->options;
	int64_t now_ms = clock_ms();
	bool clean_due = options->maintenance_enabled &&
					 now_ms >= maintenance->clean_due_ms;
	bool verify_due = now_ms >= maintenance->verify_due_ms;

	if (!clean_due && !verify_due)
		return;
	if (clean_due)
		maintenance->clean_due_ms = now_ms + options->maintenance_interval;
	if (verify_due)
		maintenance->verify_due_ms = now_ms + options->maintenance_verify_interval;

	if (!connect_session(maintenance) || !check_permissions(maintenance))
		return;
	if (verify_due)
		verify(maintenance);
	if (clean_due && database_is_connected(maintenance->database))
	{
		report_permissions(maintenance);
		clean(maintenance);
	}
}

void
maintenance_run(struct worker *worker, void *context)
{
	const struct maintenance_context *from = context;
	struct maintenance *maintenance = calloc(1, sizeof(*maintenance));

	if (maintenance != NULL)
	{
		maintenance->worker = worker;
		maintenance->options = from->options;
		maintenance->database = database_create(from->options, "maintain",
												from->instance, worker);
	}
	if (maintenance == NULL || maintenance->database == NULL)
	{
		log_error("out of memory, there is no maintenance");
		free(maintenance);
		return;
	}

	while (worker_wait(worker, -1, 0, clock_ms() + LOOK_MS) != WORKER_STOP)
	{
		if (leads())
		{
			take_turn(maintenance);

			/*
			 * The server ends an idle session of ours after a while; between
			 * rounds none is kept, so that this never looks like a fault.
			 */
			database_disconnect(maintenance->database);
			continue;
		}

		/* Start over when leading again; what was known then may be old. */
		maintenance->clean_due_ms = 0;
		maintenance->verify_due_ms = 0;
		atomic_store(&drift, -1);
	}

	database_destroy(maintenance->database);
	free(maintenance);
}

/*
 * reading.c
 *	  What the collecting loop asks the database, and what the answers mean.
 *
 * Columns are asked for by name, so that a later version of the extension may
 * add some.  Only functions of the extension are called, except for the count
 * of pending rows, which has no function and needs SELECT on their table.
 */
#include "reading.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than a refresh should ever find; the rest is folded by the next one. */
#define FOLD_BATCH "10000"

/* How a leader's session is known to other collectors, with its instance. */
#define LEADER_NAME "retsu-collector leader "

static bool
is_true(const struct database_row *row, int column)
{
	const char *value = database_value(row, column);

	return value != NULL && value[0] == 't';
}

/* Whether this program knows the contract of that version of the extension. */
static bool
version_supported(const char *version)
{
	size_t own_major = strcspn(RETSU_VERSION, ".");

	/* A minor version only adds to the contract; a major one may break it. */
	return strcspn(version, ".") == own_major &&
		   strncmp(version, RETSU_VERSION, own_major) == 0;
}

bool
reading_extension_usable(const struct reading_extension *extension,
						 struct reading_problem *problem)
{
	if (extension->version[0] == '\0')
	{
		problem->reason = FAILURE_SCHEMA;
		snprintf(problem->text, sizeof(problem->text),
				 "the extension queue_state is not installed in this database");
		problem->hint = "Run CREATE EXTENSION queue_state, or connect to the database that has it.";
		return false;
	}
	if (!version_supported(extension->version))
	{
		problem->reason = FAILURE_SCHEMA;
		snprintf(problem->text, sizeof(problem->text),
				 "the extension queue_state is version %s, this collector is %s",
				 extension->version, RETSU_VERSION);
		problem->hint = "Run the collector of the same major version.";
		return false;
	}
	if (!extension->may_read)
	{
		problem->reason = FAILURE_PERMISSION;
		snprintf(problem->text, sizeof(problem->text),
				 "the role may not execute queue_state.snapshot()");
		problem->hint = "Run GRANT pg_monitor TO the collector's role.";
		return false;
	}
	return true;
}

static bool
read_extension(const struct database_row *row, void *context)
{
	struct reading_extension *extension = context;
	const char *version = database_value(row, 0);

	snprintf(extension->version, sizeof(extension->version), "%s",
			 version != NULL ? version : "");
	extension->may_read = is_true(row, 1);
	extension->may_fold = is_true(row, 2);
	extension->may_count_pending = is_true(row, 3);
	return true;
}

bool
reading_check_extension(struct database *database, int64_t deadline_ms,
						struct reading_extension *extension)
{
	memset(extension, 0, sizeof(*extension));

	/*
	 * Through the catalogs: to name an object in a schema one may not use is
	 * an error, and this is to tell missing from forbidden.
	 */
	return database_run(database,
						"SELECT (SELECT e.extversion FROM pg_catalog.pg_extension e"
						"  WHERE e.extname = 'queue_state'),"
						" n.usable AND (SELECT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')"
						"  FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid"
						"  AND p.proname = 'snapshot' AND p.pronargs = 0),"
						" n.usable AND (SELECT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')"
						"  FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid"
						"  AND p.proname = 'fold_pending' LIMIT 1),"
						" n.usable AND (SELECT pg_catalog.has_table_privilege(c.oid, 'SELECT')"
						"  FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid"
						"  AND c.relname = 'queue_priority_state_pending')"
						" FROM (SELECT 1) AS one"
						" LEFT JOIN (SELECT s.oid,"
						"   pg_catalog.has_schema_privilege(s.oid, 'USAGE') AS usable"
						"  FROM pg_catalog.pg_namespace s"
						"  WHERE s.nspname = 'queue_state') AS n ON true",
						deadline_ms, read_extension, extension);
}

static bool
read_lease(const struct database_row *row, void *context)
{
	struct reading_lease *lease = context;
	const char *pid = database_value(row, 0);

	lease->backend_pid = pid != NULL ? atoi(pid) : 0;
	lease->in_recovery = is_true(row, 1);
	lease->locked = is_true(row, 2);
	lease->same_session = is_true(row, 3);
	return true;
}

bool
reading_check_lease(struct database *database, const char *instance,
					int64_t deadline_ms, struct reading_lease *lease)
{
	char sql[1024];

	memset(lease, 0, sizeof(*lease));
	snprintf(sql, sizeof(sql),
			 "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(),"
			 " EXISTS (SELECT FROM pg_catalog.pg_locks l"
			 "  WHERE l.locktype = 'advisory' AND l.classid = %u AND l.objid = %u"
			 "  AND l.objsubid = 2 AND l.granted AND l.mode = 'ExclusiveLock'"
			 "  AND l.pid = pg_catalog.pg_backend_pid()"
			 "  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d"
			 "   WHERE d.datname = pg_catalog.current_database())),"
			 " pg_catalog.current_setting('retsu_collector.instance', true)"
			 "  IS NOT DISTINCT FROM '%s'",
			 (unsigned int) LEASE_KEY_HIGH, (unsigned int) LEASE_KEY_LOW, instance);
	return database_run(database, sql, deadline_ms, read_lease, lease);
}

static bool
read_flag(const struct database_row *row, void *context)
{
	*(bool *) context = is_true(row, 0);
	return true;
}

bool
reading_try_lock(struct database *database, int64_t deadline_ms, bool *taken)
{
	char sql[128];

	/*
	 * Bare, so that it is evaluated once: in a query with a row source a lock
	 * can be taken several times, and then one unlock does not free it.
	 */
	*taken = false;
	snprintf(sql, sizeof(sql), "SELECT pg_catalog.pg_try_advisory_lock(%d, %d)",
			 LEASE_KEY_HIGH, LEASE_KEY_LOW);
	return database_run(database, sql, deadline_ms, read_flag, taken);
}

bool
reading_announce(struct database *database, const char *instance,
				 int64_t deadline_ms)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
			 "SELECT pg_catalog.set_config('application_name', '" LEADER_NAME "%s', false)", instance);
	return database_run(database, sql, deadline_ms, NULL, NULL);
}

bool
reading_find_predecessor(struct database *database, int64_t deadline_ms,
						 int64_t *pid)
{
	return database_run_number(database,
							   "SELECT a.pid FROM pg_catalog.pg_stat_activity a"
							   " WHERE a.datname = pg_catalog.current_database()"
							   " AND a.application_name LIKE '" LEADER_NAME "%'"
							   " AND a.pid <> pg_catalog.pg_backend_pid() LIMIT 1",
							   deadline_ms, pid);
}

bool
reading_end_session(struct database *database, int64_t deadline_ms, int64_t pid)
{
	char sql[384];

	/* Only one of our own role: the name is a claim that anybody can make. */
	snprintf(sql, sizeof(sql),
			 "SELECT pg_catalog.pg_terminate_backend(a.pid)"
			 " FROM pg_catalog.pg_stat_activity a WHERE a.pid = %lld"
			 " AND a.usename = CURRENT_USER"
			 " AND a.application_name LIKE '" LEADER_NAME "%%'",
			 (long long) pid);
	return database_run(database, sql, deadline_ms, NULL, NULL);
}

bool
reading_fold(struct database *database, int64_t deadline_ms, int64_t *folded)
{
	return database_run_number(database,
							   "SELECT queue_state.fold_pending(" FOLD_BATCH ")",
							   deadline_ms, folded);
}

bool
reading_count_pending(struct database *database, int64_t deadline_ms,
					  int64_t *rows)
{
	return database_run_number(database,
							   "SELECT pg_catalog.count(*)"
							   " FROM queue_state.queue_priority_state_pending",
							   deadline_ms, rows);
}

/* What a row's callback needs, and where it says why it refused one. */
struct snapshot_reader
{
	Snapshot *snapshot;
	FailureReason *reason;
	char *text;
	size_t text_size;
};

static const char *const column_names[SNAPSHOT_COLUMNS] = {
	"queue_id", "queue_name", "priority",
	"ready", "in_flight", "delayed", "exhausted", "expired_backlog",
	"elapsed_backlog", "dead_letters",
	"oldest_ready_age_seconds", "oldest_in_flight_age_seconds",
	"enqueued_total", "delivered_total", "acknowledged_total",
	"expired_never_delivered_total", "expired_previously_delivered_total",
	"dead_lettered_total", "dead_letter_purged_total",
	"dead_letter_redriven_total"
};

static bool
refuse(struct snapshot_reader *reader, FailureReason reason,
	   const struct database_row *row, int column, const char *what)
{
	const char *queue = database_value(row, 1);
	const char *priority = database_value(row, 2);

	*reader->reason = reason;
	snprintf(reader->text, reader->text_size,
			 "queue \"%s\", priority %s: %s is %s",
			 queue != NULL ? queue : "", priority != NULL ? priority : "NULL",
			 column_names[column], what);
	return false;
}

static bool
parse_integer(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0';
}

/*
 * A row is taken whole or the reading is refused whole: a count that cannot
 * be true says that its neighbours cannot be trusted either, and a clamped one
 * would hide it.
 */
static bool
read_row(const struct database_row *row, void *context)
{
	struct snapshot_reader *reader = context;
	SnapshotRow parsed;
	int64_t number;
	SnapshotResult result;

	for (int column = 0; column < SNAPSHOT_COLUMNS; column++)
	{
		const char *text = database_value(row, column);

		if (text == NULL)
			return refuse(reader, FAILURE_NEGATIVE_COUNT, row, column, "NULL");
		if (column == 1)
			continue;
		if (column == 2)
		{
			if (!snapshot_priority_parse(text, &parsed.priority))
				return refuse(reader, FAILURE_NEGATIVE_COUNT, row, column, "unknown");
			continue;
		}
		if (column >= SNAPSHOT_COLUMN_AGES && column < SNAPSHOT_COLUMN_TOTALS)
		{
			/* The process never leaves the C locale, so "." it is. */
			double age = strtod(text, NULL);

			if (!isfinite(age) || age < 0)
				return refuse(reader, FAILURE_NEGATIVE_COUNT, row, column, text);
			parsed.ages[column - SNAPSHOT_COLUMN_AGES] = age;
			continue;
		}
		if (!parse_integer(text, &number))
			return refuse(reader, FAILURE_SCHEMA, row, column, "not an integer");
		if (number < 0)
			return refuse(reader, FAILURE_NEGATIVE_COUNT, row, column, text);
		if (column == 0)
			parsed.queue_id = (int32_t) number;
		else if (column < SNAPSHOT_COLUMN_AGES)
			parsed.counters[column - SNAPSHOT_COLUMN_COUNTERS] = number;
		else
			parsed.totals[column - SNAPSHOT_COLUMN_TOTALS] = number;
	}

	result = snapshot_add(reader->snapshot, database_value(row, 1), &parsed);
	switch (result)
	{
		case SNAPSHOT_OK:
			return true;
		case SNAPSHOT_NEGATIVE:
			return refuse(reader, FAILURE_NEGATIVE_COUNT, row, 0, "negative");
		case SNAPSHOT_MALFORMED:
			return refuse(reader, FAILURE_NEGATIVE_COUNT, row, 0,
						  "not followed by each priority once");
		case SNAPSHOT_NO_MEMORY:
			break;
	}
	*reader->reason = FAILURE_RESOURCE;
	snprintf(reader->text, reader->text_size, "out of memory");
	return false;
}

bool
reading_snapshot(struct database *database, int64_t deadline_ms,
				 Snapshot *snapshot, FailureReason *reason, char *text,
				 size_t text_size)
{
	struct snapshot_reader reader = {
		.snapshot = snapshot,
		.reason = reason,
		.text = text,
		.text_size = text_size
	};

	text[0] = '\0';
	if (!database_run(database,
					  "SELECT s.queue_id, s.queue_name, s.priority,"
					  " s.ready, s.in_flight, s.delayed, s.exhausted,"
					  " s.expired_backlog, s.elapsed_backlog, s.dead_letters,"
					  " s.oldest_ready_age_seconds, s.oldest_in_flight_age_seconds,"
					  " s.enqueued_total, s.delivered_total, s.acknowledged_total,"
					  " s.expired_never_delivered_total,"
					  " s.expired_previously_delivered_total, s.dead_lettered_total,"
					  " s.dead_letter_purged_total, s.dead_letter_redriven_total"
					  " FROM queue_state.snapshot() AS s"
					  " ORDER BY s.queue_id, s.priority DESC",
					  deadline_ms, read_row, &reader))
	{
		if (text[0] == '\0')
		{
			*reason = database_last_error(database)->reason;
			snprintf(text, text_size, "%s", database_last_error(database)->text);
		}
		return false;
	}
	return true;
}

/*
 * database.c
 *	  One session with the database, in which every wait has an end.
 *
 * The settings made at the start of a session are what makes an advisory lock
 * a lease: an idle session is ended by the server after a time, a silent peer
 * is given up by its TCP stack, and a statement whose client has gone is
 * cancelled.  With the server's defaults a lock could outlive its holder by
 * hours.
 */
#include "database.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "clock.h"
#include "connector.h"
#include "log.h"
#include "password.h"
#include "sqlstate.h"

struct database
{
	const struct options *options;
	struct worker *worker;
	char application_name[64]; /* NAMEDATALEN; longer would be cut */
	const char *instance;
	PGconn *conn; /* NULL: no session */
	struct connector *connector;
	int backend_pid; /* what the server said of itself */
	int64_t sent_ms;
	struct database_error error;
};

struct database_row
{
	const PGresult *result;
};

static void
set_error(struct database *database, FailureReason reason, const char *text)
{
	database->error.reason = reason;
	database->error.sqlstate[0] = '\0';
	database->error.hint[0] = '\0';
	sqlstate_one_line(database->error.text, sizeof(database->error.text), text);
}

static void
set_server_error(struct database *database, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (sqlstate == NULL)
	{
		/* libpq's own: the connection broke, or memory ran out. */
		set_error(database, PQstatus(database->conn) == CONNECTION_BAD ? FAILURE_CONNECTION : FAILURE_RESOURCE,
				  PQerrorMessage(database->conn));
		return;
	}
	set_error(database, sqlstate_reason(sqlstate), text != NULL ? text : "");
	snprintf(database->error.sqlstate, sizeof(database->error.sqlstate), "%s",
			 sqlstate);
	if (hint != NULL)
		sqlstate_one_line(database->error.hint, sizeof(database->error.hint), hint);
}

static void
set_connect_error(struct database *database, const char *text)
{
	char message[512];
	char sqlstate[6];

	snprintf(message, sizeof(message), "%s", text);
	sqlstate_extract(message, sqlstate);
	set_error(database, sqlstate_reason(sqlstate), message);
	memcpy(database->error.sqlstate, sqlstate, sizeof(sqlstate));
}

/* Server messages go where all other lines go, not to standard error raw. */
static void
log_notice(void *context, const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	(void) context;
	log_line(severity != NULL && (strcmp(severity, "WARNING") == 0 ||
								  strcmp(severity, "FATAL") == 0) ?
				 LOG_LEVEL_WARN :
				 LOG_LEVEL_DEBUG,
			 "message from the database", "text", text, "sqlstate", sqlstate,
			 (char *) 0);
}

bool
database_check_conninfo(const struct options *options, char *message,
						size_t message_size)
{
	const char *conninfo = options->database_conninfo;
	PQconninfoOption *parsed;
	char *reason = NULL;

	/* As libpq decides it: anything else is the name of a database. */
	if (strncmp(conninfo, "postgresql://", 13) != 0 &&
		strncmp(conninfo, "postgres://", 11) != 0 &&
		strchr(conninfo, '=') == NULL)
		return true;

	parsed = PQconninfoParse(conninfo, &reason);
	PQfreemem(reason);
	if (parsed == NULL)
	{
		snprintf(message, message_size,
				 "database.conninfo is not a valid connection string");
		return false;
	}
	PQconninfoFree(parsed);
	return true;
}

struct database *
database_create(const struct options *options, const char *role,
				const char *instance, struct worker *worker)
{
	struct database *database = calloc(1, sizeof(*database));

	if (database == NULL)
		return NULL;
	database->options = options;
	database->worker = worker;
	database->instance = instance;
	snprintf(database->application_name, sizeof(database->application_name),
			 "retsu-collector %s %s", role, instance);
	return database;
}

void
database_destroy(struct database *database)
{
	if (database == NULL)
		return;
	database_disconnect(database);
	connector_abandon(&database->connector);
	free(database);
}

static bool
open_session(struct database *database)
{
	const char *keywords[12];
	const char *values[12];
	char password[PASSWORD_SIZE];
	char reason[256];
	char timeout_ms[24];
	int count = 0;
	enum connector_outcome outcome;

	if (!password_read(database->options->database_password_file, password,
					   reason, sizeof(reason)))
	{
		set_error(database, FAILURE_CONNECTION, reason);
		return false;
	}

	/*
	 * What stands before dbname may be overruled by the connection string,
	 * what stands after it may not.  These bound how long a write to a peer
	 * that vanished can stay unnoticed; they are not needed for the fence.
	 */
	snprintf(timeout_ms, sizeof(timeout_ms), "%lld",
			 (long long) database->options->lease_fence);
	keywords[count] = "keepalives_idle";
	values[count++] = "5";
	keywords[count] = "keepalives_interval";
	values[count++] = "5";
	keywords[count] = "keepalives_count";
	values[count++] = "3";
	keywords[count] = "tcp_user_timeout";
	values[count++] = timeout_ms;
	if (database->options->database_conninfo[0] != '\0')
	{
		keywords[count] = "dbname";
		values[count++] = database->options->database_conninfo;
	}
	if (password[0] != '\0')
	{
		keywords[count] = "password";
		values[count++] = password;
	}
	keywords[count] = "application_name";
	values[count++] = database->application_name;
	keywords[count] = "client_encoding";
	values[count++] = "UTF8";
	keywords[count] = NULL;
	values[count] = NULL;

	outcome = connector_run(&database->connector, keywords, values, log_notice,
							database->worker,
							clock_ms() + database->options->database_connect_timeout,
							&database->conn);
	explicit_bzero(password, sizeof(password));

	switch (outcome)
	{
		case CONNECTOR_DONE:
			if (PQstatus(database->conn) == CONNECTION_OK)
				return true;
			if (PQstatus(database->conn) == CONNECTION_BAD)
				set_connect_error(database, PQerrorMessage(database->conn));
			else
				set_error(database, FAILURE_TIMEOUT,
						  "no connection within database.connect-timeout");
			break;
		case CONNECTOR_LATE:
			set_error(database, FAILURE_TIMEOUT,
					  "no connection within database.connect-timeout");
			break;
		case CONNECTOR_STUCK:
			set_error(database, FAILURE_TIMEOUT,
					  "an earlier connect still hangs, in name lookup probably");
			break;
		case CONNECTOR_STOPPED:
			set_error(database, FAILURE_OTHER, "the collector is to end");
			break;
		case CONNECTOR_FAILED:
			set_error(database, FAILURE_RESOURCE,
					  "could not start a connect: no memory or no thread");
			break;
	}
	return false;
}

struct identity
{
	int pid;
	int version;
};

static bool
read_identity(const struct database_row *row, void *context)
{
	struct identity *identity = context;

	identity->pid = atoi(database_value(row, 0));
	identity->version = atoi(database_value(row, 1));
	return true;
}

/*
 * The bounds of a session's life.  A statement may run for statement_timeout
 * and the session idle for its time to live after that; together they are
 * lease.server-ttl.  TCP's own timers get the same time to live: it is longer
 * than the fence, so the lease is never given away while it is still used.
 * Once tcp_user_timeout is set it rules over keepalives_count, and the probes
 * only say how finely it is looked at.  Without a lease an idle session harms
 * nobody, and the interval may be longer than any of this.
 */
static bool
set_up_session(struct database *database, int64_t deadline_ms)
{
	const struct options *options = database->options;
	int64_t ttl = options_session_ttl(options);
	int64_t probe_s = ttl / 7000 > 0 ? ttl / 7000 : 1;
	char sql[2048];

	if (ttl <= 0)
		ttl = options->database_statement_timeout;
	snprintf(sql, sizeof(sql),
			 "SELECT pg_catalog.set_config(name, value, false) FROM (VALUES"
			 " ('search_path', 'pg_catalog, pg_temp'),"
			 " ('statement_timeout', '%lld'),"
			 " ('lock_timeout', '%lld'),"
			 " ('idle_session_timeout', '%lld'),"
			 " ('idle_in_transaction_session_timeout', '%lld'),"
			 " ('tcp_user_timeout', '%lld'),"
			 " ('tcp_keepalives_idle', '%lld'),"
			 " ('tcp_keepalives_interval', '%lld'),"
			 " ('tcp_keepalives_count', '7'),"
			 " ('default_transaction_isolation', 'read committed'),"
			 " ('extra_float_digits', '1'),"
			 " ('jit', 'off'),"
			 " ('client_min_messages', 'warning'),"
			 " ('retsu_collector.instance', '%s')"
			 ") AS setting (name, value)",
			 (long long) options->database_statement_timeout,
			 (long long) (options->database_statement_timeout / 4),
			 (long long) (options->lease_enabled ? ttl : 0),
			 (long long) ttl, (long long) ttl,
			 (long long) probe_s, (long long) probe_s, database->instance);
	if (!database_run(database, sql, deadline_ms, NULL, NULL))
		return false;

	/* Not every platform of the server has it; the others do without. */
	if (!database_run(database,
					  "SELECT pg_catalog.set_config('client_connection_check_interval', '1s', false)",
					  deadline_ms, NULL, NULL))
		log_debug("the server cannot watch its clients while they wait");
	return database_is_connected(database);
}

bool
database_connect(struct database *database)
{
	struct identity identity = { 0, 0 };
	int64_t deadline_ms;

	database_disconnect(database);
	if (!open_session(database))
	{
		database_disconnect(database);
		return false;
	}
	if (PQsetnonblocking(database->conn, 1) != 0)
	{
		set_error(database, FAILURE_RESOURCE, PQerrorMessage(database->conn));
		database_disconnect(database);
		return false;
	}
	PQsetErrorVerbosity(database->conn, PQERRORS_DEFAULT);

	deadline_ms = clock_ms() + database->options->database_statement_timeout;
	if (!database_run(database,
					  "SELECT pg_catalog.pg_backend_pid(),"
					  " pg_catalog.current_setting('server_version_num')",
					  deadline_ms, read_identity, &identity))
	{
		database_disconnect(database);
		return false;
	}
	database->backend_pid = identity.pid;
	if (identity.version < 150000)
	{
		set_error(database, FAILURE_SCHEMA,
				  "the server is older than PostgreSQL 15");
		database_disconnect(database);
		return false;
	}

	/*
	 * Settings made through a transaction pooler would land in sessions of
	 * other clients.  The caller refuses to lead, so none are needed.
	 */
	if (database_is_pooled(database) && !database->options->database_allow_pooler)
		return true;
	if (!set_up_session(database, deadline_ms))
	{
		database_disconnect(database);
		return false;
	}
	return true;
}

void
database_disconnect(struct database *database)
{
	PQfinish(database->conn);
	database->conn = NULL;
	database->backend_pid = 0;
}

bool
database_is_connected(const struct database *database)
{
	return database->conn != NULL && PQstatus(database->conn) == CONNECTION_OK;
}

bool
database_is_pooled(const struct database *database)
{
	return PQbackendPID(database->conn) != database->backend_pid;
}

int
database_backend_pid(const struct database *database)
{
	return database->backend_pid;
}

/* Waits for the socket; false when the deadline passed or a stop was asked. */
static bool
wait_for_socket(struct database *database, short events, int64_t deadline_ms)
{
	switch (worker_wait(database->worker, PQsocket(database->conn), events,
						deadline_ms))
	{
		case WORKER_READY:
			return true;
		case WORKER_DUE:
			set_error(database, FAILURE_TIMEOUT,
					  "the database did not answer in time");
			break;
		case WORKER_STOP:
			set_error(database, FAILURE_OTHER, "the collector is to end");
			break;
	}
	return false;
}

static bool
send_statement(struct database *database, const char *sql, int64_t deadline_ms)
{
	int pending;

	database->sent_ms = clock_ms();
	if (!PQsendQuery(database->conn, sql) || !PQsetSingleRowMode(database->conn))
	{
		set_error(database, FAILURE_CONNECTION, PQerrorMessage(database->conn));
		return false;
	}
	while ((pending = PQflush(database->conn)) > 0)
	{
		/* The server may have to be read from before it reads on. */
		if (!wait_for_socket(database, POLLIN | POLLOUT, deadline_ms))
			return false;
		if (!PQconsumeInput(database->conn))
			break;
	}
	if (pending != 0)
	{
		set_error(database, FAILURE_CONNECTION, PQerrorMessage(database->conn));
		return false;
	}
	return true;
}

/*
 * Reads all results of the statement.  *failed tells that the server reported
 * an error, or that a row was refused, and that the session goes on; false
 * that the session cannot be used.
 */
static bool
read_results(struct database *database, int64_t deadline_ms,
			 database_row_callback on_row, void *context, bool *failed)
{
	for (;;)
	{
		PGresult *result;

		while (PQisBusy(database->conn))
		{
			if (!wait_for_socket(database, POLLIN, deadline_ms))
				return false;
			if (!PQconsumeInput(database->conn))
			{
				set_error(database, FAILURE_CONNECTION,
						  PQerrorMessage(database->conn));
				return false;
			}
			/* Data that comes is as good a sign of life as none. */
			if (database->worker->on_quiet != NULL)
				database->worker->on_quiet(database->worker->quiet_context);
		}

		result = PQgetResult(database->conn);
		if (result == NULL)
			return true;

		switch (PQresultStatus(result))
		{
			case PGRES_SINGLE_TUPLE:
				if (on_row != NULL && !*failed)
				{
					struct database_row row = { result };

					if (!on_row(&row, context))
					{
						set_error(database, FAILURE_OTHER, "the result was refused");
						*failed = true;
					}
				}
				break;
			case PGRES_TUPLES_OK:
			case PGRES_COMMAND_OK:
				break;
			default:
				/* After a refused row its reason is the one to tell. */
				if (!*failed)
					set_server_error(database, result);
				*failed = true;
				break;
		}
		PQclear(result);
	}
}

bool
database_run(struct database *database, const char *sql, int64_t deadline_ms,
			 database_row_callback on_row, void *context)
{
	bool failed = false;

	if (!database_is_connected(database))
	{
		set_error(database, FAILURE_CONNECTION, "there is no session");
		return false;
	}
	if (!send_statement(database, sql, deadline_ms) ||
		!read_results(database, deadline_ms, on_row, context, &failed))
	{
		database_disconnect(database);
		return false;
	}
	if (PQstatus(database->conn) != CONNECTION_OK)
	{
		if (!failed)
			set_error(database, FAILURE_CONNECTION, "the session ended");
		database_disconnect(database);
		return false;
	}
	return !failed;
}

static bool
read_number(const struct database_row *row, void *context)
{
	const char *text = database_value(row, 0);

	*(int64_t *) context = text != NULL ? strtoll(text, NULL, 10) : 0;
	return true;
}

bool
database_run_number(struct database *database, const char *sql,
					int64_t deadline_ms, int64_t *value)
{
	*value = 0;
	return database_run(database, sql, deadline_ms, read_number, value);
}

const char *
database_value(const struct database_row *row, int column)
{
	if (column >= PQnfields(row->result) || PQgetisnull(row->result, 0, column))
		return NULL;
	return PQgetvalue(row->result, 0, column);
}

int64_t
database_sent_ms(const struct database *database)
{
	return database->sent_ms;
}

const struct database_error *
database_last_error(const struct database *database)
{
	return &database->error;
}

enum worker_wake
database_idle(struct database *database, int64_t deadline_ms)
{
	for (;;)
	{
		enum worker_wake wake;

		if (!database_is_connected(database))
			return WORKER_READY;
		wake = worker_wait(database->worker, PQsocket(database->conn), POLLIN,
						   deadline_ms);
		if (wake != WORKER_READY)
			return wake;

		/* A notice or a parameter change is read over; an end is not. */
		if (!PQconsumeInput(database->conn))
		{
			set_error(database, FAILURE_CONNECTION,
					  PQerrorMessage(database->conn));
			return WORKER_READY;
		}
		(void) PQisBusy(database->conn);
		if (PQstatus(database->conn) != CONNECTION_OK)
		{
			set_error(database, FAILURE_CONNECTION, "the session ended");
			return WORKER_READY;
		}
	}
}

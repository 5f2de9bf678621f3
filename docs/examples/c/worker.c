/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  worker QUEUE: a worker made with libpq.
 *
 * The connection comes from the usual PG* variables.  SIGTERM and SIGINT end
 * it after the message in hand.
 *
 *	cc -o worker worker.c $(pkg-config --cflags --libs libpq)
 *
 *-------------------------------------------------------------------------
 */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#define IDLE_SECONDS 1
#define RECONNECT_SECONDS 5

/*
 * The payload and the headers are taken apart by the server, which has a JSON
 * parser; a column is NULL where there is nothing.
 */
#define DEQUEUE                                                                  \
	"SELECT id, receipt_handle, payload ->> 'order', headers ->> 'traceparent' " \
	"FROM queue_state.dequeue($1)"
#define SHIP                                                               \
	"INSERT INTO shipment (order_id, traceparent) SELECT $2::integer, $3 " \
	"WHERE queue_state.process_once('shipping', $1)"

static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	(void) number;
	stop = 1;
}

/* A signal ends the wait early. */
static void
wait_seconds(int seconds)
{
	struct timespec time = { .tv_sec = seconds };

	if (!stop)
		nanosleep(&time, NULL);
}

/* True if the statement worked; *result is to be cleared either way. */
static bool
run(PGconn *connection, const char *sql, int count, const char *const *parameters,
	PGresult **result)
{
	ExecStatusType status;

	*result = PQexecParams(connection, sql, count, NULL, parameters, NULL, NULL, 0);
	status = PQresultStatus(*result);
	return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* For statements whose result does not matter. */
static bool
run_only(PGconn *connection, const char *sql, int count, const char *const *parameters)
{
	PGresult *result;
	bool worked = run(connection, sql, count, parameters, &result);

	PQclear(result);
	return worked;
}

/* Does the work and acknowledges it, in one transaction, or gives it back. */
static void
handle(PGconn *connection, const char *id, const char *handle, const char *order,
	   const char *traceparent)
{
	const char *const lease[] = { id, handle };
	const char *const work[] = { id, order, traceparent };
	PGresult *result;
	bool held;

	if (order == NULL)
	{
		const char *const why[] = { id, handle, "the payload names no order" };

		if (run_only(connection, "SELECT queue_state.reject($1, $2, $3)", 3, why))
			printf("rejected %s\n", id);
		return;
	}

	if (!run_only(connection, "BEGIN", 0, NULL))
		return;
	if (!run(connection, SHIP, 3, work, &result))
	{
		const char *reason = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
		const char *const why[] = { id, handle, reason ? reason : PQerrorMessage(connection) };

		run_only(connection, "ROLLBACK", 0, NULL);
		if (run_only(connection, "SELECT queue_state.nack($1, $2, error => $3)", 3, why))
			printf("given back %s\n", id);
		PQclear(result);
		return;
	}
	PQclear(result);

	held = run(connection, "SELECT queue_state.acknowledge($1, $2)", 2, lease, &result) &&
		   strcmp(PQgetvalue(result, 0, 0), "t") == 0;
	PQclear(result);

	/* Not held: the lease ended during the work, it is somebody else's now. */
	if (run_only(connection, held ? "COMMIT" : "ROLLBACK", 0, NULL))
		printf("%s %s %s\n", held ? "shipped" : "late", order, traceparent ? traceparent : "-");
}

/* Until a signal comes or the connection is lost. */
static void
work(PGconn *connection, const char *queue)
{
	while (!stop && PQstatus(connection) == CONNECTION_OK)
	{
		PGresult *result;

		if (!run(connection, DEQUEUE, 1, &queue, &result))
		{
			fprintf(stderr, "%s", PQerrorMessage(connection));
			wait_seconds(RECONNECT_SECONDS);
		}
		else if (PQntuples(result) == 0)
			wait_seconds(IDLE_SECONDS);
		else
			handle(connection, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1),
				   PQgetisnull(result, 0, 2) ? NULL : PQgetvalue(result, 0, 2),
				   PQgetisnull(result, 0, 3) ? NULL : PQgetvalue(result, 0, 3));
		PQclear(result);
		fflush(stdout);
	}
}

int
main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };

	if (argc != 2)
	{
		fprintf(stderr, "usage: worker QUEUE\n");
		return EXIT_FAILURE;
	}

	/* Without SA_RESTART, so that a signal ends nanosleep(). */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);

	while (!stop)
	{
		PGconn *connection = PQconnectdb("");

		if (PQstatus(connection) == CONNECTION_OK)
			work(connection, argv[1]);
		if (PQstatus(connection) != CONNECTION_OK)
		{
			fprintf(stderr, "%s", PQerrorMessage(connection));
			wait_seconds(RECONNECT_SECONDS);
		}
		PQfinish(connection);
	}
	puts("stopped");
	return EXIT_SUCCESS;
}

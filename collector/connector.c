/*
 * connector.c
 *	  A connect that ends on time, whatever it is that hangs.
 *
 * libpq's non-blocking connect still blocks in name lookup, in reading a
 * service from LDAP and in asking a Kerberos server, and connect_timeout does
 * not apply to it.  So each attempt runs in a thread of its own, which the
 * caller stops waiting for at the deadline.  Such a thread cannot be stopped
 * safely, only forgotten: it closes what it got and goes when the lookup
 * returns.  No second attempt is made before that, so there is at most one.
 *
 * The mutex guards `done`, `abandoned` and, until done, `conn`.  Caller and
 * thread each hold a reference; who drops the last one frees.
 */
#include "connector.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"

#define MAX_PARAMETERS 16

struct connector
{
	pthread_mutex_t mutex;
	atomic_int references;
	int event_fd; /* readable once done */
	bool done;
	bool abandoned;
	PGconn *conn;
	int64_t deadline_ms;
	PQnoticeReceiver notice;
	char *keywords[MAX_PARAMETERS + 1];
	char *values[MAX_PARAMETERS + 1];
};

static void
release(struct connector *connector)
{
	if (atomic_fetch_sub(&connector->references, 1) > 1)
		return;
	for (int i = 0; i < MAX_PARAMETERS; i++)
	{
		free(connector->keywords[i]);
		if (connector->values[i] != NULL)
		{
			/* One of them is a password. */
			explicit_bzero(connector->values[i], strlen(connector->values[i]));
			free(connector->values[i]);
		}
	}
	close(connector->event_fd);
	pthread_mutex_destroy(&connector->mutex);
	free(connector);
}

static bool
is_abandoned(struct connector *connector)
{
	bool abandoned;

	pthread_mutex_lock(&connector->mutex);
	abandoned = connector->abandoned;
	pthread_mutex_unlock(&connector->mutex);
	return abandoned;
}

/* Drives the handshake until it is decided, late or unwanted. */
static void
handshake(struct connector *connector, PGconn *conn)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	PQsetNoticeReceiver(conn, connector->notice, NULL);
	/* Only a verbose message tells the SQLSTATE of a refused connect. */
	PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);

	while (next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED)
	{
		struct pollfd ready = {
			.fd = PQsocket(conn),
			.events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT
		};
		int64_t left = connector->deadline_ms - clock_ms();

		if (left <= 0 || is_abandoned(connector))
			return;
		if (poll(&ready, 1, left < 500 ? (int) left : 500) > 0)
			next = PQconnectPoll(conn);
	}
}

static void *
connect_thread(void *argument)
{
	struct connector *connector = argument;
	PGconn *conn;
	uint64_t one = 1;
	bool abandoned;

	pthread_setname_np(pthread_self(), "connect");
	conn = PQconnectStartParams((const char *const *) connector->keywords,
								(const char *const *) connector->values, 1);
	if (conn != NULL && PQstatus(conn) != CONNECTION_BAD)
		handshake(connector, conn);

	pthread_mutex_lock(&connector->mutex);
	connector->done = true;
	connector->conn = conn;
	abandoned = connector->abandoned;
	pthread_mutex_unlock(&connector->mutex);

	if (abandoned)
		PQfinish(conn);
	/* Cannot fail: the counter is 0. */
	(void) !write(connector->event_fd, &one, sizeof(one));
	release(connector);
	return NULL;
}

static struct connector *
create(const char *const *keywords, const char *const *values,
	   PQnoticeReceiver notice, int64_t deadline_ms)
{
	struct connector *connector = calloc(1, sizeof(*connector));

	if (connector == NULL)
		return NULL;
	pthread_mutex_init(&connector->mutex, NULL);
	atomic_init(&connector->references, 1);
	connector->notice = notice;
	connector->deadline_ms = deadline_ms;
	connector->event_fd = eventfd(0, EFD_CLOEXEC);
	if (connector->event_fd < 0)
	{
		pthread_mutex_destroy(&connector->mutex);
		free(connector);
		return NULL;
	}
	for (int i = 0; i < MAX_PARAMETERS && keywords[i] != NULL; i++)
	{
		connector->keywords[i] = strdup(keywords[i]);
		connector->values[i] = strdup(values[i]);
		if (connector->keywords[i] == NULL || connector->values[i] == NULL)
		{
			release(connector);
			return NULL;
		}
	}
	return connector;
}

static bool
start(struct connector *connector)
{
	pthread_t thread;
	pthread_attr_t attributes;
	bool started;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	atomic_fetch_add(&connector->references, 1);
	started = pthread_create(&thread, &attributes, connect_thread, connector) == 0;
	pthread_attr_destroy(&attributes);
	if (!started)
		atomic_fetch_sub(&connector->references, 1);
	return started;
}

/* True when the attempt of *slot is over; what it got goes to *conn. */
static bool
collect(struct connector **slot, PGconn **conn)
{
	struct connector *connector = *slot;
	bool done;

	pthread_mutex_lock(&connector->mutex);
	done = connector->done;
	if (done && !connector->abandoned)
	{
		*conn = connector->conn;
		connector->conn = NULL;
	}
	else
		connector->abandoned = true;
	pthread_mutex_unlock(&connector->mutex);

	if (done)
	{
		release(connector);
		*slot = NULL;
	}
	return done;
}

enum connector_outcome
connector_run(struct connector **slot, const char *const *keywords,
			  const char *const *values, PQnoticeReceiver notice,
			  struct worker *worker, int64_t deadline_ms, PGconn **conn)
{
	enum worker_wake wake;

	*conn = NULL;
	if (*slot != NULL && !collect(slot, conn))
		return CONNECTOR_STUCK;

	*slot = create(keywords, values, notice, deadline_ms);
	if (*slot == NULL)
		return CONNECTOR_FAILED;
	if (!start(*slot))
	{
		release(*slot);
		*slot = NULL;
		return CONNECTOR_FAILED;
	}

	/* The thread gives up at the deadline too: let it say why it failed. */
	wake = worker_wait(worker, (*slot)->event_fd, POLLIN, deadline_ms + 100);
	if (collect(slot, conn))
		return *conn != NULL ? CONNECTOR_DONE : CONNECTOR_FAILED;
	return wake == WORKER_STOP ? CONNECTOR_STOPPED : CONNECTOR_LATE;
}

void
connector_abandon(struct connector **slot)
{
	PGconn *conn = NULL;

	if (*slot == NULL)
		return;
	if (!collect(slot, &conn))
	{
		/* The thread holds the other reference and cleans up. */
		release(*slot);
		*slot = NULL;
	}
	PQfinish(conn);
}

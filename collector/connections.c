/*
 * connections.c
 *		Who is connected, for how long, and who has to go.
 */
#include "connections.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* How long the library may take to notice that a connection was shut down. */
#define LIBRARY_PATIENCE_NS (INT64_C(10) * 1000000000)

/*
 * How long a client that has finished is kept after its last answer: the library
 * may still have a request of it to read.  It does not notice that a client has
 * finished when that arrived together with the request.
 */
#define FINISHED_PATIENCE_NS (INT64_C(1) * 1000000000)

/* Where a connection is in its life; the clock that runs in each. */
typedef enum Phase
{
	PHASE_HEADER, /* a request is arriving: header_timeout */
	PHASE_ANSWER, /* a request is being answered: request_timeout */
	PHASE_IDLE	  /* between requests: idle_timeout */
} Phase;

struct Connection
{
	/* guarded by the lock */
	bool used;
	bool opened;		/* the library has it; it may be shut down */
	bool closing;		/* it was; counts no more against a limit */
	int64_t closing_ns; /* since then */
	int fd;
	unsigned char address[16];
	ClosedReason reason;

	/*
	 * Changed twice for each request by the thread that serves the connection,
	 * which takes no lock for it.  Whoever looks at them meanwhile may see one new
	 * and one old, and judges a deadline by a moment too much or too little.
	 */
	_Atomic(Phase) phase;
	atomic_int_least64_t since_ns;	 /* start of the phase */
	atomic_int_least64_t request_ns; /* start of the request, for its deadline */

	/* bytes received when last looked at while idle; -1 if not looked yet */
	atomic_int_least64_t idle_bytes;
};

struct Connections
{
	ConnectionLimits limits;
	int slots;
	pthread_mutex_t lock; /* guards the table, but see Connection */
	Connection table[];
};

Connections *
connections_create(const ConnectionLimits *limits)
{
	/*
	 * Those that are closing keep their slot until the library lets go of them,
	 * which takes a moment; so there are more slots than the limit.
	 */
	int slots = limits->total * 2 + 8;
	Connections *connections;

	connections = calloc(1, sizeof(*connections) +
								(size_t) slots * sizeof(Connection));
	if (connections == NULL)
		return NULL;
	connections->limits = *limits;
	connections->slots = slots;
	pthread_mutex_init(&connections->lock, NULL);
	return connections;
}

void
connections_free(Connections *connections)
{
	if (connections == NULL)
		return;
	pthread_mutex_destroy(&connections->lock);
	free(connections);
}

/*
 * What a client is known by: IPv4 as a mapped address, IPv6 by its /64, because
 * whoever has one address of such a net usually has them all.
 */
static void
normalize(const struct sockaddr *address, unsigned char key[16])
{
	memset(key, 0, 16);
	if (address->sa_family == AF_INET)
	{
		key[10] = key[11] = 0xff;
		memcpy(key + 12, &((const struct sockaddr_in *) address)->sin_addr, 4);
	}
	else if (address->sa_family == AF_INET6)
	{
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *) address)->sin6_addr;

		memcpy(key, v6, IN6_IS_ADDR_V4MAPPED(v6) ? 16 : 8);
	}
}

/*
 * How many bytes the kernel has received for a connection.  That is how the
 * first byte of a request is noticed: the library says nothing before a head is
 * complete.  -1 if the kernel does not tell (before Linux 4.1).
 */
static int64_t
received_bytes(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
		length < offsetof(struct tcp_info, tcpi_bytes_received) +
					 sizeof(info.tcpi_bytes_received))
		return -1;
	return (int64_t) info.tcpi_bytes_received;
}

/*
 * Whether the client has said that it sends no more.
 */
static bool
has_finished(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLRDHUP };

	return poll(&polled, 1, 0) > 0;
}

static void
shut_down(Connection *connection, ClosedReason reason, int64_t now_ns)
{
	connection->closing = true;
	connection->closing_ns = now_ns;
	connection->reason = reason;
	shutdown(connection->fd, SHUT_RDWR);
}

/*
 * Shut down the connection that has been idle longest, of one address or of all.
 */
static bool
evict_idle(Connections *connections, const unsigned char *address,
		   int64_t now_ns)
{
	Connection *oldest = NULL;

	for (int i = 0; i < connections->slots; i++)
	{
		Connection *c = &connections->table[i];

		if (!c->used || !c->opened || c->closing || c->phase != PHASE_IDLE)
			continue;
		if (address != NULL && memcmp(c->address, address, 16) != 0)
			continue;
		if (oldest == NULL || c->since_ns < oldest->since_ns)
			oldest = c;
	}
	if (oldest == NULL)
		return false;
	shut_down(oldest, CLOSED_IDLE, now_ns);
	return true;
}

bool
connections_admit(Connections *connections, int fd,
				  const struct sockaddr *address, int64_t now_ns,
				  ClosedReason *refused)
{
	Connection *slot = NULL;
	unsigned char key[16];
	int total = 0;
	int same = 0;
	bool admitted = false;

	normalize(address, key);
	pthread_mutex_lock(&connections->lock);
	for (int i = 0; i < connections->slots; i++)
	{
		Connection *c = &connections->table[i];

		/* The kernel gave this number anew: the library dropped it silently. */
		if (c->used && c->fd == fd)
			c->used = false;
		if (!c->used)
		{
			slot = c;
			continue;
		}
		if (c->closing)
			continue;
		total++;
		if (memcmp(c->address, key, 16) == 0)
			same++;
	}
	if (same >= connections->limits.per_address && !evict_idle(connections, key, now_ns))
		*refused = CLOSED_ADDRESS_LIMIT;
	else if (slot == NULL ||
			 (total >= connections->limits.total &&
			  same < connections->limits.per_address &&
			  !evict_idle(connections, NULL, now_ns)))
		*refused = CLOSED_CONNECTION_LIMIT;
	else
	{
		slot->used = true;
		slot->opened = false;
		slot->closing = false;
		slot->fd = fd;
		slot->reason = CLOSED_PEER;
		memcpy(slot->address, key, 16);
		atomic_store(&slot->phase, PHASE_HEADER);
		atomic_store(&slot->since_ns, now_ns);
		atomic_store(&slot->request_ns, now_ns);
		atomic_store(&slot->idle_bytes, -1);
		admitted = true;
	}
	pthread_mutex_unlock(&connections->lock);
	return admitted;
}

static Connection *
find(Connections *connections, int fd)
{
	for (int i = 0; i < connections->slots; i++)
	{
		Connection *c = &connections->table[i];

		if (c->used && c->fd == fd)
			return c;
	}
	return NULL;
}

Connection *
connections_opened(Connections *connections, int fd)
{
	Connection *connection;

	pthread_mutex_lock(&connections->lock);
	connection = find(connections, fd);
	if (connection != NULL)
	{
		connection->opened = true;
		status_http_connection_opened();
	}
	pthread_mutex_unlock(&connections->lock);
	return connection;
}

void
connections_closed(Connections *connections, Connection *connection)
{
	pthread_mutex_lock(&connections->lock);
	status_http_connection_closed(connection->reason, true);
	connection->used = false;
	pthread_mutex_unlock(&connections->lock);
}

void
connections_failed(Connections *connections, int fd)
{
	Connection *connection;

	pthread_mutex_lock(&connections->lock);
	connection = find(connections, fd);
	if (connection != NULL)
		connection->used = false;
	pthread_mutex_unlock(&connections->lock);
}

void
connections_request_begins(Connection *connection, int64_t now_ns)
{
	/* Seen arriving: the deadline of the whole runs from then on. */
	if (atomic_exchange(&connection->phase, PHASE_ANSWER) == PHASE_IDLE)
		atomic_store(&connection->request_ns, now_ns);
	atomic_store(&connection->since_ns, now_ns);
}

void
connections_request_ends(Connection *connection, int64_t now_ns)
{
	atomic_store(&connection->since_ns, now_ns);
	atomic_store(&connection->idle_bytes, -1);
	atomic_store(&connection->phase, PHASE_IDLE);
}

/*
 * An idle connection: has its next request begun to arrive?
 */
static void
expire_idle(const ConnectionLimits *limits, Connection *c, int64_t now_ns)
{
	int64_t before = c->idle_bytes;
	int64_t bytes = received_bytes(c->fd);
	Phase idle = PHASE_IDLE;

	if (before >= 0 && bytes > before)
	{
		/* unless its head is complete already, and it is being answered */
		if (atomic_compare_exchange_strong(&c->phase, &idle, PHASE_HEADER))
		{
			c->since_ns = now_ns;
			c->request_ns = now_ns;
		}
	}
	else if (now_ns - c->since_ns >= limits->idle_timeout_ns)
		shut_down(c, CLOSED_IDLE, now_ns);
	else if (now_ns - c->since_ns >= FINISHED_PATIENCE_NS && has_finished(c->fd))
		shut_down(c, CLOSED_PEER, now_ns);
	else
		c->idle_bytes = bytes;
}

static void
expire_one(const ConnectionLimits *limits, Connection *c, int64_t now_ns)
{
	switch (atomic_load(&c->phase))
	{
		case PHASE_HEADER:
			if (now_ns - c->since_ns >= limits->header_timeout_ns)
				shut_down(c, CLOSED_HEADER_TIMEOUT, now_ns);
			else if (now_ns - c->request_ns >= limits->request_timeout_ns)
				shut_down(c, CLOSED_REQUEST_TIMEOUT, now_ns);
			break;
		case PHASE_ANSWER:
			if (now_ns - c->request_ns >= limits->request_timeout_ns)
				shut_down(c, CLOSED_REQUEST_TIMEOUT, now_ns);
			break;
		case PHASE_IDLE:
			expire_idle(limits, c, now_ns);
			break;
	}
}

void
connections_expire(Connections *connections, int64_t now_ns)
{
	pthread_mutex_lock(&connections->lock);
	for (int i = 0; i < connections->slots; i++)
	{
		Connection *c = &connections->table[i];

		if (c->used && c->opened && !c->closing)
			expire_one(&connections->limits, c, now_ns);
	}
	pthread_mutex_unlock(&connections->lock);
}

bool
connections_library_lives(Connections *connections, int64_t now_ns)
{
	bool lives = true;

	pthread_mutex_lock(&connections->lock);
	for (int i = 0; i < connections->slots; i++)
	{
		const Connection *c = &connections->table[i];

		if (c->used && c->closing && now_ns - c->closing_ns > LIBRARY_PATIENCE_NS)
			lives = false;
	}
	pthread_mutex_unlock(&connections->lock);
	return lives;
}

int
connections_shut_down(Connections *connections, bool all, int64_t now_ns)
{
	int left = 0;

	pthread_mutex_lock(&connections->lock);
	for (int i = 0; i < connections->slots; i++)
	{
		Connection *c = &connections->table[i];

		if (!c->used || c->closing)
			continue;
		if (c->opened && (all || c->phase == PHASE_IDLE))
			shut_down(c, CLOSED_SHUTDOWN, now_ns);
		else
			left++;
	}
	pthread_mutex_unlock(&connections->lock);
	return left;
}

/*
 * connections_test.c
 *	  Limits and deadlines, with real sockets and a clock of the test's own.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connections.h"

#define SECOND INT64_C(1000000000)

static const ConnectionLimits limits = {
	.total = 4,
	.per_address = 3,
	.header_timeout_ns = 10 * SECOND,
	.request_timeout_ns = 30 * SECOND,
	.idle_timeout_ns = 60 * SECOND
};

static int listen_fd;

typedef struct Pair
{
	int client;
	int server;
	Connection *connection;
} Pair;

static struct sockaddr_storage
address_of(const char *text)
{
	struct sockaddr_storage storage = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *) &storage;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &storage;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	else
		abort();
	return storage;
}

/* A real connection that is said to come from an address. */
static bool
connect_from(Connections *connections, Pair *pair, const char *address,
			 int64_t now_ns, ClosedReason *reason)
{
	struct sockaddr_storage from = address_of(address);
	struct sockaddr_in to;
	socklen_t length = sizeof(to);

	pair->connection = NULL;
	pair->client = socket(AF_INET, SOCK_STREAM, 0);
	if (getsockname(listen_fd, (struct sockaddr *) &to, &length) != 0 ||
		connect(pair->client, (struct sockaddr *) &to, length) != 0)
		abort();
	pair->server = accept(listen_fd, NULL, NULL);
	if (pair->server < 0)
		abort();
	if (!connections_admit(connections, pair->server, (struct sockaddr *) &from,
						   now_ns, reason))
	{
		close(pair->server);
		close(pair->client);
		return false;
	}
	pair->connection = connections_opened(connections, pair->server);
	return true;
}

static void
leave(Connections *connections, Pair *pair)
{
	if (pair->connection != NULL)
		connections_closed(connections, pair->connection);
	close(pair->server);
	close(pair->client);
}

/* Whether the other side has been shut down. */
static bool
is_shut(const Pair *pair)
{
	struct pollfd fd = { .fd = pair->client, .events = POLLIN | POLLRDHUP };

	return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP)) != 0;
}

static void
test_limits(void)
{
	Connections *connections = connections_create(&limits);
	Pair pairs[4];
	Pair extra;
	ClosedReason reason = CLOSED_PEER;

	for (int i = 0; i < 3; i++)
		ok(connect_from(connections, &pairs[i], "192.0.2.1", i, &reason), "connection %d", i);
	ok(!connect_from(connections, &extra, "192.0.2.1", 5, &reason),
	   "one more from the same address");
	is_int(reason, CLOSED_ADDRESS_LIMIT, "is one too many from it");
	ok(!connect_from(connections, &extra, "::ffff:192.0.2.1", 5, &reason),
	   "however the address is written");
	ok(connect_from(connections, &pairs[3], "192.0.2.2", 5, &reason), "another address may");
	ok(!connect_from(connections, &extra, "192.0.2.3", 6, &reason), "a third may not");
	is_int(reason, CLOSED_CONNECTION_LIMIT, "because all are taken");

	/* one of them becomes idle, and has to make room */
	connections_request_begins(pairs[1].connection, 7);
	connections_request_ends(pairs[1].connection, 8);
	ok(connect_from(connections, &extra, "192.0.2.3", 9, &reason), "idle ones make room");
	ok(is_shut(&pairs[1]), "the idle one is shut down");
	ok(!is_shut(&pairs[0]) && !is_shut(&pairs[2]) && !is_shut(&pairs[3]),
	   "those with a request are not");
	is_int(status_http_connections(), 5, "five are open until the library lets go");
	for (int i = 0; i < 4; i++)
		leave(connections, &pairs[i]);
	leave(connections, &extra);
	is_int(status_http_connections(), 0, "none is open");
	is_int(status_http_closed(CLOSED_IDLE), 1, "one was idle");
	is_int(status_http_closed(CLOSED_PEER), 4, "four were closed by the client");
	connections_free(connections);
}

static void
test_networks(void)
{
	Connections *connections = connections_create(&limits);
	Pair pairs[4];
	Pair extra;
	ClosedReason reason;

	ok(connect_from(connections, &pairs[0], "2001:db8::1", 0, &reason) &&
		   connect_from(connections, &pairs[1], "2001:db8::2", 0, &reason) &&
		   connect_from(connections, &pairs[2], "2001:db8::3:4:5:6", 0, &reason),
	   "three of one IPv6 network");
	ok(!connect_from(connections, &extra, "2001:db8::7", 0, &reason),
	   "a fourth counts as the same client");
	ok(connect_from(connections, &pairs[3], "2001:db8:0:1::1", 0, &reason),
	   "the next network is another");
	for (int i = 0; i < 4; i++)
		leave(connections, &pairs[i]);
	connections_free(connections);
}

static void
test_deadlines(void)
{
	Connections *connections = connections_create(&limits);
	Pair header;
	Pair answer;
	ClosedReason reason;

	status_reset();
	connect_from(connections, &header, "192.0.2.1", 0, &reason);
	connect_from(connections, &answer, "192.0.2.1", 0, &reason);
	connections_request_begins(answer.connection, 9 * SECOND);
	connections_expire(connections, 10 * SECOND - 1);
	ok(!is_shut(&header), "within the header's deadline");
	connections_expire(connections, 10 * SECOND);
	ok(is_shut(&header), "past it, whatever trickles in");
	ok(!is_shut(&answer), "an answer under way has longer");
	connections_expire(connections, 30 * SECOND - 1);
	ok(!is_shut(&answer), "within the request's deadline");
	connections_expire(connections, 30 * SECOND);
	ok(is_shut(&answer), "past it, counted from the first byte");
	leave(connections, &header);
	leave(connections, &answer);
	is_int(status_http_closed(CLOSED_HEADER_TIMEOUT), 1, "one for its header");
	is_int(status_http_closed(CLOSED_REQUEST_TIMEOUT), 1, "one for its answer");
	connections_free(connections);
}

/* Let a byte arrive, really. */
static void
send_byte(const Pair *pair)
{
	struct pollfd fd = { .fd = pair->server, .events = POLLIN };
	char byte;

	if (write(pair->client, "G", 1) != 1 || poll(&fd, 1, 10000) != 1 ||
		read(pair->server, &byte, 1) != 1)
		abort();
}

static void
test_keep_alive(void)
{
	Connections *connections = connections_create(&limits);
	Pair silent;
	Pair slow;
	ClosedReason reason;
	int64_t now = 0;

	status_reset();
	connect_from(connections, &silent, "192.0.2.1", now, &reason);
	connect_from(connections, &slow, "192.0.2.1", now, &reason);
	for (int i = 0; i < 2; i++)
	{
		Connection *c = i == 0 ? silent.connection : slow.connection;

		connections_request_begins(c, now);
		connections_request_ends(c, now);
	}
	connections_expire(connections, now += SECOND);
	connections_expire(connections, now += 40 * SECOND);
	ok(!is_shut(&silent) && !is_shut(&slow), "idle connections are kept");

	/* the second request of one begins, and never ends */
	send_byte(&slow);
	connections_expire(connections, now += SECOND);
	for (int i = 0; i < 9; i++)
	{
		send_byte(&slow);
		connections_expire(connections, now += SECOND);
	}
	ok(!is_shut(&slow), "its bytes start the header's deadline");
	send_byte(&slow);
	connections_expire(connections, now += SECOND);
	ok(is_shut(&slow), "and do not extend it");
	ok(!is_shut(&silent), "the other one is still idle");
	connections_expire(connections, 60 * SECOND);
	ok(is_shut(&silent), "until its time is over");
	leave(connections, &silent);
	leave(connections, &slow);
	is_int(status_http_closed(CLOSED_HEADER_TIMEOUT), 1, "one for its header");
	is_int(status_http_closed(CLOSED_IDLE), 1, "one for being idle");
	connections_free(connections);
}

/* A client that says with its request that no other follows, and waits for the end. */
static void
test_finished(void)
{
	Connections *connections = connections_create(&limits);
	Pair finished;
	Pair asking;
	struct pollfd fd = { .events = POLLRDHUP };
	ClosedReason reason;

	status_reset();
	connect_from(connections, &finished, "192.0.2.1", 0, &reason);
	connect_from(connections, &asking, "192.0.2.1", 0, &reason);
	shutdown(finished.client, SHUT_WR);
	fd.fd = finished.server;
	if (poll(&fd, 1, 10000) != 1)
		abort();
	connections_request_begins(finished.connection, 0);
	connections_request_begins(asking.connection, 0);
	connections_expire(connections, 2 * SECOND);
	ok(!is_shut(&finished), "its answer is under way");
	connections_request_ends(finished.connection, 2 * SECOND);
	connections_request_ends(asking.connection, 2 * SECOND);
	connections_expire(connections, 2 * SECOND + SECOND / 2);
	connections_expire(connections, 3 * SECOND - 1);
	ok(!is_shut(&finished), "another may be waiting behind it");
	connections_expire(connections, 3 * SECOND);
	ok(is_shut(&finished), "then it has all that it asked for");
	ok(!is_shut(&asking), "who has not finished is kept");
	leave(connections, &finished);
	leave(connections, &asking);
	is_int(status_http_closed(CLOSED_PEER), 2, "it is not one that was idle");
	connections_free(connections);
}

static void
test_stop(void)
{
	Connections *connections = connections_create(&limits);
	Pair idle;
	Pair busy;
	ClosedReason reason;

	connect_from(connections, &idle, "192.0.2.1", 0, &reason);
	connect_from(connections, &busy, "192.0.2.1", 0, &reason);
	connections_request_begins(idle.connection, 0);
	connections_request_ends(idle.connection, 0);
	connections_request_begins(busy.connection, 0);
	is_int(connections_shut_down(connections, false, 0), 1, "one is under way");
	ok(is_shut(&idle) && !is_shut(&busy), "the idle one is shut down first");
	is_int(connections_shut_down(connections, true, 0), 0, "then all");
	ok(connections_library_lives(connections, 10 * SECOND),
	   "the library has a moment to notice");
	ok(!connections_library_lives(connections, 11 * SECOND), "but not longer");
	ok(is_shut(&busy), "the busy one too");
	leave(connections, &idle);
	leave(connections, &busy);
	ok(connections_library_lives(connections, 11 * SECOND), "having let go it lives");
	connections_free(connections);
	connections_free(NULL);
}

/* A descriptor the library closed without a word is known again by its number. */
static void
test_forgotten(void)
{
	Connections *connections = connections_create(&limits);
	struct sockaddr_storage from = address_of("192.0.2.1");
	ClosedReason reason;

	for (int i = 0; i < 20; i++)
		ok(connections_admit(connections, 7, (struct sockaddr *) &from, i, &reason),
		   "the same descriptor again");
	connections_expire(connections, 100 * SECOND);
	connections_failed(connections, 7);
	ok(connections_opened(connections, 7) == NULL, "a failed one is forgotten");
	connections_free(connections);
}

int
main(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *) &any, sizeof(any)) != 0 ||
		listen(listen_fd, 64) != 0)
		abort();
	test_limits();
	test_networks();
	test_deadlines();
	test_keep_alive();
	test_finished();
	test_stop();
	test_forgotten();
	close(listen_fd);
	return tap_done();
}

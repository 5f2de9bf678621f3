/*
 * connections.h
 *		Who is connected, for how long, and who has to go.
 *
 * The HTTP library's own timeout sees inactivity only: one byte every second
 * keeps a connection for ever.  So each connection has a deadline of ours: for
 * its request to arrive (counted from its first byte) and for the whole of
 * request and answer.  Whoever misses one is shut down with shutdown(2), from
 * which the library learns that the client is gone.
 *
 * When the limit is reached, a connection that is kept alive and idle makes room;
 * if there is none, the newcomer is refused.
 *
 * Knows sockets but not the HTTP library.  One mutex guards the table; it is
 * never held during anything that can block, and a request takes it not at all.
 * A descriptor is only shut down while its entry is in the table, and the entry
 * leaves it before the descriptor is closed, so no descriptor of somebody else's
 * can be hit.
 */
#ifndef RETSU_CONNECTIONS_H
#define RETSU_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "status.h"

typedef struct Connections Connections;
typedef struct Connection Connection;

typedef struct ConnectionLimits
{
	int total;
	int per_address; /* an IPv6 client's address is its /64 */
	int64_t header_timeout_ns;
	int64_t request_timeout_ns;
	int64_t idle_timeout_ns;
} ConnectionLimits;

extern Connections *connections_create(const ConnectionLimits *limits);
extern void connections_free(Connections *connections);

/*
 * A connection was accepted.  Returns true and remembers it; or false with the
 * reason, and the caller closes it.
 */
extern bool connections_admit(Connections *connections, int fd,
							  const struct sockaddr *address, int64_t now_ns,
							  ClosedReason *refused);

/* The library has taken it over; NULL if it is not known (any more). */
extern Connection *connections_opened(Connections *connections, int fd);

/*
 * The library is about to close it, or could not take it over.
 */
extern void connections_closed(Connections *connections, Connection *connection);
extern void connections_failed(Connections *connections, int fd);

/* A request's head is complete; its answer has been sent or given up. */
extern void connections_request_begins(Connection *connection, int64_t now_ns);
extern void connections_request_ends(Connection *connection, int64_t now_ns);

/* Shut down whoever is past a deadline; to be called a few times a second. */
extern void connections_expire(Connections *connections, int64_t now_ns);

/*
 * Whether the library lets go of what was shut down, which it does at once.  False
 * when one has been waiting for ten seconds: then a thread of the library hangs.
 */
extern bool connections_library_lives(Connections *connections, int64_t now_ns);

/*
 * For an ordered stop: shut down all connections without a request under way,
 * or all.  Returns how many are left that were not shut down.
 */
extern int connections_shut_down(Connections *connections, bool all,
								 int64_t now_ns);

#endif /* RETSU_CONNECTIONS_H */

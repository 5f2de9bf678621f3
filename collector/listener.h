/*
 * listener.h
 *		The sockets the collector listens on.
 *
 * They are made here and not by the HTTP library, so that there can be several,
 * port 0 can tell what it got, and limits are enforced before the library has
 * spent anything on a connection.
 */
#ifndef RETSU_LISTENER_H
#define RETSU_LISTENER_H

#include <stdbool.h>
#include <stddef.h>

#define LISTENER_MAX 32

typedef struct Listener
{
	int fd;
	char address[72]; /* "127.0.0.1:24247", "[::1]:24247" */
} Listener;

typedef struct Listeners
{
	Listener items[LISTENER_MAX];
	int count;
} Listeners;

typedef enum ListenerResult
{
	LISTENER_OK,
	LISTENER_BAD_ADDRESS,
	LISTENER_CANNOT_BIND
} ListenerResult;

/*
 * Cut "host:port", "[v6]:port" or ":port" (every address) in two; false when it
 * is none of these.
 */
extern bool listener_parse(const char *address, char *host, size_t host_size,
						   char *port, size_t port_size);

/*
 * Listen on an address, and on each of its meanings if it is a name.  A reason
 * is in error unless the result is LISTENER_OK; what was opened before stays open
 * then, for listener_close().
 */
extern ListenerResult listener_open(Listeners *listeners, const char *address,
									char *error, size_t error_size);
extern void listener_close(Listeners *listeners);

#endif /* RETSU_LISTENER_H */

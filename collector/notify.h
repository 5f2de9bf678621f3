/*
 * notify.h
 *	  Telling systemd how the service is, over its datagram socket.
 *
 * The protocol is a few lines of text sent to the socket that $NOTIFY_SOCKET
 * names; no library is needed for it.  Without the variable every call does
 * nothing.  Used by the main thread alone.
 */
#ifndef RETSU_NOTIFY_H
#define RETSU_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify
{
	int fd; /* -1: nobody listens */
	struct sockaddr_un address;
	socklen_t address_length;
	int64_t watchdog_ms; /* 0: no watchdog */
	char status[256];	 /* last STATUS= sent */
};

/*
 * Turns the value of $NOTIFY_SOCKET into an address; a leading @ means the
 * abstract namespace.  False when it is neither that nor an absolute path, or
 * too long.
 */
extern bool notify_address(const char *text, struct sockaddr_un *address,
						   socklen_t *length);

/* Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. */
extern void notify_open(struct notify *notify);
extern void notify_close(struct notify *notify);

/* Sends a message of "NAME=value" lines; losing one is not an error. */
extern void notify_send(struct notify *notify, const char *message);

/* STATUS=, sent only when it changed. */
extern void notify_status(struct notify *notify, const char *status);

#endif /* RETSU_NOTIFY_H */

/*
 * listener.c
 *		The sockets the collector listens on.
 */
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Enough for every client there may be to connect at once. */
#define BACKLOG 512

/*
 * Of each connection, in bytes; the kernel doubles it, and by default allows no
 * more than this (net.core.wmem_max).  Left to itself it lets the buffer grow to
 * megabytes, which a large answer then travels through cold: that halved the
 * scrapes of 10,000 queues.  And a client that does not read holds no more of the
 * kernel's memory than this.  An answer of a hundred queues fits in, so that it is
 * sent at once: with half as much it took a tenth longer.
 */
#define SEND_BUFFER 212992

static bool
port_is_valid(const char *port)
{
	long number = 0;

	if (*port == '\0' || strlen(port) > 5)
		return false;
	for (const char *c = port; *c != '\0'; c++)
	{
		if (*c < '0' || *c > '9')
			return false;
		number = number * 10 + (*c - '0');
	}
	return number <= 65535;
}

bool
listener_parse(const char *address, char *host, size_t host_size,
			   char *port, size_t port_size)
{
	const char *colon = strrchr(address, ':');
	const char *start = address;
	const char *end = colon;

	if (colon == NULL || !port_is_valid(colon + 1))
		return false;
	if (*address == '[')
	{
		if (colon - address < 3 || colon[-1] != ']')
			return false;
		start = address + 1;
		end = colon - 1;
	}
	else if (memchr(address, ':', (size_t) (colon - address)) != NULL)
		return false; /* an IPv6 address without brackets */
	if ((size_t) (end - start) >= host_size || strlen(colon + 1) >= port_size)
		return false;
	memcpy(host, start, (size_t) (end - start));
	host[end - start] = '\0';
	memcpy(port, colon + 1, strlen(colon + 1) + 1);
	return true;
}

/*
 * Put the address a socket is bound to into words, with its real port.
 */
static void
describe(int fd, char *buffer, size_t size)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	char host[64];
	char port[8];

	if (getsockname(fd, (struct sockaddr *) &bound, &length) != 0 ||
		getnameinfo((struct sockaddr *) &bound, length, host, sizeof(host),
					port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(buffer, size, "(unknown)");
	else
		snprintf(buffer, size, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
				 host, port);
}

/*
 * One socket.  With any_family an IPv6 socket takes IPv4 as well.
 */
static int
open_socket(const struct addrinfo *info, bool any_family)
{
	int on = 1;
	int v6only = !any_family;
	int send_buffer = SEND_BUFFER;
	int fd = socket(info->ai_family,
					SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;

	/* A restart must not wait for connections of the last run to time out. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) != 0 ||
		(info->ai_family == AF_INET6 &&
		 setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) != 0) ||
		bind(fd, info->ai_addr, info->ai_addrlen) != 0 ||
		listen(fd, BACKLOG) != 0)
	{
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static bool
add_socket(Listeners *listeners, int fd)
{
	Listener *listener;

	if (listeners->count == LISTENER_MAX)
	{
		close(fd);
		errno = EMFILE;
		return false;
	}
	listener = &listeners->items[listeners->count++];
	listener->fd = fd;
	describe(fd, listener->address, sizeof(listener->address));
	return true;
}

/*
 * ":port": one IPv6 socket that takes both, or IPv4 where there is no IPv6.
 */
static bool
open_any(Listeners *listeners, const char *port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct addrinfo info = { .ai_family = AF_INET6,
							 .ai_addr = (struct sockaddr *) &v6,
							 .ai_addrlen = sizeof(v6) };
	int fd;

	v6.sin6_port = v4.sin_port = htons((uint16_t) atoi(port));
	v4.sin_addr.s_addr = htonl(INADDR_ANY);
	fd = open_socket(&info, true);
	if (fd < 0 && errno != EADDRINUSE && errno != EACCES)
	{
		info.ai_family = AF_INET;
		info.ai_addr = (struct sockaddr *) &v4;
		info.ai_addrlen = sizeof(v4);
		fd = open_socket(&info, false);
	}
	return fd >= 0 && add_socket(listeners, fd);
}

static void
set_port(struct sockaddr *address, const struct sockaddr *from)
{
	in_port_t port = from->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *) from)->sin6_port : ((const struct sockaddr_in *) from)->sin_port;

	if (address->sa_family == AF_INET6)
		((struct sockaddr_in6 *) address)->sin6_port = port;
	else
		((struct sockaddr_in *) address)->sin_port = port;
}

/*
 * Every meaning of a host.  With port 0 they share the port the first one got.
 */
static bool
open_all(Listeners *listeners, struct addrinfo *found, const char *port)
{
	int opened = 0;
	int failure = 0;
	struct sockaddr_storage first;

	for (struct addrinfo *info = found; info != NULL; info = info->ai_next)
	{
		int fd;

		if (opened > 0 && strcmp(port, "0") == 0)
			set_port(info->ai_addr, (struct sockaddr *) &first);
		fd = open_socket(info, false);
		if (fd < 0)
		{
			/* "localhost" means ::1 as well, also where IPv6 is switched off */
			if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)
			{
				failure = errno;
				continue;
			}
			return false;
		}
		if (!add_socket(listeners, fd))
			return false;
		if (opened++ == 0)
		{
			socklen_t length = sizeof(first);

			if (getsockname(fd, (struct sockaddr *) &first, &length) != 0)
				return false;
		}
	}
	errno = failure;
	return opened > 0;
}

ListenerResult
listener_open(Listeners *listeners, const char *address, char *error,
			  size_t error_size)
{
	char host[256];
	char port[8];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
							  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *found;
	bool opened;
	int result;
	char reason[128];

	if (!listener_parse(address, host, sizeof(host), port, sizeof(port)))
	{
		snprintf(error, error_size,
				 "\"%.100s\" is not a listen address; use host:port, [v6]:port or :port",
				 address);
		return LISTENER_BAD_ADDRESS;
	}
	if (host[0] == '\0')
		opened = open_any(listeners, port);
	else
	{
		result = getaddrinfo(host, port, &hints, &found);
		if (result != 0)
		{
			snprintf(error, error_size, "cannot resolve listen address \"%.100s\": %s",
					 address, gai_strerror(result));
			return LISTENER_CANNOT_BIND;
		}
		opened = open_all(listeners, found, port);
		freeaddrinfo(found);
	}
	if (!opened)
	{
		snprintf(error, error_size, "cannot listen on \"%.100s\": %s", address,
				 strerror_r(errno, reason, sizeof(reason)));
		return LISTENER_CANNOT_BIND;
	}
	return LISTENER_OK;
}

void
listener_close(Listeners *listeners)
{
	for (int i = 0; i < listeners->count; i++)
		close(listeners->items[i].fd);
	listeners->count = 0;
}

/*
 * notify.c
 *	  Telling systemd how the service is, over its datagram socket.
 */
#include "notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
notify_address(const char *text, struct sockaddr_un *address, socklen_t *length)
{
	size_t size = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || size < 2 ||
		size >= sizeof(address->sun_path))
		return false;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, text, size);
	if (text[0] == '@')
	{
		/* The length says where an abstract name ends, not a zero byte. */
		address->sun_path[0] = '\0';
		*length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size);
	}
	else
		*length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size + 1);
	return true;
}

static int64_t
read_watchdog(void)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	/* The variables may be a parent's, handed down. */
	if (usec == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	return strtoll(usec, NULL, 10) / 1000;
}

void
notify_open(struct notify *notify)
{
	const char *path = getenv("NOTIFY_SOCKET");

	memset(notify, 0, sizeof(*notify));
	notify->fd = -1;
	if (path == NULL ||
		!notify_address(path, &notify->address, &notify->address_length))
		return;
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (notify->fd >= 0)
		notify->watchdog_ms = read_watchdog();
}

void
notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

void
notify_send(struct notify *notify, const char *message)
{
	if (notify->fd < 0)
		return;
	(void) !sendto(notify->fd, message, strlen(message), MSG_NOSIGNAL,
				   (struct sockaddr *) &notify->address, notify->address_length);
}

void
notify_status(struct notify *notify, const char *status)
{
	char line[sizeof(notify->status)];
	char message[sizeof(notify->status) + 16];

	snprintf(line, sizeof(line), "%s", status);
	/* A newline would begin another assignment. */
	for (char *c = line; *c != '\0'; c++)
	{
		if (*c == '\n')
			*c = ' ';
	}
	if (strcmp(notify->status, line) == 0)
		return;
	memcpy(notify->status, line, sizeof(line));
	snprintf(message, sizeof(message), "STATUS=%s", line);
	notify_send(notify, message);
}

/*
 * password.c
 *	  The database password, from a file or a systemd credential.
 */
#include "password.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
password_read(const char *path, char *password, char *reason,
			  size_t reason_size)
{
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");
	char credential_path[4096];
	char buffer[128];
	ssize_t length;
	int fd;

	password[0] = '\0';
	if (path == NULL)
	{
		if (credentials == NULL)
			return true;
		snprintf(credential_path, sizeof(credential_path),
				 "%s/database-password", credentials);
		if (access(credential_path, F_OK) != 0)
			return true;
		path = credential_path;
	}

	/* A FIFO or a terminal must not hold up the collecting thread. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	length = fd >= 0 ? read(fd, password, PASSWORD_SIZE - 1) : -1;
	if (length < 0)
		snprintf(reason, reason_size, "could not read the password file: %s",
				 strerror_r(errno, buffer, sizeof(buffer)));
	if (fd >= 0)
		close(fd);
	if (length < 0)
		return false;
	password[length] = '\0';
	password[strcspn(password, "\r\n")] = '\0';
	return true;
}

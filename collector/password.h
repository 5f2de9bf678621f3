/*
 * password.h
 *	  The database password, from a file or a systemd credential.
 */
#ifndef RETSU_PASSWORD_H
#define RETSU_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

/* A password longer than this is not a password. */
#define PASSWORD_SIZE 1024

/*
 * Reads the first line of `path`, or, when that is NULL, of the credential
 * database-password if there is one.  Done at every connect, so that a rotated
 * password is taken up.  `password` has room for PASSWORD_SIZE bytes and is ""
 * when there is none.  False, with the reason, when it cannot be read.
 */
extern bool password_read(const char *path, char *password, char *reason,
						  size_t reason_size);

#endif /* RETSU_PASSWORD_H */

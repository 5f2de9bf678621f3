/*
 * database.h
 *	  One session with the database, in which every wait has an end.
 *
 * Hides libpq: its header is included by database.c and connector.c alone.
 * A struct database belongs to one worker thread and is never shared.  All
 * waiting is done in worker_wait(), so a stop interrupts a connect or a
 * statement at once.
 */
#ifndef RETSU_DATABASE_H
#define RETSU_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "status.h"
#include "worker.h"

struct database;

/* Why the last call failed.  Never contains a connection string. */
struct database_error
{
	FailureReason reason;
	char sqlstate[6]; /* "" when the server did not say */
	char text[512];	  /* one line */
	char hint[256];	  /* what to do about it, or "" */
};

/* A row as it arrives; valid during the callback only. */
struct database_row;
typedef bool (*database_row_callback)(const struct database_row *row,
									  void *context);

/*
 * Says whether --database.conninfo can be understood at all.  The message
 * names no part of it: the part that is wrong may be the password.
 */
extern bool database_check_conninfo(const struct options *options,
									char *message, size_t message_size);

/* NULL when out of memory.  `options` and `instance` must outlive it. */
extern struct database *database_create(const struct options *options,
										const char *role, const char *instance,
										struct worker *worker);
extern void database_destroy(struct database *database);

/*
 * Makes a session and bounds its life on the server.  False when it failed,
 * see database_last_error(), or when the process is to stop.
 */
extern bool database_connect(struct database *database);
extern void database_disconnect(struct database *database);
extern bool database_is_connected(const struct database *database);

/*
 * True when the server process that answers is not the one that was connected
 * to: a connection pooler is between.
 */
extern bool database_is_pooled(const struct database *database);
extern int database_backend_pid(const struct database *database);

/*
 * Runs one statement and calls `on_row` (may be NULL) for each row as it
 * arrives.  After a callback that returned false the rest is read over, and the
 * call fails.  The session is closed when the deadline passes or the process is
 * to stop, because an unfinished statement must not have another one queued
 * behind it.
 */
extern bool database_run(struct database *database, const char *sql,
						 int64_t deadline_ms, database_row_callback on_row,
						 void *context);

/* The first column of the first row as a number; false as database_run(). */
extern bool database_run_number(struct database *database, const char *sql,
								int64_t deadline_ms, int64_t *value);

/* A column as text, NULL for SQL NULL or a column there is not. */
extern const char *database_value(const struct database_row *row, int column);

/* Boot clock at which the last statement was handed to the kernel. */
extern int64_t database_sent_ms(const struct database *database);

extern const struct database_error *database_last_error(const struct database *database);

/*
 * Sleeps until deadline_ms while watching the socket.  WORKER_READY means that
 * the session is gone; notices and parameter changes do not wake the caller.
 */
extern enum worker_wake database_idle(struct database *database,
									  int64_t deadline_ms);

#endif /* RETSU_DATABASE_H */

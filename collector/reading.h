/*
 * reading.h
 *	  What the collecting loop asks the database, and what the answers mean.
 *
 * Statements and their interpretation, no policy: nothing here publishes,
 * withdraws or decides who leads.
 */
#ifndef RETSU_READING_H
#define RETSU_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "database.h"
#include "snapshot.h"

/* The advisory lock that is the lease: "rets", "qSta" in ASCII. */
#define LEASE_KEY_HIGH 0x72657473
#define LEASE_KEY_LOW 0x71537461

/* The extension as this session sees it. */
struct reading_extension
{
	char version[32];		/* "" when it is not installed */
	bool may_read;			/* EXECUTE on snapshot() */
	bool may_fold;			/* EXECUTE on fold_pending() */
	bool may_count_pending; /* SELECT on the pending rows */
};

/* Why an extension cannot be read, and what to do about it. */
struct reading_problem
{
	FailureReason reason;
	char text[256];
	const char *hint;
};

/* False with *problem filled when it cannot. */
extern bool reading_extension_usable(const struct reading_extension *extension,
									 struct reading_problem *problem);

/* The session's right to lead, as the server sees it. */
struct reading_lease
{
	int backend_pid;
	bool in_recovery;  /* a standby server hands out locks of its own */
	bool locked;	   /* this very server process holds the lock */
	bool same_session; /* the settings made at connect are still there */
};

/* Each is false on failure, see database_last_error(). */
extern bool reading_check_extension(struct database *database,
									int64_t deadline_ms,
									struct reading_extension *extension);
extern bool reading_check_lease(struct database *database, const char *instance,
								int64_t deadline_ms, struct reading_lease *lease);
extern bool reading_try_lock(struct database *database, int64_t deadline_ms,
							 bool *taken);

/*
 * The session of a leader says so in its application_name.  Whoever takes the
 * lock looks for such a session first: its lock may have been released behind
 * its back, and then its collector still exports.  *pid is 0 for none.
 */
extern bool reading_announce(struct database *database, const char *instance,
							 int64_t deadline_ms);
extern bool reading_find_predecessor(struct database *database,
									 int64_t deadline_ms, int64_t *pid);
extern bool reading_end_session(struct database *database, int64_t deadline_ms,
								int64_t pid);

extern bool reading_fold(struct database *database, int64_t deadline_ms,
						 int64_t *folded);
extern bool reading_count_pending(struct database *database,
								  int64_t deadline_ms, int64_t *rows);

/*
 * Adds every row of queue_state.snapshot() to `snapshot`.  When a row is
 * refused, *reason and `text` say why.  FAILURE_RESOURCE with the session still
 * connected and no SQLSTATE means that memory ran out here, not in the server.
 */
extern bool reading_snapshot(struct database *database, int64_t deadline_ms,
							 Snapshot *snapshot, FailureReason *reason,
							 char *text, size_t text_size);

#endif /* RETSU_READING_H */

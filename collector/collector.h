/*
 * collector.h
 *	  What the files of the collecting thread share; private to them.
 *
 * collect.c runs the loop, candidacy.c takes the lease, refresh.c reads and
 * publishes, watch.c keeps the snapshot served while the session lives.  All
 * of it is done by one thread, so nothing here is locked.
 */
#ifndef RETSU_COLLECTOR_H
#define RETSU_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "backoff.h"
#include "collect.h"
#include "database.h"
#include "lease.h"
#include "log.h"
#include "reading.h"
#include "snapshot.h"
#include "status.h"

struct collector
{
	struct worker *worker;
	const struct collect_context *context;
	const struct options *options;
	struct database *database;
	struct lease lease;
	struct backoff backoff;
	Totals *totals;
	struct reading_extension extension;
	int64_t tick_ms;   /* when the last refresh was due */
	int64_t fence_ms;  /* when the lease counts as lost; leader only */
	int64_t read_ms;   /* when the current snapshot was asked for */
	int64_t looked_ms; /* when the session was last seen alive */
	bool stale;		   /* it was out of sight for too long */
	bool stood_by;	   /* said once that another one leads */

	/* Conditions that are logged when they come and when they go. */
	struct log_complaint unreachable;
	struct log_complaint refused;
	struct log_complaint failing;
	struct log_complaint no_fold;
};

/* What happened, for lease_step(), and why. */
struct outcome
{
	enum lease_event event;
	LossReason loss;	  /* of LEASE_LOST */
	FailureReason reason; /* of LEASE_REFRESH_FAILED */
	bool no_memory;		  /* it failed in this process, not over there */
	char text[512];
};

/* candidacy.c */
extern enum lease_event candidacy_connect(struct collector *collector);
extern enum lease_event candidacy_try(struct collector *collector);

/* refresh.c */
extern struct outcome refresh(struct collector *collector);
extern int64_t refresh_budget(const struct options *options);

/* watch.c */
extern void watch_look(void *collector);
extern int64_t watch_serve_until(const struct collector *collector);
extern struct outcome watch_until_tick(struct collector *collector);

/* Fills *outcome with a loss; returns false. */
extern bool watch_lose(struct outcome *outcome, LossReason loss,
					   const char *text);

/*
 * How long the collecting thread may not have looked at its session for the
 * snapshot still to be served.  A process that was frozen for longer answers
 * as a standby when it thaws, until the lock has been confirmed: its session
 * may have ended meanwhile, and the request threads may run first.
 */
#define LOOK_LIMIT_MS 2000

#endif /* RETSU_COLLECTOR_H */

/*
 * lease.h
 *	  Who leads: connecting, standby, leader, as a pure step function.
 *
 * lease_step() takes what happened and answers what to do; it performs
 * nothing itself, so that every transition can be tested without a server.
 * The caller carries out the actions in the order of their numbers, because
 * withdrawing the series comes before everything else.
 */
#ifndef RETSU_LEASE_H
#define RETSU_LEASE_H

#include <stdbool.h>

#include "status.h"

enum lease_state
{
	LEASE_CONNECTING, /* no session */
	LEASE_STANDBY,	  /* a session, and another leads or none may */
	LEASE_LEADER,	  /* the session holds the lock */
	LEASE_ENDED
};

enum lease_event
{
	LEASE_UNREACHABLE, /* no session could be made */
	LEASE_CONNECTED,   /* a session was made */
	LEASE_REFUSED,	   /* this collector may not lead as things are */
	LEASE_BUSY,		   /* another collector holds the lock */
	LEASE_GRANTED,	   /* the lock was taken, or none is needed */
	LEASE_REFRESHED,   /* a snapshot was published */
	LEASE_REFRESH_FAILED,
	LEASE_LOST,	  /* session, lock, primary or fence are gone */
	LEASE_STOPPED /* the process is to end */
};

enum lease_action
{
	LEASE_WITHDRAW = 1 << 0, /* stop exporting, before anything else */
	LEASE_COUNT_ACQUIRED = 1 << 1,
	LEASE_COUNT_LOST = 1 << 2, /* with the reason in the answer */
	LEASE_DISCONNECT = 1 << 3, /* gives the lock back */
	LEASE_EXIT_FAILED = 1 << 4 /* end the process with status 75 */
};

enum lease_wait
{
	LEASE_WAIT_NONE,
	LEASE_WAIT_BACKOFF, /* growing, while there is no session */
	LEASE_WAIT_RETRY,	/* --lease.retry-interval with jitter */
	LEASE_WAIT_YIELD,	/* long enough for every standby to try first */
	LEASE_WAIT_INTERVAL /* the next tick of --collector.interval */
};

struct lease
{
	enum lease_state state;
	bool enabled; /* false: lead without asking anybody */
	bool exit_on_failure;
	bool leads; /* an acquisition was counted and no loss since */
};

struct lease_answer
{
	unsigned int actions; /* enum lease_action */
	enum lease_wait wait;
	LossReason reason; /* of LEASE_COUNT_LOST */
};

extern void lease_init(struct lease *lease, bool enabled, bool exit_on_failure);

/* `reason` matters for LEASE_LOST alone. */
extern struct lease_answer lease_step(struct lease *lease,
									  enum lease_event event,
									  LossReason reason);

extern const char *lease_state_name(enum lease_state state);

#endif /* RETSU_LEASE_H */

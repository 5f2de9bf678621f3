/*
 * worker.h
 *	  A thread that can be stopped, and that shows that it lives.
 *
 * A worker waits nowhere but in worker_wait(), which ends at once when the
 * process is to stop, marks the worker as alive at least twice a second, and
 * sleeps by the boot clock.  The watchdog asks worker_silence(): a worker
 * that hangs outside of worker_wait() falls silent, one that waits does not.
 */
#ifndef RETSU_WORKER_H
#define RETSU_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker
{
	const char *name; /* at most 15 bytes, shown by ps and gdb */
	int stop_fd;	  /* becomes readable once, and stays so */
	atomic_int_fast64_t heartbeat_ms;
	int end_fd; /* readable once run() has returned */
	pthread_t thread;
	void (*run)(struct worker *worker, void *context);
	void *context;

	/*
	 * Called by the worker itself, at least twice a second, while it waits and
	 * what it waits for is quiet.  May be NULL.
	 */
	void (*on_quiet)(void *quiet_context);
	void *quiet_context;
};

enum worker_wake
{
	WORKER_DUE,	  /* the time has come */
	WORKER_READY, /* the descriptor has an event */
	WORKER_STOP	  /* the process is to end */
};

/* Starts a thread that calls run(worker, context).  0, or an errno value. */
extern int worker_start(struct worker *worker, const char *name, int stop_fd,
						void (*run)(struct worker *worker, void *context),
						void *context);

/* Waits for the end of the thread until deadline_ms; false if it still runs. */
extern bool worker_join(struct worker *worker, int64_t deadline_ms);

/*
 * Waits until deadline_ms, or until fd (-1: none) has one of `events` of
 * poll(2) or is broken.  A stop outranks an event, an event outranks time.
 */
extern enum worker_wake worker_wait(struct worker *worker, int fd, short events,
									int64_t deadline_ms);

extern bool worker_stopping(struct worker *worker);

/* Milliseconds since the worker last showed that it lives. */
extern int64_t worker_silence(struct worker *worker, int64_t now_ms);

#endif /* RETSU_WORKER_H */

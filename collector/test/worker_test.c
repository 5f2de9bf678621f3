/*
 * worker_test.c
 *	  A worker wakes for the right reason, shows that it lives, and ends.
 */
#include "tap.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "worker.h"

static int stop_fd;
static int event_fd;

static void
wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		tap_failures++;
}

/* Waits for as long as it is let to. */
static void
run_until_stopped(struct worker *worker, void *context)
{
	while (worker_wait(worker, -1, 0, clock_ms() + 60000) != WORKER_STOP)
		;
	*(int *) context = 1;
}

/* Works without ever looking up. */
static void
run_deaf(struct worker *worker, void *context)
{
	(void) worker;
	while (!atomic_load((atomic_bool *) context))
		usleep(1000);
}

static void
count_quiet(void *context)
{
	(*(int *) context)++;
}

int
main(void)
{
	struct worker here = { .name = "here" };
	struct worker worker;
	atomic_bool let_go = false;
	int ended = 0;
	int quiet = 0;
	int64_t begun_ms;

	stop_fd = eventfd(0, 0);
	event_fd = eventfd(0, 0);
	here.stop_fd = stop_fd;

	here.on_quiet = count_quiet;
	here.quiet_context = &quiet;
	begun_ms = clock_ms();
	is_int(worker_wait(&here, event_fd, POLLIN, begun_ms + 700), WORKER_DUE,
		   "nothing happens until the time has come");
	ok(clock_ms() >= begun_ms + 700, "and not before");
	ok(quiet >= 2, "meanwhile it is told that all is quiet");
	quiet = 0;
	is_int(worker_wait(&here, event_fd, POLLIN, begun_ms), WORKER_DUE,
		   "a time that has passed is due at once");
	wake(event_fd);
	is_int(worker_wait(&here, event_fd, POLLIN, clock_ms() + 60000), WORKER_READY,
		   "an event ends the wait");
	is_int(worker_wait(&here, event_fd, POLLIN, begun_ms), WORKER_READY,
		   "an event outranks the time");
	is_int(quiet, 1, "an event is not quiet, a time that has passed is");
	ok(!worker_stopping(&here), "no stop yet");
	ok(worker_silence(&here, clock_ms()) < 60000, "it has shown that it lives");

	is_int(worker_start(&worker, "test", stop_fd, run_until_stopped, &ended), 0,
		   "a worker starts");
	ok(!worker_join(&worker, clock_ms() + 50), "it does not end by itself");
	wake(stop_fd);
	ok(worker_join(&worker, clock_ms() + 10000) && ended == 1,
	   "it ends when the process is to stop");
	is_int(worker_wait(&here, event_fd, POLLIN, clock_ms() + 60000), WORKER_STOP,
		   "a stop outranks an event, and stays");
	ok(worker_stopping(&here), "and is seen");

	is_int(worker_start(&worker, "deaf", stop_fd, run_deaf, &let_go), 0, "a deaf one");
	usleep(100000);
	ok(worker_silence(&worker, clock_ms()) >= 50, "falls silent");
	ok(!worker_join(&worker, clock_ms() + 50), "and is left behind");
	atomic_store(&let_go, true);
	ok(worker_join(&worker, clock_ms() + 10000), "until it ends");
	return tap_done();
}

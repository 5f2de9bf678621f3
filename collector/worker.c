/*
 * worker.c
 *	  A thread that can be stopped, and that shows that it lives.
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"

/*
 * Longest sleep in one piece.  poll(2) does not count the time a machine was
 * suspended; this is how late a deadline of the boot clock can be noticed.
 */
#define SLICE_MS 500

static void
beat(struct worker *worker)
{
	atomic_store(&worker->heartbeat_ms, clock_ms());
}

static void *
run_worker(void *argument)
{
	struct worker *worker = argument;
	uint64_t one = 1;

	pthread_setname_np(pthread_self(), worker->name);
	beat(worker);
	worker->run(worker, worker->context);
	/* Cannot fail: the counter is 0. */
	(void) !write(worker->end_fd, &one, sizeof(one));
	return NULL;
}

int
worker_start(struct worker *worker, const char *name, int stop_fd,
			 void (*run)(struct worker *worker, void *context), void *context)
{
	int result;

	worker->name = name;
	worker->stop_fd = stop_fd;
	worker->run = run;
	worker->context = context;
	worker->on_quiet = NULL;
	atomic_init(&worker->heartbeat_ms, clock_ms());
	worker->end_fd = eventfd(0, EFD_CLOEXEC);
	if (worker->end_fd < 0)
		return errno;
	result = pthread_create(&worker->thread, NULL, run_worker, worker);
	if (result != 0)
		close(worker->end_fd);
	return result;
}

bool
worker_join(struct worker *worker, int64_t deadline_ms)
{
	struct pollfd end = { .fd = worker->end_fd, .events = POLLIN };
	int64_t left = deadline_ms - clock_ms();
	int ended;

	do
		ended = poll(&end, 1, left < 0 ? 0 : (int) left);
	while (ended < 0 && errno == EINTR);
	if (ended <= 0)
		return false;
	/* It has left its run function: this cannot take long. */
	pthread_join(worker->thread, NULL);
	close(worker->end_fd);
	return true;
}

enum worker_wake
worker_wait(struct worker *worker, int fd, short events, int64_t deadline_ms)
{
	for (;;)
	{
		struct pollfd fds[2] = {
			{ .fd = worker->stop_fd, .events = POLLIN },
			{ .fd = fd, .events = events }
		};
		int64_t left = deadline_ms - clock_ms();
		int ready;

		beat(worker);
		if (left < 0)
			left = 0;
		if (left > SLICE_MS)
			left = SLICE_MS;
		ready = poll(fds, 2, (int) left);
		beat(worker);
		if (ready < 0 && errno != EINTR)
			return WORKER_STOP; /* only a broken process gets here */
		if (fds[0].revents != 0)
			return WORKER_STOP;
		if (ready > 0 && fds[1].revents != 0)
			return WORKER_READY;
		if (worker->on_quiet != NULL)
			worker->on_quiet(worker->quiet_context);
		if (clock_ms() >= deadline_ms)
			return WORKER_DUE;
	}
}

bool
worker_stopping(struct worker *worker)
{
	struct pollfd stop = { .fd = worker->stop_fd, .events = POLLIN };

	return poll(&stop, 1, 0) > 0;
}

int64_t
worker_silence(struct worker *worker, int64_t now_ms)
{
	return now_ms - atomic_load(&worker->heartbeat_ms);
}

/*
 * main.c
 *	  Starts the parts of retsu-collector in order, waits, stops them in order.
 *
 * The main thread is the only one that takes signals: they are blocked before
 * the first thread and read from a descriptor here.  It also speaks to
 * systemd, and does so only while every other thread shows that it lives.
 *
 * The stop is carried out by a thread of its own, so that the main thread
 * stays free to hear a second signal, which means now.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <uuid.h>

#include "clock.h"
#include "collect.h"
#include "database.h"
#include "http.h"
#include "log.h"
#include "maintenance.h"
#include "notify.h"
#include "options.h"
#include "snapshot.h"
#include "status.h"
#include "worker.h"

/* From the first signal: answers end, and the process does at the latest. */
#define STOP_WORKERS_MS 4000
#define STOP_ANSWERS_MS 5000
#define STOP_PROCESS_MS 9500

/* A thread silent for this long does not live; without a watchdog's own time. */
#define SILENCE_MS 15000

struct process
{
	struct options options;
	char instance[37];
	int signal_fd;
	int stop_fd;	/* readable: every worker is to end */
	int stopped_fd; /* readable: the stopper is done */
	int64_t stop_began_ms;
	bool left_behind; /* a thread did not end in time */
	struct worker collect;
	struct worker maintenance;
	struct notify notify;
	struct log_complaint silence;
};

/* Written by any thread; the descriptor wakes the main thread. */
static atomic_int requested_exit = -1;
static int request_fd = -1;
static atomic_int_fast64_t http_heartbeat_ms;

static void
wake(int fd)
{
	uint64_t one = 1;

	/* Only a full counter refuses, and that one is readable already. */
	(void) !write(fd, &one, sizeof(one));
}

static void
end_process(int exit_code)
{
	int none = -1;

	/* The first reason to end is the one that is told. */
	if (atomic_compare_exchange_strong(&requested_exit, &none, exit_code))
		wake(request_fd);
}

static void
http_heartbeat(void)
{
	atomic_store(&http_heartbeat_ms, clock_ms());
}

static HttpOptions
http_options(const struct process *process)
{
	const struct options *options = &process->options;
	HttpOptions http = {
		.listen_addresses = (const char *const *) options->web_listen_address.values,
		.listen_address_count = options->web_listen_address.count,
		.config_file = options->web_config_file,
		.enable_openmetrics = options->web_enable_openmetrics,
		.max_connections = (int) options->web_max_connections,
		.max_connections_per_ip = (int) options->web_max_connections_per_ip,
		.header_timeout_ns = options->web_header_timeout * 1000000,
		.request_timeout_ns = options->web_request_timeout * 1000000,
		.heartbeat = http_heartbeat,
		.version = RETSU_VERSION,
		.instance = process->instance
	};

	return http;
}

/*
 * A snapshot is tens of megabytes that live for one interval.  By default
 * glibc learns from the first free() of such a block to take the next one from
 * the heap, where it leaves holes; a fixed threshold gives every one back to the
 * kernel.  What is smaller stays: a page given back and taken again for each
 * answer costs more than the copy into it.  Two arenas are enough for threads
 * that hardly allocate.
 */
static void
limit_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, 2 * 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
	mallopt(M_ARENA_MAX, 2);
}

static int
complain(int exit_code, const char *message)
{
	fprintf(stderr, "retsu-collector: %s\n", message);
	return exit_code;
}

/* Everything that can be found wrong without binding or connecting. */
static int
check_configuration(struct process *process)
{
	HttpOptions http = http_options(process);
	char message[512];

	if (!database_check_conninfo(&process->options, message, sizeof(message)))
		return complain(EXIT_CODE_CONFIG, message);
	if (process->options.database_password_file != NULL &&
		access(process->options.database_password_file, R_OK) != 0)
	{
		snprintf(message, sizeof(message),
				 "database.password-file cannot be read: %s", strerror(errno));
		return complain(EXIT_CODE_CONFIG, message);
	}
	if (http_check(&http, message, sizeof(message)) != HTTP_OK)
		return complain(EXIT_CODE_CONFIG, message);
	return EXIT_CODE_OK;
}

/* Before the first thread, so that every thread inherits the mask. */
static bool
take_signals(struct process *process)
{
	sigset_t blocked;
	sigset_t waited;

	sigemptyset(&waited);
	sigaddset(&waited, SIGTERM);
	sigaddset(&waited, SIGINT);
	sigaddset(&waited, SIGHUP);
	blocked = waited;
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGALRM);
	signal(SIGPIPE, SIG_IGN);
	if (pthread_sigmask(SIG_BLOCK, &blocked, NULL) != 0)
		return false;
	process->signal_fd = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK);
	process->stop_fd = eventfd(0, EFD_CLOEXEC);
	process->stopped_fd = eventfd(0, EFD_CLOEXEC);
	request_fd = eventfd(0, EFD_CLOEXEC);
	return process->signal_fd >= 0 && process->stop_fd >= 0 &&
		   process->stopped_fd >= 0 && request_fd >= 0;
}

static int
serve(struct process *process)
{
	HttpOptions http = http_options(process);
	char message[512];

	http_heartbeat();
	switch (http_start(&http, message, sizeof(message)))
	{
		case HTTP_OK:
			break;
		case HTTP_BAD_CONFIG:
			log_error("cannot serve", "detail", message);
			return EXIT_CODE_CONFIG;
		case HTTP_CANNOT_BIND:
			log_error("cannot serve", "detail", message);
			return EXIT_CODE_BIND;
		case HTTP_SYSTEM:
			log_error("cannot serve", "detail", message);
			return EXIT_CODE_SYSTEM;
	}
	for (int i = 0; http_address(i) != NULL; i++)
		log_info("listening", "address", http_address(i));
	return EXIT_CODE_OK;
}

static bool
start_workers(struct process *process, struct collect_context *collect,
			  struct maintenance_context *maintenance)
{
	collect->options = &process->options;
	collect->instance = process->instance;
	collect->end_process = end_process;
	maintenance->options = &process->options;
	maintenance->instance = process->instance;
	if (worker_start(&process->collect, "collect", process->stop_fd,
					 collect_run, collect) != 0)
		return false;
	if (worker_start(&process->maintenance, "maintain", process->stop_fd,
					 maintenance_run, maintenance) != 0)
	{
		wake(process->stop_fd);
		worker_join(&process->collect, clock_ms() + STOP_WORKERS_MS);
		return false;
	}
	return true;
}

/* The name of a thread that has fallen silent, or NULL. */
static const char *
find_silent(struct process *process, int64_t limit_ms)
{
	int64_t now_ms = clock_ms();

	if (worker_silence(&process->collect, now_ms) > limit_ms)
		return "collect";
	if (worker_silence(&process->maintenance, now_ms) > limit_ms)
		return "maintain";
	if (now_ms - atomic_load(&http_heartbeat_ms) > limit_ms)
		return "http";
	return NULL;
}

static void
report_to_supervisor(struct process *process)
{
	int64_t limit_ms = process->notify.watchdog_ms > 0 ?
						   process->notify.watchdog_ms / 2 :
						   SILENCE_MS;
	const char *silent = find_silent(process, limit_ms);
	char message[200];
	char status[256];

	if (silent != NULL)
		log_complaint(&process->silence, LOG_LEVEL_ERROR, "a thread hangs",
					  silent, NULL);
	else
	{
		log_recovery(&process->silence, "all threads live again");
		if (process->notify.watchdog_ms > 0)
			notify_send(&process->notify, "WATCHDOG=1");
	}

	status_get_message(message, sizeof(message));
	snprintf(status, sizeof(status), "%s%s%s",
			 status_leads()		  ? "leading" :
			 status_database_up() ? "standby" :
									"no database",
			 message[0] != '\0' ? ": " : "", message);
	notify_status(&process->notify, status);
}

/* The signal that asks for an end, or 0. */
static int
read_signal(struct process *process)
{
	struct signalfd_siginfo info;

	while (read(process->signal_fd, &info, sizeof(info)) == sizeof(info))
	{
		if (info.ssi_signo != SIGHUP)
			return (int) info.ssi_signo;
		log_warn("SIGHUP ignored", "hint", "Restart to apply a new configuration.");
	}
	return 0;
}

/* Runs until something asks for the end; the exit code. */
static int
wait_for_end(struct process *process)
{
	for (;;)
	{
		struct pollfd fds[2] = {
			{ .fd = process->signal_fd, .events = POLLIN },
			{ .fd = request_fd, .events = POLLIN }
		};
		int64_t pause_ms = 1000;
		int signal_number;

		report_to_supervisor(process);
		/* Four chances before the watchdog bites. */
		if (process->notify.watchdog_ms > 0 &&
			process->notify.watchdog_ms / 4 < pause_ms)
			pause_ms = process->notify.watchdog_ms / 4;
		if (poll(fds, 2, (int) pause_ms) < 0 && errno != EINTR)
			return EXIT_CODE_SYSTEM;

		signal_number = read_signal(process);
		if (signal_number != 0)
		{
			log_info("stopping", "signal", strsignal(signal_number));
			return EXIT_CODE_OK;
		}
		if (fds[1].revents != 0)
		{
			int exit_code = atomic_load(&requested_exit);

			log_info("stopping", "exit_code", LOG_NUMBER(exit_code));
			return exit_code;
		}
	}
}

/* The order of the end; each step has its deadline. */
static void *
stop_thread(void *argument)
{
	struct process *process = argument;
	int64_t began_ms = process->stop_began_ms;

	http_stop_accepting();
	wake(process->stop_fd);
	if (!worker_join(&process->collect, began_ms + STOP_WORKERS_MS))
	{
		/* Its session dies with the process; its snapshot must not wait. */
		snapshot_withdraw();
		process->left_behind = true;
	}
	if (!worker_join(&process->maintenance, began_ms + STOP_WORKERS_MS))
		process->left_behind = true;
	http_stop((began_ms + STOP_ANSWERS_MS) * 1000000);
	wake(process->stopped_fd);
	return NULL;
}

/* Ends the process as the signal itself would have, for a supervisor to see. */
static void __attribute__((noreturn))
die_by(int signal_number)
{
	sigset_t only;

	signal(signal_number, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, signal_number);
	raise(signal_number);
	pthread_sigmask(SIG_UNBLOCK, &only, NULL);
	_exit(EXIT_CODE_SYSTEM);
}

/* True when all threads have ended. */
static bool
stop(struct process *process)
{
	pthread_t stopper;

	process->stop_began_ms = clock_ms();
	notify_send(&process->notify, "STOPPING=1");
	if (pthread_create(&stopper, NULL, stop_thread, process) != 0)
		return false;
	for (;;)
	{
		struct pollfd fds[2] = {
			{ .fd = process->signal_fd, .events = POLLIN },
			{ .fd = process->stopped_fd, .events = POLLIN }
		};
		int64_t left_ms = process->stop_began_ms + STOP_PROCESS_MS - clock_ms();
		int signal_number;

		if (left_ms <= 0)
		{
			log_error("could not stop in time");
			return false;
		}
		if (poll(fds, 2, left_ms < 500 ? (int) left_ms : 500) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents != 0)
			break;
		signal_number = read_signal(process);
		if (signal_number != 0)
			die_by(signal_number);
	}
	pthread_join(stopper, NULL);
	return !process->left_behind;
}

static int
run(struct process *process)
{
	struct collect_context collect;
	struct maintenance_context maintenance;
	int exit_code;

	notify_open(&process->notify);
	exit_code = serve(process);
	if (exit_code != EXIT_CODE_OK)
		return exit_code;
	if (!start_workers(process, &collect, &maintenance))
	{
		log_error("cannot start a thread");
		return EXIT_CODE_SYSTEM;
	}
	notify_send(&process->notify, "READY=1");

	exit_code = wait_for_end(process);
	if (!stop(process))
		_exit(exit_code); /* threads are left that may use anything */

	log_info("stopped");
	notify_close(&process->notify);
	close(process->signal_fd);
	close(process->stop_fd);
	close(process->stopped_fd);
	close(request_fd);
	return exit_code;
}

int
main(int argc, char **argv)
{
	static struct process process;
	char message[512];
	uuid_t uuid;
	int exit_code;

	limit_heap();
	exit_code = options_parse(&process.options, argc, argv, environ, message,
							  sizeof(message));
	if (exit_code != EXIT_CODE_OK)
		exit_code = complain(exit_code, message);
	else if (process.options.help)
		options_print_help();
	else if (process.options.version)
		printf("retsu-collector %s\n", RETSU_VERSION);
	else
	{
		uuid_generate_random(uuid);
		uuid_unparse_lower(uuid, process.instance);
		log_start((enum log_level) process.options.log_level,
				  (enum log_format) process.options.log_format, process.instance);
		exit_code = check_configuration(&process);
		if (exit_code == EXIT_CODE_OK && process.options.config_check)
			printf("the configuration is valid\n");
		else if (exit_code == EXIT_CODE_OK && !take_signals(&process))
			exit_code = complain(EXIT_CODE_SYSTEM, strerror(errno));
		else if (exit_code == EXIT_CODE_OK)
			exit_code = run(&process);
	}
	options_free(&process.options);
	return exit_code;
}

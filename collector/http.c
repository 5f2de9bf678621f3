/*
 * http.c
 *		The collector's HTTP service: its threads, and how they start and stop.
 *
 * One thread of ours accepts connections and enforces deadlines (connections.h);
 * one of the library's reads requests and sends answers.  No client ever blocks
 * it: all sockets are non-blocking, watched with epoll, and take a bounded part of
 * an answer at a time (listener.c), so that all get their turn.  One fills more
 * than any network; a second one brought fewer answers where processors are few.
 *
 * Order of the end: listening sockets, then idle connections, then answers under
 * way (up to a deadline), then our thread, then the library's.  What an answer
 * needs is freed by the library when it is done with it.
 */
#include "http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "connections.h"
#include "listener.h"
#include "log.h"
#include "snapshot.h"
#include "webconfig.h"

/* Kept-alive connections without a request; Prometheus comes every minute. */
#define IDLE_TIMEOUT_NS (INT64_C(150) * 1000000000)

/* How often deadlines are looked at while somebody is connected. */
#define TICK_MS 200

/* Descriptors for everything that is not a connection: database, log, sockets. */
#define RESERVED_DESCRIPTORS 32

/* An accept that failed for want of descriptors is not tried again at once. */
#define ACCEPT_PAUSE_MS 100

static struct
{
	bool running;
	AnswerOptions answer;
	char *version;
	char *instance;
	void (*heartbeat)(void);
	Listeners listeners;
	Connections *connections;
	struct MHD_Daemon *daemon;
	pthread_t thread;
	int wake_fd;
	atomic_bool accepting;
	atomic_bool ending; /* our thread has to end */
} service = { .wake_fd = -1 };

static void
library_log(void *closure, const char *format, va_list arguments)
{
	char message[256];
	size_t length;

	(void) closure;
	vsnprintf(message, sizeof(message), format, arguments);
	length = strcspn(message, "\r\n");
	message[length] = '\0';

	/* Mostly clients that went away or spoke nonsense. */
	log_debug("http library", "detail", message);
}

/*
 * The library calls this for a bug in itself or in our use of it.  Going on
 * would risk answering with other people's memory.
 */
static void
library_panic(void *closure, const char *file, unsigned int line, const char *reason)
{
	(void) closure;
	log_error("http library gave up", "file", file, "line", LOG_NUMBER(line),
			  "reason", reason != NULL ? reason : "none given");
	abort();
}

static void
on_connection(void *closure, struct MHD_Connection *connection,
			  void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	(void) closure;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
	{
		const union MHD_ConnectionInfo *info;

		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*socket_context = info == NULL ? NULL :
										 connections_opened(service.connections, info->connect_fd);
	}
	else if (*socket_context != NULL)
	{
		connections_closed(service.connections, *socket_context);
		*socket_context = NULL;
	}
}

static Connection *
connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info;

	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info == NULL ? NULL : info->socket_context;
}

static void
on_completed(void *closure, struct MHD_Connection *connection, void **request,
			 enum MHD_RequestTerminationCode code)
{
	Connection *known;

	(void) closure;
	(void) code;
	if (*request == NULL)
		return;
	*request = NULL;
	known = connection_of(connection);
	if (known != NULL)
		connections_request_ends(known, boottime_ns());
}

/*
 * Called first when a request's head is complete, then for each part of its body,
 * then once more.  A body is thrown away unread.
 */
static enum MHD_Result
on_request(void *closure, struct MHD_Connection *connection, const char *url,
		   const char *method, const char *http_version, const char *body,
		   size_t *body_size, void **request)
{
	static char seen;
	HttpHandler handler = answer_handler(url);
	bool allowed = answer_method_allowed(method);

	(void) closure;
	(void) http_version;
	(void) body;
	if (*request == NULL)
	{
		Connection *known = connection_of(connection);

		*request = &seen;
		if (known != NULL)
			connections_request_begins(known, boottime_ns());

		/*
		 * A method that is not served may announce a body of any length; answer
		 * before it comes, which also closes the connection after the answer.
		 */
		if (allowed)
			return MHD_YES;
	}
	else if (*body_size > 0)
	{
		*body_size = 0;
		return MHD_YES;
	}
	return answer_request(connection, handler, allowed);
}

/*
 * Tell a client that there is no room, as far as that goes without waiting.
 */
static void
refuse(int fd, ClosedReason reason)
{
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Content-Length: 21\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
		"too many connections\n";

	if (send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(fd, SHUT_WR);
	close(fd);
	status_http_connection_closed(reason, false);
}

/*
 * Accept what is waiting on one listening socket, a bounded number so that the
 * others and the deadlines get their turn.  False if accepting has to pause.
 */
static bool
accept_some(int listen_fd)
{
	for (int i = 0; i < 64; i++)
	{
		struct sockaddr_storage address;
		socklen_t length = sizeof(address);
		ClosedReason reason;
		int fd = accept4(listen_fd, (struct sockaddr *) &address, &length,
						 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
				   errno != ENOMEM;
		if (!connections_admit(service.connections, fd, (struct sockaddr *) &address,
							   boottime_ns(), &reason))
			refuse(fd, reason);
		else if (MHD_add_connection(service.daemon, fd, (struct sockaddr *) &address,
									length) != MHD_YES)
			connections_failed(service.connections, fd); /* it is closed */
	}
	return true;
}

static void *
accept_main(void *closure)
{
	struct pollfd fds[LISTENER_MAX + 1];
	int64_t last_beat = 0;
	int64_t pause_until = 0;

	(void) closure;
	pthread_setname_np(pthread_self(), "http-accept");
	while (!atomic_load(&service.ending))
	{
		int64_t now_ns = boottime_ns();
		int count = 0;
		int timeout = status_http_connections() > 0 ? TICK_MS : 1000;

		/*
		 * Speaks for the library's thread as well: when that hangs it holds the lock
		 * of the recent answers, or does not close what was shut down.
		 */
		if (service.heartbeat != NULL && now_ns - last_beat >= 500000000 &&
			connections_library_lives(service.connections, now_ns))
		{
			service.heartbeat();
			last_beat = now_ns;
		}
		fds[count++] = (struct pollfd){ .fd = service.wake_fd, .events = POLLIN };
		if (atomic_load(&service.accepting) && now_ns >= pause_until)
		{
			for (int i = 0; i < service.listeners.count; i++)
				fds[count++] = (struct pollfd){
					.fd = service.listeners.items[i].fd, .events = POLLIN
				};
		}
		else if (timeout > ACCEPT_PAUSE_MS)
			timeout = ACCEPT_PAUSE_MS;
		if (poll(fds, (nfds_t) count, timeout) > 0)
		{
			if (fds[0].revents != 0)
			{
				uint64_t ignored;

				if (read(service.wake_fd, &ignored, sizeof(ignored)) < 0)
					continue;
			}
			for (int i = 1; i < count && atomic_load(&service.accepting); i++)
			{
				if (fds[i].revents != 0 && !accept_some(fds[i].fd))
				{
					log_warn("cannot accept connections", "reason",
							 "no descriptor or memory left");
					pause_until = boottime_ns() + ACCEPT_PAUSE_MS * 1000000;
				}
			}
		}
		now_ns = boottime_ns();
		connections_expire(service.connections, now_ns);
		answer_expire(now_ns);
	}
	return NULL;
}

/* The limit of file descriptors has to be more than this. */
static rlim_t
descriptors_needed(int max_connections)
{
	return (rlim_t) max_connections + RESERVED_DESCRIPTORS;
}

/*
 * Whether there can be descriptors for all connections that are allowed.
 */
static bool
check_descriptors(int max_connections, char *error, size_t error_size)
{
	struct rlimit limit;
	rlim_t needed = descriptors_needed(max_connections);

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max > needed)
		return true;
	snprintf(error, error_size,
			 "--web.max-connections=%d needs more than %llu file descriptors, "
			 "but the limit is %llu; raise it (LimitNOFILE=) or allow fewer connections",
			 max_connections, (unsigned long long) needed,
			 (unsigned long long) limit.rlim_max);
	return false;
}

/*
 * Take as many of them as are needed, which is less than the hard limit.
 */
static bool
raise_descriptors(int max_connections)
{
	struct rlimit limit;
	rlim_t needed = descriptors_needed(max_connections);

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > needed)
		return true;
	limit.rlim_cur = needed + 1;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

HttpResult
http_check(const HttpOptions *options, char *error, size_t error_size)
{
	char host[256];
	char port[8];

	if (options->config_file != NULL && options->config_file[0] != '\0' &&
		!webconfig_check(options->config_file, error, error_size))
		return HTTP_BAD_CONFIG;
	if (options->listen_address_count < 1)
	{
		snprintf(error, error_size, "no listen address is given");
		return HTTP_BAD_CONFIG;
	}
	for (int i = 0; i < options->listen_address_count; i++)
	{
		if (!listener_parse(options->listen_addresses[i], host, sizeof(host),
							port, sizeof(port)))
		{
			snprintf(error, error_size,
					 "\"%.100s\" is not a listen address; use host:port, [v6]:port or :port",
					 options->listen_addresses[i]);
			return HTTP_BAD_CONFIG;
		}
	}
	if (options->max_connections < 1 || options->max_connections_per_ip < 1)
	{
		snprintf(error, error_size, "connection limits must be at least 1");
		return HTTP_BAD_CONFIG;
	}
	if (!check_descriptors(options->max_connections, error, error_size))
		return HTTP_BAD_CONFIG;
	return HTTP_OK;
}

static void
free_service(void)
{
	listener_close(&service.listeners);
	answer_stop();
	connections_free(service.connections);
	service.connections = NULL;
	free(service.version);
	free(service.instance);
	service.version = service.instance = NULL;
	if (service.wake_fd >= 0)
		close(service.wake_fd);
	service.wake_fd = -1;
}

static bool
start_library(const HttpOptions *options)
{
	/* Ours is the limit that counts; the library's only has to be above it. */
	unsigned limit = (unsigned) options->max_connections * 2 + 16;

	MHD_set_panic_func(library_panic, NULL);
	service.daemon =
		MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD |
							 MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC | MHD_USE_ERROR_LOG,
						 0, NULL, NULL, on_request, NULL,
						 MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
						 MHD_OPTION_CONNECTION_LIMIT, limit,
						 MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
						 MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
#if MHD_VERSION >= 0x00097701
						 MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
						 MHD_OPTION_STRICT_FOR_CLIENT, 1,
#endif
						 MHD_OPTION_END);
	return service.daemon != NULL;
}

HttpResult
http_start(const HttpOptions *options, char *error, size_t error_size)
{
	HttpResult result = http_check(options, error, error_size);
	ConnectionLimits limits = {
		.total = options->max_connections,
		.per_address = options->max_connections_per_ip,
		.header_timeout_ns = options->header_timeout_ns,
		.request_timeout_ns = options->request_timeout_ns,
		.idle_timeout_ns = IDLE_TIMEOUT_NS
	};

	if (result != HTTP_OK)
		return result;
	if (!raise_descriptors(options->max_connections))
	{
		snprintf(error, error_size, "cannot raise the limit of file descriptors: %s",
				 strerror(errno));
		return HTTP_SYSTEM;
	}

	for (int i = 0; i < options->listen_address_count; i++)
	{
		ListenerResult opened = listener_open(&service.listeners,
											  options->listen_addresses[i],
											  error, error_size);

		if (opened != LISTENER_OK)
		{
			free_service();
			return opened == LISTENER_BAD_ADDRESS ? HTTP_BAD_CONFIG : HTTP_CANNOT_BIND;
		}
	}

	service.version = strdup(options->version);
	service.instance = strdup(options->instance);
	service.answer = (AnswerOptions){ options->enable_openmetrics,
									  service.version, service.instance };
	service.heartbeat = options->heartbeat;
	service.connections = connections_create(&limits);
	service.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_store(&service.accepting, true);
	atomic_store(&service.ending, false);
	if (service.version == NULL || service.instance == NULL ||
		service.connections == NULL || service.wake_fd < 0 ||
		!answer_start(&service.answer) || !start_library(options))
	{
		snprintf(error, error_size, "cannot start the HTTP service: out of memory, threads or descriptors");
		free_service();
		return HTTP_SYSTEM;
	}
	if (pthread_create(&service.thread, NULL, accept_main, NULL) != 0)
	{
		snprintf(error, error_size, "cannot start the HTTP service: no thread left");
		MHD_stop_daemon(service.daemon);
		free_service();
		return HTTP_SYSTEM;
	}
	service.running = true;
	return HTTP_OK;
}

const char *
http_address(int i)
{
	return i >= 0 && i < service.listeners.count ?
			   service.listeners.items[i].address :
			   NULL;
}

static void
wake(void)
{
	uint64_t one = 1;

	/* Fails only when the counter is full, and then the thread is awake. */
	if (write(service.wake_fd, &one, sizeof(one)) < 0)
		return;
}

void
http_stop_accepting(void)
{
	if (!service.running)
		return;
	atomic_store(&service.accepting, false);

	/*
	 * The sockets stay open until our thread has ended, since it may be polling
	 * them; but from here on the kernel refuses whoever comes.
	 */
	for (int i = 0; i < service.listeners.count; i++)
		shutdown(service.listeners.items[i].fd, SHUT_RDWR);
	wake();
}

void
http_stop(int64_t deadline_ns)
{
	if (!service.running)
		return;
	http_stop_accepting();
	while (connections_shut_down(service.connections, false, boottime_ns()) > 0 &&
		   boottime_ns() < deadline_ns)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	connections_shut_down(service.connections, true, boottime_ns());

	atomic_store(&service.ending, true);
	wake();
	pthread_join(service.thread, NULL);
	MHD_stop_daemon(service.daemon);
	service.daemon = NULL;
	free_service();
	service.running = false;
}

/*
 * http.h
 *		The collector's HTTP service.
 *
 * Does not include the HTTP library's header, so that main.c can start and stop
 * the service without knowing it.  http_start() starts threads: block all signals
 * first, and have SIGPIPE ignored or blocked.  What the service has to say goes
 * to log.h.
 */
#ifndef RETSU_HTTP_H
#define RETSU_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HttpOptions
{
	const char *const *listen_addresses; /* "host:port", "[v6]:port", ":port" */
	int listen_address_count;
	const char *config_file; /* --web.config.file; NULL or "" for none */
	bool enable_openmetrics;
	int max_connections;
	int max_connections_per_ip;
	int64_t header_timeout_ns;
	int64_t request_timeout_ns;

	/*
	 * Called about once a second by the HTTP service's own thread, from inside
	 * its loop, so that a watchdog can tell that it lives.  May be NULL.
	 */
	void (*heartbeat)(void);

	/* exported as retsu_collector_build_info and on the status page; copied */
	const char *version;
	const char *instance;
} HttpOptions;

typedef enum HttpResult
{
	HTTP_OK,
	HTTP_BAD_CONFIG,  /* an address, a limit or the web config file is wrong */
	HTTP_CANNOT_BIND, /* exit status 69 */
	HTTP_SYSTEM		  /* no thread, memory or descriptor: 71 */
} HttpResult;

/*
 * Check what can be checked without binding, for --config.check.  On failure a
 * message is in error.
 */
extern HttpResult http_check(const HttpOptions *options, char *error,
							 size_t error_size);

/*
 * Bind, listen and serve.  On failure nothing is left behind and a message is in
 * error.  After success http_address(i) gives what was bound, with the real port
 * instead of 0; NULL past the last.
 */
extern HttpResult http_start(const HttpOptions *options, char *error,
							 size_t error_size);
extern const char *http_address(int i);

/*
 * Stop in two steps, so that a lease can be released between them: close the
 * listening sockets; then give answers that are under way until deadline_ns
 * (CLOCK_BOOTTIME), close every connection and end the threads.  Neither fails.
 */
extern void http_stop_accepting(void);
extern void http_stop(int64_t deadline_ns);

#endif /* RETSU_HTTP_H */

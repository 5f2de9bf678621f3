/*
 * bare_http.c
 *		The least a libmicrohttpd program can do: the same bytes for every request.
 *
 * bench/scrape compares the collector with it, so that the measure is the library
 * on this machine and not an absolute figure.
 *
 *	bare_http ADDRESS PORT PLAIN_FILE GZIP_FILE
 *
 * One thread with epoll, which is the fastest the library does where the clients
 * run on the same machine.  (With a pool, how many of its threads work depends on
 * which of them happens to accept the connections, and so does the figure.)
 * Prints "listening" and ends on SIGTERM or SIGINT.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct MHD_Response *plain;
static struct MHD_Response *compressed;

static struct MHD_Response *
load(const char *path, const char *encoding)
{
	FILE *file = fopen(path, "rb");
	struct MHD_Response *response;
	char *bytes;
	long length;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (length = ftell(file)) <= 0)
	{
		fprintf(stderr, "cannot read %s\n", path);
		exit(66);
	}
	rewind(file);
	bytes = malloc((size_t) length);
	if (bytes == NULL || fread(bytes, 1, (size_t) length, file) != (size_t) length)
		exit(71);
	fclose(file);
	response = MHD_create_response_from_buffer((size_t) length, bytes,
											   MHD_RESPMEM_MUST_FREE);
	MHD_add_response_header(response, "Content-Type",
							"text/plain; version=0.0.4; charset=utf-8");
	if (encoding != NULL)
		MHD_add_response_header(response, "Content-Encoding", encoding);
	return response;
}

static enum MHD_Result
answer(void *closure, struct MHD_Connection *connection, const char *url,
	   const char *method, const char *version, const char *body,
	   size_t *body_size, void **request)
{
	static char seen;
	const char *accepted;

	(void) closure;
	(void) url;
	(void) method;
	(void) version;
	(void) body;
	(void) body_size;
	if (*request == NULL)
	{
		*request = &seen;
		return MHD_YES;
	}
	accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
										   "Accept-Encoding");
	return MHD_queue_response(connection, MHD_HTTP_OK,
							  accepted != NULL && strstr(accepted, "gzip") != NULL ?
								  compressed :
								  plain);
}

int
main(int argc, char **argv)
{
	struct MHD_Daemon *daemon;
	struct sockaddr_in address = { .sin_family = AF_INET };
	sigset_t signals;
	int received;

	if (argc != 5 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
	{
		fprintf(stderr, "usage: bare_http ADDRESS PORT PLAIN_FILE GZIP_FILE\n");
		return 64;
	}
	address.sin_port = htons((uint16_t) atoi(argv[2]));
	plain = load(argv[3], NULL);
	compressed = load(argv[4], "gzip");

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL,
							  0, NULL, NULL, answer, NULL,
							  MHD_OPTION_SOCK_ADDR, (struct sockaddr *) &address,
							  MHD_OPTION_CONNECTION_LIMIT, 512u, MHD_OPTION_END);
	if (daemon == NULL)
	{
		fprintf(stderr, "cannot listen on %s:%s\n", argv[1], argv[2]);
		return 69;
	}
	printf("listening\n");
	fflush(stdout);
	sigwait(&signals, &received);
	MHD_stop_daemon(daemon);
	MHD_destroy_response(plain);
	MHD_destroy_response(compressed);
	return 0;
}

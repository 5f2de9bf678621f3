/*
 * listener_test.c
 *	  Listen addresses: what is one, and what port 0 gives.
 */
#include "tap.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "listener.h"

static void
test_parse(void)
{
	static const struct
	{
		const char *address;
		bool valid;
		const char *host;
		const char *port;
	} cases[] = {
		{ "127.0.0.1:24247", true, "127.0.0.1", "24247" },
		{ "localhost:0", true, "localhost", "0" },
		{ ":9000", true, "", "9000" },
		{ "[::1]:65535", true, "::1", "65535" },
		{ "[::]:1", true, "::", "1" },
		{ "::1:9000", false, "", "" },
		{ "127.0.0.1", false, "", "" },
		{ "127.0.0.1:", false, "", "" },
		{ "127.0.0.1:65536", false, "", "" },
		{ "127.0.0.1:-1", false, "", "" },
		{ "127.0.0.1:8x", false, "", "" },
		{ "127.0.0.1:http", false, "", "" },
		{ "[]:80", false, "", "" },
		{ "[::1:80", false, "", "" },
		{ "[::1]80", false, "", "" },
		{ "", false, "", "" },
		{ ":", false, "", "" }
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char host[64];
		char port[8];
		bool valid = listener_parse(cases[i].address, host, sizeof(host),
									port, sizeof(port));

		ok(valid == cases[i].valid &&
			   (!valid || (strcmp(host, cases[i].host) == 0 &&
						   strcmp(port, cases[i].port) == 0)),
		   "\"%s\" is %s", cases[i].address, cases[i].valid ? "an address" : "none");
	}
}

/*
 * A connection inherits a send buffer that is not left to the kernel.  Linux says
 * twice of what was asked for.
 */
static void
test_send_buffer(int fd)
{
	int bytes = 0;
	socklen_t length = sizeof(bytes);

	ok(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0 &&
		   bytes > 16384 && bytes <= 512 * 1024,
	   "the send buffer is bounded: %d bytes", bytes);
}

int
main(void)
{
	Listeners listeners = { .count = 0 };
	Listeners second = { .count = 0 };
	char error[256];
	int port;

	test_parse();

	is_int(listener_open(&listeners, "127.0.0.1:0", error, sizeof(error)), LISTENER_OK,
		   "any port");
	is_int(listeners.count, 1, "one socket");
	ok(strncmp(listeners.items[0].address, "127.0.0.1:", 10) == 0, "its address");
	port = atoi(listeners.items[0].address + 10);
	ok(port > 0, "and the port it got");
	test_send_buffer(listeners.items[0].fd);
	is_int(listener_open(&second, listeners.items[0].address, error, sizeof(error)),
		   LISTENER_CANNOT_BIND, "a port that is taken");
	ok(strstr(error, listeners.items[0].address) != NULL, "is named in the message: %s", error);
	is_int(second.count, 0, "and nothing is left open");
	is_int(listener_open(&listeners, ":0", error, sizeof(error)), LISTENER_OK,
		   "every address");
	is_int(listeners.count, 2, "beside the first");
	is_int(listener_open(&second, "nonsense", error, sizeof(error)), LISTENER_BAD_ADDRESS,
		   "no address");
	is_int(listener_open(&second, "192.0.2.1:0", error, sizeof(error)), LISTENER_CANNOT_BIND,
		   "an address of another machine");
	listener_close(&listeners);
	is_int(listeners.count, 0, "closed");
	return tap_done();
}

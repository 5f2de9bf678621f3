/*
 * database_test.c
 *	  A connect ends on time and says why, whatever answers; no server needed.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "database.h"
#include "log.h"

static struct options options;
static struct worker worker = { .name = "test" };
static char conninfo[256];

/* A listening socket on loopback; its port. */
static int
listen_on_loopback(int *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) }
	};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *) &address, length) != 0 || listen(fd, 5) != 0 ||
		getsockname(fd, (struct sockaddr *) &address, &length) != 0)
		return -1;
	*port = ntohs(address.sin_port);
	return fd;
}

static struct database *
attempt(const char *text)
{
	struct database *database;

	snprintf(conninfo, sizeof(conninfo), "%s", text);
	options.database_conninfo = conninfo;
	database = database_create(&options, "test", "0000", &worker);
	ok(!database_connect(database), "no session");
	ok(!database_is_connected(database), "and it knows");
	return database;
}

/* Answers the startup packet as a server that refuses. */
static void *
refuse(void *argument)
{
	static const char body[] =
		"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user \"u\"\0"
		"Fauth.c\0L326\0Rauth_failed\0";
	int client = accept(*(int *) argument, NULL, NULL);
	char packet[512] = "E";
	uint32_t length = htonl(4 + sizeof(body));

	if (read(client, packet + 256, 256) > 0)
	{
		memcpy(packet + 1, &length, 4);
		memcpy(packet + 5, body, sizeof(body));
		if (write(client, packet, 5 + sizeof(body)) < 0)
			tap_failures++;
	}
	close(client);
	return NULL;
}

static void
test_refused(int port)
{
	struct database *database;
	char text[128];

	snprintf(text, sizeof(text),
			 "host=127.0.0.1 port=%d user=u password=hunter2 sslmode=disable gssencmode=disable", port);
	database = attempt(text);
	is_int(database_last_error(database)->reason, FAILURE_CONNECTION, "a closed port");
	ok(strstr(database_last_error(database)->text, "hunter2") == NULL,
	   "the password is not in the message");
	database_destroy(database);
}

static void
test_silent(void)
{
	struct database *database;
	char text[128];
	int port = 0;
	int fd = listen_on_loopback(&port);
	int64_t begun_ms = clock_ms();

	snprintf(text, sizeof(text),
			 "host=127.0.0.1 port=%d user=u sslmode=disable gssencmode=disable", port);
	database = attempt(text);
	is_int(database_last_error(database)->reason, FAILURE_TIMEOUT,
		   "a server that accepts and says nothing");
	ok(clock_ms() - begun_ms >= 300 && clock_ms() - begun_ms < 5000,
	   "is given up at database.connect-timeout");
	database_destroy(database);
	close(fd);
}

static void
test_answer(void)
{
	struct database *database;
	char text[128];
	pthread_t server;
	int port = 0;
	int fd = listen_on_loopback(&port);

	pthread_create(&server, NULL, refuse, &fd);
	snprintf(text, sizeof(text),
			 "host=127.0.0.1 port=%d user=u sslmode=disable gssencmode=disable", port);
	database = attempt(text);
	pthread_join(server, NULL);
	is_int(database_last_error(database)->reason, FAILURE_PERMISSION, "a refused password");
	is_text(database_last_error(database)->sqlstate, "28P01", "tells its SQLSTATE");
	ok(strstr(database_last_error(database)->text, "LOCATION") == NULL &&
		   strstr(database_last_error(database)->text, "28P01") == NULL &&
		   strstr(database_last_error(database)->text, "authentication failed") != NULL,
	   "and the message is the one people know");
	database_destroy(database);
	close(fd);
}

static void
test_stop(void)
{
	struct database *database;
	char text[128];
	int port = 0;
	int fd = listen_on_loopback(&port);
	uint64_t one = 1;
	int64_t begun_ms;

	options.database_connect_timeout = 60000;
	worker.stop_fd = eventfd(0, 0);
	if (write(worker.stop_fd, &one, sizeof(one)) != sizeof(one))
		tap_failures++;
	begun_ms = clock_ms();
	snprintf(text, sizeof(text),
			 "host=127.0.0.1 port=%d user=u sslmode=disable gssencmode=disable", port);
	database = attempt(text);
	ok(clock_ms() - begun_ms < 5000, "a stop ends a connect at once");
	database_destroy(database);
	close(fd);
	/* The forgotten thread sees that it is not wanted, and goes. */
	usleep(1200000);
}

static void
test_password_file(void)
{
	struct database *database;

	options.database_password_file = (char *) "/nonexistent/password";
	database = attempt("host=127.0.0.1 port=1");
	ok(strstr(database_last_error(database)->text, "password file") != NULL,
	   "a password file that is not there is told");
	database_destroy(database);
	options.database_password_file = NULL;
}

static void
test_conninfo(void)
{
	static const char *const wrong[] = {
		"password=hunter2 =", "host='hunter2", "postgres://u:hunter2@[h", "hunter2=x"
	};
	static const char *const right[] = {
		"", "postgres", "host=h dbname=d", "postgresql://u@h:5432/d?sslmode=require"
	};
	char message[256];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		options.database_conninfo = (char *) wrong[i];
		message[0] = '\0';
		ok(!database_check_conninfo(&options, message, sizeof(message)), "it is found wrong");
		ok(message[0] != '\0' && strstr(message, "hunter2") == NULL,
		   "and not repeated: %s", message);
	}
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
	{
		options.database_conninfo = (char *) right[i];
		ok(database_check_conninfo(&options, message, sizeof(message)),
		   "\"%s\" is fine", right[i]);
	}
}

int
main(void)
{
	int port = 0;
	int fd;

	/* Nothing of the caller's environment may decide where to connect. */
	clearenv();
	log_start(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT, "test");
	worker.stop_fd = -1;
	options.database_connect_timeout = 300;
	options.database_statement_timeout = 1000;
	options.lease_fence = 3000;
	options.lease_server_ttl = 5000;

	fd = listen_on_loopback(&port);
	close(fd);
	test_refused(port);
	test_silent();
	test_answer();
	test_password_file();
	test_conninfo();
	test_stop();
	return tap_done();
}

/*
 * notify_test.c
 *	  What a supervisor receives, by path and in the abstract namespace.
 */
#include "tap.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "notify.h"

static const char *
receive(int fd)
{
	static char buffer[512];
	ssize_t length = recv(fd, buffer, sizeof(buffer) - 1, MSG_DONTWAIT);

	if (length < 0)
		return "(nothing)";
	buffer[length] = '\0';
	return buffer;
}

static int
listen_at(const char *name)
{
	struct sockaddr_un address;
	socklen_t length;
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	if (!notify_address(name, &address, &length) ||
		bind(fd, (struct sockaddr *) &address, length) != 0)
		return -1;
	return fd;
}

static void
test_addresses(void)
{
	struct sockaddr_un address;
	socklen_t length;
	char longest[200];

	ok(notify_address("/run/x", &address, &length) &&
		   length == offsetof(struct sockaddr_un, sun_path) + 7 &&
		   strcmp(address.sun_path, "/run/x") == 0,
	   "a path ends with its zero byte");
	ok(notify_address("@x/y", &address, &length) &&
		   length == offsetof(struct sockaddr_un, sun_path) + 4 &&
		   memcmp(address.sun_path, "\0x/y", 4) == 0,
	   "an abstract name has none");
	ok(!notify_address("run/x", &address, &length), "a relative path is refused");
	ok(!notify_address("", &address, &length), "so is nothing");
	ok(!notify_address("@", &address, &length), "and an empty name");
	ok(!notify_address("vsock:2:1", &address, &length), "and another family");
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	ok(!notify_address(longest, &address, &length), "and a path that does not fit");
}

static void
test_messages(const char *name)
{
	struct notify notify;
	char text[32];
	char long_text[1000];
	int fd = listen_at(name);

	ok(fd >= 0, "listening at %s", name);
	setenv("NOTIFY_SOCKET", name, 1);
	snprintf(text, sizeof(text), "%ld", (long) getpid());
	setenv("WATCHDOG_PID", text, 1);
	setenv("WATCHDOG_USEC", "30000000", 1);
	notify_open(&notify);
	is_int(notify.watchdog_ms, 30000, "the watchdog's time");

	notify_send(&notify, "READY=1");
	is_text(receive(fd), "READY=1", "ready");
	notify_status(&notify, "leading");
	is_text(receive(fd), "STATUS=leading", "status");
	notify_status(&notify, "leading");
	is_text(receive(fd), "(nothing)", "the same status is not sent again");
	notify_status(&notify, "two\nREADY=1");
	is_text(receive(fd), "STATUS=two READY=1", "a status stays one line");
	notify_status(&notify, "two\nREADY=1");
	is_text(receive(fd), "(nothing)", "and is recognized when it comes again");
	memset(long_text, 'x', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	notify_status(&notify, long_text);
	is_int((long long) strlen(receive(fd)), 7 + 255, "a long one is cut");
	notify_close(&notify);
	notify_send(&notify, "READY=1");
	is_text(receive(fd), "(nothing)", "nothing after the end");

	setenv("WATCHDOG_PID", "1", 1);
	notify_open(&notify);
	is_int(notify.watchdog_ms, 0, "a watchdog meant for another process is not ours");
	notify_close(&notify);
	close(fd);
}

int
main(void)
{
	struct notify notify;
	char path[] = "/tmp/retsu_notify_XXXXXX";
	char name[64];

	test_addresses();
	unsetenv("NOTIFY_SOCKET");
	notify_open(&notify);
	ok(notify.fd < 0, "without a supervisor there is nobody to talk to");
	notify_send(&notify, "READY=1");

	ok(mkdtemp(path) != NULL, "a directory");
	snprintf(name, sizeof(name), "%s/socket", path);
	test_messages(name);
	unlink(name);
	rmdir(path);
	snprintf(name, sizeof(name), "@retsu-notify-test-%ld", (long) getpid());
	test_messages(name);
	return tap_done();
}

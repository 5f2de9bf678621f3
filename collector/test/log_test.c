/*
 * log_test.c
 *	  The shape of log lines, and that a stuck reader blocks nobody.
 */
#include "tap.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

/* The last line in the pipe, without what changes from run to run. */
static const char *
take(int fd, const char *after)
{
	static char buffer[8192];
	ssize_t length = read(fd, buffer, sizeof(buffer) - 1);
	char *start;

	buffer[length > 0 ? length : 0] = '\0';
	start = strstr(buffer, after);
	return start != NULL ? start : buffer;
}

static void
drain(int fd)
{
	char buffer[65536];

	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
}

static void
test_layouts(int reader, int writer)
{
	char *long_value = malloc(100000);
	const char *line;
	size_t length;

	log_start(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT, "1234");
	log_redirect(writer);
	log_debug("too fine");
	log_info("hello", "key", "value", "empty", "", "nothing", NULL,
			 "number", LOG_NUMBER(-42));
	is_text(take(reader, "level="),
			"level=info msg=hello instance=1234 key=value empty=\"\" nothing=\"\" number=-42\n",
			"a plain line; below the level nothing");

	log_warn("two words", "quoted", "a \"b\" \\ c=d\n\t\x01\x7f");
	is_text(take(reader, "level="),
			"level=warn msg=\"two words\" instance=1234 "
			"quoted=\"a \\\"b\\\" \\\\ c=d\\n\\t\\u0001\\u007f\"\n",
			"what could end or fake a line is escaped");

	memset(long_value, 'x', 99999);
	long_value[99999] = '\0';
	log_error("long", "value", long_value, "next", "y");
	line = take(reader, "level=");
	length = strlen(line);
	ok(length < PIPE_BUF && line[length - 1] == '\n' && strchr(line, '\n') == line + length - 1,
	   "a long line is cut and still ends once");
	memset(long_value, '"', 99999);
	log_error("long", "value", long_value);
	line = take(reader, "level=");
	length = strlen(line);
	ok(length < PIPE_BUF && line[length - 1] == '\n' && line[length - 2] == '"',
	   "a cut value is still closed");

	log_start(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON, "1234");
	log_redirect(writer);
	log_debug("a \"word\"", "key", "\n");
	is_text(take(reader, "\"level\""),
			"\"level\":\"debug\",\"msg\":\"a \\\"word\\\"\",\"instance\":\"1234\",\"key\":\"\\n\"}\n",
			"JSON");
	log_error("long", "value", long_value);
	line = take(reader, "\"level\"");
	ok(strcmp(line + strlen(line) - 3, "\"}\n") == 0, "a cut JSON line is closed too");
	free(long_value);
}

static void
test_complaints(int reader)
{
	struct log_complaint complaint = { 0 };

	ok(log_complaint(&complaint, LOG_LEVEL_ERROR, "down", "refused", NULL), "at first it is told");
	ok(!log_complaint(&complaint, LOG_LEVEL_ERROR, "down", "refused", NULL), "then not again");
	ok(log_complaint(&complaint, LOG_LEVEL_ERROR, "down", "no route", "Try."), "a change is told");
	ok(log_recovery(&complaint, "up"), "the end is told");
	ok(!log_recovery(&complaint, "up"), "once");
	ok(log_complaint(&complaint, LOG_LEVEL_ERROR, "down", "no route", NULL), "and the next time again");
	drain(reader);
}

static void
test_stuck_reader(int reader)
{
	int64_t begun_ms;
	uint64_t dropped = log_dropped();
	const char *line;

	begun_ms = clock_ms();
	for (int i = 0; i < 5000; i++)
		log_error("a line that nobody reads", "i", LOG_NUMBER(i));
	ok(clock_ms() - begun_ms < 5000, "a full pipe blocks nobody");
	ok(log_dropped() > dropped, "and what it did not take is counted");
	drain(reader);
	log_info("after");
	line = take(reader, "lines");
	ok(strstr(line, "lines were dropped") != NULL && strstr(line, "after") != NULL,
	   "the reader is told once it is back");
}

int
main(void)
{
	int fds[2];
	int sockets[2];

	if (pipe(fds) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		return 1;
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);

	test_layouts(fds[0], fds[1]);
	test_complaints(fds[0]);
	test_stuck_reader(fds[0]);
	ok((fcntl(fds[1], F_GETFL) & O_NONBLOCK) == 0,
	   "the descriptor that others share is left blocking");

	log_redirect(sockets[1]);
	test_stuck_reader(sockets[0]);
	return tap_done();
}

/*
 * log.c
 *	  Log lines on standard error, as logfmt or JSON; never in the way.
 *
 * No lock: a line is one write of at most PIPE_BUF bytes, which a pipe takes
 * whole or not at all.  O_NONBLOCK belongs to the open file description, and
 * standard error usually shares one with a shell or a supervisor; so pipes
 * and terminals are opened anew, and sockets are sent to with MSG_DONTWAIT.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Set before the first thread, read by all afterwards. */
static enum log_level threshold = LOG_LEVEL_INFO;
static enum log_format layout = LOG_FORMAT_LOGFMT;
static char instance_id[40] = "";
static int sink = STDERR_FILENO;
static bool sink_is_socket = false;
static bool sink_may_block = true;

static atomic_uint_fast64_t dropped;
static atomic_uint_fast64_t dropped_unreported;

/* A line under construction; what does not fit is left out. */
struct line
{
	char text[PIPE_BUF];
	size_t length;
};

static void
put_char(struct line *line, char c)
{
	/* Two bytes stay free for what closes the line. */
	if (line->length < sizeof(line->text) - 2)
		line->text[line->length++] = c;
}

static void
put_text(struct line *line, const char *text)
{
	for (; *text != '\0'; text++)
		put_char(line, *text);
}

/*
 * A value between double quotes.  Control bytes are escaped in both formats,
 * so a queue name or a server message can neither end a line nor fake one.
 * The closing quote is kept room for: a cut value is still a value.
 */
static void
put_quoted(struct line *line, const char *text)
{
	static const char hex[] = "0123456789abcdef";

	put_char(line, '"');
	for (; *text != '\0'; text++)
	{
		unsigned char c = (unsigned char) *text;

		if (line->length > sizeof(line->text) - 16)
			break;
		if (c == '"' || c == '\\')
		{
			put_char(line, '\\');
			put_char(line, (char) c);
		}
		else if (c == '\n')
			put_text(line, "\\n");
		else if (c == '\t')
			put_text(line, "\\t");
		else if (c < 0x20 || c == 0x7f)
		{
			put_text(line, "\\u00");
			put_char(line, hex[c >> 4]);
			put_char(line, hex[c & 15]);
		}
		else
			put_char(line, (char) c);
	}
	put_char(line, '"');
}

static bool
is_plain(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
	{
		unsigned char c = (unsigned char) *text;

		if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
			return false;
	}
	return true;
}

static void
put_pair(struct line *line, const char *key, const char *value)
{
	/* No room for key, quotes and a useful piece: leave the pair out. */
	if (line->length + strlen(key) > sizeof(line->text) - 64)
		return;

	if (layout == LOG_FORMAT_JSON)
	{
		put_char(line, line->length == 0 ? '{' : ',');
		put_quoted(line, key);
		put_char(line, ':');
		put_quoted(line, value);
		return;
	}

	if (line->length > 0)
		put_char(line, ' ');
	put_text(line, key);
	put_char(line, '=');
	if (is_plain(value))
	{
		size_t room = sizeof(line->text) - 16 - line->length;

		for (size_t i = 0; i < room && value[i] != '\0'; i++)
			put_char(line, value[i]);
	}
	else
		put_quoted(line, value);
}

static void
put_head(struct line *line, enum log_level level, const char *message)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	struct timespec now;
	struct tm utc;
	char stamp[40];
	size_t length;

	/* The wall clock is only shown, never compared. */
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	length = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(stamp + length, sizeof(stamp) - length, ".%03ldZ",
			 now.tv_nsec / 1000000);

	put_pair(line, "ts", stamp);
	put_pair(line, "level", names[level]);
	put_pair(line, "msg", message);
	if (instance_id[0] != '\0')
		put_pair(line, "instance", instance_id);
}

static bool
write_line(struct line *line)
{
	ssize_t written;

	if (layout == LOG_FORMAT_JSON)
		line->text[line->length++] = '}';
	line->text[line->length++] = '\n';

	if (sink_may_block)
	{
		struct pollfd ready = { .fd = sink, .events = POLLOUT };

		if (poll(&ready, 1, 0) <= 0)
			return false;
	}

	do
	{
		if (sink_is_socket)
			written = send(sink, line->text, line->length,
						   MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			written = write(sink, line->text, line->length);
	} while (written < 0 && errno == EINTR);
	return written == (ssize_t) line->length;
}

static void
count_drop(uint64_t lines)
{
	atomic_fetch_add(&dropped, lines);
	atomic_fetch_add(&dropped_unreported, lines);
}

/* Once the reader is back it learns that lines are missing, and how many. */
static void
report_drops(void)
{
	uint64_t lines = atomic_exchange(&dropped_unreported, 0);
	struct line line = { .length = 0 };
	struct log_number number;

	if (lines == 0)
		return;
	put_head(&line, LOG_LEVEL_WARN, "log lines were dropped");
	put_pair(&line, "lines", log_number_text(&number, (int64_t) lines));
	if (!write_line(&line))
		atomic_fetch_add(&dropped_unreported, lines);
}

void
log_redirect(int fd)
{
	struct stat status;
	char path[32];
	int reopened;

	sink = fd;
	sink_is_socket = false;
	sink_may_block = false;
	if (fstat(fd, &status) != 0)
		return;
	if (S_ISSOCK(status.st_mode))
	{
		sink_is_socket = true;
		return;
	}
	if (S_ISREG(status.st_mode))
		return;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reopened = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (reopened >= 0)
		sink = reopened; /* kept until the process ends */
	else
		sink_may_block = true;
}

void
log_start(enum log_level level, enum log_format format, const char *instance)
{
	threshold = level;
	layout = format;
	snprintf(instance_id, sizeof(instance_id), "%s", instance);
	log_redirect(STDERR_FILENO);
}

void
log_line(enum log_level level, const char *message, ...)
{
	struct line line;
	va_list pairs;
	const char *key;

	if (level < threshold)
		return;

	line.length = 0;
	put_head(&line, level, message);
	va_start(pairs, message);
	while ((key = va_arg(pairs, const char *)) != NULL)
	{
		const char *value = va_arg(pairs, const char *);

		put_pair(&line, key, value != NULL ? value : "");
	}
	va_end(pairs);

	if (atomic_load(&dropped_unreported) > 0)
		report_drops();
	if (!write_line(&line))
		count_drop(1);
}

const char *
log_number_text(struct log_number *number, int64_t value)
{
	snprintf(number->text, sizeof(number->text), "%lld", (long long) value);
	return number->text;
}

uint64_t
log_dropped(void)
{
	return atomic_load(&dropped);
}

bool
log_complaint(struct log_complaint *complaint, enum log_level level,
			  const char *message, const char *detail, const char *hint)
{
	char text[sizeof(complaint->text)];

	snprintf(text, sizeof(text), "%s|%s", message, detail != NULL ? detail : "");
	if (complaint->active && strcmp(complaint->text, text) == 0)
		return false;

	complaint->active = true;
	memcpy(complaint->text, text, sizeof(text));
	if (hint != NULL && *hint != '\0')
		log_line(level, message, "detail", detail, "hint", hint, (char *) 0);
	else
		log_line(level, message, "detail", detail, (char *) 0);
	return true;
}

bool
log_recovery(struct log_complaint *complaint, const char *message)
{
	if (!complaint->active)
		return false;
	complaint->active = false;
	complaint->text[0] = '\0';
	log_line(LOG_LEVEL_INFO, message, (char *) 0);
	return true;
}

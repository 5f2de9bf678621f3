/*
 * log.h
 *	  Log lines on standard error, as logfmt or JSON; never in the way.
 *
 * A line is formatted on the caller's stack and handed to the kernel in one
 * write that cannot block.  When the reader of the pipe is stuck the line is
 * dropped and counted: a full log must not stop a lease from being given up.
 * Every function may be called from any thread.
 */
#ifndef RETSU_LOG_H
#define RETSU_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level
{
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR
};

enum log_format
{
	LOG_FORMAT_LOGFMT,
	LOG_FORMAT_JSON
};

/* Before the first thread; `instance` is carried by every line and copied. */
extern void log_start(enum log_level level, enum log_format format,
					  const char *instance);

/* For tests: lines go to this descriptor, as they would to standard error. */
extern void log_redirect(int fd);

/*
 * One line.  After the message come pairs of key and value, both strings,
 * ended by NULL; a NULL value is written as an empty one.  Values are quoted
 * and escaped here, keys are literals of this program.
 */
extern void log_line(enum log_level level, const char *message, ...)
	__attribute__((sentinel));

#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__, (char *) 0)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__, (char *) 0)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__, (char *) 0)
#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__, (char *) 0)

/* A number as a value: log_info("folded", "rows", LOG_NUMBER(rows)). */
struct log_number
{
	char text[24];
};
extern const char *log_number_text(struct log_number *number, int64_t value);
#define LOG_NUMBER(value) \
	log_number_text(&(struct log_number){ { 0 } }, (int64_t) (value))

/* Lines lost because standard error took no more. */
extern uint64_t log_dropped(void);

/*
 * A condition that is either there or not.  log_complaint() writes a line
 * when the condition appears or its text changes, log_recovery() one line
 * when it goes; in between they write nothing.  Belongs to one thread.
 */
struct log_complaint
{
	bool active;
	char text[512];
};

extern bool log_complaint(struct log_complaint *complaint, enum log_level level,
						  const char *message, const char *detail,
						  const char *hint);
extern bool log_recovery(struct log_complaint *complaint, const char *message);

#endif /* RETSU_LOG_H */

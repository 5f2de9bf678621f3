/*
 * answer.h
 *		What is said to a request.
 *
 * One of the two files that include the HTTP library's header (http.c is the
 * other).  An answer that carries queue series holds a reference to its snapshot
 * from here until the library has sent it.
 */
#ifndef RETSU_ANSWER_H
#define RETSU_ANSWER_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

/* Old releases of the library (before 0.9.71) answer int; not supported. */
#if MHD_VERSION < 0x00097300
#error "libmicrohttpd 0.9.73 or later is required"
#endif

typedef struct AnswerOptions
{
	bool enable_openmetrics;
	const char *version;
	const char *instance;
} AnswerOptions;

/*
 * Make what does not change from one request to the next; false when out of
 * memory.  options must live until answer_stop(), which may be called when no
 * request is under way any more.
 */
extern bool answer_start(const AnswerOptions *options);
extern void answer_stop(void);

/*
 * Let go of answers kept for the next request that nobody came for, and with them
 * of a snapshot that has been replaced.  To be called at least once a second.
 */
extern void answer_expire(int64_t now_ns);

/* Which page a path names. */
extern HttpHandler answer_handler(const char *path);

/* Whether a method only reads. */
extern bool answer_method_allowed(const char *method);

/* Queue the answer and count it.  allowed: by its method. */
extern enum MHD_Result answer_request(struct MHD_Connection *connection,
									  HttpHandler handler, bool allowed);

#endif /* RETSU_ANSWER_H */

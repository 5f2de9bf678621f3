/*
 * gzip.h
 *		A gzip stream put together from parts compressed at different times.
 *
 * Deflate lets a stream be cut where the compressor has made a full flush: what
 * follows starts at a byte and refers to nothing before it.  So a body that is
 * the same for every request is compressed once, a small head for each request,
 * and the answer is: gzip header, head, body, final block and checksum.  The
 * checksum of the whole is computed from those of the parts.
 *
 * Pure; a Gzip belongs to one thread at a time.
 */
#ifndef RETSU_GZIP_H
#define RETSU_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* A compressor that can be used again; NULL when out of memory. */
typedef struct Gzip Gzip;
extern Gzip *gzip_create(void);
extern void gzip_free(Gzip *gzip);

/* Checksum of some bytes, as gzip has it; and of two runs put together. */
extern uint32_t gzip_checksum(const char *bytes, size_t length);
extern uint32_t gzip_combine(uint32_t first, uint32_t second,
							 size_t second_length);

/*
 * Append bytes to out, deflated and ended by a full flush.  What was compressed
 * before is forgotten first, so the result stands for itself.  False (and
 * out->failed) when there is no memory.
 */
extern bool gzip_part(Gzip *gzip, const char *bytes, size_t length, Text *out);

#define GZIP_HEADER_LENGTH 10
#define GZIP_TRAILER_LENGTH 10

/* What comes before the first part, and after the last. */
extern const unsigned char gzip_header[GZIP_HEADER_LENGTH];
extern void gzip_trailer(unsigned char trailer[GZIP_TRAILER_LENGTH],
						 uint32_t checksum, uint64_t length);

#endif /* RETSU_GZIP_H */

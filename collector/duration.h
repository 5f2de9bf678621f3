/*
 * duration.h
 *	  Lengths of time as people write them: 500ms, 15s, 1h30m, 14d.
 */
#ifndef RETSU_DURATION_H
#define RETSU_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads `text` into milliseconds.  Every number carries a unit (ms, s, m, h,
 * d, w), larger units first and each at most once; no sign, no fraction, no
 * blanks.  False when it is anything else or does not fit.
 */
extern bool duration_parse(const char *text, int64_t *milliseconds);

/* The shortest text that duration_parse() reads back to the same value. */
extern void duration_format(int64_t milliseconds, char *buffer, size_t size);

#endif /* RETSU_DURATION_H */

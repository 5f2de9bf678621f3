/*-------------------------------------------------------------------------
 *
 * entropy.h
 *	  Strong random bytes in small portions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_ENTROPY_H
#define QS_ENTROPY_H

#include "postgres.h"

/* The most that is given at once. */
#define ENTROPY_MAX_BYTES 16

/* Errors: internal, if the system has none to give. */
extern void qs_random_bytes(uint8 *bytes, int count);

#endif /* QS_ENTROPY_H */

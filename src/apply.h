/*-------------------------------------------------------------------------
 *
 * apply.h
 *	  Writing counter changes into the rollup without ever waiting.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_APPLY_H
#define QS_APPLY_H

#include "postgres.h"

#include "delta.h"

/*
 * Applies the sum of `deltas` in the current transaction.
 *
 * Errors: 23514 if a state counter would become negative.
 */
extern void qs_apply(const DeltaStack *deltas);

#endif /* QS_APPLY_H */

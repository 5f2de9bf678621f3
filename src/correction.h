/*-------------------------------------------------------------------------
 *
 * correction.h
 *	  What time has made of the stored states.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_CORRECTION_H
#define QS_CORRECTION_H

#include "utils/snapshot.h"

#include "state.h"

/*
 * Fills in everything of `state` that depends on state->now, which is set,
 * from the physical counters, which are there, as deep as is asked for.
 *
 * Errors: 23514 naming the queue if a result is negative, which is drift.
 */
extern void qs_correct_for_time(AllState *state, Snapshot snapshot, StateDepth depth);

#endif /* QS_CORRECTION_H */

/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  The fixed SQL statements of this extension, prepared once per backend
 *	  and planned so that table statistics never matter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_PLAN_H
#define QS_PLAN_H

#include "postgres.h"

#include "executor/spi.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#define STATEMENT_MAX_ARGUMENTS 12

/* Argument types that have an OID only once the extension is created. */
typedef enum ArgumentType
{
	ARGUMENT_INT4,
	ARGUMENT_TEXT,
	ARGUMENT_JSONB,
	ARGUMENT_UUID,
	ARGUMENT_TIMESTAMPTZ,
	ARGUMENT_TID_ARRAY,
	ARGUMENT_UUID_ARRAY,
	ARGUMENT_JSONB_ARRAY,
	ARGUMENT_PRIORITY,
	ARGUMENT_STATE
} ArgumentType;

/*
 * One statement.  Its text names every object and operator with its schema:
 * it is planned under whatever search path the session has.
 */
typedef struct Statement
{
	const char *text;
	int result; /* the SPI_OK_ code it must give */
	int argument_count;
	ArgumentType argument[STATEMENT_MAX_ARGUMENTS];

	/* the rest belongs to plan.c and starts as zeroes */
	SPIPlanPtr plan;
	Oid message; /* of the extension it was prepared for */
} Statement;

/*
 * Runs the statement; SPI must be connected.  SPI_processed and SPI_tuptable
 * hold the outcome.
 */
extern void qs_execute(Statement *statement, Datum *values, const char *nulls);

/*
 * The same, but in REPEATABLE READ and SERIALIZABLE it also sees and changes
 * rows that were committed after the transaction's snapshot.  The caller
 * must hold locks on the rows, or a concurrent change is a 40001 error.
 */
extern void qs_execute_latest(Statement *statement, Datum *values,
							  const char *nulls);

/* An ARGUMENT_TID_ARRAY. */
extern Datum qs_tid_array(ItemPointerData *tids, int count);

#endif /* QS_PLAN_H */

/*-------------------------------------------------------------------------
 *
 * queue_id.c
 *	  The id of a queue for the functions written in SQL, so that a name that
 *	  is wrong gets the same answer everywhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "queue_details.h"

PG_FUNCTION_INFO_V1(qs_queue_id_of);

/*
 * queue_id_of(queue text) returns integer
 *
 * Errors: those of qs_queue_details().
 */
Datum
qs_queue_id_of(PG_FUNCTION_ARGS)
{
	QueueDetails details;

	QS_GETARG_QUEUE(0, &details);
	PG_RETURN_INT32(details.queue_id);
}

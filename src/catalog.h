/*-------------------------------------------------------------------------
 *
 * catalog.h
 *	  Where this extension's objects are in the current database.
 *
 * Everything is found by name in the schema queue_state, never through the
 * search path, and forgotten when an invalidation message says that it may
 * have changed; so DROP EXTENSION and CREATE EXTENSION in one session, or a
 * column added to queue_message, are met with fresh numbers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_CATALOG_H
#define QS_CATALOG_H

#include "postgres.h"

#include "access/attnum.h"

#include "counter.h"

/* In the order of the message_state enum. */
typedef enum MessageState
{
	STATE_READY,
	STATE_IN_FLIGHT,
	STATE_DELAYED
} MessageState;

#define MESSAGE_STATE_COUNT (STATE_DELAYED + 1)

typedef struct Catalog
{
	/* tables */
	Oid queue;
	Oid message;
	Oid dead_letter;
	Oid shard;
	Oid pending;

	/* indexes */
	Oid queue_pkey;		/* queue (queue_id) */
	Oid queue_name_key; /* queue (name) */
	Oid ready_index;
	Oid waiting_index;
	Oid in_flight_index;
	Oid expiry_index;
	Oid shard_pkey;
	Oid pending_index;

	/* enum values, by ordinal */
	Oid priority_type;
	Oid priority[PRIORITY_COUNT];
	Oid state[MESSAGE_STATE_COUNT];

	/* columns of queue_message */
	struct
	{
		AttrNumber id;
		AttrNumber queue_id;
		AttrNumber priority;
		AttrNumber state;
		AttrNumber delivery_attempts;
		AttrNumber enqueued_at;
		AttrNumber expires_at;
		AttrNumber available_after;
	} message_column;

	/* columns of queue_dead_letter_message */
	struct
	{
		AttrNumber id;
		AttrNumber queue_id;
		AttrNumber priority;
	} dead_letter_column;
} Catalog;

/*
 * The current database's catalog, looked up at the first call after an
 * invalidation.  The pointer is good until the next call that can process
 * invalidation messages (any lock, any catalog access): copy what you keep.
 *
 * Errors: 55000 if the extension is not installed in this database or its
 * SQL version does not fit this library, with a hint.
 */
extern const Catalog *qs_catalog(void);

/* How counters and priorities are called in SQL. */
extern const char *qs_counter_name(Counter counter);
extern const char *qs_priority_name(Priority priority);

/*
 * A queue's name as a palloc'd string, or NULL if the queue does not exist
 * (any more).  Sees the newest committed row, and this transaction's own.
 */
extern char *qs_queue_name(int32 queue_id);

/* Ordinals of enum values; an unknown value is an error (22023). */
extern Priority qs_priority_of_oid(Oid value);
extern MessageState qs_state_of_oid(Oid value);

#endif /* QS_CATALOG_H */

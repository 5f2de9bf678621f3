/*-------------------------------------------------------------------------
 *
 * identifier.c
 *	  Ids of new messages, the shard that an id belongs to, and the handles
 *	  of leases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"
#include "utils/uuid.h"

#include "entropy.h"
#include "identifier.h"
#include "shard.h"
#include "uuidv7.h"

StaticAssertDecl(UUIDV7_LENGTH == UUID_LEN && QS_UUID_LENGTH == UUID_LEN,
				 "a UUID has 16 bytes");

PG_FUNCTION_INFO_V1(qs_generate_uuidv7);
PG_FUNCTION_INFO_V1(qs_message_shard);
PG_FUNCTION_INFO_V1(qs_new_receipt_handle);

/* Ids increase within a backend, hence one clock for its whole life. */
static UuidClock backend_clock;

void
qs_new_ids(pg_uuid_t *ids, int count)
{
	struct timespec now;
	uint64 milliseconds;
	uint32 nanoseconds;

	clock_gettime(CLOCK_REALTIME, &now);
	milliseconds = (uint64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
	nanoseconds = now.tv_nsec % 1000000;

	for (int i = 0; i < count; i++)
	{
		uint8 random[UUIDV7_RANDOM_BYTES];

		qs_random_bytes(random, sizeof(random));
		qs_uuidv7(&backend_clock, milliseconds, nanoseconds, random,
				  ids[i].data);
	}
}

/*
 * uuidv7() returns uuid
 */
Datum
qs_generate_uuidv7(PG_FUNCTION_ARGS)
{
	pg_uuid_t *id = palloc(sizeof(pg_uuid_t));

	qs_new_ids(id, 1);
	PG_RETURN_UUID_P(id);
}

/*
 * message_shard(id uuid) returns smallint
 */
Datum
qs_message_shard(PG_FUNCTION_ARGS)
{
	pg_uuid_t *id = PG_GETARG_UUID_P(0);

	PG_RETURN_INT16(qs_shard_of_uuid(id->data));
}

/*
 * new_receipt_handle() returns uuid
 *
 * All random, a UUID of version 4: nobody guesses the handle of a lease.
 */
Datum
qs_new_receipt_handle(PG_FUNCTION_ARGS)
{
	pg_uuid_t *handle = palloc(sizeof(pg_uuid_t));

	qs_random_bytes(handle->data, UUID_LEN);
	handle->data[6] = (handle->data[6] & 0x0f) | 0x40;
	handle->data[8] = (handle->data[8] & 0x3f) | 0x80;
	PG_RETURN_UUID_P(handle);
}

/*-------------------------------------------------------------------------
 *
 * shard.h
 *	  Which of the counter shards a message belongs to.
 *
 * Pure: no server, no catalogs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_SHARD_H
#define QS_SHARD_H

#include <stdint.h>

/*
 * Part of the stored layout: a message's decrement must find the row that
 * took its increment.  Another value is for bench/ alone.
 */
#ifndef QS_SHARD_COUNT
#define QS_SHARD_COUNT 32
#endif

#define QS_UUID_LENGTH 16

/*
 * The last byte is random in every version of UUID that has random bits, and
 * never changes while the message lives.
 */
static inline int
qs_shard_of_uuid(const uint8_t *uuid)
{
	return uuid[QS_UUID_LENGTH - 1] % QS_SHARD_COUNT;
}

#endif /* QS_SHARD_H */

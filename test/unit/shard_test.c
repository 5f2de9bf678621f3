/*-------------------------------------------------------------------------
 *
 * shard_test.c
 *	  Tests which shard a message belongs to.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "shard.h"
#include "../../collector/test/tap.h"

int
main(void)
{
	uint8_t uuid[QS_UUID_LENGTH];
	int messages[QS_SHARD_COUNT] = { 0 };
	bool same = true;
	bool even = true;
	bool in_range = true;

	ok(QS_SHARD_COUNT == 32, "the number of shards is part of the stored layout");

	for (int last = 0; last < 256; last++)
	{
		int shard;

		memset(uuid, 0, sizeof(uuid));
		uuid[QS_UUID_LENGTH - 1] = (uint8_t) last;
		shard = qs_shard_of_uuid(uuid);
		if (shard < 0 || shard >= QS_SHARD_COUNT)
			in_range = false;
		else
			messages[shard]++;
		memset(uuid, 0xff, QS_UUID_LENGTH - 1);
		if (qs_shard_of_uuid(uuid) != shard || shard != last % 32)
			same = false;
	}
	for (int i = 0; i < QS_SHARD_COUNT; i++)
	{
		if (messages[i] != 256 / QS_SHARD_COUNT)
			even = false;
	}
	ok(in_range, "every shard is in range");
	ok(same, "the last byte alone decides");
	ok(even, "every shard gets the same share of the last bytes");

	return tap_done();
}

/*-------------------------------------------------------------------------
 *
 * delta_test.c
 *	  Tests the stack of counter changes: levels, sums, order.
 *
 * Prints TAP.  The randomized part compares the stack with a flat array that
 * is copied whole at every savepoint, which is slow and obviously right.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <time.h>

#include "delta.h"
#include "../../collector/test/tap.h"

/* The model of the randomized test: a few cells, one copy a level. */
#define MODEL_QUEUES 3
#define MODEL_SHARDS 4
#define MODEL_CELLS (MODEL_QUEUES * PRIORITY_COUNT * MODEL_SHARDS)
#define MODEL_DEPTH 12

typedef struct Model
{
	int64_t value[MODEL_CELLS][COUNTER_COUNT];
} Model;

/* Which counter table, as a rule. */
#define TABLE 4711

static void
add(DeltaStack *stack, int nest_level, ShardKey k, Counter counter, int64_t amount)
{
	qs_delta_begin(stack, nest_level, TABLE);
	qs_delta_add(stack, nest_level, k, counter, amount);
}

static ShardKey
key(int32_t queue_id, int16_t priority, int16_t shard)
{
	ShardKey result = { queue_id, priority, shard };

	return result;
}

static int64_t
change_of(const DeltaStack *stack, ShardKey wanted, Counter counter)
{
	Delta *deltas;
	int count = qs_delta_sum(stack, &deltas);
	int64_t change = 0;

	for (int i = 0; i < count; i++)
	{
		if (qs_shard_key_compare(&deltas[i].key, &wanted) == 0)
			change = deltas[i].change.value[counter];
	}
	if (deltas != NULL)
		pfree(deltas);
	return change;
}

static int
sum_length(const DeltaStack *stack)
{
	Delta *deltas;
	int count = qs_delta_sum(stack, &deltas);

	if (deltas != NULL)
		pfree(deltas);
	return count;
}

static void
test_empty(void)
{
	DeltaStack stack = { NULL };
	Delta *deltas = (Delta *) &stack;

	ok(qs_delta_sum(&stack, &deltas) == 0 && deltas == NULL, "nothing counted sums up to nothing");
	ok(!qs_delta_has_level(&stack, 1), "an empty stack has no level");
	qs_delta_release(&stack, 1);
	qs_delta_rollback(&stack, 1);
	qs_delta_reset(&stack);
	ok(stack.top == NULL, "ending a transaction that counted nothing does nothing");
}

static void
test_cancelling(void)
{
	DeltaStack stack = { NULL };
	Delta *deltas = (Delta *) &stack;

	add(&stack, 1, key(1, PRIORITY_LOW, 0), COUNTER_READY, -1);
	add(&stack, 1, key(1, PRIORITY_LOW, 0), COUNTER_READY, 1);
	ok(qs_delta_has_level(&stack, 1), "the level stays when its changes cancel out");
	ok(qs_delta_sum(&stack, &deltas) == 0 && deltas == NULL, "changes that cancel out are left out");

	add(&stack, 1, key(1, PRIORITY_LOW, 0), COUNTER_READY, -1);
	add(&stack, 1, key(1, PRIORITY_LOW, 0), COUNTER_IN_FLIGHT, 1);
	ok(sum_length(&stack) == 1, "one shard with two counters is one delta");
	ok(change_of(&stack, key(1, PRIORITY_LOW, 0), COUNTER_READY) == -1 &&
		   change_of(&stack, key(1, PRIORITY_LOW, 0), COUNTER_IN_FLIGHT) == 1,
	   "counters of a shard do not mix");

	/* Cancelling out across levels counts too. */
	add(&stack, 2, key(1, PRIORITY_LOW, 0), COUNTER_READY, 1);
	add(&stack, 2, key(1, PRIORITY_LOW, 0), COUNTER_IN_FLIGHT, -1);
	ok(sum_length(&stack) == 0, "a level that takes back the one below leaves nothing");
	qs_delta_rollback(&stack, 2);
	ok(sum_length(&stack) == 1, "until it is rolled back");
	qs_delta_reset(&stack);
}

static void
test_levels(void)
{
	DeltaStack stack = { NULL };
	ShardKey k = key(7, PRIORITY_HIGH, 31);

	add(&stack, 1, k, COUNTER_READY, 1);
	add(&stack, 2, k, COUNTER_READY, 10);
	qs_delta_rollback(&stack, 2);
	ok(change_of(&stack, k, COUNTER_READY) == 1, "a rollback drops its level only");

	add(&stack, 2, k, COUNTER_READY, 10);
	qs_delta_release(&stack, 2);
	ok(change_of(&stack, k, COUNTER_READY) == 11, "a release merges into the level below");
	ok(qs_delta_has_level(&stack, 1), "and leaves that level on top");

	/* Levels in which nothing was counted have no entry in the stack. */
	add(&stack, 5, k, COUNTER_READY, 100);
	qs_delta_release(&stack, 5);
	ok(qs_delta_has_level(&stack, 4), "a release over a gap moves the level down");
	qs_delta_release(&stack, 4);
	qs_delta_rollback(&stack, 3);
	ok(change_of(&stack, k, COUNTER_READY) == 11, "and it is dropped with the level it came to");

	/* A rollback to a low level drops all above. */
	add(&stack, 3, k, COUNTER_READY, 100);
	add(&stack, 4, k, COUNTER_READY, 1000);
	add(&stack, 6, k, COUNTER_READY, 10000);
	qs_delta_rollback(&stack, 3);
	ok(change_of(&stack, k, COUNTER_READY) == 11, "a rollback drops every level from its own on");
	qs_delta_rollback(&stack, 2);
	ok(change_of(&stack, k, COUNTER_READY) == 11, "a rollback of a level without changes drops nothing");
	qs_delta_release(&stack, 2);
	ok(qs_delta_has_level(&stack, 1), "a release of a level without changes moves nothing");
	qs_delta_rollback(&stack, 1);
	ok(stack.top == NULL, "rolling back the transaction empties the stack");
}

/*
 * DROP EXTENSION and CREATE EXTENSION in one transaction: the new table of
 * counters must not get what was meant for the old one.
 */
static void
test_tables(void)
{
	DeltaStack stack = { NULL };
	ShardKey k = key(1, PRIORITY_LOW, 0);

	ok(qs_delta_table(&stack) == 0, "an empty stack is meant for no table");
	add(&stack, 1, k, COUNTER_READY, 1);
	ok(qs_delta_table(&stack) == TABLE, "the table is remembered");

	qs_delta_begin(&stack, 2, TABLE + 1);
	ok(sum_length(&stack) == 0, "another table begins with nothing");
	qs_delta_add(&stack, 2, k, COUNTER_READY, 10);
	ok(change_of(&stack, k, COUNTER_READY) == 10, "and gets its own changes");
	qs_delta_rollback(&stack, 2);
	ok(qs_delta_table(&stack) == TABLE && change_of(&stack, k, COUNTER_READY) == 1,
	   "a rollback brings back the first table's");

	qs_delta_begin(&stack, 3, TABLE + 1);
	qs_delta_add(&stack, 3, k, COUNTER_READY, 10);
	qs_delta_release(&stack, 3);
	qs_delta_release(&stack, 2);
	ok(qs_delta_table(&stack) == TABLE + 1 && change_of(&stack, k, COUNTER_READY) == 10,
	   "a release leaves the second table's");

	qs_delta_begin(&stack, 1, TABLE + 2);
	ok(qs_delta_table(&stack) == TABLE + 2 && sum_length(&stack) == 0,
	   "a table changes within a level too");
	qs_delta_reset(&stack);
}

static void
test_forgetting(void)
{
	DeltaStack stack = { NULL };
	ShardKey gone = key(1, PRIORITY_LOW, 0);
	ShardKey also_gone = key(1, PRIORITY_HIGH, 7);
	ShardKey other = key(2, PRIORITY_LOW, 0);

	add(&stack, 1, gone, COUNTER_READY, 5);
	add(&stack, 1, also_gone, COUNTER_ENQUEUED, 6);
	add(&stack, 1, other, COUNTER_READY, 7);
	qs_delta_begin(&stack, 2, TABLE);
	qs_delta_forget_queue(&stack, 1);
	ok(sum_length(&stack) == 1 && change_of(&stack, other, COUNTER_READY) == 7,
	   "what is said about a queue is forgotten, of other queues not");
	qs_delta_add(&stack, 2, gone, COUNTER_READY, 1);
	ok(change_of(&stack, gone, COUNTER_READY) == 1, "a queue of the same number begins anew");
	qs_delta_rollback(&stack, 2);
	ok(change_of(&stack, gone, COUNTER_READY) == 5 && change_of(&stack, also_gone, COUNTER_ENQUEUED) == 6,
	   "a rollback brings it back");
	qs_delta_begin(&stack, 2, TABLE);
	qs_delta_forget_all(&stack);
	qs_delta_release(&stack, 2);
	ok(sum_length(&stack) == 0, "all queues are forgotten");
	qs_delta_reset(&stack);
}

static void
test_order(void)
{
	DeltaStack stack = { NULL };
	Delta *deltas;
	int count;
	bool sorted = true;

	for (int i = 999; i >= 0; i--)
		add(&stack, 1 + (999 - i) / 250,
			key(i % 7 - 3, (int16_t) (i % PRIORITY_COUNT), (int16_t) (i % 32)),
			COUNTER_ENQUEUED, 1);
	count = qs_delta_sum(&stack, &deltas);
	for (int i = 1; i < count; i++)
	{
		if (qs_shard_key_compare(&deltas[i - 1].key, &deltas[i].key) >= 0)
			sorted = false;
	}
	ok(count == 7 * 3 * 32, "every shard once");
	ok(sorted, "in key order");
	pfree(deltas);
	qs_delta_reset(&stack);

	{
		ShardKey smallest = key(INT32_MIN, 0, 0);
		ShardKey largest = key(INT32_MAX, 0, 0);

		ok(qs_shard_key_compare(&smallest, &largest) < 0 &&
			   qs_shard_key_compare(&largest, &smallest) > 0 &&
			   qs_shard_key_compare(&largest, &largest) == 0,
		   "keys at the limits compare without overflow");
	}
}

/*
 * A restore counts every shard of thousands of queues; merging its level
 * must not be slow out of proportion.  No time is measured here: a merge of
 * quadratic cost would not end.
 */
static void
test_many(void)
{
	enum
	{
		QUEUES = 10000
	};
	DeltaStack stack = { NULL };
	int64_t total = 0;
	Delta *deltas;
	int count;

	add(&stack, 1, key(1, 0, 0), COUNTER_READY, 1);
	for (int queue = 1; queue <= QUEUES; queue++)
	{
		for (int shard = 0; shard < 32; shard++)
			add(&stack, 2, key(queue, PRIORITY_MEDIUM, (int16_t) shard), COUNTER_READY, 2);
	}
	qs_delta_release(&stack, 2);
	add(&stack, 2, key(1, 0, 0), COUNTER_READY, 1);
	count = qs_delta_sum(&stack, &deltas);
	for (int i = 0; i < count; i++)
		total += deltas[i].change.value[COUNTER_READY];
	ok(count == QUEUES * 32 + 1 && total == QUEUES * 64 + 2, "320,000 shards are merged and summed");
	pfree(deltas);
	qs_delta_reset(&stack);
}

static ShardKey
model_key(int cell)
{
	return key(cell % MODEL_QUEUES + 1, (int16_t) (cell / MODEL_QUEUES % PRIORITY_COUNT),
			   (int16_t) (cell / MODEL_QUEUES / PRIORITY_COUNT));
}

static bool
equals_model(const DeltaStack *stack, const Model *model)
{
	Model sum;
	Delta *deltas;
	int count = qs_delta_sum(stack, &deltas);

	memset(&sum, 0, sizeof(sum));
	for (int i = 0; i < count; i++)
	{
		for (int cell = 0; cell < MODEL_CELLS; cell++)
		{
			ShardKey k = model_key(cell);

			if (qs_shard_key_compare(&deltas[i].key, &k) == 0)
				memcpy(sum.value[cell], deltas[i].change.value, sizeof(sum.value[cell]));
		}
	}
	if (deltas != NULL)
		pfree(deltas);
	return memcmp(&sum, model, sizeof(sum)) == 0;
}

static void
test_random(unsigned seed)
{
	DeltaStack stack = { NULL };
	static Model model[MODEL_DEPTH + 1];
	int depth = 1;
	bool equal = true;

	srandom(seed);
	memset(model, 0, sizeof(model));
	for (int step = 0; step < 20000 && equal; step++)
	{
		switch (random() % 8)
		{
			case 0: /* SAVEPOINT */
				if (depth < MODEL_DEPTH)
				{
					model[depth + 1] = model[depth];
					depth++;
				}
				break;
			case 1: /* RELEASE */
				if (depth > 1)
				{
					qs_delta_release(&stack, depth);
					model[depth - 1] = model[depth];
					depth--;
				}
				break;
			case 2: /* ROLLBACK TO */
				if (depth > 1)
				{
					qs_delta_rollback(&stack, depth);
					depth--;
				}
				break;
			default:
			{
				int cell = (int) (random() % MODEL_CELLS);
				Counter counter = (Counter) (random() % COUNTER_COUNT);
				int64_t amount = random() % 5 - 2;

				add(&stack, depth, model_key(cell), counter, amount);
				model[depth].value[cell][counter] += amount;
			}
		}
		equal = equals_model(&stack, &model[depth]);
	}
	ok(equal, "20,000 random steps agree with the model");
	if (!equal)
		printf("# the seed was %u\n", seed);
	qs_delta_reset(&stack);
}

int
main(void)
{
	test_empty();
	test_cancelling();
	test_levels();
	test_tables();
	test_forgetting();
	test_order();
	test_many();
	test_random(20260101);
	test_random((unsigned) time(NULL));
	return tap_done();
}

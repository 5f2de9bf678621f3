/*-------------------------------------------------------------------------
 *
 * delta.c
 *	  Signed counter changes of one transaction; see delta.h.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"

#include "common/logging.h"
#else
#include "postgres.h"
#include "utils/memutils.h"
#endif

#include "common/hashfn.h"

#include "delta.h"

typedef struct DeltaEntry
{
	ShardKey key;
	Counters change;
	char status; /* simplehash's */
} DeltaEntry;

static void *
delta_alloc(Size size)
{
#ifdef FRONTEND
	return palloc0(size);
#else
	/* A restore in one transaction can count tens of thousands of queues. */
	return MemoryContextAllocExtended(TopTransactionContext, size,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
#endif
}

/* A ShardKey has no padding, so its bytes can be hashed and compared. */
StaticAssertDecl(sizeof(ShardKey) == 8, "ShardKey must have no padding");

static inline uint32
shard_key_hash(ShardKey key)
{
	uint32 cell = ((uint32) (uint16) key.priority << 16) | (uint16) key.shard;

	return hash_combine(murmurhash32((uint32) key.queue_id), murmurhash32(cell));
}

#define SH_PREFIX delta
#define SH_ELEMENT_TYPE DeltaEntry
#define SH_KEY_TYPE ShardKey
#define SH_KEY key
#define SH_HASH_KEY(tb, key) shard_key_hash(key)
#define SH_EQUAL(tb, a, b) (memcmp(&(a), &(b), sizeof(ShardKey)) == 0)
#define SH_SCOPE static inline
#define SH_RAW_ALLOCATOR delta_alloc
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Most transactions touch one or two shards. */
#define INITIAL_SHARDS 4

struct DeltaLevel
{
	int nest_level;
	uint32 table; /* which the changes are meant for */
	delta_hash *changes;
	DeltaLevel *below;
};

int
qs_shard_key_compare(const ShardKey *a, const ShardKey *b)
{
	if (a->queue_id != b->queue_id)
		return a->queue_id < b->queue_id ? -1 : 1;
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	return 0;
}

static int
delta_compare(const void *a, const void *b)
{
	return qs_shard_key_compare(&((const Delta *) a)->key, &((const Delta *) b)->key);
}

static DeltaEntry *
find_or_add(delta_hash *changes, ShardKey key)
{
	DeltaEntry *entry;
	bool found;

	entry = delta_insert(changes, key, &found);
	if (!found)
		memset(&entry->change, 0, sizeof(entry->change));
	return entry;
}

static void
add_changes(delta_hash *to, delta_hash *from)
{
	delta_iterator iterator;
	DeltaEntry *entry;

	delta_start_iterate(from, &iterator);
	while ((entry = delta_iterate(from, &iterator)) != NULL)
	{
		DeltaEntry *sum = find_or_add(to, entry->key);

		for (int i = 0; i < COUNTER_COUNT; i++)
			sum->change.value[i] += entry->change.value[i];
	}
}

static void
pop_level(DeltaStack *stack)
{
	DeltaLevel *level = stack->top;

	stack->top = level->below;
	delta_destroy(level->changes);
	pfree(level);
}

bool
qs_delta_has_level(const DeltaStack *stack, int nest_level)
{
	return stack->top != NULL && stack->top->nest_level == nest_level;
}

uint32
qs_delta_table(const DeltaStack *stack)
{
	return stack->top != NULL ? stack->top->table : 0;
}

static void
take_back(DeltaStack *stack, bool all_queues, int32 queue_id)
{
	Delta *deltas;
	int count = qs_delta_sum(stack, &deltas);

	for (int i = 0; i < count; i++)
	{
		DeltaEntry *entry;

		if (!all_queues && deltas[i].key.queue_id != queue_id)
			continue;
		entry = find_or_add(stack->top->changes, deltas[i].key);
		for (int j = 0; j < COUNTER_COUNT; j++)
			entry->change.value[j] -= deltas[i].change.value[j];
	}
	if (deltas != NULL)
		pfree(deltas);
}

void
qs_delta_forget_queue(DeltaStack *stack, int32 queue_id)
{
	take_back(stack, false, queue_id);
}

void
qs_delta_forget_all(DeltaStack *stack)
{
	take_back(stack, true, 0);
}

void
qs_delta_begin(DeltaStack *stack, int nest_level, uint32 table)
{
	if (!qs_delta_has_level(stack, nest_level))
	{
		DeltaLevel *level = delta_alloc(sizeof(DeltaLevel));

		Assert(stack->top == NULL || stack->top->nest_level < nest_level);
		level->nest_level = nest_level;
		level->table = stack->top != NULL ? stack->top->table : table;
		level->changes = delta_create(INITIAL_SHARDS, NULL);
		level->below = stack->top;
		stack->top = level;
	}

	if (stack->top->table != table)
	{
		qs_delta_forget_all(stack);
		stack->top->table = table;
	}
}

void
qs_delta_add(DeltaStack *stack, int nest_level, ShardKey key,
			 Counter counter, int64_t amount)
{
	Assert(qs_delta_has_level(stack, nest_level));
	find_or_add(stack->top->changes, key)->change.value[counter] += amount;
}

void
qs_delta_release(DeltaStack *stack, int nest_level)
{
	DeltaLevel *level = stack->top;

	if (!qs_delta_has_level(stack, nest_level))
		return;

	if (level->below != NULL && level->below->nest_level == nest_level - 1)
	{
		add_changes(level->below->changes, level->changes);
		level->below->table = level->table;
		pop_level(stack);
	}
	else
		level->nest_level = nest_level - 1;
}

void
qs_delta_rollback(DeltaStack *stack, int nest_level)
{
	while (stack->top != NULL && stack->top->nest_level >= nest_level)
		pop_level(stack);
}

void
qs_delta_reset(DeltaStack *stack)
{
	while (stack->top != NULL)
		pop_level(stack);
}

static bool
changes_nothing(const Counters *change)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
	{
		if (change->value[i] != 0)
			return false;
	}
	return true;
}

int
qs_delta_sum(const DeltaStack *stack, Delta **deltas)
{
	delta_hash *sum = NULL;
	delta_iterator iterator;
	DeltaEntry *entry;
	int count = 0;

	*deltas = NULL;
	if (stack->top == NULL)
		return 0;

	if (stack->top->below == NULL)
		sum = stack->top->changes;
	else
	{
		sum = delta_create(INITIAL_SHARDS, NULL);
		for (const DeltaLevel *level = stack->top; level != NULL; level = level->below)
			add_changes(sum, level->changes);
	}

	*deltas = delta_alloc(sizeof(Delta) * Max(sum->members, 1));
	delta_start_iterate(sum, &iterator);
	while ((entry = delta_iterate(sum, &iterator)) != NULL)
	{
		if (changes_nothing(&entry->change))
			continue;
		(*deltas)[count].key = entry->key;
		(*deltas)[count].change = entry->change;
		count++;
	}

	if (sum != stack->top->changes)
		delta_destroy(sum);

	if (count == 0)
	{
		pfree(*deltas);
		*deltas = NULL;
	}
	else
		qsort(*deltas, count, sizeof(Delta), delta_compare);

	return count;
}

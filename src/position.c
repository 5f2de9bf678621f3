/*-------------------------------------------------------------------------
 *
 * position.c
 *	  Where in the delivery order a backend last found work; see position.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "position.h"

/* Beyond this the memory starts over. */
#define MAX_QUEUES 256

#define LOOK_BACK_INTERVAL USECS_PER_SEC
#define WRITER_HELD_UP USECS_PER_SEC

/*
 * What one entry met in vain is taken to cost, in microseconds.  It costs
 * about one where the row has to be looked at.  So a backend that finds enough
 * spends, for each order, at most 4 % of its time on looking back to the
 * watermark, where rows do come back, and 0.4 % on the beginning: a dozen
 * consumers with six orders each have few processors between them.  One that
 * polls in vain spends at most half.
 */
static const int busy_cost[LOOK_BACK_COUNT] = { 25, 250 };
#define IDLE_COST 1

typedef struct QueueTrails
{
	int32 queue_id; /* hash key */
	Trail trail[PRIORITY_COUNT][ORDER_COUNT];
} QueueTrails;

const Position qs_beginning = { .time = DT_NOBEGIN };

static HTAB *trails;
static Oid trails_table; /* the message table they are of */

/* Numbers the transactions that moved a trail; 0 is none. */
static uint64 transaction = 1;
static bool moved; /* did the current one? */

static void transaction_end(XactEvent event, void *argument);
static void subtransaction_end(SubXactEvent event, SubTransactionId mine,
							   SubTransactionId parent, void *argument);

int
qs_position_compare(const Position *a, const Position *b)
{
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return memcmp(a->tie, b->tie, UUID_LEN);
}

static void
make_trails(Oid message_table)
{
	static bool registered = false;
	HASHCTL control = { 0 };

	if (!registered)
	{
		RegisterXactCallback(transaction_end, NULL);
		RegisterSubXactCallback(subtransaction_end, NULL);
		registered = true;
	}
	if (trails != NULL)
	{
		HTAB *old = trails;

		trails = NULL;
		hash_destroy(old);
	}
	control.keysize = sizeof(int32);
	control.entrysize = sizeof(QueueTrails);
	control.hcxt = TopMemoryContext;
	trails = hash_create("queue_state positions", 16, &control,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	trails_table = message_table;
}

Trail *
qs_trail(Oid message_table, int32 queue_id, Priority priority, Order order)
{
	QueueTrails *queue;
	bool found;

	/* Queue ids start over in an extension that was created again. */
	if (trails == NULL || trails_table != message_table)
		make_trails(message_table);

	queue = hash_search(trails, &queue_id, HASH_FIND, &found);
	if (!found)
	{
		if (hash_get_num_entries(trails) >= MAX_QUEUES)
			make_trails(message_table);
		queue = hash_search(trails, &queue_id, HASH_ENTER, &found);
		for (int p = 0; p < PRIORITY_COUNT; p++)
			for (int o = 0; o < ORDER_COUNT; o++)
				queue->trail[p][o] = (Trail){
					.marks = { qs_beginning, qs_beginning },
					.look_times = { { DT_NOBEGIN, DT_NOBEGIN, DT_NOBEGIN },
									{ DT_NOBEGIN, DT_NOBEGIN, DT_NOBEGIN } }
				};
	}
	return &queue->trail[priority][order];
}

TimestampTz
qs_watermark_limit(TimestampTz now)
{
	return now - WRITER_HELD_UP;
}

/* A clock that stepped back must not put looks off for that long. */
bool
qs_look_back_due(const Trail *trail, LookBack back, TimestampTz now)
{
	const LookTimes *times = &trail->look_times[back];

	return now >= times->due_at || now < times->looked_at;
}

bool
qs_look_back_allowed(const Trail *trail, LookBack back, TimestampTz now)
{
	const LookTimes *times = &trail->look_times[back];

	return now >= times->put_off_until || now < times->looked_at;
}

void
qs_look_back_done(Trail *trail, LookBack back, TimestampTz now, int64 entries)
{
	LookTimes *times = &trail->look_times[back];

	times->looked_at = now;
	times->put_off_until = now + entries * IDLE_COST;
	times->due_at = now + Max(LOOK_BACK_INTERVAL, entries * busy_cost[back]);
}

void
qs_trail_move(Trail *trail, const Marks *marks)
{
	if (trail->moved_in != transaction)
	{
		trail->settled = trail->marks;
		trail->moved_in = transaction;
		moved = true;
	}
	trail->marks = *marks;
}

/*
 * What this transaction leased is ready again after its rollback, in front of
 * where it looked last.  To itself these rows were finished.
 */
static void
move_back(void)
{
	HASH_SEQ_STATUS sequence;
	QueueTrails *queue;

	hash_seq_init(&sequence, trails);
	while ((queue = hash_seq_search(&sequence)) != NULL)
		for (int p = 0; p < PRIORITY_COUNT; p++)
			for (int o = 0; o < ORDER_COUNT; o++)
			{
				Trail *trail = &queue->trail[p][o];

				if (trail->moved_in == transaction)
					trail->marks = trail->settled;
			}
}

static void
transaction_end(XactEvent event, void *argument)
{
	if (!moved)
		return;
	switch (event)
	{
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			move_back();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			return;
	}
	moved = false;
	transaction++;
}

/* Which subtransaction moved what is not kept: all of it moves back. */
static void
subtransaction_end(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *argument)
{
	if (moved && event == SUBXACT_EVENT_ABORT_SUB)
		move_back();
}

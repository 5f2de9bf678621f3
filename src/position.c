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

/*
 * What one entry passed in vain is taken to cost, in microseconds.  It costs
 * about one where the row has to be looked at.  The factor for busy backends
 * is for all of them together: with an old snapshot open, eight consumers that
 * each spent a seventh of their time on looks from the beginning left two
 * cores only half of theirs for messages.  A backend that polls in vain spends
 * at most half.
 */
#define FULL_LOOK_INTERVAL USECS_PER_SEC
#define BUSY_COST 25
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
					.start = qs_beginning,
					.settled = qs_beginning,
					.due_at = DT_NOBEGIN,
					.put_off_until = DT_NOBEGIN,
					.looked_at = DT_NOBEGIN
				};
	}
	return &queue->trail[priority][order];
}

/* A clock that stepped back must not put looks off for that long. */
bool
qs_full_look_due(const Trail *trail, TimestampTz now)
{
	return now >= trail->due_at || now < trail->looked_at;
}

bool
qs_full_look_allowed(const Trail *trail, TimestampTz now)
{
	return now >= trail->put_off_until || now < trail->looked_at;
}

void
qs_full_look_done(Trail *trail, TimestampTz now, int64 entries)
{
	trail->looked_at = now;
	trail->put_off_until = now + entries * IDLE_COST;
	trail->due_at = now + Max(FULL_LOOK_INTERVAL, entries * BUSY_COST);
}

void
qs_trail_move(Trail *trail, const Position *start)
{
	if (trail->moved_in != transaction)
	{
		trail->settled = trail->start;
		trail->moved_in = transaction;
		moved = true;
	}
	trail->start = *start;
}

/*
 * What this transaction leased is ready again after its rollback, in front of
 * where it looked last.
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
					trail->start = trail->settled;
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

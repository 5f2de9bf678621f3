/*
 * body.c
 *		The queue series of a snapshot, as they go over the wire.
 */
#include "body.h"

#include <stdlib.h>
#include <string.h>

#include "gzip.h"

#define LITERAL(s) (s), sizeof(s) - 1

/* What a family reads from the rows, and how it labels it. */
typedef enum FamilySource
{
	FROM_COUNTER,		 /* queue_name, message_priority */
	FROM_AGE,			 /* the same */
	FROM_TOTAL,			 /* the same */
	FROM_TOTAL_BY_QUEUE, /* queue_name; sum of the priorities */
	FROM_EXPIRED		 /* queue_name, message_delivery_history; sums */
} FamilySource;

typedef struct QueueFamily
{
	Family family;
	FamilySource source;
	int index;
} QueueFamily;

static const QueueFamily families[BODY_FAMILIES] = {
	{ { "queue_messages_ready", FAMILY_GAUGE,
		"Messages a consumer could be given, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_READY },
	{ { "queue_messages_in_flight", FAMILY_GAUGE,
		"Messages under a live lease, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_IN_FLIGHT },
	{ { "queue_messages_delayed", FAMILY_GAUGE,
		"Messages whose time has not come yet, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_DELAYED },
	{ { "queue_messages_exhausted", FAMILY_GAUGE,
		"Messages out of delivery attempts that await dead-lettering, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_EXHAUSTED },
	{ { "queue_messages_expired_backlog", FAMILY_GAUGE,
		"Ready messages past their expiry that no cleaner has removed yet, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_EXPIRED_BACKLOG },
	{ { "queue_messages_elapsed_backlog", FAMILY_GAUGE,
		"Messages whose lease or delay is over and that nobody has taken yet, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_ELAPSED_BACKLOG },
	{ { "queue_dead_letter_messages", FAMILY_GAUGE,
		"Dead letters, as of the snapshot." },
	  FROM_COUNTER,
	  COUNTER_DEAD_LETTERS },
	{ { "queue_oldest_ready_message_age_seconds", FAMILY_GAUGE,
		"Age of the oldest ready message since it was enqueued, 0 if there is none, as of the snapshot." },
	  FROM_AGE,
	  AGE_OLDEST_READY },
	{ { "queue_oldest_in_flight_message_age_seconds", FAMILY_GAUGE,
		"Age of the oldest message under a live lease since it was enqueued, 0 if there is none, as of the snapshot." },
	  FROM_AGE,
	  AGE_OLDEST_IN_FLIGHT },
	{ { "queue_messages_enqueued_total", FAMILY_COUNTER,
		"Messages enqueued since the queue was created, as of the snapshot." },
	  FROM_TOTAL,
	  TOTAL_ENQUEUED },
	{ { "queue_messages_delivered_total", FAMILY_COUNTER,
		"Deliveries, each attempt counted, as of the snapshot." },
	  FROM_TOTAL_BY_QUEUE,
	  TOTAL_DELIVERED },
	{ { "queue_messages_acknowledged_total", FAMILY_COUNTER,
		"Messages acknowledged, as of the snapshot." },
	  FROM_TOTAL_BY_QUEUE,
	  TOTAL_ACKNOWLEDGED },
	{ { "queue_messages_dead_lettered_total", FAMILY_COUNTER,
		"Messages moved to the dead letters, as of the snapshot." },
	  FROM_TOTAL_BY_QUEUE,
	  TOTAL_DEAD_LETTERED },
	{ { "queue_messages_expired_total", FAMILY_COUNTER,
		"Messages removed after their expiry, by whether they had been delivered before, as of the snapshot." },
	  FROM_EXPIRED,
	  0 },
	{ { "queue_dead_letter_messages_purged_total", FAMILY_COUNTER,
		"Dead letters deleted by retention or by hand, as of the snapshot." },
	  FROM_TOTAL_BY_QUEUE,
	  TOTAL_DEAD_LETTER_PURGED },
	{ { "queue_dead_letter_messages_redriven_total", FAMILY_COUNTER,
		"Dead letters put back into their queue, as of the snapshot." },
	  FROM_TOTAL_BY_QUEUE,
	  TOTAL_DEAD_LETTER_REDRIVEN }
};

/*
 * The start of every sample's labels, {queue_name="...", made once per queue
 * instead of once per sample.
 */
typedef struct LabelCache
{
	Text text;
	size_t *offsets; /* one more than queues */
} LabelCache;

static bool
cache_labels(LabelCache *cache, const Snapshot *snapshot)
{
	int64_t queues = snapshot_queues(snapshot);

	*cache = (LabelCache){ TEXT_EMPTY, NULL };
	cache->offsets = malloc(((size_t) queues + 1) * sizeof(size_t));
	if (cache->offsets == NULL)
		return false;
	for (int64_t i = 0; i < queues; i++)
	{
		cache->offsets[i] = cache->text.length;
		text_bytes(&cache->text, LITERAL("{queue_name=\""));
		text_label_value(&cache->text, snapshot_queue_name(snapshot, i));
		text_char(&cache->text, '"');
	}
	cache->offsets[queues] = cache->text.length;
	return !cache->text.failed;
}

static void
free_labels(LabelCache *cache)
{
	text_free(&cache->text);
	free(cache->offsets);
}

/*
 * Everything of a sample but its value and the newline.
 */
static void
open_sample(Text *text, const LabelCache *cache, int64_t queue,
			const char *name, size_t name_length,
			const char *tail, size_t tail_length)
{
	size_t start = cache->offsets[queue];
	size_t labels = cache->offsets[queue + 1] - start;
	char *to;

	if (!text_reserve(text, name_length + labels + tail_length + 64))
		return;
	to = text->data + text->length;
	memcpy(to, name, name_length);
	memcpy(to + name_length, cache->text.data + start, labels);
	memcpy(to + name_length + labels, tail, tail_length);
	text->length += name_length + labels + tail_length;
}

/*
 * The sum over the priorities.  Totals are bigints, so three of them can be
 * more than an int64; nothing real gets there, but it must not wrap either.
 */
static int64_t
sum_totals(const Snapshot *snapshot, int64_t queue, int total)
{
	int64_t sum = 0;

	for (int p = 0; p < PRIORITY_COUNT; p++)
	{
		if (__builtin_add_overflow(sum,
								   snapshot_row(snapshot, queue, p)->totals[total],
								   &sum))
			return INT64_MAX;
	}
	return sum;
}

static void
render_by_priority(Text *text, const QueueFamily *family,
				   const Snapshot *snapshot, const LabelCache *cache)
{
	static const struct
	{
		const char *text;
		size_t length;
	} tails[PRIORITY_COUNT] = {
		[PRIORITY_HIGH] = { LITERAL(",message_priority=\"HIGH\"} ") },
		[PRIORITY_MEDIUM] = { LITERAL(",message_priority=\"MEDIUM\"} ") },
		[PRIORITY_LOW] = { LITERAL(",message_priority=\"LOW\"} ") }
	};
	const char *name = family->family.name;
	size_t name_length = strlen(name);
	int64_t queues = snapshot_queues(snapshot);

	for (int64_t i = 0; i < queues; i++)
	{
		for (int p = 0; p < PRIORITY_COUNT; p++)
		{
			const SnapshotRow *row = snapshot_row(snapshot, i, p);

			open_sample(text, cache, i, name, name_length,
						tails[p].text, tails[p].length);
			if (family->source == FROM_AGE)
				text_double(text, row->ages[family->index]);
			else if (family->source == FROM_COUNTER)
				text_integer(text, row->counters[family->index]);
			else
				text_integer(text, row->totals[family->index]);
			text_char(text, '\n');
		}
	}
}

static void
render_by_queue(Text *text, const QueueFamily *family,
				const Snapshot *snapshot, const LabelCache *cache)
{
	const char *name = family->family.name;
	size_t name_length = strlen(name);
	int64_t queues = snapshot_queues(snapshot);

	for (int64_t i = 0; i < queues; i++)
	{
		if (family->source == FROM_EXPIRED)
		{
			open_sample(text, cache, i, name, name_length,
						LITERAL(",message_delivery_history=\"never_delivered\"} "));
			text_integer(text, sum_totals(snapshot, i,
										  TOTAL_EXPIRED_NEVER_DELIVERED));
			text_char(text, '\n');
			open_sample(text, cache, i, name, name_length,
						LITERAL(",message_delivery_history=\"previously_delivered\"} "));
			text_integer(text, sum_totals(snapshot, i,
										  TOTAL_EXPIRED_PREVIOUSLY_DELIVERED));
		}
		else
		{
			open_sample(text, cache, i, name, name_length, LITERAL("} "));
			text_integer(text, sum_totals(snapshot, i, family->index));
		}
		text_char(text, '\n');
	}
}

/* Where a family's pieces start in the four buffers; ends with a sentinel. */
typedef struct Marks
{
	size_t announcement;
	size_t samples;
	size_t announcement_deflated;
	size_t samples_deflated;
	size_t head;
	size_t head_deflated;
} Marks;

static void
add_part(BodyView *view, const Text *text, size_t start, size_t end)
{
	if (start == end)
		return;
	view->parts[view->count].iov_base = text->data + start;
	view->parts[view->count].iov_len = end - start;
	view->count++;
	view->length += end - start;
}

/*
 * Point the views into the buffers, now that these do not move any more.
 */
static void
make_views(Body *body, const Marks *marks)
{
	add_part(&body->plain[FORMAT_TEXT], &body->text, 0, body->text.length);
	add_part(&body->deflated[FORMAT_TEXT], &body->text_deflated,
			 0, body->text_deflated.length);
	for (int f = 0; f < BODY_FAMILIES; f++)
	{
		const Marks *next = &marks[f + 1];

		add_part(&body->plain[FORMAT_OPENMETRICS], &body->heads,
				 marks[f].head, next->head);
		add_part(&body->plain[FORMAT_OPENMETRICS], &body->text,
				 marks[f].samples, next->announcement);
		add_part(&body->deflated[FORMAT_OPENMETRICS], &body->heads_deflated,
				 marks[f].head_deflated, next->head_deflated);
		add_part(&body->deflated[FORMAT_OPENMETRICS], &body->text_deflated,
				 marks[f].samples_deflated, next->announcement_deflated);
	}
}

static void
set_marks(Marks *marks, const Body *body)
{
	marks->announcement = body->text.length;
	marks->announcement_deflated = body->text_deflated.length;
	marks->head = body->heads.length;
	marks->head_deflated = body->heads_deflated.length;
}

/*
 * Deflate what was appended to a buffer since start, and extend a checksum.
 */
static bool
deflate_since(Gzip *gzip, const Text *text, size_t start, Text *deflated,
			  uint32_t *checksum)
{
	const char *bytes = text->data + start;
	size_t length = text->length - start;
	uint32_t part = gzip_checksum(bytes, length);

	*checksum = gzip_combine(*checksum, part, length);
	return gzip_part(gzip, bytes, length, deflated);
}

static bool
render_family(Body *body, const QueueFamily *family, const Snapshot *snapshot,
			  const LabelCache *cache, Gzip *gzip, Marks *marks)
{
	uint32_t samples = gzip_checksum("", 0);
	size_t sample_bytes;

	set_marks(marks, body);
	text_family(&body->text, FORMAT_TEXT, &family->family);
	text_family(&body->heads, FORMAT_OPENMETRICS, &family->family);
	if (body->text.failed || body->heads.failed)
		return false;
	if (!deflate_since(gzip, &body->text, marks->announcement,
					   &body->text_deflated, &body->checksum[FORMAT_TEXT]) ||
		!deflate_since(gzip, &body->heads, marks->head,
					   &body->heads_deflated, &body->checksum[FORMAT_OPENMETRICS]))
		return false;

	marks->samples = body->text.length;
	marks->samples_deflated = body->text_deflated.length;
	if (family->source == FROM_EXPIRED || family->source == FROM_TOTAL_BY_QUEUE)
		render_by_queue(&body->text, family, snapshot, cache);
	else
		render_by_priority(&body->text, family, snapshot, cache);
	sample_bytes = body->text.length - marks->samples;
	if (body->text.failed)
		return false;
	if (sample_bytes == 0)
		return true;
	if (!deflate_since(gzip, &body->text, marks->samples,
					   &body->text_deflated, &samples))
		return false;
	for (int f = 0; f < 2; f++)
		body->checksum[f] = gzip_combine(body->checksum[f], samples, sample_bytes);
	return true;
}

bool
body_render(Body *body, const Snapshot *snapshot)
{
	Marks marks[BODY_FAMILIES + 1] = { { 0 } };
	LabelCache cache;
	Gzip *gzip = gzip_create();
	bool ok = cache_labels(&cache, snapshot) && gzip != NULL;

	memset(body, 0, sizeof(*body));
	for (int f = 0; ok && f < BODY_FAMILIES; f++)
		ok = render_family(body, &families[f], snapshot, &cache, gzip, &marks[f]);
	free_labels(&cache);
	gzip_free(gzip);
	if (!ok)
	{
		body_free(body);
		return false;
	}
	set_marks(&marks[BODY_FAMILIES], body);
	text_shrink(&body->text);
	text_shrink(&body->text_deflated);
	text_shrink(&body->heads);
	text_shrink(&body->heads_deflated);
	make_views(body, marks);
	return true;
}

void
body_free(Body *body)
{
	text_free(&body->text);
	text_free(&body->text_deflated);
	text_free(&body->heads);
	text_free(&body->heads_deflated);
}

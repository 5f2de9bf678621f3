/*
 * json.c
 *		A snapshot as JSON, for /api/v1/snapshot.
 */
#include "json.h"

#include <stddef.h>

static const char *const counter_keys[COUNTER_COUNT] = {
	[COUNTER_READY] = ",\"ready\":",
	[COUNTER_IN_FLIGHT] = ",\"in_flight\":",
	[COUNTER_DELAYED] = ",\"delayed\":",
	[COUNTER_EXHAUSTED] = ",\"exhausted\":",
	[COUNTER_EXPIRED_BACKLOG] = ",\"expired_backlog\":",
	[COUNTER_ELAPSED_BACKLOG] = ",\"elapsed_backlog\":",
	[COUNTER_DEAD_LETTERS] = ",\"dead_letters\":"
};

static const char *const age_keys[AGE_COUNT] = {
	[AGE_OLDEST_READY] = ",\"oldest_ready_age_seconds\":",
	[AGE_OLDEST_IN_FLIGHT] = ",\"oldest_in_flight_age_seconds\":"
};

static const char *const total_keys[TOTAL_COUNT] = {
	[TOTAL_ENQUEUED] = ",\"enqueued_total\":",
	[TOTAL_DELIVERED] = ",\"delivered_total\":",
	[TOTAL_ACKNOWLEDGED] = ",\"acknowledged_total\":",
	[TOTAL_EXPIRED_NEVER_DELIVERED] = ",\"expired_never_delivered_total\":",
	[TOTAL_EXPIRED_PREVIOUSLY_DELIVERED] = ",\"expired_previously_delivered_total\":",
	[TOTAL_DEAD_LETTERED] = ",\"dead_lettered_total\":",
	[TOTAL_DEAD_LETTER_PURGED] = ",\"dead_letter_purged_total\":",
	[TOTAL_DEAD_LETTER_REDRIVEN] = ",\"dead_letter_redriven_total\":"
};

void
json_string(Text *text, const char *value)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = (const unsigned char *) value;

	text_char(text, '"');
	while (*s != '\0')
	{
		if (*s == '"' || *s == '\\')
		{
			text_char(text, '\\');
			text_char(text, (char) *s);
		}
		else if (*s < 0x20)
		{
			char escape[6] = { '\\', 'u', '0', '0', hex[*s >> 4], hex[*s & 15] };

			text_bytes(text, escape, sizeof(escape));
		}
		else
		{
			s += text_character(text, s);
			continue;
		}
		s++;
	}
	text_char(text, '"');
}

/* -1 stands for "not known". */
static void
known_or_null(Text *text, const char *key, int64_t value)
{
	text_string(text, key);
	if (value < 0)
		text_string(text, "null");
	else
		text_integer(text, value);
}

void
json_open(Text *text, const Snapshot *snapshot, int64_t now_ns)
{
	const SnapshotInfo *info = snapshot_info(snapshot);
	int64_t age = now_ns - info->sent_boottime_ns;

	text_string(text, "{\"extension_version\":");
	json_string(text, info->extension_version);
	text_string(text, ",\"timestamp_seconds\":");
	text_seconds(text, info->wall_time_us * 1000);
	text_string(text, ",\"age_seconds\":");
	text_seconds(text, age > 0 ? age : 0);
	text_string(text, ",\"queues\":");
	text_integer(text, snapshot_queues(snapshot));
	text_string(text, ",\"queues_dropped\":");
	text_integer(text, snapshot_queues_dropped(snapshot));
	known_or_null(text, ",\"pending_rows\":", info->pending_rows);
	known_or_null(text, ",\"drift\":", info->drift);
	text_string(text, ",\"event_regressions\":");
	text_integer(text, snapshot_regressions(snapshot));
	text_string(text, ",\"rows\":[");
}

void
json_queue(Text *text, const Snapshot *snapshot, int64_t queue)
{
	for (int p = 0; p < PRIORITY_COUNT; p++)
	{
		const SnapshotRow *row = snapshot_row(snapshot, queue, (SnapshotPriority) p);

		text_string(text, queue == 0 && p == 0 ? "\n{\"queue_id\":" : ",\n{\"queue_id\":");
		text_integer(text, row->queue_id);
		text_string(text, ",\"queue_name\":");
		json_string(text, snapshot_queue_name(snapshot, queue));
		text_string(text, ",\"priority\":\"");
		text_string(text, snapshot_priority_name(row->priority));
		text_char(text, '"');
		for (int i = 0; i < COUNTER_COUNT; i++)
		{
			text_string(text, counter_keys[i]);
			text_integer(text, row->counters[i]);
		}
		for (int i = 0; i < AGE_COUNT; i++)
		{
			text_string(text, age_keys[i]);
			text_double(text, row->ages[i]);
		}
		for (int i = 0; i < TOTAL_COUNT; i++)
		{
			text_string(text, total_keys[i]);
			text_integer(text, row->totals[i]);
		}
		text_char(text, '}');
	}
}

void
json_close(Text *text)
{
	text_string(text, "\n]}\n");
}

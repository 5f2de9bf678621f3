/*
 * page.c
 *		The status page for people, and the words of the readiness check.
 */
#include "page.h"

#include <string.h>

#include "status.h"

/* A page is for reading; whoever wants all queues has the JSON. */
#define PAGE_QUEUES 200

static void
append_html(Text *text, const char *value)
{
	const unsigned char *s = (const unsigned char *) value;

	while (*s != '\0')
	{
		switch (*s)
		{
			case '<':
				text_string(text, "&lt;");
				break;
			case '>':
				text_string(text, "&gt;");
				break;
			case '&':
				text_string(text, "&amp;");
				break;
			case '"':
				text_string(text, "&quot;");
				break;
			default:
				s += text_character(text, s);
				continue;
		}
		s++;
	}
}

static void
line(Text *text, const char *name, const char *value)
{
	text_string(text, "<tr><th>");
	text_string(text, name);
	text_string(text, "</th><td>");
	append_html(text, value);
	text_string(text, "</td></tr>\n");
}

static void
line_number(Text *text, const char *name, int64_t value)
{
	text_string(text, "<tr><th>");
	text_string(text, name);
	text_string(text, "</th><td>");
	text_integer(text, value);
	text_string(text, "</td></tr>\n");
}

static void
cell(Text *text, int64_t value)
{
	text_string(text, "<td>");
	text_integer(text, value);
	text_string(text, "</td>");
}

static int64_t
sum_counter(const Snapshot *snapshot, int64_t queue, SnapshotCounter counter)
{
	int64_t sum = 0;

	for (int p = 0; p < PRIORITY_COUNT; p++)
	{
		if (__builtin_add_overflow(sum, snapshot_row(snapshot, queue, (SnapshotPriority) p)->counters[counter],
								   &sum))
			return INT64_MAX;
	}
	return sum;
}

static void
render_queues(Text *text, const Snapshot *snapshot)
{
	int64_t queues = snapshot_queues(snapshot);

	text_string(text, "<h2>Queues</h2>\n<table>\n<tr><th>queue</th><th>ready</th>"
					  "<th>in flight</th><th>delayed</th><th>exhausted</th>"
					  "<th>expired backlog</th><th>elapsed backlog</th>"
					  "<th>dead letters</th></tr>\n");
	for (int64_t i = 0; i < queues && i < PAGE_QUEUES; i++)
	{
		text_string(text, "<tr><td>");
		append_html(text, snapshot_queue_name(snapshot, i));
		text_string(text, "</td>");
		for (int c = 0; c < COUNTER_COUNT; c++)
			cell(text, sum_counter(snapshot, i, (SnapshotCounter) c));
		text_string(text, "</tr>\n");
	}
	text_string(text, "</table>\n");
	if (queues > PAGE_QUEUES)
		text_string(text, "<p>Only the oldest queues are shown here; "
						  "<a href=\"/api/v1/snapshot\">all of them as JSON</a>.</p>\n");
}

void
page_render(Text *text, const PageContext *context, const Snapshot *snapshot)
{
	char message[256];
	const char *words;
	bool ready = page_ready(context->now_ns, &words);

	text_string(text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
					  "<title>retsu-collector</title>\n<style>body{font-family:sans-serif;margin:2em}"
					  "table{border-collapse:collapse}th,td{text-align:left;padding:.2em .8em;"
					  "border-bottom:1px solid #ccc}</style></head>\n<body>\n"
					  "<h1>retsu-collector</h1>\n<table>\n");
	line(text, "version", context->version);
	line(text, "instance", context->instance);
	line(text, "role", snapshot != NULL ? "leader" : status_leads() ? "leader without a current snapshot" :
																	  "standby");
	line(text, "database", status_database_up() ? "up" : "down");
	line(text, "ready", ready ? "yes" : words);
	status_get_message(message, sizeof(message));
	if (message[0] != '\0')
		line(text, "note", message);
	if (snapshot != NULL)
	{
		const SnapshotInfo *info = snapshot_info(snapshot);
		int64_t age = context->now_ns - info->sent_boottime_ns;

		line(text, "extension version", info->extension_version);
		line_number(text, "snapshot age, seconds", age > 0 ? age / 1000000000 : 0);
		line_number(text, "queues", snapshot_queues(snapshot));
		line_number(text, "queues dropped", snapshot_queues_dropped(snapshot));
	}
	text_string(text, "</table>\n<p><a href=\"/metrics\">metrics</a> "
					  "<a href=\"/api/v1/snapshot\">snapshot</a> "
					  "<a href=\"/health/live\">live</a> "
					  "<a href=\"/health/ready\">ready</a></p>\n");
	if (snapshot != NULL)
		render_queues(text, snapshot);
	text_string(text, "</body>\n</html>\n");
}

bool
page_ready(int64_t now_ns, const char **words)
{
	if (!status_database_up())
		*words = "not ready: the database cannot be reached\n";
	else if (status_leads() && !snapshot_is_served(now_ns))
		*words = "not ready: leader without a current snapshot\n";
	else
	{
		*words = "ready\n";
		return true;
	}
	return false;
}

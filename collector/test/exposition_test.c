/*
 * exposition_test.c
 *	  The whole of an answer to /metrics, byte by byte, for leader and standby.
 *
 * With the argument --write the files in test/golden are written anew instead;
 * look at the difference before it is committed, since every line of it is
 * somebody's dashboard.
 */
#include "tap.h"

#include <libgen.h>
#include <stdlib.h>

#include "body.h"
#include "metrics.h"
#include "sample.h"
#include "status.h"

static bool write_golden;
static const char *directory; /* of this program: build.../test */

static const ProcessUsage process = {
	.cpu_ns = INT64_C(1234567890),
	.start_time_ns = INT64_C(1690000000500000000),
	.resident_bytes = 8388608,
	.virtual_bytes = 268435456,
	.virtual_limit = -1,
	.open_fds = 12,
	.max_fds = 1024,
	.threads = 6
};

/* What a fixed past looks like. */
static void
live_a_little(void)
{
	status_reset();
	status_set_database_up(true);
	status_lease_acquired();
	status_lease_lost(LOSS_CONNECTION);
	status_lease_acquired();
	status_collection_succeeded(INT64_C(4000000));
	status_collection_succeeded(INT64_C(40000000));
	status_collection_failed(FAILURE_TIMEOUT, INT64_C(10500000000));
	status_attempt_failed(FAILURE_CONNECTION);
	status_collection_succeeded(INT64_C(5000000));
	status_maintenance_batch(MAINTENANCE_EXPIRE, 500);
	status_maintenance_batch(MAINTENANCE_EXPIRE, 7);
	status_maintenance_failed(MAINTENANCE_PURGE);
	status_http_connection_opened();
	status_http_connection_opened();
	status_http_request(HANDLER_METRICS, CODE_200);
	status_http_request(HANDLER_OTHER, CODE_404);
	status_http_connection_closed(CLOSED_PEER, true);
	status_http_connection_closed(CLOSED_ADDRESS_LIMIT, false);
}

static void
render(Text *text, TextFormat format, const Snapshot *snapshot)
{
	MetricsContext context = { INT64_C(101500000000), "1.0", &process };

	metrics_render(text, format, &context, snapshot);
	if (snapshot == NULL)
		return;
	for (int i = 0; i < snapshot_body(snapshot)->plain[format].count; i++)
		text_bytes(text, snapshot_body(snapshot)->plain[format].parts[i].iov_base,
				   snapshot_body(snapshot)->plain[format].parts[i].iov_len);
}

/* Say where two texts part, by line. */
static void
show_difference(const char *got, const char *expected)
{
	int line = 1;

	while (*got != '\0' && *got == *expected)
	{
		line += *got == '\n';
		got++;
		expected++;
	}
	printf("# first difference in line %d:\n#   got:      %.100s\n#   expected: %.100s\n",
		   line, got, expected);
}

static void
compare(const char *name, TextFormat format, const Snapshot *snapshot)
{
	char path[1000];
	Text text = TEXT_EMPTY;
	Text golden = TEXT_EMPTY;
	char buffer[4096];
	size_t length;
	FILE *file;

	render(&text, format, snapshot);
	snprintf(path, sizeof(path), "%s/../../test/golden/%s", directory, name);
	file = fopen(path, write_golden ? "w" : "r");
	if (!ok(file != NULL, "%s can be opened", name))
		return;
	if (write_golden)
		fwrite(text.data, 1, text.length, file);
	else
	{
		while ((length = fread(buffer, 1, sizeof(buffer), file)) > 0)
			text_bytes(&golden, buffer, length);
		text_char(&text, '\0');
		text_char(&golden, '\0');
		if (!ok(text.length == golden.length &&
					memcmp(text.data, golden.data, text.length) == 0,
				"%s is what is exported", name))
			show_difference(text.data, golden.data);
	}
	fclose(file);
	text_free(&text);
	text_free(&golden);
}

/* On a standby nothing may even mention a queue series. */
static void
test_standby_is_silent(void)
{
	Text text = TEXT_EMPTY;

	render(&text, FORMAT_TEXT, NULL);
	text_char(&text, '\0');
	ok(strstr(text.data, "queue_messages_") == NULL, "a standby does not say queue_messages_");
	ok(strstr(text.data, "queue_dead_letter") == NULL, "nor queue_dead_letter");
	ok(strstr(text.data, "queue_oldest") == NULL, "nor queue_oldest");
	ok(strstr(text.data, "queue_state_snapshot") == NULL, "nor anything of a snapshot");
	ok(strstr(text.data, "\nqueue_state_collector_leader 0\n") != NULL, "but that it does not lead");
	text_free(&text);
}

int
main(int argc, char **argv)
{
	Totals *totals = totals_create();
	Snapshot *snapshot = snapshot_begin(2);

	directory = dirname(argv[0]);
	write_golden = argc > 1 && strcmp(argv[1], "--write") == 0;
	live_a_little();
	sample_queue(snapshot, 1, "mail", 1);
	sample_queue(snapshot, 2, "odd \"name\"\\\n\xFF\xC3\xBC", 1000000);
	sample_queue(snapshot, 3, "one-too-many", 1);
	if (snapshot_finish(snapshot, &sample_info, totals) != SNAPSHOT_OK)
		abort();

	compare("leader.txt", FORMAT_TEXT, snapshot);
	compare("standby.txt", FORMAT_TEXT, NULL);
	compare("leader.openmetrics", FORMAT_OPENMETRICS, snapshot);
	test_standby_is_silent();
	snapshot_release(snapshot);
	totals_free(totals);
	return tap_done();
}

/*
 * metrics.c
 *		The series that are rendered for each request.
 */
#include "metrics.h"

#include <stdbool.h>
#include <string.h>

#include "log.h"
#include "status.h"

static const char *const handler_names[HANDLER_COUNT] = {
	[HANDLER_METRICS] = "metrics",
	[HANDLER_LIVE] = "live",
	[HANDLER_READY] = "ready",
	[HANDLER_STATUS] = "status",
	[HANDLER_SNAPSHOT] = "snapshot",
	[HANDLER_OTHER] = "other"
};

static const char *const code_names[CODE_COUNT] = {
	[CODE_200] = "200",
	[CODE_404] = "404",
	[CODE_405] = "405",
	[CODE_503] = "503"
};

static const char *const closed_names[CLOSED_COUNT] = {
	[CLOSED_PEER] = "peer",
	[CLOSED_IDLE] = "idle",
	[CLOSED_HEADER_TIMEOUT] = "header_timeout",
	[CLOSED_REQUEST_TIMEOUT] = "request_timeout",
	[CLOSED_CONNECTION_LIMIT] = "connection_limit",
	[CLOSED_ADDRESS_LIMIT] = "address_limit",
	[CLOSED_SHUTDOWN] = "shutdown"
};

static const char *const outcome_names[OUTCOME_COUNT] = {
	[OUTCOME_SUCCESS] = "success",
	[OUTCOME_FAILURE] = "failure"
};

/* OpenMetrics wants the bounds as floating-point numbers, the text format not. */
static const char *const bound_names[2][DURATION_BUCKETS] = {
	[FORMAT_TEXT] = { "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5",
					  "1", "2.5", "5", "10", "+Inf" },
	[FORMAT_OPENMETRICS] = { "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5",
							 "1.0", "2.5", "5.0", "10.0", "+Inf" }
};

/* One rendering: where to, how, and the family whose samples come now. */
typedef struct Writer
{
	Text *text;
	TextFormat format;
	const char *name;
} Writer;

static void
open_family(Writer *writer, const char *name, FamilyType type, const char *help)
{
	Family family = { name, type, help };

	writer->name = name;
	text_family(writer->text, writer->format, &family);
}

static void
sample(Writer *writer, int64_t value)
{
	text_string(writer->text, writer->name);
	text_char(writer->text, ' ');
	text_integer(writer->text, value);
	text_char(writer->text, '\n');
}

static void
sample_seconds(Writer *writer, int64_t nanoseconds)
{
	text_string(writer->text, writer->name);
	text_char(writer->text, ' ');
	text_seconds(writer->text, nanoseconds);
	text_char(writer->text, '\n');
}

/* Label values here are words of this program and need no escaping. */
static void
sample_labelled(Writer *writer, const char *label, const char *value,
				int64_t number)
{
	Text *text = writer->text;

	text_string(text, writer->name);
	text_char(text, '{');
	text_string(text, label);
	text_string(text, "=\"");
	text_label_value(text, value);
	text_string(text, "\"} ");
	text_integer(text, number);
	text_char(text, '\n');
}

static void
gauge(Writer *writer, const char *name, int64_t value, const char *help)
{
	open_family(writer, name, FAMILY_GAUGE, help);
	sample(writer, value);
}

static void
counter(Writer *writer, const char *name, int64_t value, const char *help)
{
	open_family(writer, name, FAMILY_COUNTER, help);
	sample(writer, value);
}

static void
histogram_part(Writer *writer, const char *suffix, DurationOutcome outcome,
			   const char *bound)
{
	Text *text = writer->text;

	text_string(text, writer->name);
	text_string(text, suffix);
	text_string(text, "{outcome=\"");
	text_string(text, outcome_names[outcome]);
	if (bound != NULL)
	{
		text_string(text, "\",le=\"");
		text_string(text, bound);
	}
	text_string(text, "\"} ");
}

static void
render_durations(Writer *writer)
{
	open_family(writer, "queue_state_collection_duration_seconds",
				FAMILY_HISTOGRAM,
				"Time a collection took, from its start to its publication or failure.");
	for (int o = 0; o < OUTCOME_COUNT; o++)
	{
		DurationHistogram histogram;
		int64_t count = 0;

		status_durations((DurationOutcome) o, &histogram);
		for (int b = 0; b < DURATION_BUCKETS; b++)
		{
			count += histogram.buckets[b];
			histogram_part(writer, "_bucket", (DurationOutcome) o,
						   bound_names[writer->format][b]);
			text_integer(writer->text, count);
			text_char(writer->text, '\n');
		}
		histogram_part(writer, "_sum", (DurationOutcome) o, NULL);
		text_seconds(writer->text, histogram.sum_ns);
		text_char(writer->text, '\n');
		histogram_part(writer, "_count", (DurationOutcome) o, NULL);
		text_integer(writer->text, count);
		text_char(writer->text, '\n');
	}
}

static void
render_collection(Writer *writer, bool leader)
{
	gauge(writer, "queue_state_collector_leader", leader,
		  "1 while this replica exports the queue series, else 0.");
	gauge(writer, "queue_state_collector_database_up", status_database_up(),
		  "1 if the last exchange with the database succeeded, else 0.");
	counter(writer, "queue_state_collector_lease_acquisitions_total",
			status_lease_acquisitions(), "Times this replica took the lease.");
	open_family(writer, "queue_state_collector_lease_losses_total", FAMILY_COUNTER,
				"Times this replica lost or gave up the lease, by reason.");
	for (int r = 0; r < LOSS_COUNT; r++)
		sample_labelled(writer, "reason", status_loss_name((LossReason) r),
						status_lease_losses((LossReason) r));
	counter(writer, "queue_state_collections_total", status_collections(),
			"Collections that ended, in success or failure.");
	open_family(writer, "queue_state_collection_failures_total", FAMILY_COUNTER,
				"Failed collections, and failed attempts to become able to collect, by reason.");
	for (int r = 0; r < FAILURE_COUNT; r++)
		sample_labelled(writer, "reason", status_failure_name((FailureReason) r),
						status_collection_failures((FailureReason) r));
	render_durations(writer);
}

static void
render_snapshot(Writer *writer, const MetricsContext *context,
				const Snapshot *snapshot)
{
	const SnapshotInfo *info = snapshot_info(snapshot);
	int64_t age = context->now_ns - info->sent_boottime_ns;

	gauge(writer, "queue_state_collection_success",
		  status_last_collection_succeeded(),
		  "1 if the last collection succeeded, 0 if it failed and the snapshot is an older one.");
	open_family(writer, "queue_state_snapshot_age_seconds", FAMILY_GAUGE,
				"Time since the query that made the snapshot was sent.");
	sample_seconds(writer, age > 0 ? age : 0);
	open_family(writer, "queue_state_snapshot_timestamp_seconds", FAMILY_GAUGE,
				"Wall clock of the snapshot, in seconds since the epoch.");
	sample_seconds(writer, info->wall_time_us * 1000);
	gauge(writer, "queue_state_snapshot_queues", snapshot_queues(snapshot),
		  "Queues in the snapshot.");
	gauge(writer, "queue_state_snapshot_queues_dropped",
		  snapshot_queues_dropped(snapshot),
		  "Queues left out because there are more than --collector.max-queues, as of the snapshot.");
	if (info->pending_rows >= 0)
		gauge(writer, "queue_state_pending_rows", info->pending_rows,
			  "Counter changes not folded yet, as of the snapshot.");
	if (info->drift >= 0)
		gauge(writer, "queue_state_drift", info->drift,
			  "Counters that disagreed with the tables at the last verify(), as of the snapshot.");
	open_family(writer, "queue_state_extension_info", FAMILY_INFO,
				"Version of the extension in the database, as of the snapshot.");
	sample_labelled(writer, "version", info->extension_version, 1);
	counter(writer, "queue_state_event_regressions_total",
			snapshot_regressions(snapshot),
			"Times an event total in the database fell below what was exported before.");
}

static void
render_maintenance(Writer *writer)
{
	open_family(writer, "queue_state_maintenance_batches_total", FAMILY_COUNTER,
				"Maintenance batches done by this replica, by task.");
	for (int t = 0; t < MAINTENANCE_COUNT; t++)
		sample_labelled(writer, "task", status_task_name((MaintenanceTask) t),
						status_maintenance_batches((MaintenanceTask) t));
	open_family(writer, "queue_state_maintenance_rows_total", FAMILY_COUNTER,
				"Rows changed by this replica's maintenance, by task.");
	for (int t = 0; t < MAINTENANCE_COUNT; t++)
		sample_labelled(writer, "task", status_task_name((MaintenanceTask) t),
						status_maintenance_rows((MaintenanceTask) t));
	open_family(writer, "queue_state_maintenance_failures_total", FAMILY_COUNTER,
				"Maintenance batches that failed on this replica, by task.");
	for (int t = 0; t < MAINTENANCE_COUNT; t++)
		sample_labelled(writer, "task", status_task_name((MaintenanceTask) t),
						status_maintenance_failures((MaintenanceTask) t));
}

bool
metrics_request_possible(int handler, int code)
{
	if (handler == HANDLER_OTHER)
		return code == CODE_404;

	/* The liveness page needs nothing that could be missing. */
	if (handler == HANDLER_LIVE && code == CODE_503)
		return false;
	return code != CODE_404;
}

static void
render_http(Writer *writer, const char *version)
{
	Text *text = writer->text;

	open_family(writer, "retsu_collector_build_info", FAMILY_INFO,
				"Version of this program.");
	sample_labelled(writer, "version", version, 1);
	open_family(writer, "retsu_collector_http_requests_total", FAMILY_COUNTER,
				"Requests answered, by page and status code.");
	for (int h = 0; h < HANDLER_COUNT; h++)
	{
		for (int c = 0; c < CODE_COUNT; c++)
		{
			if (!metrics_request_possible(h, c))
				continue;
			text_string(text, writer->name);
			text_string(text, "{handler=\"");
			text_string(text, handler_names[h]);
			text_string(text, "\",code=\"");
			text_string(text, code_names[c]);
			text_string(text, "\"} ");
			text_integer(text, status_http_requests((HttpHandler) h, (HttpCode) c));
			text_char(text, '\n');
		}
	}
	gauge(writer, "retsu_collector_http_connections", status_http_connections(),
		  "Open HTTP connections.");
	open_family(writer, "retsu_collector_http_connections_closed_total",
				FAMILY_COUNTER, "HTTP connections closed or refused, by reason.");
	for (int r = 0; r < CLOSED_COUNT; r++)
		sample_labelled(writer, "reason", closed_names[r],
						status_http_closed((ClosedReason) r));
	counter(writer, "retsu_collector_log_messages_dropped_total",
			(int64_t) log_dropped(),
			"Log lines dropped because they could not be written at once.");
}

static void
render_process(Writer *writer, const ProcessUsage *process)
{
	open_family(writer, "process_cpu_seconds_total", FAMILY_COUNTER,
				"Total user and system CPU time spent in seconds.");
	sample_seconds(writer, process->cpu_ns);
	if (process->open_fds >= 0)
		gauge(writer, "process_open_fds", process->open_fds,
			  "Number of open file descriptors.");
	if (process->max_fds >= 0)
		gauge(writer, "process_max_fds", process->max_fds,
			  "Maximum number of open file descriptors.");
	if (process->virtual_bytes >= 0)
		gauge(writer, "process_virtual_memory_bytes", process->virtual_bytes,
			  "Virtual memory size in bytes.");
	if (process->virtual_limit >= 0)
		gauge(writer, "process_virtual_memory_max_bytes", process->virtual_limit,
			  "Maximum amount of virtual memory available in bytes.");
	if (process->resident_bytes >= 0)
		gauge(writer, "process_resident_memory_bytes", process->resident_bytes,
			  "Resident memory size in bytes.");
	if (process->threads >= 0)
		gauge(writer, "process_threads", process->threads,
			  "Number of OS threads in the process.");
	if (process->start_time_ns > 0)
	{
		open_family(writer, "process_start_time_seconds", FAMILY_GAUGE,
					"Start time of the process since unix epoch in seconds.");
		sample_seconds(writer, process->start_time_ns);
	}
}

void
metrics_render(Text *text, TextFormat format, const MetricsContext *context,
			   const Snapshot *snapshot)
{
	Writer writer = { text, format, NULL };

	render_collection(&writer, snapshot != NULL);
	if (snapshot != NULL)
		render_snapshot(&writer, context, snapshot);
	render_maintenance(&writer);
	render_http(&writer, context->version);
	render_process(&writer, context->process);
}

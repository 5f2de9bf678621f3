/*
 * status.c
 *		What the collector knows about itself.
 */
#include "status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef atomic_int_least64_t Counter;

const double duration_bounds[DURATION_BUCKETS - 1] = {
	0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10
};

static atomic_bool leads;
static atomic_bool database_up;
static atomic_bool last_collection_succeeded;
static Counter lease_acquisitions;
static Counter lease_losses[LOSS_COUNT];
static Counter collections;
static Counter failures[FAILURE_COUNT];
static Counter duration_buckets[OUTCOME_COUNT][DURATION_BUCKETS];
static Counter duration_sums[OUTCOME_COUNT];
static Counter maintenance_batches[MAINTENANCE_COUNT];
static Counter maintenance_rows[MAINTENANCE_COUNT];
static Counter maintenance_failures[MAINTENANCE_COUNT];
static Counter http_requests[HANDLER_COUNT][CODE_COUNT];
static Counter http_connections;
static Counter http_closed[CLOSED_COUNT];

/* message_lock guards message. */
static pthread_mutex_t message_lock = PTHREAD_MUTEX_INITIALIZER;
static char message[256];

static void
add(Counter *counter, int64_t amount)
{
	atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static int64_t
get(Counter *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void
observe(DurationOutcome outcome, int64_t duration_ns)
{
	int bucket = 0;

	while (bucket < DURATION_BUCKETS - 1 &&
		   (double) duration_ns / 1e9 > duration_bounds[bucket])
		bucket++;
	add(&duration_buckets[outcome][bucket], 1);
	add(&duration_sums[outcome], duration_ns);
}

void
status_lease_acquired(void)
{
	atomic_store(&leads, true);
	add(&lease_acquisitions, 1);
}

void
status_lease_lost(LossReason reason)
{
	atomic_store(&leads, false);
	add(&lease_losses[reason], 1);
}

void
status_set_database_up(bool up)
{
	atomic_store(&database_up, up);
}

void
status_set_message(const char *text)
{
	pthread_mutex_lock(&message_lock);
	snprintf(message, sizeof(message), "%s", text);
	pthread_mutex_unlock(&message_lock);
}

void
status_get_message(char *buffer, int size)
{
	pthread_mutex_lock(&message_lock);
	snprintf(buffer, (size_t) size, "%s", message);
	pthread_mutex_unlock(&message_lock);
}

void
status_collection_succeeded(int64_t duration_ns)
{
	atomic_store(&last_collection_succeeded, true);
	add(&collections, 1);
	observe(OUTCOME_SUCCESS, duration_ns);
}

void
status_collection_failed(FailureReason reason, int64_t duration_ns)
{
	atomic_store(&last_collection_succeeded, false);
	add(&collections, 1);
	add(&failures[reason], 1);
	observe(OUTCOME_FAILURE, duration_ns);
}

void
status_attempt_failed(FailureReason reason)
{
	add(&failures[reason], 1);
}

void
status_maintenance_batch(MaintenanceTask task, int64_t rows)
{
	add(&maintenance_batches[task], 1);
	add(&maintenance_rows[task], rows);
}

void
status_maintenance_failed(MaintenanceTask task)
{
	add(&maintenance_failures[task], 1);
}

void
status_http_request(HttpHandler handler, HttpCode code)
{
	add(&http_requests[handler][code], 1);
}

void
status_http_connection_opened(void)
{
	add(&http_connections, 1);
}

void
status_http_connection_closed(ClosedReason reason, bool counted_open)
{
	if (counted_open)
		add(&http_connections, -1);
	add(&http_closed[reason], 1);
}

const char *
status_loss_name(LossReason reason)
{
	static const char *const names[LOSS_COUNT] = {
		[LOSS_CONNECTION] = "connection",
		[LOSS_REFRESH] = "refresh",
		[LOSS_LOCK] = "lock",
		[LOSS_RECOVERY] = "recovery",
		[LOSS_FENCE] = "fence",
		[LOSS_SHUTDOWN] = "shutdown"
	};

	return names[reason];
}

const char *
status_failure_name(FailureReason reason)
{
	static const char *const names[FAILURE_COUNT] = {
		[FAILURE_CONNECTION] = "connection",
		[FAILURE_TIMEOUT] = "timeout",
		[FAILURE_PERMISSION] = "permission",
		[FAILURE_SCHEMA] = "schema",
		[FAILURE_NEGATIVE_COUNT] = "negative_count",
		[FAILURE_RESOURCE] = "resource",
		[FAILURE_OTHER] = "other"
	};

	return names[reason];
}

/* As the function is called that the task calls. */
const char *
status_task_name(MaintenanceTask task)
{
	static const char *const names[MAINTENANCE_COUNT] = {
		[MAINTENANCE_EXPIRE] = "expire_messages",
		[MAINTENANCE_DEAD_LETTER] = "dead_letter_exhausted",
		[MAINTENANCE_PURGE] = "purge_dead_letters",
		[MAINTENANCE_FORGET] = "forget_processed"
	};

	return names[task];
}

bool
status_leads(void)
{
	return atomic_load(&leads);
}

bool
status_database_up(void)
{
	return atomic_load(&database_up);
}

bool
status_last_collection_succeeded(void)
{
	return atomic_load(&last_collection_succeeded);
}

int64_t
status_lease_acquisitions(void)
{
	return get(&lease_acquisitions);
}

int64_t
status_lease_losses(LossReason reason)
{
	return get(&lease_losses[reason]);
}

int64_t
status_collections(void)
{
	return get(&collections);
}

int64_t
status_collection_failures(FailureReason reason)
{
	return get(&failures[reason]);
}

int64_t
status_maintenance_batches(MaintenanceTask task)
{
	return get(&maintenance_batches[task]);
}

int64_t
status_maintenance_rows(MaintenanceTask task)
{
	return get(&maintenance_rows[task]);
}

int64_t
status_maintenance_failures(MaintenanceTask task)
{
	return get(&maintenance_failures[task]);
}

int64_t
status_http_requests(HttpHandler handler, HttpCode code)
{
	return get(&http_requests[handler][code]);
}

int64_t
status_http_connections(void)
{
	return get(&http_connections);
}

int64_t
status_http_closed(ClosedReason reason)
{
	return get(&http_closed[reason]);
}

void
status_durations(DurationOutcome outcome, DurationHistogram *histogram)
{
	for (int b = 0; b < DURATION_BUCKETS; b++)
		histogram->buckets[b] = get(&duration_buckets[outcome][b]);
	histogram->sum_ns = get(&duration_sums[outcome]);
}

static void
clear(Counter *counters, int count)
{
	for (int i = 0; i < count; i++)
		atomic_store(&counters[i], 0);
}

void
status_reset(void)
{
	atomic_store(&leads, false);
	atomic_store(&database_up, false);
	atomic_store(&last_collection_succeeded, false);
	clear(&lease_acquisitions, 1);
	clear(lease_losses, LOSS_COUNT);
	clear(&collections, 1);
	clear(failures, FAILURE_COUNT);
	for (int o = 0; o < OUTCOME_COUNT; o++)
		clear(duration_buckets[o], DURATION_BUCKETS);
	clear(duration_sums, OUTCOME_COUNT);
	clear(maintenance_batches, MAINTENANCE_COUNT);
	clear(maintenance_rows, MAINTENANCE_COUNT);
	clear(maintenance_failures, MAINTENANCE_COUNT);
	for (int h = 0; h < HANDLER_COUNT; h++)
		clear(http_requests[h], CODE_COUNT);
	clear(&http_connections, 1);
	clear(http_closed, CLOSED_COUNT);
	status_set_message("");
}

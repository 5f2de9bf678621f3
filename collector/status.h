/*
 * status.h
 *		What the collector knows about itself: counters and flags that every
 *		replica exports, leader or standby.
 *
 * Any thread may call any of these at any time.  No lock: each value is a C11
 * atomic of its own, changed and read with relaxed order, because a scrape needs
 * no more than that each single value is right.  What must be consistent within
 * one scrape is derived at reading (a histogram's count is the sum of its
 * buckets).  Nothing here allocates or can fail.
 *
 * With snapshot.h this is the only header both halves of the collector include.
 */
#ifndef RETSU_STATUS_H
#define RETSU_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Why a lease was lost: label reason of queue_state_collector_lease_losses_total */
typedef enum LossReason
{
	LOSS_CONNECTION, /* backend killed, server gone, link broken */
	LOSS_REFRESH,	 /* a refresh failed */
	LOSS_LOCK,		 /* the session no longer holds the lock */
	LOSS_RECOVERY,	 /* the server has become a standby server */
	LOSS_FENCE,		 /* no good round trip within the fence */
	LOSS_SHUTDOWN,	 /* given back at the end of the process */
	LOSS_COUNT
} LossReason;

/* Why a collection failed: label reason of queue_state_collection_failures_total */
typedef enum FailureReason
{
	FAILURE_CONNECTION,
	FAILURE_TIMEOUT,
	FAILURE_PERMISSION,
	FAILURE_SCHEMA,
	FAILURE_NEGATIVE_COUNT,
	FAILURE_RESOURCE,
	FAILURE_OTHER,
	FAILURE_COUNT
} FailureReason;

/* The maintenance thread's tasks: label task of queue_state_maintenance_*. */
typedef enum MaintenanceTask
{
	MAINTENANCE_EXPIRE,		 /* expire_messages() */
	MAINTENANCE_DEAD_LETTER, /* dead_letter_exhausted() */
	MAINTENANCE_PURGE,		 /* purge_dead_letters() */
	MAINTENANCE_FORGET,		 /* forget_processed() */
	MAINTENANCE_COUNT
} MaintenanceTask;

/* label handler of retsu_collector_http_requests_total */
typedef enum HttpHandler
{
	HANDLER_METRICS,
	HANDLER_LIVE,
	HANDLER_READY,
	HANDLER_STATUS,
	HANDLER_SNAPSHOT,
	HANDLER_OTHER, /* no such page */
	HANDLER_COUNT
} HttpHandler;

/* label code of retsu_collector_http_requests_total */
typedef enum HttpCode
{
	CODE_200,
	CODE_404,
	CODE_405,
	CODE_503,
	CODE_COUNT
} HttpCode;

/* label reason of retsu_collector_http_connections_closed_total */
typedef enum ClosedReason
{
	CLOSED_PEER,			 /* by the client, or after its last answer */
	CLOSED_IDLE,			 /* kept alive and unused, made room for another */
	CLOSED_HEADER_TIMEOUT,	 /* the request did not come in time */
	CLOSED_REQUEST_TIMEOUT,	 /* the answer was not taken in time */
	CLOSED_CONNECTION_LIMIT, /* refused: --web.max-connections */
	CLOSED_ADDRESS_LIMIT,	 /* refused: --web.max-connections-per-ip */
	CLOSED_SHUTDOWN,
	CLOSED_COUNT
} ClosedReason;

/* Bounds of queue_state_collection_duration_seconds; the last is +Inf. */
#define DURATION_BUCKETS 12
extern const double duration_bounds[DURATION_BUCKETS - 1];

typedef enum DurationOutcome
{
	OUTCOME_SUCCESS,
	OUTCOME_FAILURE,
	OUTCOME_COUNT
} DurationOutcome;

/* --- written by the collecting half --- */

/*
 * The lease was taken, or lost.  Losing: call snapshot_withdraw() first.  (The
 * exported queue_state_collector_leader follows the snapshot, not this, so that
 * it can never contradict the series beside it; /health/ready and the status
 * page say "leader, no snapshot yet" from this.)
 */
extern void status_lease_acquired(void);
extern void status_lease_lost(LossReason reason);

/* Whether the last attempt to talk to the database succeeded; false at start. */
extern void status_set_database_up(bool up);

/*
 * A short text for people on the status page: why this replica does not lead,
 * or what went wrong last ("" for nothing).  Copied and cut at 255 bytes; must
 * not contain connection settings.  Guarded by a mutex of its own.
 */
extern void status_set_message(const char *message);
extern void status_get_message(char *buffer, int size);

/*
 * A collection ended: a reading was asked for and was published, or failed for
 * this reason.  Both count in queue_state_collections_total and the histogram.
 * The clock starts when the refresh starts (before the fold).
 */
extern void status_collection_succeeded(int64_t duration_ns);
extern void status_collection_failed(FailureReason reason, int64_t duration_ns);

/*
 * An attempt to become able to collect failed (connect, version or permission
 * check): counts in queue_state_collection_failures_total alone.
 */
extern void status_attempt_failed(FailureReason reason);

/*
 * One maintenance batch ended: rows it changed; or a task failed.
 */
extern void status_maintenance_batch(MaintenanceTask task, int64_t rows);
extern void status_maintenance_failed(MaintenanceTask task);

/* --- written by the serving half --- */

extern void status_http_request(HttpHandler handler, HttpCode code);
extern void status_http_connection_opened(void);

/* counted_open: whether status_http_connection_opened() was called for it. */
extern void status_http_connection_closed(ClosedReason reason, bool counted_open);

/* --- names: label values, and what the log calls them --- */

extern const char *status_loss_name(LossReason reason);
extern const char *status_failure_name(FailureReason reason);
extern const char *status_task_name(MaintenanceTask task);

/* --- reading, for metrics, the status page and readiness --- */

extern bool status_leads(void);
extern bool status_database_up(void);
extern bool status_last_collection_succeeded(void);
extern int64_t status_lease_acquisitions(void);
extern int64_t status_lease_losses(LossReason reason);
extern int64_t status_collections(void);
extern int64_t status_collection_failures(FailureReason reason);
extern int64_t status_maintenance_batches(MaintenanceTask task);
extern int64_t status_maintenance_rows(MaintenanceTask task);
extern int64_t status_maintenance_failures(MaintenanceTask task);
extern int64_t status_http_requests(HttpHandler handler, HttpCode code);
extern int64_t status_http_connections(void);
extern int64_t status_http_closed(ClosedReason reason);

/*
 * One histogram: observations per bucket, not cumulative, and the sum of all.
 */
typedef struct DurationHistogram
{
	int64_t buckets[DURATION_BUCKETS];
	int64_t sum_ns;
} DurationHistogram;

extern void status_durations(DurationOutcome outcome, DurationHistogram *histogram);

/* Back to the state of a fresh process; for tests only. */
extern void status_reset(void);

#endif /* RETSU_STATUS_H */

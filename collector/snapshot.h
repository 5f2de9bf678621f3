/*
 * snapshot.h
 *		One immutable reading of everything the collector exports.
 *
 * This header and status.h are the only place where the collecting half (which
 * knows libpq) and the serving half (which knows libmicrohttpd) meet.  It
 * includes neither library's header, and must not.
 *
 * Life of a snapshot:
 *
 *	1. The collecting thread calls snapshot_begin(), snapshot_add() for each row
 *	   in ascending order of queue_id, then snapshot_finish().  No lock is held;
 *	   nobody else can see the snapshot yet.  All text is rendered and deflated
 *	   in snapshot_finish(), once.
 *	2. snapshot_publish() swaps the current pointer under the write lock.  The
 *	   lock is held for a pointer assignment, never for rendering, I/O or free().
 *	3. Request handlers call snapshot_acquire(), which under the read lock
 *	   checks the fence, copies the pointer and takes a reference.  From then on
 *	   the snapshot is theirs until snapshot_release(), whatever is published or
 *	   withdrawn meanwhile.  Whoever drops the last reference frees it.
 *
 * What guards what: one pthread rwlock guards the current pointer and the fence
 * deadline that belongs to it.  The reference count is a C11 atomic.  Everything
 * else in a snapshot is written before publication and never again.
 *
 * All times are CLOCK_BOOTTIME in nanoseconds unless the name says wall: only
 * that clock goes on through suspend and SIGSTOP, and never jumps.
 */
#ifndef RETSU_SNAPSHOT_H
#define RETSU_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Snapshot Snapshot;
typedef struct Totals Totals;

typedef enum SnapshotPriority
{
	PRIORITY_HIGH,
	PRIORITY_MEDIUM,
	PRIORITY_LOW,
	PRIORITY_COUNT
} SnapshotPriority;

/* State counts, in the order of the columns of queue_state.snapshot(). */
typedef enum SnapshotCounter
{
	COUNTER_READY,
	COUNTER_IN_FLIGHT,
	COUNTER_DELAYED,
	COUNTER_EXHAUSTED,
	COUNTER_EXPIRED_BACKLOG,
	COUNTER_ELAPSED_BACKLOG,
	COUNTER_DEAD_LETTERS,
	COUNTER_COUNT
} SnapshotCounter;

typedef enum SnapshotAge
{
	AGE_OLDEST_READY,
	AGE_OLDEST_IN_FLIGHT,
	AGE_COUNT
} SnapshotAge;

/* Event totals, in the order of the columns of queue_state.snapshot(). */
typedef enum SnapshotTotal
{
	TOTAL_ENQUEUED,
	TOTAL_DELIVERED,
	TOTAL_ACKNOWLEDGED,
	TOTAL_EXPIRED_NEVER_DELIVERED,
	TOTAL_EXPIRED_PREVIOUSLY_DELIVERED,
	TOTAL_DEAD_LETTERED,
	TOTAL_DEAD_LETTER_PURGED,
	TOTAL_DEAD_LETTER_REDRIVEN,
	TOTAL_COUNT
} SnapshotTotal;

/*
 * The columns of queue_state.snapshot() by position, for whoever reads a result:
 * column 0 is queue_id, 1 queue_name, 2 priority, then the arrays in order.
 */
enum
{
	SNAPSHOT_COLUMN_COUNTERS = 3,
	SNAPSHOT_COLUMN_AGES = SNAPSHOT_COLUMN_COUNTERS + COUNTER_COUNT,
	SNAPSHOT_COLUMN_TOTALS = SNAPSHOT_COLUMN_AGES + AGE_COUNT,
	SNAPSHOT_COLUMNS = SNAPSHOT_COLUMN_TOTALS + TOTAL_COUNT
};

/* One row of queue_state.snapshot(): one queue and priority. */
typedef struct SnapshotRow
{
	int32_t queue_id;
	SnapshotPriority priority;
	int64_t counters[COUNTER_COUNT];
	double ages[AGE_COUNT]; /* seconds as of the snapshot */
	int64_t totals[TOTAL_COUNT];
} SnapshotRow;

/* What is known about the reading as a whole. */
typedef struct SnapshotInfo
{
	int64_t sent_boottime_ns;	   /* when the query was sent, see above */
	int64_t wall_time_us;		   /* wall clock of the reading, since the epoch */
	int64_t pending_rows;		   /* rows not folded yet; -1 if not read */
	int64_t drift;				   /* rows of the last verify(); -1 if never run */
	const char *extension_version; /* copied */
} SnapshotInfo;

/* Why a snapshot was refused; the whole of it is, never a single row. */
typedef enum SnapshotResult
{
	SNAPSHOT_OK,
	SNAPSHOT_NEGATIVE,	/* a negative count, total or age, or NaN */
	SNAPSHOT_MALFORMED, /* order, duplicate or missing priorities */
	SNAPSHOT_NO_MEMORY
} SnapshotResult;

/*
 * "HIGH", "MEDIUM", "LOW", as the database and the labels spell them.  The
 * reverse returns false for anything else.
 */
extern const char *snapshot_priority_name(SnapshotPriority priority);
extern bool snapshot_priority_parse(const char *name, SnapshotPriority *priority);

/*
 * The event totals exported so far, owned by the collecting thread alone (no
 * lock).  snapshot_finish() raises a total that is lower than what was exported
 * before (a restore, a lossy failover) to the old value, because Prometheus
 * would take the step down for a reset and add the whole counter again.  A queue
 * is known by its queue_id, so one that was dropped and made again under the
 * same name starts at 0.  Keep one Totals for the life of the process, also
 * while not leading.  Returns NULL when out of memory.
 */
extern Totals *totals_create(void);
extern void totals_free(Totals *totals);

/* How many times a total was seen to go down since the process started. */
extern int64_t totals_regressions(const Totals *totals);

/*
 * Build.  At most max_queues queues are kept, those with the lowest queue_id
 * (the oldest); the rest are counted as dropped, cost no memory, and their rows
 * may simply be added as well.  snapshot_begin() returns NULL when out of memory.
 *
 * Rows come in ascending queue_id, each queue with all three priorities in
 * any order.  queue_name is copied.  After anything but SNAPSHOT_OK only
 * snapshot_release() may follow.
 */
extern Snapshot *snapshot_begin(int64_t max_queues);
extern SnapshotResult snapshot_add(Snapshot *snapshot, const char *queue_name,
								   const SnapshotRow *row);
extern SnapshotResult snapshot_finish(Snapshot *snapshot,
									  const SnapshotInfo *info, Totals *totals);

/*
 * Make a finished snapshot the current one; takes over the caller's reference.
 * It is served until deadline_ns (CLOCK_BOOTTIME), normally info.sent_boottime_ns
 * plus --lease.fence, or plus --collector.snapshot-max-age without a lease.
 */
extern void snapshot_publish(Snapshot *snapshot, int64_t deadline_ns);

/*
 * A later round trip proved that the lease is still held: serve the current
 * snapshot until deadline_ns.  Never brings a withdrawn snapshot back, never
 * moves the deadline backwards.
 */
extern void snapshot_extend(int64_t deadline_ns);

/*
 * Stop serving queue series, at once: every request whose handler starts after
 * this returns is answered as a standby.  Does nothing if there is no snapshot.
 */
extern void snapshot_withdraw(void);

/*
 * For request handlers.  Returns the current snapshot with a reference taken, or
 * NULL if there is none or its deadline has passed at now_ns.
 */
extern Snapshot *snapshot_acquire(int64_t now_ns);

/*
 * True while there is a snapshot within its deadline.  Takes no reference.
 */
extern bool snapshot_is_served(int64_t now_ns);

extern void snapshot_reference(Snapshot *snapshot);
extern void snapshot_release(Snapshot *snapshot); /* NULL is allowed */

/* Reading a finished snapshot. */
extern const SnapshotInfo *snapshot_info(const Snapshot *snapshot);
extern int64_t snapshot_queues(const Snapshot *snapshot);
extern int64_t snapshot_queues_dropped(const Snapshot *snapshot);
extern int64_t snapshot_regressions(const Snapshot *snapshot);
extern const char *snapshot_queue_name(const Snapshot *snapshot, int64_t queue);
extern const SnapshotRow *snapshot_row(const Snapshot *snapshot, int64_t queue,
									   SnapshotPriority priority);

/* CLOCK_BOOTTIME in nanoseconds. */
extern int64_t boottime_ns(void);

#endif /* RETSU_SNAPSHOT_H */

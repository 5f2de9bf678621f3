/*
 * serve_snapshot.c
 *		The serving half of retsu-collector, with made-up queues and no database.
 *
 * For bench/scrape: everything a scrape touches is the collector's own code; only
 * what the collecting half would read from the database is invented here, with
 * numbers as long as those of a busy system.
 *
 *	serve_snapshot ADDRESS QUEUES REFRESH_SECONDS
 *
 * Prints the address on standard output once it listens, then a line for each
 * refresh: how long building, rendering and publishing took, in milliseconds.
 * Ends on SIGTERM or SIGINT.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http.h"
#include "log.h"
#include "snapshot.h"
#include "status.h"

#define SECOND INT64_C(1000000000)

static bool
refresh(int64_t queues, int64_t round, Totals *totals)
{
	int64_t start_ns = boottime_ns();
	Snapshot *snapshot = snapshot_begin(queues);
	SnapshotInfo info = {
		.sent_boottime_ns = start_ns,
		.wall_time_us = (int64_t) time(NULL) * 1000000,
		.pending_rows = 17,
		.drift = 0,
		.extension_version = "1.0"
	};
	SnapshotResult result = SNAPSHOT_OK;

	if (snapshot == NULL)
		return false;
	for (int64_t q = 0; q < queues && result == SNAPSHOT_OK; q++)
	{
		char name[32];

		snprintf(name, sizeof(name), "queue-%06lld", (long long) q);
		for (int p = 0; p < PRIORITY_COUNT && result == SNAPSHOT_OK; p++)
		{
			SnapshotRow row = { .queue_id = (int32_t) q + 1, .priority = (SnapshotPriority) p };

			for (int c = 0; c < COUNTER_COUNT; c++)
				row.counters[c] = (q * 7919 + p * 31 + c * 17 + round) % 5000;
			for (int a = 0; a < AGE_COUNT; a++)
				row.ages[a] = (double) ((q * 104729 + p + a + round * 1000003) % 90000000) / 1e6;
			for (int t = 0; t < TOTAL_COUNT; t++)
				row.totals[t] = (q * 15485863 + p * 1009 + t) % 100000000 + round * 100;
			result = snapshot_add(snapshot, name, &row);
		}
	}
	if (result == SNAPSHOT_OK)
		result = snapshot_finish(snapshot, &info, totals);
	if (result != SNAPSHOT_OK)
	{
		snapshot_release(snapshot);
		return false;
	}
	snapshot_publish(snapshot, boottime_ns() + 3600 * SECOND);
	status_collection_succeeded(boottime_ns() - start_ns);
	printf("refresh %.3f\n", (double) (boottime_ns() - start_ns) / 1e6);
	fflush(stdout);
	return true;
}

int
main(int argc, char **argv)
{
	const char *addresses[1];
	HttpOptions options = {
		.listen_addresses = addresses,
		.listen_address_count = 1,
		.enable_openmetrics = true,
		.max_connections = 512,
		.max_connections_per_ip = 512,
		.header_timeout_ns = 10 * SECOND,
		.request_timeout_ns = 30 * SECOND,
		.version = "1.0",
		.instance = "bench"
	};
	char error[512];
	sigset_t signals;
	Totals *totals = totals_create();
	int64_t queues;
	long seconds;

	if (argc != 4 || totals == NULL)
	{
		fprintf(stderr, "usage: serve_snapshot ADDRESS QUEUES REFRESH_SECONDS\n");
		return 64;
	}
	addresses[0] = argv[1];
	queues = strtoll(argv[2], NULL, 10);
	seconds = strtol(argv[3], NULL, 10);

	/* as main.c does */
	mallopt(M_MMAP_THRESHOLD, 2 * 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
	mallopt(M_ARENA_MAX, 2);

	/* before the first thread, which inherits it */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	log_start(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT, "bench");

	if (http_start(&options, error, sizeof(error)) != HTTP_OK)
	{
		fprintf(stderr, "%s\n", error);
		return 69;
	}
	status_set_database_up(true);
	status_lease_acquired();
	if (!refresh(queues, 0, totals))
		return 71;
	printf("listening %s\n", http_address(0));
	fflush(stdout);
	for (int64_t round = 1;; round++)
	{
		struct timespec wait = { .tv_sec = seconds > 0 ? seconds : 3600 };

		if (sigtimedwait(&signals, NULL, &wait) > 0)
			break;
		if (seconds > 0 && !refresh(queues, round, totals))
			return 71;
	}
	http_stop(boottime_ns() + 5 * SECOND);
	snapshot_withdraw();
	totals_free(totals);
	return 0;
}

/*
 * status_test.c
 *	  The collector's own counters, also from many threads.
 */
#include "tap.h"

#include <pthread.h>
#include <stdlib.h>

#include "metrics.h"
#include "status.h"

static int64_t
observations(DurationOutcome outcome, int bucket)
{
	DurationHistogram histogram;

	status_durations(outcome, &histogram);
	return histogram.buckets[bucket];
}

static void *
count(void *argument)
{
	(void) argument;
	for (int i = 0; i < 10000; i++)
	{
		status_http_request(HANDLER_METRICS, CODE_200);
		status_collection_succeeded(1000000);
		status_set_message("something");
	}
	return NULL;
}

int
main(void)
{
	DurationHistogram histogram;
	pthread_t threads[4];
	char message[16];
	char long_message[600];

	status_collection_succeeded(INT64_C(5000000));
	is_int(observations(OUTCOME_SUCCESS, 0), 1, "a bound belongs to its bucket");
	status_collection_succeeded(INT64_C(5000001));
	is_int(observations(OUTCOME_SUCCESS, 1), 1, "a bit more to the next");
	status_collection_failed(FAILURE_TIMEOUT, INT64_C(11000000000));
	is_int(observations(OUTCOME_FAILURE, DURATION_BUCKETS - 1), 1, "the last has no bound");
	status_durations(OUTCOME_FAILURE, &histogram);
	is_int(histogram.sum_ns, INT64_C(11000000000), "the sum");
	is_int(status_collections(), 3, "all were collections");
	is_int(status_collection_failures(FAILURE_TIMEOUT), 1, "one failed");
	ok(!status_last_collection_succeeded(), "the last one did");
	status_attempt_failed(FAILURE_PERMISSION);
	is_int(status_collections(), 3, "an attempt is no collection");
	is_int(status_collection_failures(FAILURE_PERMISSION), 1, "but a failure");

	ok(!status_leads(), "no leader at first");
	status_lease_acquired();
	ok(status_leads(), "then one");
	status_lease_lost(LOSS_FENCE);
	ok(!status_leads(), "then not");
	is_int(status_lease_losses(LOSS_FENCE), 1, "and why");

	memset(long_message, 'x', sizeof(long_message) - 1);
	long_message[sizeof(long_message) - 1] = '\0';
	status_set_message(long_message);
	status_get_message(message, sizeof(message));
	is_text(message, "xxxxxxxxxxxxxxx", "a long message is cut");

	status_reset();
	for (int i = 0; i < 4; i++)
	{
		if (pthread_create(&threads[i], NULL, count, NULL) != 0)
			abort();
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	is_int(status_http_requests(HANDLER_METRICS, CODE_200), 40000, "nothing is lost between threads");
	is_int(status_collections(), 40000, "of collections either");

	for (int h = 0; h < HANDLER_COUNT; h++)
		ok(h == HANDLER_OTHER || metrics_request_possible(h, CODE_200),
		   "every page can succeed");
	ok(!metrics_request_possible(HANDLER_LIVE, CODE_503), "the liveness page cannot fail");
	return tap_done();
}

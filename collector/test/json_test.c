/*
 * json_test.c
 *	  The snapshot as JSON, byte by byte.
 */
#include "tap.h"

#include <stdlib.h>

#include "json.h"
#include "sample.h"

static const char *
quoted(const char *value)
{
	Text text = TEXT_EMPTY;
	const char *result;

	json_string(&text, value);
	result = sample_string(&text);
	text_free(&text);
	return result;
}

int
main(void)
{
	static const char expected[] =
		"{\"extension_version\":\"1.0\",\"timestamp_seconds\":1700000000.123456,"
		"\"age_seconds\":2.5,\"queues\":1,\"queues_dropped\":1,\"pending_rows\":3,"
		"\"drift\":null,\"event_regressions\":0,\"rows\":[\n"
		"{\"queue_id\":4,\"queue_name\":\"ma\\\"il\",\"priority\":\"HIGH\",\"ready\":0,"
		"\"in_flight\":1,\"delayed\":2,\"exhausted\":3,\"expired_backlog\":4,"
		"\"elapsed_backlog\":5,\"dead_letters\":6,\"oldest_ready_age_seconds\":0,"
		"\"oldest_in_flight_age_seconds\":0.10000000000000001,\"enqueued_total\":0,"
		"\"delivered_total\":1,\"acknowledged_total\":2,\"expired_never_delivered_total\":3,"
		"\"expired_previously_delivered_total\":4,\"dead_lettered_total\":5,"
		"\"dead_letter_purged_total\":6,\"dead_letter_redriven_total\":7},\n"
		"{\"queue_id\":4,\"queue_name\":\"ma\\\"il\",\"priority\":\"MEDIUM\",\"ready\":100,"
		"\"in_flight\":101,\"delayed\":102,\"exhausted\":103,\"expired_backlog\":104,"
		"\"elapsed_backlog\":105,\"dead_letters\":106,\"oldest_ready_age_seconds\":1,"
		"\"oldest_in_flight_age_seconds\":1.1000000000000001,\"enqueued_total\":1000,"
		"\"delivered_total\":1001,\"acknowledged_total\":1002,\"expired_never_delivered_total\":1003,"
		"\"expired_previously_delivered_total\":1004,\"dead_lettered_total\":1005,"
		"\"dead_letter_purged_total\":1006,\"dead_letter_redriven_total\":1007},\n"
		"{\"queue_id\":4,\"queue_name\":\"ma\\\"il\",\"priority\":\"LOW\",\"ready\":200,"
		"\"in_flight\":201,\"delayed\":202,\"exhausted\":203,\"expired_backlog\":204,"
		"\"elapsed_backlog\":205,\"dead_letters\":206,\"oldest_ready_age_seconds\":2,"
		"\"oldest_in_flight_age_seconds\":2.1000000000000001,\"enqueued_total\":2000,"
		"\"delivered_total\":2001,\"acknowledged_total\":2002,\"expired_never_delivered_total\":2003,"
		"\"expired_previously_delivered_total\":2004,\"dead_lettered_total\":2005,"
		"\"dead_letter_purged_total\":2006,\"dead_letter_redriven_total\":2007}\n"
		"]}\n";
	Totals *totals = totals_create();
	Snapshot *snapshot = snapshot_begin(1);
	Text text = TEXT_EMPTY;

	is_text(quoted(""), "\"\"", "an empty string");
	is_text(quoted("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"", "quote and backslash");
	is_text(quoted("\n\t\x01\x1f\x7f"), "\"\\u000a\\u0009\\u0001\\u001f\x7f\"",
			"control characters");
	is_text(quoted("\xC3\xBC\xFF\xE2\x82"), "\"\xC3\xBC\xEF\xBF\xBD\xEF\xBF\xBD\"",
			"what is not UTF-8");

	sample_queue(snapshot, 4, "ma\"il", 0);
	sample_queue(snapshot, 5, "dropped", 0);
	if (snapshot_finish(snapshot, &sample_info, totals) != SNAPSHOT_OK)
		abort();
	json_open(&text, snapshot, INT64_C(102500000000));
	json_queue(&text, snapshot, 0);
	json_close(&text);
	is_text(sample_string(&text), expected, "a whole document");
	text_free(&text);
	snapshot_release(snapshot);
	totals_free(totals);
	return tap_done();
}

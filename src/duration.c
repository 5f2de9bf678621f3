/*-------------------------------------------------------------------------
 *
 * duration.c
 *	  Intervals given by users; see duration.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "duration.h"

static const Interval no_time = { 0 };
static const Interval one_second = { .time = USECS_PER_SEC };
static const Interval twelve_hours = { .time = 12 * USECS_PER_HOUR };
static const Interval thirty_days = { .day = 30 };

/* Compared as SQL does: a month is 30 days, a day is 24 hours. */
static int
compare(const Interval *a, const Interval *b)
{
	return DatumGetInt32(DirectFunctionCall2(interval_cmp,
											 IntervalPGetDatum(a),
											 IntervalPGetDatum(b)));
}

static char *
interval_text(const Interval *interval)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(interval)));
}

void
qs_check_visibility_timeout(const Interval *interval)
{
	if (compare(interval, &one_second) < 0 ||
		compare(interval, &twelve_hours) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("visibility timeout is out of range"),
				 errdetail("It is \"%s\"; the bounds are 1 second and 12 hours.",
						   interval_text(interval)),
				 errhint("Work that takes longer can call extend_lease() while it goes on.")));
}

void
qs_check_ttl(const Interval *interval)
{
	if (compare(interval, &one_second) < 0 ||
		compare(interval, &thirty_days) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time to live is out of range"),
				 errdetail("It is \"%s\"; the bounds are 1 second and 30 days.",
						   interval_text(interval)),
				 errhint("Leave the time to live out to use the queue's default.")));
}

bool
qs_check_delay(const Interval *interval)
{
	int sign = compare(interval, &no_time);

	if (sign < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay must not be negative"),
				 errdetail("It is \"%s\".", interval_text(interval)),
				 errhint("Leave the delay out for a message that is ready at once.")));
	return sign > 0;
}

TimestampTz
qs_time_after(TimestampTz time, const Interval *interval)
{
	/* without days and months no time zone has a say in it */
	if (interval->month == 0 && interval->day == 0)
	{
		TimestampTz sum;

		if (!pg_add_s64_overflow(time, interval->time, &sum) &&
			IS_VALID_TIMESTAMP(sum))
			return sum;
	}
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												   TimestampTzGetDatum(time),
												   IntervalPGetDatum(interval)));
}

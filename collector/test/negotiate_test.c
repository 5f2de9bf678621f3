/*
 * negotiate_test.c
 *	  Which format and encoding a client gets for what it says.
 */
#include "tap.h"

#include "negotiate.h"

int
main(void)
{
	static const struct
	{
		const char *header;
		bool gzip;
	} encodings[] = {
		{ NULL, false },
		{ "", false },
		{ "gzip", true },
		{ "GZIP", true },
		{ "x-gzip", true },
		{ "gzip, deflate, br", true },
		{ "deflate,gzip;q=0.5", true },
		{ "gzip;q=0", false },
		{ "gzip; q=0.000", false },
		{ "gzip;q=1.000", true },
		{ "gzip;q=2", false },
		{ "gzip;q=", false },
		{ "gzip;q=0.0001", false },
		{ "identity", false },
		{ "*", true },
		{ "*;q=0", false },
		{ "*,gzip;q=0", false },
		{ "gzipped", false },
		{ ",,;;,", false },
		{ "gzip;level=9", true }
	};
	static const struct
	{
		const char *header;
		TextFormat format;
	} formats[] = {
		{ NULL, FORMAT_TEXT },
		{ "", FORMAT_TEXT },
		{ "*/*", FORMAT_TEXT },
		{ "text/plain", FORMAT_TEXT },
		{ "application/openmetrics-text", FORMAT_OPENMETRICS },
		{ "application/openmetrics-text; version=1.0.0; charset=utf-8", FORMAT_OPENMETRICS },
		{ "application/openmetrics-text;version=0.0.1", FORMAT_TEXT },
		{ "application/openmetrics-text;version=1.0.0;q=0.5,"
		  "application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
		  FORMAT_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.9", FORMAT_TEXT },
		{ "application/openmetrics-text;version=1.0.0;q=0.2,*/*", FORMAT_TEXT },
		{ "application/openmetrics-text;q=0.5,text/plain;q=0.5", FORMAT_OPENMETRICS },
		{ "application/openmetrics-text;q=0", FORMAT_TEXT },
		{ "application/openmetrics-text;q=0.1,text/plain;q=0", FORMAT_OPENMETRICS },
		{ "text/html,application/xml;q=0.9,*/*;q=0.8", FORMAT_TEXT }
	};

	for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++)
		ok(negotiate_gzip(encodings[i].header) == encodings[i].gzip, "%s: %s",
		   encodings[i].header == NULL ? "no Accept-Encoding" : encodings[i].header,
		   encodings[i].gzip ? "gzip" : "plain");
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		ok(negotiate_format(formats[i].header) == formats[i].format, "%s: %s",
		   formats[i].header == NULL ? "no Accept" : formats[i].header,
		   formats[i].format == FORMAT_TEXT ? "text" : "OpenMetrics");
	return tap_done();
}

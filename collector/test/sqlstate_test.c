/*
 * sqlstate_test.c
 *	  Each reason has its errors, and a refused connect tells its SQLSTATE.
 */
#include "tap.h"

#include "sqlstate.h"

static void
extracts(const char *text, const char *sqlstate, const char *rest)
{
	char message[512];
	char found[6];

	snprintf(message, sizeof(message), "%s", text);
	sqlstate_extract(message, found);
	is_text(found, sqlstate, "the SQLSTATE");
	is_text(message, rest, "the message without it");
}

int
main(void)
{
	static const struct
	{
		const char *sqlstate;
		FailureReason reason;
	} cases[] = {
		{ "", FAILURE_CONNECTION },
		{ "08006", FAILURE_CONNECTION },
		{ "57P01", FAILURE_CONNECTION }, /* admin_shutdown */
		{ "57P03", FAILURE_CONNECTION }, /* cannot_connect_now */
		{ "57P05", FAILURE_CONNECTION }, /* idle_session_timeout */
		{ "57014", FAILURE_TIMEOUT },
		{ "55P03", FAILURE_TIMEOUT },
		{ "25P03", FAILURE_TIMEOUT },
		{ "42501", FAILURE_PERMISSION },
		{ "28P01", FAILURE_PERMISSION },
		{ "28000", FAILURE_PERMISSION },
		{ "3D000", FAILURE_SCHEMA },
		{ "3F000", FAILURE_SCHEMA },
		{ "42883", FAILURE_SCHEMA },
		{ "42P01", FAILURE_SCHEMA },
		{ "42703", FAILURE_SCHEMA },
		{ "23514", FAILURE_NEGATIVE_COUNT },
		{ "53300", FAILURE_RESOURCE },
		{ "53200", FAILURE_RESOURCE },
		{ "54000", FAILURE_RESOURCE },
		{ "25006", FAILURE_OTHER },
		{ "XX000", FAILURE_OTHER },
		{ "40001", FAILURE_OTHER }
	};
	char line[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(sqlstate_reason(cases[i].sqlstate), cases[i].reason,
			   cases[i].sqlstate[0] != '\0' ? cases[i].sqlstate : "no SQLSTATE");

	extracts("connection to server at \"h\" (127.0.0.1), port 5432 failed: "
			 "FATAL:  28P01: password authentication failed for user \"u\"\n"
			 "LOCATION:  auth_failed, auth.c:326\n",
			 "28P01",
			 "connection to server at \"h\" (127.0.0.1), port 5432 failed: "
			 "FATAL:  password authentication failed for user \"u\"");
	extracts("x failed: FATAL:  3D000: database \"a:  b\" does not exist", "3D000",
			 "x failed: FATAL:  database \"a:  b\" does not exist");
	extracts("connection to server on socket \"/x\" failed: No such file or directory\n",
			 "", "connection to server on socket \"/x\" failed: No such file or directory\n");
	extracts("", "", "");
	extracts("a:  12345", "", "a:  12345");
	extracts("a:  1234: b", "", "a:  1234: b");

	sqlstate_one_line(line, sizeof(line), "one\n\ttwo\n");
	is_text(line, "one  two", "several lines become one");
	sqlstate_one_line(line, sizeof(line), "");
	is_text(line, "", "nothing stays nothing");
	sqlstate_one_line(line, 8, "0123456789");
	is_text(line, "0123456", "a long one is cut");
	return tap_done();
}

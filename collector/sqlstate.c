/*
 * sqlstate.c
 *	  What an error of the server means for the collector.
 */
#include "sqlstate.h"

#include <stdio.h>
#include <string.h>

FailureReason
sqlstate_reason(const char *sqlstate)
{
	static const struct
	{
		const char *prefix;
		FailureReason reason;
	} known[] = {
		{ "57014", FAILURE_TIMEOUT },  /* statement_timeout */
		{ "55P03", FAILURE_TIMEOUT },  /* lock_timeout */
		{ "25P0", FAILURE_TIMEOUT },   /* idle_in_transaction_session_timeout */
		{ "57P", FAILURE_CONNECTION }, /* shutdown, not yet started, idle */
		{ "08", FAILURE_CONNECTION },
		{ "42501", FAILURE_PERMISSION },
		{ "28", FAILURE_PERMISSION },
		{ "3D000", FAILURE_SCHEMA },
		{ "3F000", FAILURE_SCHEMA },
		{ "42", FAILURE_SCHEMA },			 /* undefined or changed objects */
		{ "23514", FAILURE_NEGATIVE_COUNT }, /* how snapshot() reports drift */
		{ "53", FAILURE_RESOURCE },
		{ "54", FAILURE_RESOURCE }
	};

	if (sqlstate[0] == '\0')
		return FAILURE_CONNECTION;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (strncmp(known[i].prefix, sqlstate, strlen(known[i].prefix)) == 0)
			return known[i].reason;
	}
	return FAILURE_OTHER;
}

/*
 * A refused connect gives text only, "...: FATAL:  28P01: password ...".  The
 * severity is translated, the SQLSTATE is not; it is found by its shape.
 */
void
sqlstate_extract(char *message, char *sqlstate)
{
	static const char code[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char *place;

	sqlstate[0] = '\0';
	/* What follows a server's message is its source file and line. */
	place = strstr(message, "\nLOCATION:");
	if (place != NULL)
		*place = '\0';

	for (place = strstr(message, ":  "); place != NULL;
		 place = strstr(place + 1, ":  "))
	{
		char *state = place + 3;

		if (strspn(state, code) == 5 && state[5] == ':' && state[6] == ' ')
		{
			memcpy(sqlstate, state, 5);
			sqlstate[5] = '\0';
			memmove(state, state + 7, strlen(state + 7) + 1);
			return;
		}
	}
}

void
sqlstate_one_line(char *target, size_t size, const char *text)
{
	size_t length;

	snprintf(target, size, "%s", text);
	for (char *c = target; *c != '\0'; c++)
	{
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	}
	length = strlen(target);
	while (length > 0 && target[length - 1] == ' ')
		target[--length] = '\0';
}

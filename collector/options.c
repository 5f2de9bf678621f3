/*
 * options.c
 *	  How flags, environment and file fill the options, and what contradicts.
 */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "option.h"

/* Who set an option; a higher source outranks a lower one. */
enum option_source
{
	SOURCE_DEFAULT,
	SOURCE_FILE,
	SOURCE_ENVIRONMENT,
	SOURCE_FLAG
};

/* The rows of the table before this one make no sense in a file. */
#define FIRST_FILE_ROW 4

/* What one call of options_parse() works on. */
struct parse
{
	struct options *options;
	enum option_source sources[OPTION_COUNT_MAX];
	char *message;
	size_t message_size;
	int status;
};

static void __attribute__((format(printf, 3, 4)))
fail(struct parse *parse, int status, const char *format, ...)
{
	va_list arguments;

	if (parse->status != EXIT_CODE_OK)
		return; /* the first reason is the one to tell */
	parse->status = status;
	va_start(arguments, format);
	vsnprintf(parse->message, parse->message_size, format, arguments);
	va_end(arguments);
}

static void
clear_list(struct option_list *list)
{
	for (int i = 0; i < list->count; i++)
		free(list->values[i]);
	list->count = 0;
}

static char *
copy_text(struct parse *parse, const char *text, size_t length)
{
	char *copy = strndup(text, length);

	if (copy == NULL)
		fail(parse, EXIT_CODE_SYSTEM, "out of memory");
	return copy;
}

static void
set_text(struct parse *parse, char **field, const char *value)
{
	free(*field);
	*field = copy_text(parse, value, strlen(value));
}

/* One or more values separated by commas are added. */
static void
add_to_list(struct parse *parse, struct option_list *list, const char *name,
			const char *value)
{
	while (parse->status == EXIT_CODE_OK)
	{
		size_t length = strcspn(value, ",");

		if (length == 0)
			fail(parse, EXIT_CODE_USAGE, "%s: empty value", name);
		else if (list->count == OPTIONS_MAX_LISTEN)
			fail(parse, EXIT_CODE_USAGE, "%s: at most %d values",
				 name, OPTIONS_MAX_LISTEN);
		else
		{
			char *copy = copy_text(parse, value, length);

			if (copy != NULL)
				list->values[list->count++] = copy;
		}
		if (value[length] == '\0')
			return;
		value += length + 1;
	}
}

static void
set_number(struct parse *parse, const struct option_row *row, int64_t *field,
		   const char *value)
{
	int64_t number;
	char low[32];
	char high[32];

	if (row->type == OPTION_DURATION)
	{
		if (!duration_parse(value, &number))
		{
			fail(parse, EXIT_CODE_USAGE,
				 "%s: \"%s\" is not a duration with a unit, such as 500ms, 15s, 10m, 14d",
				 row->name, value);
			return;
		}
		duration_format(row->minimum, low, sizeof(low));
		duration_format(row->maximum, high, sizeof(high));
	}
	else
	{
		char *end;

		errno = 0;
		number = strtoll(value, &end, 10);
		if (*value < '0' || *value > '9' || *end != '\0' || errno != 0)
		{
			fail(parse, EXIT_CODE_USAGE, "%s: \"%s\" is not a whole number",
				 row->name, value);
			return;
		}
		snprintf(low, sizeof(low), "%lld", (long long) row->minimum);
		snprintf(high, sizeof(high), "%lld", (long long) row->maximum);
	}

	if (number < row->minimum || number > row->maximum)
		fail(parse, EXIT_CODE_USAGE, "%s: must be from %s to %s, not \"%s\"",
			 row->name, low, high, value);
	else
		*field = number;
}

static void
set_choice(struct parse *parse, const struct option_row *row, int64_t *field,
		   const char *value)
{
	char known[64] = "";

	for (int i = 0; row->choices[i] != NULL; i++)
	{
		if (strcmp(row->choices[i], value) == 0)
		{
			*field = i;
			return;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
				 i > 0 ? ", " : "", row->choices[i]);
	}
	fail(parse, EXIT_CODE_USAGE, "%s: must be one of %s, not \"%s\"",
		 row->name, known, value);
}

static void
set_value(struct parse *parse, const struct option_row *row,
		  enum option_source source, const char *value)
{
	size_t index = (size_t) (row - option_rows);
	void *field = (char *) parse->options + row->offset;

	if (source < parse->sources[index])
		return;

	switch (row->type)
	{
		case OPTION_TEXT:
			set_text(parse, field, value);
			break;
		case OPTION_LIST:
			/* A better source replaces the list, the same one adds to it. */
			if (source > parse->sources[index])
				clear_list(field);
			add_to_list(parse, field, row->name, value);
			break;
		case OPTION_BOOL:
			if (strcmp(value, "true") == 0)
				*(bool *) field = true;
			else if (strcmp(value, "false") == 0)
				*(bool *) field = false;
			else
				fail(parse, EXIT_CODE_USAGE,
					 "%s: must be true or false, not \"%s\"", row->name, value);
			break;
		case OPTION_COUNT:
		case OPTION_DURATION:
			set_number(parse, row, field, value);
			break;
		case OPTION_CHOICE:
			set_choice(parse, row, field, value);
			break;
	}
	parse->sources[index] = source;
}

static void
set_defaults(struct parse *parse)
{
	for (const struct option_row *row = option_rows; row->name != NULL; row++)
	{
		if (row->fallback != NULL)
			set_value(parse, row, SOURCE_DEFAULT, row->fallback);
	}
}

static void
parse_flag(struct parse *parse, const char *argument)
{
	const char *name = argument + 2;
	const struct option_row *row;
	size_t length;

	if (strncmp(argument, "--", 2) != 0 || *name == '\0')
	{
		fail(parse, EXIT_CODE_USAGE, "unexpected argument \"%s\"", argument);
		return;
	}

	length = strcspn(name, "=");
	row = option_find(name, length);
	if (row != NULL && name[length] == '=')
		set_value(parse, row, SOURCE_FLAG, name + length + 1);
	else if (row != NULL && row->type == OPTION_BOOL)
		set_value(parse, row, SOURCE_FLAG, "true");
	else if (row != NULL)
		fail(parse, EXIT_CODE_USAGE, "--%s needs a value: --%s=...",
			 row->name, row->name);
	else if (strncmp(name, "no-", 3) == 0 && name[length] == '\0' &&
			 (row = option_find(name + 3, length - 3)) != NULL &&
			 row->type == OPTION_BOOL)
		set_value(parse, row, SOURCE_FLAG, "false");
	else
		/* The value is left out: it may be a mistyped secret. */
		fail(parse, EXIT_CODE_USAGE, "unknown flag \"--%.*s\"; see --help",
			 (int) length, name);
}

/*
 * Kubernetes puts RETSU_COLLECTOR_PORT, RETSU_COLLECTOR_SERVICE_HOST and their
 * like into every container when a service is named retsu-collector.  They are
 * not mistyped options; no option may ever be named so.
 */
static bool
is_service_link(const char *entry)
{
	const char *rest = entry + strlen(ENVIRONMENT_PREFIX);

	return strncmp(rest, "SERVICE_", 8) == 0 || strncmp(rest, "PORT", 4) == 0;
}

static void
parse_environment(struct parse *parse, char **environment)
{
	for (; *environment != NULL; environment++)
	{
		const char *entry = *environment;
		size_t length = strcspn(entry, "=");
		const struct option_row *row;
		char name[80];

		if (strncmp(entry, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0)
			continue;
		for (row = option_rows; row->name != NULL; row++)
		{
			option_environment_name(row, name, sizeof(name));
			if (strlen(name) == length && strncmp(name, entry, length) == 0)
				break;
		}
		if (row->name == NULL && is_service_link(entry))
			continue;
		if (row->name == NULL)
			fail(parse, EXIT_CODE_USAGE,
				 "unknown environment variable %.*s; see --help",
				 (int) length, entry);
		else if (entry[length] == '=')
			set_value(parse, row, SOURCE_ENVIRONMENT, entry + length + 1);
	}
}

static char *
trim(char *text)
{
	char *end;

	text += strspn(text, " \t\r\n");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
		end--;
	*end = '\0';
	return text;
}

static void
parse_file_line(struct parse *parse, char *line, const char *path, int number)
{
	char *text = trim(line);
	char *equals = strchr(text, '=');
	const struct option_row *row;
	char *name;

	if (*text == '\0' || *text == '#')
		return;
	if (equals == NULL)
	{
		fail(parse, EXIT_CODE_CONFIG, "%s:%d: expected \"name = value\"",
			 path, number);
		return;
	}
	*equals = '\0';
	name = trim(text);
	row = option_find(name, strlen(name));
	if (row == NULL || row < &option_rows[FIRST_FILE_ROW])
	{
		fail(parse, EXIT_CODE_CONFIG, "%s:%d: unknown option \"%s\"",
			 path, number, name);
		return;
	}
	set_value(parse, row, SOURCE_FILE, trim(equals + 1));
	if (parse->status == EXIT_CODE_USAGE)
	{
		char reason[256];

		snprintf(reason, sizeof(reason), "%s", parse->message);
		parse->status = EXIT_CODE_OK;
		fail(parse, EXIT_CODE_CONFIG, "%s:%d: %s", path, number, reason);
	}
}

static void
parse_file(struct parse *parse, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (file == NULL)
	{
		fail(parse, EXIT_CODE_CONFIG, "could not open \"%s\": %s",
			 path, strerror(errno));
		return;
	}
	for (int number = 1; getline(&line, &size, file) >= 0; number++)
		parse_file_line(parse, line, path, number);
	if (ferror(file))
		fail(parse, EXIT_CODE_CONFIG, "could not read \"%s\"", path);
	free(line);
	fclose(file);
}

/*
 * A leader's session must be freed by the server only after the leader has
 * stopped exporting by itself, and still by --lease.server-ttl.  A statement
 * may run for its timeout before the session is idle and its timer starts;
 * so what is left for the timer is the rest.  45 s - 10 s = 35 s.
 */
int64_t
options_session_ttl(const struct options *options)
{
	return options->lease_server_ttl - options->database_statement_timeout;
}

static void
check_contradictions(struct parse *parse)
{
	const struct options *options = parse->options;

	if (options->lease_enabled)
	{
		/*
		 * Each refresh renews the fence from the time it was sent.  The next
		 * one is sent an interval later and may take the statement timeout.
		 */
		if (options->collector_interval + options->database_statement_timeout >=
			options->lease_fence)
			fail(parse, EXIT_CODE_CONFIG,
				 "collector.interval plus database.statement-timeout must be less than lease.fence, "
				 "or a leader would fence itself between two good refreshes");
		if (options_session_ttl(options) <= options->lease_fence)
			fail(parse, EXIT_CODE_CONFIG,
				 "lease.server-ttl minus database.statement-timeout must be more than lease.fence, "
				 "or the server could give the lease away while its leader still exports");
		if (options->lease_retry_interval * 6 / 5 >= options->lease_fence)
			fail(parse, EXIT_CODE_CONFIG,
				 "lease.retry-interval must be less than five sixths of lease.fence, "
				 "or the server would end an idle standby's session");
	}
	if (options->collector_interval >= options->collector_snapshot_max_age)
		fail(parse, EXIT_CODE_CONFIG,
			 "collector.interval must be less than collector.snapshot-max-age, "
			 "or series would disappear between two refreshes");

	if (options->web_max_connections_per_ip > options->web_max_connections)
		fail(parse, EXIT_CODE_CONFIG,
			 "web.max-connections-per-ip must not be more than web.max-connections");
	if (options->web_header_timeout > options->web_request_timeout)
		fail(parse, EXIT_CODE_CONFIG,
			 "web.header-timeout must not be more than web.request-timeout");
}

int
options_parse(struct options *options, int argc, char **argv,
			  char **environment, char *message, size_t message_size)
{
	struct parse parse = {
		.options = options,
		.message = message,
		.message_size = message_size,
		.status = EXIT_CODE_OK
	};

	memset(options, 0, sizeof(*options));
	message[0] = '\0';
	set_defaults(&parse);
	parse_environment(&parse, environment);
	for (int i = 1; i < argc; i++)
		parse_flag(&parse, argv[i]);
	if (options->help || options->version)
		return parse.status;

	/* Last to be read, as its name may come from both; the lowest in rank. */
	if (options->config_file != NULL && parse.status == EXIT_CODE_OK)
		parse_file(&parse, options->config_file);
	if (parse.status == EXIT_CODE_OK)
		check_contradictions(&parse);
	return parse.status;
}

void
options_free(struct options *options)
{
	for (const struct option_row *row = option_rows; row->name != NULL; row++)
	{
		void *field = (char *) options + row->offset;

		if (row->type == OPTION_TEXT)
		{
			free(*(char **) field);
			*(char **) field = NULL;
		}
		else if (row->type == OPTION_LIST)
			clear_list(field);
	}
}

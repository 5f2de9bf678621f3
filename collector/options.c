/*
 * options.c
 *	  The table of options, and how flags, environment and file fill it.
 *
 * One row an option.  Whatever is said about an option (its name, type,
 * default, bounds, help) stands in its row and nowhere else.
 */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"

#define ENVIRONMENT_PREFIX "RETSU_COLLECTOR_"

enum option_type
{
	OPTION_TEXT,
	OPTION_LIST,
	OPTION_BOOL,
	OPTION_COUNT,
	OPTION_DURATION,
	OPTION_CHOICE
};

/* Who set an option; a higher source outranks a lower one. */
enum option_source
{
	SOURCE_DEFAULT,
	SOURCE_FILE,
	SOURCE_ENVIRONMENT,
	SOURCE_FLAG
};

struct option_row
{
	const char *name;
	enum option_type type;
	size_t		offset;			/* of the value in struct options */
	const char *fallback;		/* the default, as it would be written */
	int64_t		minimum;		/* counts and durations (ms) */
	int64_t		maximum;
	const char *const *choices; /* ended by NULL; the value is the index */
	const char *help;
};

#define FIELD(member) offsetof(struct options, member)
#define SECOND INT64_C(1000)
#define DAY (INT64_C(86400) * SECOND)

static const char *const on_failure_choices[] = {"exit", "demote", NULL};
static const char *const level_choices[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_choices[] = {"logfmt", "json", NULL};

static const struct option_row rows[] =
{
	{"config.file", OPTION_TEXT, FIELD(config_file), NULL, 0, 0, NULL,
	"file of \"name = value\" lines, names as here without dashes"},
	{"config.check", OPTION_BOOL, FIELD(config_check), "false", 0, 0, NULL,
	"check the configuration, say what is wrong with it, and leave"},
	{"help", OPTION_BOOL, FIELD(help), "false", 0, 0, NULL,
	"print this text and leave"},
	{"version", OPTION_BOOL, FIELD(version), "false", 0, 0, NULL,
	"print the version and leave"},

	{"database.conninfo", OPTION_TEXT, FIELD(database_conninfo), "", 0, 0, NULL,
	"libpq connection string or URI; what it leaves out comes from PGHOST and its like"},
	{"database.password-file", OPTION_TEXT, FIELD(database_password_file), NULL, 0, 0, NULL,
		"file with the password alone, read at every connect; "
	"without it the systemd credential \"database-password\" is used if there is one"},
	{"database.connect-timeout", OPTION_DURATION, FIELD(database_connect_timeout), "5s",
		100, 60 * SECOND, NULL,
	"longest time for a connect, name lookup and TLS included"},
	{"database.statement-timeout", OPTION_DURATION, FIELD(database_statement_timeout), "10s",
		100, 600 * SECOND, NULL,
	"longest time for a statement, set on the session"},
	{"database.allow-pooler", OPTION_BOOL, FIELD(database_allow_pooler), "false", 0, 0, NULL,
	"lead through a connection pooler; it must be in session mode"},

	{"collector.interval", OPTION_DURATION, FIELD(collector_interval), "15s",
		100, 3600 * SECOND, NULL,
	"time from one refresh to the next"},
	{"collector.max-queues", OPTION_COUNT, FIELD(collector_max_queues), "10000",
		1, 1000000, NULL,
	"queues exported, the oldest first; the rest are counted as dropped"},
	{"collector.snapshot-max-age", OPTION_DURATION, FIELD(collector_snapshot_max_age), "45s",
		100, DAY, NULL,
	"age at which a snapshot is no longer exported, whatever keeps it from being replaced"},
	{"collector.on-failure", OPTION_CHOICE, FIELD(collector_on_failure), "exit",
		0, 0, on_failure_choices,
	"what a leader does whose refresh failed: end with status 75, or stay as a standby"},

	{"lease.enabled", OPTION_BOOL, FIELD(lease_enabled), "true", 0, 0, NULL,
	"elect one leader among all collectors of the database"},
	{"lease.retry-interval", OPTION_DURATION, FIELD(lease_retry_interval), "5s",
		50, 3600 * SECOND, NULL,
	"time between a standby's attempts to lead, moved by up to a tenth"},
	{"lease.fence", OPTION_DURATION, FIELD(lease_fence), "30s",
		200, 3600 * SECOND, NULL,
	"time after the last good round trip was sent at which a leader stops exporting"},
	{"lease.server-ttl", OPTION_DURATION, FIELD(lease_server_ttl), "45s",
		300, 7200 * SECOND, NULL,
	"time by which the server has freed the lease of a leader that went silent"},

	{"maintenance.enabled", OPTION_BOOL, FIELD(maintenance_enabled), "true", 0, 0, NULL,
	"as the leader, expire, dead-letter, purge and forget"},
	{"maintenance.interval", OPTION_DURATION, FIELD(maintenance_interval), "60s",
		100, DAY, NULL,
	"time between maintenance rounds"},
	{"maintenance.verify-interval", OPTION_DURATION, FIELD(maintenance_verify_interval), "10m",
		100, 30 * DAY, NULL,
	"as the leader, time between comparisons of the counters with the messages"},
	{"maintenance.dead-letter-retention", OPTION_DURATION,
		FIELD(maintenance_dead_letter_retention), "14d",
		0, 36500 * DAY, NULL,
	"age at which a dead letter is purged"},
	{"maintenance.processed-retention", OPTION_DURATION,
		FIELD(maintenance_processed_retention), "14d",
		0, 36500 * DAY, NULL,
	"age at which process_once() forgets a message"},

	{"web.listen-address", OPTION_LIST, FIELD(web_listen_address), "127.0.0.1:24247", 0, 0, NULL,
	"address and port to serve; repeatable, separated by commas in the environment; port 0 takes a free one"},
	{"web.config.file", OPTION_TEXT, FIELD(web_config_file), NULL, 0, 0, NULL,
	"web configuration in the format of Prometheus exporters"},
	{"web.enable-openmetrics", OPTION_BOOL, FIELD(web_enable_openmetrics), "false", 0, 0, NULL,
	"serve OpenMetrics 1.0 to clients that ask for it"},
	{"web.max-connections", OPTION_COUNT, FIELD(web_max_connections), "64",
		1, 100000, NULL,
	"connections served at a time"},
	{"web.max-connections-per-ip", OPTION_COUNT, FIELD(web_max_connections_per_ip), "16",
		1, 100000, NULL,
	"connections served at a time for one address"},
	{"web.header-timeout", OPTION_DURATION, FIELD(web_header_timeout), "10s",
		100, 3600 * SECOND, NULL,
	"longest time for a request to arrive"},
	{"web.request-timeout", OPTION_DURATION, FIELD(web_request_timeout), "30s",
		100, 3600 * SECOND, NULL,
	"longest time for a request and its answer"},

	{"log.level", OPTION_CHOICE, FIELD(log_level), "info", 0, 0, level_choices,
	"least important line that is written"},
	{"log.format", OPTION_CHOICE, FIELD(log_format), "logfmt", 0, 0, format_choices,
	"layout of the lines on standard error"}
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

/* The rows before this one make no sense in a file. */
#define FIRST_FILE_ROW 4

/* What one call of options_parse() works on. */
struct parse
{
	struct options *options;
	enum option_source sources[ROW_COUNT];
	char	   *message;
	size_t		message_size;
	int			status;
};

static void __attribute__((format(printf, 3, 4)))
fail(struct parse *parse, int status, const char *format,...)
{
	va_list		arguments;

	if (parse->status != EXIT_CODE_OK)
		return;					/* the first reason is the one to tell */
	parse->status = status;
	va_start(arguments, format);
	vsnprintf(parse->message, parse->message_size, format, arguments);
	va_end(arguments);
}

static const struct option_row *
find_row(const char *name, size_t length)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
	{
		if (strlen(rows[i].name) == length &&
			strncmp(rows[i].name, name, length) == 0)
			return &rows[i];
	}
	return NULL;
}

/* RETSU_COLLECTOR_LEASE_SERVER_TTL for lease.server-ttl */
static void
environment_name(const struct option_row *row, char *buffer, size_t size)
{
	snprintf(buffer, size, ENVIRONMENT_PREFIX "%s", row->name);
	for (char *c = buffer + strlen(ENVIRONMENT_PREFIX); *c != '\0'; c++)
	{
		if (*c == '.' || *c == '-')
			*c = '_';
		else if (*c >= 'a' && *c <= 'z')
			*c = (char) (*c - 'a' + 'A');
	}
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
	char	   *copy = strndup(text, length);

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
		size_t		length = strcspn(value, ",");

		if (length == 0)
			fail(parse, EXIT_CODE_USAGE, "%s: empty value", name);
		else if (list->count == OPTIONS_MAX_LISTEN)
			fail(parse, EXIT_CODE_USAGE, "%s: at most %d values",
				 name, OPTIONS_MAX_LISTEN);
		else
		{
			char	   *copy = copy_text(parse, value, length);

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
	int64_t		number;
	char		low[32];
	char		high[32];

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
		char	   *end;

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
	char		known[64] = "";

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
	size_t		index = (size_t) (row - rows);
	void	   *field = (char *) parse->options + row->offset;

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
	for (size_t i = 0; i < ROW_COUNT; i++)
	{
		if (rows[i].fallback != NULL)
			set_value(parse, &rows[i], SOURCE_DEFAULT, rows[i].fallback);
		/* Whatever comes next replaces the default list. */
		parse->sources[i] = SOURCE_DEFAULT;
	}
}

static void
parse_flag(struct parse *parse, const char *argument)
{
	const char *name = argument + 2;
	const struct option_row *row;
	size_t		length;

	if (strncmp(argument, "--", 2) != 0 || *name == '\0')
	{
		fail(parse, EXIT_CODE_USAGE, "unexpected argument \"%s\"", argument);
		return;
	}

	length = strcspn(name, "=");
	row = find_row(name, length);
	if (row != NULL && name[length] == '=')
		set_value(parse, row, SOURCE_FLAG, name + length + 1);
	else if (row != NULL && row->type == OPTION_BOOL)
		set_value(parse, row, SOURCE_FLAG, "true");
	else if (row != NULL)
		fail(parse, EXIT_CODE_USAGE, "--%s needs a value: --%s=...",
			 row->name, row->name);
	else if (strncmp(name, "no-", 3) == 0 && name[length] == '\0' &&
			 (row = find_row(name + 3, length - 3)) != NULL &&
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
		size_t		length = strcspn(entry, "=");
		char		name[80];
		size_t		i;

		if (strncmp(entry, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0)
			continue;
		for (i = 0; i < ROW_COUNT; i++)
		{
			environment_name(&rows[i], name, sizeof(name));
			if (strlen(name) == length && strncmp(name, entry, length) == 0)
				break;
		}
		if (i == ROW_COUNT && is_service_link(entry))
			continue;
		if (i == ROW_COUNT)
			fail(parse, EXIT_CODE_USAGE,
				 "unknown environment variable %.*s; see --help",
				 (int) length, entry);
		else if (entry[length] == '=')
			set_value(parse, &rows[i], SOURCE_ENVIRONMENT, entry + length + 1);
	}
}

static char *
trim(char *text)
{
	char	   *end;

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
	char	   *text = trim(line);
	char	   *equals = strchr(text, '=');
	const struct option_row *row;
	char	   *name;

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
	row = find_row(name, strlen(name));
	if (row == NULL || row < &rows[FIRST_FILE_ROW])
	{
		fail(parse, EXIT_CODE_CONFIG, "%s:%d: unknown option \"%s\"",
			 path, number, name);
		return;
	}
	set_value(parse, row, SOURCE_FILE, trim(equals + 1));
	if (parse->status == EXIT_CODE_USAGE)
	{
		char		reason[256];

		snprintf(reason, sizeof(reason), "%s", parse->message);
		parse->status = EXIT_CODE_OK;
		fail(parse, EXIT_CODE_CONFIG, "%s:%d: %s", path, number, reason);
	}
}

static void
parse_file(struct parse *parse, const char *path)
{
	FILE	   *file = fopen(path, "re");
	char	   *line = NULL;
	size_t		size = 0;

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
	for (size_t i = 0; i < ROW_COUNT; i++)
	{
		void	   *field = (char *) options + rows[i].offset;

		if (rows[i].type == OPTION_TEXT)
		{
			free(*(char **) field);
			*(char **) field = NULL;
		}
		else if (rows[i].type == OPTION_LIST)
			clear_list(field);
	}
}

void
options_print_help(void)
{
	printf("retsu-collector exports the state of queue_state's queues to Prometheus.\n\n"
		   "Usage:\n  retsu-collector [--name=value ...]\n\n"
		   "A flag outranks the environment variable named below it, that the file given\n"
		   "by --config.file, that the default.  Durations carry a unit: ms, s, m, h, d, w.\n\n"
		   "Options:\n");
	for (size_t i = 0; i < ROW_COUNT; i++)
	{
		const struct option_row *row = &rows[i];
		char		name[80];

		environment_name(row, name, sizeof(name));
		if (row->type == OPTION_BOOL)
			printf("  --[no-]%s\n", row->name);
		else
		{
			printf("  --%s=", row->name);
			if (row->type == OPTION_CHOICE)
				for (int c = 0; row->choices[c] != NULL; c++)
					printf("%s%s", c > 0 ? "|" : "", row->choices[c]);
			else
				printf("%s", row->type == OPTION_DURATION ? "DURATION" :
					   row->type == OPTION_COUNT ? "NUMBER" :
					   row->type == OPTION_LIST ? "ADDRESS" : "TEXT");
			printf("\n");
		}
		printf("      %s", row->help);
		if (row->fallback != NULL && row->fallback[0] != '\0')
			printf(" (default %s)", row->fallback);
		printf("\n      %s\n", name);
	}
	printf("\nExit status: 0 ended as asked, 64 usage, 69 cannot bind, 71 operating system,\n"
		   "75 a leader's refresh failed, 78 configuration.\n");
}

/*
 * option.c
 *	  The table of options, and what is made of it alone.
 *
 * One row an option.  Whatever is said about an option (its name, type,
 * default, bounds, help) stands in its row and nowhere else.
 */
#include "option.h"

#include <stdio.h>
#include <string.h>

#include "options.h"

#define FIELD(member) offsetof(struct options, member)
#define SECOND INT64_C(1000)
#define DAY (INT64_C(86400) * SECOND)

static const char *const on_failure_choices[] = { "exit", "demote", NULL };
static const char *const level_choices[] = { "debug", "info", "warn", "error", NULL };
static const char *const format_choices[] = { "logfmt", "json", NULL };

const struct option_row option_rows[] = {
	{ "config.file", OPTION_TEXT, FIELD(config_file), NULL, 0, 0, NULL,
	  "file of \"name = value\" lines, names as here without dashes" },
	{ "config.check", OPTION_BOOL, FIELD(config_check), "false", 0, 0, NULL,
	  "check the configuration, say what is wrong with it, and leave" },
	{ "help", OPTION_BOOL, FIELD(help), "false", 0, 0, NULL,
	  "print this text and leave" },
	{ "version", OPTION_BOOL, FIELD(version), "false", 0, 0, NULL,
	  "print the version and leave" },

	{ "database.conninfo", OPTION_TEXT, FIELD(database_conninfo), "", 0, 0, NULL,
	  "libpq connection string or URI; what it leaves out comes from PGHOST and its like" },
	{ "database.password-file", OPTION_TEXT, FIELD(database_password_file), NULL, 0, 0, NULL,
	  "file with the password alone, read at every connect; "
	  "without it the systemd credential \"database-password\" is used if there is one" },
	{ "database.connect-timeout", OPTION_DURATION, FIELD(database_connect_timeout), "5s",
	  100, 60 * SECOND, NULL,
	  "longest time for a connect, name lookup and TLS included" },
	{ "database.statement-timeout", OPTION_DURATION, FIELD(database_statement_timeout), "10s",
	  100, 600 * SECOND, NULL,
	  "longest time for a statement, set on the session" },
	{ "database.allow-pooler", OPTION_BOOL, FIELD(database_allow_pooler), "false", 0, 0, NULL,
	  "lead through a connection pooler; it must be in session mode" },

	{ "collector.interval", OPTION_DURATION, FIELD(collector_interval), "15s",
	  100, 3600 * SECOND, NULL,
	  "time from one refresh to the next" },
	{ "collector.max-queues", OPTION_COUNT, FIELD(collector_max_queues), "10000",
	  1, 1000000, NULL,
	  "queues exported, the oldest first; the rest are counted as dropped" },
	{ "collector.snapshot-max-age", OPTION_DURATION, FIELD(collector_snapshot_max_age), "45s",
	  100, DAY, NULL,
	  "age at which a snapshot is no longer exported, whatever keeps it from being replaced" },
	{ "collector.on-failure", OPTION_CHOICE, FIELD(collector_on_failure), "exit",
	  0, 0, on_failure_choices,
	  "what a leader does whose refresh failed: end with status 75, or stay as a standby" },

	{ "lease.enabled", OPTION_BOOL, FIELD(lease_enabled), "true", 0, 0, NULL,
	  "elect one leader among all collectors of the database" },
	{ "lease.retry-interval", OPTION_DURATION, FIELD(lease_retry_interval), "5s",
	  50, 3600 * SECOND, NULL,
	  "time between a standby's attempts to lead, moved by up to a tenth" },
	{ "lease.fence", OPTION_DURATION, FIELD(lease_fence), "30s",
	  200, 3600 * SECOND, NULL,
	  "time after the last good round trip was sent at which a leader stops exporting" },
	{ "lease.server-ttl", OPTION_DURATION, FIELD(lease_server_ttl), "45s",
	  300, 7200 * SECOND, NULL,
	  "time by which the server has freed the lease of a leader that went silent" },

	{ "maintenance.enabled", OPTION_BOOL, FIELD(maintenance_enabled), "true", 0, 0, NULL,
	  "as the leader, expire, dead-letter, purge and forget" },
	{ "maintenance.interval", OPTION_DURATION, FIELD(maintenance_interval), "60s",
	  100, DAY, NULL,
	  "time between maintenance rounds" },
	{ "maintenance.verify-interval", OPTION_DURATION, FIELD(maintenance_verify_interval), "10m",
	  100, 30 * DAY, NULL,
	  "as the leader, time between comparisons of the counters with the messages" },
	{ "maintenance.dead-letter-retention", OPTION_DURATION,
	  FIELD(maintenance_dead_letter_retention), "14d",
	  0, 36500 * DAY, NULL,
	  "age at which a dead letter is purged" },
	{ "maintenance.processed-retention", OPTION_DURATION,
	  FIELD(maintenance_processed_retention), "14d",
	  0, 36500 * DAY, NULL,
	  "age at which process_once() forgets a message" },

	{ "web.listen-address", OPTION_LIST, FIELD(web_listen_address), "127.0.0.1:24247", 0, 0, NULL,
	  "address and port to serve; repeatable, separated by commas in the environment; port 0 takes a free one" },
	{ "web.config.file", OPTION_TEXT, FIELD(web_config_file), NULL, 0, 0, NULL,
	  "web configuration in the format of Prometheus exporters; TLS and basic authentication are not implemented and refused (78)" },
	{ "web.enable-openmetrics", OPTION_BOOL, FIELD(web_enable_openmetrics), "false", 0, 0, NULL,
	  "serve OpenMetrics 1.0 to clients that ask for it" },
	{ "web.max-connections", OPTION_COUNT, FIELD(web_max_connections), "64",
	  1, 100000, NULL,
	  "connections served at a time" },
	{ "web.max-connections-per-ip", OPTION_COUNT, FIELD(web_max_connections_per_ip), "16",
	  1, 100000, NULL,
	  "connections served at a time for one address" },
	{ "web.header-timeout", OPTION_DURATION, FIELD(web_header_timeout), "10s",
	  100, 3600 * SECOND, NULL,
	  "longest time for a request to arrive" },
	{ "web.request-timeout", OPTION_DURATION, FIELD(web_request_timeout), "30s",
	  100, 3600 * SECOND, NULL,
	  "longest time for a request and its answer" },

	{ "log.level", OPTION_CHOICE, FIELD(log_level), "info", 0, 0, level_choices,
	  "least important line that is written" },
	{ "log.format", OPTION_CHOICE, FIELD(log_format), "logfmt", 0, 0, format_choices,
	  "layout of the lines on standard error" },

	{ .name = NULL }
};

_Static_assert(sizeof(option_rows) / sizeof(option_rows[0]) <= OPTION_COUNT_MAX,
			   "options_parse() has room for the source of each");

const struct option_row *
option_find(const char *name, size_t length)
{
	for (const struct option_row *row = option_rows; row->name != NULL; row++)
	{
		if (strlen(row->name) == length && strncmp(row->name, name, length) == 0)
			return row;
	}
	return NULL;
}

void
option_environment_name(const struct option_row *row, char *buffer, size_t size)
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

void
options_print_help(void)
{
	printf("retsu-collector exports the state of queue_state's queues to Prometheus.\n\n"
		   "Usage:\n  retsu-collector [--name=value ...]\n\n"
		   "A flag outranks the environment variable named below it, that the file given\n"
		   "by --config.file, that the default.  Durations carry a unit: ms, s, m, h, d, w.\n\n"
		   "Options:\n");
	for (const struct option_row *row = option_rows; row->name != NULL; row++)
	{
		char name[80];

		option_environment_name(row, name, sizeof(name));
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
							 row->type == OPTION_COUNT	  ? "NUMBER" :
							 row->type == OPTION_LIST	  ? "ADDRESS" :
															"TEXT");
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

/*
 * options.h
 *	  What the operator may decide: flags, environment, file and defaults.
 *
 * One table in option.c holds name, type, default, bounds and help text of
 * every option; parsing, --help and the environment names come from it.  A
 * flag outranks the environment, that outranks the file, that the default.
 * Read-only after options_parse(), so every thread may look.
 */
#ifndef RETSU_OPTIONS_H
#define RETSU_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* Exit codes, from sysexits.h. */
enum exit_code
{
	EXIT_CODE_OK = 0,
	EXIT_CODE_USAGE = 64,  /* flag or environment variable */
	EXIT_CODE_BIND = 69,   /* no listening socket */
	EXIT_CODE_SYSTEM = 71, /* threads, memory, descriptors */
	EXIT_CODE_FAILED = 75, /* a leader's refresh failed */
	EXIT_CODE_CONFIG = 78  /* configuration file, contradictions */
};

#define OPTIONS_MAX_LISTEN 8

enum on_failure
{
	ON_FAILURE_EXIT,
	ON_FAILURE_DEMOTE
};

struct option_list
{
	int count;
	char *values[OPTIONS_MAX_LISTEN];
};

/* Times are in milliseconds. */
struct options
{
	char *config_file; /* NULL: none */
	bool config_check;
	bool help;
	bool version;

	char *database_conninfo;	  /* secret: may hold a password */
	char *database_password_file; /* NULL: none */
	int64_t database_connect_timeout;
	int64_t database_statement_timeout;
	bool database_allow_pooler;

	int64_t collector_interval;
	int64_t collector_max_queues;
	int64_t collector_snapshot_max_age;
	int64_t collector_on_failure; /* enum on_failure */

	bool lease_enabled;
	int64_t lease_retry_interval;
	int64_t lease_fence;
	int64_t lease_server_ttl;

	bool maintenance_enabled;
	int64_t maintenance_interval;
	int64_t maintenance_verify_interval;
	int64_t maintenance_dead_letter_retention;
	int64_t maintenance_processed_retention;

	struct option_list web_listen_address;
	char *web_config_file; /* NULL: none */
	bool web_enable_openmetrics;
	int64_t web_max_connections;
	int64_t web_max_connections_per_ip;
	int64_t web_header_timeout;
	int64_t web_request_timeout;

	int64_t log_level;	/* enum log_level */
	int64_t log_format; /* enum log_format */
};

/*
 * Fills *options from all sources and checks them against each other.
 * Returns EXIT_CODE_OK, or the code to leave with after the reason was put
 * into `message`.  Never puts the value of a secret option there.
 */
extern int options_parse(struct options *options, int argc, char **argv,
						 char **environment, char *message,
						 size_t message_size);
extern void options_free(struct options *options);

/* The text of --help, from the table. */
extern void options_print_help(void);

/* How long the server may keep an idle session of a leader; see there. */
extern int64_t options_session_ttl(const struct options *options);

#endif /* RETSU_OPTIONS_H */

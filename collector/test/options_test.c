/*
 * options_test.c
 *	  Where options come from, which source wins, and what is refused.
 */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "options.h"

static struct options options;
static char message[512];

/* Parses up to three flags with this environment entry (NULL: none). */
static int
parse(const char *entry, const char *one, const char *two, const char *three)
{
	char *argv[5] = { (char *) "retsu-collector" };
	char *environment[2] = { (char *) entry, NULL };
	const char *flags[3] = { one, two, three };
	int argc = 1;

	for (int i = 0; i < 3; i++)
	{
		if (flags[i] != NULL)
			argv[argc++] = (char *) flags[i];
	}
	options_free(&options);
	return options_parse(&options, argc, argv, environment, message,
						 sizeof(message));
}

static void
test_defaults(void)
{
	is_int(parse(NULL, NULL, NULL, NULL), EXIT_CODE_OK, "the defaults are valid");
	is_int(options.collector_interval, 15000, "collector.interval");
	is_int(options.database_statement_timeout, 10000, "database.statement-timeout");
	is_int(options.database_connect_timeout, 5000, "database.connect-timeout");
	is_int(options.lease_fence, 30000, "lease.fence");
	is_int(options.lease_server_ttl, 45000, "lease.server-ttl");
	is_int(options.lease_retry_interval, 5000, "lease.retry-interval");
	is_int(options_session_ttl(&options), 35000, "a silent session lives for 35 s");
	is_int(options.collector_on_failure, ON_FAILURE_EXIT, "collector.on-failure");
	is_int(options.collector_max_queues, 10000, "collector.max-queues");
	is_int(options.collector_snapshot_max_age, 45000, "collector.snapshot-max-age");
	is_int(options.web_listen_address.count, 1, "one address");
	is_text(options.web_listen_address.values[0], "127.0.0.1:24247", "web.listen-address");
	is_int(options.web_max_connections, 64, "web.max-connections");
	is_int(options.web_max_connections_per_ip, 16, "web.max-connections-per-ip");
	is_int(options.maintenance_dead_letter_retention, INT64_C(1209600000),
		   "maintenance.dead-letter-retention");
	ok(options.lease_enabled && options.maintenance_enabled, "enabled by default");
	ok(!options.database_allow_pooler && !options.web_enable_openmetrics,
	   "disabled by default");
	is_text(options.database_conninfo, "", "database.conninfo");
	is_int(options.log_level, LOG_LEVEL_INFO, "log.level");
}

static void
test_sources(void)
{
	char path[] = "/tmp/retsu_options_XXXXXX";
	int fd = mkstemp(path);
	char flag[128];
	static const char text[] =
		"# comment\n\n  collector.interval = 7s  \nlog.level=debug\n"
		"web.listen-address = :1\nweb.listen-address = :2\n";

	ok(fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1, "a file");
	close(fd);
	snprintf(flag, sizeof(flag), "--config.file=%s", path);

	is_int(parse(NULL, flag, NULL, NULL), EXIT_CODE_OK, "it is read");
	is_int(options.collector_interval, 7000, "the file outranks the default");
	is_int(options.web_listen_address.count, 2, "its list replaces the default's");
	is_int(parse("RETSU_COLLECTOR_COLLECTOR_INTERVAL=8s", flag, NULL, NULL),
		   EXIT_CODE_OK, "with an environment");
	is_int(options.collector_interval, 8000, "the environment outranks the file");
	is_int(options.log_level, LOG_LEVEL_DEBUG, "the rest of the file stands");
	is_int(parse("RETSU_COLLECTOR_COLLECTOR_INTERVAL=8s", flag,
				 "--collector.interval=9s", NULL),
		   EXIT_CODE_OK, "with a flag");
	is_int(options.collector_interval, 9000, "the flag outranks both");
	is_int(parse(NULL, "--collector.interval=3s", "--collector.interval=4s", NULL),
		   EXIT_CODE_OK, "a flag twice");
	is_int(options.collector_interval, 4000, "the later flag wins");

	is_int(parse("RETSU_COLLECTOR_WEB_LISTEN_ADDRESS=:3,:4,:5", flag, NULL, NULL),
		   EXIT_CODE_OK, "a list in the environment");
	is_int(options.web_listen_address.count, 3, "is separated by commas");
	is_int(parse("RETSU_COLLECTOR_WEB_LISTEN_ADDRESS=:3,:4,:5", flag,
				 "--web.listen-address=[::1]:6", "--web.listen-address=:7"),
		   EXIT_CODE_OK, "a repeated flag");
	is_int(options.web_listen_address.count, 2, "adds up, and replaces the environment's");
	is_text(options.web_listen_address.values[0], "[::1]:6", "in order");

	is_int(parse(NULL, "--no-lease.enabled", NULL, NULL), EXIT_CODE_OK, "--no-");
	ok(!options.lease_enabled, "turns off");
	is_int(parse(NULL, "--database.allow-pooler", NULL, NULL), EXIT_CODE_OK, "a bare flag");
	ok(options.database_allow_pooler, "turns on");
	is_int(parse("RETSU_COLLECTOR_LEASE_ENABLED=false", "--lease.enabled", NULL, NULL),
		   EXIT_CODE_OK, "both");
	ok(options.lease_enabled, "the flag wins");
	unlink(path);
}

static void
refuses(int status, const char *entry, const char *one, const char *two)
{
	is_int(parse(entry, one, two, NULL), status, message);
	ok(message[0] != '\0', "and it says why");
}

static void
refuses_file(const char *text, const char *expected)
{
	char path[] = "/tmp/retsu_options_XXXXXX";
	int fd = mkstemp(path);
	char flag[128];

	ok(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text), "a file");
	close(fd);
	snprintf(flag, sizeof(flag), "--config.file=%s", path);
	is_int(parse(NULL, flag, NULL, NULL), EXIT_CODE_CONFIG, message);
	ok(strstr(message, expected) != NULL, "\"%s\" is in the message", expected);
	unlink(path);
}

static void
test_refusals(void)
{
	refuses(EXIT_CODE_USAGE, NULL, "--unknown=1", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--collector.interval", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--collector.interval=", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--collector.interval=15", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--collector.interval=1ms", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--no-collector.interval", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--no-lease.enabled=true", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--lease.enabled=yes", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--log.level=loud", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--web.max-connections=0", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--web.max-connections=1e3", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--web.max-connections=99999999999999999999", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "--web.listen-address=", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "-h", NULL);
	refuses(EXIT_CODE_USAGE, NULL, "postgres", NULL);
	refuses(EXIT_CODE_USAGE, "RETSU_COLLECTOR_UNKNOWN=1", NULL, NULL);
	refuses(EXIT_CODE_USAGE, "RETSU_COLLECTOR_LEASE_FENCE=30", NULL, NULL);
	is_int(parse("RETSU_COLLECTOR_SERVICE_HOST=10.0.0.1", NULL, NULL, NULL),
		   EXIT_CODE_OK, "what Kubernetes adds for a service is no mistake");
	is_int(parse("RETSU_COLLECTOR_PORT_24247_TCP=tcp://10.0.0.1:24247", NULL, NULL, NULL),
		   EXIT_CODE_OK, "nor is this");

	refuses(EXIT_CODE_CONFIG, NULL, "--config.file=/nonexistent", NULL);
	refuses_file("log.level = debug\nnonsense\n", ":2: ");
	refuses_file("no.such = 1\n", "no.such");
	refuses_file("log.level = loud\n", ":1: log.level");
	refuses_file("config.file = /etc/passwd\n", "config.file");

	refuses(EXIT_CODE_USAGE, NULL, "--databas.conninfo=password=secret", NULL);
	ok(strstr(message, "secret") == NULL, "a mistyped flag's value is not repeated");
}

static void
test_contradictions(void)
{
	/* 15 s + 10 s must stay below the fence */
	refuses(EXIT_CODE_CONFIG, NULL, "--lease.fence=25s", NULL);
	is_int(parse(NULL, "--lease.fence=25001ms", NULL, NULL), EXIT_CODE_OK, "just above");
	/* 45 s - 10 s must stay above it */
	refuses(EXIT_CODE_CONFIG, NULL, "--lease.fence=35s", NULL);
	is_int(parse(NULL, "--lease.fence=34999ms", NULL, NULL), EXIT_CODE_OK, "just below");
	refuses(EXIT_CODE_CONFIG, NULL, "--lease.server-ttl=40s", NULL);
	refuses(EXIT_CODE_CONFIG, NULL, "--collector.interval=20s", NULL);
	refuses(EXIT_CODE_CONFIG, NULL, "--database.statement-timeout=15s", NULL);
	refuses(EXIT_CODE_CONFIG, NULL, "--lease.retry-interval=25s", NULL);
	is_int(parse(NULL, "--no-lease.enabled", "--collector.interval=40s", NULL),
		   EXIT_CODE_OK, "without a lease there is no fence");
	refuses(EXIT_CODE_CONFIG, NULL, "--no-lease.enabled", "--collector.interval=45s");
	refuses(EXIT_CODE_CONFIG, NULL, "--web.max-connections=8", NULL);
	refuses(EXIT_CODE_CONFIG, NULL, "--web.header-timeout=31s", NULL);
	is_int(parse(NULL, "--help", "--lease.fence=1s", NULL), EXIT_CODE_OK,
		   "help is given whatever else is wrong");
}

int
main(void)
{
	test_defaults();
	test_sources();
	test_refusals();
	test_contradictions();
	options_free(&options);
	return tap_done();
}

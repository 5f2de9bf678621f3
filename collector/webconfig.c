/*
 * webconfig.c
 *		--web.config.file, in the format of Prometheus' exporter-toolkit.
 */
#include "webconfig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Whether a line is blank, a comment, or a document marker.
 */
static bool
asks_for_nothing(const char *line)
{
	const char *start = line + strspn(line, " \t\r\n");

	return *start == '\0' || *start == '#' ||
		   (strncmp(line, "---", 3) == 0 && line[3 + strspn(line + 3, " \t\r\n")] == '\0');
}

bool
webconfig_check(const char *path, char *error, size_t error_size)
{
	FILE *file = fopen(path, "re");
	char line[512];
	char reason[128];
	bool accepted = true;

	if (file == NULL)
	{
		snprintf(error, error_size, "cannot open web config file \"%.200s\": %s",
				 path, strerror_r(errno, reason, sizeof(reason)));
		return false;
	}
	while (accepted && fgets(line, sizeof(line), file) != NULL)
	{
		if (asks_for_nothing(line))
			continue;
		accepted = false;
		snprintf(error, error_size,
				 "web config file \"%.200s\" asks for \"%.*s\", which is not supported: "
				 "neither TLS (tls_server_config) nor basic authentication "
				 "(basic_auth_users) nor HTTP options (http_server_config) are; "
				 "put a reverse proxy in front, or listen on the loopback address only",
				 path, (int) strcspn(line, ":\r\n") > 40 ? 40 : (int) strcspn(line, ":\r\n"),
				 line);
	}
	if (accepted && ferror(file))
	{
		snprintf(error, error_size, "cannot read web config file \"%.200s\"", path);
		accepted = false;
	}
	fclose(file);
	return accepted;
}

/*
 * webconfig.h
 *		--web.config.file, in the format of Prometheus' exporter-toolkit.
 */
#ifndef RETSU_WEBCONFIG_H
#define RETSU_WEBCONFIG_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Read the file.  Nothing of what it can hold is implemented: a file that asks
 * for nothing is accepted, and any other is refused with a message that names
 * what it asks for.  Serving plain text where an operator has asked for TLS or a
 * password would be worse than not starting.
 */
extern bool webconfig_check(const char *path, char *error, size_t error_size);

#endif /* RETSU_WEBCONFIG_H */

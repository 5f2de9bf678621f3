/*
 * process.c
 *		This process as the kernel sees it, for the process_* series.
 */
#include "process.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Fields of /proc/self/stat, counted from 1 as in proc(5). */
#define STAT_NUM_THREADS 20
#define STAT_STARTTIME 22
#define STAT_VSIZE 23
#define STAT_RSS 24

/* Never changes, so it is worked out once. */
static pthread_once_t start_time_once = PTHREAD_ONCE_INIT;
static int64_t start_time_ns;

/*
 * Read /proc/self/stat and pick fields 3 and up.  The second field is the name
 * of the program in parentheses and may hold anything, so look for its end from
 * the right.
 */
static bool
read_stat(int64_t fields[STAT_RSS + 1])
{
	char buffer[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t length;
	char *at;

	if (fd < 0)
		return false;
	length = read(fd, buffer, sizeof(buffer) - 1);
	close(fd);
	if (length <= 0)
		return false;
	buffer[length] = '\0';
	at = strrchr(buffer, ')');
	if (at == NULL || at[1] == '\0' || at[2] == '\0')
		return false;

	/* at + 2 is field 3, a letter; numbers follow */
	at += 3;
	for (int field = 4; field <= STAT_RSS; field++)
	{
		char *end;

		fields[field] = strtoll(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	return true;
}

static void
find_start_time(void)
{
	int64_t fields[STAT_RSS + 1];
	struct timespec boot;
	struct timespec wall;
	long ticks = sysconf(_SC_CLK_TCK);

	if (ticks <= 0 || !read_stat(fields) ||
		clock_gettime(CLOCK_BOOTTIME, &boot) != 0 ||
		clock_gettime(CLOCK_REALTIME, &wall) != 0)
		return;
	start_time_ns = ((int64_t) wall.tv_sec - boot.tv_sec) * 1000000000 +
					wall.tv_nsec - boot.tv_nsec +
					fields[STAT_STARTTIME] * (1000000000 / ticks);
}

/*
 * How many descriptors are open.  Names in /proc/self/fd are counted with the
 * bare system call: opendir() would allocate 32 kB for each scrape.
 */
static int64_t
count_fds(void)
{
	struct Entry
	{
		uint64_t inode;
		int64_t offset;
		uint16_t length;
		uint8_t type;
		char name[];
	};
	union
	{
		char bytes[4096];
		uint64_t align;
	} buffer;
	int64_t count = 0;
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	for (;;)
	{
		long length = syscall(SYS_getdents64, fd, buffer.bytes,
							  sizeof(buffer.bytes));
		long at = 0;

		if (length <= 0)
			break;
		while (at < length)
		{
			const struct Entry *entry = (const struct Entry *) (buffer.bytes + at);

			if (entry->name[0] != '.')
				count++;
			at += entry->length;
		}
	}
	close(fd);

	/* fd itself was one of them */
	return count - 1;
}

void
process_usage(ProcessUsage *usage)
{
	int64_t fields[STAT_RSS + 1];
	struct rusage rusage;
	struct rlimit limit;

	memset(usage, 0xff, sizeof(*usage)); /* all -1 */
	pthread_once(&start_time_once, find_start_time);
	usage->start_time_ns = start_time_ns;
	usage->cpu_ns = 0;
	if (getrusage(RUSAGE_SELF, &rusage) == 0)
		usage->cpu_ns = ((int64_t) rusage.ru_utime.tv_sec + rusage.ru_stime.tv_sec) *
							1000000000 +
						((int64_t) rusage.ru_utime.tv_usec + rusage.ru_stime.tv_usec) * 1000;
	if (read_stat(fields))
	{
		usage->threads = fields[STAT_NUM_THREADS];
		usage->virtual_bytes = fields[STAT_VSIZE];
		usage->resident_bytes = fields[STAT_RSS] * sysconf(_SC_PAGESIZE);
	}
	usage->open_fds = count_fds();
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		usage->max_fds = (int64_t) limit.rlim_cur;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		usage->virtual_limit = (int64_t) limit.rlim_cur;
}

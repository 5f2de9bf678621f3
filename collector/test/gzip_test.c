/*
 * gzip_test.c
 *	  Streams put together from parts are what every decoder takes for one.
 */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "gzip.h"

/* Put a stream together from strings. */
static void
assemble(Gzip *gzip, const Text *parts, int count, Text *out, Text *plain)
{
	unsigned char trailer[GZIP_TRAILER_LENGTH];
	uint32_t checksum = gzip_checksum("", 0);

	text_bytes(out, (const char *) gzip_header, sizeof(gzip_header));
	for (int i = 0; i < count; i++)
	{
		ok(gzip_part(gzip, parts[i].data, parts[i].length, out), "part %d", i);
		checksum = gzip_combine(checksum,
								gzip_checksum(parts[i].data, parts[i].length),
								parts[i].length);
		text_bytes(plain, parts[i].data, parts[i].length);
	}
	gzip_trailer(trailer, checksum, plain->length);
	text_bytes(out, (const char *) trailer, sizeof(trailer));
	ok(checksum == gzip_checksum(plain->data, plain->length),
	   "the combined checksum is that of the whole");
}

/* zlib reads exactly the plain bytes and then the end of the stream. */
static void
check_zlib(const Text *stream, const Text *plain)
{
	z_stream inflater = { 0 };
	char *result = malloc(plain->length + 1);
	int status;

	if (result == NULL || inflateInit2(&inflater, 16 + MAX_WBITS) != Z_OK)
		abort();
	inflater.next_in = (Bytef *) stream->data;
	inflater.avail_in = (uInt) stream->length;
	inflater.next_out = (Bytef *) result;
	inflater.avail_out = (uInt) plain->length + 1;
	status = inflate(&inflater, Z_FINISH);
	is_int(status, Z_STREAM_END, "zlib sees the end and agrees with the checksum");
	is_int((long long) inflater.total_out, (long long) plain->length, "zlib: length");
	is_int(inflater.avail_in, 0, "zlib: nothing is left over");
	ok(memcmp(result, plain->data, plain->length) == 0, "zlib: the same bytes");
	inflateEnd(&inflater);
	free(result);
}

static void
check_gunzip(const Text *stream, const Text *plain)
{
	char path[] = "/tmp/retsu_gzip_XXXXXX";
	char command[100];
	int fd = mkstemp(path);
	FILE *pipe;
	char *result = malloc(plain->length + 1);
	size_t length;

	if (fd < 0 || result == NULL ||
		write(fd, stream->data, stream->length) != (ssize_t) stream->length)
		abort();
	close(fd);
	snprintf(command, sizeof(command), "gunzip -c < %s", path);
	pipe = popen(command, "r");
	if (pipe == NULL)
		abort();
	length = fread(result, 1, plain->length + 1, pipe);
	is_int(pclose(pipe), 0, "gunzip is content");
	ok(length == plain->length && memcmp(result, plain->data, length) == 0,
	   "gunzip: the same bytes");
	unlink(path);
	free(result);
}

int
main(void)
{
	Gzip *gzip = gzip_create();
	Text parts[4] = { TEXT_EMPTY, TEXT_EMPTY, TEXT_EMPTY, TEXT_EMPTY };
	Text stream = TEXT_EMPTY;
	Text plain = TEXT_EMPTY;
	Text again = TEXT_EMPTY;

	if (!ok(gzip != NULL, "a compressor"))
		return tap_done();

	/* a small head, something large and regular, noise, a short end */
	text_string(&parts[0], "# HELP a A.\n# TYPE a gauge\na 1\n");
	for (int i = 0; i < 100000; i++)
	{
		text_string(&parts[1], "queue_messages_ready{queue_name=\"q");
		text_integer(&parts[1], i);
		text_string(&parts[1], "\"} 0\n");
	}
	srand(3);
	for (int i = 0; i < 300000; i++)
		text_char(&parts[2], (char) (rand() >> 4));
	text_string(&parts[3], "# EOF\n");

	assemble(gzip, parts, 4, &stream, &plain);
	check_zlib(&stream, &plain);
	check_gunzip(&stream, &plain);
	ok(stream.length < plain.length / 4, "and it is compressed");

	/* parts do not depend on what was compressed before */
	gzip_part(gzip, parts[0].data, parts[0].length, &again);
	ok(memcmp(stream.data + GZIP_HEADER_LENGTH, again.data, again.length) == 0,
	   "a part is the same bytes every time");

	/* an order that was never compressed as such, with a part repeated */
	{
		Text other[4] = { parts[3], parts[0], parts[3], parts[1] };
		Text other_stream = TEXT_EMPTY;
		Text other_plain = TEXT_EMPTY;

		assemble(gzip, other, 4, &other_stream, &other_plain);
		check_zlib(&other_stream, &other_plain);
		text_free(&other_stream);
		text_free(&other_plain);
	}

	/* nothing at all is a valid stream too */
	{
		Text empty[1] = { TEXT_EMPTY };
		Text empty_stream = TEXT_EMPTY;
		Text empty_plain = TEXT_EMPTY;

		text_reserve(&empty_plain, 1);
		assemble(gzip, empty, 1, &empty_stream, &empty_plain);
		check_zlib(&empty_stream, &empty_plain);
		check_gunzip(&empty_stream, &empty_plain);
		text_free(&empty_stream);
		text_free(&empty_plain);
	}

	for (int i = 0; i < 4; i++)
		text_free(&parts[i]);
	text_free(&stream);
	text_free(&plain);
	text_free(&again);
	gzip_free(gzip);
	return tap_done();
}

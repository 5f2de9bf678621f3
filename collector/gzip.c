/*
 * gzip.c
 *		A gzip stream put together from parts compressed at different times.
 */
#include "gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

struct Gzip
{
	z_stream stream;
};

/* magic, deflate, no flags, no time, fastest algorithm, Unix */
const unsigned char gzip_header[GZIP_HEADER_LENGTH] = {
	0x1f, 0x8b, Z_DEFLATED, 0, 0, 0, 0, 0, 4, 3
};

Gzip *
gzip_create(void)
{
	Gzip *gzip = calloc(1, sizeof(*gzip));

	if (gzip == NULL)
		return NULL;

	/*
	 * Level 1: a refresh should not keep a core busy, and series that differ in
	 * a few digits compress 15 times even so.  Negative window bits: no header.
	 */
	if (deflateInit2(&gzip->stream, 1, Z_DEFLATED, -MAX_WBITS, 8,
					 Z_DEFAULT_STRATEGY) != Z_OK)
	{
		free(gzip);
		return NULL;
	}
	return gzip;
}

void
gzip_free(Gzip *gzip)
{
	if (gzip == NULL)
		return;
	deflateEnd(&gzip->stream);
	free(gzip);
}

uint32_t
gzip_checksum(const char *bytes, size_t length)
{
	uLong crc = crc32_z(0L, Z_NULL, 0);

	return (uint32_t) crc32_z(crc, (const Bytef *) bytes, length);
}

uint32_t
gzip_combine(uint32_t first, uint32_t second, size_t second_length)
{
	return (uint32_t) crc32_combine(first, second, (z_off_t) second_length);
}

bool
gzip_part(Gzip *gzip, const char *bytes, size_t length, Text *out)
{
	z_stream *stream = &gzip->stream;

	/* Only a stream in disorder fails here, and this one is never left in it. */
	if (deflateReset(stream) != Z_OK)
	{
		out->failed = true;
		return false;
	}
	stream->next_in = (Bytef *) (uintptr_t) bytes;
	stream->avail_in = 0;

	for (;;)
	{
		bool last;
		size_t room;

		if (stream->avail_in == 0 && length > 0)
		{
			stream->avail_in = length > UINT_MAX ? UINT_MAX : (uInt) length;
			length -= stream->avail_in;
		}
		last = length == 0;

		/*
		 * A full flush is complete when deflate() returns with room left; the
		 * floor below keeps a second call from writing a second flush marker.
		 */
		if (!text_reserve(out, 4096))
			return false;
		room = out->capacity - out->length;
		if (room > UINT_MAX)
			room = UINT_MAX;
		stream->next_out = (Bytef *) out->data + out->length;
		stream->avail_out = (uInt) room;
		if (deflate(stream, last ? Z_FULL_FLUSH : Z_NO_FLUSH) == Z_STREAM_ERROR)
		{
			out->failed = true;
			return false;
		}
		out->length += room - stream->avail_out;
		if (last && stream->avail_in == 0 && stream->avail_out > 0)
			return true;
	}
}

void
gzip_trailer(unsigned char trailer[GZIP_TRAILER_LENGTH], uint32_t checksum,
			 uint64_t length)
{
	/* an empty last block with fixed codes, as deflate would end a stream */
	trailer[0] = 0x03;
	trailer[1] = 0x00;
	for (int i = 0; i < 4; i++)
	{
		trailer[2 + i] = (unsigned char) (checksum >> (8 * i));
		trailer[6 + i] = (unsigned char) (length >> (8 * i));
	}
}

/*
 * answer.c
 *		What is said to a request.
 */
#include "answer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"
#include "gzip.h"
#include "json.h"
#include "metrics.h"
#include "negotiate.h"
#include "page.h"
#include "snapshot.h"

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS \
	"application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_PLAIN "text/plain; charset=utf-8"
#define TYPE_HTML "text/html; charset=utf-8"
#define TYPE_JSON "application/json; charset=utf-8"

static const AnswerOptions *options;

/* Answers without memory of their own; immutable, shared by all requests. */
static struct MHD_Response *not_found;
static struct MHD_Response *not_allowed;
static struct MHD_Response *no_memory;
static struct MHD_Response *no_snapshot;
static struct MHD_Response *alive;

/*
 * The last answer to /metrics in each format and encoding, with which it was
 * made, and the compressor for their heads.  recent_lock guards all of it: the
 * library's thread makes answers, the one that accepts connections drops them
 * when they are old.
 */
#define RECENT_NS (INT64_C(10) * 1000000)

typedef struct Recent
{
	struct MHD_Response *response; /* holds a reference to the snapshot */
	const Snapshot *snapshot;	   /* NULL: a standby's answer */
	int64_t made_ns;
} Recent;

static pthread_mutex_t recent_lock = PTHREAD_MUTEX_INITIALIZER;
static Recent recents[2][2]; /* by TextFormat; plain, compressed */
static Gzip *gzip;

/*
 * What an answer with queue series owns, until the library has sent it.
 */
typedef struct Exposition
{
	Snapshot *snapshot; /* NULL on a standby */
	Text head;			/* rendered for this request */
	unsigned char trailer[GZIP_TRAILER_LENGTH];
} Exposition;

static void
drop(struct MHD_Response **response)
{
	if (*response != NULL)
		MHD_destroy_response(*response);
	*response = NULL;
}

static void
exposition_free(void *closure)
{
	Exposition *exposition = closure;

	snapshot_release(exposition->snapshot);
	text_free(&exposition->head);
	free(exposition);
}

/*
 * Add headers to a response just made; without memory for them it is given up.
 */
static struct MHD_Response *
with_headers(struct MHD_Response *response, const char *type,
			 const char *extra, const char *value)
{
	if (response == NULL)
		return NULL;
	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES ||
		(extra != NULL && MHD_add_response_header(response, extra, value) != MHD_YES))
	{
		MHD_destroy_response(response);
		return NULL;
	}
	return response;
}

static struct MHD_Response *
make_fixed(const char *body, const char *type, const char *extra, const char *value)
{
	return with_headers(MHD_create_response_from_buffer(strlen(body),
														(void *) (uintptr_t) body,
														MHD_RESPMEM_PERSISTENT),
						type, extra, value);
}

bool
answer_start(const AnswerOptions *answer_options)
{
	options = answer_options;
	not_found = make_fixed("not found\n", TYPE_PLAIN, NULL, NULL);
	not_allowed = make_fixed("method not allowed\n", TYPE_PLAIN,
							 MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	no_memory = make_fixed("out of memory\n", TYPE_PLAIN,
						   MHD_HTTP_HEADER_RETRY_AFTER, "1");
	no_snapshot = make_fixed("{\"error\":\"this replica has no snapshot; "
							 "the leader has it\"}\n",
							 TYPE_JSON,
							 MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	alive = make_fixed("alive\n", TYPE_PLAIN, NULL, NULL);
	gzip = gzip_create();
	if (gzip != NULL && not_found != NULL && not_allowed != NULL &&
		no_memory != NULL && no_snapshot != NULL && alive != NULL)
		return true;
	answer_stop();
	return false;
}

void
answer_stop(void)
{
	answer_expire(INT64_MAX);
	drop(&not_found);
	drop(&not_allowed);
	drop(&no_memory);
	drop(&no_snapshot);
	drop(&alive);
	gzip_free(gzip);
	gzip = NULL;
}

HttpHandler
answer_handler(const char *path)
{
	static const struct
	{
		const char *path;
		HttpHandler handler;
	} pages[] = {
		{ "/metrics", HANDLER_METRICS },
		{ "/health/live", HANDLER_LIVE },
		{ "/livez", HANDLER_LIVE },
		{ "/health/ready", HANDLER_READY },
		{ "/readyz", HANDLER_READY },
		{ "/", HANDLER_STATUS },
		{ "/api/v1/snapshot", HANDLER_SNAPSHOT }
	};

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
	{
		if (strcmp(path, pages[i].path) == 0)
			return pages[i].handler;
	}
	return HANDLER_OTHER;
}

bool
answer_method_allowed(const char *method)
{
	return strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		   strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/*
 * Collect the pieces of an answer to /metrics: what was rendered for this
 * request, what was rendered with the snapshot, and what ends the format.
 */
typedef struct Pieces
{
	struct MHD_IoVec parts[2 * BODY_FAMILIES + 4];
	unsigned count;
} Pieces;

static void
add_piece(Pieces *pieces, const void *bytes, size_t length)
{
	pieces->parts[pieces->count].iov_base = bytes;
	pieces->parts[pieces->count].iov_len = length;
	pieces->count++;
}

static void
add_view(Pieces *pieces, const BodyView *view)
{
	for (int i = 0; i < view->count; i++)
		add_piece(pieces, view->parts[i].iov_base, view->parts[i].iov_len);
}

static const char openmetrics_end[] = "# EOF\n";

/*
 * The end of an OpenMetrics answer in deflated form: one block with the bytes as
 * they are (not last, length, its complement), so that it needs no compressor.
 */
static const unsigned char openmetrics_end_deflated[] = {
	0x00, 6, 0, (unsigned char) ~6, 0xff, '#', ' ', 'E', 'O', 'F', '\n'
};

static void
plain_pieces(Pieces *pieces, Exposition *exposition, TextFormat format)
{
	add_piece(pieces, exposition->head.data, exposition->head.length);
	if (exposition->snapshot != NULL)
		add_view(pieces, &snapshot_body(exposition->snapshot)->plain[format]);
	if (format == FORMAT_OPENMETRICS)
		add_piece(pieces, openmetrics_end, strlen(openmetrics_end));
}

/*
 * The same, compressed: only the head is deflated now.
 */
static bool
gzip_pieces(Pieces *pieces, Exposition *exposition, TextFormat format)
{
	Text deflated = TEXT_EMPTY;
	uint32_t checksum;
	uint64_t length = exposition->head.length;

	if (!gzip_part(gzip, exposition->head.data, exposition->head.length, &deflated))
	{
		text_free(&deflated);
		return false;
	}
	checksum = gzip_checksum(exposition->head.data, exposition->head.length);
	text_free(&exposition->head);
	exposition->head = deflated;

	add_piece(pieces, gzip_header, sizeof(gzip_header));
	add_piece(pieces, exposition->head.data, exposition->head.length);
	if (exposition->snapshot != NULL)
	{
		const Body *body = snapshot_body(exposition->snapshot);

		add_view(pieces, &body->deflated[format]);
		checksum = gzip_combine(checksum, body->checksum[format],
								body->plain[format].length);
		length += body->plain[format].length;
	}
	if (format == FORMAT_OPENMETRICS)
	{
		size_t end = strlen(openmetrics_end);

		add_piece(pieces, openmetrics_end_deflated, sizeof(openmetrics_end_deflated));
		checksum = gzip_combine(checksum, gzip_checksum(openmetrics_end, end), end);
		length += end;
	}
	gzip_trailer(exposition->trailer, checksum, length);
	add_piece(pieces, exposition->trailer, sizeof(exposition->trailer));
	return true;
}

/*
 * Up to this size the pieces are copied together: the library sends one buffer
 * together with its head at once, pieces one after the other, which at 300 kB took
 * twice the time.  Above, the copy costs more than that.
 */
#define JOIN_BYTES (1024 * 1024)

/*
 * A response of these pieces; frees what they belong to, at once or when the
 * library is done with it, and at failure too.
 */
static struct MHD_Response *
from_pieces(const Pieces *pieces, Exposition *exposition)
{
	struct MHD_Response *response = NULL;
	Text joined = TEXT_EMPTY;
	size_t length = 0;

	for (unsigned i = 0; i < pieces->count; i++)
		length += pieces->parts[i].iov_len;
	if (length > JOIN_BYTES)
		response = MHD_create_response_from_iovec(pieces->parts, pieces->count,
												  exposition_free, exposition);
	else if (text_reserve(&joined, length))
	{
		for (unsigned i = 0; i < pieces->count; i++)
			text_bytes(&joined, pieces->parts[i].iov_base, pieces->parts[i].iov_len);
		response = MHD_create_response_from_buffer(length, joined.data,
												   MHD_RESPMEM_MUST_FREE);
		if (response == NULL)
			text_free(&joined);
	}
	if (length <= JOIN_BYTES || response == NULL)
		exposition_free(exposition);
	return response;
}

/*
 * Makes the whole answer; takes over the reference to the snapshot, which is NULL
 * on a standby.
 */
static struct MHD_Response *
make_exposition(TextFormat format, bool compressed, Snapshot *snapshot,
				int64_t now_ns)
{
	Exposition *exposition = calloc(1, sizeof(*exposition));
	ProcessUsage process;
	MetricsContext context = { now_ns, options->version, &process };
	Pieces pieces = { .count = 0 };
	struct MHD_Response *response;
	bool ready;

	if (exposition == NULL)
	{
		snapshot_release(snapshot);
		return NULL;
	}
	exposition->snapshot = snapshot;
	process_usage(&process);
	text_reserve(&exposition->head, 16384);
	metrics_render(&exposition->head, format, &context, snapshot);
	ready = !exposition->head.failed;
	if (ready && compressed)
		ready = gzip_pieces(&pieces, exposition, format);
	else if (ready)
		plain_pieces(&pieces, exposition, format);
	if (!ready)
	{
		exposition_free(exposition);
		return NULL;
	}
	response = with_headers(from_pieces(&pieces, exposition),
							format == FORMAT_TEXT ? TYPE_TEXT : TYPE_OPENMETRICS,
							MHD_HTTP_HEADER_VARY,
							options->enable_openmetrics ? "Accept, Accept-Encoding" :
														  "Accept-Encoding");
	if (response != NULL && compressed &&
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING,
								"gzip") != MHD_YES)
		drop(&response);
	return response;
}

static enum MHD_Result
queue_counted(struct MHD_Connection *connection, HttpHandler handler,
			  HttpCode code, struct MHD_Response *response)
{
	static const unsigned status_codes[CODE_COUNT] = {
		[CODE_200] = MHD_HTTP_OK,
		[CODE_404] = MHD_HTTP_NOT_FOUND,
		[CODE_405] = MHD_HTTP_METHOD_NOT_ALLOWED,
		[CODE_503] = MHD_HTTP_SERVICE_UNAVAILABLE
	};

	if (response == NULL)
	{
		response = no_memory;
		code = CODE_503;
	}
	status_http_request(handler, code);
	return MHD_queue_response(connection, status_codes[code], response);
}

/*
 * Scrapes that come within ten milliseconds of each other share one answer.
 * What may be said is still decided for each request: when the snapshot has been
 * replaced, withdrawn, or has passed its fence, the recent answer is not for it.
 */
static enum MHD_Result
answer_metrics(struct MHD_Connection *connection)
{
	TextFormat format = FORMAT_TEXT;
	int64_t now_ns = boottime_ns();
	bool compressed;
	Snapshot *snapshot;
	Recent *recent;
	enum MHD_Result result;

	if (options->enable_openmetrics)
		format = negotiate_format(MHD_lookup_connection_value(connection,
															  MHD_HEADER_KIND,
															  MHD_HTTP_HEADER_ACCEPT));
	compressed = negotiate_gzip(MHD_lookup_connection_value(connection,
															MHD_HEADER_KIND,
															MHD_HTTP_HEADER_ACCEPT_ENCODING));
	snapshot = snapshot_acquire(now_ns);
	recent = &recents[format][compressed];

	pthread_mutex_lock(&recent_lock);
	if (recent->response != NULL && recent->snapshot == snapshot &&
		now_ns - recent->made_ns < RECENT_NS)
		snapshot_release(snapshot);
	else
	{
		drop(&recent->response);
		recent->response = make_exposition(format, compressed, snapshot, now_ns);
		recent->snapshot = snapshot;
		recent->made_ns = now_ns;
	}

	/* Queueing takes a reference of its own, so it comes before the unlock. */
	result = queue_counted(connection, HANDLER_METRICS, CODE_200, recent->response);
	pthread_mutex_unlock(&recent_lock);
	return result;
}

void
answer_expire(int64_t now_ns)
{
	pthread_mutex_lock(&recent_lock);
	for (int f = 0; f < 2; f++)
	{
		for (int c = 0; c < 2; c++)
		{
			if (now_ns - recents[f][c].made_ns >= RECENT_NS)
				drop(&recents[f][c].response);
		}
	}
	pthread_mutex_unlock(&recent_lock);
}

/*
 * A small answer made for this request; takes over the buffer.
 */
static struct MHD_Response *
from_text(Text *text, const char *type)
{
	struct MHD_Response *response;

	if (text->failed || text->length == 0)
	{
		text_free(text);
		return NULL;
	}
	response = MHD_create_response_from_buffer(text->length, text->data,
											   MHD_RESPMEM_MUST_FREE);
	if (response == NULL)
		text_free(text);
	return with_headers(response, type, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}

static struct MHD_Response *
answer_ready(HttpCode *code)
{
	Text text = TEXT_EMPTY;
	const char *words;

	*code = page_ready(boottime_ns(), &words) ? CODE_200 : CODE_503;
	text_string(&text, words);
	return from_text(&text, TYPE_PLAIN);
}

static struct MHD_Response *
answer_status(HttpCode *code)
{
	Text text = TEXT_EMPTY;
	PageContext context = { boottime_ns(), options->version, options->instance };
	Snapshot *snapshot = snapshot_acquire(context.now_ns);

	page_render(&text, &context, snapshot);
	snapshot_release(snapshot);
	*code = CODE_200;
	return from_text(&text, TYPE_HTML);
}

/*
 * A JSON document on its way: what is rendered of it and not sent yet, and the
 * queue that comes next.
 */
typedef struct JsonReader
{
	Snapshot *snapshot;
	int64_t next;
	bool closed;
	Text text;
	size_t sent;
} JsonReader;

static void
json_reader_free(void *closure)
{
	JsonReader *reader = closure;

	snapshot_release(reader->snapshot);
	text_free(&reader->text);
	free(reader);
}

static ssize_t
json_reader_read(void *closure, uint64_t position, char *buffer, size_t size)
{
	JsonReader *reader = closure;
	size_t length;

	(void) position; /* always where the last call ended */
	if (reader->sent == reader->text.length)
	{
		reader->text.length = 0;
		reader->sent = 0;

		/* as much as the library can send at once */
		while (reader->text.length < size &&
			   reader->next < snapshot_queues(reader->snapshot))
			json_queue(&reader->text, reader->snapshot, reader->next++);
		if (reader->text.length < size && !reader->closed)
		{
			json_close(&reader->text);
			reader->closed = true;
		}
		if (reader->text.failed)
			return MHD_CONTENT_READER_END_WITH_ERROR;
		if (reader->text.length == 0)
			return MHD_CONTENT_READER_END_OF_STREAM;
	}
	length = reader->text.length - reader->sent;
	if (length > size)
		length = size;
	memcpy(buffer, reader->text.data + reader->sent, length);
	reader->sent += length;
	return (ssize_t) length;
}

static struct MHD_Response *
answer_snapshot(HttpCode *code)
{
	int64_t now_ns = boottime_ns();
	JsonReader *reader = calloc(1, sizeof(*reader));
	struct MHD_Response *response;

	if (reader == NULL)
		return NULL;
	reader->snapshot = snapshot_acquire(now_ns);
	if (reader->snapshot == NULL)
	{
		json_reader_free(reader);
		*code = CODE_503;
		return no_snapshot;
	}
	json_open(&reader->text, reader->snapshot, now_ns);
	if (reader->text.failed)
	{
		json_reader_free(reader);
		return NULL;
	}
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768,
												 json_reader_read, reader,
												 json_reader_free);
	if (response == NULL)
		json_reader_free(reader);
	*code = CODE_200;
	return with_headers(response, TYPE_JSON, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}

/*
 * The answers that are not /metrics: small, and made for each request.
 */
static struct MHD_Response *
answer_small(HttpHandler handler, HttpCode *code)
{
	switch (handler)
	{
		case HANDLER_READY:
			return answer_ready(code);
		case HANDLER_STATUS:
			return answer_status(code);
		case HANDLER_SNAPSHOT:
			return answer_snapshot(code);
		default:
			*code = CODE_200;
			return alive;
	}
}

static bool
is_shared(const struct MHD_Response *response)
{
	return response == no_snapshot || response == alive;
}

enum MHD_Result
answer_request(struct MHD_Connection *connection, HttpHandler handler,
			   bool allowed)
{
	HttpCode code = CODE_503;
	struct MHD_Response *response;
	enum MHD_Result result;

	if (handler == HANDLER_OTHER)
		return queue_counted(connection, handler, CODE_404, not_found);
	if (!allowed)
		return queue_counted(connection, handler, CODE_405, not_allowed);
	if (handler == HANDLER_METRICS)
		return answer_metrics(connection);

	response = answer_small(handler, &code);
	result = queue_counted(connection, handler, code, response);
	if (response != NULL && !is_shared(response))
		MHD_destroy_response(response);
	return result;
}

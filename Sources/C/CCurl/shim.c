#define _GNU_SOURCE
#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Options and facts of a transfer by libcurl's numbers; behind each the type that goes with it.
enum {
  OPTION_POST = 47,                // long
  OPTION_HTTP_VERSION = 84,        // long
  OPTION_NO_SIGNAL = 99,           // long
  OPTION_TIMEOUT_MS = 155,         // long
  OPTION_CONNECT_TIMEOUT_MS = 156, // long
  OPTION_PROTOCOLS = 181,          // long
  OPTION_BODY_CONTEXT = 10001,     // pointer
  OPTION_URL = 10002,              // text
  OPTION_ERROR_TEXT = 10010,       // 256 characters
  OPTION_POSTED = 10015,           // octets
  OPTION_AGENT = 10018,            // text
  OPTION_HEADERS = 10023,          // list
  OPTION_HEAD_CONTEXT = 10029,     // pointer
  OPTION_CA_FILE = 10065,          // text
  OPTION_BODY_FUNCTION = 20011,
  OPTION_HEAD_FUNCTION = 20079,
  OPTION_POSTED_COUNT = 30120, // int64_t
  FACT_STATUS = 0x200002,      // long
  FACT_RETRY_AFTER = 0x600039, // int64_t; since 7.66
};
static const long http_and_https = 1 | 2, version_1_1 = 2, everything = 3;
static const int done = 1, failed_to_begin = 2, aborted = 42;

struct list;

// What the library tells of a transfer that has ended: its code.
struct message {
  int kind;
  void *curl;
  union {
    void *any;
    int code;
  } data;
};

#define FUNCTIONS(X)                                                                                                   \
  X(int, global_init, (long flags))                                                                                    \
  X(void *, easy_init, (void))                                                                                         \
  X(int, easy_setopt, (void *curl, int option, ...))                                                                   \
  X(int, easy_getinfo, (void *curl, int fact, ...))                                                                    \
  X(void, easy_cleanup, (void *curl))                                                                                  \
  X(const char *, easy_strerror, (int code))                                                                           \
  X(void *, multi_init, (void))                                                                                        \
  X(int, multi_add_handle, (void *multi, void *curl))                                                                  \
  X(int, multi_remove_handle, (void *multi, void *curl))                                                               \
  X(int, multi_perform, (void *multi, int *running))                                                                   \
  X(int, multi_poll, (void *multi, void *extra, unsigned count, int milliseconds, int *ready))                         \
  X(int, multi_wakeup, (void *multi))                                                                                  \
  X(struct message *, multi_info_read, (void *multi, int *left))                                                       \
  X(int, multi_cleanup, (void *multi))                                                                                 \
  X(struct list *, slist_append, (struct list *list, const char *text))                                                \
  X(void, slist_free_all, (struct list *list))

// The library's functions by the names that they have there without `curl_`.
#define DECLARE(type, name, arguments) type(*name) arguments;
static struct {
  FUNCTIONS(DECLARE)
} library;

static const char *problem = "not opened";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *text = dlerror();
    problem = text == NULL ? "dlopen failed" : strdup(text);
    // Debian's other build of it, which many programs bring along.
    handle = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == NULL) return;
#define FIND(type, name, arguments)                                                                                    \
  *(void **)&library.name = dlsym(handle, "curl_" #name);                                                              \
  if (*(void **)&library.name == NULL) {                                                                               \
    problem = "it has no curl_" #name;                                                                                 \
    return;                                                                                                            \
  }
  FUNCTIONS(FIND)
  problem = library.global_init(everything) == 0 ? NULL : "curl_global_init failed";
}

const char *ringtap_http_load(void) {
  pthread_once(&once, load);
  return problem;
}

struct ringtap_http {
  void *multi;
  void *curl;
  struct list *headers;
  atomic_bool is_cancelled;
  size_t limit;
  size_t head_count;
  size_t body_count;
  int64_t retry_seconds;
  char text[512];
  char problem[256];
};

static size_t take_head(const char *octets, size_t size, size_t count, void *context) {
  struct ringtap_http *http = context;
  http->head_count += count;
  return http->head_count > http->limit ? 0 : count;
}

static size_t take_body(const char *octets, size_t size, size_t count, void *context) {
  struct ringtap_http *http = context;
  size_t room = http->body_count < sizeof http->text - 1 ? sizeof http->text - 1 - http->body_count : 0;
  memcpy(http->text + http->body_count, octets, count < room ? count : room);
  http->body_count += count;
  return http->body_count > http->limit ? 0 : count;
}

static bool append(struct ringtap_http *http, const char *name, const char *value) {
  char *line = malloc(strlen(name) + strlen(value) + 1);
  if (line == NULL) return false;
  strcat(strcpy(line, name), value);
  struct list *longer = library.slist_append(http->headers, line);
  free(line);
  if (longer != NULL) http->headers = longer;
  return longer != NULL;
}

static bool set_up(struct ringtap_http *http, const struct ringtap_http_options *options) {
  http->multi = library.multi_init();
  http->curl = library.easy_init();
  if (http->multi == NULL || http->curl == NULL || !append(http, "Content-Type: ", "text/plain; charset=utf-8")) return false;
  if (options->authorization != NULL && !append(http, "Authorization: ", options->authorization)) return false;
#define SET(option, value)                                                                                             \
  if (library.easy_setopt(http->curl, option, value) != 0) return false;
  SET(OPTION_URL, options->url)
  SET(OPTION_PROTOCOLS, http_and_https)
  SET(OPTION_HTTP_VERSION, version_1_1)
  SET(OPTION_NO_SIGNAL, 1L)
  SET(OPTION_POST, 1L)
  SET(OPTION_HEADERS, http->headers)
  SET(OPTION_AGENT, options->agent)
  SET(OPTION_CONNECT_TIMEOUT_MS, (long)options->connect_timeout_milliseconds)
  SET(OPTION_TIMEOUT_MS, (long)options->timeout_milliseconds)
  SET(OPTION_ERROR_TEXT, http->problem)
  SET(OPTION_HEAD_FUNCTION, take_head)
  SET(OPTION_HEAD_CONTEXT, http)
  SET(OPTION_BODY_FUNCTION, take_body)
  SET(OPTION_BODY_CONTEXT, http)
  if (options->ca_file != NULL) SET(OPTION_CA_FILE, options->ca_file)
  return true;
}

struct ringtap_http *ringtap_http_new(const struct ringtap_http_options *options) {
  struct ringtap_http *http = calloc(1, sizeof *http);
  if (http == NULL) return NULL;
  http->limit = options->answer_byte_count;
  if (set_up(http, options)) return http;
  ringtap_http_free(http);
  return NULL;
}

// Returns the library's code for how the transfer ended.
static int perform(struct ringtap_http *http) {
  if (library.multi_add_handle(http->multi, http->curl) != 0) return failed_to_begin;
  int running = 1, left = 0;
  while (running > 0 && !atomic_load(&http->is_cancelled)) {
    if (library.multi_perform(http->multi, &running) != 0) break;
    if (running > 0 && library.multi_poll(http->multi, NULL, 0, 1000, NULL) != 0) break;
  }
  const struct message *message = library.multi_info_read(http->multi, &left);
  int code = message != NULL && message->kind == done ? message->data.code : aborted;
  library.multi_remove_handle(http->multi, http->curl);
  return code;
}

int ringtap_http_post(struct ringtap_http *http, const uint8_t *octets, size_t count) {
  http->head_count = http->body_count = 0;
  http->retry_seconds = 0;
  memset(http->text, 0, sizeof http->text);
  http->problem[0] = 0;
  library.easy_setopt(http->curl, OPTION_POSTED_COUNT, (int64_t)count);
  library.easy_setopt(http->curl, OPTION_POSTED, octets);
  int code = perform(http);
  if (code != 0 && http->problem[0] == 0) strncpy(http->problem, library.easy_strerror(code), sizeof http->problem - 1);
  long status = 0;
  library.easy_getinfo(http->curl, FACT_STATUS, &status);
  library.easy_getinfo(http->curl, FACT_RETRY_AFTER, &http->retry_seconds);
  // Before the last answer there may be interim ones. Once that has a status, what comes behind it changes nothing.
  return status < 200 ? 0 : (int)status;
}

const char *ringtap_http_text(const struct ringtap_http *http) { return http->text; }
const char *ringtap_http_problem(const struct ringtap_http *http) { return http->problem; }
int64_t ringtap_http_retry_seconds(const struct ringtap_http *http) { return http->retry_seconds; }

void ringtap_http_cancel(struct ringtap_http *http) {
  atomic_store(&http->is_cancelled, true);
  library.multi_wakeup(http->multi);
}

void ringtap_http_free(struct ringtap_http *http) {
  if (http == NULL) return;
  if (http->curl != NULL) library.easy_cleanup(http->curl);
  if (http->multi != NULL) library.multi_cleanup(http->multi);
  library.slist_free_all(http->headers);
  free(http);
}

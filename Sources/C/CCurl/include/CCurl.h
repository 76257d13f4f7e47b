// libcurl, opened when it is first needed: a recording does not depend on it, and a machine without it gets a message instead
// of a program that does not start.
//
// Swift cannot call it as it is: its functions take any type behind the dots. What is declared in shim.c keeps its binary
// interface within `libcurl.so.4`, so no headers are needed.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// One address that things are posted to, and the connection to it. One thread uses it, but for `ringtap_http_cancel`.
struct ringtap_http;

/// Texts may be gone after the call; NULL for what is not there.
struct ringtap_http_options {
  /// `http:` or `https:`; no other scheme is spoken, and no redirection followed. A server's certificate is checked.
  const char *url;
  /// The value of the header of that name.
  const char *authorization;
  /// PEM; NULL: those that the system trusts.
  const char *ca_file;
  const char *agent;
  int connect_timeout_milliseconds;
  /// Of all of it, the connection included.
  int timeout_milliseconds;
  /// Of an answer's head, and of its body, which may be longer than what is kept: then the connection is closed.
  size_t answer_byte_count;
};

/// Opens the library, once.
///
/// Returns NULL, or why it cannot be used: a text that stays.
const char *ringtap_http_load(void);

/// Returns NULL without memory, or where the library knows no such option.
struct ringtap_http *ringtap_http_new(const struct ringtap_http_options *options);

/// Posts the octets as plain text, and waits for the answer.
///
/// Returns the answer's status, or 0 where none came.
int ringtap_http_post(struct ringtap_http *http, const uint8_t *octets, size_t count);

/// The beginning of the answer's body, until its first zero.
const char *ringtap_http_text(const struct ringtap_http *http);
/// Why no answer came, in the words of the library.
const char *ringtap_http_problem(const struct ringtap_http *http);
/// The answer's Retry-After; 0 without.
int64_t ringtap_http_retry_seconds(const struct ringtap_http *http);

/// Ends a post that is under way, at once, and lets no other begin. From any thread.
void ringtap_http_cancel(struct ringtap_http *http);

void ringtap_http_free(struct ringtap_http *http);

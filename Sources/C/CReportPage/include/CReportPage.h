// The files of the pages of `ringtap report` and `--to ws:`, as they stand beside this: Swift cannot embed a file.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum ringtap_page_file {
  RINGTAP_PAGE_STYLE,
  RINGTAP_PAGE_DATA,
  RINGTAP_PAGE_CHARTS,
  RINGTAP_PAGE_SCRIPT,
  RINGTAP_PAGE_LIVE_STYLE,
  RINGTAP_PAGE_LIVE_SCRIPT,
  RINGTAP_PAGE_LIBRARY,
  RINGTAP_PAGE_LIBRARY_STYLE,
  RINGTAP_PAGE_LIBRARY_LICENCE,
};

/// The octets of a file, which live as long as the program; `count` tells how many.
const uint8_t *ringtap_page_file(enum ringtap_page_file file, size_t *count);

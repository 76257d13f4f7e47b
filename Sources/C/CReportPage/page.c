#include "CReportPage.h"

// The compiler that comes with Swift has `#embed`, whichever C it is asked for.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t style[] = {
#embed "page.css"
};
static const uint8_t data[] = {
#embed "data.js"
};
static const uint8_t charts[] = {
#embed "charts.js"
};
static const uint8_t script[] = {
#embed "page.js"
};
static const uint8_t live_style[] = {
#embed "live.css"
};
static const uint8_t live_script[] = {
#embed "live.js"
};
// dygraphs 2.2.1, as Debian's libjs-dygraphs has it.
static const uint8_t library[] = {
#embed "dygraph.min.js"
};
static const uint8_t library_style[] = {
#embed "dygraph.min.css"
};
static const uint8_t library_licence[] = {
#embed "dygraph.LICENSE"
};

#define FILE(name)            \
  do {                        \
    *count = sizeof(name);    \
    return name;              \
  } while (0)

const uint8_t *ringtap_page_file(enum ringtap_page_file file, size_t *count) {
  switch (file) {
  case RINGTAP_PAGE_STYLE: FILE(style);
  case RINGTAP_PAGE_DATA: FILE(data);
  case RINGTAP_PAGE_CHARTS: FILE(charts);
  case RINGTAP_PAGE_SCRIPT: FILE(script);
  case RINGTAP_PAGE_LIVE_STYLE: FILE(live_style);
  case RINGTAP_PAGE_LIVE_SCRIPT: FILE(live_script);
  case RINGTAP_PAGE_LIBRARY: FILE(library);
  case RINGTAP_PAGE_LIBRARY_STYLE: FILE(library_style);
  case RINGTAP_PAGE_LIBRARY_LICENCE: FILE(library_licence);
  }
  *count = 0;
  return 0;
}

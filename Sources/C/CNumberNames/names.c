#include "CNumberNames.h"

// The compiler that comes with Swift has `#embed`, whichever C it is asked for.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t companies[] = {
#embed "companies.txt"
};
static const uint8_t appearances[] = {
#embed "appearances.txt"
};

const uint8_t *ringtap_company_names(size_t *count) {
  *count = sizeof(companies);
  return companies;
}

const uint8_t *ringtap_appearance_names(size_t *count) {
  *count = sizeof(appearances);
  return appearances;
}

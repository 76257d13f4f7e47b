// The Bluetooth SIG's numbers with their names, one per line: four hexadecimal digits, a space, the name in
// UTF-8. Bluetooth Assigned Numbers, sections 7.1 (companies) and 2.6 (appearances).
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Both return a text that lives as long as the program, and its size in bytes.
const uint8_t *ringtap_company_names(size_t *count);
const uint8_t *ringtap_appearance_names(size_t *count);

// P-256 by OpenSSL's libcrypto, opened when it is first needed: who does not pair needs no such library, and who builds
// needs no headers of it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Opens the library, once.
///
/// Returns NULL, or why it cannot be used: a text that stays.
const char *ringtap_p256_load(void);

/// Multiplies a point by a number, in a time that does not depend on the number. Only once the library is open.
///
/// - number: 32 octets, most significant first.
/// - point: x and y, 32 octets each, most significant first; NULL for the base point.
/// - product: as `point`.
///
/// Returns false where the number is 0 or not below the curve's order, where the point is not on the curve, and without
/// memory.
bool ringtap_p256_multiply(const uint8_t *number, const uint8_t *point, uint8_t *product);

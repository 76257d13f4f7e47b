// zlib and libzstd behind one streaming call.
//
// Swift cannot call them as they are: inflateInit2 is a function-like macro, and the two libraries' buffer
// structures would need pointers that outlive a call.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum ringtap_compression { RINGTAP_GZIP = 1, RINGTAP_ZSTD = 2 };

/// State of one stream, or NULL without memory.
struct ringtap_decompressor;
struct ringtap_decompressor *ringtap_decompressor_open(int compression);
void ringtap_decompressor_close(struct ringtap_decompressor *stream);

/// Takes octets from `input` and puts octets to `output`; `taken` and `given` tell how many.
///
/// Members and frames that follow one another are read on. Returns 1 where the stream may end, 0 inside a
/// frame, -1 for damage.
int ringtap_decompress(struct ringtap_decompressor *stream, const uint8_t *input, size_t input_count, size_t *taken,
                       uint8_t *output, size_t output_count, size_t *given);

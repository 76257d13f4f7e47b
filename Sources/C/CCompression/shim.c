#include "CCompression.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

// A frame may ask for a window; more than 8 MiB (what `zstd` itself needs up to level 19) is refused.
#define WINDOW_LOG_MAX 23

struct ringtap_decompressor {
  int compression;
  int at_end;
  z_stream zlib;
  ZSTD_DStream *zstd;
};

struct ringtap_decompressor *ringtap_decompressor_open(int compression) {
  struct ringtap_decompressor *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return NULL;
  stream->compression = compression;
  int opened;
  if (compression == RINGTAP_GZIP) {
    // 15 bits of window, and 16: a gzip header.
    opened = inflateInit2(&stream->zlib, 15 + 16) == Z_OK;
  } else {
    stream->zstd = ZSTD_createDStream();
    opened = stream->zstd != NULL &&
             !ZSTD_isError(ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX));
    if (!opened) ZSTD_freeDStream(stream->zstd);
  }
  if (!opened) {
    free(stream);
    return NULL;
  }
  return stream;
}

void ringtap_decompressor_close(struct ringtap_decompressor *stream) {
  if (stream->compression == RINGTAP_GZIP) {
    inflateEnd(&stream->zlib);
  } else {
    ZSTD_freeDStream(stream->zstd);
  }
  free(stream);
}

static int gzip_step(struct ringtap_decompressor *stream, const uint8_t *input, size_t input_count, size_t *taken,
                     uint8_t *output, size_t output_count, size_t *given) {
  // Another member follows the one that ended.
  if (stream->at_end && input_count > 0 && inflateReset(&stream->zlib) != Z_OK) return -1;
  stream->at_end = stream->at_end && input_count == 0;
  stream->zlib.next_in = (uint8_t *)input;
  stream->zlib.avail_in = (uInt)input_count;
  stream->zlib.next_out = output;
  stream->zlib.avail_out = (uInt)output_count;
  int result = stream->at_end ? Z_OK : inflate(&stream->zlib, Z_NO_FLUSH);
  *taken = input_count - stream->zlib.avail_in;
  *given = output_count - stream->zlib.avail_out;
  if (result == Z_STREAM_END) stream->at_end = 1;
  return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? stream->at_end : -1;
}

static int zstd_step(struct ringtap_decompressor *stream, const uint8_t *input, size_t input_count, size_t *taken,
                     uint8_t *output, size_t output_count, size_t *given) {
  ZSTD_inBuffer in = {input, input_count, 0};
  ZSTD_outBuffer out = {output, output_count, 0};
  size_t result = ZSTD_decompressStream(stream->zstd, &out, &in);
  *taken = in.pos;
  *given = out.pos;
  if (ZSTD_isError(result)) return -1;
  // Without octets there is no progress, and the answer would be about the next frame.
  if (in.pos > 0 || out.pos > 0) stream->at_end = result == 0;
  return stream->at_end;
}

int ringtap_decompress(struct ringtap_decompressor *stream, const uint8_t *input, size_t input_count, size_t *taken,
                       uint8_t *output, size_t output_count, size_t *given) {
  if (stream->compression == RINGTAP_GZIP) {
    return gzip_step(stream, input, input_count, taken, output, output_count, given);
  }
  return zstd_step(stream, input, input_count, taken, output, output_count, given);
}

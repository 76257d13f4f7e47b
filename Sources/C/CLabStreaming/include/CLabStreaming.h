// liblsl, the library of the Lab Streaming Layer, opened when it is first needed: a recording does not depend on it, and a
// machine without it gets a message instead of a program that does not start.
//
// Swift cannot call what dlsym gives: it has no type there. Here are the types. What is declared keeps its binary interface
// within `liblsl.so.2`; Debian has no headers of it.
#pragma once

#include <stdint.h>

#pragma clang assume_nonnull begin

/// What a stream is: `lsl_streaminfo`.
struct lsl_streaminfo_struct_;
/// A stream that others may find: `lsl_outlet`.
struct lsl_outlet_struct_;
/// An element of a stream's description: `lsl_xml_ptr`.
struct lsl_xml_ptr_struct_;

/// The library's functions by the names that they have there behind `lsl_`. They copy what they are given.
struct ringtap_lsl {
  /// Seconds on the clock of all time stamps.
  double (*local_clock)(void);

  /// `rate` is 0 where there is none; `format` is 1 for float32, 2 for double64, 3 for strings. NULL where an argument is
  /// none.
  struct lsl_streaminfo_struct_ *_Nullable (*_Nonnull create_streaminfo)(const char *name, const char *type, int32_t channel_count,
                                                                double rate, int32_t format, const char *source_id);
  /// The root of the description. It belongs to `info`.
  struct lsl_xml_ptr_struct_ *_Nonnull (*_Nonnull get_desc)(struct lsl_streaminfo_struct_ *info);
  struct lsl_xml_ptr_struct_ *_Nonnull (*_Nonnull append_child)(struct lsl_xml_ptr_struct_ *element, const char *name);
  struct lsl_xml_ptr_struct_ *_Nonnull (*_Nonnull append_child_value)(struct lsl_xml_ptr_struct_ *element, const char *name,
                                                    const char *value);
  void (*destroy_streaminfo)(struct lsl_streaminfo_struct_ *info);

  /// Opens ports and starts threads. `max_buffered` bounds what waits for one receiver: seconds of samples, or without a
  /// rate hundreds of them. NULL where it is not possible.
  struct lsl_outlet_struct_ *_Nullable (*_Nonnull create_outlet)(struct lsl_streaminfo_struct_ *info, int32_t chunk_size,
                                                        int32_t max_buffered);
  int32_t (*have_consumers)(struct lsl_outlet_struct_ *outlet);
  /// Puts samples into the queue of each receiver, from which threads of the library send. A full queue loses its oldest
  /// sample. Returns 0, or an error below zero.
  int32_t (*push_chunk_dtnp)(struct lsl_outlet_struct_ *outlet, const double *values, unsigned long value_count,
                             const double *times, int32_t pushthrough);
  /// A sample of texts, one for each channel.
  int32_t (*push_sample_strtp)(struct lsl_outlet_struct_ *outlet, const char *_Nonnull *_Nonnull values, double time,
                               int32_t pushthrough);
  /// Ends its connections and threads: 25 ms and more.
  void (*destroy_outlet)(struct lsl_outlet_struct_ *outlet);
};

/// Opens the library, once: the file that RINGTAP_LIBLSL names, else where the system has it.
///
/// Returns NULL where it cannot be used; then `problem` is why: a text that stays.
const struct ringtap_lsl *_Nullable ringtap_lsl_load(const char *_Nullable *_Nonnull problem);

#pragma clang assume_nonnull end

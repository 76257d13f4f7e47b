// Counts what a thread allocates. Linked into a program, it stands in for the C library's allocator.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Calls of malloc, calloc, realloc, aligned_alloc, memalign and posix_memalign by this thread so far.
uint64_t malloc_counter_calls(void);

/// False under a sanitizer, which has an allocator of its own: then nothing is counted.
bool malloc_counter_counts(void);

/// From now on the time of each call, of any thread, is kept: of the latest 1,048,576. The callers of the first 65,536,
/// too, where they are wanted: that costs microseconds a call, and five mebibytes.
void malloc_counter_watch(bool with_callers);

/// Calls of all threads since `malloc_counter_watch` whose time, in nanoseconds of CLOCK_REALTIME, is in
/// `begin` ..< `end`; below zero where there were more calls than are kept.
int64_t malloc_counter_between(int64_t begin, int64_t end);

/// Writes to standard error who made the first `most` of those calls, as far as callers are kept: some lines each,
/// and an empty one, without an allocation.
void malloc_counter_tell(int64_t begin, int64_t end, int most);

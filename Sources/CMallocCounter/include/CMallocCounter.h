// Counts what a thread allocates. Linked into a test program, it stands in for the C library's allocator.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Calls of malloc, calloc, realloc, aligned_alloc, memalign and posix_memalign by this thread so far.
uint64_t malloc_counter_calls(void);

/// False under a sanitizer, which has an allocator of its own: then nothing is counted.
bool malloc_counter_counts(void);

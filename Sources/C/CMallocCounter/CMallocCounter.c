#include "CMallocCounter.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static _Thread_local uint64_t calls;

uint64_t malloc_counter_calls(void) { return calls; }

#define KEPT (1 << 20)
// Only of the first ones.
#define KEPT_CALLERS 65536

static atomic_bool watching;
static atomic_bool tracing;
static atomic_uint_fast64_t watched;
static atomic_int_fast64_t times[KEPT];

// The first two are this file's own.
#define CALLERS 10
static void *callers[KEPT_CALLERS][CALLERS];

void malloc_counter_watch(bool with_callers) {
  // The first call opens the library that knows the stack, which allocates.
  void *caller[1];
  if (with_callers) backtrace(caller, 1);
  atomic_store(&tracing, with_callers);
  atomic_store(&watching, true);
}

void malloc_counter_tell(int64_t begin, int64_t end, int most) {
  uint64_t count = atomic_load(&watched);
  if (count > KEPT_CALLERS) count = KEPT_CALLERS;
  for (uint64_t i = 0; i < count && most > 0; i++) {
    int64_t time = atomic_load(&times[i]);
    if (time < begin || time >= end) continue;
    most--;
    int known = CALLERS;
    while (known > 2 && callers[i][known - 1] == NULL) known--;
    backtrace_symbols_fd(callers[i] + 2, known - 2, STDERR_FILENO);
    if (write(STDERR_FILENO, "\n", 1) < 0) return;
  }
}

int64_t malloc_counter_between(int64_t begin, int64_t end) {
  uint64_t count = atomic_load(&watched);
  if (count > KEPT) {
    // What is kept must reach back to before the beginning.
    if (atomic_load(&times[count % KEPT]) >= begin) return -1;
    count = KEPT;
  }
  int64_t inside = 0;
  for (uint64_t i = 0; i < count; i++) {
    int64_t time = atomic_load(&times[i]);
    if (time >= begin && time < end) inside++;
  }
  return inside;
}

#ifdef SANITIZED

bool malloc_counter_counts(void) { return false; }

#else

bool malloc_counter_counts(void) { return true; }

// The C library's own, under the names that it exports for stand-ins like these.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static __attribute__((noinline)) void note(void) {
  calls++;
  if (!atomic_load_explicit(&watching, memory_order_relaxed)) return;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t count = atomic_fetch_add(&watched, 1);
  uint64_t place = count % KEPT;
  if (atomic_load_explicit(&tracing, memory_order_relaxed) && count < KEPT_CALLERS) {
    int known = backtrace(callers[place], CALLERS);
    if (known < CALLERS) callers[place][known] = NULL;
  }
  times[place] = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void *malloc(size_t size) {
  note();
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  note();
  return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
  note();
  return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  note();
  void *result = __libc_memalign(alignment, size);
  if (!result) return ENOMEM;
  *block = result;
  return 0;
}

#endif

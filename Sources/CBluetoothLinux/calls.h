#include <stdint.h>

// System calls of this thread that the receive path made.
extern _Thread_local uint64_t ringtap_thread_calls __attribute__((visibility("hidden")));

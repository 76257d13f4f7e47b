#include <stdint.h>

// System calls of this thread that the receive path made.
extern _Thread_local uint64_t ringtap_thread_calls __attribute__((visibility("hidden")));

// Runs `body` on the thread that has a capability of `needed`, with errno as it leaves it; where none has, here.
int ringtap_with_rights(uint64_t needed, int (*body)(void *), void *context) __attribute__((visibility("hidden")));
// Leaves the calling thread the calls that ask for a capability.
void ringtap_filter_rights_thread(void) __attribute__((visibility("hidden")));

#define _GNU_SOURCE
#include "CBluetoothLinux.h"
#include "calls.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Capabilities belong to threads. Those that are kept are kept by one thread, which runs nothing but the calls below that
// ask for them, one after the other, and whose effective set is empty in between.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t keeper;
static atomic_uint_fast64_t held;
static struct {
  enum { idle, asked, done } phase;
  uint64_t permitted, needed;
  int (*body)(void *);
  void *context;
  int result, error;
} job;
static struct ringtap_rights_start start;

static uint64_t permitted_now(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}};
  if (syscall(SYS_capget, &header, data) < 0) return 0;
  return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

// Of the calling thread. What is not permitted any more leaves the ambient set too.
static int set_capabilities(uint64_t permitted, uint64_t effective) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {
      {.permitted = (uint32_t)permitted, .effective = (uint32_t)effective},
      {.permitted = (uint32_t)(permitted >> 32), .effective = (uint32_t)(effective >> 32)}};
  return (int)syscall(SYS_capset, &header, data);
}

static void *keep_rights(void *is_filtered) {
  pthread_setname_np(pthread_self(), "ringtap-rights");
  pthread_mutex_lock(&lock);
  // What it is made of can at worst be refused later.
  int error = set_capabilities(job.permitted, 0) < 0 ? errno : 0;
  if (!error && is_filtered) ringtap_filter_rights_thread();
  job.error = error;
  job.phase = done;
  pthread_cond_broadcast(&changed);
  while (job.permitted && !error) {
    while (job.phase != asked) pthread_cond_wait(&changed, &lock);
    if (job.body) {
      set_capabilities(job.permitted, job.permitted & job.needed);
      errno = 0;
      job.result = job.body(job.context);
      job.error = errno;
    }
    set_capabilities(job.permitted, 0);
    job.phase = done;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

// The lock is held. Signals are for other threads.
static int start_keeper(uint64_t permitted, int is_filtered) {
  static int yes = 1;
  sigset_t all, before;
  sigfillset(&all);
  job.permitted = permitted;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&keeper, NULL, keep_rights, is_filtered ? &yes : NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) return error;
  while (job.phase != done) pthread_cond_wait(&changed, &lock);
  job.phase = idle;
  if (job.error) pthread_join(keeper, NULL);
  return job.error;
}

int ringtap_rights_begin(uint64_t kept, uint64_t everywhere, int is_filtered) {
  uint64_t permitted = permitted_now();
  pthread_mutex_lock(&lock);
  int error = permitted & kept ? start_keeper(permitted & kept, is_filtered) : 0;
  if (!error) atomic_store(&held, permitted & kept);
  pthread_mutex_unlock(&lock);
  if (!error && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) error = errno;
  if (!error && set_capabilities(permitted & everywhere, permitted & everywhere) < 0) error = errno;
  errno = error;
  return error ? -1 : 0;
}

void ringtap_rights_keep(uint64_t kept) {
  if (!atomic_load(&held)) return;
  pthread_mutex_lock(&lock);
  while (job.phase != idle) pthread_cond_wait(&changed, &lock);
  uint64_t before = job.permitted;
  job.permitted &= kept;
  atomic_store(&held, job.permitted);
  if (before && before != job.permitted) {
    job.body = NULL;
    job.phase = asked;
    pthread_cond_broadcast(&changed);
    while (job.phase != done) pthread_cond_wait(&changed, &lock);
    job.phase = idle;
    pthread_cond_broadcast(&changed);
  }
  int is_over = before && !job.permitted;
  pthread_mutex_unlock(&lock);
  if (is_over) pthread_join(keeper, NULL);
}

uint64_t ringtap_rights_held(void) { return atomic_load(&held); }

int ringtap_with_rights(uint64_t needed, int (*body)(void *), void *context) {
  if (!(atomic_load(&held) & needed)) return body(context);
  pthread_mutex_lock(&lock);
  while (job.phase != idle) pthread_cond_wait(&changed, &lock);
  if (!(job.permitted & needed)) {
    pthread_mutex_unlock(&lock);
    return body(context);
  }
  job.needed = needed;
  job.body = body;
  job.context = context;
  job.phase = asked;
  pthread_cond_broadcast(&changed);
  while (job.phase != done) pthread_cond_wait(&changed, &lock);
  int result = job.result, error = job.error;
  job.phase = idle;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int ringtap_rights_forgo(void) {
  start = (struct ringtap_rights_start){
      .permitted = permitted_now(),
      .no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
      .is_filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0,
      .is_known = 1};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

struct ringtap_rights_start ringtap_rights_at_start(void) { return start; }

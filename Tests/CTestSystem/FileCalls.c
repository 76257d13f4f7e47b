#define _GNU_SOURCE
#include "CTestSystem.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static char watched[16];
static atomic_int is_watching, calls, removals;
static atomic_uint slowness;
static _Atomic(const char *) first_call;

void test_watch_thread(const char *name) {
  atomic_store(&is_watching, 0);
  snprintf(watched, sizeof watched, "%s", name);
  atomic_store(&calls, 0);
  atomic_store(&first_call, NULL);
  atomic_store(&is_watching, name[0] != 0);
}

int test_file_calls(const char **first) {
  *first = atomic_load(&first_call);
  return atomic_load(&calls);
}

void test_slow_removals(unsigned microseconds) {
  atomic_store(&removals, 0);
  atomic_store(&slowness, microseconds);
}

int test_removals(void) { return atomic_load(&removals); }

static void count(const char *call) {
  if (!atomic_load(&is_watching)) return;
  char name[16] = {0};
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (strncmp(name, watched, strlen(watched)) != 0) return;
  const char *none = NULL;
  atomic_compare_exchange_strong(&first_call, &none, call);
  atomic_fetch_add(&calls, 1);
}

static void remove_slowly(void) {
  unsigned microseconds = atomic_load(&slowness);
  if (microseconds == 0) return;
  atomic_fetch_add(&removals, 1);
  usleep(microseconds);
}

#define REAL(call) \
  static __typeof__(call) *real; \
  if (!real) real = (__typeof__(call) *)dlsym(RTLD_NEXT, #call); \
  count(#call)

DIR *opendir(const char *path) {
  REAL(opendir);
  return real(path);
}

DIR *fdopendir(int fd) {
  REAL(fdopendir);
  return real(fd);
}

int statvfs(const char *restrict path, struct statvfs *restrict status) {
  REAL(statvfs);
  return real(path, status);
}

int lstat(const char *restrict path, struct stat *restrict status) {
  REAL(lstat);
  return real(path, status);
}

int access(const char *path, int mode) {
  REAL(access);
  return real(path, mode);
}

int unlink(const char *path) {
  REAL(unlink);
  return real(path);
}

int rmdir(const char *path) {
  REAL(rmdir);
  return real(path);
}

int rename(const char *old, const char *new) {
  REAL(rename);
  return real(old, new);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new) {
  REAL(renameat);
  return real(old_folder, old, new_folder, new);
}

int unlinkat(int folder, const char *name, int flags) {
  REAL(unlinkat);
  remove_slowly();
  return real(folder, name, flags);
}

int ftruncate(int fd, off_t length) {
  REAL(ftruncate);
  remove_slowly();
  return real(fd, length);
}

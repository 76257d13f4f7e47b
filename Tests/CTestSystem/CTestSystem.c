#define _GNU_SOURCE
#include "CTestSystem.h"

#include <errno.h>
#include <pthread.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int64_t test_allocated(void) {
  struct mallinfo2 info = mallinfo2();
  return (int64_t)info.uordblks + (int64_t)info.hblkhd;
}

struct plan {
  int number, skip, count, failures;
};

static _Thread_local struct plan plans[2];

void test_fail(enum test_call call, int number, int skip, int count) {
  plans[call] = (struct plan){number, skip, count, 0};
}

int test_failures(enum test_call call) { return plans[call].failures; }

static bool fails(enum test_call call) {
  struct plan *plan = &plans[call];
  if (plan->count == 0) return false;
  if (plan->skip > 0) {
    plan->skip--;
    return false;
  }
  plan->count--;
  plan->failures++;
  errno = plan->number;
  return true;
}

int recvmmsg(int fd, struct mmsghdr *headers, unsigned int count, int flags, struct timespec *timeout) {
  if (fails(TEST_RECVMMSG)) return -1;
  return (int)syscall(SYS_recvmmsg, fd, headers, count, flags, timeout);
}

ssize_t send(int fd, const void *octets, size_t count, int flags) {
  if (fails(TEST_SEND)) return -1;
  return syscall(SYS_sendto, fd, octets, count, flags, NULL, 0);
}

enum { most_lacking = 8 };
static _Thread_local struct lack {
  int level, name;
  socklen_t octets;
} lacking[most_lacking];
static _Thread_local int lacking_count;

void test_curtail(int level, int name, unsigned octets) {
  if (lacking_count == most_lacking) abort();
  lacking[lacking_count++] = (struct lack){level, name, octets};
}

void test_lack(int level, int name) { test_curtail(level, name, 0); }

void test_lack_nothing(void) { lacking_count = 0; }

static const struct lack *lack(int level, int name) {
  for (int i = 0; i < lacking_count; i++)
    if (lacking[i].level == level && lacking[i].name == name) return &lacking[i];
  return NULL;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length) {
  if (!lack(level, name)) return (int)syscall(SYS_setsockopt, fd, level, name, value, length);
  errno = ENOPROTOOPT;
  return -1;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
  const struct lack *found = lack(level, name);
  if (found && found->octets == 0) {
    errno = ENOPROTOOPT;
    return -1;
  }
  if (found && *length > found->octets) *length = found->octets;
  return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

static char full[256];

void test_fill(const char *end) { snprintf(full, sizeof full, "%s", end); }

ssize_t write(int fd, const void *octets, size_t count) {
  if (full[0]) {
    char name[32], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path);
    size_t end = strlen(full);
    if (length >= (ssize_t)end && memcmp(path + length - end, full, end) == 0) {
      errno = ENOSPC;
      return -1;
    }
  }
  return syscall(SYS_write, fd, octets, count);
}

static char watched[4096];
static struct {
  char path[4096];
  int count;
} synced[16];
static pthread_mutex_t syncing = PTHREAD_MUTEX_INITIALIZER;

void test_watch_syncs(const char *begin) {
  pthread_mutex_lock(&syncing);
  memset(synced, 0, sizeof synced);
  snprintf(watched, sizeof watched, "%s", begin);
  pthread_mutex_unlock(&syncing);
}

int test_syncs(const char *rest) {
  int count = 0;
  pthread_mutex_lock(&syncing);
  size_t begin = strlen(watched);
  for (int i = 0; i < 16; i++) {
    if (synced[i].count && strncmp(synced[i].path + begin, rest, strlen(rest)) == 0) count += synced[i].count;
  }
  pthread_mutex_unlock(&syncing);
  return count;
}

int fdatasync(int fd) {
  pthread_mutex_lock(&syncing);
  if (watched[0]) {
    char name[32], path[4096] = {0};
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strncmp(path, watched, strlen(watched)) == 0) {
      int place = 0;
      while (place < 15 && synced[place].count && strcmp(synced[place].path, path) != 0) place++;
      memcpy(synced[place].path, path, sizeof path);
      synced[place].count++;
    }
  }
  pthread_mutex_unlock(&syncing);
  return (int)syscall(SYS_fdatasync, fd);
}

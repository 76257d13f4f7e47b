#define _GNU_SOURCE
#include "CTestSystem.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
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

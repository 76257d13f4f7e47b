// What tests need of the C library: how much is allocated, and system calls that fail. Linked into a program, it stands in
// for some of the C library's wrappers.
#pragma once

#include <stdint.h>

/// Octets of all heaps that are allocated.
int64_t test_allocated(void);

enum test_call { TEST_RECVMMSG, TEST_SEND };

/// Has calls of this thread fail, after `skip` more of them, `count` times with this errno. Zero times: no more.
void test_fail(enum test_call call, int number, int skip, int count);

/// Has every `write` of the process to a file whose path ends so fail with ENOSPC; no more for an empty one. For a process that
/// does nothing else.
void test_fill(const char *end);

/// Has every `fdatasync` of the process be counted of files whose path begins so.
void test_watch_syncs(const char *begin);

/// Those of files whose path begins with what is watched and then this.
int test_syncs(const char *rest);

/// Has calls of the file system be counted by threads whose name begins so; an empty one ends it. Those that a daemon's disk work
/// is made of: looking at folders and files, removing, shortening, renaming.
void test_watch_thread(const char *name);
/// How many there were, and the first of them by its name.
int test_file_calls(const char **first);
/// Has each `unlinkat` and `ftruncate` of the process take so much longer.
void test_slow_removals(unsigned microseconds);
/// `unlinkat` and `ftruncate` that the process has called since.
int test_removals(void);

/// Calls of this thread that have failed so since the last `test_fail`.
int test_failures(enum test_call call);

/// Has `setsockopt` and `getsockopt` of this option fail with ENOPROTOOPT on this thread, as where the kernel lacks it; one
/// more with each call.
void test_lack(int level, int name);
/// Has `getsockopt` of this option give no more octets than these, likewise, and `setsockopt` fail.
void test_curtail(int level, int name, unsigned octets);
/// Ends all of this.
void test_lack_nothing(void);

enum test_confinement { TEST_UNCONFINED, TEST_WITHOUT_PROGRAMS, TEST_WITHOUT_SOCKETS };

/// What system calls fail with, 0 where they do not.
struct test_attempts {
  int socket, execute, earlier_thread_execute, trace, look_into, ring, open, allocate;
};

/// Installs the program's own filter in a child process and tries what it is to refuse. Returns the child's status; 0
/// where it came to its end.
int test_attempt(enum test_confinement confinement, struct test_attempts *attempts);

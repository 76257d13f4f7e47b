#define _GNU_SOURCE
#include "CTestSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// Of CBluetoothLinux, which whoever runs this is linked with: what the program itself installs.
extern int ringtap_filter_process(int is_without_sockets) __attribute__((weak));

static atomic_int is_confined;
static struct test_attempts *results;

static int number_of(long status) { return status < 0 ? errno : 0; }

// Started before the filter: it has to be for this thread too.
static void *earlier(void *unused) {
  while (!atomic_load(&is_confined)) sched_yield();
  results->earlier_thread_execute = number_of(execl("/nonexistent", "nonexistent", NULL));
  return unused;
}

static void attempt(void) {
  char octet = 0;
  struct iovec part = {&octet, 1};
  results->socket = number_of(socket(AF_UNIX, SOCK_STREAM, 0));
  results->execute = number_of(execl("/nonexistent", "nonexistent", NULL));
  results->trace = number_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  results->look_into = number_of(process_vm_readv(getpid(), &part, 1, &part, 1, 0));
  // Never a real ring: the address is none.
  results->ring = number_of(syscall(SYS_io_uring_setup, 1, NULL));
  results->open = number_of(open("/proc/self/status", O_RDONLY));
  results->allocate = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
}

int test_attempt(enum test_confinement confinement, struct test_attempts *attempts) {
  if (!ringtap_filter_process) return -1;
  results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == MAP_FAILED) return -1;
  pid_t child = fork();
  if (child == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, earlier, NULL) != 0) _exit(1);
    if (confinement != TEST_UNCONFINED &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
         ringtap_filter_process(confinement == TEST_WITHOUT_SOCKETS) < 0))
      _exit(2);
    atomic_store(&is_confined, 1);
    pthread_join(thread, NULL);
    attempt();
    _exit(0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) status = -1;
  *attempts = *results;
  munmap(results, sizeof *results);
  return status;
}

#define _GNU_SOURCE
#include "CBluetoothLinux.h"
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

_Static_assert(RINGTAP_READABLE == EPOLLIN && RINGTAP_WRITABLE == EPOLLOUT, "epoll events");
_Static_assert(RINGTAP_HANG_UP == (EPOLLERR | EPOLLHUP), "epoll events");

int ringtap_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

static int epoll_control(int epoll, int operation, int fd, uint64_t token, uint32_t events) {
  struct epoll_event event = {.events = events, .data = {.u64 = token}};
  return epoll_ctl(epoll, operation, fd, &event);
}

int ringtap_epoll_add(int epoll, int fd, uint64_t token, uint32_t events) {
  return epoll_control(epoll, EPOLL_CTL_ADD, fd, token, events);
}

int ringtap_epoll_modify(int epoll, int fd, uint64_t token, uint32_t events) {
  return epoll_control(epoll, EPOLL_CTL_MOD, fd, token, events);
}

int ringtap_epoll_remove(int epoll, int fd) { return epoll_control(epoll, EPOLL_CTL_DEL, fd, 0, 0); }

int ringtap_epoll_wait(int epoll, struct ringtap_ready *ready, int capacity, int timeout_ms) {
  ringtap_thread_calls++;
  struct epoll_event events[64];
  int count = epoll_wait(epoll, events, capacity < 64 ? capacity : 64, timeout_ms);
  for (int i = 0; i < count; i++)
    ready[i] = (struct ringtap_ready){.token = events[i].data.u64, .events = events[i].events};
  return count;
}

int ringtap_wake_create(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

// A full counter means that a wake-up is pending already: nothing is lost by ignoring it.
void ringtap_wake_signal(int fd) {
  uint64_t one = 1;
  ringtap_thread_calls++;
  ssize_t ignored = write(fd, &one, sizeof one);
  (void)ignored;
}

void ringtap_wake_drain(int fd) {
  uint64_t counter;
  ringtap_thread_calls++;
  ssize_t ignored = read(fd, &counter, sizeof counter);
  (void)ignored;
}

void ringtap_wake_wait(int fd, int timeout_ms) {
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  if (poll(&wanted, 1, timeout_ms) > 0) ringtap_wake_drain(fd);
}

int ringtap_has_hung_up(int fd) {
  struct pollfd wanted = {.fd = fd, .events = POLLRDHUP};
  return poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLRDHUP | POLLHUP)) != 0;
}

int ringtap_wait_readable(int fd, int timeout_ms) {
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  return poll(&wanted, 1, timeout_ms) > 0;
}

void ringtap_thread_set_name(const char *name) {
  char kept[16];
  strncpy(kept, name, sizeof kept - 1);
  kept[sizeof kept - 1] = '\0';
  pthread_setname_np(pthread_self(), kept);
}

// Whether some thread has a processor of its own: only then need others be told theirs.
static atomic_int is_placed;

static int place(pthread_attr_t *attributes, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (processor >= 0) {
    if (processor >= CPU_SETSIZE) return EINVAL;
    CPU_SET(processor, &set);
    is_placed = 1;
  } else if (!is_placed || sched_getaffinity(getpid(), sizeof set, &set) < 0) {
    return 0;
  }
  return pthread_attr_setaffinity_np(attributes, sizeof set, &set);
}

static int give_priority(pthread_attr_t *attributes, int priority) {
  struct sched_param parameters = {.sched_priority = priority};
  int error = pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
  if (error == 0) error = pthread_attr_setschedpolicy(attributes, SCHED_FIFO);
  return error ? error : pthread_attr_setschedparam(attributes, &parameters);
}

int ringtap_thread_create(void *(*body)(void *), void *argument, int processor, int priority) {
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (error == 0) error = place(&attributes, processor);
  if (error == 0 && priority > 0) error = give_priority(&attributes, priority);
  if (error == 0) error = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

static void *wait_for_others(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

int ringtap_threads_try(int count) {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_t threads[64];
  int made = 0, error = 0;
  if (count > 64) count = 64;
  pthread_mutex_lock(&gate);
  // All at once: the limit counts those that live.
  while (made < count && !(error = pthread_create(&threads[made], NULL, wait_for_others, &gate))) made++;
  pthread_mutex_unlock(&gate);
  while (made > 0) pthread_join(threads[--made], NULL);
  return error;
}

void ringtap_thread_keep_priority(void) {
  struct sched_param parameters;
  int policy = sched_getscheduler(0);
  if (policy >= 0 && sched_getparam(0, &parameters) == 0)
    sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &parameters);
}

void ringtap_thread_be_patient(void) {
  struct sched_param parameters = {0};
  sched_setscheduler(0, SCHED_BATCH, &parameters);
}

int ringtap_lock_memory(void) { return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT); }

static int interrupt_pipe[2] = {-1, -1};

static void note_interrupt(int number) {
  int saved = errno;
  unsigned char octet = (unsigned char)number;
  // A full pipe holds more signals than anybody will look at.
  ssize_t ignored = write(interrupt_pipe[1], &octet, 1);
  (void)ignored;
  errno = saved;
}

int ringtap_signals_take(void) {
  if (pipe2(interrupt_pipe, O_CLOEXEC) < 0 || fcntl(interrupt_pipe[1], F_SETFL, O_NONBLOCK) < 0) {
    return -1;
  }
  struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  // Under nohup a hang-up is to be survived.
  struct sigaction hangUp;
  sigaction(SIGHUP, NULL, &hangUp);
  if (hangUp.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, NULL);
  }
  signal(SIGPIPE, SIG_IGN);
  return 0;
}

int ringtap_signals_wait(void) {
  unsigned char octet = 0;
  while (read(interrupt_pipe[0], &octet, 1) != 1) {
  }
  return octet;
}

int ringtap_set_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

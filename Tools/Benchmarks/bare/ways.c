// Ways to take a stream of datagrams, compared.
//
// Usage: ways COUNT WAY [--latency]
//
//   recvmmsg     epoll_wait, then recvmmsg of up to 64, as ringtap does it
//   recvmsg      epoll_wait, then recvmsg of one
//   blocking     recvmmsg of up to 64 that waits for the first: one call, and nothing else can wake it but a signal
//   one          recvmsg that waits: the same for one
//   uring        io_uring's multishot recvmsg into a ring of provided buffers, completed in the midst of any call
//   uring-defer  the same, completed where they are waited for (IORING_SETUP_DEFER_TASKRUN)
//   spin         recvmmsg again and again, without ever waiting: what no sleep costs
//
// Reads descriptor 3, subscribes and starts a ring's stream as receive.c does, and takes COUNT notifications with the
// kernel's stamps; --latency prints percentiles of the time from the stamp to here. `Tools/Benchmarks/run ways` feeds
// them by turns. No liburing: three calls and two rings in shared memory (io_uring(7); multishot and buffer rings need
// Linux 6.0, deferred completions 6.1).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FD = 3, COMMAND = 0x10, CONFIGURATION = 0x13, SLOTS = 64, SLOT_BYTES = 576, CONTROL_BYTES = 80, GROUP = 1 };

static long frames, count, stamped;
static int is_started;
static int64_t *latencies;

static void die(const char *what) {
  perror(what);
  exit(1);
}

// Does not wait for the answer.
static void write_value(uint16_t handle, const uint8_t *value, size_t size) {
  uint8_t pdu[64] = {0x12, handle & 0xFF, handle >> 8};
  memcpy(pdu + 3, value, size);
  if (send(FD, pdu, 3 + size, 0) < 0) die("send");
}

static void take(const uint8_t *pdu, size_t size, struct msghdr *header) {
  static const uint8_t start[16] = {0xA1, 0x04, [15] = 0xA5};
  if (size == 0) exit(1);
  if (pdu[0] == 0x13 && !is_started) {
    is_started = 1;
    write_value(COMMAND, start, sizeof start);
  }
  if (pdu[0] != 0x1B) return;
  frames++;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    stamped++;
    if (!latencies || stamped > count) continue;
    struct timespec stamp, now;
    memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    clock_gettime(CLOCK_REALTIME, &now);
    latencies[stamped - 1] = (now.tv_sec - stamp.tv_sec) * 1000000000 + now.tv_nsec - stamp.tv_nsec;
  }
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void print_latencies(long taken) {
  static const struct { const char *name; double part; } ranks[] = {
      {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
  qsort(latencies, (size_t)taken, sizeof *latencies, compare);
  printf(",\"latencyMicroseconds\":{");
  for (int i = 0; i < 5; i++)
    printf("%s\"%s\":%.1f", i ? "," : "", ranks[i].name, latencies[(long)(ranks[i].part * (double)(taken - 1))] / 1e3);
  printf("}");
}

// --- epoll, recvmmsg and recvmsg ---

static int open_epoll(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, FD, &event) < 0) die("epoll");
  return epoll;
}

static void wait_for(int epoll) {
  struct epoll_event event;
  if (epoll_wait(epoll, &event, 1, -1) < 0) die("epoll_wait");
}

// Sleeps in epoll, in recvmmsg, or not at all.
static void by_recvmmsg(int epoll, int flags) {
  static uint8_t bytes[SLOTS][SLOT_BYTES], control[SLOTS][CONTROL_BYTES];
  static struct mmsghdr headers[SLOTS];
  static struct iovec vectors[SLOTS];
  for (int i = 0; i < SLOTS; i++) {
    vectors[i] = (struct iovec){bytes[i], SLOT_BYTES};
    headers[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1, .msg_control = control[i]};
  }
  int used = SLOTS;
  while (frames < count) {
    if (epoll >= 0) wait_for(epoll);
    for (int i = 0; i < used; i++) headers[i].msg_hdr.msg_controllen = CONTROL_BYTES;
    int got = recvmmsg(FD, headers, SLOTS, flags, NULL);
    if (got < 0 && errno != EAGAIN) die("recvmmsg");
    for (int i = 0; i < got; i++) take(bytes[i], headers[i].msg_len, &headers[i].msg_hdr);
    used = got < 0 ? 0 : got;
  }
}

static void by_recvmsg(int epoll, int flags) {
  static uint8_t bytes[SLOT_BYTES], control[CONTROL_BYTES];
  struct iovec vector = {bytes, SLOT_BYTES};
  while (frames < count) {
    if (epoll >= 0) wait_for(epoll);
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CONTROL_BYTES};
    ssize_t got = recvmsg(FD, &header, flags);
    if (got < 0 && errno != EAGAIN) die("recvmsg");
    if (got >= 0) take(bytes, (size_t)got, &header);
  }
}

// --- io_uring ---

struct uring {
  int fd;
  unsigned *head, *tail, mask;  // of the completions
  struct io_uring_cqe *completions;
  unsigned *submission_tail, submission_mask, *submissions;
  struct io_uring_sqe *entries;
};

static void *map(int fd, size_t size, off_t offset) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
  if (memory == MAP_FAILED) die("mmap");
  return memory;
}

static struct uring open_uring(unsigned completion) {
  struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | completion,
                              .cq_entries = 4 * SLOTS};
  struct uring ring = {.fd = (int)syscall(SYS_io_uring_setup, 4, &p)};
  if (ring.fd < 0) die("io_uring_setup");
  uint8_t *completions = map(ring.fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  uint8_t *submissions = map(ring.fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  ring.head = (unsigned *)(completions + p.cq_off.head);
  ring.tail = (unsigned *)(completions + p.cq_off.tail);
  ring.mask = *(unsigned *)(completions + p.cq_off.ring_mask);
  ring.completions = (struct io_uring_cqe *)(completions + p.cq_off.cqes);
  ring.submission_tail = (unsigned *)(submissions + p.sq_off.tail);
  ring.submission_mask = *(unsigned *)(submissions + p.sq_off.ring_mask);
  ring.submissions = (unsigned *)(submissions + p.sq_off.array);
  ring.entries = map(ring.fd, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
  return ring;
}

static void lend(struct io_uring_buf_ring *buffers, uint8_t *bytes, unsigned id) {
  uint16_t tail = buffers->tail;
  struct io_uring_buf *buffer = &buffers->bufs[tail & (SLOTS - 1)];
  buffer->addr = (uint64_t)(uintptr_t)(bytes + (size_t)id * SLOT_BYTES);
  buffer->len = SLOT_BYTES;
  buffer->bid = (uint16_t)id;
  atomic_store_explicit((_Atomic uint16_t *)&buffers->tail, (uint16_t)(tail + 1), memory_order_release);
}

static void begin_receiving(struct uring *ring, struct msghdr *wanted) {
  unsigned tail = *ring->submission_tail, slot = tail & ring->submission_mask;
  ring->entries[slot] = (struct io_uring_sqe){
      .opcode = IORING_OP_RECVMSG, .flags = IOSQE_BUFFER_SELECT, .ioprio = IORING_RECV_MULTISHOT, .fd = FD,
      .addr = (uint64_t)(uintptr_t)wanted, .len = 1, .buf_group = GROUP};
  ring->submissions[slot] = slot;
  atomic_store_explicit((_Atomic unsigned *)ring->submission_tail, tail + 1, memory_order_release);
}

// The datagram stands in its buffer behind its control messages.
static void take_buffer(uint8_t *buffer, int size, size_t name, size_t control) {
  struct io_uring_recvmsg_out out;
  memcpy(&out, buffer, sizeof out);
  size_t ahead = sizeof out + name + control;
  if ((size_t)size < ahead) die("a completion that is too short");
  struct msghdr header = {.msg_control = buffer + sizeof out + name, .msg_controllen = out.controllen};
  take(buffer + ahead, (size_t)size - ahead, &header);
}

static void by_uring(unsigned completion) {
  struct uring ring = open_uring(completion);
  static uint8_t bytes[SLOTS * SLOT_BYTES];
  void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) die("mmap");
  struct io_uring_buf_ring *buffers = place;
  struct io_uring_buf_reg group = {.ring_addr = (uint64_t)(uintptr_t)buffers, .ring_entries = SLOTS, .bgid = GROUP};
  if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING, &group, 1) < 0) die("io_uring_register");
  for (unsigned id = 0; id < SLOTS; id++) lend(buffers, bytes, id);
  struct msghdr wanted = {.msg_controllen = CONTROL_BYTES};
  begin_receiving(&ring, &wanted);
  unsigned submitted = 1;
  while (frames < count) {
    if (syscall(SYS_io_uring_enter, ring.fd, submitted, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) die("io_uring_enter");
    submitted = 0;
    unsigned head = *ring.head, tail = atomic_load_explicit((_Atomic unsigned *)ring.tail, memory_order_acquire);
    for (; head != tail; head++) {
      struct io_uring_cqe completion = ring.completions[head & ring.mask];
      if (completion.res >= 0) {
        unsigned id = completion.flags >> IORING_CQE_BUFFER_SHIFT;
        take_buffer(bytes + (size_t)id * SLOT_BYTES, completion.res, wanted.msg_namelen, wanted.msg_controllen);
        lend(buffers, bytes, id);
      } else if (completion.res != -ENOBUFS) {
        errno = -completion.res;
        die("recvmsg");
      }
      // All buffers were taken, say: it has to be asked for anew.
      if (!(completion.flags & IORING_CQE_F_MORE)) {
        begin_receiving(&ring, &wanted);
        submitted = 1;
      }
    }
    atomic_store_explicit((_Atomic unsigned *)ring.head, head, memory_order_release);
  }
}

// Returns 0 for a way that is none.
static int receive_by(const char *way) {
  if (strcmp(way, "recvmmsg") == 0) by_recvmmsg(open_epoll(), MSG_DONTWAIT);
  else if (strcmp(way, "recvmsg") == 0) by_recvmsg(open_epoll(), MSG_DONTWAIT);
  else if (strcmp(way, "blocking") == 0) by_recvmmsg(-1, MSG_WAITFORONE);
  else if (strcmp(way, "one") == 0) by_recvmsg(-1, 0);
  else if (strcmp(way, "uring") == 0) by_uring(IORING_SETUP_COOP_TASKRUN);
  else if (strcmp(way, "uring-defer") == 0) by_uring(IORING_SETUP_DEFER_TASKRUN);
  else if (strcmp(way, "spin") == 0) by_recvmmsg(-1, MSG_DONTWAIT);
  else return 0;
  return 1;
}

int main(int argc, char **argv) {
  static const uint8_t notify[] = {1, 0}, stop[16] = {0xA1, 0x02, [15] = 0xA3};
  int one = 1;
  count = argc >= 3 ? atol(argv[1]) : 0;
  if (argc > 3 && strcmp(argv[3], "--latency") == 0) latencies = calloc((size_t)count, sizeof *latencies);
  setsockopt(FD, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
  if (count > 0) write_value(CONFIGURATION, notify, sizeof notify);
  if (count < 1 || !receive_by(argv[2])) {
    fprintf(stderr, "usage: ways COUNT recvmmsg|recvmsg|blocking|one|uring|uring-defer|spin [--latency]\n");
    return 2;
  }
  write_value(COMMAND, stop, sizeof stop);
  printf("{\"received\":%ld,\"stamped\":%ld", frames, stamped);
  if (latencies && stamped > 0) print_latencies(stamped < count ? stamped : count);
  printf("}\n");
  return 0;
}

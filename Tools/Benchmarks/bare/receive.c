// The least that a receiver can do: subscribe, start a ring's stream, and recv() until the last notification.
//
// Usage: receive COUNT [--latency] [--source] [--address ADDRESS]
//
// Reads descriptor 3, or connects the ATT channel of a device over the kernel's L2CAP socket (CID 4). --latency takes
// the kernel's stamps too (recvmsg), and prints percentiles of the time from the stamp to here. --source takes an
// emulated source in place of a ring, and the time from its values. Ends after COUNT raw frames, or 2 s of silence. One JSON object on standard output.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND = 0x10, CONFIGURATION = 0x13, SOURCE_CONFIGURATION = 0x0A, FAMILY_BLUETOOTH = 31, PROTOCOL_L2CAP = 0, CHANNEL_ATT = 4 };

// As in the kernel's include/net/bluetooth/l2cap.h.
struct l2cap_address {
  uint16_t family;
  uint16_t psm;
  uint8_t address[6];
  uint16_t channel;
  uint8_t address_type;
};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static int64_t clock_of(clockid_t id) {
  struct timespec time;
  clock_gettime(id, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static struct l2cap_address parse(const char *text) {
  struct l2cap_address address = {.family = FAMILY_BLUETOOTH, .channel = CHANNEL_ATT, .address_type = 1};
  unsigned octets[6];
  if (sscanf(text, "%x:%x:%x:%x:%x:%x", octets, octets + 1, octets + 2, octets + 3, octets + 4, octets + 5) != 6) {
    fprintf(stderr, "receive: '%s' is no address\n", text);
    exit(2);
  }
  for (int i = 0; i < 6; i++) address.address[i] = (uint8_t)octets[5 - i];
  return address;
}

static int open_channel(const char *peer) {
  if (!peer) return 3;
  int fd = socket(FAMILY_BLUETOOTH, SOCK_SEQPACKET | SOCK_CLOEXEC, PROTOCOL_L2CAP);
  if (fd < 0) die("socket");
  struct l2cap_address own = parse("00:00:00:00:00:00"), other = parse(peer);
  if (bind(fd, (struct sockaddr *)&own, sizeof own) < 0) die("bind");
  if (connect(fd, (struct sockaddr *)&other, sizeof other) < 0) die("connect");
  return fd;
}

// Does not wait for the answer.
static void write_value(int fd, uint16_t handle, const uint8_t *value, size_t count) {
  uint8_t pdu[64] = {0x12, handle & 0xFF, handle >> 8};
  memcpy(pdu + 3, value, count);
  if (send(fd, pdu, 3 + count, 0) < 0) die("send");
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static ssize_t take(int fd, uint8_t *pdu, size_t room, int64_t *stamp) {
  if (!stamp) return recv(fd, pdu, room, 0);
  uint8_t control[128];
  struct iovec vector = {pdu, room};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t got = recvmsg(fd, &message, 0);
  for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    struct timespec time;
    memcpy(&time, CMSG_DATA(c), sizeof time);
    *stamp = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
  }
  return got;
}

static long resident_kilobytes(void) {
  char line[128];
  long kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "VmRSS: %ld", &kilobytes);
  if (status) fclose(status);
  return kilobytes;
}

int main(int argc, char **argv) {
  const char *peer = NULL;
  long count = argc > 1 ? atol(argv[1]) : 0;
  int is_source = 0;
  int64_t *latencies = NULL;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--latency") == 0) latencies = calloc((size_t)count, sizeof *latencies);
    else if (strcmp(argv[i], "--source") == 0) is_source = 1;
    else if (i + 1 < argc && strcmp(argv[i], "--address") == 0) peer = argv[++i];
  }
  if (is_source) latencies = calloc((size_t)count, sizeof *latencies);
  if (count < 1) {
    fprintf(stderr, "usage: receive COUNT [--latency] [--source] [--address ADDRESS]\n");
    return 2;
  }
  int64_t begin = clock_of(CLOCK_MONOTONIC), first = 0, last = 0, silence = 0;
  int fd = open_channel(peer), one = 1;
  struct timeval patience = {2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (latencies) setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
  static const uint8_t notify[] = {1, 0}, start[16] = {0xA1, 0x04, [15] = 0xA5}, stop[16] = {0xA1, 0x02, [15] = 0xA3};
  write_value(fd, is_source ? SOURCE_CONFIGURATION : CONFIGURATION, notify, sizeof notify);
  long frames = 0, taken = 0;
  int is_started = 0;
  while (frames < count) {
    uint8_t pdu[512];
    int64_t stamp = 0;
    ssize_t got = take(fd, pdu, sizeof pdu, latencies && !is_source ? &stamp : NULL);
    // Stopped and going on.
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // The silence after the last one does not count.
      silence = got < 0 && errno == EAGAIN ? (int64_t)patience.tv_sec * 1000000000 : 0;
      break;
    }
    if (pdu[0] == 0x13 && !is_started) {
      is_started = 1;
      if (!is_source) write_value(fd, COMMAND, start, sizeof start);
    }
    if (pdu[0] != 0x1B) continue;
    if (frames == 0) first = clock_of(CLOCK_MONOTONIC);
    if (latencies && stamp) latencies[taken++] = clock_of(CLOCK_REALTIME) - stamp;
    if (is_source && got >= 15) {
      int64_t sent;
      memcpy(&sent, pdu + 7, sizeof sent);
      latencies[taken++] = clock_of(CLOCK_MONOTONIC) - sent;
    }
    frames++;
  }
  last = clock_of(CLOCK_MONOTONIC) - silence;
  if (!is_source) write_value(fd, COMMAND, stop, sizeof stop);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  printf("{\"received\":%ld,\"seconds\":%.6f,\"cpuSeconds\":%.6f,\"firstMilliseconds\":%.2f,\"residentKilobytes\":%ld",
         frames, (last - first) / 1e9, cpu, (first - begin) / 1e6, resident_kilobytes());
  if (taken > 0) {
    qsort(latencies, (size_t)taken, sizeof *latencies, compare);
    static const struct { const char *name; double part; } ranks[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
    printf(",\"latencyMicroseconds\":{");
    for (int i = 0; i < 5; i++)
      printf("%s\"%s\":%.1f", i ? "," : "", ranks[i].name,
             latencies[(long)(ranks[i].part * (double)(taken - 1))] / 1e3);
    printf("}");
  }
  printf("}\n");
  return 0;
}

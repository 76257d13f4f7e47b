// Feeds a receiver over a SOCK_SEQPACKET socket pair, and measures what the receiver costs.
//
// Usage: feed [--rate N] [--burst N] COUNT COMMAND [ARGUMENT...]
//
//   COUNT    notifications, each one raw frame of a ring: as fast as the receiver takes them
//   --rate   so many a second instead, in bursts of --burst (1)
//   COMMAND  is started with the receiving end as descriptor 3
//
// The sending end answers as the ATT server of a ring does, at a rate also while it sends: the least that a client needs
// to find the ring's service, subscribe, and start the stream (Core 5.4, Vol 3, Part F). One JSON object on standard output tells the receiver's
// user and system time (wait4), its greatest resident memory, context switches, and the time from the first to the last
// notification.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVICE = 0x0E, COMMAND = 0x10, REPLIES = 0x12, CONFIGURATION = 0x13, SERVICE_END = 0x13, RECEIVER = 3 };

static void die(const char *what) {
  perror(what);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void answer(int fd, const void *pdu, size_t count) {
  // A receiver that has had enough may be gone already.
  if (send(fd, pdu, count, MSG_NOSIGNAL) < 0 && errno != EPIPE) die("send");
}

// 6E40FFF0-B5A3-F393-E0A9-E50E24DCCA9E and its characteristics, from the least octet on.
#define UUID(low, high) 0x9E, 0xCA, 0xDC, 0x24, 0x0E, 0xE5, 0xA9, 0xE0, 0x93, 0xF3, 0xA3, 0xB5, low, high, 0x40, 0x6E

// Types of two octets, but of the two values.
static const struct attribute {
  uint8_t handle, type_count, type[16], value_count, value[19];
} attributes[] = {
    {SERVICE, 2, {0x00, 0x28}, 16, {UUID(0xF0, 0xFF)}},
    {SERVICE + 1, 2, {0x03, 0x28}, 19, {0x0C, COMMAND, 0, UUID(0x02, 0x00)}},
    {COMMAND, 16, {UUID(0x02, 0x00)}, 0, {0}},
    {COMMAND + 1, 2, {0x03, 0x28}, 19, {0x10, REPLIES, 0, UUID(0x03, 0x00)}},
    {REPLIES, 16, {UUID(0x03, 0x00)}, 0, {0}},
    {CONFIGURATION, 2, {0x02, 0x29}, 2, {0, 0}},
};

// The first from a handle on, with a type of two octets if one is given.
static const struct attribute *find(const uint8_t *range, const uint8_t *type) {
  int from = range[0] | range[1] << 8, to = range[2] | range[3] << 8;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    const struct attribute *a = &attributes[i];
    if (a->handle < from || a->handle > to) continue;
    if (!type || (a->type_count == 2 && memcmp(a->type, type, 2) == 0)) return a;
  }
  return NULL;
}

static void refuse(int fd, const uint8_t *request) {
  uint8_t error[] = {0x01, request[0], request[1], request[2], 0x0A};
  answer(fd, error, sizeof error);
}

// One attribute a response: discovery is not what is measured.
static void discover(int fd, const uint8_t *request, size_t count) {
  int has_type = request[0] != 0x04;
  const struct attribute *a = find(request + 1, has_type ? request + 5 : NULL);
  int is_same = a && count == 7u + a->value_count && memcmp(request + 7, a->value, a->value_count) == 0;
  if (!a || (request[0] == 0x06 && !is_same)) {
    refuse(fd, request);
    return;
  }
  uint8_t response[32] = {request[0] + 1};
  size_t used = 1;
  if (request[0] == 0x04) response[used++] = a->type_count == 2 ? 1 : 2;
  if (request[0] == 0x08) response[used++] = 2 + a->value_count;
  if (request[0] == 0x10) response[used++] = 4 + a->value_count;
  response[used++] = a->handle;
  response[used++] = 0;
  if (request[0] == 0x06 || request[0] == 0x10) {
    response[used++] = SERVICE_END;
    response[used++] = 0;
  }
  const uint8_t *rest = request[0] == 0x04 ? a->type : a->value;
  size_t rest_count = request[0] == 0x04 ? a->type_count : request[0] == 0x06 ? 0 : a->value_count;
  memcpy(response + used, rest, rest_count);
  answer(fd, response, used + rest_count);
}

static void read_value(int fd, const uint8_t *request) {
  uint8_t range[] = {request[1], request[2], request[1], request[2]}, response[20] = {0x0B};
  const struct attribute *a = find(range, NULL);
  if (!a) {
    refuse(fd, request);
    return;
  }
  memcpy(response + 1, a->value, a->value_count);
  answer(fd, response, 1u + a->value_count);
}

// Answers one request. Returns whether it starts the stream.
static int serve(int fd, const uint8_t *request, size_t count) {
  static const uint8_t mtu[] = {0x03, 247, 0};
  static const uint8_t written = 0x13;
  int is_start = count > 5 && request[1] == COMMAND && request[3] == 0xA1 && request[4] == 0x04;
  switch (request[0]) {
    case 0x02: answer(fd, mtu, sizeof mtu); return 0;
    case 0x04: case 0x06: case 0x08: case 0x10: discover(fd, request, count); return 0;
    case 0x0A: read_value(fd, request); return 0;
    case 0x12: answer(fd, &written, 1); return is_start;
    case 0x52: return is_start;
    case 0x03: case 0x1E: return 0;
    default: refuse(fd, request); return 0;
  }
}

// Frames of a real ring: SpO2, PPG, acceleration.
static uint8_t notifications[3][19] = {
    {0x1B, REPLIES, 0, 0xA1, 0x01, 0x00, 0xA0, 0x00, 0xC2, 0x00, 0x72, 0x00, 0x95, 0x01, 0, 0, 0, 0, 0x0C},
    {0x1B, REPLIES, 0, 0xA1, 0x02, 0x29, 0x81, 0x2A, 0xCD, 0x29, 0xC1, 0x01, 0x0C, 0x01, 0, 0, 0, 0, 0x3C},
    {0x1B, REPLIES, 0, 0xA1, 0x03, 0x12, 0x03, 0x0B, 0x0D, 0x17, 0x04, 0, 0, 0, 0, 0, 0, 0, 0xEC}};

// Answers requests until it is time to send again.
static void serve_until(int fd, int64_t due) {
  for (;;) {
    int64_t left = due - now();
    struct timespec patience = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    if (ppoll(&wanted, 1, &patience, NULL) < 1) return;
    uint8_t request[600] = {0};
    ssize_t got = recv(fd, request, sizeof request, 0);
    if (got <= 0) return;
    serve(fd, request, (size_t)got);
  }
}

static int64_t stream(int fd, long count, double rate, long burst) {
  int64_t start = now();
  for (long number = 0; number < count; number++) {
    if (rate > 0 && number % burst == 0) {
      int64_t due = start + (int64_t)(number / rate * 1e9);
      serve_until(fd, due);
    }
    if (send(fd, notifications[number % 3], sizeof notifications[0], MSG_NOSIGNAL) < 0) die("send");
  }
  return now() - start;
}

static pid_t start_receiver(char **command, int fd) {
  pid_t child = fork();
  if (child < 0) die("fork");
  if (child > 0) return child;
  int moved = fcntl(fd, F_DUPFD, 10);
  if (dup2(moved, RECEIVER) < 0) die("dup2");
  close(moved);
  // Standard output is for our own line.
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) die("dup2");
  execvp(command[0], command);
  die(command[0]);
  return 0;
}

int main(int argc, char **argv) {
  double rate = 0;
  long burst = 1;
  int next = 1;
  for (; next + 1 < argc && strncmp(argv[next], "--", 2) == 0; next += 2) {
    if (strcmp(argv[next], "--rate") == 0) rate = atof(argv[next + 1]);
    else if (strcmp(argv[next], "--burst") == 0) burst = atol(argv[next + 1]);
  }
  long count = next < argc ? atol(argv[next]) : 0;
  if (next + 1 >= argc || count < 1 || burst < 1) {
    fprintf(stderr, "usage: feed [--rate N] [--burst N] COUNT COMMAND [ARGUMENT...]\n");
    return 2;
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) die("socketpair");
  int room = 4 << 20;
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  int64_t begin = now(), elapsed = 0;
  pid_t child = start_receiver(argv + next + 1, pair[1]);
  close(pair[1]);
  int64_t started = 0;
  for (;;) {
    uint8_t request[600] = {0};
    ssize_t got = recv(pair[0], request, sizeof request, 0);
    if (got <= 0) break;
    if (!serve(pair[0], request, (size_t)got) || started) continue;
    started = now();
    elapsed = stream(pair[0], count, rate, burst);
  }
  int status;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) < 0) die("wait4");
  double user = usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6;
  double system = usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
  printf("{\"count\":%ld,\"seconds\":%.6f,\"notificationsPerSecond\":%.0f,\"userSeconds\":%.6f,\"systemSeconds\":%.6f,"
         "\"cpuNanosecondsPerNotification\":%.1f,\"residentKilobytes\":%ld,\"contextSwitches\":%ld,"
         "\"startMilliseconds\":%.2f,\"status\":%d}\n",
         count, elapsed / 1e9, count / (elapsed / 1e9), user, system, (user + system) * 1e9 / count, usage.ru_maxrss,
         usage.ru_nvcsw + usage.ru_nivcsw, (started - begin) / 1e6, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
  return 0;
}

#define _GNU_SOURCE
#include "CBluetoothLinux.h"

#include <errno.h>
#include <termios.h>
#include <sys/un.h>
#include <netinet/tcp.h>
#include <netinet/in.h>
#include <netdb.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct sockaddr_hci) == 6, "sockaddr_hci");
_Static_assert(sizeof(struct sockaddr_l2) == 14, "sockaddr_l2");
_Static_assert(sizeof(struct hci_filter) == 16, "hci_filter");

_Static_assert(RINGTAP_AF_BLUETOOTH == AF_BLUETOOTH, "AF_BLUETOOTH");
_Static_assert(RINGTAP_SOCK_RAW == SOCK_RAW && RINGTAP_SOCK_SEQPACKET == SOCK_SEQPACKET, "socket types");
_Static_assert(RINGTAP_READABLE == EPOLLIN && RINGTAP_WRITABLE == EPOLLOUT, "epoll events");
_Static_assert(RINGTAP_HANG_UP == (EPOLLERR | EPOLLHUP), "epoll events");

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static uint64_t address_bits(const bdaddr_t *address) {
  uint64_t bits = 0;
  for (int i = 5; i >= 0; i--) bits = bits << 8 | address->b[i];
  return bits;
}

static struct sockaddr_l2 l2cap_address(uint64_t address, uint8_t type, uint16_t cid) {
  struct sockaddr_l2 result = {.l2_family = AF_BLUETOOTH, .l2_cid = htobs(cid), .l2_bdaddr_type = type};
  for (int i = 0; i < 6; i++) result.l2_bdaddr.b[i] = (uint8_t)(address >> (8 * i));
  return result;
}

int ringtap_hci_device_list(int fd, uint16_t *ids, int capacity) {
  union {
    struct hci_dev_list_req list;
    uint8_t room[sizeof(struct hci_dev_list_req) + HCI_MAX_DEV * sizeof(struct hci_dev_req)];
  } request = {.list = {.dev_num = HCI_MAX_DEV}};
  if (ioctl(fd, HCIGETDEVLIST, &request) < 0) return -1;
  int count = 0;
  for (int i = 0; i < request.list.dev_num && count < capacity; i++) ids[count++] = request.list.dev_req[i].dev_id;
  return count;
}

int ringtap_hci_device_info(int fd, uint16_t id, struct ringtap_hci_device *info) {
  struct hci_dev_info raw = {.dev_id = id};
  if (ioctl(fd, HCIGETDEVINFO, &raw) < 0) return -1;
  info->address = address_bits(&raw.bdaddr);
  info->flags = raw.flags;
  info->bus = raw.type & 0x0f;
  memcpy(info->name, raw.name, sizeof raw.name);
  info->name[sizeof info->name - 1] = '\0';
  return 0;
}

int ringtap_hci_device_up(int fd, uint16_t id) { return ioctl(fd, HCIDEVUP, id); }

int ringtap_hci_bind(int fd, uint16_t device, uint16_t channel) {
  struct sockaddr_hci address = {.hci_family = AF_BLUETOOTH, .hci_dev = device, .hci_channel = channel};
  return bind(fd, (struct sockaddr *)&address, sizeof address);
}

int ringtap_hci_set_filter(int fd, uint32_t types, uint32_t events_low, uint32_t events_high) {
  struct hci_filter filter = {.type_mask = types, .event_mask = {events_low, events_high}, .opcode = 0};
  return setsockopt(fd, SOL_HCI, HCI_FILTER, &filter, sizeof filter);
}

int ringtap_hci_enable_time_stamps(int fd) {
  int on = 1;
  return setsockopt(fd, SOL_HCI, HCI_TIME_STAMP, &on, sizeof on);
}

int ringtap_l2cap_bind(int fd, uint64_t address, uint8_t address_type, uint16_t cid) {
  struct sockaddr_l2 local = l2cap_address(address, address_type, cid);
  return bind(fd, (struct sockaddr *)&local, sizeof local);
}

int ringtap_l2cap_connect(int fd, uint64_t address, uint8_t address_type, uint16_t cid) {
  struct sockaddr_l2 peer = l2cap_address(address, address_type, cid);
  return connect(fd, (struct sockaddr *)&peer, sizeof peer);
}

int ringtap_l2cap_connection_handle(int fd) {
  struct l2cap_conninfo info = {0};
  socklen_t length = sizeof info;
  if (getsockopt(fd, SOL_L2CAP, L2CAP_CONNINFO, &info, &length) < 0) return -1;
  return info.hci_handle;
}

int ringtap_bt_security(int fd) {
  struct bt_security security = {0};
  socklen_t length = sizeof security;
  if (getsockopt(fd, SOL_BLUETOOTH, BT_SECURITY, &security, &length) < 0) return -1;
  return security.level;
}

int ringtap_bt_raise_security(int fd, uint8_t level) {
  struct bt_security security = {.level = level};
  return setsockopt(fd, SOL_BLUETOOTH, BT_SECURITY, &security, sizeof security);
}

// A time stamp and an overflow counter, with room to spare for one more.
#define CONTROL_BYTES (CMSG_SPACE(sizeof(struct timespec)) + 2 * CMSG_SPACE(sizeof(uint32_t)))

struct ringtap_slab {
  unsigned slots, slot_bytes;
  struct mmsghdr *headers;
  struct iovec *vectors;
  struct ringtap_datagram *datagrams;
  uint8_t *bytes, *control;
};

void ringtap_slab_free(struct ringtap_slab *slab) {
  if (!slab) return;
  free(slab->headers);
  free(slab->vectors);
  free(slab->datagrams);
  free(slab->bytes);
  free(slab->control);
  free(slab);
}

struct ringtap_slab *ringtap_slab_create(unsigned slots, unsigned slot_bytes) {
  struct ringtap_slab *slab = calloc(1, sizeof *slab);
  if (!slab) return NULL;
  slab->slots = slots;
  slab->slot_bytes = slot_bytes;
  slab->headers = calloc(slots, sizeof *slab->headers);
  slab->vectors = calloc(slots, sizeof *slab->vectors);
  slab->datagrams = calloc(slots, sizeof *slab->datagrams);
  slab->bytes = calloc(slots, slot_bytes);
  slab->control = calloc(slots, CONTROL_BYTES);
  if (!slab->headers || !slab->vectors || !slab->datagrams || !slab->bytes || !slab->control) {
    ringtap_slab_free(slab);
    return NULL;
  }
  for (unsigned i = 0; i < slots; i++) {
    slab->vectors[i] = (struct iovec){slab->bytes + (size_t)i * slot_bytes, slot_bytes};
    slab->headers[i].msg_hdr.msg_iov = &slab->vectors[i];
    slab->headers[i].msg_hdr.msg_iovlen = 1;
    slab->headers[i].msg_hdr.msg_control = slab->control + (size_t)i * CONTROL_BYTES;
  }
  return slab;
}

static void read_control(struct msghdr *header, struct ringtap_datagram *datagram) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == SOL_HCI && c->cmsg_type == HCI_CMSG_TSTAMP) {
      struct timeval stamp;
      memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      datagram->time_ns = (int64_t)stamp.tv_sec * 1000000000 + (int64_t)stamp.tv_usec * 1000;
    } else if (c->cmsg_level != SOL_SOCKET) {
      continue;
    } else if (c->cmsg_type == SCM_TIMESTAMPNS) {
      struct timespec stamp;
      memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      datagram->time_ns = (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
    } else if (c->cmsg_type == SO_RXQ_OVFL) {
      memcpy(&datagram->overflow, CMSG_DATA(c), sizeof datagram->overflow);
    }
  }
}

static _Thread_local uint64_t system_calls;

uint64_t ringtap_system_calls(void) { return system_calls; }

void ringtap_note_system_call(void) { system_calls++; }

int ringtap_slab_receive(struct ringtap_slab *slab, int fd) {
  system_calls++;
  for (unsigned i = 0; i < slab->slots; i++) slab->headers[i].msg_hdr.msg_controllen = CONTROL_BYTES;
  int count;
  do count = recvmmsg(fd, slab->headers, slab->slots, MSG_DONTWAIT, NULL);
  while (count < 0 && errno == EINTR);
  for (int i = 0; i < count; i++) {
    struct ringtap_datagram *datagram = &slab->datagrams[i];
    *datagram = (struct ringtap_datagram){
        .length = slab->headers[i].msg_len,
        .truncated = (slab->headers[i].msg_hdr.msg_flags & MSG_TRUNC) != 0};
    read_control(&slab->headers[i].msg_hdr, datagram);
  }
  return count;
}

const uint8_t *ringtap_slab_bytes(const struct ringtap_slab *slab, unsigned slot) {
  return slab->bytes + (size_t)slot * slab->slot_bytes;
}

const struct ringtap_datagram *ringtap_slab_datagram(const struct ringtap_slab *slab, unsigned slot) {
  return &slab->datagrams[slot];
}

int64_t ringtap_socket_drops(int fd) {
  uint32_t info[SK_MEMINFO_VARS] = {0};
  socklen_t length = sizeof info;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0) return -1;
  return info[SK_MEMINFO_DROPS];
}

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
  system_calls++;
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
  system_calls++;
  ssize_t ignored = write(fd, &one, sizeof one);
  (void)ignored;
}

void ringtap_wake_drain(int fd) {
  uint64_t counter;
  system_calls++;
  ssize_t ignored = read(fd, &counter, sizeof counter);
  (void)ignored;
}

void ringtap_wake_wait(int fd, int timeout_ms) {
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  if (poll(&wanted, 1, timeout_ms) > 0) ringtap_wake_drain(fd);
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

static speed_t speed_of(unsigned baud) {
  static const struct {
    unsigned baud;
    speed_t speed;
  } known[] = {{9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},
               {115200, B115200},   {230400, B230400},   {460800, B460800},   {500000, B500000},
               {921600, B921600},   {1000000, B1000000}, {1500000, B1500000}, {2000000, B2000000},
               {3000000, B3000000}, {4000000, B4000000}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].baud == baud) return known[i].speed;
  return B0;
}

int ringtap_serial_open(const char *path, unsigned baud, int hardware_flow_control) {
  speed_t speed = speed_of(baud);
  if (speed == B0) {
    errno = EINVAL;
    return -1;
  }
  int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  struct termios port;
  if (tcgetattr(fd, &port) == 0) {
    cfmakeraw(&port);
    port.c_cflag |= CLOCAL | CREAD;
    if (hardware_flow_control)
      port.c_cflag |= CRTSCTS;
    else
      port.c_cflag &= ~(tcflag_t)CRTSCTS;
    cfsetispeed(&port, speed);
    cfsetospeed(&port, speed);
    if (tcsetattr(fd, TCSANOW, &port) == 0 && tcflush(fd, TCIOFLUSH) == 0) return fd;
  }
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int ringtap_tcp_connect(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  int status = getaddrinfo(host, port, &hints, &list);
  if (status != 0) {
    errno = status == EAI_SYSTEM ? errno : EHOSTUNREACH;
    return -1;
  }
  int fd = -1, error = EHOSTUNREACH;
  for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
    error = errno;
    if (fd >= 0) close(fd);
    fd = -1;
  }
  freeaddrinfo(list);
  int on = 1;
  if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && ringtap_set_nonblocking(fd) == 0)
    return fd;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

int ringtap_unix_connect(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && ringtap_set_nonblocking(fd) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int ringtap_packet_pair(int pair[2]) {
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

int ringtap_tcp_listen(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
  int status = getaddrinfo(host, port, &hints, &list);
  if (status != 0) {
    errno = status == EAI_SYSTEM ? errno : EADDRNOTAVAIL;
    return -1;
  }
  int fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol), on = 1, error = errno;
  if (fd >= 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, 1) < 0) {
      error = errno;
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(list);
  errno = error;
  return fd;
}

int ringtap_unix_listen(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // Nobody answers at a stale socket; a live one is left alone.
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED) unlink(path);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int ringtap_unix_tell(const char *path, const void *octets, size_t count) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  ssize_t sent = sendto(fd, octets, count, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
  int error = errno;
  close(fd);
  errno = error;
  return sent < 0 ? -1 : 0;
}

int ringtap_accept(int fd) { return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }

int ringtap_pty_open(char *name, int capacity) {
  int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return -1;
  struct termios port;
  if (grantpt(fd) == 0 && unlockpt(fd) == 0 && tcgetattr(fd, &port) == 0) {
    cfmakeraw(&port);
    if (tcsetattr(fd, TCSANOW, &port) == 0 && ptsname_r(fd, name, (size_t)capacity) == 0 &&
        ringtap_set_nonblocking(fd) == 0)
      return fd;
  }
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

#define _GNU_SOURCE
#include "CBluetoothLinux.h"

#include <errno.h>
#include <stddef.h>
#include <termios.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <netinet/tcp.h>
#include <netdb.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

// What a controller has sent stands before its next answer, so little of it may wait: the kernel would let it be 6 MB.
static void keep_short(int fd) {
  int size = 256 << 10;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static int connect_inet(const char *host, const char *port, int type) {
  struct addrinfo hints = {.ai_socktype = type}, *list = NULL;
  int status = getaddrinfo(host, port, &hints, &list);
  if (status != 0) {
    errno = status == EAI_SYSTEM ? errno : EHOSTUNREACH;
    return -1;
  }
  int fd = -1, error = EHOSTUNREACH;
  for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd >= 0 && type == SOCK_STREAM) keep_short(fd);
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
    error = errno;
    if (fd >= 0) close(fd);
    fd = -1;
  }
  freeaddrinfo(list);
  int on = 1;
  if (fd >= 0) {
    // Without it packets come later, no more.
    if (type == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (ringtap_set_nonblocking(fd) == 0) return fd;
    error = errno;
    close(fd);
  }
  errno = error;
  return -1;
}

int ringtap_tcp_connect(const char *host, const char *port) { return connect_inet(host, port, SOCK_STREAM); }

int ringtap_udp_connect(const char *host, const char *port) { return connect_inet(host, port, SOCK_DGRAM); }

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
    keep_short(fd);
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

int ringtap_unix_listen(const char *path, unsigned mode) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat file;
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // Nobody answers at a stale socket; a live one is left alone. Any other file refuses as well, and is not ours to remove.
  if (lstat(path, &file) == 0 && S_ISSOCK(file.st_mode) && (!mode || file.st_uid == geteuid()) &&
      connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED)
    unlink(path);
  // The file gets the mode that its socket has, less the umask: nobody finds it with another one.
  if ((!mode || fchmod(fd, mode) == 0) && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
      listen(fd, 1) == 0)
    return fd;
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

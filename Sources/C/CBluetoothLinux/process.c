#define _GNU_SOURCE
#include "CBluetoothLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *ringtap_error_name(int number) { return strerrorname_np(number); }

int ringtap_write_out(int fd, int64_t offset, int is_begun) {
  const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
  return sync_file_range(fd, offset, 0, SYNC_FILE_RANGE_WRITE | (is_begun ? 0 : wait));
}

int ringtap_sync_file_system(int fd) {
  struct statfs status;
  // FUSE: its daemon hears of fsync only.
  if (fstatfs(fd, &status) < 0 || status.f_type == 0x65735546) return 0;
  return syncfs(fd) < 0 ? -1 : 1;
}

int ringtap_hci_links(int fd, uint16_t id, struct ringtap_hci_link *links, int capacity) {
  enum { most = 64 };
  union {
    struct hci_conn_list_req list;
    uint8_t room[sizeof(struct hci_conn_list_req) + most * sizeof(struct hci_conn_info)];
  } request = {.list = {.dev_id = id, .conn_num = most}};
  if (ioctl(fd, HCIGETCONNLIST, &request) < 0) return -1;
  int count = 0;
  for (int i = 0; i < request.list.conn_num && count < capacity; i++) {
    const struct hci_conn_info *info = &request.list.conn_info[i];
    uint64_t bits = 0;
    for (int octet = 5; octet >= 0; octet--) bits = bits << 8 | info->bdaddr.b[octet];
    // LE_LINK of the kernel's hci.h, which the library's lacks.
    links[count++] = (struct ringtap_hci_link){bits, info->handle, info->type == 0x80};
  }
  return count;
}

int ringtap_is_hci_socket(int fd) {
  int domain = 0, protocol = -1;
  socklen_t size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 || domain != AF_BLUETOOTH) return 0;
  size = sizeof protocol;
  return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == BTPROTO_HCI;
}

int ringtap_exchange(int fd, const uint8_t *packet, int length, uint8_t *answer, int capacity, int timeout_ms) {
  if (length > 0 && send(fd, packet, (size_t)length, MSG_NOSIGNAL) < 0) return -1;
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  int ready;
  do ready = poll(&wanted, 1, timeout_ms);
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) return ready;
  return (int)recv(fd, answer, (size_t)capacity, MSG_DONTWAIT);
}

int ringtap_user(const char *name, uint32_t *user, uint32_t *group, char *home, int capacity) {
  const struct passwd *entry = getpwnam(name);
  if (!entry) {
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (end == name || *end || number >= UINT32_MAX) return -1;
    entry = getpwuid((uid_t)number);
    if (!entry) return -1;
  }
  if ((int)strlen(entry->pw_dir) >= capacity) return -1;
  *user = entry->pw_uid;
  *group = entry->pw_gid;
  strcpy(home, entry->pw_dir);
  return 0;
}

static int set_no_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  return (int)syscall(SYS_capset, &header, none);
}

// Asked of the kernel, not concluded from the calls before.
static int has_dropped_all(uint32_t user, uint32_t group) {
  uid_t real, effective, saved;
  gid_t real_group, effective_group, saved_group;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  if (getresuid(&real, &effective, &saved) < 0 || getresgid(&real_group, &effective_group, &saved_group) < 0 ||
      syscall(SYS_capget, &header, data) < 0)
    return 0;
  uint32_t left = 0;
  for (int i = 0; i < 2; i++) left |= data[i].effective | data[i].permitted | data[i].inheritable;
  return left == 0 && real == user && effective == user && saved == user && real_group == group &&
         effective_group == group && saved_group == group && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

int ringtap_drop_privileges(uint32_t user, uint32_t group) {
  // Only CAP_SETPCAP may; without it the bounding set stays, and is without effect once nothing can be gained. Those that
  // ringtap's file may have stay: the kernel does not execute a file with one that is not in the set.
  for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
    if (capability == CAP_NET_RAW || capability == CAP_NET_ADMIN) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EPERM) return -1;
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return -1;
  if (user != geteuid() || geteuid() == 0) {
    if (setgroups(0, NULL) < 0 || setresgid(group, group, group) < 0 || setresuid(user, user, user) < 0) return -1;
  }
  if (set_no_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  if (has_dropped_all(user, group)) return 0;
  errno = EPERM;
  return -1;
}

int ringtap_execute_with(const int *descriptors, int count, char *const *arguments) {
  enum { first = 3, most = 16 };
  int copies[most];
  if (count < 0 || count > most) {
    errno = EINVAL;
    return -1;
  }
  // Out of the way first: one may have the number that another is to have.
  for (int i = 0; i < count; i++) {
    copies[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, first + most);
    if (copies[i] < 0) return -1;
  }
  // Our own are marked already; a kernel before 5.11 cannot do it for those that somebody left to us.
  if (close_range(first, ~0U, CLOSE_RANGE_CLOEXEC) < 0 && errno != ENOSYS && errno != EINVAL) return -1;
  for (int i = 0; i < count; i++) {
    if (dup2(copies[i], first + i) < 0) return -1;
  }
  signal(SIGPIPE, SIG_DFL);
  return execvp(arguments[0], arguments);
}

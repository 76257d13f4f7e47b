#define _GNU_SOURCE
#include "CBluetoothLinux.h"
#include "calls.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/ioctl.h>

_Static_assert(sizeof(struct sockaddr_hci) == 6, "sockaddr_hci");
_Static_assert(sizeof(struct sockaddr_l2) == 14, "sockaddr_l2");
_Static_assert(sizeof(struct hci_filter) == 16, "hci_filter");

_Static_assert(RINGTAP_AF_BLUETOOTH == AF_BLUETOOTH, "AF_BLUETOOTH");
_Static_assert(RINGTAP_SOCK_RAW == SOCK_RAW && RINGTAP_SOCK_SEQPACKET == SOCK_SEQPACKET, "socket types");

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

// Calls for which the kernel asks the calling thread for a capability.
enum { net_admin = 1 << CAP_NET_ADMIN, net_raw = 1 << CAP_NET_RAW };

struct call {
  int fd, level, name;
  const void *octets;
  size_t count;
};

static int bring_up(void *context) {
  const struct call *call = context;
  return ioctl(call->fd, HCIDEVUP, call->name);
}

static int bind_socket(void *context) {
  const struct call *call = context;
  return bind(call->fd, call->octets, (socklen_t)call->count);
}

static int set_option(void *context) {
  const struct call *call = context;
  return setsockopt(call->fd, call->level, call->name, call->octets, (socklen_t)call->count);
}

static int send_packet(void *context) {
  const struct call *call = context;
  return (int)send(call->fd, call->octets, call->count, MSG_NOSIGNAL);
}

int ringtap_hci_device_up(int fd, uint16_t id) {
  struct call call = {.fd = fd, .name = id};
  return ringtap_with_rights(net_admin, bring_up, &call);
}

int ringtap_hci_bind(int fd, uint16_t device, uint16_t channel) {
  struct sockaddr_hci address = {.hci_family = AF_BLUETOOTH, .hci_dev = device, .hci_channel = channel};
  struct call call = {.fd = fd, .octets = &address, .count = sizeof address};
  return ringtap_with_rights(channel == HCI_CHANNEL_MONITOR ? net_raw : net_admin, bind_socket, &call);
}

int ringtap_hci_set_filter(int fd, uint32_t types, uint32_t events_low, uint32_t events_high) {
  struct hci_filter filter = {.type_mask = types, .event_mask = {events_low, events_high}, .opcode = 0};
  struct call call = {.fd = fd, .level = SOL_HCI, .name = HCI_FILTER, .octets = &filter, .count = sizeof filter};
  return ringtap_with_rights(net_raw, set_option, &call);
}

int ringtap_hci_send(int fd, const void *packet, size_t count) {
  struct call call = {.fd = fd, .octets = packet, .count = count};
  return ringtap_with_rights(net_raw, send_packet, &call);
}

int ringtap_force_receive_buffer(int fd, int byte_count) {
  struct call call = {
      .fd = fd, .level = SOL_SOCKET, .name = SO_RCVBUFFORCE, .octets = &byte_count, .count = sizeof byte_count};
  return ringtap_with_rights(net_admin, set_option, &call);
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

int ringtap_l2cap_accept(int fd, uint64_t *address, uint8_t *address_type) {
  struct sockaddr_l2 peer = {0};
  socklen_t length = sizeof peer;
  int link = accept4(fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  *address = address_bits(&peer.l2_bdaddr);
  *address_type = peer.l2_bdaddr_type;
  return link;
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
  // Headers that the last call has filled, and that must have their room back. The others are left alone: between two
  // datagrams that come alone they have gone from the cache.
  unsigned used;
  struct mmsghdr *headers;
  struct iovec *vectors;
  struct ringtap_datagram *datagrams;
  uint8_t *bytes, *control;
  uint32_t overflow;
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
  slab->used = slots;
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

static void read_control(struct ringtap_slab *slab, struct msghdr *header, struct ringtap_datagram *datagram) {
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
      memcpy(&slab->overflow, CMSG_DATA(c), sizeof slab->overflow);
    }
  }
}

_Thread_local uint64_t ringtap_thread_calls;

uint64_t ringtap_system_calls(void) { return ringtap_thread_calls; }

void ringtap_note_system_call(void) { ringtap_thread_calls++; }

int ringtap_slab_receive(struct ringtap_slab *slab, int fd) {
  ringtap_thread_calls++;
  for (unsigned i = 0; i < slab->used; i++) slab->headers[i].msg_hdr.msg_controllen = CONTROL_BYTES;
  int count;
  do count = recvmmsg(fd, slab->headers, slab->slots, MSG_DONTWAIT, NULL);
  while (count < 0 && errno == EINTR);
  slab->used = count > 0 ? (unsigned)count : 0;
  for (int i = 0; i < count; i++) {
    struct ringtap_datagram *datagram = &slab->datagrams[i];
    *datagram = (struct ringtap_datagram){
        .length = slab->headers[i].msg_len,
        .truncated = (slab->headers[i].msg_hdr.msg_flags & MSG_TRUNC) != 0};
    read_control(slab, &slab->headers[i].msg_hdr, datagram);
  }
  return count;
}

const uint8_t *ringtap_slab_bytes(const struct ringtap_slab *slab, unsigned slot) {
  return slab->bytes + (size_t)slot * slab->slot_bytes;
}

const struct ringtap_datagram *ringtap_slab_datagram(const struct ringtap_slab *slab, unsigned slot) {
  return &slab->datagrams[slot];
}

uint32_t ringtap_slab_overflow(const struct ringtap_slab *slab) { return slab->overflow; }

int64_t ringtap_socket_drops(int fd) {
  uint32_t info[SK_MEMINFO_VARS] = {0};
  socklen_t length = sizeof info;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0) return -1;
  // qemu-user hands on the first number only.
  if (length <= SK_MEMINFO_DROPS * sizeof *info) {
    errno = ENOPROTOOPT;
    return -1;
  }
  return info[SK_MEMINFO_DROPS];
}

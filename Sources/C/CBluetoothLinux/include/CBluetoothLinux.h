// The kernel's Bluetooth ABI as Swift can use it.
//
// The structures and numbers come from libbluetooth-dev's headers. What stands here besides is what
// Swift's importer cannot see, each with its reason: ioctl numbers and function-like macros, control
// messages (CMSG_*), and calls that Glibc's module map hides behind _GNU_SOURCE.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/l2cap.h>

// Enumerations and macros of <sys/socket.h> as plain numbers.
#define RINGTAP_AF_BLUETOOTH 31
#define RINGTAP_SOCK_RAW 3
#define RINGTAP_SOCK_SEQPACKET 5

// --- HCI sockets -----------------------------------------------------------------------------------

/// HCIGETDEVLIST: a flexible array behind an ioctl number. Returns the count of `ids` filled in, or -1.
int ringtap_hci_device_list(int fd, uint16_t *ids, int capacity);

/// What HCIGETDEVINFO says of one adapter (the ioctl number is a macro).
struct ringtap_hci_device {
  uint64_t address;  // 48 bits, the first printed octet most significant
  uint32_t flags;    // bit HCI_UP, HCI_INIT, HCI_RUNNING …
  uint8_t bus;
  char name[9];
};
int ringtap_hci_device_info(int fd, uint16_t id, struct ringtap_hci_device *info);

/// bind() to one channel of one adapter (the importer hides the socket address behind a cast).
int ringtap_hci_bind(int fd, uint16_t device, uint16_t channel);

/// HCIDEVUP: the kernel sets the adapter up and uses it. EALREADY where it does so already.
int ringtap_hci_device_up(int fd, uint16_t id);

/// HCI_FILTER on a raw channel: which packet types and events reach this socket.
int ringtap_hci_set_filter(int fd, uint32_t types, uint32_t events_low, uint32_t events_high);

/// send() of a command on a raw channel: the kernel asks the thread that sends for CAP_NET_RAW.
int ringtap_hci_send(int fd, const void *packet, size_t count);

/// SO_RCVBUFFORCE, of any socket: the kernel asks for CAP_NET_ADMIN.
int ringtap_force_receive_buffer(int fd, int byte_count);

/// HCI_TIME_STAMP: receive stamps on a raw channel, which does not take SO_TIMESTAMPNS.
int ringtap_hci_enable_time_stamps(int fd);

// --- L2CAP sockets ---------------------------------------------------------------------------------

/// bind() and connect() by fixed channel (`htobs` and `bdaddr_t` do not import).
/// `address_type`: BDADDR_LE_PUBLIC or BDADDR_LE_RANDOM.
int ringtap_l2cap_bind(int fd, uint64_t address, uint8_t address_type, uint16_t cid);
int ringtap_l2cap_connect(int fd, uint64_t address, uint8_t address_type, uint16_t cid);

/// accept() on a listening socket: a non-blocking one, and whose link it is. -1 with errno.
int ringtap_l2cap_accept(int fd, uint64_t *address, uint8_t *address_type);

/// L2CAP_CONNINFO: the HCI connection handle of a connected socket, or -1.
int ringtap_l2cap_connection_handle(int fd);

/// BT_SECURITY (a structure of two octets): the level of the socket's link, 0 to 4, or -1; and asks for a level.
int ringtap_bt_security(int fd);
int ringtap_bt_raise_security(int fd, uint8_t level);

// --- Byte streams to a controller ------------------------------------------------------------------

/// Opens a serial port raw, 8N1, at a standard rate (the termios flags are macros). -1 with EINVAL for a
/// rate that termios has no name for.
int ringtap_serial_open(const char *path, unsigned baud, int hardware_flow_control);
/// Connects a stream socket; the address comes from getaddrinfo. -1 with errno.
int ringtap_tcp_connect(const char *host, const char *port);
/// A socket for datagrams to one receiver.
int ringtap_udp_connect(const char *host, const char *port);
int ringtap_unix_connect(const char *path);
/// Listening stream sockets; `host` NULL for every address. A UNIX socket's stale file is replaced, with a `mode` only this
/// user's; its mode is what the umask leaves of `mode`, where that is 0 of all.
int ringtap_tcp_listen(const char *host, const char *port);
int ringtap_unix_listen(const char *path, unsigned mode);
/// Waits for a peer; the connection is non-blocking.
int ringtap_accept(int fd);
/// A pseudo-terminal in raw mode; `name` gets the path of its other end.
int ringtap_pty_open(char *name, int capacity);
/// A connected pair of non-blocking packet sockets.
int ringtap_packet_pair(int pair[2]);
int ringtap_set_nonblocking(int fd);
/// POLLRDHUP (hidden behind _GNU_SOURCE), POLLHUP: nothing more comes than what waits already.
int ringtap_has_hung_up(int fd);
/// Waits until there is something to read: 1, 0 when the time is over. A descriptor of -1 never has anything.
int ringtap_wait_readable(int fd, int timeout_ms);
/// Sends one datagram to a UNIX socket; a path that begins with '@' is abstract. -1 with errno.
int ringtap_unix_tell(const char *path, const void *octets, size_t count);

// --- Receiving -------------------------------------------------------------------------------------

/// One datagram of the last batch.
struct ringtap_datagram {
  int64_t time_ns;    // SCM_TIMESTAMPNS or HCI_CMSG_TSTAMP, CLOCK_REALTIME; 0 where the kernel gave none
  uint32_t length;    // octets in the slot
  uint32_t truncated; // MSG_TRUNC: the datagram was longer than the slot
};

/// Buffers for one recvmmsg call, allocated once (mmsghdr and CMSG_* do not import).
struct ringtap_slab;
struct ringtap_slab *ringtap_slab_create(unsigned slots, unsigned slot_bytes);
void ringtap_slab_free(struct ringtap_slab *slab);
/// recvmmsg(MSG_DONTWAIT) into the slab. Returns the count of datagrams, or -1 with errno.
int ringtap_slab_receive(struct ringtap_slab *slab, int fd);
const uint8_t *ringtap_slab_bytes(const struct ringtap_slab *slab, unsigned slot);
const struct ringtap_datagram *ringtap_slab_datagram(const struct ringtap_slab *slab, unsigned slot);
/// SO_RXQ_OVFL: drops of the socket so far, as the last datagram that had a count told them. The kernel gives none before
/// the first.
uint32_t ringtap_slab_overflow(const struct ringtap_slab *slab);

/// SO_MEMINFO, drops: what the kernel dropped at this socket so far, visible at once. -1 on error.
int64_t ringtap_socket_drops(int fd);

// --- Waiting (Glibc's module map has neither epoll nor eventfd) --------------------------------------

struct ringtap_ready {
  uint64_t token;
  uint32_t events;
};
#define RINGTAP_READABLE 0x001u  // EPOLLIN
#define RINGTAP_WRITABLE 0x004u  // EPOLLOUT
#define RINGTAP_HANG_UP 0x018u   // EPOLLERR, EPOLLHUP

int ringtap_epoll_create(void);
int ringtap_epoll_add(int epoll, int fd, uint64_t token, uint32_t events);
int ringtap_epoll_modify(int epoll, int fd, uint64_t token, uint32_t events);
int ringtap_epoll_remove(int epoll, int fd);
/// Waits until something is ready or `timeout_ms` (-1: for ever) is over. At most 64 are given at once.
int ringtap_epoll_wait(int epoll, struct ringtap_ready *ready, int capacity, int timeout_ms);

/// A non-blocking eventfd; signalling it wakes whoever waits, draining it makes it quiet again.
int ringtap_wake_create(void);
void ringtap_wake_signal(int fd);
void ringtap_wake_drain(int fd);
/// Sleeps until it is signalled, then makes it quiet. `timeout_ms` -1: for ever.
void ringtap_wake_wait(int fd, int timeout_ms);

/// System calls that this thread has made to wait, receive, read, write, send and wake: all that a receive loop makes
/// while it streams.
uint64_t ringtap_system_calls(void);
/// Counts one that was made elsewhere.
void ringtap_note_system_call(void);

// --- Threads ---------------------------------------------------------------------------------------

/// pthread_setname_np for the calling thread (hidden behind _GNU_SOURCE). At most 15 characters are kept.
void ringtap_thread_set_name(const char *name);
/// A detached thread with what its attributes can say (CPU_SET is a macro, the rest is hidden behind _GNU_SOURCE).
/// `processor`: the only one it may run on; -1 for those of the main thread, whichever thread calls. `priority`: of
/// SCHED_FIFO, 1 … 99; 0 for none. Returns 0 or an errno; with one there is no thread.
// Whether this process may have so many more threads now: makes them, and ends them. 0, or EAGAIN and its like.
int ringtap_threads_try(int count);
int ringtap_thread_create(void *(*body)(void *), void *argument, int processor, int priority);
/// SCHED_RESET_ON_FORK: threads that the calling one starts do not have its priority.
void ringtap_thread_keep_priority(void);
/// SCHED_BATCH: the calling thread, when it wakes, does not take the processor from another.
void ringtap_thread_be_patient(void);
/// mlockall for what is touched from now on (the flags are macros). -1 with errno.
int ringtap_lock_memory(void);

/// Turns SIGINT, SIGTERM and SIGHUP into what `ringtap_signals_wait` returns, and ignores SIGPIPE. By handlers and
/// not by `sigwait`: `dispatch_main` parks the main thread with all signals unblocked. Once per process; −1 with
/// `errno` set on failure.
int ringtap_signals_take(void);
/// Sleeps until one of these signals comes; returns its number.
int ringtap_signals_wait(void);

#include "CBluetoothProcess.h"

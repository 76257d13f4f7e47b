// What the kernel says of a process, and lets it give up, as Swift can use it. The reasons are in CBluetoothLinux.h.
#pragma once

#include <stdint.h>

/// The name of an error number, `EBUSY` (strerrorname_np is hidden behind _GNU_SOURCE); NULL for a number without one.
const char *ringtap_error_name(int number);

/// Has octets of a file from an offset on written to the disk, without what the file system notes of the file; waits for them
/// unless `is_begun` (sync_file_range and its flags are hidden behind _GNU_SOURCE). 0, or -1 with errno.
int ringtap_write_out(int fd, int64_t offset, int is_begun);

/// Waits until the disk has all of the file system that a file is on: syncfs.
///
/// Returns 1; 0 where that would not be the disk's word; -1 with errno.
int ringtap_sync_file_system(int fd);

/// One link of an adapter, by HCIGETCONNLIST (the ioctl number is a macro, the array flexible).
struct ringtap_hci_link {
  uint64_t address;
  uint16_t handle;
  uint8_t is_low_energy;
};
/// Returns the count of `links` filled in, or -1.
int ringtap_hci_links(int fd, uint16_t id, struct ringtap_hci_link *links, int capacity);

/// Whether a descriptor is an HCI socket, by SO_DOMAIN and SO_PROTOCOL.
int ringtap_is_hci_socket(int fd);
/// Sends one packet and waits for packets that come after it. Returns the octets of the next, 0 if none came in time,
/// or -1.
int ringtap_exchange(int fd, const uint8_t *packet, int length, uint8_t *answer, int capacity, int timeout_ms);

/// A user by name or number (getpwnam fills a structure that is not ours). -1 where there is none.
int ringtap_user(const char *name, uint32_t *user, uint32_t *group, char *home, int capacity);
/// Gives up groups, user, ambient and all other capabilities of the calling thread, and the right to get any by executing
/// a file, and all but two of the bounding set. 0, or -1 with errno, whatever is given up by then.
int ringtap_drop_privileges(uint32_t user, uint32_t group);
/// Has descriptors be 3, 4, … and all others close at exec, sets a closed pipe's signal back, and becomes another
/// program, found in PATH. Returns only if that fails, -1 with errno.
int ringtap_execute_with(const int *descriptors, int count, char *const *arguments);

// --- What the process holds and may call -----------------------------------------------------------

/// How the process was started, as far as `ringtap_rights_forgo` found it.
struct ringtap_rights_start {
  uint64_t permitted;
  int no_new_privileges, is_filtered;
  int is_known;
};
/// Gives up the right to gain privileges by executing a file, for good. Before another thread is started. 0, or -1.
int ringtap_rights_forgo(void);
struct ringtap_rights_start ringtap_rights_at_start(void);
/// Moves the capabilities of the mask `kept` to a thread of their own, and leaves this thread, and all that it starts,
/// those of `everywhere`. Before another thread is started. 0, or -1 with errno.
int ringtap_rights_begin(uint64_t kept, uint64_t everywhere, int is_filtered);
/// Leaves the thread only these, for good; with none it ends.
void ringtap_rights_keep(uint64_t kept);
/// What the thread has; 0 where there is none.
uint64_t ringtap_rights_held(void);

/// Refuses what starts and looks into programs and changes the machine, to all threads and for good (seccomp; the program
/// of a filter is macros). Besides `is_without_sockets` sockets. 0, or -1 with errno; ENOSYS for a processor that is not
/// known here.
int ringtap_filter_process(int is_without_sockets);
/// What became of that: 0 where it was not asked for, 1 where it is on, else its errno, negative.
int ringtap_filter_state(void);

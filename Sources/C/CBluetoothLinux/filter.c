#define _GNU_SOURCE
#include "CBluetoothLinux.h"
#include "calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define OUR_ARCHITECTURE 0
#endif

// What no command of ours does, nor a library that it has: become, start or look into a program, change the machine, or
// get at calls by a way around this filter (io_uring). Refused, not fatal: a library that tries goes on without.
static const unsigned programs[] = {
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsmount,
    SYS_fsconfig, SYS_fspick, SYS_open_by_handle_at, SYS_setns, SYS_unshare, SYS_setuid, SYS_setgid, SYS_setreuid,
    SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_add_key,
    SYS_request_key, SYS_keyctl, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_sethostname, SYS_setdomainname,
    SYS_clock_settime, SYS_settimeofday,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

// Besides, of whoever only reads and writes files.
static const unsigned sockets[] = {
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
};

// All that the thread with the capabilities does: what asks for them, on sockets that others have opened, its lock, and
// its end.
static const unsigned rights[] = {
    SYS_futex, SYS_capset, SYS_bind, SYS_setsockopt, SYS_sendto, SYS_ioctl, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_restart_syscall, SYS_madvise, SYS_munmap, SYS_exit, SYS_exit_group,
};

// 0 where nobody has asked, 1 where it is on, else what it failed with, negative.
static int state;

enum { most = 80 };
_Static_assert(sizeof programs / sizeof *programs + sizeof sockets / sizeof *sockets < most, "jumps have 8 bits");

struct filter {
  struct sock_filter steps[most + 8];
  unsigned short count;
};

static void add(struct filter *filter, struct sock_filter step) { filter->steps[filter->count++] = step; }

static void begin(struct filter *filter) {
  const struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  // The number of a call means something else to another architecture, such as i386's on x86-64.
  add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCHITECTURE, 1, 0));
  add(filter, refuse);
  add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
#ifdef __x86_64__
  // x32's numbers.
  add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
  add(filter, refuse);
#endif
}

// Goes to the last step with one of these numbers; `further` steps stand between these and that.
static void match(struct filter *filter, const unsigned *numbers, unsigned count, unsigned further) {
  for (unsigned i = 0; i < count; i++)
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i],
                                             (uint8_t)(count - i + further), 0));
}

static int install(struct filter *filter, uint32_t others, uint32_t matches, unsigned flags) {
  add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others));
  add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, matches));
  struct sock_fprog program = {.len = filter->count, .filter = filter->steps};
  // A thread that cannot be had is told by its number.
  long status = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (status > 0) errno = ESRCH;
  return status == 0 ? 0 : -1;
}

int ringtap_filter_state(void) { return state; }

int ringtap_filter_process(int is_without_sockets) {
  if (!OUR_ARCHITECTURE) {
    errno = ENOSYS;
    state = -ENOSYS;
    return -1;
  }
  const unsigned program_count = sizeof programs / sizeof *programs, socket_count = sizeof sockets / sizeof *sockets;
  struct filter filter = {.count = 0};
  begin(&filter);
  match(&filter, programs, program_count, is_without_sockets ? socket_count : 0);
  if (is_without_sockets) match(&filter, sockets, socket_count, 0);
  int status = install(&filter, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC);
  state = status == 0 ? 1 : -errno;
  return status;
}

void ringtap_filter_rights_thread(void) {
  if (!OUR_ARCHITECTURE) return;
  const unsigned count = sizeof rights / sizeof *rights;
  struct filter filter = {.count = 0};
  begin(&filter);
  match(&filter, rights, count, 0);
  // Where it fails, the filter of the process is there all the same.
  install(&filter, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, 0);
}

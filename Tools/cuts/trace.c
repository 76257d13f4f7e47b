/* Logs what a program writes to one file, and when it waits for the disk. Preloaded into the test kernel by Tools/powercut.
 *
 * POWERCUT_DISK is the file, POWERCUT_TRACE the log: for each call a head (below), then what was written. It runs on the kernel's
 * own small stacks, beside its own malloc: no buffers, no allocations.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Far from those that the kernel counts on. */
enum { LOG_DESCRIPTOR = 900 };

struct head {
    uint64_t time;
    uint64_t offset;
    uint32_t length;
    /* W: write, F: all before is on the disk, Z: zeros. */
    uint32_t kind;
};

static dev_t device;
static ino_t inode;
static int out = -1;

__attribute__((constructor)) static void begin(void) {
    struct stat status;
    const char *disk = getenv("POWERCUT_DISK"), *trace = getenv("POWERCUT_TRACE");
    if (disk == NULL || trace == NULL || stat(disk, &status) != 0) return;
    device = status.st_dev;
    inode = status.st_ino;
    int opened = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (opened < 0) return;
    out = fcntl(opened, F_DUPFD_CLOEXEC, LOG_DESCRIPTOR);
    close(opened);
}

static int is_disk(int descriptor) {
    struct stat status;
    return out >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

static void tell(uint32_t kind, const void *data, uint64_t offset, uint32_t length) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct head head = {now.tv_sec * 1000000000ull + now.tv_nsec, offset, length, kind};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, kind == 'W' ? length : 0}};
    /* A log that lacks something would show losses that are none. */
    if (writev(out, parts, 2) != (ssize_t)(parts[0].iov_len + parts[1].iov_len)) abort();
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t offset) {
    if (is_disk(descriptor)) tell('W', data, offset, length);
    return syscall(SYS_pwrite64, descriptor, data, length, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset) {
    return pwrite64(descriptor, data, length, offset);
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t length) {
    if (is_disk(descriptor)) tell('Z', NULL, offset, length);
    return syscall(SYS_fallocate, descriptor, mode, offset, length);
}

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
    return fallocate64(descriptor, mode, offset, length);
}

int fdatasync(int descriptor) {
    int result = syscall(SYS_fdatasync, descriptor);
    if (result == 0 && is_disk(descriptor)) tell('F', NULL, 0, 0);
    return result;
}

int fsync(int descriptor) {
    int result = syscall(SYS_fsync, descriptor);
    if (result == 0 && is_disk(descriptor)) tell('F', NULL, 0, 0);
    return result;
}

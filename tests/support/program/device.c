/* Devices that misbehave on request. Each file in the folder DEVICE_FAULTS asks for one fault of reads and writes at an offset of
   the files with the same name before its last dot, wherever they are:
     NAME.hangs   they do not return while it exists
     NAME.broken  writes fail with EIO while it exists
     NAME.fails   the next write fails with EIO, and removes it; before that, one for each byte in it
     NAME.uncut   it is not cut off, with EIO, while it exists
     NAME.counted each write adds a byte to it
     NAME.slow    each write takes 0.2 s longer
     NAME.takes   the next write removes it, and does not go on while NAME.held exists
     NAME.rhangs  reads at the file's own position do not return while it exists; writes do
     NAME.absurd  reads say that they have read more than was asked for, which no kernel does: the program panics
   And in the thread whose name begins with what the file "thread.dies" holds, clock_gettime fails, which no kernel does either.
   Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Whether there is this fault of the file; its path into `path`. */
static int has(int file, const char *fault, char *path) {
    const char *folder = getenv("DEVICE_FAULTS");
    char link[64];
    static __thread char target[PATH_MAX]; /* a handler of signals has a small stack */
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = folder ? readlink(link, target, sizeof target - 1) : -1;
    if (length < 0) return 0;
    target[length] = 0;
    const char *name = strrchr(target, '/');
    if (!name) return 0;
    snprintf(path, PATH_MAX, "%s%s.%s", folder, name, fault);
    return access(path, F_OK) == 0;
}

static void count_write(int file) {
    char path[PATH_MAX];
    if (!has(file, "counted", path)) return;
    int counted = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (counted < 0) return;
    if (write(counted, ".", 1) != 1) abort();
    close(counted);
}

/* Takes a byte from a file, or removes it if it has none. */
static int wear(const char *path) {
    struct stat found;
    if (stat(path, &found) != 0) return -1;
    return found.st_size > 0 ? truncate(path, found.st_size - 1) : unlink(path);
}

static void hang(int file) {
    char path[PATH_MAX];
    while (has(file, "hangs", path)) usleep(2000);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t offset) {
    char path[PATH_MAX];
    hang(file);
    if (has(file, "absurd", path)) return count + 100000;
    return syscall(SYS_pread64, file, bytes, count, offset);
}

ssize_t read(int file, void *bytes, size_t count) {
    static __thread char path[PATH_MAX];
    while (has(file, "rhangs", path)) usleep(2000);
    return syscall(SYS_read, file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    char path[PATH_MAX];
    hang(file);
    count_write(file);
    if (has(file, "slow", path)) usleep(200000);
    if (has(file, "takes", path) && unlink(path) == 0) {
        while (has(file, "held", path)) usleep(2000);
    }
    if (has(file, "broken", path) || (has(file, "fails", path) && wear(path) == 0)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, count, offset);
}

int ftruncate64(int file, off64_t length) {
    char path[PATH_MAX];
    if (!has(file, "uncut", path)) return syscall(SYS_ftruncate, file, length);
    errno = EIO;
    return -1;
}

static char death[PATH_MAX];

__attribute__((constructor)) static void find_death(void) {
    const char *folder = getenv("DEVICE_FAULTS");
    if (folder) snprintf(death, sizeof death, "%s/thread.dies", folder);
}

/* A handler of signals asks for the time too, on a stack of 8 KiB: nothing large lies on it here. */
static int dies(void) {
    static __thread unsigned calls;
    if (calls++ % 8 || !*death) return 0;
    char wanted[16] = {0}, name[16] = {0};
    int file = open(death, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, wanted, sizeof wanted - 1);
    close(file);
    prctl(PR_GET_NAME, name);
    return length > 0 && strncmp(wanted, name, length) == 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!dies()) return syscall(SYS_clock_gettime, clock, time);
    errno = EINVAL;
    return -1;
}

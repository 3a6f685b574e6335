/* Lets clock_gettime and recv fail in one thread: the one whose name the file that FAILING_THREAD names contains, once that
   file exists. No kernel does that; the program panics in that thread. Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int fails(void) {
    const char *path = getenv("FAILING_THREAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    char wanted[16] = {0}, name[16] = {0};
    ssize_t length = read(file, wanted, sizeof wanted - 1);
    close(file);
    prctl(PR_GET_NAME, name);
    return length > 0 && strcmp(wanted, name) == 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!fails()) return syscall(SYS_clock_gettime, clock, time);
    errno = EINVAL;
    return -1;
}

ssize_t recv(int socket, void *bytes, size_t length, int flags) {
    if (!fails()) return syscall(SYS_recvfrom, socket, bytes, length, flags, NULL, NULL);
    errno = EBADF;
    return -1;
}

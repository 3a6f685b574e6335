// Refuses to move a thread, but for the calling one, as a sandbox may.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *cpus) {
    if (thread == 0) return syscall(SYS_sched_setaffinity, thread, size, cpus);
    errno = EPERM;
    return -1;
}

/* The disk cannot store what it has taken, once the file that REFUSING_DISK names exists. Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

int sync_file_range(int file, off64_t offset, off64_t bytes, unsigned flags) {
    const char *name = getenv("REFUSING_DISK");
    (void)file, (void)offset, (void)bytes, (void)flags;
    if (!name || access(name, F_OK) != 0) return 0;
    errno = EIO;
    return -1;
}

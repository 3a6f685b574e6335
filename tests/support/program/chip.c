/* A chip of fans like the nct6775: it takes `pwmN` only while `pwmN_enable` is 1 (EBUSY; with the word drops in CHIP_MODES it drops a value then and
   says nothing, with deaf it drops all, with refuses it takes none, nor does a converter's `_raw`: EINVAL), knows only the modes in CHIP_MODES (EINVAL), and shows 0 for a fan at 255. Its real mode is in `pwmN_mode`; until that is there it is the one that `pwmN_enable` shows. Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int number_in(const char *path, int otherwise) {
    char text[32] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    return length > 0 ? atoi(text) : otherwise;
}

static void put(const char *path, int number) {
    char text[32];
    int length = snprintf(text, sizeof text, "%d\n", number);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666); // who reads meanwhile finds no empty file
    if (file < 0 || syscall(SYS_pwrite64, file, text, length, 0L) != length || ftruncate(file, length) != 0) abort();
    close(file);
}

/* A PWM channel of one that refuses takes no period but 40 us. */
ssize_t write(int file, const void *bytes, size_t count) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    int refuses = length > 7 && strcmp(path + length - 7, "/period") == 0 && strstr(getenv("CHIP_MODES") ?: "", "refuses");
    if (refuses && (count < 5 || memcmp(bytes, "40000", 5) != 0)) return errno = EINVAL, -1;
    return syscall(SYS_write, file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    char link[64], path[PATH_MAX - 16], enable[PATH_MAX], mode[PATH_MAX], text[32] = {0}, known[64], wanted[34];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    const char *name = strrchr(path, '/');
    int channel = 0, end = 0;
    int raw = name && strlen(name) > 4 && strcmp(name + strlen(name) - 4, "_raw") == 0;
    if (raw && strstr(getenv("CHIP_MODES") ?: "", "refuses")) return errno = EINVAL, -1;
    if (!name || sscanf(name, "/pwm%d%n", &channel, &end) != 1 || count >= sizeof text) {
        return syscall(SYS_pwrite64, file, bytes, count, offset);
    }
    memcpy(text, bytes, count);
    int is_mode = strcmp(name + end, "_enable") == 0, number = atoi(text);
    if (!is_mode && name[end]) return syscall(SYS_pwrite64, file, bytes, count, offset);
    path[name + end - path] = 0;
    snprintf(enable, sizeof enable, "%s_enable", path);
    snprintf(mode, sizeof mode, "%s_mode", path);
    int now = number_in(mode, number_in(enable, 1));
    if (is_mode) {
        snprintf(known, sizeof known, " %s ", getenv("CHIP_MODES") ?: "0 1 2 3 4 5");
        snprintf(wanted, sizeof wanted, " %d ", number);
        if (!strstr(known, wanted)) return errno = EINVAL, -1;
        put(mode, now = number);
    } else {
        const char *modes = getenv("CHIP_MODES") ?: "";
        if (strstr(modes, "refuses")) return errno = EINVAL, -1;
        if (strstr(modes, "deaf") || (now != 1 && strstr(modes, "drops"))) return count;
        if (now != 1) return errno = EBUSY, -1;
        put(path, number);
    }
    put(enable, now == 1 && number_in(path, 0) == 255 ? 0 : now);
    return count;
}

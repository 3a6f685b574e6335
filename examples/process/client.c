/* The other end of a hertzd task of kind = "process", in C and in one file: gets every tick, and gives one value back.
 *
 *     cc -O2 -Wall -Wextra -o client client.c
 *
 * hertzd starts it, by client.toml, and says in HERTZD_FD which descriptor its socket is. Each read is one frame and each write is one; a read
 * blocks until there is a tick, and returns 0 when hertzd ends the task. docs/processes.md has the layout of the frames. All numbers are
 * little-endian: this file is for machines that are, too.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELLO = 1, TICK = 2, ANSWER = 3, VERSION = 1 };
enum { GOOD = 0, BAD = 1, STALE = 2, NONE = 3, HELD = 4 };

struct hello { /* then the names of the task, of its inputs and of its values, each with a NUL byte */
    uint32_t kind, version;
    int64_t period_ns;
    uint32_t inputs, values;
};

struct input {
    double value;   /* NaN unless it is good */
    int64_t age_ns; /* of the oldest measurement behind it; INT64_MIN: there is none */
    uint32_t quality, reserved;
};

struct tick { /* then as many inputs as the hello said */
    uint32_t kind, reserved;
    uint64_t n;
    int64_t release_ns, started_ns; /* on the clock of the worker */
    uint64_t skipped;
    int64_t monotonic_ns; /* the start, on CLOCK_MONOTONIC */
};

struct answer { /* as many values as the hello said: one here */
    uint32_t kind, count;
    uint64_t n; /* of the tick that it answers */
    double value;
};

static _Alignas(8) unsigned char frame[1 << 16];

int main(void)
{
    const char *number = getenv("HERTZD_FD");
    if (number == NULL) {
        fprintf(stderr, "HERTZD_FD is not set: hertzd starts this program, by a task of kind = \"process\"\n");
        return 64;
    }
    int fd = atoi(number);
    struct hello hello;
    ssize_t length = read(fd, frame, sizeof frame);
    if (length < (ssize_t)sizeof hello) {
        fprintf(stderr, "no greeting of hertzd came\n");
        return 70;
    }
    memcpy(&hello, frame, sizeof hello);
    if (hello.kind != HELLO || hello.version != VERSION || hello.inputs != 1 || hello.values != 1) {
        fprintf(stderr, "this program is for version %d of the protocol, one input and one value\n", VERSION);
        return 70;
    }
    double filtered = NAN;
    while ((length = read(fd, frame, sizeof frame)) > 0) {
        struct tick tick;
        struct input load;
        if (length != (ssize_t)(sizeof tick + sizeof load))
            continue; /* a frame of a kind that this program does not know */
        memcpy(&tick, frame, sizeof tick);
        memcpy(&load, frame + sizeof tick, sizeof load);
        if (tick.kind != TICK)
            continue;
        if (load.quality == GOOD)
            filtered = isnan(filtered) ? load.value : filtered + 0.1 * (load.value - filtered);
        if (isnan(filtered))
            continue; /* nothing to say yet: the tick counts as missing */
        struct answer answer = { ANSWER, 1, tick.n, filtered };
        if (write(fd, &answer, sizeof answer) < 0)
            break;
    }
    return 0;
}

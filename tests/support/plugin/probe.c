/* A plugin for tests: writes what a tick is told, and misbehaves on request. */
#define _GNU_SOURCE
#include <hertzd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef GENERATION
#define GENERATION 1
#endif

enum { IN, MODE, EVERY, LENGTH, GAIN, LABEL, ON, KEYS };
enum { QUIET, SLEEP, BURN, TOUCH, SEGV, BUS, FPE, ILL, ABORT, DEEP, FAIL, CREATE, NAN_VALUE, THREAD, NONE, ALLOCATE,
       TRAP, SYS, SYS_FILTER, OWN_THREAD, BOTH, IN_CREATE, IN_DESTROY, EXIT, FORK };

static const char *const modes[] = {"quiet", "sleep", "burn", "touch", "segv",   "bus", "fpe", "ill",
                                    "abort", "deep",  "fail", "create", "nan", "thread", "none", "allocate",
                                    "trap", "sys", "sys-filter", "own-thread", "both", "in-create", "in-destroy",
                                    "exit", "fork"};

static const hertzd_key keys[KEYS] = {
    {.name = "in", .type = HERTZD_INPUT, .help = "Any value."},
    {.name = "mode", .type = HERTZD_CHOICE, .words = modes, .word_count = sizeof modes / sizeof *modes, .preset = "quiet", .help = "What it does now and then."},
    {.name = "every", .type = HERTZD_INTEGER, .low = 1, .high = 1e6, .preset = "100", .help = "In which ticks."},
    {.name = "length", .type = HERTZD_DURATION, .low = 0, .high = 60e9, .preset = "0s", .help = "For how long."},
    {.name = "gain", .type = HERTZD_NUMBER, .low = 0, .high = 10, .unit = "V", .flags = HERTZD_REQUIRED, .help = "A number."},
    {.name = "label", .type = HERTZD_TEXT, .help = "A text."},
    {.name = "on", .type = HERTZD_BOOL, .preset = "true", .help = "A switch."},
};

static const hertzd_value values[] = {
    {"n", ""},       {"release-s", "s"}, {"release-ns", "ns"}, {"after", "ns"},  {"lateness", "ns"}, {"skipped", ""},
    {"in", ""},      {"age", "ns"},      {"quality", ""},      {"gain", "V"},    {"ticks", ""},      {"generation", ""},
    {"period", "ns"}, {"mode", ""},      {"clock", ""},
};
enum { VALUES = sizeof values / sizeof *values };

static const char *const errors[] = {"the first error", "the second error"};

struct probe {
    double gain, ticks;
    uint64_t every;
    int64_t length;
    int mode, run_mode;
};

static struct probe *made(void)
{
    return calloc(1, sizeof(struct probe));
}

static int32_t create(const hertzd_start *start, void **self)
{
    if (start->settings[MODE].integer == CREATE) {
        snprintf(start->error, start->error_size, "no such device for %s: %s", start->task, start->json);
        return 7;
    }
    if (start->settings[MODE].integer == IN_CREATE)
        *(volatile char *)16 = 1;
    struct probe *p = *self = made();
    p->gain = start->settings[GAIN].number;
    p->every = (uint64_t)start->settings[EVERY].integer;
    p->length = start->settings[LENGTH].integer;
    p->mode = (int)start->settings[MODE].integer;
    p->run_mode = (int)start->mode;
    return HERTZD_OK;
}

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static volatile int zero, many = 100;
static volatile char sink;

__attribute__((noinline)) static int deep(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth < 0 ? 0 : deep(depth + 1) + room[0];
}

/* A thread of its own, which is in no function of the plugin. Waits for the tick that is to crash with it. */
static pthread_barrier_t together;

static void *crash(void *with_the_tick)
{
    if (with_the_tick)
        pthread_barrier_wait(&together);
    *(volatile char *)16 = 1;
    return 0;
}

/* From now on this thread may not ask for its parent. */
static void forbid(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        raise(SIGSYS); /* a kernel without such filters */
}

static int32_t misbehave(struct probe *p)
{
    int64_t until;
    switch (p->mode) {
    case SLEEP:
        usleep((useconds_t)(p->length / 1000));
        break;
    case BURN:
        for (until = now(CLOCK_THREAD_CPUTIME_ID) + p->length; now(CLOCK_THREAD_CPUTIME_ID) < until;)
            ;
        break;
    case TOUCH:
        /* Fresh memory for as long, each page of it touched for the first time. */
        for (until = now(CLOCK_MONOTONIC) + p->length; now(CLOCK_MONOTONIC) < until;) {
            size_t size = 1 << 20;
            char *fresh = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t at = 0; at < size; at += 4096)
                fresh[at] = 1;
            munmap(fresh, size);
        }
        break;
    case ALLOCATE:
        /* The allocator returns blocks of this size to the kernel, and takes them from there. */
        for (until = now(CLOCK_MONOTONIC) + p->length; now(CLOCK_MONOTONIC) < until;) {
            size_t size = 64 << 20;
            volatile char *fresh = malloc(size);
            for (size_t at = 0; at < size && now(CLOCK_MONOTONIC) < until; at += 4096)
                fresh[at] = 1;
            free((void *)fresh);
        }
        break;
    case SEGV:
        *(volatile char *)16 = 1;
        break;
    case BUS: {
        FILE *file = tmpfile();
        char *map = mmap(0, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
        sink = map[0]; /* past the end of the file */
        break;
    }
    case FPE:
#if defined(__x86_64__) || defined(__i386__)
        zero = many / zero;
#else
        raise(SIGFPE);
#endif
        break;
    case ILL:
#if defined(__aarch64__)
        __asm__ volatile(".inst 0"); /* what compilers trap with there is SIGTRAP */
#else
        __builtin_trap();
#endif
    case ABORT:
        abort();
    case TRAP:
#if defined(__x86_64__) || defined(__i386__)
        __asm__ volatile("int3");
#elif defined(__aarch64__)
        __builtin_trap();
#else
        raise(SIGTRAP);
#endif
        break;
    case SYS:
        raise(SIGSYS);
        break;
    case SYS_FILTER:
        forbid();
        syscall(SYS_getppid);
        break;
    case EXIT:
        exit(0);
    case FORK:
        if (fork() == 0)
            *(volatile char *)16 = 1;
        break;
    case OWN_THREAD:
    case BOTH: {
        pthread_t thread;
        int both = p->mode == BOTH;
        pthread_barrier_init(&together, 0, 2);
        if (pthread_create(&thread, 0, crash, both ? p : 0) == 0 && both) {
            pthread_barrier_wait(&together);
            *(volatile char *)16 = 1;
        }
        break;
    }
    case DEEP:
        return deep(0);
    case FAIL:
        return 2;
    case THREAD:
        return 99;
    case NONE:
        return HERTZD_NO_VALUE;
    }
    return HERTZD_OK;
}

static int32_t tick(void *self, const hertzd_tick *tick)
{
    struct probe *p = self;
    const hertzd_input *in = &tick->inputs[0];
    double *v = tick->values;
    p->ticks += 1;
    v[0] = (double)tick->n;
    v[1] = (double)(tick->release_ns / 1000000000);
    v[2] = (double)(tick->release_ns % 1000000000);
    v[3] = (double)(tick->started_ns - tick->release_ns);
    v[4] = (double)tick->lateness_ns;
    v[5] = (double)tick->skipped;
    v[6] = in->value;
    v[7] = in->age_ns == HERTZD_NO_AGE ? -1.0 : (double)in->age_ns;
    v[8] = in->quality;
    v[9] = p->gain;
    v[10] = p->ticks;
    v[11] = GENERATION;
    v[12] = (double)tick->period_ns;
    v[13] = p->run_mode;
    v[14] = tick->clock;
    if (tick->n % p->every != p->every - 1)
        return HERTZD_OK;
    if (p->mode == NAN_VALUE)
        v[9] = NAN;
    return misbehave(p);
}

static void destroy(void *self)
{
    struct probe *p = self;
    if (p->mode == IN_DESTROY)
        *(volatile char *)16 = 1;
    free(p);
}

#ifdef CRASH_AT_LOAD
__attribute__((constructor)) static void loaded(void)
{
    *(volatile char *)16 = 1;
}
#endif

#ifdef CRASH_AT_UNLOAD
__attribute__((destructor)) static void unloaded(void)
{
    *(volatile char *)16 = 1;
}
#endif

static const hertzd_plugin plugin = {
    .abi = HERTZD_PLUGIN_ABI,
    .name = "probe",
    .about = "Writes what a tick is told.",
    .keys = keys,
    .key_count = KEYS,
    .values = values,
    .value_count = VALUES,
    .errors = errors,
    .error_count = 2,
    .create = create,
    .tick = tick,
    .destroy = destroy,
};

const hertzd_plugin *hertzd_plugin_table(void)
{
    return &plugin;
}

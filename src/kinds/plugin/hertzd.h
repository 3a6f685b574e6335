/*
 * hertzd.h: the C interface of plugins, version 1. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A plugin is a shared library that exports one function,
 *
 *     HERTZD_EXPORT const hertzd_plugin *hertzd_plugin_table(void);
 *
 * which returns a table: what the plugin is called, which keys its section has, which values it gives, and its functions.
 * hertzd loads it for a section
 *
 *     [task.NAME]
 *     kind = "plugin"
 *     library = "./libexample.so"
 *     rate = "1 kHz"
 *
 * checks the section's other keys by the table, calls `create` once, `tick` at every tick, and `destroy` at the end.
 *
 * Threads. `tick` runs on the real-time thread of a worker. Everything else runs on another thread, and may block. Of one
 * instance no two functions ever run at the same time; two instances, of two tasks, do.
 *
 * What a tick may not do: allocate or free, take a lock, wait, write to a log or the terminal, touch memory for the first time.
 * Nothing stops it; the ticks that are late for it are counted with the cause: waited, page-fault, ran-long.
 *
 * Errors are returned. No C++ exception and no Rust panic may leave a function. One that does, and each of SIGSEGV, SIGBUS, SIGFPE,
 * SIGILL, SIGABRT, SIGTRAP and SIGSYS, ends the process; before that, the log names the task, the library and the signal, and the
 * outputs get their safe values. So does exit(). Those signals are hertzd's: a plugin must not catch or block them.
 *
 * All text is UTF-8, ends in a zero byte, and has at most HERTZD_MAX_TEXT bytes. What the table points to must stay unchanged
 * while the library is loaded. What hertzd passes to a function is there until the function returns, and no longer.
 * All times are nanoseconds. Numbers have the same width everywhere; pointers have that of the machine.
 */
#ifndef HERTZD_H
#define HERTZD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HERTZD_EXPORT __attribute__((visibility("default")))
#else
#define HERTZD_EXPORT
#endif

/* The version of this interface. It changes with every change of a layout or a meaning. */
#define HERTZD_PLUGIN_ABI 1u

/* The most that a table may have; more is refused. */
#define HERTZD_MAX_KEYS 256u
#define HERTZD_MAX_WORDS 256u
#define HERTZD_MAX_VALUES 1024u
#define HERTZD_MAX_ERRORS 1024u
#define HERTZD_MAX_TEXT 4096u

/* The type of a key: what may be written there, and where `create` or `tick` finds it. */
#define HERTZD_NUMBER 1u   /* a finite number from `low` to `high`: `number` */
#define HERTZD_INTEGER 2u  /* a whole number from `low` to `high`: `integer` */
#define HERTZD_BOOL 3u     /* true or false: 1 or 0 in `integer` */
#define HERTZD_TEXT 4u     /* a text: `text` */
#define HERTZD_CHOICE 5u   /* one of `words`: `text`, and its index in `integer` */
#define HERTZD_DURATION 6u /* such as "5ms", from `low` to `high` nanoseconds: nanoseconds in `integer` */
#define HERTZD_INPUT 7u    /* a number or "TASK.VALUE": at each tick in `inputs`, which has the keys of this type in their order */

/* Flags of a key. Others are refused. */
#define HERTZD_REQUIRED 1u /* a section without it is refused */
#define HERTZD_SPARED 2u   /* of an input: the plugin looks at its quality. Without this, all values of a tick are bad for who takes them
                              where the input is not good */

/* One key of the section. */
typedef struct hertzd_key {
    double low;               /* smallest of a number, integer or duration; -HUGE_VAL: no limit */
    double high;              /* largest; HUGE_VAL: no limit. Ignored where both are 0 */
    const char *name;         /* small letters, digits and '-', a letter first; no key that every task has */
    const char *help;         /* what it does, in a sentence; or NULL */
    const char *unit;         /* unit of what is written; or NULL */
    const char *preset;       /* what holds without it, as it would be written but without quotes: "0.5", "true", "5ms"; or NULL: nothing */
    const char *const *words; /* of a choice; else NULL */
    uint32_t word_count;
    uint32_t type;
    uint32_t flags;
    uint32_t reserved; /* 0 */
} hertzd_key;

/* One value that a tick gives. */
typedef struct hertzd_value {
    const char *name; /* as other tasks name it: TASK.NAME */
    const char *unit; /* "" or NULL for a plain number */
} hertzd_value;

/* What a section says of one key. */
typedef struct hertzd_setting {
    double number;
    int64_t integer;
    const char *text;  /* NULL but for texts and choices */
    uint32_t present;  /* 0: neither the section nor the preset says anything, and the rest is 0 */
    uint32_t reserved; /* 0 */
} hertzd_setting;

/* What a run is for. */
#define HERTZD_RUN 0u    /* in earnest */
#define HERTZD_SHADOW 1u /* hertzd run --shadow: on the real clock, but nothing may be written to a device */
#define HERTZD_DESK 2u   /* hertzd simulate: on a virtual clock, and no device may be opened */

/* The clock that releases lie on. */
#define HERTZD_MONOTONIC 0u
#define HERTZD_TAI 1u
#define HERTZD_REALTIME 2u

/* What `create` is told. */
typedef struct hertzd_start {
    int64_t period_ns;              /* one period, rounded up */
    const char *task;               /* the name of the task */
    const char *json;               /* the keys as one JSON object, without those of inputs and those that are absent */
    const hertzd_setting *settings; /* the same, one for each key of the table and in that order */
    char *error;                    /* where to write why it failed: a text of at most error_size bytes with its zero byte */
    uint32_t error_size;
    uint32_t setting_count;
    uint32_t mode;  /* HERTZD_RUN, ... */
    uint32_t clock; /* HERTZD_MONOTONIC, ... */
} hertzd_start;

/* What an input is worth at a tick. */
#define HERTZD_GOOD 0u  /* it was read or computed from good values */
#define HERTZD_BAD 1u   /* it must not be used */
#define HERTZD_STALE 2u /* it must not be used, because it is too old */
#define HERTZD_NONE 3u  /* nothing new, or nothing has come yet, or the section does not name it */
#define HERTZD_HELD 4u  /* the last good value, within `hold` */

/* The age of an input without one: a number in the section, or nothing has come. */
#define HERTZD_NO_AGE INT64_MIN

/* One input at a tick. */
typedef struct hertzd_input {
    double value;      /* NaN unless it is good */
    int64_t age_ns;    /* from the release of the oldest measurement behind it to the start of this tick; or HERTZD_NO_AGE */
    uint32_t quality;  /* HERTZD_GOOD, ... */
    uint32_t reserved; /* 0 */
} hertzd_input;

/* What a tick is told, and where its values go. */
typedef struct hertzd_tick {
    uint64_t n;          /* index of the tick, counted in releases: skipped ones count */
    int64_t release_ns;  /* when it was meant to start, on the worker's clock */
    int64_t started_ns;  /* when it started */
    int64_t lateness_ns; /* started - release */
    uint64_t skipped;    /* releases given up since the task's previous tick */
    int64_t period_ns;   /* one period, rounded up */
    const hertzd_input *inputs;
    double *values; /* one for each value of the table, NaN on entry; what stays NaN, or is infinite, is bad for who takes it */
    uint32_t input_count;
    uint32_t value_count;
    uint32_t clock;    /* HERTZD_MONOTONIC, ... */
    uint32_t reserved; /* 0 */
} hertzd_tick;

/* What the functions return. */
#define HERTZD_OK 0
#define HERTZD_NO_VALUE (-1) /* of a tick: all is well, but there is nothing new; its values are NaN */
/* Of a tick, 1 and above: error number 1 is the first of `errors`. Of `create`, anything but HERTZD_OK: it failed. */

/* Flags of a plugin. Others are refused. */
#define HERTZD_NOT_MEASURED 1u /* its values are no measurements (set-points, ...): their age counts for nobody */

/* The table. */
typedef struct hertzd_plugin {
    uint32_t abi; /* HERTZD_PLUGIN_ABI, always first */
    uint32_t flags;
    uint32_t key_count;
    uint32_t value_count;
    uint32_t error_count;
    uint32_t reserved; /* 0 */
    const char *name;  /* of the plugin, for messages */
    const char *about; /* what it does, in a sentence; or NULL */
    const hertzd_key *keys;
    const hertzd_value *values;
    const char *const *errors; /* the texts of the errors that a tick may return */
    /* Makes an instance, which `self` is set to and which the other functions get; it may stay NULL. */
    int32_t (*create)(const hertzd_start *start, void **self);
    /* One tick. */
    int32_t (*tick)(void *self, const hertzd_tick *tick);
    /* Gives everything back; threads of the plugin have ended when it returns. NULL: nothing to give back. */
    void (*destroy)(void *self);
} hertzd_plugin;

/* The one symbol that a plugin exports. Called each time the library is loaded; the table is the same each time. */
HERTZD_EXPORT const hertzd_plugin *hertzd_plugin_table(void);

#ifdef __cplusplus
}
#endif

/* The layout that hertzd was built for: a compiler or an option that gives another one is found here. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define HERTZD_ASSERT(name, what) static_assert(what, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define HERTZD_ASSERT(name, what) _Static_assert(what, #name)
#else
#define HERTZD_ASSERT(name, what) typedef char hertzd_assert_##name[(what) ? 1 : -1]
#endif
#include <stddef.h>
HERTZD_ASSERT(double_is_64_bits, sizeof(double) == 8);
HERTZD_ASSERT(key, offsetof(hertzd_key, name) == 16 && offsetof(hertzd_key, word_count) == 16 + 5 * sizeof(void *));
HERTZD_ASSERT(value, sizeof(hertzd_value) == 2 * sizeof(void *));
HERTZD_ASSERT(setting, offsetof(hertzd_setting, text) == 16 && offsetof(hertzd_setting, present) == 16 + sizeof(void *));
HERTZD_ASSERT(start, offsetof(hertzd_start, task) == 8 && offsetof(hertzd_start, error_size) == 8 + 4 * sizeof(void *));
HERTZD_ASSERT(input, sizeof(hertzd_input) == 24 && offsetof(hertzd_input, quality) == 16);
HERTZD_ASSERT(tick, offsetof(hertzd_tick, inputs) == 48 && offsetof(hertzd_tick, input_count) == 48 + 2 * sizeof(void *));
HERTZD_ASSERT(plugin, offsetof(hertzd_plugin, name) == 24 && offsetof(hertzd_plugin, create) == 24 + 5 * sizeof(void *));
#undef HERTZD_ASSERT

#endif

/* Tables that are wrong, one for each value of BAD. */
#include <hertzd.h>
#include <stdlib.h>

static int32_t create(const hertzd_start *start, void **self)
{
    (void)start, (void)self;
    return HERTZD_OK;
}

static int32_t tick(void *self, const hertzd_tick *tick)
{
    (void)self, (void)tick;
    return HERTZD_OK;
}

static const hertzd_key keys[] = {
    {
#if BAD == 6
        .name = 0,
#elif BAD == 7
        .name = "gain\xff",
#elif BAD == 8
        .name = "Gain",
#elif BAD == 9
        .name = "rate",
#elif BAD == 13
        .name = "library",
#else
        .name = "gain",
#endif
#if BAD == 10
        .type = 99,
#elif BAD == 14
        .type = HERTZD_CHOICE,
#elif BAD == 26
        .type = HERTZD_CHOICE,
        .words = (const char *const[]){"up", "down", "up"},
        .word_count = 3,
#elif BAD == 18
        .type = HERTZD_INPUT,
        .preset = "speed",
#elif BAD == 31
        .type = HERTZD_INPUT,
        .preset = "nan",
#elif BAD == 32
        .type = HERTZD_INTEGER,
        .low = 0.2,
        .high = 0.8,
#elif BAD == 33
        .type = HERTZD_DURATION,
        .low = -5,
        .high = -1,
#elif BAD == 34
        .type = HERTZD_CHOICE,
        .words = (const char *const[]){"up", ""},
        .word_count = 2,
#else
        .type = HERTZD_NUMBER,
#endif
#if BAD == 15
        .low = 2,
        .high = 1,
#elif BAD == 19
        .low = 1,
        .high = 2,
        .preset = "3",
#elif BAD == 28
        .low = 1e300,
        .high = 2e300,
        .preset = "0",
#endif
#if BAD == 35
        .flags = HERTZD_REQUIRED,
        .preset = "1",
#elif BAD == 24
        .flags = 0xff03,
#elif BAD == 27
        .reserved = 1,
#endif
    },
    {.name = "gain", .type = HERTZD_NUMBER},
};
static const hertzd_value values[] = {
#if BAD == 11
    {"line\nbreak", ""},
#elif BAD == 36
    {"out", "V\x1b[31m"},
#else
    {"out", ""},
#endif
    {"out", ""},
};

static const hertzd_plugin plugin = {
    .abi = BAD == 2 ? 77 : HERTZD_PLUGIN_ABI,
    .flags = BAD == 25 ? 0xff00 : 0,
    .reserved = BAD == 29 ? 7 : 0,
    .name = BAD == 3 ? 0 : "bad",
    .keys = BAD == 5 ? 0 : BAD == 37 ? (const hertzd_key *)8 : BAD == 20 ? (const hertzd_key *)((const char *)keys + 1) : keys,
    .key_count = BAD == 4 ? 0xffffffffu : BAD == 16 ? 2 : 1,
    .values = values,
    .value_count = BAD == 12 ? 0x7fffffffu : BAD == 17 ? 2 : 1,
    .create = BAD == 21 ? 0 : create,
    .tick = BAD == 22 ? 0 : tick,
};

#if BAD == 0
const hertzd_plugin *another_name(void)
#else
const hertzd_plugin *hertzd_plugin_table(void)
#endif
{
#if BAD == 23
    extern void nobody_has_this(void);
    nobody_has_this();
#endif
    return BAD == 1 ? 0 : BAD == 30 ? (const hertzd_plugin *)((const char *)&plugin + 1) : &plugin;
}

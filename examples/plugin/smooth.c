/* A plugin in C: an input that follows slowly, by a low-pass filter of first order. See README.md. */
#include <hertzd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The keys of its section, beside those that every task has. */
enum { INPUT, TIME_CONSTANT, GAIN, KEYS };

static const hertzd_key keys[KEYS] = {
    {.name = "input", .type = HERTZD_INPUT, .flags = HERTZD_REQUIRED, .help = "What is smoothed."},
    {.name = "time-constant",
     .type = HERTZD_DURATION,
     .low = 1e3,
     .high = 3600e9,
     .preset = "100ms",
     .help = "Time after which 63 % of a step have come through."},
    {.name = "gain", .type = HERTZD_NUMBER, .low = -1000, .high = 1000, .preset = "1", .help = "Factor on what comes out."},
};

static const hertzd_value values[] = {{"out", ""}};

struct smooth {
    double out, gain, constant_ns;
    int began;
};

static int32_t create(const hertzd_start *start, void **self)
{
    struct smooth *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(start->error, start->error_size, "out of memory");
        return 1;
    }
    s->constant_ns = (double)start->settings[TIME_CONSTANT].integer;
    s->gain = start->settings[GAIN].number;
    *self = s;
    return HERTZD_OK;
}

static int32_t tick(void *self, const hertzd_tick *tick)
{
    struct smooth *s = self;
    const hertzd_input *input = &tick->inputs[0];
    if (input->quality != HERTZD_GOOD)
        return HERTZD_NO_VALUE;
    /* Skipped ticks count: so much time has passed. */
    double passed = (double)(tick->skipped + 1) * (double)tick->period_ns;
    s->out = s->began ? s->out + (input->value - s->out) * -expm1(-passed / s->constant_ns) : input->value;
    s->began = 1;
    tick->values[0] = s->gain * s->out;
    return HERTZD_OK;
}

static const hertzd_plugin plugin = {
    .abi = HERTZD_PLUGIN_ABI,
    .name = "smooth",
    .about = "Follows its input slowly.",
    .keys = keys,
    .key_count = KEYS,
    .values = values,
    .value_count = 1,
    .create = create,
    .tick = tick,
    .destroy = free,
};

const hertzd_plugin *hertzd_plugin_table(void)
{
    return &plugin;
}

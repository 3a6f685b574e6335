/* A plugin for tests: gives the number that a file holds, or does what a word in it says. */
#include <hertzd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hertzd_key keys[] = {{.name = "file", .type = HERTZD_TEXT, .flags = HERTZD_REQUIRED, .help = "Where it is."}};
static const hertzd_value values[] = {{"v", ""}};
static const char *const errors[] = {"what it reads is gone"};

static int32_t create(const hertzd_start *start, void **self)
{
    *self = strdup(start->settings[0].text);
    return HERTZD_OK;
}

static int32_t tick(void *self, const hertzd_tick *tick)
{
    char word[64] = "none";
    FILE *file = fopen(self, "r");
    if (file) {
        if (fscanf(file, "%63s", word) != 1)
            strcpy(word, "none");
        fclose(file);
    }
    if (!strcmp(word, "none"))
        return HERTZD_NO_VALUE;
    if (!strcmp(word, "gone") || (!strcmp(word, "flaky") && tick->n % 7 == 0))
        return 1;
    tick->values[0] = !strcmp(word, "flaky") ? 1 + tick->n % 8 : strtod(word, NULL);
    return HERTZD_OK;
}

static const hertzd_plugin table = {
    .abi = HERTZD_PLUGIN_ABI,
    .key_count = 1,
    .value_count = 1,
    .error_count = 1,
    .name = "number",
    .about = "Gives the number that a file holds.",
    .keys = keys,
    .values = values,
    .errors = errors,
    .create = create,
    .tick = tick,
    .destroy = free,
};

const hertzd_plugin *hertzd_plugin_table(void)
{
    return &table;
}

/* engine/config/memory.c: the values of memory keys: bytes, and what to recompute. */
#include "engine/config/keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Digits, optionally with a point; *end: what follows them. */
static bool read_decimal(const char *text, double *number, const char **end)
{
    char *stop;
    *number = strtod(text, &stop);
    *end = text + strspn(text, "0123456789.");
    return *text >= '0' && *text <= '9' && stop == *end;
}

/* ---- bytes ---- */

static const struct unit {
    const char *name;
    double bytes;
} units[] = {{"", 1},      {"B", 1},        {"KiB", 1024},      {"MiB", 1048576.0}, {"GiB", 1073741824.0},
             {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1e12},       {"TiB", 1099511627776.0}};

bool bt_bytes_read(const char *text, int64_t *bytes)
{
    const char *end;
    double number;
    if (!read_decimal(text, &number, &end))
        return false;
    end += strspn(end, " ");
    for (int u = 0; u < BT_COUNT_OF(units); u++)
        if (strcmp(end, units[u].name) == 0) {
            const double exact = ceil(number * units[u].bytes), end_of_int64 = 9223372036854775808.0;
            *bytes = exact < end_of_int64 ? (int64_t)exact : 0;
            return exact >= 1 && exact < end_of_int64;
        }
    return false;
}

void bt_bytes_print(int64_t bytes, bt_text *text)
{
    const int64_t unit = 1 << 20;
    const bool whole = bytes > 0 && bytes % unit == 0;
    bt_text_add(text, "%lld%s", (long long)(whole ? bytes / unit : bytes), whole ? "MiB" : "");
}

/* ---- checkpointing ---- */

const char bt_checkpointing_words[] =
    "none | cheap | cost:P% | budget:BYTES | every:N | sqrt | modules:PATTERNS | ops:NAMES";

static const char *const words[BT_CHECKPOINTINGS] = {
#define BT_CHECKPOINTING_ITEM(name, text) text,
    BT_CHECKPOINTING_LIST(BT_CHECKPOINTING_ITEM)
#undef BT_CHECKPOINTING_ITEM
};

#define CHEAP_COST 0.05

static bool read_argument(bt_checkpointing *how, const char *text)
{
    const char *end;
    double number;
    bool decimal = read_decimal(text, &number, &end);
    switch (how->kind) {
    case BT_CHECKPOINTING_COST:
        how->cost = number / 100;
        return decimal && (strcmp(end, "%") == 0 || !*end) && isfinite(number);
    case BT_CHECKPOINTING_EVERY:
        how->number = number >= 1 && number <= 1e9 ? (int64_t)number : 0;
        return decimal && !*end && how->number >= 1 && (double)how->number == number;
    case BT_CHECKPOINTING_BUDGET:
        return bt_bytes_read(text, &how->number);
    case BT_CHECKPOINTING_MODULES:
    case BT_CHECKPOINTING_OPS:
        how->patterns = text;
        return *text != 0;
    default:
        return false;
    }
}

bool bt_checkpointing_read(const char *text, bt_checkpointing *how)
{
    size_t length = strcspn(text, ":");
    *how = (bt_checkpointing){.cost = CHEAP_COST};
    if (strcmp(text, "true") == 0)
        how->kind = BT_CHECKPOINTING_SQRT;
    else if (strcmp(text, "false") == 0)
        how->kind = BT_CHECKPOINTING_NONE;
    for (int k = BT_CHECKPOINTING_NONE; k < BT_CHECKPOINTINGS; k++)
        if (bt_word_is(text, length, words[k]))
            how->kind = (bt_checkpointing_kind)k;
    if (how->kind == BT_CHECKPOINTING_UNSET)
        return false;
    bool plain =
        how->kind == BT_CHECKPOINTING_NONE || how->kind == BT_CHECKPOINTING_CHEAP || how->kind == BT_CHECKPOINTING_SQRT;
    return plain ? !text[length] : text[length] && read_argument(how, text + length + 1);
}

bool bt_checkpointing_print(const bt_checkpointing *how, bt_text *text)
{
    bt_text_add(text, "%s", words[how->kind]);
    if (how->kind == BT_CHECKPOINTING_COST)
        bt_text_add(text, ":%.12g%%", how->cost * 100);
    else if (how->kind == BT_CHECKPOINTING_EVERY || how->kind == BT_CHECKPOINTING_BUDGET)
        bt_text_add(text, ":%lld", (long long)how->number);
    else if (how->patterns)
        bt_text_add(text, ":%s", how->patterns);
    return how->kind != BT_CHECKPOINTING_UNSET;
}

/* engine/config/values.c: converts between the text of a setting and its field. */
#include "engine/config/keys.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_END_INT  1e15
#define NO_END_REAL 1e300
#define MOST_INT    9007199254740992.0 /* for integers stored as doubles */

_Static_assert(sizeof(bt_scheduler_kind) == sizeof(int), "a choice is written as an int");

bool bt_word_is(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

/* The index of `text` in a list of words; -1 if it is not there. */
static int word_index(const char *words, const char *text)
{
    size_t length;
    const char *word;
    for (int i = 0; (word = bt_word_next(&words, '|', &length)) != NULL; i++)
        if (bt_word_is(word, length, text))
            return i;
    return -1;
}

static bool only(const char *text, const char *characters) { return *text && text[strspn(text, characters)] == 0; }

static bool read_int(const bt_key *key, const char *text, int64_t *value)
{
    if (!only(text, "+-0123456789"))
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *value = number;
    return *end == 0 && errno == 0 && (double)number >= key->low && (double)number <= key->high;
}

static bool read_double(const bt_key *key, const char *text, double *value)
{
    if (!only(text, "+-.eE0123456789"))
        return false;
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*value) && *value >= key->low && *value <= key->high;
}

static bool read_ints(const bt_key *key, const char *text, bt_int_list *list)
{
    char number[32];
    size_t length;
    const char *word;
    while ((word = bt_word_next(&text, ',', &length)) != NULL) {
        if (length == 0 || length >= sizeof number || list->count == BT_MAX_ITEMS)
            return false;
        memcpy(number, word, length);
        number[length] = 0;
        if (!read_int(key, number, &list->items[list->count++]))
            return false;
    }
    return true;
}

static bool read_words(const bt_key *key, const char *text, unsigned *bits)
{
    char name[32];
    size_t length;
    const char *word;
    int first = 0, count = 0;
    for (; (word = bt_word_next(&text, ',', &length)) != NULL; count++) {
        if (length == 0 || length >= sizeof name)
            return false;
        memcpy(name, word, length);
        name[length] = 0;
        int index = word_index(key->words, name);
        if (index < 0)
            return false;
        first += index == 0;
        *bits |= index ? 1u << index : 0;
    }
    return count > 0 && (!first || count == 1);
}

static bool read_bool(const char *text, bool *value)
{
    *value = strcmp(text, "true") == 0;
    return *value || strcmp(text, "false") == 0;
}

static bool read_value(const bt_key *key, const char *text, void *field)
{
    union {
        int64_t integer;
        double real;
        bool truth;
        int choice;
        unsigned bits;
        bt_int_list list;
        bt_checkpointing checkpointing;
    } value = {0};
    size_t size = 0;
    bool good = false;
    switch (key->kind) {
    case BT_KEY_SIZE:
        value.integer = -word_index(key->words, text);
        size = sizeof value.integer;
        good = value.integer <= 0 || read_int(key, text, &value.integer);
        break;
    case BT_KEY_INT:
        size = sizeof value.integer;
        good = read_int(key, text, &value.integer);
        break;
    case BT_KEY_DOUBLE:
        size = sizeof value.real;
        good = read_double(key, text, &value.real);
        break;
    case BT_KEY_BOOL:
        size = sizeof value.truth;
        good = read_bool(text, &value.truth);
        break;
    case BT_KEY_CHOICE:
        size = sizeof value.choice;
        value.choice = word_index(key->words, text);
        good = value.choice >= 0;
        break;
    case BT_KEY_WORDS:
        value.bits = 0;
        size = sizeof value.bits;
        good = read_words(key, text, &value.bits);
        break;
    case BT_KEY_INTS:
        value.list = (bt_int_list){.count = 0};
        size = sizeof value.list;
        good = read_ints(key, text, &value.list);
        break;
    case BT_KEY_BYTES:
        size = sizeof value.integer;
        good = (key->words && strcmp(text, key->words) == 0) || bt_bytes_read(text, &value.integer);
        break;
    case BT_KEY_CHECKPOINTING:
        size = sizeof value.checkpointing;
        good = bt_checkpointing_read(text, &value.checkpointing);
        break;
    case BT_KEY_TEXT:
        memcpy(field, &text, sizeof text);
        return true;
    case BT_KEY_METHOD:
    case BT_KEY_OPTIMIZER:
        return false;
    }
    if (good)
        memcpy(field, &value, size);
    return good;
}

/* Names the upper bound of a number that is too large, if the bound is so large that the description leaves it out. */
static void add_unsaid_end(const bt_key *key, const char *text, bt_text *expected)
{
    const bool whole = key->kind == BT_KEY_INT || key->kind == BT_KEY_SIZE || key->kind == BT_KEY_INTS;
    if ((!whole && key->kind != BT_KEY_DOUBLE) || key->high < (whole ? NO_END_INT : NO_END_REAL))
        return;
    const double high = whole && key->high > MOST_INT ? MOST_INT : key->high < DBL_MAX ? key->high : DBL_MAX;
    char *end;
    double number = strtod(text, &end);
    if (only(text, whole ? "+0123456789" : "+.eE0123456789") && *end == 0 && number > high)
        bt_text_add(expected, whole ? ", and at most %.0f" : ", and at most %.4g", high);
}

bt_status bt_key_parse(const bt_key *key, const char *where, const char *text, void *field)
{
    if (!key || !text || !field)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_key_parse: an argument is NULL");
    if (read_value(key, text, field))
        return BT_OK;
    if (!where)
        where = key->name;
    if (key->refused && word_index(key->refused, text) >= 0)
        return bt_fail(BT_ERROR_CONFIG, "%s = %s: not supported: %s; use %s", where, text, key->advice, key->words);
    bt_text expected = {0};
    bt_key_expected(key, &expected);
    add_unsaid_end(key, text, &expected);
    bt_status s = bt_fail(BT_ERROR_CONFIG, "%s = %s: expected %s", where, text, bt_text_get(&expected));
    bt_text_free(&expected);
    return s;
}

/* The shortest decimal that reads back to the same double. */
static void print_double(double value, bt_text *text)
{
    char buffer[32];
    for (int digits = 6; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(buffer, sizeof buffer, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    bt_text_add(text, "%s", buffer);
}

static bool print_word(const char *words, int index, bt_text *text)
{
    size_t length;
    const char *word;
    for (int i = 0; (word = bt_word_next(&words, '|', &length)) != NULL; i++)
        if (i == index) {
            bt_text_add(text, "%.*s", (int)length, word);
            return true;
        }
    return false;
}

static bool print_words(const char *words, unsigned bits, bt_text *text)
{
    bool any = false;
    for (int i = 1; bits >> i; i++)
        if (bits >> i & 1) {
            bt_text_add(text, "%s", any ? ", " : "");
            any |= print_word(words, i, text);
        }
    return any || print_word(words, 0, text);
}

static bool print_ints(const bt_int_list *list, bt_text *text)
{
    for (int i = 0; i < list->count; i++)
        bt_text_add(text, "%s%lld", i ? ", " : "", (long long)list->items[i]);
    return list->count > 0;
}

bool bt_key_print(const bt_key *key, const void *field, bt_text *text)
{
    int64_t integer;
    double real;
    int choice;
    unsigned bits;
    const char *string;
    switch (key->kind) {
    case BT_KEY_SIZE:
    case BT_KEY_INT:
        memcpy(&integer, field, sizeof integer);
        if (key->kind == BT_KEY_SIZE && integer <= 0)
            return print_word(key->words, (int)-integer, text);
        if (integer == 0 && !key->value && key->low > 0) /* not set */
            return false;
        bt_text_add(text, "%lld", (long long)integer);
        return true;
    case BT_KEY_DOUBLE:
        memcpy(&real, field, sizeof real);
        print_double(real, text);
        return true;
    case BT_KEY_BOOL:
        bt_text_add(text, "%s", *(const bool *)field ? "true" : "false");
        return true;
    case BT_KEY_CHOICE:
        memcpy(&choice, field, sizeof choice);
        return print_word(key->words, choice, text);
    case BT_KEY_WORDS:
        memcpy(&bits, field, sizeof bits);
        return print_words(key->words, bits, text);
    case BT_KEY_INTS:
        return print_ints(field, text);
    case BT_KEY_BYTES:
        memcpy(&integer, field, sizeof integer);
        bt_bytes_print(integer, text);
        return integer > 0 || key->words;
    case BT_KEY_CHECKPOINTING:
        return bt_checkpointing_print(field, text);
    case BT_KEY_TEXT:
        memcpy(&string, field, sizeof string);
        bt_text_add(text, "%s", string ? string : "");
        return string != NULL;
    case BT_KEY_METHOD:
        bt_text_add(text, "%s", (*(const bt_method_def *const *)field)->name);
        return true;
    case BT_KEY_OPTIMIZER:
        bt_text_add(text, "%s", (*(const bt_optimizer_def *const *)field)->name);
        return true;
    }
    return false;
}

/* Bounds beyond these are left out: "at least 1" instead of "from 1 to 1e+15". */

static void add_end(double value, bool whole, bt_text *text)
{
    if (whole)
        bt_text_add(text, "%.0f", value);
    else
        print_double(value, text);
}

static void add_range(const bt_key *key, bool whole, bt_text *text)
{
    double no_end = whole ? NO_END_INT : NO_END_REAL;
    bool from = key->low > -no_end, to = key->high < no_end;
    if (from && to) {
        bt_text_add(text, ", from ");
        add_end(key->low, whole, text);
        bt_text_add(text, " to ");
        add_end(key->high, whole, text);
    } else if (from && key->low == DBL_MIN) {
        bt_text_add(text, " above 0");
    } else if (from || to) {
        bt_text_add(text, from ? ", at least " : ", at most ");
        add_end(from ? key->low : key->high, whole, text);
    }
}

void bt_key_expected(const bt_key *key, bt_text *text)
{
    switch (key->kind) {
    case BT_KEY_INT:
        bt_text_add(text, "a whole number");
        add_range(key, true, text);
        break;
    case BT_KEY_SIZE:
        bt_text_add(text, "a whole number");
        add_range(key, true, text);
        bt_text_add(text, ", or %s", key->words);
        break;
    case BT_KEY_DOUBLE:
        bt_text_add(text, "a number");
        add_range(key, false, text);
        break;
    case BT_KEY_INTS:
        bt_text_add(text, "whole numbers");
        add_range(key, true, text);
        bt_text_add(text, ", separated by commas, not more than %d", BT_MAX_ITEMS);
        break;
    case BT_KEY_BOOL:
        bt_text_add(text, "true | false");
        break;
    case BT_KEY_CHOICE:
        bt_text_add(text, "%s", key->words);
        break;
    case BT_KEY_WORDS:
        print_word(key->words, 0, text);
        bt_text_add(text, ", or some of %s, separated by commas", key->words + strcspn(key->words, "|") + 2);
        break;
    case BT_KEY_BYTES:
        bt_text_add(text, "a number of bytes, at least %d, such as 1500000, 64MiB or 1.5GB", key->words ? 0 : 1);
        break;
    case BT_KEY_CHECKPOINTING:
        bt_text_add(text, "%s, with N and BYTES at least 1 (BYTES: 64MiB, 1.5GB)", bt_checkpointing_words);
        break;
    case BT_KEY_TEXT:
    case BT_KEY_METHOD:
    case BT_KEY_OPTIMIZER:
        bt_text_add(text, "text");
        break;
    }
}

/* engine/grid/asked.c: which runs are requested. */
#include "engine/config/ini.h"
#include "engine/grid/grid_inside.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SEED 1000000000000000 /* as for the key */

json_t *bt_grid_asked(void) { return json_pack("{s:{}, s:{}, s:[]}", "settings", "vary", "seeds"); }

bool bt_grid_asks_several(const json_t *asked)
{
    return json_object_size(json_object_get(asked, "vary")) > 0 || json_array_size(json_object_get(asked, "seeds")) > 0;
}

static bool has(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return false;
}

/* ---- values ---- */

/* The end of the value that begins here: the next | that is not written as \|. */
static const char *end_of(const char *text)
{
    for (; *text && *text != '|'; text++)
        if (text[0] == '\\' && text[1] == '|')
            text++;
    return text;
}

/* The value, with \| as |, and without surrounding blanks unless it is alone. */
static json_t *value_of(const char *text, const char *end, bool alone)
{
    bt_text plain = {0};
    while (!alone && text < end && *text == ' ')
        text++;
    while (!alone && end > text && end[-1] == ' ')
        end--;
    for (; text < end; text++)
        if (text[0] != '\\' || text[1] != '|')
            bt_text_add(&plain, "%c", *text);
    json_t *value = plain.failed ? NULL : json_string(bt_text_get(&plain));
    bt_text_free(&plain);
    return value;
}

static bt_status add_value(const char *where, const char *text, json_t *list, json_t *value)
{
    bt_status status = BT_OK;
    if (!value)
        status = bt_fail(BT_ERROR_MEMORY, "out of memory");
    else if (json_array_size(list) && !*json_string_value(value))
        status = bt_fail(BT_ERROR_CONFIG, "%s = %s: one of the values is empty", where, text);
    else if (has(list, value))
        status =
            bt_fail(BT_ERROR_CONFIG, "%s = %s: the value %s is given twice", where, text, json_string_value(value));
    else if (json_array_size(list) == BT_GRID_MOST)
        status = bt_fail(BT_ERROR_CONFIG, "%s: more than %d values", where, BT_GRID_MOST);
    else if (json_array_append(list, value) != 0)
        status = bt_fail(BT_ERROR_MEMORY, "out of memory");
    json_decref(value);
    return status;
}

bt_status bt_grid_values(const char *where, const char *text, json_t **values)
{
    json_t *list = json_array();
    const char *first = end_of(text);
    bt_status status = list ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
    *values = NULL;
    if (!bt_is_utf8(text))
        status = bt_fail(BT_ERROR_CONFIG, "%s: the value is not UTF-8", where);
    if (status == BT_OK && *first && first == text + strspn(text, " "))
        status = bt_fail(BT_ERROR_CONFIG, "%s = %s: one of the values is empty", where, text);
    for (const char *begin = text; status == BT_OK; begin = end_of(begin) + 1) {
        status = add_value(where, text, list, value_of(begin, end_of(begin), !*first));
        if (!*end_of(begin))
            break;
    }
    if (status == BT_OK)
        *values = list;
    else
        json_decref(list);
    return status;
}

/* ---- seeds ---- */

static bool read_seed(const char *text, size_t length, int64_t *seed)
{
    char digits[20];
    if (length == 0 || length >= sizeof digits || strspn(text, "0123456789") < length)
        return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    *seed = strtoll(digits, NULL, 10);
    return *seed <= MOST_SEED;
}

/* "7", "1..5" */
static bool read_range(const char *word, size_t length, int64_t *from, int64_t *to)
{
    const char *dots = memmem(word, length, "..", 2);
    if (!dots) {
        const bool good = read_seed(word, length, from);
        *to = *from;
        return good;
    }
    return read_seed(word, (size_t)(dots - word), from) && read_seed(dots + 2, length - (size_t)(dots + 2 - word), to);
}

static bt_status add_seeds(const char *text, json_t *list, int64_t from, int64_t to)
{
    if (from > to)
        return bt_fail(BT_ERROR_CONFIG, "--seeds = %s: %lld..%lld ends before it begins", text, (long long)from,
                       (long long)to);
    if (to - from >= BT_GRID_MOST - (int64_t)json_array_size(list))
        return bt_fail(BT_ERROR_CONFIG, "--seeds = %s: more than %d seeds", text, BT_GRID_MOST);
    for (int64_t seed = from; seed <= to; seed++) {
        json_t *value = json_integer(seed);
        const bool twice = has(list, value), added = value && !twice && json_array_append(list, value) == 0;
        json_decref(value);
        if (twice)
            return bt_fail(BT_ERROR_CONFIG, "--seeds = %s: the seed %lld is given twice", text, (long long)seed);
        if (!added)
            return bt_fail(BT_ERROR_MEMORY, "out of memory");
    }
    return BT_OK;
}

bt_status bt_grid_ask_seeds(json_t *asked, const char *text)
{
    json_t *list = json_object_get(asked, "seeds");
    const char *rest = text, *word;
    size_t length;
    if (json_array_size(list))
        return bt_fail(BT_ERROR_CONFIG, "--seeds is given twice; put all seeds in one list: --seeds 1..3,10");
    while ((word = bt_word_next(&rest, ',', &length)) != NULL) {
        int64_t from = 0, to = 0;
        if (!read_range(word, length, &from, &to))
            return bt_fail(BT_ERROR_CONFIG,
                           "--seeds = %s: expected whole numbers and ranges, separated by commas: 1..5, or 1,2,7",
                           text);
        BT_TRY(add_seeds(text, list, from, to));
    }
    return json_array_size(list) ? BT_OK
                                 : bt_fail(BT_ERROR_CONFIG, "--seeds: expected whole numbers and ranges, separated by "
                                                            "commas: 1..5, or 1,2,7");
}

/* ---- keys ---- */

/* The object's spelling of the key; case does not matter. */
static const char *same_key(const json_t *object, const char *key)
{
    const char *name;
    json_t *value, *all;
    memcpy(&all, &object, sizeof all); /* the macro does not write to it */
    json_object_foreach(all, name, value)
    {
        if (bt_ini_same(name, key))
            return name;
    }
    return NULL;
}

bt_status bt_grid_ask(json_t *asked, const char *key, const char *value)
{
    json_t *settings = json_object_get(asked, "settings");
    const char *name = same_key(settings, key);
    if (same_key(json_object_get(asked, "vary"), key))
        return bt_fail(BT_ERROR_CONFIG, "--set %s is given twice, once with several values", key);
    if (!bt_is_utf8(key) || !bt_is_utf8(value))
        return bt_fail(BT_ERROR_CONFIG, "--set %s: this is not UTF-8", key);
    return json_object_set_new(settings, name ? name : key, json_string(value)) == 0
               ? BT_OK
               : bt_fail(BT_ERROR_MEMORY, "out of memory");
}

static bt_status check_each(const json_t *asked, const char *key)
{
    if (bt_ini_same(key, "engine.seed"))
        return bt_fail(BT_ERROR_CONFIG, "--set engine.seed: use --seeds 1..3 for several seeds");
    if (bt_ini_same(key, "engine.output"))
        return bt_fail(BT_ERROR_CONFIG, "--set engine.output: each run has its own folder inside one folder");
    if (same_key(json_object_get(asked, "vary"), key) || same_key(json_object_get(asked, "settings"), key))
        return bt_fail(BT_ERROR_CONFIG, "--set %s is given twice, once with several values", key);
    return BT_OK;
}

bt_status bt_grid_ask_each(json_t *asked, const char *key, json_t *values)
{
    bt_status status = check_each(asked, key);
    if (status == BT_OK && json_object_set(json_object_get(asked, "vary"), key, values) != 0)
        status = bt_fail(BT_ERROR_MEMORY, "out of memory");
    json_decref(values);
    return status;
}

/* ---- what a folder has, combined with what is requested ---- */

static bt_status add_all(json_t *list, const json_t *more)
{
    for (size_t i = 0; i < json_array_size(more); i++)
        if (!has(list, json_array_get(more, i)) && json_array_append(list, json_array_get(more, i)) != 0)
            return bt_fail(BT_ERROR_MEMORY, "out of memory");
    return BT_OK;
}

static bt_status join_settings(json_t *asked, json_t *settings)
{
    json_t *vary = json_object_get(asked, "vary"), *value;
    const char *key;
    json_object_foreach(settings, key, value)
    {
        const char *varied = same_key(vary, key);
        json_t *one = varied ? json_pack("[O]", value) : NULL;
        bt_status status = one      ? add_all(json_object_get(vary, varied), one)
                           : varied ? BT_ERROR_MEMORY
                                    : bt_grid_ask(asked, key, json_string_value(value));
        json_decref(one);
        BT_TRY(bt_fail(status, "out of memory"));
    }
    return BT_OK;
}

bt_status bt_grid_join(json_t *asked, const json_t *more)
{
    json_t *vary = json_object_get(asked, "vary"), *seeds = json_object_get(asked, "seeds"), *values;
    const char *key;
    if (json_array_size(json_object_get(more, "seeds")) && !json_array_size(seeds))
        return bt_fail(BT_ERROR_CONFIG,
                       "--seeds: the runs of this folder have no seeds of their own; choose another folder");
    BT_TRY(add_all(seeds, json_object_get(more, "seeds")));
    json_object_foreach(json_object_get(more, "vary"), key, values)
    {
        const char *varied = same_key(vary, key);
        if (!varied)
            return bt_fail(BT_ERROR_CONFIG,
                           "--set %s: the runs of this folder do not vary it; give one value, or choose another "
                           "folder",
                           key);
        BT_TRY(add_all(json_object_get(vary, varied), values));
    }
    return join_settings(asked, json_object_get(more, "settings"));
}

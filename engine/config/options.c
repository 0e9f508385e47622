/* engine/config/options.c: the keys that a problem's own code asks for, and the final check of the configuration. */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <math.h>
#include <string.h>

static bt_config_option *find_option(const bt_config *config, const char *section, const char *key)
{
    for (int64_t i = 0; i < config->option_count; i++)
        if (bt_ini_same(config->options[i].section, section) && bt_ini_same(config->options[i].key.name, key))
            return &config->options[i];
    return NULL;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* Several places may ask for the same key, but it must mean the same everywhere, because it is one setting. */
static bt_status check_same(const bt_config_option *option, const bt_key *key)
{
    if (option->key.kind != key->kind)
        return bt_fail(BT_ERROR_CONFIG, "the code asks for [%s] %s twice, with different types", option->section,
                       key->name);
    if (!same_text(option->key.value, key->value))
        return bt_fail(BT_ERROR_CONFIG, "the code asks for [%s] %s twice, with different defaults, `%s` and `%s`",
                       option->section, key->name, option->key.value ? option->key.value : "not set",
                       key->value ? key->value : "not set");
    return BT_OK;
}

static bt_status check_option(const bt_config *config, const char *section, const bt_key *key)
{
    if (!bt_config_problem(config, section))
        return bt_fail(BT_ERROR_ARGUMENT, "the code asks for the key %s of `%s`, which is not a problem", key->name,
                       section);
    if (!bt_ini_name(key->name, false))
        return bt_fail(BT_ERROR_ARGUMENT, "the code asks for [%s] `%s`: a key is a name of letters, digits, _ and -",
                       section, key->name);
    if (bt_config_is_key(config, key->name))
        return bt_fail(BT_ERROR_CONFIG,
                       "the code asks for [%s] %s as a key of its own, but that is a key that every problem can have; "
                       "choose another name",
                       section, key->name);
    return BT_OK;
}

static bt_config_option *add_option(bt_config *config, const char *section, const bt_key *key)
{
    bt_config_option *grown =
        bt_grow(config->options, &config->option_room, config->option_count + 1, sizeof *config->options);
    if (!grown)
        return NULL;
    config->options = grown;
    bt_config_option option = {.section = bt_config_problem(config, section)->name, .key = *key};
    option.key.name = bt_config_copy(config, key->name, strlen(key->name));
    if (key->value)
        option.key.value = bt_region_copy(config->region, key->value, strlen(key->value) + 1);
    option.value = option.key.value;
    if (!option.key.name || (key->value && !option.key.value))
        return NULL;
    config->options[config->option_count] = option;
    return &config->options[config->option_count++];
}

/* A key that was unknown when the file was checked, and that no checkpoint records. */
static bt_status too_late(const char *section, const bt_key *key)
{
    return bt_fail(BT_ERROR_ARGUMENT,
                   "the code asks for [%s] %s while the run is under way: ask for it in configure_module, too, or in "
                   "another callback of the setup, so that the key is known before the first step",
                   section, key->name);
}

/* A default is written to a run's config.ini like any other value. */
static bt_status check_default(const char *section, const bt_key *key)
{
    if (key->value && !*key->value)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "the code's default for [%s] %s is an empty text, which a key cannot have: give NULL instead; "
                       "the code then gets NULL if the key is not set",
                       section, key->name);
    char *where = key->value ? bt_string("the code's default for [%s] %s", section, key->name) : NULL;
    bt_status s = where ? bt_ini_check_value(where, key->name, key->value) : key->value ? BT_ERROR_MEMORY : BT_OK;
    bt_free(where);
    return s;
}

/* field: in: the default; out: the setting. Unchanged on failure. */
static bt_status ask(bt_config *config, const char *section, bt_key *key, void *field)
{
    if (!config || !section || !key->name || !field)
        return bt_fail(BT_ERROR_ARGUMENT, "an option needs a problem, a name and a place for the result");
    BT_TRY(check_option(config, section, key));
    bt_text fallback = {0};
    key->value = bt_key_print(key, field, &fallback) ? bt_text_get(&fallback) : NULL;
    bt_config_option *option = find_option(config, section, key->name);
    bt_status s = option             ? check_same(option, key)
                  : config->finished ? too_late(section, key)
                                     : check_default(section, key);
    if (s == BT_OK && !option && !(option = add_option(config, section, key)))
        s = BT_ERROR_MEMORY;
    bt_text_free(&fallback);
    BT_TRY(s);
    bt_config_line *line = bt_config_find(config, section, key->name);
    if (!line)
        return BT_OK;
    line->used = true;
    option->value = line->value;
    return bt_key_parse(key, bt_config_where(config, line), line->value, field);
}

bt_status bt_config_option_bool(bt_config *config, const char *section, const char *key, bool value, bool *result)
{
    bt_key row = {.name = key, .kind = BT_KEY_BOOL};
    if (result)
        *result = value;
    return ask(config, section, &row, result);
}

bt_status bt_config_option_int(bt_config *config, const char *section, const char *key, int64_t value, int64_t low,
                               int64_t high, int64_t *result)
{
    bt_key row = {.name = key, .kind = BT_KEY_INT, .low = (double)low, .high = (double)high};
    if (result)
        *result = value;
    if (low > high || value < low || value > high)
        return bt_fail(BT_ERROR_ARGUMENT, "the code asks for [%s] %s with the default %lld and the range %lld to %lld",
                       section ? section : "", key ? key : "", (long long)value, (long long)low, (long long)high);
    return ask(config, section, &row, result);
}

bt_status bt_config_option_double(bt_config *config, const char *section, const char *key, double value, double low,
                                  double high, double *result)
{
    bt_key row = {.name = key, .kind = BT_KEY_DOUBLE, .low = low, .high = high};
    if (result)
        *result = value;
    if (!isfinite(value) || !(value >= low && value <= high))
        return bt_fail(BT_ERROR_ARGUMENT, "the code asks for [%s] %s with the default %g and the range %g to %g",
                       section ? section : "", key ? key : "", value, low, high);
    return ask(config, section, &row, result);
}

bt_status bt_config_option_text(bt_config *config, const char *section, const char *key, const char *value,
                                const char **result)
{
    bt_key row = {.name = key, .kind = BT_KEY_TEXT};
    if (result)
        *result = value;
    return ask(config, section, &row, result);
}

bt_status bt_config_finish(bt_config *config)
{
    if (!config || !config->resolved)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_finish: the configuration is not resolved");
    for (int64_t i = 0; i < config->problem_count; i++)
        if (config->problems[i]->active)
            BT_TRY(bt_config_check_used(config, BT_SECTION_PROBLEM, config->problems[i]->name));
    config->finished = true;
    return BT_OK;
}

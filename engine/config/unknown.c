/* engine/config/unknown.c: keys that are not used, and what was probably meant. */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <ctype.h>
#include <string.h>

/* A list of names, each a copy in the region of the configuration. */
typedef struct names {
    const char **items; /* ends with NULL */
    int64_t count, room;
} names;

static bool add_name(names *list, const char *name)
{
    const char **grown = name ? bt_grow(list->items, &list->room, list->count + 2, sizeof *list->items) : NULL;
    if (!grown)
        return false;
    list->items = grown;
    list->items[list->count++] = name;
    list->items[list->count] = NULL;
    return true;
}

static bool add_rows(names *list, bt_section_kind kind)
{
    bool good = true;
    for (const bt_key *key = bt_keys; key->name; key++)
        if (key->section == kind)
            good = add_name(list, key->name) && good;
    return good;
}

static bool add_hypers(names *list, const bt_optimizer_def *optimizer)
{
    bool good = true;
    for (int h = 0; optimizer && h < bt_hyper_count(optimizer->hypers); h++)
        good = add_name(list, optimizer->hypers[h].name) && good;
    return good;
}

static bool add_methods(names *list, bt_config *config)
{
    bool good = true;
    for (int64_t m = 0; m < config->method_count; m++)
        for (int h = 0; h < bt_hyper_count(config->methods[m]->hypers); h++) {
            char name[BT_METHOD_KEY];
            bt_config_method_key(config->methods[m], h, name);
            good = add_name(list, bt_config_copy(config, name, strlen(name))) && good;
        }
    return good;
}

static bool add_options(names *list, const bt_config *config, const char *section)
{
    bool good = true;
    for (int64_t i = 0; i < config->option_count; i++)
        if (bt_ini_same(config->options[i].section, section))
            good = add_name(list, config->options[i].key.name) && good;
    return good;
}

/* All keys that a section may have. */
static bool add_section(names *list, bt_config *config, bt_section_kind kind, const char *section)
{
    const bt_problem_settings *problem = bt_config_problem_find(config, section, strcspn(section, "."));
    bool good = add_rows(list, kind);
    if (problem && (kind == BT_SECTION_PROBLEM || kind == BT_SECTION_GROUP))
        good = add_hypers(list, problem->optimizer) && good;
    if (kind == BT_SECTION_PROBLEM)
        good = add_methods(list, config) && add_options(list, config, section) && good;
    return good;
}

/* Whether "lr" is short for "learning_rate": the same first letter, and all letters in the same order. */
static bool is_short_for(const char *name, const char *word)
{
    if (tolower((unsigned char)*name) != tolower((unsigned char)*word))
        return false;
    for (; *word && *name; word++)
        name += tolower((unsigned char)*name) == tolower((unsigned char)*word);
    return *name == 0;
}

static const char *meant(const char *word, const names *list)
{
    const char *nearest = bt_nearest(word, list->items), *shorter = NULL;
    for (int64_t i = 0; !nearest && i < list->count; i++)
        if (is_short_for(list->items[i], word) && (!shorter || strlen(list->items[i]) > strlen(shorter)))
            shorter = list->items[i];
    return nearest ? nearest : shorter;
}

/* The optimiser, other than `chosen`, that has this hyperparameter. */
static const char *other_optimizer(const bt_config *config, const char *key, const bt_optimizer_def *chosen)
{
    for (int64_t i = 0; i < config->optimizer_count; i++) {
        const bt_hyper_def *hypers = config->optimizers[i]->hypers;
        for (int h = 0; config->optimizers[i] != chosen && h < bt_hyper_count(hypers); h++)
            if (bt_ini_same(hypers[h].name, key))
                return config->optimizers[i]->name;
    }
    return NULL;
}

/* Where this key of the table belongs: "[engine]". */
static const char *other_place(const bt_config *config, const char *key, bt_section_kind here)
{
    static const char *const places[] = {
        [BT_SECTION_ENGINE] = "[engine]",
        [BT_SECTION_DEPENDENCIES] = "[dependencies]",
        [BT_SECTION_PROBLEM] = "a problem's section",
        [BT_SECTION_GROUP] = "a group's section, [problem.group]",
    };
    for (const bt_key *row = bt_keys; row->name; row++)
        if (row->section != here && bt_ini_same(row->name, key))
            return places[row->section];
    bool of_problems = here != BT_SECTION_PROBLEM && bt_config_is_key(config, key);
    return of_problems ? places[BT_SECTION_PROBLEM] : NULL;
}

static bt_status unknown_key(bt_config *config, bt_section_kind kind, const bt_config_line *line)
{
    const bt_problem_settings *problem = bt_config_problem_find(config, line->section, strcspn(line->section, "."));
    const bt_optimizer_def *optimizer = problem ? problem->optimizer : NULL;
    const char *other = optimizer ? other_optimizer(config, line->key, optimizer) : NULL;
    const char *place = other_place(config, line->key, kind);
    if (other)
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] has no key `%s` with optimizer = %s; it belongs to %s", line->origin,
                       line->section, line->key, optimizer->name, other);
    if (place)
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] has no key `%s`; it belongs to %s", line->origin, line->section,
                       line->key, place);
    names list = {0};
    const char *near = add_section(&list, config, kind, line->section) ? meant(line->key, &list) : NULL;
    bt_status s = near ? bt_fail(BT_ERROR_CONFIG, "%s: [%s] has no key `%s`; did you mean `%s`?", line->origin,
                                 line->section, line->key, near)
                       : bt_fail(BT_ERROR_CONFIG, "%s: [%s] has no key `%s`; betty-run --help lists the keys",
                                 line->origin, line->section, line->key);
    bt_free(list.items);
    return s;
}

bt_status bt_config_check_used(bt_config *config, bt_section_kind kind, const char *section)
{
    for (int64_t i = 0; i < config->line_count; i++)
        if (!config->lines[i].used && bt_ini_same(config->lines[i].section, section))
            return unknown_key(config, kind, &config->lines[i]);
    return BT_OK;
}

bool bt_config_is_key(const bt_config *config, const char *name)
{
    if (bt_key_find(BT_SECTION_PROBLEM, name) || other_optimizer(config, name, NULL))
        return true;
    for (int64_t m = 0; m < config->method_count; m++)
        for (int h = 0; h < bt_hyper_count(config->methods[m]->hypers); h++) {
            char key[BT_METHOD_KEY];
            bt_config_method_key(config->methods[m], h, key);
            if (bt_ini_same(key, name))
                return true;
        }
    return false;
}

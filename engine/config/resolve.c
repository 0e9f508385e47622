/* engine/config/resolve.c: from lines to settings. */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- hyperparameters as keys ---- */

static bt_key hyper_key(const bt_hyper_def *hyper, const char *name, bt_hyper_kind kind)
{
    static const bt_key_kind kinds[] = {[BT_HYPER_REAL] = BT_KEY_DOUBLE,
                                        [BT_HYPER_WHOLE] = BT_KEY_INT,
                                        [BT_HYPER_SWITCH] = BT_KEY_BOOL,
                                        [BT_HYPER_SPACING] = BT_KEY_SIZE};
    return (bt_key){.name = name,
                    .section = BT_SECTION_PROBLEM,
                    .kind = kinds[kind],
                    .low = hyper->low,
                    .high = hyper->high,
                    .words = kind == BT_HYPER_SPACING ? "sqrt | auto" : NULL,
                    .help = hyper->help ? hyper->help : ""};
}

bt_key bt_config_optimizer_key(const bt_optimizer_def *optimizer, int hyper)
{
    const bt_hyper_def *def = &optimizer->hypers[hyper];
    return hyper_key(def, def->name, def->kind);
}

bt_key bt_config_method_key(const bt_method_def *method, int hyper, char *name)
{
    const bt_hyper_def *def = &method->hypers[hyper];
    snprintf(name, BT_METHOD_KEY, "%s_%s", method->name, def->name);
    bool counts = strcmp(def->name, method->steps ? method->steps : "iterations") == 0;
    return hyper_key(def, name, counts ? BT_HYPER_WHOLE : def->kind);
}

/* Hyperparameters are doubles, whatever type their key has. `fallback` is used if the key is not set. */
static bt_status read_hyper(bt_config *config, const char *section, const bt_key *key, double fallback, double *value,
                            bool *own)
{
    bt_config_line *line = bt_config_find(config, section, key->name);
    *own = line != NULL;
    *value = fallback;
    if (!line)
        return BT_OK;
    line->used = true;
    const char *where = bt_config_where(config, line);
    int64_t whole = 0;
    bool truth = false;
    switch (key->kind) {
    case BT_KEY_INT:
    case BT_KEY_SIZE:
        BT_TRY(bt_key_parse(key, where, line->value, &whole));
        *value = (double)whole;
        return BT_OK;
    case BT_KEY_BOOL: /* a switch; its number is accepted, too */
        truth = strcmp(line->value, "1") == 0;
        if (!truth && strcmp(line->value, "0") != 0)
            BT_TRY(bt_key_parse(key, where, line->value, &truth));
        *value = truth;
        return BT_OK;
    default:
        return bt_key_parse(key, where, line->value, value);
    }
}

/* ---- rows of the table ---- */

static const char *usual_text(bt_config *config, const char *section, const bt_key *key, const char **where);

/* The value text of a key: from its line, from the key that it follows, or its default; NULL: not set. */
static const char *value_text(bt_config *config, const char *section, const bt_key *key, const char **where)
{
    bt_config_line *line = bt_config_find(config, section, key->name);
    if (!line)
        return usual_text(config, section, key, where);
    line->used = true;
    *where = bt_config_where(config, line);
    return line->value;
}

/* The value text of a key without a line. */
static const char *usual_text(bt_config *config, const char *section, const bt_key *key, const char **where)
{
    *where = key->name;
    if (!key->like)
        return key->value;
    static const char engine[] = "engine.";
    bool other = strncmp(key->like, engine, sizeof engine - 1) == 0;
    const bt_key *like =
        other ? bt_key_find(BT_SECTION_ENGINE, key->like + sizeof engine - 1) : bt_key_find(key->section, key->like);
    return like ? value_text(config, other ? "engine" : section, like, where) : NULL;
}

/* Refuses a name that is not one of `words`, with the message of a choice. */
static bt_status no_such_name(const bt_key *key, const char *where, const char *text, const bt_text *words)
{
    bt_key choice = *key;
    choice.kind = BT_KEY_CHOICE;
    choice.words = bt_text_get(words);
    int none;
    return bt_key_parse(&choice, where, text, &none);
}

static bt_status resolve_method(const bt_config *config, const bt_key *key, const char *where, const char *text,
                                const bt_method_def **field)
{
    bt_text words = {0};
    for (int64_t i = 0; i < config->method_count; i++) {
        bt_text_add(&words, i ? " | %s" : "%s", config->methods[i]->name);
        if (strcmp(config->methods[i]->name, text) == 0)
            *field = config->methods[i];
    }
    bt_status s = *field ? BT_OK : no_such_name(key, where, text, &words);
    bt_text_free(&words);
    return s;
}

static bt_status resolve_optimizer(const bt_config *config, const bt_key *key, const char *where, const char *text,
                                   const bt_optimizer_def **field)
{
    bt_text words = {0};
    for (int64_t i = 0; i < config->optimizer_count; i++) {
        bt_text_add(&words, i ? " | %s" : "%s", config->optimizers[i]->name);
        if (strcmp(config->optimizers[i]->name, text) == 0)
            *field = config->optimizers[i];
    }
    bt_status s = *field ? BT_OK : no_such_name(key, where, text, &words);
    bt_text_free(&words);
    return s;
}

static bt_status resolve_row(bt_config *config, const char *section, const bt_key *key, void *settings)
{
    char *field = (char *)settings + key->offset;
    const char *where, *text = value_text(config, section, key, &where);
    if (!text)
        return BT_OK;
    if (!where)
        return BT_ERROR_MEMORY;
    if (key->kind == BT_KEY_METHOD)
        return resolve_method(config, key, where, text, (const bt_method_def **)(void *)field);
    if (key->kind == BT_KEY_OPTIMIZER)
        return resolve_optimizer(config, key, where, text, (const bt_optimizer_def **)(void *)field);
    return bt_key_parse(key, where, text, field);
}

/* Prints the value of a key that is not a name in the canonical form of bt_key_print. */
static bool canonical(const bt_key *key, const char *where, const char *text, bt_text *printed)
{
    union {
        int64_t whole;
        double real;
        bool truth;
        int choice;
        const char *words;
        bt_int_list list;
    } field;
    memset(&field, 0, sizeof field);
    if (key->kind == BT_KEY_METHOD || key->kind == BT_KEY_OPTIMIZER)
        bt_text_add(printed, "%s", text);
    else if (bt_key_parse(key, where, text, &field) != BT_OK || !bt_key_print(key, &field, printed))
        return false;
    return !printed->failed;
}

const char *bt_config_departs(bt_config *config, const char *section, const bt_key *key)
{
    const bt_config_line *line = bt_config_find(config, section, key->name);
    const char *where, *usual = line ? usual_text(config, section, key, &where) : NULL;
    bt_text written = {0}, due = {0};
    bool departs = line != NULL;
    if (line && usual && canonical(key, where, usual, &due) &&
        canonical(key, bt_config_where(config, line), line->value, &written))
        departs = strcmp(bt_text_get(&written), bt_text_get(&due)) != 0;
    bt_text_free(&written);
    bt_text_free(&due);
    return departs ? bt_region_format(config->region, "%s = %s", bt_config_where(config, line), line->value) : NULL;
}

const char *bt_config_hyper_departs(bt_config *config, const char *section, const bt_key *key, double usual)
{
    double value;
    bool own;
    if (read_hyper(config, section, key, usual, &value, &own) != BT_OK || !own || value == usual)
        return NULL;
    const bt_config_line *line = bt_config_find(config, section, key->name);
    return bt_region_format(config->region, "%s = %s", bt_config_where(config, line), line->value);
}

static bt_status resolve_rows(bt_config *config, bt_section_kind kind, const char *section, void *settings)
{
    for (const bt_key *key = bt_keys; key->name; key++)
        if (key->section == kind)
            BT_TRY(resolve_row(config, section, key, settings));
    return BT_OK;
}

/* ---- sections ---- */

const bt_engine_settings *bt_config_engine(bt_config *config)
{
    if (!config) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_config_engine: the configuration is NULL");
        return NULL;
    }
    if (config->engine_done)
        return &config->engine;
    bt_engine_settings settings = {0};
    if (resolve_rows(config, BT_SECTION_ENGINE, "engine", &settings) != BT_OK ||
        bt_config_check_used(config, BT_SECTION_ENGINE, "engine") != BT_OK)
        return NULL;
    char folder[PATH_MAX];
    settings.folder_here = NULL; /* already applied; it would be different wherever this is printed */
    if (!settings.folder && realpath(config->folder, folder) &&
        (bt_ini_check_value("[engine] folder, the INI file's unless it is set", "folder", folder) != BT_OK ||
         !(settings.folder = bt_region_copy(config->region, folder, strlen(folder) + 1))))
        return NULL;
    config->engine = settings;
    config->engine_done = true;
    return &config->engine;
}

/* Activates the problems that engine.levels names. */
static bt_status resolve_levels(bt_config *config)
{
    const char *rest = config->engine.levels, *word;
    for (int64_t i = 0; i < config->problem_count; i++)
        config->problems[i]->active = !rest;
    size_t length;
    while ((word = bt_word_next(&rest, ',', &length)) != NULL) {
        bt_problem_settings *problem = bt_config_problem_find(config, word, length);
        if (!problem) {
            const char *name = bt_config_copy(config, word, length);
            bt_text text = {0};
            bt_config_suggest_problem(config, name ? name : "", &text);
            const bt_config_line *line = bt_config_find(config, "engine", "levels");
            bt_status s = bt_fail(BT_ERROR_CONFIG, "%s: levels: there is no problem `%s`%s",
                                  line ? line->origin : "engine", name ? name : "", bt_text_get(&text));
            bt_text_free(&text);
            return s;
        }
        problem->active = true;
    }
    return BT_OK;
}

static bt_status check_section(bt_config *config, const bt_config_section *section)
{
    const char *dot = strchr(section->name, '.');
    size_t length = dot ? (size_t)(dot - section->name) : strlen(section->name);
    if (bt_ini_same(section->name, "engine") || bt_ini_same(section->name, "dependencies") ||
        bt_config_problem_find(config, section->name, length))
        return BT_OK;
    const char *name = bt_config_copy(config, section->name, length);
    static const char *const others[] = {"engine", "dependencies", NULL};
    const char *other = name && !dot ? bt_nearest(name, others) : NULL;
    bt_text text = {0};
    bt_config_suggest_problem(config, name ? name : "", &text);
    bt_status s = bt_fail(BT_ERROR_CONFIG, "%s: [%s]: there is no problem `%s`%s%s%s", section->origin, section->name,
                          name ? name : "", other ? "; did you mean [" : bt_text_get(&text), other ? other : "",
                          other ? "]?" : "");
    bt_text_free(&text);
    return s;
}

static bt_status resolve_scheduler(bt_config *config, bt_problem_settings *problem)
{
    bt_scheduler *scheduler = &problem->scheduler;
    if (scheduler->kind == BT_SCHEDULER_STEP && scheduler->step_size == 0)
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] scheduler = step needs scheduler_step_size",
                       bt_config_origin(config, problem->name, "scheduler"), problem->name);
    if (scheduler->kind == BT_SCHEDULER_MULTISTEP && problem->milestones.count == 0)
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] scheduler = multistep needs scheduler_milestones",
                       bt_config_origin(config, problem->name, "scheduler"), problem->name);
    if (scheduler->kind == BT_SCHEDULER_EXPONENTIAL && !bt_config_find(config, problem->name, "scheduler_gamma"))
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] scheduler = exponential needs scheduler_gamma",
                       bt_config_origin(config, problem->name, "scheduler"), problem->name);
    memcpy(scheduler->milestones, problem->milestones.items, sizeof scheduler->milestones);
    scheduler->milestone_count = problem->milestones.count;
    bool first = bt_error_status() == BT_OK;
    bt_scheduler complete = *scheduler; /* an unset t_max is filled in once the dependencies are known */
    complete.t_max = scheduler->t_max ? scheduler->t_max : 1;
    bt_status s = bt_scheduler_check(&complete);
    if (s != BT_OK && first)
        bt_error_context("[%s] scheduler", problem->name);
    return s;
}

static bt_status resolve_group(bt_config *config, const bt_problem_settings *problem, const bt_config_section *named,
                               bt_group_settings *group)
{
    const char *section = named->name;
    group->name = strchr(section, '.') + 1;
    BT_TRY(resolve_rows(config, BT_SECTION_GROUP, section, group));
    if (!group->params)
        return bt_fail(BT_ERROR_CONFIG, "%s: [%s] needs params: patterns of its parameters, as in params = *.bias",
                       named->origin, section);
    for (int h = 0; h < bt_hyper_count(problem->optimizer->hypers); h++) {
        bt_key key = bt_config_optimizer_key(problem->optimizer, h);
        bool own;
        BT_TRY(read_hyper(config, section, &key, problem->hypers[h], &group->hypers[h], &own));
        group->own |= (unsigned)own << h;
    }
    return bt_config_check_used(config, BT_SECTION_GROUP, section);
}

static bool is_group_of(const char *section, const char *problem)
{
    size_t length = strlen(problem);
    return strncasecmp(section, problem, length) == 0 && section[length] == '.';
}

static bt_status resolve_groups(bt_config *config, bt_problem_settings *problem)
{
    int count = 0;
    for (int64_t i = 0; i < config->section_count; i++)
        count += is_group_of(config->sections[i].name, problem->name);
    bt_group_settings *groups = bt_region_alloc(config->region, (size_t)count * sizeof *groups);
    if (!groups)
        return BT_ERROR_MEMORY;
    problem->groups = groups;
    problem->group_count = count;
    for (int64_t i = 0; i < config->section_count; i++)
        if (is_group_of(config->sections[i].name, problem->name))
            BT_TRY(resolve_group(config, problem, &config->sections[i], groups++));
    return BT_OK;
}

/* Reads the keys of all methods, so that changing `type` needs no other change; keeps those of the chosen one. */
static bt_status resolve_methods(bt_config *config, bt_problem_settings *problem)
{
    for (int64_t m = 0; m < config->method_count; m++) {
        const bt_method_def *method = config->methods[m];
        for (int h = 0; h < bt_hyper_count(method->hypers); h++) {
            char name[BT_METHOD_KEY];
            bt_key key = bt_config_method_key(method, h, name);
            double value;
            bool own;
            BT_TRY(read_hyper(config, problem->name, &key, method->hypers[h].value, &value, &own));
            if (method == problem->method)
                problem->method_hypers[h] = value;
        }
    }
    return BT_OK;
}

/* A method may have a different default product. */
static bt_status resolve_product(bt_config *config, bt_problem_settings *problem)
{
    const char *own = problem->method->product;
    if (!own || bt_config_find(config, problem->name, "product"))
        return BT_OK;
    return bt_key_parse(bt_key_find(BT_SECTION_PROBLEM, "product"), problem->method->name, own, &problem->product);
}

static bt_status resolve_problem(bt_config *config, bt_problem_settings *problem)
{
    BT_TRY(resolve_rows(config, BT_SECTION_PROBLEM, problem->name, problem));
    BT_TRY(resolve_product(config, problem));
    BT_TRY(resolve_methods(config, problem));
    for (int h = 0; h < bt_hyper_count(problem->optimizer->hypers); h++) {
        bt_key key = bt_config_optimizer_key(problem->optimizer, h);
        bool own;
        BT_TRY(read_hyper(config, problem->name, &key, problem->optimizer->hypers[h].value, &problem->hypers[h], &own));
    }
    BT_TRY(resolve_scheduler(config, problem));
    return resolve_groups(config, problem);
}

bt_status bt_config_resolve(bt_config *config)
{
    if (!bt_config_engine(config))
        return bt_error_status() ? bt_error_status() : BT_ERROR_MEMORY;
    if (config->resolved)
        return BT_OK;
    BT_TRY(resolve_levels(config));
    for (int64_t i = 0; i < config->section_count; i++)
        BT_TRY(check_section(config, &config->sections[i]));
    for (int64_t i = 0; i < config->problem_count; i++)
        BT_TRY(resolve_problem(config, config->problems[i]));
    BT_TRY(resolve_rows(config, BT_SECTION_DEPENDENCIES, "dependencies", &config->dependencies));
    BT_TRY(bt_config_check_used(config, BT_SECTION_DEPENDENCIES, "dependencies"));
    BT_TRY(bt_config_resolve_dependencies(config));
    BT_TRY(bt_config_resolve_cosines(config));
    config->resolved = true;
    return BT_OK;
}

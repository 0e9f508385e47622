/* engine/config/document.c: the settings that a configuration results in. */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <stdio.h>
#include <string.h>

/* ---- the resolved settings ---- */

typedef struct visitor {
    bt_config_visit_fn *visit;
    void *user;
    const char *section;
    bool failed; /* out of memory */
} visitor;

static void visit_field(visitor *v, const bt_key *key, const void *field)
{
    bt_text text = {0};
    bool set = bt_key_print(key, field, &text);
    v->failed = v->failed || text.failed;
    if (set && !text.failed)
        v->visit(v->user, v->section, key->name, key->kind, bt_text_get(&text));
    bt_text_free(&text);
}

bt_hyper_field bt_config_hyper_field(const bt_key *key, double value)
{
    switch (key->kind) {
    case BT_KEY_INT:
    case BT_KEY_SIZE:
        return (bt_hyper_field){.whole = (int64_t)value};
    case BT_KEY_BOOL:
        return (bt_hyper_field){.truth = value != 0};
    default:
        return (bt_hyper_field){.real = value};
    }
}

static void visit_hyper(visitor *v, const bt_key *key, double value)
{
    bt_hyper_field field = bt_config_hyper_field(key, value);
    visit_field(v, key, &field);
}

/* Visits the keys of the table; those of a method or an optimiser follow the key that names it. */
static void visit_rows(visitor *v, bt_section_kind kind, const void *settings)
{
    for (const bt_key *key = bt_keys; key->name; key++) {
        if (key->section != kind)
            continue;
        visit_field(v, key, (const char *)settings + key->offset);
        const bt_problem_settings *problem = settings;
        for (int h = 0; key->kind == BT_KEY_METHOD && h < bt_hyper_count(problem->method->hypers); h++) {
            char name[BT_METHOD_KEY];
            bt_key row = bt_config_method_key(problem->method, h, name);
            visit_hyper(v, &row, problem->method_hypers[h]);
        }
        for (int h = 0; key->kind == BT_KEY_OPTIMIZER && h < bt_hyper_count(problem->optimizer->hypers); h++) {
            bt_key row = bt_config_optimizer_key(problem->optimizer, h);
            visit_hyper(v, &row, problem->hypers[h]);
        }
    }
}

static void visit_group(visitor *v, const bt_problem_settings *problem, const bt_group_settings *group)
{
    bt_text section = {0};
    bt_text_add(&section, "%s.%s", problem->name, group->name);
    v->failed = v->failed || section.failed;
    v->section = bt_text_get(&section);
    visit_rows(v, BT_SECTION_GROUP, group);
    for (int h = 0; h < bt_hyper_count(problem->optimizer->hypers); h++)
        if (group->own >> h & 1) {
            bt_key row = bt_config_optimizer_key(problem->optimizer, h);
            visit_hyper(v, &row, group->hypers[h]);
        }
    bt_text_free(&section);
}

bt_status bt_config_visit(const bt_config *config, bt_config_visit_fn *visit, void *user)
{
    if (!config || !config->resolved || !visit)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_visit: the configuration is not resolved");
    visitor v = {visit, user, "engine", false};
    visit_rows(&v, BT_SECTION_ENGINE, &config->engine);
    v.section = "dependencies";
    visit_rows(&v, BT_SECTION_DEPENDENCIES, &config->dependencies);
    for (int64_t p = 0; p < config->problem_count; p++) {
        const bt_problem_settings *problem = config->problems[p];
        v.section = problem->name;
        visit_rows(&v, BT_SECTION_PROBLEM, problem);
        for (int64_t o = 0; o < config->option_count; o++) {
            const bt_config_option *option = &config->options[o];
            if (option->value && strcmp(option->section, problem->name) == 0)
                visit(user, problem->name, option->key.name, option->key.kind, option->value);
        }
        for (int g = 0; g < problem->group_count; g++)
            visit_group(&v, problem, &problem->groups[g]);
    }
    return v.failed ? BT_ERROR_MEMORY : BT_OK;
}

typedef struct printer {
    FILE *file;
    bt_text section; /* the last section printed */
    bt_status status;
} printer;

static void print_setting(void *user, const char *section, const char *key, bt_key_kind kind, const char *value)
{
    (void)kind;
    printer *p = user;
    if (strcmp(bt_text_get(&p->section), section) != 0) {
        fprintf(p->file, "%s[%s]\n", p->section.size ? "\n" : "", section);
        p->section.size = 0;
        bt_text_add(&p->section, "%s", section);
        if (p->section.failed)
            p->status = BT_ERROR_MEMORY;
    }
    bt_text text = {0};
    if (!bt_config_print_value(section, key, value, &text)) /* a value that was set has been checked before */
        p->status = bt_fail(BT_ERROR_CONFIG, "[%s] %s = %s: no line of an INI file can hold this", section, key, value);
    if (text.failed)
        p->status = BT_ERROR_MEMORY;
    fprintf(p->file, "%s", bt_text_get(&text));
    bt_text_free(&text);
}

bt_status bt_config_print(const bt_config *config, FILE *file)
{
    if (!config || !config->resolved || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_print: the configuration is not resolved, or the file is NULL");
    printer p = {.file = file};
    bt_status status = bt_config_visit(config, print_setting, &p);
    bt_text_free(&p.section);
    BT_TRY(status);
    BT_TRY(p.status);
    return fflush(file) == 0 && !ferror(file) ? BT_OK : bt_fail(BT_ERROR_FILE, "the configuration cannot be written");
}

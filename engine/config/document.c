/* engine/config/document.c: what the table says about the keys, and what a configuration came to. */
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

typedef union hyper_field { /* a hyperparameter, which is kept as a double, in the field that its key prints */
    int64_t whole;
    bool truth;
    double real;
} hyper_field;

static hyper_field field_of(const bt_key *key, double value)
{
    switch (key->kind) {
    case BT_KEY_INT:
    case BT_KEY_SIZE:
        return (hyper_field){.whole = (int64_t)value};
    case BT_KEY_BOOL:
        return (hyper_field){.truth = value != 0};
    default:
        return (hyper_field){.real = value};
    }
}

static void visit_hyper(visitor *v, const bt_key *key, double value)
{
    hyper_field field = field_of(key, value);
    visit_field(v, key, &field);
}

/* The keys of the table; those of a method or an optimiser follow the key that names it. */
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
    bt_text section; /* the last one */
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
    if (!bt_config_print_value(section, key, value, &text)) /* where it was set it was looked at */
        p->status = bt_fail(BT_ERROR_CONFIG, "[%s] %s = %s: no line of an INI file can hold this", section, key, value);
    if (text.failed)
        p->status = BT_ERROR_MEMORY;
    fprintf(p->file, "%s", bt_text_get(&text));
    bt_text_free(&text);
}

bt_status bt_config_print(const bt_config *config, FILE *file)
{
    if (!config || !config->resolved || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_print: the configuration is not resolved, or there is no file");
    printer p = {.file = file};
    bt_status status = bt_config_visit(config, print_setting, &p);
    bt_text_free(&p.section);
    BT_TRY(status);
    BT_TRY(p.status);
    return fflush(file) == 0 && !ferror(file) ? BT_OK : bt_fail(BT_ERROR_FILE, "the configuration cannot be written");
}

/* ---- the table itself ---- */

typedef struct row_writer {
    const bt_config *config;
    FILE *file;
    bt_document form;
} row_writer;

/* What a key takes; for names those that are known. */
static void add_expected(const row_writer *w, const bt_key *key, bt_text *text)
{
    bool methods = key->kind == BT_KEY_METHOD, names = methods || key->kind == BT_KEY_OPTIMIZER;
    int64_t count = methods ? w->config->method_count : w->config->optimizer_count;
    for (int64_t i = 0; names && i < count; i++)
        bt_text_add(text, "%s | ", methods ? w->config->methods[i]->name : w->config->optimizers[i]->name);
    if (names)
        bt_text_add(text, "one that the problem's file exports");
    else
        bt_key_expected(key, text);
}

/* Text between backquotes, as it stands in a cell of a table: | would end the cell. */
static void write_cell(FILE *file, const char *text)
{
    for (const char *c = text; *c; c++)
        fprintf(file, *c == '|' ? "\\%c" : "%c", *c);
}

static void write_row(const row_writer *w, const bt_key *key, const char *value)
{
    bt_text expected = {0};
    add_expected(w, key, &expected);
    if (w->form == BT_DOCUMENT_MARKDOWN) {
        fprintf(w->file, "| `%s` | ", key->name);
        write_cell(w->file, bt_text_get(&expected));
        fprintf(w->file, value ? " | `%s` | " : " | %s | ", value ? value : "");
        write_cell(w->file, key->help);
        fprintf(w->file, " |\n");
    } else {
        bool choice = strchr(bt_text_get(&expected), '|') != NULL;
        fprintf(w->file, "  %-24s %-12s %s%s%s%s\n", key->name, value ? value : "-", key->help, choice ? " (" : "",
                choice ? bt_text_get(&expected) : "", choice ? ")" : "");
    }
    bt_text_free(&expected);
}

static void write_hyper(const row_writer *w, const bt_key *key, double value)
{
    bt_text text = {0};
    hyper_field field = field_of(key, value);
    bt_key_print(key, &field, &text);
    write_row(w, key, bt_text_get(&text));
    bt_text_free(&text);
}

static void write_heading(const row_writer *w, const char *section, const char *title, const char *about)
{
    if (w->form == BT_DOCUMENT_MARKDOWN)
        fprintf(w->file, "\n## %s%s%s\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                section ? section : "", section ? ": " : "", title, about);
    else
        fprintf(w->file, "\n%s%s%s:\n", section ? section : "", section ? ", " : "", title);
}

static void write_rows(const row_writer *w, bt_section_kind kind)
{
    for (const bt_key *key = bt_keys; key->name; key++) {
        if (key->section != kind)
            continue;
        char like[64];
        snprintf(like, sizeof like, "as %s", key->like ? key->like : "");
        write_row(w, key, key->like ? like : key->value);
    }
}

static void write_intro(const row_writer *w)
{
    if (w->form == BT_DOCUMENT_MARKDOWN)
        fprintf(
            w->file,
            "# The keys of an INI file\n\n"
            "This page is written by `betty-run --help-keys=markdown` from the table that also reads the file.\n\n"
            "A file has sections, `[engine]`, `[dependencies]`, and one for each problem, with lines `key = value`. "
            "What\n"
            "follows `;` or `#`, at the start of a line or after a value and a blank, is a comment; a value in quotes, "
            "`\"...\"` or\n"
            "`'...'`, may hold both, but not its own quotes. The case of names, of sections and of keys, does not "
            "matter. "
            "A line has at\nmost 1,022 characters; a longer list by commas, as of `problems` or `u2l`, goes on in "
            "lines of its "
            "own: `u2l_2 = ...`, `u2l_3 = ...`.\nA key that nothing asks for is an error, as is a value of the wrong "
            "type or out of its range. The "
            "same\n"
            "settings can be given as `--set SECTION.KEY=VALUE` on the command line, which wins over the file, and as\n"
            "`bt_engine_set(engine, \"SECTION.KEY\", \"VALUE\")` in a program. `--set SECTION.KEY=`, without a value, "
            "goes\n"
            "back to the default. `betty-run FILE --print-config` prints every setting, defaults included.\n");
}

static void write_methods(const row_writer *w, const bt_config *config)
{
    bool any = false;
    for (int64_t m = 0; m < config->method_count; m++)
        for (int h = 0; h < bt_hyper_count(config->methods[m]->hypers); h++) {
            char name[BT_METHOD_KEY];
            bt_key key = bt_config_method_key(config->methods[m], h, name);
            if (!any)
                write_heading(w, "[PROBLEM]", "hypergradient methods",
                              "The keys of a method begin with its name. They may stand there whatever `type` is.");
            any = true;
            write_hyper(w, &key, config->methods[m]->hypers[h].value);
        }
}

static void write_optimizers(const row_writer *w, const bt_config *config)
{
    for (int64_t i = 0; i < config->optimizer_count; i++) {
        const bt_optimizer_def *optimizer = config->optimizers[i];
        char title[128];
        snprintf(title, sizeof title, "optimizer = %s", optimizer->name);
        write_heading(w, "[PROBLEM]", title, "In a group's section they hold for the group.");
        for (int h = 0; h < bt_hyper_count(optimizer->hypers); h++) {
            bt_key key = bt_config_optimizer_key(optimizer, h);
            write_hyper(w, &key, optimizer->hypers[h].value);
        }
    }
}

bt_status bt_config_document(const bt_config *config, bt_document form, FILE *file)
{
    if (!config || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_document: an argument is NULL");
    const row_writer w = {config, file, form};
    write_intro(&w);
    write_heading(&w, "[engine]", "the run", "One section; every key has a default.");
    write_rows(&w, BT_SECTION_ENGINE);
    write_heading(
        &w, "[dependencies]", "which problem uses which",
        "`u2l = reweight > classifier` says that the classifier's loss uses the reweight problem, `l2u = classifier "
        "> reweight` that the\nhypergradient of the reweight problem goes through the classifier's solution.");
    write_rows(&w, BT_SECTION_DEPENDENCIES);
    write_heading(
        &w, "[PROBLEM]", "every problem",
        "The section has the problem's name. Beside these keys it has those of its optimiser and of its method, "
        "and those\nthat the problem's own code asks for.");
    write_rows(&w, BT_SECTION_PROBLEM);
    write_heading(&w, "[PROBLEM.GROUP]", "a group of parameters",
                  "Settings of the optimiser for some of a problem's parameters: what the group does not set is as in "
                  "`[PROBLEM]`. The\nname of the group is free.");
    write_rows(&w, BT_SECTION_GROUP);
    write_methods(&w, config);
    write_optimizers(&w, config);
    BT_TRY(bt_error_status()); /* a text that had no memory */
    return fflush(file) == 0 && !ferror(file) ? BT_OK : bt_fail(BT_ERROR_FILE, "the keys cannot be written");
}

/* engine/config/reference.c: the description of the keys from the table, in each of the forms of bt_document. */
#include "engine/config/config_inside.h"
#include "engine/config/roff.h"

#include <stdio.h>
#include <string.h>

typedef struct reference_row {
    const char *section;                        /* "engine", "*", "*.*" */
    const char *name, *expected, *value, *help; /* value: the default; NULL: none */
    const char *words;                          /* "min | max" if the value is one of several words; else "" */
} reference_row;

typedef struct reference_form {
    void (*begin)(FILE *file, const char *about);
    void (*heading)(FILE *file, const char *section, const char *title, const char *about);
    void (*row)(FILE *file, const reference_row *row);
} reference_form;

/* ---- for a terminal ---- */

static void text_begin(FILE *file, const char *about) { (void)file, (void)about; }

static void text_heading(FILE *file, const char *section, const char *title, const char *about)
{
    (void)about;
    fprintf(file, "\n%s, %s:\n", section, title);
}

static void text_row(FILE *file, const reference_row *row)
{
    const char *choice = strchr(row->expected, '|') ? row->expected : NULL;
    fprintf(file, "  %-24s %-12s %s%s%s%s\n", row->name, row->value ? row->value : "-", row->help, choice ? " (" : "",
            choice ? choice : "", choice ? ")" : "");
}

/* ---- docs/ini-reference.md ---- */

static void markdown_begin(FILE *file, const char *about)
{
    fprintf(file,
            "# The keys of an INI file\n\n"
            "`betty-run --help-keys=markdown` writes this page from the table with which it reads INI files.\n\n%s\n",
            about);
}

static void markdown_heading(FILE *file, const char *section, const char *title, const char *about)
{
    fprintf(file, "\n## %s: %s\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", section, title,
            about);
}

/* Text between backquotes for a table cell: | would end the cell. */
static void markdown_cell(FILE *file, const char *text)
{
    for (const char *c = text; *c; c++)
        fprintf(file, *c == '|' ? "\\%c" : "%c", *c);
}

static void markdown_row(FILE *file, const reference_row *row)
{
    fprintf(file, "| `%s` | ", row->name);
    markdown_cell(file, row->expected);
    fprintf(file, row->value ? " | `%s` | " : " | %s | ", row->value ? row->value : "");
    markdown_cell(file, row->help);
    fprintf(file, " |\n");
}

/* ---- betty-run(5) ---- */

static void man_begin(FILE *file, const char *about)
{
    bt_roff_begin(file, "BETTY-RUN", 5);
    fprintf(file, ".SH NAME\nbetty\\-run \\- the INI file of a run: its sections and keys\n.SH DESCRIPTION\n");
    bt_roff_line(file, about);
    fprintf(file, ".PP\nThe command is described in\n.BR betty\\-run (1).\n");
}

static void man_heading(FILE *file, const char *section, const char *title, const char *about)
{
    fprintf(file, ".SH \"%s: ", section);
    bt_roff(file, title);
    fprintf(file, "\"\n");
    bt_roff_line(file, about);
}

static void man_row(FILE *file, const reference_row *row)
{
    fprintf(file, ".TP\n\\fB");
    bt_roff(file, row->name);
    fprintf(file, "\\fR = ");
    bt_roff_line(file, row->expected);
    bt_roff_line(file, row->help);
    if (row->value) {
        fprintf(file, ".br\nDefault: ");
        bt_roff_line(file, row->value);
    }
}

/* ---- for programs ---- */

static void list_heading(FILE *file, const char *section, const char *title, const char *about)
{
    (void)file, (void)section, (void)title, (void)about;
}

void bt_config_write_words(const char *words, FILE *file)
{
    for (const char *c = words; *c; c++)
        if (*c != '|')
            fputc(*c, file);
        else
            c++; /* there is a blank on each side of it */
}

static void list_row(FILE *file, const reference_row *row)
{
    fprintf(file, "%s.%s\t%s\t", row->section, row->name, row->expected);
    bt_config_write_words(row->words, file);
    fprintf(file, "\t%s\n", row->help);
}

static const reference_form forms[] = {
    [BT_DOCUMENT_TEXT] = {text_begin, text_heading, text_row},
    [BT_DOCUMENT_MARKDOWN] = {markdown_begin, markdown_heading, markdown_row},
    [BT_DOCUMENT_MAN] = {man_begin, man_heading, man_row},
    [BT_DOCUMENT_LIST] = {text_begin, list_heading, list_row},
};

/* ---- rows ---- */

typedef struct row_writer {
    const bt_config *config;
    FILE *file;
    const reference_form *form;
} row_writer;

static const char *const section_names[] = {
    [BT_SECTION_ENGINE] = "engine",
    [BT_SECTION_DEPENDENCIES] = "dependencies",
    [BT_SECTION_PROBLEM] = "*",
    [BT_SECTION_GROUP] = "*.*",
};

/* The expected value of a key: the words, if it is one of several; for names, the known names. */
static void add_expected(const row_writer *w, const bt_key *key, bt_text *expected, bt_text *words)
{
    bool methods = key->kind == BT_KEY_METHOD, names = methods || key->kind == BT_KEY_OPTIMIZER;
    int64_t count = methods ? w->config->method_count : w->config->optimizer_count;
    for (int64_t i = 0; names && i < count; i++)
        bt_text_add(words, "%s%s", i ? " | " : "",
                    methods ? w->config->methods[i]->name : w->config->optimizers[i]->name);
    if (names)
        bt_text_add(expected, "%s | one exported by the problem's file", bt_text_get(words));
    else
        bt_key_expected(key, expected);
    if (key->kind == BT_KEY_BOOL || key->kind == BT_KEY_CHOICE)
        bt_text_add(words, "%s", bt_text_get(expected));
}

static void write_row(const row_writer *w, const bt_key *key, const char *value)
{
    bt_text expected = {0}, words = {0};
    add_expected(w, key, &expected, &words);
    w->form->row(w->file, &(reference_row){.section = section_names[key->section],
                                           .name = key->name,
                                           .expected = bt_text_get(&expected),
                                           .value = value,
                                           .help = key->help,
                                           .words = bt_text_get(&words)});
    bt_text_free(&expected);
    bt_text_free(&words);
}

static void write_hyper(const row_writer *w, const bt_key *key, double value)
{
    bt_text text = {0};
    bt_hyper_field field = bt_config_hyper_field(key, value);
    bt_key_print(key, &field, &text);
    write_row(w, key, bt_text_get(&text));
    bt_text_free(&text);
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

static void write_methods(const row_writer *w)
{
    bool any = false;
    for (int64_t m = 0; m < w->config->method_count; m++) {
        const bt_method_def *method = w->config->methods[m];
        for (int h = 0; h < bt_hyper_count(method->hypers); h++) {
            char name[BT_METHOD_KEY];
            bt_key key = bt_config_method_key(method, h, name);
            if (!any)
                w->form->heading(w->file, "[PROBLEM]", "hypergradient methods",
                                 "The keys of a method start with its name. They are allowed with any `type`.");
            any = true;
            write_hyper(w, &key, method->hypers[h].value);
        }
    }
}

static void write_optimizers(const row_writer *w)
{
    for (int64_t i = 0; i < w->config->optimizer_count; i++) {
        const bt_optimizer_def *optimizer = w->config->optimizers[i];
        char title[128];
        snprintf(title, sizeof title, "optimizer = %s", optimizer->name);
        w->form->heading(w->file, "[PROBLEM]", title, "In the section of a group, they apply to that group.");
        for (int h = 0; h < bt_hyper_count(optimizer->hypers); h++) {
            bt_key key = bt_config_optimizer_key(optimizer, h);
            write_hyper(w, &key, optimizer->hypers[h].value);
        }
    }
}

static const char about[] =
    "A file has the sections `[engine]` and `[dependencies]`, and a section for each problem. A section has lines\n"
    "`key = value`. A comment starts with `;` or `#`, at the start of a line or after a value and a blank. A value in\n"
    "quotes, `\"...\"` or `'...'`, may contain both characters, but not its own quotes. Names, sections and keys are "
    "not\n"
    "case-sensitive. A line has at most 1,022 characters. To continue a longer list, such as `problems` or `u2l`, add\n"
    "the lines `u2l_2 = ...`, `u2l_3 = ...`. An unknown key is an error, and so is a value of the wrong type or out "
    "of\n"
    "range. On the command line, `--set SECTION.KEY=VALUE` makes the same settings and overrides the file; a program\n"
    "calls `bt_engine_set(engine, \"SECTION.KEY\", \"VALUE\")`. `--set SECTION.KEY=`, without a value, restores the\n"
    "default. `betty-run FILE --print-config` prints every setting, including defaults.";

bt_status bt_config_document(const bt_config *config, bt_document form, FILE *file)
{
    if (!config || !file || (unsigned)form >= BT_COUNT_OF(forms))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_document: an argument is NULL, or there is no such form");
    const row_writer w = {config, file, &forms[form]};
    w.form->begin(file, about);
    w.form->heading(file, "[engine]", "the run", "One section; every key has a default.");
    write_rows(&w, BT_SECTION_ENGINE);
    w.form->heading(
        file, "[dependencies]", "which problem uses which",
        "`u2l = reweight > classifier` means that the classifier's loss uses the reweight problem. `l2u = classifier > "
        "reweight`\nmeans that the hypergradient of the reweight problem goes through the classifier's solution.");
    write_rows(&w, BT_SECTION_DEPENDENCIES);
    w.form->heading(file, "[PROBLEM]", "every problem",
                    "The section is named after the problem. Besides these keys it takes those of the problem's "
                    "optimiser and method, and\nthose that the problem's own code asks for.");
    write_rows(&w, BT_SECTION_PROBLEM);
    w.form->heading(file, "[PROBLEM.GROUP]", "a group of parameters",
                    "Optimiser settings for some of a problem's parameters. Settings that the group leaves out are "
                    "taken from `[PROBLEM]`.\nThe group may have any name.");
    write_rows(&w, BT_SECTION_GROUP);
    write_methods(&w);
    write_optimizers(&w);
    BT_TRY(bt_error_status()); /* a text that ran out of memory */
    return fflush(file) == 0 && !ferror(file) ? BT_OK : bt_fail(BT_ERROR_FILE, "the keys cannot be written");
}

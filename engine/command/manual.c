/* engine/command/manual.c: what --help and --help-keys print, from the tables of options and of keys. */
#include "engine/command/cli_inside.h"
#include "engine/config/roff.h"
#include "engine/solve/methods.h"

#include <string.h>

static const char trust[] = "An INI file names C code that is compiled and run: use only files that you trust.";

static const char *const codes[][2] = {
    {"0", "done"},
    {"1",
     "a run failed, a hypergradient is wrong by more than its method's own error, or memory use differs from the plan"},
    {"2", "wrong usage or input"},
    {"130", "interrupted"},
};

static const char *const variables[][2] = {
    {"BETTY_DATA", "a folder with data sets; it is searched before the folder of the installation"},
    {"BETTY_INCLUDE", "the folder with betty/betty.h for compiling problems; unset: the one beside the command"},
    {"BETTY_ISA", "the kernels to use instead of the fastest for this processor; `--info` lists them"},
    {"CC", "the C compiler for problems; unset: cc"},
    {"XDG_CACHE_HOME", "the folder of the cache; compiled problems are kept in its subfolder betty. Unset: ~/.cache"},
};

/* "--tokens N", "--help[=FORM]" */
static void option_text(const bt_cli_option *o, char *text, size_t size)
{
    const bool form = o->kind == FORM;
    snprintf(text, size, "%s%s%s", o->name, form ? "[=FORM]" : o->value ? " " : "", form || !o->value ? "" : o->value);
}

/* ---- for a terminal ---- */

static void usage(FILE *file)
{
    fprintf(file, "%s\n%s\n\n", bt_cli_synopsis, trust);
    for (int i = 0; bt_cli_option_at(i); i++) {
        char name[64];
        option_text(bt_cli_option_at(i), name, sizeof name);
        fprintf(file, "  %-24s %s\n", name, bt_cli_option_at(i)->help);
    }
    fprintf(file, "\nExit code:");
    for (int i = 0; i < BT_COUNT_OF(codes); i++)
        fprintf(file, "%s %s %s", i ? ";" : "", codes[i][0], codes[i][1]);
    fprintf(file, ".\n");
}

/* ---- betty-run(1) ---- */

static void man_synopsis(FILE *file)
{
    for (const char *line = bt_cli_synopsis; *line; line = strchr(line, '\n') + 1) {
        const char *what = strstr(line, ": ");
        char text[128];
        snprintf(text, sizeof text, "%.*s", (int)(what - line), line);
        fputs(line == bt_cli_synopsis ? "" : ".PP\n", file);
        bt_roff_line(file, text);
        fprintf(file, ".br\n.RS\n");
        snprintf(text, sizeof text, "%.*s", (int)strcspn(what + 2, "\n"), what + 2);
        bt_roff_line(file, text);
        fprintf(file, ".RE\n");
    }
}

static void man_item(FILE *file, const char *name, const char *text)
{
    fprintf(file, ".TP\n\\fB");
    bt_roff(file, name);
    fprintf(file, "\\fR\n");
    bt_roff_line(file, text);
}

static void man(FILE *file)
{
    bt_roff_begin(file, "BETTY-RUN", 1);
    fprintf(file, ".SH NAME\nbetty\\-run \\- trains multilevel optimisation problems\n.SH SYNOPSIS\n");
    man_synopsis(file);
    fprintf(file, ".SH DESCRIPTION\n");
    bt_roff_line(file, trust);
    fprintf(file, "Its sections and keys are described in\n.BR betty\\-run (5).\n.SH OPTIONS\n");
    for (int i = 0; bt_cli_option_at(i); i++) {
        char name[64];
        option_text(bt_cli_option_at(i), name, sizeof name);
        man_item(file, name, bt_cli_option_at(i)->help);
    }
    fprintf(file, ".SH \"EXIT STATUS\"\n");
    for (int i = 0; i < BT_COUNT_OF(codes); i++)
        man_item(file, codes[i][0], codes[i][1]);
    fprintf(file, ".SH ENVIRONMENT\n");
    for (int i = 0; i < BT_COUNT_OF(variables); i++)
        man_item(file, variables[i][0], variables[i][1]);
    fprintf(file, ".SH \"SEE ALSO\"\n.BR betty\\-run (5),\n.BR betty (3)\n");
}

/* ---- for programs ---- */

/* The words that the value can be, separated by blanks, if it is one of a list. */
static void print_words(FILE *file, const bt_cli_option *o)
{
    const bt_key *key = o->key ? bt_key_find(BT_SECTION_ENGINE, strchr(o->key, '.') + 1) : NULL;
    const char *words = key && key->kind == BT_KEY_CHOICE ? key->words : o->kind == FORM ? o->value : "";
    bt_config_write_words(words, file);
}

/* A line for each option, separated by tabs: its name, what stands for its value, the allowed words, what it
 * does. */
static void list(FILE *file)
{
    for (int i = 0; bt_cli_option_at(i); i++) {
        const bt_cli_option *o = bt_cli_option_at(i);
        fprintf(file, "%s\t%s\t", o->name, o->value && o->kind != FORM ? o->value : "");
        print_words(file, o);
        fprintf(file, "\t%s\n", o->help);
    }
}

bt_status bt_cli_help(const char *form, FILE *file)
{
    if (!form || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_cli_help: an argument is NULL");
    const bool text = strcmp(form, "text") == 0;
    if (text)
        usage(file);
    else if (strcmp(form, "man") == 0)
        man(file);
    else
        list(file);
    if (fflush(file) != 0 || ferror(file))
        return bt_fail(BT_ERROR_FILE, "the help cannot be written");
    return text ? bt_cli_keys(form, file) : BT_OK;
}

bt_status bt_cli_keys(const char *form, FILE *file)
{
    static const char *const forms[] = {
        [BT_DOCUMENT_TEXT] = "text",
        [BT_DOCUMENT_MARKDOWN] = "markdown",
        [BT_DOCUMENT_MAN] = "man",
        [BT_DOCUMENT_LIST] = "list",
    };
    int found = 0;
    while (form && found < BT_COUNT_OF(forms) && strcmp(form, forms[found]) != 0)
        found++;
    bt_config *config = bt_config_new();
    bt_status s = config ? BT_OK : BT_ERROR_MEMORY;
    const bt_method_def *method;
    for (int i = 0; s == BT_OK && (method = bt_method_builtin(i)) != NULL; i++)
        s = bt_config_add_method(config, method);
    if (s == BT_OK)
        s = bt_config_document(config, (bt_document)found, file);
    bt_config_free(config);
    return s;
}

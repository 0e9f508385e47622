/* engine/config/config.c: the lines of a configuration: their origin, and how to find them. */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bt_config *bt_config_new(void)
{
    bt_config *config = bt_alloc(sizeof *config);
    if (!config)
        return NULL;
    config->region = bt_region_new();
    if (!config->region) {
        bt_config_free(config);
        return NULL;
    }
    config->folder = ".";
    const bt_optimizer_def *optimizer;
    for (int i = 0; (optimizer = bt_optimizer_builtin(i)) != NULL; i++)
        if (bt_config_add_optimizer(config, optimizer) != BT_OK) {
            bt_config_free(config);
            return NULL;
        }
    return config;
}

void bt_config_free(bt_config *config)
{
    if (!config)
        return;
    bt_free(config->lines);
    bt_free(config->sections);
    bt_free(config->methods);
    bt_free(config->optimizers);
    bt_free(config->problems);
    bt_free(config->options);
    bt_free(config->edges.list);
    bt_region_free(config->region);
    bt_free(config);
}

const char *bt_config_copy(bt_config *config, const char *text, size_t length)
{
    return bt_region_format(config->region, "%.*s", (int)length, text);
}

static const char *copy(bt_config *config, const char *text)
{
    return bt_region_copy(config->region, text, strlen(text) + 1);
}

/* Equal for all spellings that bt_ini_same considers the same. */
static uint64_t hash_of(const char *section, const char *key)
{
    uint64_t hash = 0;
    for (const char *c = section; *c; c++)
        hash = hash * 31 + (uint64_t)tolower((unsigned char)*c);
    for (const char *c = key; *c; c++)
        hash = hash * 31 + (uint64_t)tolower((unsigned char)*c);
    return hash;
}

static bt_config_line *find_line(const bt_config *config, const char *section, const char *key)
{
    uint64_t hash = hash_of(section, key);
    for (int64_t i = 0; i < config->line_count; i++)
        if (config->lines[i].hash == hash && bt_ini_same(config->lines[i].section, section) &&
            bt_ini_same(config->lines[i].key, key))
            return &config->lines[i];
    return NULL;
}

bt_config_line *bt_config_find(const bt_config *config, const char *section, const char *key)
{
    bt_config_line *line = find_line(config, section, key);
    return line && line->value ? line : NULL;
}

const char *bt_config_where(const bt_config *config, const bt_config_line *line)
{
    if (!line->from_file && line->origin[0] == '-') /* the name of the option already says which setting it is */
        return line->origin;
    return bt_region_format(config->region, "%s: [%s] %s", line->origin, line->section, line->key);
}

static bt_config_section *find_section(const bt_config *config, const char *name)
{
    for (int64_t i = 0; i < config->section_count; i++)
        if (bt_ini_same(config->sections[i].name, name))
            return &config->sections[i];
    return NULL;
}

static bt_status add_section(bt_config *config, const char *name, const char *origin)
{
    bt_config_section *grown =
        bt_grow(config->sections, &config->section_room, config->section_count + 1, sizeof *config->sections);
    if (!grown)
        return BT_ERROR_MEMORY;
    config->sections = grown;
    bt_config_section section = {copy(config, name), copy(config, origin)};
    if (!section.name || !section.origin)
        return BT_ERROR_MEMORY;
    config->sections[config->section_count++] = section;
    return BT_OK;
}

/* The line of a key; created if it is new. */
static bt_config_line *line_for(bt_config *config, const char *section, const char *key)
{
    bt_config_line *line = find_line(config, section, key);
    if (line)
        return line;
    bt_config_line *grown = bt_grow(config->lines, &config->line_room, config->line_count + 1, sizeof *config->lines);
    if (!grown)
        return NULL;
    config->lines = grown;
    line = &config->lines[config->line_count];
    *line = (bt_config_line){.section = copy(config, section), .key = copy(config, key), .hash = hash_of(section, key)};
    if (!line->section || !line->key)
        return NULL;
    config->line_count++;
    return line;
}

static bt_status put(bt_config *config, const char *section, const char *key, const char *value, const char *origin,
                     bool from_file)
{
    const bt_config_line written = {.section = section, .key = key, .origin = origin, .from_file = from_file};
    const char *where = bt_config_where(config, &written);
    if (!where)
        return BT_ERROR_MEMORY;
    if (value)
        BT_TRY(bt_config_check_value(where, section, key, value));
    bt_config_line *line = line_for(config, section, key);
    if (!line)
        return BT_ERROR_MEMORY;
    line->value = value ? copy(config, value) : NULL;
    line->origin = copy(config, origin);
    line->from_file = from_file;
    line->used = !value;
    line->parts = 1;
    return (value && !line->value) || !line->origin ? BT_ERROR_MEMORY : BT_OK;
}

/* ---- from a file ---- */

typedef struct file_reader {
    bt_config *config;
    const char *file;
} file_reader;

static bt_status read_section(bt_config *config, const char *section, const char *origin)
{
    bt_config_section *before = find_section(config, section);
    if (!before)
        return add_section(config, section, origin);
    before->origin = copy(config, origin);
    return before->origin ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status continue_list(bt_config *config, const bt_config_line *written, size_t length, int64_t part,
                               const char *value)
{
    const char *name = bt_config_copy(config, written->key, length);
    return name ? bt_config_continue(config, find_line(config, written->section, name), part, value, written)
                : BT_ERROR_MEMORY;
}

static bt_status read_line(void *user, const char *section, const char *key, const char *value, int64_t number)
{
    file_reader *reader = user;
    bt_config *config = reader->config;
    const char *origin = bt_region_format(config->region, "%s:%lld", reader->file, (long long)number);
    if (!origin)
        return BT_ERROR_MEMORY;
    if (!key)
        return read_section(config, section, origin);
    const bt_config_line written = {.section = section, .key = key, .origin = origin, .from_file = true};
    size_t length;
    int64_t part = bt_config_list_part(section, key, &length);
    if (part > 1)
        return continue_list(config, &written, length, part, value);
    return find_line(config, section, key) ? BT_OK : put(config, section, key, value, origin, true);
}

/* Whether that folder holds the files of `problems`; for built-in problems, whether `folder` no longer exists. */
static bool holds_problems(const bt_config *config, const char *path, const char *folder)
{
    const bt_config_line *problems = bt_config_find(config, "engine", "problems");
    const char *rest = problems ? problems->value : NULL, *word;
    size_t length;
    int files = 0;
    char name[PATH_MAX];
    while (rest && (word = bt_word_next(&rest, ',', &length)) != NULL) {
        bool is_file = memchr(word, '.', length) || memchr(word, '/', length);
        if (!is_file || *word == '/')
            continue;
        if (snprintf(name, sizeof name, "%s/%.*s", path, (int)length, word) >= (int)sizeof name ||
            access(name, R_OK) != 0)
            return false;
        files++;
    }
    return files || access(folder, F_OK) != 0;
}

/* For the configuration of a run that was moved with its project: sets the folder to its current place. */
static bt_status find_moved(bt_config *config)
{
    const bt_config_line *here = bt_config_find(config, "engine", "folder_here");
    bt_config_line *folder = bt_config_find(config, "engine", "folder");
    char path[PATH_MAX];
    if (!here || !folder)
        return BT_OK;
    char *joined = bt_string("%s/%s", config->folder, here->value);
    if (!joined)
        return BT_ERROR_MEMORY;
    bool there = realpath(joined, path) && holds_problems(config, path, folder->value);
    bt_free(joined);
    if (there && !(folder->value = copy(config, path)))
        return BT_ERROR_MEMORY;
    return BT_OK;
}

bt_status bt_config_read(bt_config *config, const char *file)
{
    if (!config || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_read: an argument is NULL");
    if (config->stem || config->engine_done)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: %s", file,
                       config->stem ? "a configuration takes one INI file, and has already read one"
                                    : "an INI file must be read before anything else is done");
    file_reader reader = {config, file};
    BT_TRY(bt_ini_read(file, read_line, &reader));
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".ini") == 0)
        length -= 4;
    config->stem = bt_config_copy(config, base, length);
    if (slash)
        config->folder = slash == file ? "/" : bt_config_copy(config, file, (size_t)(slash - file));
    return config->stem && config->folder ? find_moved(config) : BT_ERROR_MEMORY;
}

const char *bt_config_folder(const bt_config *config)
{
    const bt_config_line *line = config ? bt_config_find(config, "engine", "folder") : NULL;
    return line ? line->value : config && config->folder ? config->folder : ".";
}

const char *bt_config_stem(const bt_config *config) { return config && config->stem ? config->stem : "run"; }

/* ---- from a command line or a program ---- */

bt_status bt_config_set(bt_config *config, const char *key, const char *value, const char *origin)
{
    if (!config || !key || !value || !origin)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_set: an argument is NULL");
    if (config->engine_done)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: settings cannot change after the run is set up", origin);
    const char *dot = strrchr(key, '.');
    const char *section = dot ? bt_config_copy(config, key, (size_t)(dot - key)) : NULL;
    if (dot && !section)
        return BT_ERROR_MEMORY;
    if (!dot || !bt_ini_name(section, true) || !bt_ini_name(dot + 1, false))
        return bt_fail(BT_ERROR_CONFIG, "%s: expected SECTION.KEY, as in classifier.lr, found `%s`", origin, key);
    if (strpbrk(value, "\r\n"))
        return bt_fail(BT_ERROR_CONFIG, "%s: a value is one line", origin);
    if (!find_section(config, section))
        BT_TRY(add_section(config, section, origin));
    return put(config, section, dot + 1, *value ? value : NULL, origin, false);
}

/* The settings of a section that can have live keys, and its kind; NULL: there is no such section. */
static void *live_settings(bt_config *config, const char *section, bt_section_kind *kind)
{
    *kind = bt_ini_same(section, "engine") ? BT_SECTION_ENGINE : BT_SECTION_PROBLEM;
    if (*kind == BT_SECTION_ENGINE)
        return &config->engine;
    return bt_config_problem_find(config, section, strlen(section));
}

static bt_status fail_change(const char *origin, const char *key)
{
    bt_text live = {0};
    for (const bt_key *row = bt_keys; row->name; row++)
        if (row->live)
            bt_text_add(&live, "%s%s%s", live.size ? ", " : "",
                        row->section == BT_SECTION_ENGINE ? "engine." : "PROBLEM.", row->name);
    bt_status status =
        bt_fail(BT_ERROR_ARGUMENT,
                "%s: %s cannot change after the engine is set up: set it before the first call that runs. These can "
                "change: %s",
                origin, key, bt_text_get(&live));
    bt_text_free(&live);
    return status;
}

bt_status bt_config_change(bt_config *config, const char *key, const char *value, const char *origin)
{
    const char *dot = strrchr(key, '.');
    const char *section = dot ? bt_config_copy(config, key, (size_t)(dot - key)) : NULL;
    if (dot && !section)
        return BT_ERROR_MEMORY;
    bt_section_kind kind;
    void *settings = section ? live_settings(config, section, &kind) : NULL;
    const bt_key *row = settings ? bt_key_find(kind, dot + 1) : NULL;
    if (!row || !row->live)
        return fail_change(origin, key);
    union {
        int64_t whole;
        double real;
    } number; /* all live keys are numbers */
    const char *where = bt_region_format(config->region, "%s: [%s] %s", origin, section, row->name);
    if (!where)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_key_parse(row, where, value, &number));
    BT_TRY(put(config, section, row->name, value, origin, false));
    bt_config_find(config, section, row->name)->used = true;
    memcpy((char *)settings + row->offset, &number, sizeof number);
    return BT_OK;
}

const char *bt_config_origin(const bt_config *config, const char *section, const char *key)
{
    const bt_config_line *line = config && section && key ? bt_config_find(config, section, key) : NULL;
    return line ? line->origin : NULL;
}

const char *bt_config_place(const bt_config *config, const char *section, const char *key)
{
    const bt_config_line *line = bt_config_find(config, section, key);
    const char *place =
        line ? bt_config_where(config, line) : bt_region_format(config->region, "[%s] %s", section, key);
    return place ? place : key;
}

/* ---- names ---- */

static bt_status check_lists(const bt_method_def *method)
{
    BT_TRY(bt_record_fits("method", method->name, method->hypers, method->slots));
    int slots = bt_slot_name_count(method->slots), stacks = bt_slot_name_count(method->stacks);
    if (method->stacks[BT_MAX_ITEMS] || slots + stacks > BT_MAX_ITEMS)
        return bt_fail(BT_ERROR_ARGUMENT, "method %s: its record lists more than %d slots and stacks", method->name,
                       BT_MAX_ITEMS);
    return BT_OK;
}

bt_status bt_config_add_method(bt_config *config, const bt_method_def *method)
{
    if (!config || !method || !bt_ini_name(method->name, false))
        return bt_fail(BT_ERROR_ARGUMENT, "a hypergradient method needs a name of letters, digits, _ and -");
    for (int64_t i = 0; i < config->method_count; i++)
        if (bt_ini_same(config->methods[i]->name, method->name)) /* because its keys begin with the name */
            return config->methods[i] == method
                       ? BT_OK
                       : bt_fail(BT_ERROR_CONFIG, "method %s: there is already a method of that name", method->name);
    BT_TRY(check_lists(method));
    for (int h = 0; h < bt_hyper_count(method->hypers); h++) {
        char name[BT_METHOD_KEY];
        if (strlen(method->name) + 1 + strlen(method->hypers[h].name) >= BT_METHOD_KEY)
            return bt_fail(BT_ERROR_CONFIG, "method %s: the key of its hyperparameter %s has more than %d characters",
                           method->name, method->hypers[h].name, BT_METHOD_KEY - 1);
        if (bt_key_find(BT_SECTION_PROBLEM, bt_config_method_key(method, h, name).name))
            return bt_fail(BT_ERROR_CONFIG,
                           "method %s: its hyperparameter %s would be the key %s, which every problem already has",
                           method->name, method->hypers[h].name, name);
    }
    const bt_method_def **grown =
        bt_grow(config->methods, &config->method_room, config->method_count + 1, sizeof *config->methods);
    if (!grown)
        return BT_ERROR_MEMORY;
    config->methods = grown;
    config->methods[config->method_count++] = method;
    return BT_OK;
}

bt_status bt_config_add_optimizer(bt_config *config, const bt_optimizer_def *optimizer)
{
    if (!config || !optimizer || !bt_ini_name(optimizer->name, false))
        return bt_fail(BT_ERROR_ARGUMENT, "an optimiser needs a name of letters, digits, _ and -");
    for (int64_t i = 0; i < config->optimizer_count; i++)
        if (strcmp(config->optimizers[i]->name, optimizer->name) == 0)
            return config->optimizers[i] == optimizer
                       ? BT_OK
                       : bt_fail(BT_ERROR_CONFIG, "optimizer %s: there is already one of that name", optimizer->name);
    BT_TRY(bt_record_fits("optimizer", optimizer->name, optimizer->hypers, optimizer->slots));
    for (int h = 0; h < bt_hyper_count(optimizer->hypers); h++)
        if (bt_key_find(BT_SECTION_PROBLEM, optimizer->hypers[h].name))
            return bt_fail(BT_ERROR_CONFIG, "optimizer %s: its hyperparameter %s is a key that every problem has",
                           optimizer->name, optimizer->hypers[h].name);
    const bt_optimizer_def **grown =
        bt_grow(config->optimizers, &config->optimizer_room, config->optimizer_count + 1, sizeof *config->optimizers);
    if (!grown)
        return BT_ERROR_MEMORY;
    config->optimizers = grown;
    config->optimizers[config->optimizer_count++] = optimizer;
    return BT_OK;
}

bt_status bt_config_add_problem(bt_config *config, const char *name)
{
    if (!config || !name)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_config_add_problem: an argument is NULL");
    if (!bt_ini_name(name, false) || bt_ini_same(name, "engine") || bt_ini_same(name, "dependencies"))
        return bt_fail(BT_ERROR_CONFIG,
                       "problem `%s`: a problem's name is its section: use letters, digits, _ and -, but not engine or "
                       "dependencies",
                       name);
    if (bt_config_problem_find(config, name, strlen(name)))
        return bt_fail(BT_ERROR_CONFIG, "problem %s: there are two of that name", name);
    if (config->resolved)
        return bt_fail(BT_ERROR_ARGUMENT, "problem %s: it is added too late, the run is already set up", name);
    bt_problem_settings **grown =
        bt_grow(config->problems, &config->problem_room, config->problem_count + 1, sizeof(bt_problem_settings *));
    bt_problem_settings *problem = grown ? bt_region_alloc(config->region, sizeof *problem) : NULL;
    if (grown)
        config->problems = grown;
    if (!problem || !(problem->name = copy(config, name)))
        return BT_ERROR_MEMORY;
    problem->place = (int)config->problem_count;
    config->problems[config->problem_count++] = problem;
    return BT_OK;
}

bt_problem_settings *bt_config_problem_find(const bt_config *config, const char *name, size_t length)
{
    for (int64_t i = 0; i < config->problem_count; i++)
        if (strlen(config->problems[i]->name) == length && strncasecmp(name, config->problems[i]->name, length) == 0)
            return config->problems[i];
    return NULL;
}

const bt_problem_settings *bt_config_problem(const bt_config *config, const char *name)
{
    if (!config || !name || !config->resolved)
        return NULL;
    return bt_config_problem_find(config, name, strlen(name));
}

void bt_config_suggest_problem(const bt_config *config, const char *name, bt_text *text)
{
    const char **names = bt_alloc_array((size_t)config->problem_count + 1, sizeof *names);
    for (int64_t i = 0; names && i < config->problem_count; i++)
        names[i] = config->problems[i]->name;
    const char *nearest = names ? bt_nearest(name, names) : NULL;
    if (nearest)
        bt_text_add(text, "; did you mean `%s`?", nearest);
    for (int64_t i = 0; names && !nearest && names[i]; i++)
        bt_text_add(text, "%s%s", i ? ", " : "; there are: ", names[i]);
    bt_free(names);
}

const bt_method_def *bt_config_method(const bt_config *config, int index)
{
    return index < config->method_count ? config->methods[index] : NULL;
}

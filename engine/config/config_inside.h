/* engine/config/config_inside.h: shared by the files of the configuration. */
#ifndef BT_CONFIG_INSIDE_H
#define BT_CONFIG_INSIDE_H

#include "engine/config/config.h"

typedef struct bt_config_line {
    const char *section, *key;
    const char *value;  /* NULL: cleared, so that the default applies whatever the file says */
    const char *origin; /* "reweight.ini:14" or "--set classifier.lr" */
    bool from_file, used;
    uint64_t hash; /* of section and key */
    int64_t parts; /* number of lines that the value comes from, several for a long list */
} bt_config_line;

typedef struct bt_config_section {
    const char *name, *origin;
} bt_config_section;

typedef struct bt_config_option { /* a key that a problem's code has requested */
    const char *section;
    bt_key key;        /* key.value: its default */
    const char *value; /* as resolved; NULL: a text that is not set */
} bt_config_option;

struct bt_config {
    bt_region *region; /* of all text and of the problems' settings */
    const char *folder, *stem;
    bt_config_line *lines;
    int64_t line_count, line_room;
    bt_config_section *sections; /* in order of appearance */
    int64_t section_count, section_room;
    const bt_method_def **methods;
    int64_t method_count, method_room;
    const bt_optimizer_def **optimizers;
    int64_t optimizer_count, optimizer_room;
    bt_problem_settings **problems;
    int64_t problem_count, problem_room;
    bt_config_option *options;
    int64_t option_count, option_room;
    bt_edges edges;
    bool engine_done, resolved;
    bool finished; /* every key has been checked: no more can be requested */
    bt_engine_settings engine;
    bt_dependency_settings dependencies;
};

/* ---- config.c ---- */

bt_config_line *bt_config_find(const bt_config *config, const char *section, const char *key); /* NULL: not set */
const char *bt_config_copy(bt_config *config, const char *text, size_t length);                /* NULL: out of memory */
/* The beginning of a message about a value: "reweight.ini:14: [classifier] lr"; in the region. */
const char *bt_config_where(const bt_config *config, const bt_config_line *line);
bt_problem_settings *bt_config_problem_find(const bt_config *config, const char *name, size_t length);
/* Adds "; did you mean `x`?", with the nearest problem, or "; there are: x, y". */
void bt_config_suggest_problem(const bt_config *config, const char *name, bt_text *text);

/* ---- document.c ---- */

typedef union bt_hyper_field { /* a hyperparameter, stored as a double, as the field that its key prints */
    int64_t whole;
    bool truth;
    double real;
} bt_hyper_field;
bt_hyper_field bt_config_hyper_field(const bt_key *key, double value);

/* ---- lists.c ---- */

/* If `key` is the first line of a list or a later one (u2l_2, u2l_3, ...), the number of that line; 0: it is no list.
 * *name: the key's length without the number. */
int64_t bt_config_list_part(const char *section, const char *key, size_t *name);
/* Adds a later line of a list to its first one. */
bt_status bt_config_continue(bt_config *config, bt_config_line *first, int64_t part, const char *value,
                             const bt_config_line *written);
/* Refuses a value that an INI file cannot hold; a list may take several lines. `where` begins the message. */
bt_status bt_config_check_value(const char *where, const char *section, const char *key, const char *value);
/* Adds the line, or the lines of a list; false: no line of an INI file can hold the value. */
bool bt_config_print_value(const char *section, const char *key, const char *value, bt_text *text);

/* ---- unknown.c ---- */

/* BT_ERROR_CONFIG for the first line of `section` that nothing has used. */
bt_status bt_config_check_used(bt_config *config, bt_section_kind kind, const char *section);
/* Whether this is a key for problems: of the table, an optimiser or a method. A problem's own keys must have other
 * names. */
bool bt_config_is_key(const bt_config *config, const char *name);

/* ---- edges.c ---- */

bt_status bt_config_resolve_dependencies(bt_config *config);

/* ---- updates.c ---- */

bt_status bt_config_resolve_cosines(bt_config *config); /* of schedulers whose scheduler_t_max is not set */

#endif

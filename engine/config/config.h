/* engine/config/config.h: a configuration: settings from an INI file, from --set and from bt_engine_set, one path for
 * all.
 *
 * In this order:
 *   read, set ...             collect lines; each keeps where it came from
 *   bt_config_engine          resolves [engine]: says which problems to load
 *   bt_config_add_method, bt_config_add_optimizer, bt_config_add_problem
 *   bt_config_resolve         resolves the problems, groups and dependencies; unknown sections are errors
 *   bt_config_option_...      while problems are configured and traced: their own keys
 *   bt_config_finish          a key that nobody asked for is an error
 *   bt_config_print ...       the resolved configuration
 *
 * The configuration owns all text that it gives out, until it is freed. */
#ifndef BT_CONFIG_H
#define BT_CONFIG_H

#include "engine/config/keys.h"
#include "engine/hierarchy/hierarchy.h"

typedef struct bt_config bt_config;

bt_config *bt_config_new(void);
void bt_config_free(bt_config *config);

/* Reads an INI file: [section], key = value, as engine/config/ini.h reads it. Strict: a duplicate key or section, a
 * line of neither form are errors with file and line. The names of sections, keys and problems are compared without
 * regard to case, wherever they come from. */
bt_status bt_config_read(bt_config *config, const char *file);

/* key is SECTION.KEY (a group: PROBLEM.GROUP.KEY). value replaces the present one; an empty value removes the setting,
 * so that the default applies again; a value that no INI file can hold is refused. Messages name origin: "--set
 * classifier.lr". An error after bt_config_resolve. */
bt_status bt_config_set(bt_config *config, const char *key, const char *value, const char *origin);

/* The same for a resolved configuration: only for keys whose rows say `live`, which have the new value from now on.
 * Keys that take their defaults from such a key do not change. Any other key is refused (BT_ERROR_ARGUMENT). */
bt_status bt_config_change(bt_config *config, const char *key, const char *value, const char *origin);

/* The folder that paths in the configuration are relative to: engine.folder, or the folder of the INI file, or "."; and
 * the name of that file without .ini. */
const char *bt_config_folder(const bt_config *config);
const char *bt_config_stem(const bt_config *config);

/* Add what `type` and `optimizer` can name; the library's optimisers are there from the start. Hyperparameters become
 * keys, a method's as NAME_hyper ("iterations" takes whole numbers). Records must outlive the configuration; their
 * names must differ. */
bt_status bt_config_add_method(bt_config *config, const bt_method_def *method);
bt_status bt_config_add_optimizer(bt_config *config, const bt_optimizer_def *optimizer);
const bt_method_def *bt_config_method(const bt_config *config, int index); /* NULL after the last */
bt_status bt_config_add_problem(bt_config *config, const char *name);

/* Resolves [engine] at the first call. NULL on failure. */
const bt_engine_settings *bt_config_engine(bt_config *config);

bt_status bt_config_resolve(bt_config *config);
const bt_problem_settings *bt_config_problem(const bt_config *config, const char *name); /* NULL if missing */

/* A dependency between two active problems; those of problems left out by engine.levels are dropped. */
typedef struct bt_dependency {
    bt_direction direction;
    const char *from, *to;
    const char *origin; /* "reweight.ini:7" */
    bt_edge edge;       /* the same, by the places of the problems in the order in which they were added */
} bt_dependency;
const bt_dependency *bt_config_dependencies(const bt_config *config, int *count);
bt_status bt_config_hierarchy(const bt_config *config, bt_hierarchy *hierarchy); /* from the dependencies in force */

/* The value of scheduler_t_max if it is not set, for a run of `leaf_steps` leaf steps. */
bt_status bt_config_whole_cosine(const bt_config *config, int place, int64_t leaf_steps, int64_t *t_max);

/* Replacing the dependencies: parsing checks the lines as in a file, and does not change the configuration. The list
 * belongs to the caller until it is swapped with the one in force; only then does it take effect. */
typedef struct bt_edges {
    bt_dependency *list; /* for bt_free */
    int64_t count, room;
} bt_edges;
bt_status bt_config_parse_edges(bt_config *config, const char *u2l, const char *l2u, const char *origin,
                                bt_edges *edges);
void bt_config_swap_edges(bt_config *config, bt_edges *edges);
void bt_config_print_edges(const bt_config *config, bt_direction direction, bt_text *text); /* "a > b, b > c" */

/* A problem's own keys. A key may be requested again, with the same default and range. On failure *result is the
 * default. */
bt_status bt_config_option_bool(bt_config *config, const char *section, const char *key, bool value, bool *result);
bt_status bt_config_option_int(bt_config *config, const char *section, const char *key, int64_t value, int64_t low,
                               int64_t high, int64_t *result);
bt_status bt_config_option_double(bt_config *config, const char *section, const char *key, double value, double low,
                                  double high, double *result);
bt_status bt_config_option_text(bt_config *config, const char *section, const char *key, const char *value,
                                const char **result);

bt_status bt_config_finish(bt_config *config);

/* Where a value was set: "reweight.ini:14", "--set classifier.lr"; NULL if it is the default. */
const char *bt_config_origin(const bt_config *config, const char *section, const char *key);

/* The beginning of a message about a setting: "reweight.ini:14: [classifier] lr", "--set classifier.lr"; if it is not
 * set, "[classifier] lr". */
const char *bt_config_place(const bt_config *config, const char *section, const char *key);

/* A setting that is written somewhere and differs from the default: "reweight.ini:14: [classifier] lr = 0.1"; NULL:
 * there is none. The second is for hyperparameters of a method or an optimiser. */
const char *bt_config_departs(bt_config *config, const char *section, const bt_key *key);
const char *bt_config_hyper_departs(bt_config *config, const char *section, const bt_key *key, double usual);

/* Each resolved setting in turn, defaults included; unset ones (output, levels) are left out. */
typedef void bt_config_visit_fn(void *user, const char *section, const char *key, bt_key_kind kind, const char *value);
bt_status bt_config_visit(const bt_config *config, bt_config_visit_fn *visit, void *user);

/* The resolved configuration as an INI file that gives the same settings when read from any folder. */
bt_status bt_config_print(const bt_config *config, FILE *file);

/* Every key with type, range, default and help, those of the known methods and optimisers included. */
typedef enum bt_document {
    BT_DOCUMENT_TEXT,
    BT_DOCUMENT_MARKDOWN,
    BT_DOCUMENT_MAN, /* a manual page, in roff */
    BT_DOCUMENT_LIST /* for programs, a line per key, by tabs: SECTION.KEY, values, words with blanks, help */
} bt_document;
bt_status bt_config_document(const bt_config *config, bt_document form, FILE *file);
void bt_config_write_words(const char *words, FILE *file); /* "min | max" as words with blanks, for BT_DOCUMENT_LIST */

/* The key of a hyperparameter; its default is hypers[hyper].value. */
bt_key bt_config_optimizer_key(const bt_optimizer_def *optimizer, int hyper);
/* name: a buffer of BT_METHOD_KEY characters for NAME_hyper. The key that counts steps takes whole numbers, whatever
 * its kind. */
enum { BT_METHOD_KEY = 128 };
bt_key bt_config_method_key(const bt_method_def *method, int hyper, char *name);

#endif

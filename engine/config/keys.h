/* engine/config/keys.h: the table of INI keys, and the plain structs that a configuration is resolved into.
 *
 * One row of the table says everything about a key: it parses the value, checks its range, prints --help and
 * --print-config, and writes docs/ini-reference.md. To add a key: one row in keys.c, one field here. */
#ifndef BT_KEYS_H
#define BT_KEYS_H

#include "base/base.h"
#include "optim/optim.h"
#include <stdio.h>

/* The values of choice keys, in the order in which the row lists their words. */
typedef enum bt_product { BT_PRODUCT_JVP, BT_PRODUCT_VJP, BT_PRODUCT_FINITE } bt_product;
typedef enum bt_detach_mode { BT_DETACH_FROZEN, BT_DETACH_FIELD, BT_DETACH_FOLLOW } bt_detach_mode;
typedef enum bt_product_batches { BT_BATCHES_LAST, BT_BATCHES_ALL } bt_product_batches;
typedef enum bt_stop_mode { BT_STOP_MIN, BT_STOP_MAX } bt_stop_mode;

typedef struct bt_int_list { /* "3000, 4500" */
    int64_t items[BT_MAX_ITEMS];
    int count;
} bt_int_list;

/* [engine] */
typedef struct bt_engine_settings {
    const char *problems; /* built-in names and .c paths, by commas; NULL: none (problems come from bt_engine_use) */
    const char *folder;   /* of relative paths; NULL: there is none, for it has been removed */
    const char *levels;   /* names of problems, by commas; NULL: all */
    int64_t train_iters, valid_step; /* valid_step 0: no validation */
    bool roll_back;
    bool early_stopping;
    int early_stopping_mode; /* bt_stop_mode */
    int64_t early_stopping_tolerance;
    const char *early_stopping_metric; /* METRIC, or PROBLEM.METRIC */
    int64_t seed;
    int device;         /* 0 auto, 1 cpu */
    int64_t threads;    /* 0: as many as there are processors */
    int precision;      /* 0 fp32, 1 fp64; see bt_precision_dtype */
    bool reassociate;   /* chains of matrix products in the cheapest order */
    int64_t log_step;   /* leaf steps from one line of training metrics to the next; 0: none */
    const char *output; /* folder; NULL: runs/STEM-N */
    int64_t checkpoint_step, checkpoint_keep;
    int strategy; /* 0 default */
    int logger;   /* 0 none: metrics.jsonl only */
} bt_engine_settings;

/* [problem.group]: parameters whose optimiser settings differ from those of the problem. */
typedef struct bt_group_settings {
    const char *name;   /* "biases" */
    const char *params; /* patterns, by commas, for bt_pattern_match */
    bool frozen;
    double hypers[BT_MAX_ITEMS]; /* as in optimizer->hypers; what the group does not set is as in the problem */
    unsigned own;                /* bit i: the group sets hypers[i] */
} bt_group_settings;

/* [problem] */
typedef struct bt_problem_settings {
    const char *name;
    int place;   /* in the order in which problems were added */
    bool active; /* false: left out by engine.levels */

    const bt_method_def *method;        /* type */
    double method_hypers[BT_MAX_ITEMS]; /* as in method->hypers */
    int product;                        /* bt_product */
    int detach;                         /* bt_detach_mode */
    int product_batches;                /* bt_product_batches */
    double darts_alpha;                 /* step of the finite product */
    int first_order;                    /* 0: true, the only choice yet */

    int64_t unroll_steps, warmup_steps, gradient_accumulation, meta_batch;
    double gradient_clipping, gradient_clipping_value; /* 0: none */
    bool allow_unused;
    int64_t log_step; /* -1: as the engine's */

    int precision;                           /* 0 fp32, 1 fp64 */
    int64_t batch_size;                      /* 0: all examples */
    int64_t valid_batch_size, valid_batches; /* 0: all */
    bool shuffle, drop_last, prefetch;

    const char *weights, *weights_names; /* NULL: none */
    int weights_layout;                  /* 0 pytorch, 1 plain */
    int weights_missing;                 /* 0 error, 1 keep */

    const char *trainable, *meta_trainable; /* patterns for bt_pattern_match; "*": all */

    const bt_optimizer_def *optimizer;
    double hypers[BT_MAX_ITEMS]; /* as in optimizer->hypers */
    bt_scheduler scheduler;      /* checked */
    bt_int_list milestones;      /* as in scheduler */

    const bt_group_settings *groups; /* in the order of the file */
    int group_count;
} bt_problem_settings;

/* [dependencies] */
typedef struct bt_dependency_settings {
    const char *u2l, *l2u; /* "reweight > classifier"; NULL: none */
} bt_dependency_settings;

bt_dtype bt_precision_dtype(int precision);

typedef enum bt_section_kind {
    BT_SECTION_ENGINE,
    BT_SECTION_DEPENDENCIES,
    BT_SECTION_PROBLEM,
    BT_SECTION_GROUP,
    BT_SECTION_KINDS
} bt_section_kind;

typedef enum bt_key_kind {
    BT_KEY_INT,      /* int64_t */
    BT_KEY_DOUBLE,   /* double */
    BT_KEY_BOOL,     /* bool: true | false */
    BT_KEY_TEXT,     /* const char * */
    BT_KEY_CHOICE,   /* int: the place of the word in `words` */
    BT_KEY_SIZE,     /* int64_t from `low` on, or the word `words`, which is 0 */
    BT_KEY_INTS,     /* bt_int_list */
    BT_KEY_METHOD,   /* const bt_method_def *, by name */
    BT_KEY_OPTIMIZER /* const bt_optimizer_def *, by name */
} bt_key_kind;

typedef struct bt_key {
    const char *name;
    bt_section_kind section;
    bt_key_kind kind;
    size_t offset;      /* of the field in the section's struct */
    const char *value;  /* the default as text; NULL: not set, the field stays NULL (text) or 0 */
    const char *like;   /* another key whose value is the default: "batch_size", "engine.precision"; or NULL */
    double low, high;   /* ends included, for numbers */
    const char *words;  /* "min | max" */
    const char *later;  /* words known from Betty that are not there yet: "zero | fsdp" */
    const char *advice; /* what to do instead of a `later` word; or NULL */
    bool resumable;     /* a resumed run may have another value than the run that it continues */
    const char *help;
} bt_key;

/* The table; ends with a row without a name. */
extern const bt_key bt_keys[];
const bt_key *bt_key_find(bt_section_kind section, const char *name); /* NULL if missing */

/* ---- values.c: between text and fields ---- */

/* Strict: the whole text, finite, within the range. `where` begins the message: "reweight.ini:14: [classifier] lr"
 * gives "reweight.ini:14: [classifier] lr = fast: expected a number, at least 0". Text is not copied. METHOD and
 * OPTIMIZER are looked up by the configuration and not here. */
bt_status bt_key_parse(const bt_key *key, const char *where, const char *text, void *field);
/* The inverse: `field` as text that bt_key_parse reads back to the same. False: there is nothing to print. */
bool bt_key_print(const bt_key *key, const void *field, bt_text *text);
/* "a number, at least 0", "min | max": what bt_key_parse takes. */
void bt_key_expected(const bt_key *key, bt_text *text);

bool bt_word_is(const char *word, size_t length, const char *text);

/* Does `name` ("layer2.0.weight") match one of the patterns ("layer0.*, *.bias")? In a pattern * stands for any
 * characters, dots included, and ? for one. */
bool bt_pattern_match(const char *patterns, const char *name);

#endif

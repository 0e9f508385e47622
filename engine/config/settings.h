/* engine/config/settings.h: the plain structs that a configuration is resolved into. A new key needs a field here and a
 * row in keys.c. */
#ifndef BT_SETTINGS_H
#define BT_SETTINGS_H

#include "base/base.h"
#include "compile/checkpointing.h"
#include "optim/optim.h"

/* The values of choice keys, in the order in which the row lists their words. */
typedef enum bt_product { BT_PRODUCT_JVP, BT_PRODUCT_VJP, BT_PRODUCT_FINITE } bt_product;
typedef enum bt_detach_mode { BT_DETACH_FROZEN, BT_DETACH_FIELD, BT_DETACH_FOLLOW } bt_detach_mode;
typedef enum bt_product_batches { BT_BATCHES_LAST, BT_BATCHES_ALL } bt_product_batches;
typedef enum bt_overlap { BT_OVERLAP_AUTO, BT_OVERLAP_TRUE, BT_OVERLAP_FALSE } bt_overlap;
typedef enum bt_device_choice { BT_DEVICE_AUTO, BT_DEVICE_CPU, BT_DEVICE_CUDA } bt_device_choice;
typedef enum bt_executor { BT_EXECUTOR_AUTO, BT_EXECUTOR_LOCKSTEP, BT_EXECUTOR_PROCESSES } bt_executor;
typedef enum bt_stop_mode { BT_STOP_MIN, BT_STOP_MAX } bt_stop_mode;
typedef enum bt_products { BT_PRODUCTS_AUTO, BT_PRODUCTS_FP32, BT_PRODUCTS_AS_LEVEL, BT_PRODUCTS_FP16 } bt_products;
typedef enum bt_precision { BT_IN_FP32, BT_IN_TF32, BT_IN_FP64, BT_IN_BF16, BT_IN_FP16, BT_IN_BF16_TRUE } bt_precision;
/* In the order of the key's words; the last two are other names for zero1 and zero3. */
typedef enum bt_strategy_words {
    BT_STRATEGY_DEFAULT,
    BT_STRATEGY_DISTRIBUTED,
    BT_STRATEGY_ZERO1,
    BT_STRATEGY_ZERO2,
    BT_STRATEGY_ZERO3,
    BT_STRATEGY_ZERO,
    BT_STRATEGY_FSDP
} bt_strategy_words;
typedef enum bt_optimizer_state { BT_STATE_FP32, BT_STATE_BF16 } bt_optimizer_state;

typedef struct bt_int_list { /* "3000, 4500" */
    int64_t items[BT_MAX_ITEMS];
    int count;
} bt_int_list;

/* [engine] */
typedef struct bt_engine_settings {
    const char *problems;    /* built-in names and .c paths, by commas; NULL: none (problems come from bt_engine_use) */
    const char *folder;      /* what paths are relative to; NULL: none, because it has been removed */
    const char *folder_here; /* NULL once it has been used */
    const char *levels;      /* names of problems, by commas; NULL: all */
    int64_t train_iters, valid_step; /* valid_step 0: no validation */
    bool roll_back;
    bool early_stopping;
    int early_stopping_mode; /* bt_stop_mode */
    int64_t early_stopping_tolerance;
    const char *early_stopping_metric; /* METRIC, or PROBLEM.METRIC */
    int64_t seed;
    bt_device_choice device;
    int64_t threads;       /* 0: as many as there are cores, and work for */
    int precision;         /* bt_precision */
    int64_t memory_budget; /* bytes; 0: none */
    bool reassociate;      /* computes chains of matrix products in the cheapest order */
    int64_t log_step;      /* leaf steps between two lines of training metrics; 0: none */
    const char *output;    /* folder; NULL: runs/STEM-N */
    int64_t checkpoint_step, checkpoint_keep;
    double checkpoint_minutes; /* 0: not by time */
    bool checkpoint_best;
    int64_t ranks; /* 0: all */
    int executor;  /* bt_executor */
    int strategy;  /* bt_strategy_words */
    int64_t zero_unit;
    bool distributed;
    int64_t bucket;        /* bytes of sums over the ranks that are combined; 0: each separately */
    int overlap;           /* bt_overlap */
    int64_t offload_ahead; /* steps */
    int64_t offload_unit;  /* bytes */
    bool log_histograms;
    unsigned loggers; /* bits of bt_sink_kind; 0: metrics.jsonl only */
} bt_engine_settings;

/* [problem.group]: parameters whose optimiser settings differ from those of the problem. */
typedef struct bt_group_settings {
    const char *name;   /* "biases" */
    const char *params; /* patterns, by commas, for bt_pattern_match */
    bool frozen;
    double hypers[BT_MAX_ITEMS]; /* as in optimizer->hypers; what the group does not set is as for the problem */
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
    int product_precision;              /* bt_products */
    double darts_alpha;                 /* step of the finite product */
    int first_order;                    /* 0: true, the only choice yet */
    int optimizer_state;                /* bt_optimizer_state */
    int strategy;                       /* bt_strategy_words */

    int64_t unroll_steps, warmup_steps, gradient_accumulation, meta_batch;
    double unroll_tolerance, gradient_clipping, gradient_clipping_value; /* 0: none */
    bool allow_unused;
    int64_t log_step; /* -1: as the engine's */

    bt_checkpointing checkpointing;
    unsigned offload;      /* bits of bt_offload (engine/level/offload.h) */
    int64_t chunks;        /* 0: auto */
    int64_t memory_budget; /* bytes; 0: none */
    int precision;         /* bt_precision */
    bool fp16;             /* Betty's name for precision = fp16 */
    double initial_dynamic_scale, scale_factor;
    int64_t scale_interval;
    int64_t batch_norm_groups;
    int64_t batch_size;                      /* 0: all examples */
    int64_t valid_batch_size, valid_batches; /* 0: all */
    bool shuffle, drop_last, prefetch;

    const char *weights, *weights_names; /* NULL: none */
    int weights_layout;                  /* a bt_layout */
    int weights_missing;                 /* 0 error, 1 keep */

    const char *trainable, *meta_trainable; /* patterns for bt_pattern_match; "*": all */

    const bt_optimizer_def *optimizer;
    double hypers[BT_MAX_ITEMS];  /* as in optimizer->hypers */
    bt_scheduler scheduler;       /* checked */
    bt_int_list milestones;       /* as in scheduler */
    const char *scheduler_metric; /* of a plateau: METRIC, or PROBLEM.METRIC */

    double prune; /* 0: nothing is pruned */
    int64_t prune_begin, prune_end;

    const bt_group_settings *groups; /* in the order of the file */
    int group_count;
} bt_problem_settings;

/* [dependencies] */
typedef struct bt_dependency_settings {
    const char *u2l, *l2u; /* "reweight > classifier"; NULL: none */
} bt_dependency_settings;

bt_dtype bt_precision_dtype(int precision); /* of parameters, gradients, optimiser state and floating data */
bt_dtype bt_precision_low(int precision);   /* of products; BT_F32: as their inputs */

#endif

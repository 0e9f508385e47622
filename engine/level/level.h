/* engine/level/level.h: one problem of the hierarchy: its identity, what it trains, where its batches come from, and
 * its counters. What higher rooms keep for it is opaque here. */
#ifndef BT_LEVEL_H
#define BT_LEVEL_H

#include "engine/level/context.h"
#include "engine/level/inputs.h"
#include "nn/module.h"
#include "optim/optim.h"

typedef struct bt_scalar { /* bt_host_scalar, bt_static_int */
    char *name;
    double (*number)(bt_problem *self);
    int64_t (*integer)(bt_problem *self);
    bt_var *var;   /* F64 [] */
    int64_t value; /* of the integer, when it was traced */
} bt_scalar;

typedef struct bt_memory { /* bt_state */
    char *name;
    void *data; /* the user's */
    size_t size;
} bt_memory;

enum { BT_PURE_STEP, BT_PURE_VALID, BT_PURE_UPDATE, BT_PURE_CONDITION, BT_PURE_START, BT_PURE_KINDS };

typedef enum bt_configure { /* host callbacks that create the problem's parts */
                            BT_CONFIGURE_MODULE,
                            BT_CONFIGURE_TRAIN_DATA,
                            BT_CONFIGURE_VALID_DATA,
                            BT_CONFIGURES
} bt_configure;

struct bt_problem {
    bt_context *context;
    const bt_problem_def *def;
    const char *name, *source; /* source: the .c file that defines it; NULL: not from a file */
    const bt_problem_settings *settings;
    void *user;
    int place;            /* in context->problems */
    bool missing, narrow; /* it does not exist; its parameters and gradients are stored as bf16 and read as f32 */
    bt_dtype dtype, low;  /* of parameters and data; of products in its network: see bt_tag */
    bt_module *module;
    bool configuring[BT_CONFIGURES]; /* whether this callback is running, to detect recursion */
    int64_t *order;                  /* of the parameters in their block */
    int *group;                      /* by parameter: its group of the optimiser */
    bool *trainable, *meta_trainable;
    bool told_batch, told_unseen; /* bt_warn_batch, bt_unseen_warn have run */
    int64_t heads, large_heads;   /* products that can be cut into pieces; that `auto` would cut: traced/chunks.c */
    bt_optimizer *optimizer;
    bt_plateau plateau; /* of scheduler = plateau */
    bt_block slots[BT_MAX_ITEMS];
    bt_block slope;     /* of the last update that was made, if the method asks for it; flat NULL: it does not */
    bt_block masks;     /* bits: 1 if a weight is not pruned; flat NULL: none is (prune.h) */
    bt_block gradients; /* of a step, in its phase; laid out like the parameters */
    bt_stray strays[BT_MAX_ITEMS];
    bt_block sums;                                    /* over a meta-batch; flat NULL: it is one call */
    bool *used;                                       /* by parameter: a gradient or a product reaches it */
    bt_var *step_count, *inner_count, *scale, *clean; /* F64 []: `steps`, `inner`; of level/scale.h, or NULL */
    bool shows_steps;                                 /* a program reads them; see bt_steps_show */
    bt_var *loop; /* I64 []: the step at which the inner loop began: the seed of `start`; NULL: no start */
    bt_stream *train, *valid;
    bt_dataset *train_data, *valid_data; /* opened, not yet taken by a stream */

    bt_problem **children, **parents;               /* whose solutions its loss uses; whose losses use its solution */
    bool *ready;                                    /* by child; in the ledger */
    char **ready_names, **rate_names, *rested_name; /* the last two: see rates.h; rate_names by optimiser group */
    int child_count, parent_count;
    bt_scalar *scalars;
    int scalar_count, scalar_capacity;
    struct bt_traced *traced[BT_PURE_KINDS][BT_MAX_SHAPES]; /* traced/: by callback and shape of batch; NULL: not yet */

    struct bt_trajectory *trajectory; /* solve/: of its steps; NULL: nobody differentiates through them */
    int64_t spacing;                  /* the least spacing of its states, if that is automatic; 1 at first */
    int holding;                      /* the least bt_holding of the problem's solves */
    struct bt_trouble *troubles;      /* solve/: by place of the lower problem; NULL: none */
    bt_var **solutions;               /* solve/: likewise: x of the last step, if the method starts from it */
    struct bt_step_phase *step;       /* step/ */
    struct bt_valid_phase *validation;
    struct bt_eval_cache *evals;
    struct bt_kept *loop_start; /* roll_back: the start of the inner loop; NULL: it does not return there */
    struct bt_kept *adapted;    /* session/: what bt_restore brings back; NULL: bt_adapt has not been called */

    int64_t steps;                   /* updates, applied or skipped */
    int64_t logged, seen;            /* `steps` when its metrics were last reported; as its last step saw it */
    int64_t inner, inner_seen;       /* likewise, within the inner loop in progress */
    int64_t since;                   /* the tick after its last call, as far as hypergradients go back */
    int64_t calls;                   /* of an upper problem, so far in this meta-batch */
    bool inner_loop_start, starting; /* starting: on_inner_loop_start is running, in a step or in bt_adapt */
    bool return_due;                 /* roll_back: an upper problem has stepped; always false between leaf steps */
    bt_memory *memory;               /* the user's, by bt_state */
    int64_t memory_count, memory_capacity;
    bt_var *product[3]; /* of level/scale.h; NULLs: its products have no scale */
};

/* ---- problem.c ---- */

bt_problem *bt_problem_new(bt_context *context, const bt_problem_def *def, void *user);
void bt_problem_free(bt_problem *problem);                                  /* frees what this room keeps of it */
bt_guest bt_problem_enter(const bt_problem *problem, const char *callback); /* before calling one of its callbacks */
void bt_problem_leave(const bt_problem *problem, const char *callback, bt_guest before); /* says whose error it is */
bt_problem *bt_problem_find(bt_context *context, const char *name);
const char *bt_problem_list(bt_context *context, bt_text *text); /* "a, b" */

bt_status bt_problem_configure(bt_problem *problem);              /* module, storage, optimiser */
bt_status bt_problem_open_set(bt_problem *problem, bt_mode mode); /* from its callback, once; none: does nothing */
bt_status bt_problem_open_data(bt_problem *problem);              /* streams */
bt_status bt_problem_load_weights(bt_problem *problem);           /* weights.c: the key `weights` */

/* ---- params.c ---- */

bt_status bt_params_sort(bt_problem *problem);        /* which are trained, their groups, their order in the block */
bt_status bt_params_check(const bt_problem *problem); /* an error if none is trained */
bt_status bt_params_open(bt_problem *problem); /* the optimiser and its state, after the module has its storage */
void bt_params_close(bt_problem *problem);
/* A block with a variable for each parameter, laid out like the parameters. */
bt_status bt_block_like_params(bt_block *block, const bt_problem *problem, bt_lifetime lifetime, bt_category category,
                               const char *name, bt_dtype dtype);
int64_t bt_params_elements(const bt_problem *problem); /* length of bt_params */
bool bt_owns_buffer(const bt_problem *problem, bt_var *var);
bool bt_is_updated(const bt_problem *problem, int64_t parameter); /* if not, its gradient is undefined */

/* ---- names.c: the names of what a run keeps ---- */

/* Names of variables and memory begin with "PROBLEM:", those of parameters, buffers and their state with "PROBLEM.".
 * Returns how many things have this name, and adds to words which. */
int bt_name_holders(const bt_context *context, const bt_problem *problem, const char *name, bt_text *words);
/* Whether a new variable of the problem may have this name; if not, adds to words what has it. */
bool bt_name_is_free(const bt_problem *problem, const char *name, bt_text *words);

/* ---- clock.c: the counters of a level, from one table ---- */

bt_status bt_clock_enter(bt_problem *problem);
void bt_clock_leave(bt_problem *problem);

/* ---- family.c: who is above and below ---- */

extern const bt_method_def bt_method_none;    /* type = none */
bool bt_is_constant(const bt_problem *lower); /* for all levels above: type = none */
/* The lower problems whose adjoints an upper one needs, in the order in which they are solved. */
int bt_lowers(const bt_problem *upper, bt_problem **lowers);
bt_status bt_wires_check(const bt_context *context); /* levels that reach nothing, or whose precisions differ */
bt_status bt_wire(bt_context *context);              /* the same; then sets parents, children and leaves */
void bt_unwire(bt_context *context);                 /* removes them and the hierarchy */
bool bt_u2l(const bt_problem *upper, const bt_problem *lower); /* the lower loss may read the upper parameters */

/* ---- callbacks.c: whether a callback may continue with this problem; if not, an error; in a trace, a poison ---- */
bool bt_usable(const bt_problem *self, const char *function);

#endif

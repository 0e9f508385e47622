/* engine/level/level.h: one problem of the hierarchy: who it is, what it trains, where its batches come from, how far
 * it is. What rooms above this one keep for it is opaque here. */
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
    int64_t value; /* of the integer, as traced */
} bt_scalar;

typedef struct bt_memory { /* bt_state */
    char *name;
    void *data; /* the user's */
    size_t size;
} bt_memory;

enum { BT_PURE_STEP, BT_PURE_VALID, BT_PURE_UPDATE, BT_PURE_CONDITION, BT_PURE_START, BT_PURE_KINDS };

typedef enum bt_configure { /* host callbacks that make what the problem consists of */
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
    bool missing, narrow; /* it does not exist; its parameters and gradients are kept in bf16, and read as f32 */
    bt_dtype dtype, low;  /* of parameters and data; of products in its network: see bt_tag */
    bt_module *module;
    bool configuring[BT_CONFIGURES]; /* this callback of it is running: to notice one that calls itself */
    int64_t *order;                  /* of the parameters, as they lie in their block */
    int *group;                      /* by parameter: of the optimiser */
    bool *trainable, *meta_trainable;
    bool told_batch, told_unseen; /* bt_warn_batch, bt_unseen_warn have looked */
    int64_t heads, large_heads;   /* products that could be in pieces, and of auto would be: traced/chunks.c */
    bt_optimizer *optimizer;
    bt_plateau plateau; /* of scheduler = plateau */
    bt_block slots[BT_MAX_ITEMS];
    bt_block slope;     /* of the last update that was made, where the method asks for it; flat NULL: it does not */
    bt_block masks;     /* bits: 1 if a weight is not pruned; flat NULL: none is (prune.h) */
    bt_block gradients; /* of a step, in its phase; laid out like the parameters */
    bt_stray strays[BT_MAX_ITEMS];
    bt_block sums;                                    /* of a meta-batch; flat NULL: one call */
    bool *used;                                       /* by parameter: a gradient or a product reaches it */
    bt_var *step_count, *inner_count, *scale, *clean; /* F64 []: `steps`, `inner`; of level/scale.h, or NULL */
    bool shows_steps;                                 /* somebody has read them; see bt_steps_show */
    bt_var *loop; /* I64 []: the step at which the inner loop began, which `start` draws by; NULL: no start */
    bt_stream *train, *valid;
    bt_dataset *train_data, *valid_data; /* opened, not yet taken by a stream */

    bt_problem **children, **parents;               /* whose solutions its loss uses; who use its */
    bool *ready;                                    /* by child; in the ledger */
    char **ready_names, **rate_names, *rested_name; /* the latter two: rates.h; rate_names by group of the optimiser */
    int child_count, parent_count;
    bt_scalar *scalars;
    int scalar_count, scalar_capacity;
    struct bt_traced *traced[BT_PURE_KINDS][BT_MAX_SHAPES]; /* traced/: by callback and shape of batch; NULL: not yet */

    struct bt_trajectory *trajectory; /* solve/: of its steps; NULL: nobody differentiates through them */
    int64_t spacing;                  /* of the states that it keeps, at least, if that is automatic; 1 at first */
    int holding;                      /* bt_holding, at least, of the problem's solves */
    struct bt_trouble *troubles;      /* solve/: by place of the lower problem; NULL: none */
    bt_var **solutions;               /* solve/: likewise: x of the last step, where the method starts from it */
    struct bt_step_phase *step;       /* step/ */
    struct bt_valid_phase *validation;
    struct bt_eval_cache *evals;
    struct bt_kept *loop_start; /* roll_back: the start of the inner loop; NULL: it does not return there */
    struct bt_kept *adapted;    /* session/: what bt_restore brings back; NULL: bt_adapt has not been called */

    int64_t steps;                   /* updates, applied or skipped */
    int64_t logged, seen;            /* of these, when its metrics were last reported; as its last step saw them */
    int64_t inner, inner_seen;       /* likewise, those of the inner loop in progress */
    int64_t since;                   /* the tick after its last call: the dependency has stepped since */
    int64_t calls;                   /* of an upper problem, in the meta-batch in progress */
    bool inner_loop_start, starting; /* starting: on_inner_loop_start is called, by a step or by bt_adapt */
    bool return_due;                 /* roll_back: an upper problem has stepped; never so between two leaf steps */
    bt_memory *memory;               /* of the user, by bt_state */
    int64_t memory_count, memory_capacity;
    bt_var *product[3]; /* of level/scale.h; NULLs: its products have no scale */
};

/* ---- problem.c ---- */

bt_problem *bt_problem_new(bt_context *context, const bt_problem_def *def, void *user);
void bt_problem_free(bt_problem *problem);                                  /* what this room has of it */
bt_guest bt_problem_enter(const bt_problem *problem, const char *callback); /* one of its callbacks is called next */
void bt_problem_leave(const bt_problem *problem, const char *callback, bt_guest before); /* says whose its error is */
bt_problem *bt_problem_find(bt_context *context, const char *name);
const char *bt_problem_list(bt_context *context, bt_text *text); /* "a, b" */

bt_status bt_problem_configure(bt_problem *problem);              /* module, storage, optimiser */
bt_status bt_problem_open_set(bt_problem *problem, bt_mode mode); /* from its callback, once; without one nothing */
bt_status bt_problem_open_data(bt_problem *problem);              /* streams */
bt_status bt_problem_load_weights(bt_problem *problem);           /* weights.c: the key `weights` */

/* ---- params.c ---- */

bt_status bt_params_sort(bt_problem *problem);        /* which are trained, by which group, in what order they lie */
bt_status bt_params_check(const bt_problem *problem); /* an error where none is trained */
bt_status bt_params_open(bt_problem *problem);        /* the optimiser and its state; once the module has its storage */
void bt_params_close(bt_problem *problem);
/* A block with a variable for each parameter, laid out like the parameters. */
bt_status bt_block_like_params(bt_block *block, const bt_problem *problem, bt_lifetime lifetime, bt_category category,
                               const char *name, bt_dtype dtype);
int64_t bt_params_elements(const bt_problem *problem); /* length of bt_params */
bool bt_owns_buffer(const bt_problem *problem, bt_var *var);
bool bt_is_updated(const bt_problem *problem, int64_t parameter); /* else its gradient's window holds anything */

/* ---- names.c: the names of what a run keeps ---- */

/* Those of variables and memory begin with "PROBLEM:", those of parameters, buffers and their state with "PROBLEM.".
 * How many things have this one; words: which, is added to. */
int bt_name_holders(const bt_context *context, const bt_problem *problem, const char *name, bt_text *words);
/* Whether a new variable of the problem may be called so; else words is added to: what has that name. */
bool bt_name_is_free(const bt_problem *problem, const char *name, bt_text *words);

/* ---- clock.c: the counters of a level, by one table ---- */

bt_status bt_clock_enter(bt_problem *problem);
void bt_clock_leave(bt_problem *problem);

/* ---- family.c: who is above and below ---- */

extern const bt_method_def bt_method_none;    /* type = none */
bool bt_is_constant(const bt_problem *lower); /* for all levels above: by type = none */
/* The lower problems whose adjoints an upper one needs, in the order in which they are solved. */
int bt_lowers(const bt_problem *upper, bt_problem **lowers);
bt_status bt_wires_check(const bt_context *context);           /* levels that reach nothing, or are of two precisions */
bt_status bt_wire(bt_context *context);                        /* the same, and parents, children and leaves again */
void bt_unwire(bt_context *context);                           /* there are none, nor a hierarchy */
bool bt_u2l(const bt_problem *upper, const bt_problem *lower); /* the lower loss may read the upper's parameters */

/* ---- callbacks.c: whether a callback may continue with this problem: else an error, in a trace a poison ---- */
bool bt_usable(const bt_problem *self, const char *function);

#endif

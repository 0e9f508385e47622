/* engine/level/level.h: the inside of problems and of the engine. */
#ifndef BT_ENGINE_PROBLEM_H
#define BT_ENGINE_PROBLEM_H

#include "data/data.h"
#include "engine/config/config.h"
#include "engine/session/front.h"
#include "engine/output/log.h"
#include "engine/plugin/plugin.h"
#include "nn/module.h"
#include "optim/optim.h"
#include "runtime/phase.h"
#include <betty/engine.h>
#include <betty/problem.h>

enum {
    BT_MAX_SHAPES = 2,             /* batches of a stream: the full one, and the short last one */
    BT_SNAPSHOT = BT_MAX_ITEMS + 4 /* parameters, buffers, slots, slopes, the count of updates */
};

/* ---- batches: stream.c ---- */

/* What a trace reads of one micro-batch: its fields, and its record, the counter of random ops. */
typedef struct bt_micro {
    bt_batch *batch;
    bt_var *record; /* I64 [] */
} bt_micro;

typedef struct bt_stream { /* the batches of one problem in one mode */
    bt_problem *problem;
    bt_mode mode;
    bt_loader *loader; /* NULL: get_batch */
    bt_batch *shapes[BT_MAX_SHAPES];
    int shape_count;
    int64_t drawn;         /* of get_batch */
    const bt_batch **kept; /* ring of the newest: kept[i] is micro-batch i of the step in progress */
    bt_batch **made;       /* of get_batch: owned, one for each kept */
    int64_t keep, kept_count;
    struct bt_stream *of;           /* batch_of: the stream whose batch is taken; NULL: own data */
    bt_batch *alias[BT_MAX_SHAPES]; /* batch_of: that batch, with this stream's own numbers */
    int64_t task;                   /* batch_of: the position there of the batch that this inner loop works on */
    bool ahead;                     /* what is kept was drawn for an inner loop below, and no step has taken it yet */
} bt_stream;

bt_stream *bt_stream_open(bt_problem *problem, bt_mode mode, int64_t keep); /* NULL after an error */
void bt_stream_free(bt_stream *stream);
bt_status bt_stream_draw(bt_stream *stream, int64_t count);   /* the next `count` micro-batches, into kept[] */
bt_status bt_stream_take(bt_stream *stream, int64_t count);   /* likewise; or what was drawn ahead */
bt_status bt_stream_next_task(bt_stream *stream);             /* batch_of: an inner loop begins; else nothing */
const bt_batch *bt_stream_kept(bt_stream *stream, int64_t i); /* kept[i], as it lies now */
int64_t bt_stream_position(const bt_stream *stream);          /* how many have been drawn */
bt_status bt_stream_rewind(bt_stream *stream, int64_t position,
                           int64_t kept);              /* with the newest `kept` at hand again */
int64_t bt_stream_validation(const bt_stream *stream); /* how many batches one validation takes, from the first on */
int bt_stream_shape(const bt_stream *stream, const bt_batch *batch); /* which of shapes; -1 after an error */
bt_status bt_micro_new(bt_micro *micro, const bt_stream *stream, int shape);
void bt_micro_free(bt_micro *micro);
void bt_micro_bind(bt_micro *micro, const bt_batch *batch);

/* What a program reads of a problem's newest micro-batches: full ones first; one such set for each number of short ones
 * among them, 0 .. variants - 1. */
typedef struct bt_micro_set {
    bt_micro *items; /* [variants][count] */
    int64_t count;
    int variants;
} bt_micro_set;

bt_status bt_micro_set_open(bt_micro_set *set, const bt_problem *problem, int64_t count);
void bt_micro_set_free(bt_micro_set *set);
int bt_micro_set_bind(const bt_micro_set *set, const bt_problem *problem); /* the variant; -1 after an error */

/* ---- metrics: metrics.c ---- */

typedef struct bt_metric_row {
    bt_problem *problem;
    char *name; /* "loss" */
    char *full; /* "classifier.valid.loss" */
    bool valid;
    bt_var *sum, *weight;         /* F64 []: of traced values, by count */
    double host_sum, host_square; /* of numbers given on the host */
    int64_t host_count;
    double last, interval; /* as last reported; NaN: never */
} bt_metric_row;

bt_metric_row *bt_metric_find(bt_engine *engine, bt_problem *problem, const char *name, bool valid);
/* A problem's values since the last call, of training or of validation, into `values`; returns how many. */
int bt_metrics_take(bt_engine *engine, const bt_problem *problem, bool valid, bt_metric_value *values, int room);
void bt_metrics_free(bt_engine *engine);

/* ---- what is being traced ---- */

typedef enum bt_trace_kind {
    BT_TRACE_STEP,    /* the problem's own training step: its buffers and all metrics are kept */
    BT_TRACE_PRODUCT, /* a peer differentiates it: nothing is kept */
    BT_TRACE_VALID,   /* metrics are kept */
    BT_TRACE_EVAL     /* nothing is kept */
} bt_trace_kind;

typedef struct bt_tracing { /* bt_trace.context of every trace that the engine begins */
    bt_engine *engine;
    bt_problem *problem;
    bt_trace_kind kind;
    int64_t count; /* examples of the batch: the weight of metrics */
} bt_tracing;

/* ---- phases of a problem: phases.c ---- */

typedef struct bt_vector { /* like bt_params: dense, in order of declaration */
    bt_var *flat, **windows;
    int64_t count;
} bt_vector;

typedef struct bt_solve { /* x of one lower problem, within an upper problem's phase */
    bt_problem *problem;
    bt_vector adjoint, x; /* v and H^-1 v; x is adjoint where the method leaves v as it is */
    bt_vector slots[BT_MAX_ITEMS];
    bt_var *stacks[BT_MAX_ITEMS];
    bt_var *iteration;    /* I64 []: which step of the method it is; NULL: nobody asks */
    bt_graph *starting;   /* x from v, until it is an entry; NULL: none */
    bool starts_on_batch; /* start reads micro-batches, and so exists once for each variant */
    bool reached;         /* its adjoint is not zero by construction */
    /* Entries, by variant: of its own micro-batches, times that of the upper problem's; -1: none. */
    int start[BT_MAX_ITEMS], once[BT_MAX_ITEMS], each[BT_MAX_ITEMS], product[BT_MAX_ITEMS];
    int64_t iterations;
    bt_micro_set micros;      /* what its loss is taken on */
    bt_micro_set upper;       /* what the upper loss is taken on, where the method asks for it; else count 0 */
    struct bt_unroll *unroll; /* type = itd; NULL: another */
} bt_solve;

typedef struct bt_stretch { /* a part of the block that is updated in one go: parameters of one group, or one parameter
                             */
    int group;
    bt_var *param, *grad, *slots[BT_MAX_ITEMS];
} bt_stretch;

typedef struct bt_step_phase { /* gradient, hypergradient, update */
    bt_phase *phase;
    bt_micro micros[BT_MAX_SHAPES];
    int gradient[BT_MAX_SHAPES]; /* entries by shape; -1: none */
    bool joins;                  /* the gradient and the first product are one program, and none of their own */
    int joined[BT_MAX_SHAPES][BT_MAX_ITEMS]; /* then its entries, by shape and variant */
    int average;                             /* entry; -1: one micro-batch, nothing to divide */
    int start;                               /* entry; -1: the loop begins where the last one ended */
    int update;
    int collect;           /* entry; -1: the meta-batch is one call */
    bt_block gradients;    /* laid out like the parameters */
    bt_block sums;         /* of a meta-batch; flat NULL: one call; stays when the phase is built anew */
    bt_var *total;         /* F64 []: examples of all micro-batches */
    bt_var *loop;          /* I64 []: the step at which the inner loop began, which `start` draws by; NULL: no start */
    bt_stretch *stretches; /* their variables belong to the phase */
    int64_t stretch_count;
    bool *used;       /* by parameter: a gradient or a product reaches it */
    bool reached;     /* a product reaches one */
    bt_solve *solves; /* in the order in which they run */
    int solve_count;
} bt_step_phase;

typedef struct bt_valid_phase {
    bt_phase *phase;
    bt_micro micros[BT_MAX_SHAPES];
    int entries[BT_MAX_SHAPES];
} bt_valid_phase;

typedef struct bt_eval_cache { /* bt_eval: one compiled function for each (fn, shapes) */
    bt_step_fn *fn;
    bt_batch *batch; /* template; NULL: none */
    bt_var *record;
    bt_phase *phase;
    struct bt_eval_cache *next;
} bt_eval_cache;

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

enum { BT_PURE_STEP, BT_PURE_VALID, BT_PURE_UPDATE, BT_PURE_KINDS };

typedef struct bt_trouble { /* of the method of one lower problem */
    bt_var *count;          /* I64 []: steps in which it said that it fails; NULL: it cannot say so */
    const char *means;
    bool told; /* a warning of it was given */
} bt_trouble;

struct bt_problem {
    bt_engine *engine;
    const bt_problem_def *def;
    const char *name, *source; /* source: the .c file that defines it; NULL: not a file */
    const bt_problem_settings *settings;
    void *user;
    int place;    /* in engine->problems */
    bool missing; /* stands for a problem that there is not */
    bt_dtype dtype;

    bt_module *module;
    bool configuring; /* its module or data are being made: for cycles */
    int *group;       /* by parameter: of the optimiser */
    bool *trainable, *meta_trainable;
    bool told_batch; /* bt_warn_batch has looked */
    bt_optimizer *optimizer;
    bt_block slots[BT_MAX_ITEMS];
    bt_block slope;     /* of the last update that was made, where the method asks for it; flat NULL: it does not */
    bt_var *step_count; /* F64 []: updates asked for, for bt_step; see bt_steps_show */
    bt_stream *train, *valid;
    bt_dataset *train_data, *valid_data; /* opened, not yet taken by a stream */

    bt_problem **children, **parents; /* whose solutions its loss uses; who use its */
    bool *ready;                      /* by child */
    int child_count, parent_count;

    bt_step_phase step;
    struct bt_trajectory *trajectory; /* of its steps: trajectory.h; NULL: nobody goes back through them */
    bt_trouble *troubles;             /* by place of the lower problem; NULL: none */
    bt_var **solutions;               /* likewise: x of the last step, where the method starts from it */
    bt_valid_phase validation;
    bt_eval_cache *evals;
    bt_scalar *scalars;
    int scalar_count, scalar_capacity;
    bt_graph *pure[BT_PURE_KINDS];     /* as first traced */
    uint64_t pure_hash[BT_PURE_KINDS]; /* 0: not computed since */

    int64_t steps;              /* updates, applied or skipped */
    int64_t logged;             /* of these, when its training metrics were last reported */
    int64_t seen;               /* of these, as its last step saw them */
    int64_t since;              /* the tick (trajectory.h) after its last call: what it depends on has happened since */
    int64_t calls;              /* of an upper problem, in the meta-batch in progress */
    struct bt_adapted *adapted; /* what bt_restore brings back; NULL: bt_adapt has not been called */
    bool inner_loop_start;
    bool return_due;               /* roll_back: an upper problem has stepped; never so between two leaf steps */
    bt_var *snapshot[BT_SNAPSHOT]; /* roll_back: the run variables as they were when the inner loop began */
    int snapshot_count;
    bt_memory *memory; /* of the user, by bt_state */
    int64_t memory_count, memory_capacity;
};

typedef struct bt_standing { /* where a run stands, beyond what its problems know */
    double seconds;          /* that it has taken */
    double best;             /* of early stopping; NaN: none yet */
    int64_t patience;        /* validations without improvement */
    size_t touched;          /* bytes of the arena */
} bt_standing;

struct bt_engine {
    bt_config *config;
    const bt_engine_settings *settings;
    bt_front front;
    bt_status status; /* of the first failed call, returned by the next that works */
    char *message;
    bt_plugin **plugins;
    int plugin_count, plugin_capacity;
    const bt_dataset_def **datasets; /* registered for it */
    int dataset_count, dataset_capacity;
    bt_problem **problems; /* owned */
    int problem_count, problem_capacity;
    bt_instance *instance;
    bt_metric_row **metrics;
    int metric_count, metric_capacity;
    bool loaded, ready;                 /* problems are known; everything is planned */
    bool entering, running, validating; /* setting up; in bt_engine_run; in a validation */
    const bt_problem *until;            /* bt_run_until: this level does not step; NULL: all do */
    bool *inner;                        /* then: which ones do, by place */
    bool arrived;                       /* then: it would step now */
    bool apart;                         /* a check asks for gradients and products by themselves: none are joined */
    bool stepping;                      /* in bt_leaf_step */
    bt_edges due;                       /* dependencies that hold after the step in progress */
    bool rewire_due, rewired;           /* there are such; others hold since the log last said which */
    bool busy;           /* within a step or a validation: no program may be made anew, no stream be moved */
    int64_t step;        /* leaf steps */
    bt_problem **leaves; /* active, without children, in the order of their steps */
    int leaf_count;
    bt_standing standing;
    bt_output *output;                    /* the folder that a run writes to, or is to go on in; NULL: none */
    int64_t metrics_length;               /* bytes of its metrics.jsonl that a resumed run keeps; -1: none */
    bool resuming;                        /* the output folder holds this run already */
    bt_text warnings, notes;              /* lines to say when a run starts */
    double load_seconds, compile_seconds; /* of setting up: problems and data; tracing to planning */
    size_t baseline;                      /* aligned bytes that were live before it */
};

/* ---- problem.c ---- */

bt_problem *bt_problem_new(bt_engine *engine, const bt_problem_def *def, void *user);
void bt_problem_free(bt_problem *problem);
bt_status bt_problem_configure(bt_problem *problem);                        /* module, storage, optimiser */
bt_guest bt_problem_enter(const bt_problem *problem, const char *callback); /* one of its callbacks is called next */
bt_problem *bt_problem_find(bt_engine *engine, const char *name);
/* additive.c: says which layers are not the sum of micro-batches, such as normalisation over the batch */
void bt_warn_batch(bt_problem *problem, const bt_graph *graph);
bt_status bt_problem_load_weights(bt_problem *problem);        /* weights.c: the key `weights` */
bt_status bt_problem_open_data(bt_problem *problem);           /* streams */
const char *bt_problem_list(bt_engine *engine, bt_text *text); /* "a, b" */

/* ---- trace.c: traces of a problem's callbacks ---- */

void bt_problem_begin(bt_trace *trace, bt_tracing *tracing, bt_problem *problem, bt_graph *graph, bt_trace_kind kind,
                      const bt_micro *micro);
bt_tensor *bt_problem_loss(bt_problem *problem, const bt_batch *batch, bt_mode mode); /* the traced step: a scalar */
bt_tensor *bt_problem_condition(bt_problem *problem, const bt_batch *batch);          /* a vector; where there is one */
/* What the callback returned, if it is a vector like the parameters. */
bt_tensor *bt_problem_vector(const bt_problem *problem, bt_tensor *vector, const char *callback);
bt_status bt_graph_take_error(bt_graph *graph, const bt_problem *problem, const char *callback); /* surfaces a poison */
void bt_problem_params(bt_problem *problem, bt_tensor **params); /* what the trace reads as its parameters */
/* The parameters as one vector, in order of declaration; and a vector's parts, shaped like the parameters. */
bt_tensor *bt_problem_join(bt_problem *problem, bt_tensor *const *parts);
void bt_problem_split(bt_problem *problem, bt_tensor *vector, bt_tensor **parts);
bool bt_owns_buffer(const bt_problem *problem, bt_var *var);
void bt_keep_effects(bt_graph *graph, const bt_problem *problem, bt_trace_kind kind);

/* ---- wire.c ---- */

bt_status bt_engine_check_wires(const bt_engine *engine); /* levels that reach nothing, or are of two precisions */
bt_status bt_engine_wire(bt_engine *engine);              /* that, and parents and children */
/* The lower problems whose adjoints an upper one needs, in the order in which they are solved. */
int bt_lowers(const bt_problem *upper, bt_problem **lowers);
bool bt_u2l(const bt_problem *upper, const bt_problem *lower); /* the lower loss may read the upper's parameters */
void bt_print_equation(bt_engine *engine, bt_text *text);

/* ---- rewire.c: other dependencies, while a run goes on ---- */

bt_status bt_rewire(bt_engine *engine, const char *u2l, const char *l2u, const char *origin); /* between two steps */
bt_status bt_rewire_due(bt_engine *engine); /* likewise: what bt_set_dependency was told within one */

/* ---- hypergradient/ ---- */

const bt_method_def *bt_method_builtin(int index); /* NULL after the last */

/* A problem's loss on some micro-batches: their mean by count. */
typedef struct bt_loss {
    bt_problem *problem;
    const bt_micro *micros;
    int64_t count;
} bt_loss;

double bt_loss_share(const bt_loss *loss, int64_t micro); /* product.c: the weight of that one in the mean */

/* product.c; both append to the trace in progress. */
typedef struct bt_product_request {
    bt_loss lower;
    bt_tensor *x;        /* a vector like the lower problem's parameters */
    bool wants_self;     /* g_w^T x */
    bt_problem **others; /* whose g_lambda^T x are wanted */
    int other_count;
    bool of_steps;      /* of the gradient that steps follow, where the lower problem has another condition, too */
    double penalty;     /* of a value function; 0: the second-order product */
    bt_loss upper;      /* with a penalty: the loss whose gradient moves along */
    bt_tensor *self;    /* result: a vector */
    bt_tensor ***other; /* results: [other][parameter]; NULL where zero */
} bt_product_request;
void bt_product_trace(bt_product_request *request);
/* The gradient of a loss (the lower one, or an upper one's) with respect to the lower parameters, where these are moved
 * by `shift`, a vector (NULL: not at all). Of parameters that are not meta-trainable it is 0. */
bt_tensor *bt_gradient_trace(bt_problem *lower, const bt_loss *loss, bt_tensor *shift);
/* A loss on one micro-batch in the trace in progress, with the random numbers of that problem's step. */
bt_tensor *bt_product_loss(bt_problem *problem, const bt_micro *micro);
int bt_product_of(const bt_problem *lower, const bt_graph *graph); /* the bt_product taken; graph: of the lower loss */

bt_status bt_solve_open(bt_problem *upper, bt_solve *solve); /* solve.c: what it reads, and whether x is v */
bt_graph *bt_solve_product(bt_problem *upper, bt_solve *solve, int variant); /* traced; NULL after an error */
bt_status bt_solve_build(bt_problem *upper, bt_solve *solve);                /* the entries */
int bt_solve_bind(const bt_solve *solve,
                  const bt_problem *upper); /* the last micro-batches; the variant, -1 after an error */
bt_status bt_solve_iterate(bt_problem *upper, bt_solve *solve, int variant); /* x from the adjoint */
bt_status bt_solve_run(bt_problem *upper, bt_solve *solve);                  /* and the product with it */
/* joined.c: gradients by shape, and the first product, as one, if that pays. */
bt_status bt_joined_build(bt_problem *upper, bt_graph *const *gradients);
void bt_solve_free(bt_solve *solve);
/* The upper problem itself, and the lower problems not solved yet, whose parameters this one's loss may read; vectors:
 * their adjoints, of the upper problem its gradient. Room for all problems. Returns how many. */
int bt_solve_targets(bt_problem *upper, const bt_solve *solve, bt_problem **others, bt_vector *vectors);
void bt_solve_mark(bt_problem *upper, const bt_problem *other, int64_t parameter); /* something reaches that one */
bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear); /* flat NULL: failed */

/* ---- inner_loop.c: how an inner loop begins ---- */

bt_tensor *bt_start_trace(bt_problem *problem);     /* what `start` gives, like bt_params; traced */
bt_status bt_start_build(bt_problem *problem);      /* its entry in the step's phase, where there is a start */
bt_status bt_start_run(bt_problem *problem);        /* the parameters of `start`, the optimiser as at first */
bt_status bt_inner_loop_begin(bt_problem *problem); /* before its first step; where none begins, nothing */
bt_status bt_snapshot_open(bt_problem *problem);    /* storage for what roll_back returns to, where it is asked for */
bt_status bt_roll_back_all(bt_engine *engine);      /* roll_back: where an upper problem has stepped */
int bt_run_variables(bt_problem *problem, bt_var **vars); /* what its steps change; room for BT_SNAPSHOT */

/* ---- phases.c, update.c ---- */

bt_status bt_step_build(bt_problem *problem);
void bt_step_free(bt_problem *problem);
/* A small program in the step's phase: fn records the assigns. The entry; -1 after an error. */
int bt_step_add(bt_problem *problem, const char *part, void (*fn)(bt_problem *problem, bt_graph *graph));
bt_graph *bt_problem_retrace(bt_problem *problem, int kind);      /* of a BT_PURE_ kind; NULL after an error */
bool bt_is_updated(const bt_problem *problem, int64_t parameter); /* else its gradient's window holds anything */
bt_status bt_update_trace(bt_problem *problem, bt_graph *graph);

/* One whole update as a function of what it starts from, by parameter, in the trace in progress: gradient callback,
 * clipping, schedule, optimiser, parameter callback. Nothing is assigned. */
typedef struct bt_transition {
    bt_tensor **param, **grad, **slot[BT_MAX_ITEMS];   /* grad: to be filled in between; NULL: zero */
    bt_tensor *made;                                   /* BT_BOOL []: whether it is; NULL: if the gradient is finite */
    bt_tensor **next_param, **next_slot[BT_MAX_ITEMS]; /* results */
    bt_tensor *next_applied;
} bt_transition;
bool bt_transition_begin(bt_problem *problem, bt_transition *t); /* parameters and slots as they are; false: failed */
void bt_transition_trace(bt_problem *problem, bt_transition *t);

bt_status bt_validation_build(bt_problem *problem);
void bt_validation_free(bt_problem *problem);
bt_status bt_problem_compile(bt_problem *problem); /* all its phases; those below it must have theirs */
void bt_problem_uncompile(bt_problem *problem);

/* ---- run.c ---- */

bt_status bt_part_run(bt_phase *phase, int entry); /* bt_phase_run; an error says where */
bt_status bt_step_gradient(bt_problem *problem);   /* draws and leaves the hypergradient in step.gradients */
bt_status bt_step_direct(bt_problem *problem);     /* draws; the direct gradient and the adjoints; not where it joins */
bt_status bt_step_again(bt_problem *problem, bool whole); /* on the last step's batches; whole: the hypergradient */
bt_status bt_step_alone(bt_problem *problem);             /* one update, counted; no parent is called */
bt_status
bt_step_leaves(bt_engine *engine);        /* one step of each leaf; then other dependencies, if they were asked for */
bt_status bt_leaf_step(bt_problem *leaf); /* one step, and those of the parents that become ready */
/* All steps of the levels below, in the order of a run, that come before a step of `upper`; warm-ups are left out. */
bt_status bt_run_until(bt_problem *upper);
/* bt_step is, to a program of one's own, the updates so far (now); to one that repeats or differentiates a step made
 * before, what that step saw. */
void bt_steps_show(bt_engine *engine, bool now);
bt_status bt_engine_compile(bt_engine *engine);   /* the phases of every level, lower ones first */
bt_status bt_engine_recompile(bt_engine *engine); /* anew */
bt_status bt_update_scalars(bt_engine *engine);   /* host scalars; static ints, which may rebuild everything */
bt_status bt_validate(bt_engine *engine, bool *any);
bt_status bt_ask_between(bt_problem *self, const char *function); /* evaluate.c: it can be asked now, or an error */
bt_status bt_check_restored(const bt_engine *engine);             /* adapt.c: every bt_adapt has had its bt_restore */
void bt_adapted_free(struct bt_adapted *adapted);

/* ---- purity.c, report.c, check.c, engine.c ---- */

bt_status bt_check_purity(bt_problem *problem);
size_t bt_engine_persistent(const bt_engine *engine, size_t by_category[BT_CATEGORIES], const bt_problem *problem);
bt_status bt_engine_enter(bt_engine *engine); /* loaded and planned, or the first error */
void bt_engine_warn(bt_engine *engine, const char *format, ...) BT_FORMAT(2, 3);
bt_status bt_engine_keep_error(bt_engine *engine, bt_status status);

#endif

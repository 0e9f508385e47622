/* engine/traced/traced.h: a problem's callbacks as graphs: its loss, condition, update and start, and their
 * derivatives. */
#ifndef BT_TRACED_H
#define BT_TRACED_H

#include "engine/level/level.h"

/* ---- loss.c: traces of a problem's callbacks ---- */

typedef enum bt_trace_kind {
    BT_TRACE_STEP,    /* the problem's own training step: its buffers and all metrics are kept */
    BT_TRACE_PRODUCT, /* a peer differentiates it: nothing is kept */
    BT_TRACE_VALID,   /* metrics are kept */
    BT_TRACE_EVAL     /* nothing is kept */
} bt_trace_kind;

typedef struct bt_tracing { /* bt_trace.context of every trace that the engine begins */
    bt_context *context;
    bt_problem *problem;
    bt_trace_kind kind;
    int64_t count;      /* examples of the batch */
    bool of_loss, logs; /* a loss is traced, which may say what it is a mean of; a metric has had a value */
    bt_tensor *weight;  /* by bt_loss_count: what it says the batch counts; NULL: its examples */
} bt_tracing;

void bt_problem_begin(bt_trace *trace, bt_tracing *tracing, bt_problem *problem, bt_graph *graph, bt_trace_kind kind,
                      const bt_micro *micro);
bt_tensor *bt_problem_loss(bt_problem *problem, const bt_batch *batch, bt_mode mode); /* the traced step: a scalar */
bt_tensor *bt_problem_condition(bt_problem *problem, const bt_batch *batch);          /* a vector; where there is one */
bt_status bt_graph_take_error(bt_graph *graph, const bt_problem *problem, const char *callback); /* surfaces a poison */
void bt_keep_effects(bt_graph *graph, const bt_problem *problem, bt_trace_kind kind);
/* A graph of the step's or the validation's loss on that micro-batch, with its metrics; NULL after an error. Between
 * the loss and the end of the trace, `then` (NULL: nothing) may record more. */
typedef void bt_loss_fn(bt_problem *problem, bt_graph *graph, bt_tensor *loss);
bt_graph *bt_loss_trace(bt_problem *problem, const bt_micro *micro, bt_trace_kind kind, bt_loss_fn *then);

/* ---- callback.c: the callbacks of a problem, each called once for each shape of batch ---- */

/* What a callback, of a BT_PURE_ kind, has recorded. The problem keeps it as long as its programs do not change. */
typedef struct bt_traced {
    bt_graph *graph;  /* with the effects that may be kept (bt_keep_effects), and without derivatives of the value */
    bt_tensor *value; /* what the callback has returned; of an update NULL */
    bt_tensor *count; /* of a loss: by bt_loss_count; NULL: it has not been called */
    bt_micro micro;   /* what it was called with; batch NULL: with none */
    uint64_t hash;    /* of the graph; 0: not computed yet */
} bt_traced;
/* Of batches like that of micro (NULL: of a callback that takes none): calls the callback, the first time. NULL after
 * an error. */
bt_traced *bt_traced_of(bt_problem *problem, int kind, const bt_micro *micro);
const bt_graph *bt_traced_graph(const bt_problem *problem, int kind);     /* of full batches; NULL: not called yet */
bt_status bt_traced_keep(bt_problem *problem, int kind, bt_graph *graph); /* an update's, which is taken over */
bt_graph *bt_traced_again(bt_problem *problem, int kind); /* the callback is called once more; NULL after an error */
void bt_traced_free(bt_problem *problem);

typedef struct bt_recording { /* how it takes part in another trace */
    bool assigns, wide;       /* what it assigns is assigned; everything is in f32, whatever the levels' precision */
    bt_tensor *const *detached;
    bt_tensor ***map; /* transform/splice.h; NULL: not wanted */
} bt_recording;
/* Records it on that micro-batch in the trace in progress, with the random numbers and the names that it has anywhere;
 * how: NULL for its value alone. The value, or poison. */
bt_tensor *bt_traced_here(bt_problem *problem, int kind, const bt_micro *micro, const bt_recording *how);

/* ---- vector.c: a problem's parameters as tensors ---- */

void bt_problem_params(bt_problem *problem, bt_tensor **params); /* what the trace reads as its parameters */
/* The parameters as one vector, in order of declaration; and a vector's parts, shaped like the parameters. */
bt_tensor *bt_problem_join(bt_problem *problem, bt_tensor *const *parts);
void bt_problem_split(bt_problem *problem, bt_tensor *vector, bt_tensor **parts);
/* What the callback returned, if it is a vector like the parameters. */
bt_tensor *bt_problem_vector(const bt_problem *problem, bt_tensor *vector, const char *callback);

bt_tensor *bt_problem_start(bt_problem *problem); /* start.c: what `start` gives, like bt_params: called */
bt_tensor *bt_start_trace(bt_problem *problem);   /* likewise, in the trace in progress */

/* ---- product.c; all append to the trace in progress ---- */

typedef struct bt_loss { /* a problem's loss on a micro-batch; micro NULL: it is left out */
    bt_problem *problem;
    const bt_micro *micro;
} bt_loss;

typedef struct bt_product_request {
    bt_loss lower;
    bt_tensor *x;              /* a vector like the lower problem's parameters */
    bool wants_self, repeated; /* g_w^T x; by a method that takes many, each of what the one before gave */
    bt_problem **others;       /* whose g_lambda^T x are wanted */
    int other_count;
    bool of_steps;      /* of the gradient that steps follow, even if the lower problem has another condition */
    double penalty;     /* of a value function; 0: the second-order product */
    bt_loss upper;      /* with a penalty: the loss whose gradient moves along */
    bt_tensor *self;    /* result: a vector */
    bt_tensor ***other; /* results: [other][parameter]; NULL where zero */
} bt_product_request;
void bt_product_trace(bt_product_request *request);
/* The gradient of a loss (the lower one, or an upper one's) with respect to the lower parameters, where these are moved
 * by `shift`, a vector (NULL: not at all). Of parameters that are not meta-trainable it is 0. */
bt_tensor *bt_gradient_trace(bt_problem *lower, const bt_loss *loss, bt_tensor *shift);
int bt_product_of(const bt_problem *lower, const bt_graph *graph); /* the bt_product taken; graph: of the lower loss */

/* ---- transition.c: one whole update as a function of what it starts from ---- */

/* By parameter, in the trace in progress: gradient callback, clipping, schedule, optimiser, parameter callback. Nothing
 * is assigned. */
typedef struct bt_transition {
    bt_tensor **param, **grad, **slot[BT_MAX_ITEMS];   /* grad: to be filled in between; NULL: zero */
    bt_tensor *made;                                   /* BT_BOOL []: whether it is; NULL: if the gradient is finite */
    bt_tensor **next_param, **next_slot[BT_MAX_ITEMS]; /* results */
    bt_tensor *next_applied;
} bt_transition;
bool bt_transition_begin(bt_problem *problem, bt_transition *t); /* parameters and slots as they are; false: failed */
void bt_transition_trace(bt_problem *problem, bt_transition *t);
/* The problem's schedule as bt_update wants it; context: the problem. */
void bt_schedule_trace(void *context, bt_rule *rule);
/* A whole-vector callback, applied to parts. */
void bt_vector_callback(bt_problem *problem, bt_vector_fn *callback, const char *name, bt_tensor **parts);

/* ---- prediction.c: context->capture, while an evaluation asks what a validation says of each example ---- */

enum { BT_CAPTURE_ITEMS = 64 };

typedef struct bt_captured { /* a bt_prediction, or a metric with one value for each example */
    char name[128];
    bt_tensor *value; /* [n, ...]; of the trace in progress */
    int64_t width;    /* numbers of an example */
    bool integer, metric;
} bt_captured;

typedef struct bt_capture {
    bt_captured items[BT_CAPTURE_ITEMS];
    int count;
} bt_capture;

bool bt_capture_metric(const bt_problem *owner, const char *name, bt_tensor *value); /* false: nobody asks */
/* For bt_eval: fills the capture, and returns the validation's loss; or F64 [n, sum of the widths]. */
bt_tensor *bt_capture_probe(bt_problem *problem, const bt_batch *batch);
bt_tensor *bt_capture_table(bt_problem *problem, const bt_batch *batch);

/* ---- purity.c ---- */

const char *bt_pure_name(const bt_problem *problem, int kind); /* of a BT_PURE_ kind, for messages */
/* Fails if a callback, traced again after so many times ("step"), has recorded another graph, which is freed (NULL: the
 * trace has failed). */
bt_status bt_check_same(const bt_problem *problem, const char *callback, const bt_graph *first, bt_graph *again,
                        const char *times, int64_t time);

/* dependence.c: an update that uses a parameter of `others` directly is an error: an implicit method cannot see it. */
bt_status bt_check_dependence(bt_problem *lower, bt_problem *const *others, int count);

#endif

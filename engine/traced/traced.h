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
    bool of_loss, logs; /* a loss is traced, which may declare its count; a metric has been logged */
    bt_tensor *weight;  /* by bt_loss_count: the declared count of the batch; NULL: its examples */
} bt_tracing;

void bt_problem_begin(bt_trace *trace, bt_tracing *tracing, bt_problem *problem, bt_graph *graph, bt_trace_kind kind,
                      const bt_micro *micro);
bt_tensor *bt_problem_loss(bt_problem *problem, const bt_batch *batch, bt_mode mode); /* the traced step: a scalar */
bt_tensor *bt_problem_condition(bt_problem *problem, const bt_batch *batch);          /* a vector; if there is one */
bt_status bt_graph_take_error(bt_graph *graph, const bt_problem *problem, const char *callback); /* reports a poison */
void bt_keep_effects(bt_graph *graph, const bt_problem *problem, bt_trace_kind kind);
/* A graph of the step's or the validation's loss on that micro-batch, with its metrics; NULL after an error. After the
 * loss, `then` (NULL: nothing) may record more. */
typedef void bt_loss_fn(bt_problem *problem, bt_graph *graph, bt_tensor *loss);
bt_graph *bt_loss_trace(bt_problem *problem, const bt_micro *micro, bt_trace_kind kind, bt_loss_fn *then);

/* ---- callback.c: the callbacks of a problem, each called once for each shape of batch ---- */

/* What a callback of a BT_PURE_ kind has recorded. The problem keeps it until its programs change. */
typedef struct bt_traced {
    bt_graph *graph;  /* with the effects that may be kept (bt_keep_effects), but without derivatives of the value */
    bt_tensor *value; /* what the callback returned; of an update NULL */
    bt_tensor *count; /* of a loss: given to bt_loss_count; NULL: not called */
    bt_micro micro;   /* what it was called with; batch NULL: nothing */
    uint64_t hash;    /* of the graph; 0: not computed yet */
} bt_traced;
/* For batches of micro's shape (NULL: for a callback that takes none): calls the callback the first time. NULL after an
 * error. */
bt_traced *bt_traced_of(bt_problem *problem, int kind, const bt_micro *micro);
const bt_graph *bt_traced_graph(const bt_problem *problem, int kind);     /* for full batches; NULL: not called yet */
bt_status bt_traced_keep(bt_problem *problem, int kind, bt_graph *graph); /* an update's; takes over the graph */
bt_graph *bt_traced_again(bt_problem *problem, int kind); /* calls the callback once more; NULL after an error */
void bt_traced_free(bt_problem *problem);

typedef struct bt_recording { /* how it takes part in another trace */
    bool assigns, wide;       /* with its assigns; everything in f32, whatever the levels' precision */
    bt_tensor *const *detached;
    bt_tensor ***map; /* transform/splice.h; NULL: not wanted */
} bt_recording;
/* Records it on that micro-batch in the trace in progress, with the same random numbers and names as anywhere else;
 * how: NULL for only its value. Returns the value, or poison. */
bt_tensor *bt_traced_here(bt_problem *problem, int kind, const bt_micro *micro, const bt_recording *how);

/* ---- vector.c: a problem's parameters as tensors ---- */

void bt_problem_params(bt_problem *problem, bt_tensor **params); /* its parameters as the trace reads them */
/* The parameters as one vector, in order of declaration; and a vector's parts, shaped like the parameters. */
bt_tensor *bt_problem_join(bt_problem *problem, bt_tensor *const *parts);
void bt_problem_split(bt_problem *problem, bt_tensor *vector, bt_tensor **parts);
/* The vector that the callback returned, after checking that it is laid out like the parameters. */
bt_tensor *bt_problem_vector(const bt_problem *problem, bt_tensor *vector, const char *callback);

bt_tensor *bt_problem_start(bt_problem *problem); /* start.c: the value of `start`, like bt_params: calls it */
bt_tensor *bt_start_trace(bt_problem *problem);   /* likewise, in the trace in progress */

/* ---- product.c; all append to the trace in progress ---- */

typedef struct bt_loss { /* a problem's loss on a micro-batch; micro NULL: left out */
    bt_problem *problem;
    const bt_micro *micro;
} bt_loss;

typedef struct bt_product_request {
    bt_loss lower;
    bt_tensor *x;              /* a vector like the lower problem's parameters */
    bool wants_self, repeated; /* g_w^T x; by a method that repeats it, each time on the last result */
    bt_problem **others;       /* the problems whose g_lambda^T x are wanted */
    int other_count;
    bool of_steps;      /* of the gradient that steps follow, even if the lower problem has its own condition */
    double penalty;     /* of a value function; 0: the second-order product */
    bt_loss upper;      /* with a penalty: the upper loss */
    bt_tensor *self;    /* result: a vector */
    bt_tensor ***other; /* results: [other][parameter]; NULL where zero */
} bt_product_request;
void bt_product_trace(bt_product_request *request);
/* The gradient of a loss (the lower or an upper one) with respect to the lower parameters, at these plus `shift`, a
 * vector (NULL: 0). It is 0 for parameters that are not meta-trainable. */
bt_tensor *bt_gradient_trace(bt_problem *lower, const bt_loss *loss, bt_tensor *shift);
int bt_product_of(const bt_problem *lower, const bt_graph *graph); /* the bt_product to use; graph: of the lower loss */

/* ---- transition.c: one whole update as a function of the state before it ---- */

/* By parameter, in the trace in progress: gradient callback, clipping, schedule, optimiser, parameter callback. Assigns
 * nothing. */
typedef struct bt_transition {
    bt_tensor **param, **grad, **slot[BT_MAX_ITEMS]; /* grad: fill it in between the two calls; NULL: zero */
    bt_tensor *made; /* BT_BOOL []: whether to update; NULL: if the gradient is finite */
    bt_tensor **next_param, **next_slot[BT_MAX_ITEMS]; /* results */
    bt_tensor *next_applied;
} bt_transition;
bool bt_transition_begin(bt_problem *problem, bt_transition *t); /* reads parameters and slots; false: failed */
void bt_transition_trace(bt_problem *problem, bt_transition *t);
/* The problem's schedule as bt_update wants it; context: the problem. */
void bt_schedule_trace(void *context, bt_rule *rule);
/* A whole-vector callback, applied to parts. */
void bt_vector_callback(bt_problem *problem, bt_vector_fn *callback, const char *name, bt_tensor **parts);

/* ---- prediction.c: context->capture, while an evaluation asks for a validation's result for each example ---- */

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

bool bt_capture_metric(const bt_problem *owner, const char *name, bt_tensor *value); /* false: nobody asks for it */
/* For bt_eval: fills the capture, and returns the validation's loss; or F64 [n, sum of the widths]. */
bt_tensor *bt_capture_probe(bt_problem *problem, const bt_batch *batch);
bt_tensor *bt_capture_table(bt_problem *problem, const bt_batch *batch);

/* ---- purity.c ---- */

const char *bt_pure_name(const bt_problem *problem, int kind); /* of a BT_PURE_ kind; for messages */
/* Fails if a callback, traced again at step `time` (times: "step"), has recorded a different graph. Frees `again`
 * (NULL: the trace failed). */
bt_status bt_check_same(const bt_problem *problem, const char *callback, const bt_graph *first, bt_graph *again,
                        const char *times, int64_t time);

/* dependence.c: an update that uses a parameter of `others` directly is an error: an implicit method cannot see it. */
bt_status bt_check_dependence(bt_problem *lower, bt_problem *const *others, int count);

#endif

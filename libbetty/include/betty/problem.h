/* betty/problem.h: problems, and the exports of a .c file */
#ifndef BETTY_PROBLEM_H
#define BETTY_PROBLEM_H

#include <betty/base.h>
#include <betty/data.h>
#include <betty/nn.h>
#include <betty/optim.h>
#include <betty/tensor.h>
#include <betty/text.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef bt_tensor *bt_step_fn(bt_problem *self, const bt_batch *batch);
typedef bt_tensor *bt_vector_fn(bt_problem *self, bt_tensor *vector); /* takes and returns a vector like bt_params */

/* How a language model continues a text. */
typedef struct bt_sampling {
    const char *text;
    int64_t tokens;     /* how many to draw */
    double temperature; /* tokens are drawn from softmax(logits / temperature); 0: always take the most likely */
    int64_t top;        /* draw among this many of the most likely tokens; 0: among all */
    FILE *file;         /* the output */
} bt_sampling;

/* A problem is a constant record of callbacks. It must have name, configure_module and training_step. Its data come
 * from one of configure_train_data, get_batch and batch_of. With none of them, a batch has no fields and counts as one
 * example. */
typedef struct bt_problem_def {
    const char *name;     /* its section in the INI file */
    const char *batch_of; /* an upper problem: every step of an inner loop uses the batch that it drew for the loop */

    /* host, during set-up; each is called when it is first needed */
    bt_dataset *(*configure_train_data)(bt_problem *self);
    bt_dataset *(*configure_valid_data)(bt_problem *self);
    bt_module *(*configure_module)(bt_problem *self);

    /* traced */
    bt_tensor *(*forward)(bt_problem *self, bt_tensor *const *in); /* bt_forward(problem, ...); NULL: the module's */
    bt_step_fn *training_step;                                     /* returns the loss, a scalar */
    /* Returns a vector like bt_params that is 0 where the problem is solved; NULL: the gradient of the loss. Only
     * hypergradients use it; the steps still follow the loss. It need not be the gradient of any function. If
     * param_callback changes the parameters after each step, use bt_projected_condition. */
    bt_step_fn *condition;
    bt_step_fn *validation_step;           /* the same, over the validation data */
    bt_tensor *(*start)(bt_problem *self); /* the parameters at the start of each inner loop, like bt_params. It may
                                              draw them (bt_normal_like). The optimiser's state is reset as well */
    void (*schedule)(bt_problem *self, bt_rule *optimizer); /* bt_hyper_set values that change or are learned */
    bt_vector_fn *grad_callback;                            /* returns the gradient to use; clipping comes after it */
    bt_vector_fn *param_callback;                           /* returns the parameters to keep after each update */

    /* host, while training */
    /* Makes batches, in place of data sets. It must be a pure function of (mode, index), because itd, bt_hypergradient
     * and a resumed run ask for earlier batches again, in any order. Take random numbers from
     * bt_host_uniform(bt_seed(self), index, ...). Batches 1, 2, 9, 99, ... are made twice; if the two differ, the run
     * ends. The supply of batches is endless: the key valid_batches says how many a validation uses (default 1). */
    bt_status (*get_batch)(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch);
    void (*on_inner_loop_start)(bt_problem *self); /* before the first step of each inner loop, also in bt_adapt */
    void (*epoch_callback)(bt_problem *self);      /* after the update that ends a pass over the training data */
    void (*validation_end)(bt_problem *self);      /* after all problems have been validated; for your own evaluation */

    /* host, for `betty-run --evaluate DIR --sample TEXT`: writes how->text and its continuation; see bt_sample_text */
    bt_status (*sample)(bt_problem *self, const bt_sampling *how);
} bt_problem_def;

/* These may be called in every callback. */
bt_problem *bt_peer(bt_problem *self, const char *name); /* the problem with this name; poisoned if there is none */
void *bt_user(bt_problem *self);                         /* the pointer given to bt_engine_use */
uint64_t bt_seed(bt_problem *self);                      /* the engine's seed */
int64_t bt_data_dim(bt_problem *self, const char *field, int axis); /* of its training data; axis 0: examples */
bool bt_data_has(bt_problem *self, const char *field); /* whether its data have the field; false after a failure */
int64_t bt_data_classes(bt_problem *self); /* how many classes they have: bt_dataset_classes; 1 after a failure */

/* The problem's own INI keys, each with its default and range (both ends included). A key in the file that no callback
 * asks for is an error. So ask for each key during set-up (configure_... or a traced callback); after that you may ask
 * anywhere. A text with default NULL is NULL if the key is not set. A text is never empty. */
bool bt_option_bool(bt_problem *self, const char *key, bool value);
int64_t bt_option_int(bt_problem *self, const char *key, int64_t value, int64_t low, int64_t high);
double bt_option_double(bt_problem *self, const char *key, double value, double low, double high);
const char *bt_option_text(bt_problem *self, const char *key, const char *value);

/* bt_metric(self, name, value[, use]) logs PROBLEM.name, or PROBLEM.valid.name in validation. In a traced callback,
 * value is a tensor, and its mean is logged; on the host it is a number. If one validation logs several numbers under
 * a name, their mean is logged, and their 95 % interval as PROBLEM.valid.name.interval.
 *
 * A name that is already in use is refused: `loss`, which is the value that training_step and validation_step return; a
 * name used before in the same trace; a name used both in traced callbacks and on the host; and a name under which a
 * checkpoint stores something else. BT_METRIC_MEAN allows several uses of a name in one trace and logs their mean.
 * BT_METRIC_PERPLEXITY logs the exponential of the mean: for the negative log-likelihood per token, the perplexity. */
typedef enum bt_metric_use { BT_METRIC_ONCE, BT_METRIC_MEAN, BT_METRIC_PERPLEXITY } bt_metric_use;
#define bt_metric(...) BT_METRIC_(__VA_ARGS__, BT_METRIC_ONCE, 0)
/* clang-format off */
#define BT_METRIC_(self, name, value, use, ...)                                                                        \
    _Generic((value), bt_tensor *: bt_metric_use_tensor_, default: bt_metric_use_number_)(                             \
        (self), (name), (value), (use))
/* clang-format on */

/* bt_loss_count(self, n). Traced, in training_step and validation_step, before any bt_metric. n is a scalar, a tensor
 * or a number. It says how many items the loss of this batch is a mean over, for example the tokens that are not
 * padding. Without this call, n is the number of examples.
 *
 * The micro-batches of gradient_accumulation are then combined as sum(n x) / sum(n). This holds for the gradient, the
 * products of every method, the losses and the metrics. Validation combines its batches in the same way. A micro-batch
 * with n = 0 is left out. If every n is 0, or one n is negative or not finite, the gradient is not finite; the update
 * is then skipped and reported like any other non-finite update. n is not differentiated and may not depend on
 * parameters. Anywhere else the call does nothing. */
#define bt_loss_count(self, n) bt_loss_count_((self), BT_OPERAND_(n))

/* Traced, in validation_step: a prediction for each example, [n, ...]. `betty-run --evaluate` writes predictions as
 * columns of a CSV file (NAME, or NAME.0, NAME.1, ...), beside the metrics that have one value per example. Anywhere
 * else the call does nothing and costs nothing. */
void bt_prediction(bt_problem *self, const char *name, bt_tensor *value);

/* Traced, in training_step and validation_step, if engine.log_histograms is true: a histogram for TensorBoard of the
 * values of a tensor of any shape, over all batches since the last line of metrics. It is named PROBLEM/name, or
 * PROBLEM/valid/name in validation. Values that are not finite are not counted. If engine.log_histograms is false, and
 * anywhere else, the call does nothing and costs nothing. A name that bt_metric uses is refused. */
void bt_histogram(bt_problem *self, const char *name, bt_tensor *value);

/* Traced: values that may change from one run of the program to the next. Everything else is a constant. A step or a
 * condition is called once for each shape of its batches, however many programs use its loss. A changed constant is
 * detected and reported: all traced code (the callbacks above, an optimiser's update, a method, the function of
 * bt_eval) is traced again at steps (or calls) 2, 3, 10, 100, ... and must record the same operations. */
bt_tensor *bt_step(bt_problem *self); /* number of updates so far */
/* Number of updates so far in the current inner loop: 0 in its first step, also in bt_adapt. Use it for values that
 * depend on the step within the loop, such as one learned rate per step:
 * bt_sum(bt_mul(bt_equal(places, bt_inner_step(self)), rates)), where places is 0, 1, ... If no problem waits for this
 * one's solution (l2u), the whole run is one loop. */
bt_tensor *bt_inner_step(bt_problem *self);
bt_tensor *bt_host_scalar(bt_problem *self, const char *name, double (*fn)(bt_problem *self)); /* fn before each run */
int64_t bt_static_int(bt_problem *self, const char *name, int64_t (*fn)(bt_problem *self)); /* a new value retraces */

/* Traced, for `condition`: w - project(w - size * gradient), like bt_params, for the gradient of loss(self, batch). It
 * is 0 where a gradient step of that size (above 0), followed by `project`, leaves the parameters w unchanged.
 * `project` does what param_callback does to the parameters: a projection, which ignores the size, or
 * bt_soft_threshold by size times a strength. If it is elementwise, or projects onto a polyhedron, every method may be
 * used, including cg. Parameters that are not trained count as solved. A mistake poisons the result. */
bt_tensor *bt_projected_condition(bt_problem *self, const bt_batch *batch, bt_step_fn *loss, double size,
                                  bt_vector_fn *project);

/* Host only: these poison the trace if a traced callback calls them. */
int64_t bt_host_step(bt_problem *self);
int64_t bt_host_epoch(bt_problem *self);

/* Registers your own memory as part of the state of a run. Checkpoints store it, and it is filled before a resumed run
 * continues. Call this during set-up (configure_...). The memory must outlive the engine. Anything else that callbacks
 * keep from one call to the next is lost when a run is resumed. */
bt_status bt_state(bt_problem *self, const char *name, void *memory, size_t size);

/* Host: replaces the dependencies from the next step on. Each argument is written like a line of [dependencies]
 * ("upper > lower, ..."); NULL leaves that line unchanged. Use it to change the hierarchy on a schedule: call it in
 * epoch_callback or validation_end, or between two runs. Parameters, optimisers, data and counters are kept. A
 * checkpoint stores the dependencies too. If a dependency is removed, its method's state, such as the solution that
 * warm_start begins with, is removed with it. Impossible dependencies are refused with a message (BT_ERROR_CONFIG), and
 * the old ones stay in force. The error ends the run unless you call bt_error_clear. */
bt_status bt_set_dependency(bt_problem *self, const char *u2l, const char *l2u);

/* Host: evaluation, which does not change the run. bt_eval runs a traced function in mode BT_VALID; batch may be NULL.
 * The other functions draw batches, so get_batch may not call them. bt_valid_batch allocates memory for one batch on
 * its first call and keeps it. */
bt_status bt_eval(bt_problem *self, bt_step_fn *fn, const bt_batch *batch, bt_array result);
/* The hypergradient that a step of the problem would use now, like bt_params. The call is refused if a lower problem
 * has not made the steps that its method needs: for itd, one since this problem's last step; for sama, at least one. */
bt_status bt_hypergradient(bt_problem *self, bt_array result);
const bt_batch *bt_valid_batch(bt_problem *self, int64_t index); /* NULL after the last batch */
/* Like bt_loader_new, but floating-point fields have the precision of the problem: for your own data in bt_eval and
 * bt_adapt. The loader takes over the data set, and the caller frees the loader. */
bt_loader *bt_loader_for(bt_problem *self, bt_dataset *data, int64_t batch_size, uint64_t seed);

/* Host: writes how->text as the tokeniser decodes it, then how->tokens tokens, drawn one after the other, and a
 * newline. `next` is traced. Its batch has token [1, window] and last [1], both I32. It returns the logits
 * [bt_tokenizer_size] of the token that follows position `last`. All positions after `last` hold token 0. The draws
 * depend only on the engine's seed. BT_ERROR_CONFIG: the text has no token. BT_ERROR_NUMERIC: a logit is not finite. */
bt_status bt_sample_text(bt_problem *self, const bt_tokenizer *tokenizer, bt_step_fn *next, int64_t window,
                         const bt_sampling *how);

/* Host: few-shot evaluation. bt_adapt runs an inner loop on one batch of the shape that the problem trains on. It calls
 * on_inner_loop_start, then `start` if there is one, then makes `steps` training steps. bt_restore brings back the
 * state from before, and must be called before the next step of any problem. You may call bt_adapt several times
 * before bt_restore: each call continues from the one before, and `start` draws different numbers in each. Training
 * metrics and the upper levels are not affected. Changes that callbacks make to bt_state memory last only until
 * bt_adapt returns. */
bt_status bt_adapt(bt_problem *self, const bt_batch *batch, int64_t steps);
bt_status bt_restore(bt_problem *self);

/* BT_EXPORT(.problems = {&upper, &lower}); at the end of a file exports its parts, both for `problems = file.c` and
 * for bt_engine_use. A list has at most BT_MAX_ITEMS entries and then NULL. A longer list is refused. */
#define BT_ABI 5 /* raised when a change breaks compiled files; a file built for another number is refused */
typedef struct bt_export {
    int abi;
    const bt_problem_def *problems[BT_MAX_ITEMS + 1];
    const bt_optimizer_def *optimizers[BT_MAX_ITEMS + 1];
    const bt_method_def *methods[BT_MAX_ITEMS + 1];
    const bt_dataset_def *datasets[BT_MAX_ITEMS + 1];
} bt_export;
#define BT_EXPORT(...) const bt_export bt_exported = {.abi = BT_ABI, __VA_ARGS__}
extern const bt_export bt_exported;

void bt_loss_count_(bt_problem *self, bt_tensor *n);
void bt_metric_use_tensor_(bt_problem *self, const char *name, bt_tensor *value, bt_metric_use use);
void bt_metric_use_number_(bt_problem *self, const char *name, double value, bt_metric_use use);
void bt_metric_tensor_(bt_problem *self, const char *name, bt_tensor *value); /* for programs that were built before */
void bt_metric_number_(bt_problem *self, const char *name, double value);     /* bt_metric had a use: BT_METRIC_ONCE */

#ifdef __cplusplus
}
#endif
#endif

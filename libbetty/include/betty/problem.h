/* betty/problem.h: problems, and what a .c file offers */
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
typedef bt_tensor *bt_vector_fn(bt_problem *self, bt_tensor *vector); /* both like bt_params(self) */

/* How a language model goes on with a text. */
typedef struct bt_sampling {
    const char *text;
    int64_t tokens;     /* how many are drawn */
    double temperature; /* from softmax(logits / temperature); 0: each the most likely one */
    int64_t top;        /* among so many of the most likely ones; 0: all */
    FILE *file;         /* where the text goes */
} bt_sampling;

/* A problem is a constant record of callbacks. Needed are name, configure_module and training_step. Data come from one
 * of configure_train_data, get_batch, batch_of; without any, a batch has no fields and counts as one example. */
typedef struct bt_problem_def {
    const char *name;     /* its section in the INI file */
    const char *batch_of; /* a problem above: all steps of an inner loop work on the batch that this one drew for it */

    /* host, at the start; each is called when first needed */
    bt_dataset *(*configure_train_data)(bt_problem *self);
    bt_dataset *(*configure_valid_data)(bt_problem *self);
    bt_module *(*configure_module)(bt_problem *self);

    /* traced */
    bt_tensor *(*forward)(bt_problem *self, bt_tensor *const *in); /* of bt_forward(problem, ...); NULL: the module's */
    bt_step_fn *training_step;                                     /* the loss, a scalar */
    /* What is 0 where the problem is solved, a vector like bt_params; NULL: the gradient of the loss. For
     * hypergradients only: steps follow the loss. It need not be the gradient of anything. Of a problem whose steps end
     * in a param_callback: bt_projected_condition. */
    bt_step_fn *condition;
    bt_step_fn *validation_step;           /* likewise, over the validation data */
    bt_tensor *(*start)(bt_problem *self); /* the parameters that each inner loop starts from, like bt_params; the
                                              optimiser's state starts anew with them. May draw them (bt_normal_like) */
    void (*schedule)(bt_problem *self, bt_rule *optimizer); /* bt_hyper_set what moves or is learned */
    bt_vector_fn *grad_callback;                            /* the gradient to use; clipping comes after */
    bt_vector_fn *param_callback;                           /* the parameters to keep, after each update */

    /* host, while training */
    /* Instead of data sets. A pure function of (mode, index): itd, bt_hypergradient and a resumed run ask for earlier
     * batches again, so that indices do not come in order. Random numbers come from bt_host_uniform(bt_seed(self),
     * index, ...). Batches 1, 2, 9, 99, ... are made twice, and another batch ends the run. They have no end: how many
     * a validation takes is said by valid_batches, 1 by default. */
    bt_status (*get_batch)(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch);
    void (*on_inner_loop_start)(bt_problem *self); /* before the first of unroll_steps steps, or of those of bt_adapt */
    void (*epoch_callback)(bt_problem *self);      /* after the update that ends a pass over the training data */
    void (*validation_end)(bt_problem *self);      /* after the validation passes of all: one's own evaluation */

    /* host, for `betty-run --evaluate DIR --sample TEXT`: writes how->text and what comes after it: bt_sample_text */
    bt_status (*sample)(bt_problem *self, const bt_sampling *how);
} bt_problem_def;

/* In every callback. */
bt_problem *bt_peer(bt_problem *self, const char *name); /* the problem of that name; a poisoned one if missing */
void *bt_user(bt_problem *self);                         /* what bt_engine_use was given */
uint64_t bt_seed(bt_problem *self);                      /* the engine's seed */
int64_t bt_data_dim(bt_problem *self, const char *field, int axis); /* of its training data; axis 0: the examples */
bool bt_data_has(bt_problem *self, const char *field);              /* whether they have it; false after a failure */
int64_t bt_data_classes(bt_problem *self); /* how many they have: bt_dataset_classes; 1 after a failure */

/* The problem's own INI keys, with default and range (ends included). A key that nothing asks for is an error, so each
 * must be asked for while the problem is set up (configure_..., traced callbacks); from then on, anywhere. A text whose
 * default is NULL is NULL where the key is not set; no text is empty. */
bool bt_option_bool(bt_problem *self, const char *key, bool value);
int64_t bt_option_int(bt_problem *self, const char *key, int64_t value, int64_t low, int64_t high);
double bt_option_double(bt_problem *self, const char *key, double value, double low, double high);
const char *bt_option_text(bt_problem *self, const char *key, const char *value);

/* bt_metric(self, name, value[, use]) logs PROBLEM.name, in validation PROBLEM.valid.name. value: when traced a tensor,
 * whose mean is taken; on the host a number. Numbers of one validation are logged as their mean and 95 % interval, as
 * PROBLEM.valid.name.interval. Refused is a name under which something else is logged already: `loss`, which is what
 * training_step and validation_step return; one that a traced callback has used before in the same trace, or that is
 * given by traced callbacks and on the host; and one under which a checkpoint keeps something else. BT_METRIC_MEAN: it
 * is used several times in one trace, and their mean is meant. BT_METRIC_PERPLEXITY: the exponential of the mean is
 * meant: of what a token's negative log-likelihood is, the perplexity. */
typedef enum bt_metric_use { BT_METRIC_ONCE, BT_METRIC_MEAN, BT_METRIC_PERPLEXITY } bt_metric_use;
#define bt_metric(...) BT_METRIC_(__VA_ARGS__, BT_METRIC_ONCE, 0)
/* clang-format off */
#define BT_METRIC_(self, name, value, use, ...)                                                                        \
    _Generic((value), bt_tensor *: bt_metric_use_tensor_, default: bt_metric_use_number_)(                             \
        (self), (name), (value), (use))
/* clang-format on */

/* Traced, in training_step and validation_step, before any bt_metric: a scalar n, a tensor or a number: what the loss
 * of this batch is a mean over, if not its examples, as the tokens that are no padding. Without it a batch counts its
 * examples. Over the micro-batches of gradient_accumulation all is then sum(n x) / sum(n): the gradient, the products
 * of every method, losses and metrics, as they are in validation over its batches. A micro-batch with n = 0 is left
 * out. Where all have n = 0, or one an n that is negative or not finite, the gradient is not finite, so that the update
 * is left out (and told) like any such. No derivative is taken of n: it may not depend on parameters. Anywhere else the
 * call does nothing. */
#define bt_loss_count(self, n) bt_loss_count_((self), BT_OPERAND_(n))

/* Traced, in validation_step: what is said of each example, [n, ...], which `betty-run --evaluate` writes as columns of
 * a CSV file (NAME, or NAME.0, NAME.1, ...), beside the metrics that have one value for each. Anywhere else it does
 * nothing, and costs nothing. */
void bt_prediction(bt_problem *self, const char *name, bt_tensor *value);

/* Traced, in training_step and validation_step: how the values of a tensor of any shape are distributed, over all
 * batches since the last line of metrics: a histogram for TensorBoard, PROBLEM/name, in validation PROBLEM/valid/name,
 * where engine.log_histograms is true. Values that are not finite do not count. Where it is false, and anywhere else,
 * it does nothing, and costs nothing. A name under which bt_metric logs is refused. */
void bt_histogram(bt_problem *self, const char *name, bt_tensor *value);

/* Traced: what may differ between one run and the next. All else is a constant: a step or a condition is called once
 * for each shape of its batches, however many programs its loss takes part in. A change is found and reported: what is
 * traced (the callbacks above, an optimiser's update, a method, the function of bt_eval) is traced again at steps (or
 * calls) 2, 3, 10, 100, ... and must record the same. */
bt_tensor *bt_step(bt_problem *self); /* updates so far */
/* Updates so far in the inner loop in progress, 0 in its first step, in bt_adapt too: for what goes by the step within
 * the loop, as a rate that is learned for each: bt_sum(bt_mul(bt_equal(places, bt_inner_step(self)), rates)), places
 * being 0, 1, ... Where no problem waits for this one's solution (l2u), the whole run is one loop. */
bt_tensor *bt_inner_step(bt_problem *self);
bt_tensor *bt_host_scalar(bt_problem *self, const char *name, double (*fn)(bt_problem *self)); /* before each run */
int64_t bt_static_int(bt_problem *self, const char *name, int64_t (*fn)(bt_problem *self));    /* a change retraces */

/* Traced, for `condition`: what is 0 where a step of that size (above 0) along the gradient of loss(self, batch), and
 * then `project`, leaves the parameters where they are: w - project(w - size * gradient), like bt_params. `project` is
 * what param_callback does to them: a projection, whatever the size is, or bt_soft_threshold by size times a strength.
 * Where it is elementwise or bounds a polyhedron, all methods may take it, cg too. Parameters that are not trained
 * count as solved. A mistake poisons. */
bt_tensor *bt_projected_condition(bt_problem *self, const bt_batch *batch, bt_step_fn *loss, double size,
                                  bt_vector_fn *project);

/* Host only: in a traced callback they poison the trace. */
int64_t bt_host_step(bt_problem *self);
int64_t bt_host_epoch(bt_problem *self);

/* Memory of one's own that belongs to the state of a run: it is kept in checkpoints, and filled before a resumed run
 * goes on. To be called while the problem is set up (configure_...); the memory must outlive the engine. What callbacks
 * keep from one call to the next, and not here, is lost when a run is resumed. */
bt_status bt_state(bt_problem *self, const char *name, void *memory, size_t size);

/* Host: other dependencies from the next step on, each as a line of [dependencies] ("upper > lower, ..."; NULL: that
 * one stays): for a schedule of the hierarchy, called in epoch_callback or validation_end, or between two runs.
 * Parameters, optimisers, data and counters stay as they are; a checkpoint has the dependencies too. What a method
 * keeps for a dependency, such as the solution that warm_start begins with, goes with it. What cannot be is refused
 * with a message (BT_ERROR_CONFIG), which ends the run unless bt_error_clear is called, and the old ones stay in force.
 */
bt_status bt_set_dependency(bt_problem *self, const char *u2l, const char *l2u);

/* Host: evaluation, which changes nothing. bt_eval runs a traced function in mode BT_VALID; batch may be NULL. The
 * others draw batches, and so cannot be asked in get_batch; bt_valid_batch has memory for one from the first time on.
 */
bt_status bt_eval(bt_problem *self, bt_step_fn *fn, const bt_batch *batch, bt_array result);
/* What a step of the problem would use now; like bt_params. Refused where a lower problem has not made the steps that
 * its method goes by: with itd one since the last step of this problem, with sama one at all. */
bt_status bt_hypergradient(bt_problem *self, bt_array result);
const bt_batch *bt_valid_batch(bt_problem *self, int64_t index); /* NULL after the last of the validation data */
/* bt_loader_new, whose floating fields come in the precision of the problem: for data of one's own in bt_eval and
 * bt_adapt. It is the caller's, and takes the set over. */
bt_loader *bt_loader_for(bt_problem *self, bt_dataset *data, int64_t batch_size, uint64_t seed);

/* Host: writes how->text, as the tokeniser gives it back, and how->tokens tokens that are drawn one after the other,
 * and a line end. next: traced, the logits [bt_tokenizer_size] of what comes behind the token at the place last [1] of
 * token [1, window], both I32; behind that place token is 0. The draws go by the engine's seed alone. BT_ERROR_CONFIG:
 * the text has no token; BT_ERROR_NUMERIC: a logit is not finite. */
bt_status bt_sample_text(bt_problem *self, const bt_tokenizer *tokenizer, bt_step_fn *next, int64_t window,
                         const bt_sampling *how);

/* Host: few-shot evaluation. bt_adapt is an inner loop on one batch of the shape that the problem trains on:
 * on_inner_loop_start, `start`, if there is one, and then `steps` training steps. bt_restore brings back what was there
 * before, and must come before the next step of any problem. Several bt_adapt may come before it, each with numbers of
 * its own where `start` draws. Training metrics and the upper levels do not notice; what callbacks change in memory of
 * bt_state holds until bt_adapt returns. */
bt_status bt_adapt(bt_problem *self, const bt_batch *batch, int64_t steps);
bt_status bt_restore(bt_problem *self);

/* BT_EXPORT(.problems = {&upper, &lower}); at the end of a file serves `problems = file.c` and bt_engine_use alike. A
 * list has at most BT_MAX_ITEMS entries, and then NULL; one that is longer is refused. */
#define BT_ABI 5 /* changes with every record in this header; a file built for another one is refused */
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
void bt_metric_tensor_(bt_problem *self, const char *name, bt_tensor *value); /* of programs built before there was */
void bt_metric_number_(bt_problem *self, const char *name, double value);     /* a use: BT_METRIC_ONCE */

#ifdef __cplusplus
}
#endif
#endif

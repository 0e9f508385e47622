/* betty/engine.h: the engine */
#ifndef BETTY_ENGINE_H
#define BETTY_ENGINE_H

#include <betty/base.h>
#include <betty/problem.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bt_report { BT_PLAN, BT_INFO, BT_CONFIG, BT_EQUATION } bt_report; /* betty-run --plan, --info, ... */

/* Every call fails while this thread has an error (bt_error), whatever caused it. So a program need not check each
 * call. After bt_error_clear an engine can be used again: wrong arguments and refused calls leave it unchanged. If a
 * failure left it in an incomplete state (in set-up, a step or a validation), all later calls fail as well. */
bt_engine *bt_engine_new(void);
void bt_engine_free(bt_engine *engine);                        /* may be NULL; refused in a callback of this engine */
bt_status bt_engine_load(bt_engine *engine, const char *file); /* an INI file */
bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user); /* problems and parts from C */

/* Changes one setting of the INI file: key is SECTION.KEY; value: format. bt_engine_set(e, "model.lr", "%g", lr). Once
 * training has begun, only the settings for its length and its output may change: train_iters, valid_step, log_step,
 * checkpoint_step, checkpoint_minutes, checkpoint_keep and early_stopping_tolerance of [engine], and log_step of a
 * problem. A schedule that depends on train_iters keeps the number from set-up. All other keys are then refused
 * (BT_ERROR_ARGUMENT). */
bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...) BT_FORMAT(3, 4);

/* The messages of a run, line by line, without line ends. `text` is valid only until the function returns. The function
 * must not call the engine. */
typedef enum bt_line {
    BT_LINE_INFO,       /* for example, the equations of the levels and where the files are */
    BT_LINE_NOTE,       /* a message of set-up, for example which weights were loaded */
    BT_LINE_WARNING,    /* something is wrong, but the run continues */
    BT_LINE_TRAINING,   /* "step 10/6000  classifier.loss 0.43": metrics, every log_step steps */
    BT_LINE_VALIDATION, /* the metrics of a validation, and the last metrics of a run */
} bt_line;
typedef void bt_log_fn(void *user, bt_line kind, const char *text);
/* From now on sends each line to fn instead of the function set before; NULL: to none. The library itself prints
 * nothing. Warnings and notes that no function has received are kept, and are delivered during this call. */
bt_status bt_engine_log(bt_engine *engine, bt_log_fn *fn, void *user);

/* Trains up to engine.train_iters, with validation, logs, checkpoints and early stopping. Several calls form one run,
 * with the metrics, output folder and summary of a single call. If you raise train_iters, a finished run continues in
 * its folder; the metrics and the validation from its end are kept. */
bt_status bt_engine_run(bt_engine *engine);
/* bt_engine_run_to does the same, but only up to leaf step `step`, counted from the start of the run. bt_engine_step
 * makes one leaf step. Only the call that reaches the end of the run finishes it and writes the last metrics,
 * checkpoint and summary.json. A step before the current one is refused (BT_ERROR_ARGUMENT). bt_engine_step returns
 * BT_DONE if the run has no further step.
 *
 * A leaf step is one step of each leaf. A leaf is a problem to which no other problem passes its solution (l2u). Leaves
 * step in the order of bt_engine_use and engine.problems, with one exception: if a leaf's loss reads the parameters of
 * another leaf (u2l), that other leaf comes first. After a leaf's step, each problem above it that waited only for that
 * step makes its own, and so on upwards, before the next leaf begins. */
bt_status bt_engine_run_to(bt_engine *engine, int64_t step);
bt_status bt_engine_step(bt_engine *engine);
int64_t bt_engine_steps(const bt_engine *engine); /* number of leaf steps so far; 0 if engine is NULL */

/* Saves a checkpoint, between two runs: everything that training has changed, in FOLDER/checkpoints/step-N.safetensors
 * and .json. Parameters are stored by name, such as "model.0.weight". A run with an output folder saves checkpoints by
 * itself, at its end and when engine.checkpoint_step says so. */
bt_status bt_engine_save(bt_engine *engine, const char *folder);
/* Restores the state of the newest checkpoint in the folder. First give the engine the same problems and settings as
 * before. bt_engine_run then continues as if it had never stopped, in that folder if the run's metrics are there. A
 * damaged checkpoint is skipped with a warning. A checkpoint of another problem, other settings or other data is
 * refused, and the message lists the differences (BT_ERROR_CONFIG). `folder` may also name one checkpoint,
 * FOLDER/checkpoints/best or FOLDER/checkpoints/step-N. */
bt_status bt_engine_resume(bt_engine *engine, const char *folder);

bt_status bt_engine_print(bt_engine *engine, bt_report what, FILE *file);

/* Reads or writes a variable by name, between two steps. A name is the same as in a checkpoint:
 *   "classifier.0.weight"                      a parameter or buffer
 *   "classifier.0.weight:momentum"             a slot of a parameter
 *   "classifier.0.weight:slope of the update"  D, if the method keeps it
 *   "classifier:applied"                       other variables of a problem
 * These can only be read. They are computed on request, and are like bt_params:
 *   "classifier:gradient"                      the gradient that a step would use now, as from bt_hypergradient
 *   "reweight:x.classifier"                    the x that this step of reweight would use
 *   "reweight:adjoint.classifier"              the adjoint from which it would compute that x
 * The array has as many elements as the variable. It may have any dtype; numbers are converted. An unknown name or
 * another number of elements is refused and changes nothing (BT_ERROR_ARGUMENT, BT_ERROR_SHAPE). */
bt_status bt_engine_read(bt_engine *engine, const char *name, bt_array values);
bt_status bt_engine_write(bt_engine *engine, const char *name, bt_array values);
/* The name of variable number `index`, or NULL after the last. If `shape` is not NULL, it receives the shape, with data
 * NULL. The name belongs to the engine and is valid until the next call of this function. */
const char *bt_engine_name(bt_engine *engine, int64_t index, bt_array *shape);

/* betty-run --check-hypergradient: moves the upper parameters, trains the levels below again, and compares the measured
 * change with the hypergradient. level: an upper problem; NULL: all of them. samples: the number of coordinates to try;
 * 0: chosen automatically. The engine is left as it was. Returns NULL on an error; a hypergradient that disagrees is
 * not an error. The caller frees the result, including all its text, with bt_check_result_free. */
typedef enum bt_verdict {
    BT_AGREES,        /* in direction and in length */
    BT_APPROXIMATION, /* the exact parts agree; the text says what the method leaves out */
    BT_UNDECIDED,     /* a kink or rounding makes the differences unreliable */
    BT_DISAGREES,     /* a part that must be exact is wrong */
} bt_verdict;
typedef struct bt_check_part { /* a part that must be exact: a gradient, or a product of a lower problem */
    const char *name;          /* "the product of classifier with reweight" */
    double error;              /* relative */
    const char *cause;         /* "none": it agrees; "noise" or "kink"; "rule": it is wrong */
} bt_check_part;
typedef struct bt_check_lower { /* x of a lower problem, compared with a solution of its equation */
    const char *level, *method;
    double cosine, ratio; /* direction; length; NaN: there is no x, or no solution was found */
} bt_check_lower;
typedef struct bt_check_level_result {
    const char *level, *text; /* text: the verdict in words */
    bt_verdict verdict;
    double cosine, ratio; /* of the hypergradient compared with differences: direction; length */
    const bt_check_part *parts;
    const bt_check_lower *lowers;
    int64_t part_count, lower_count;
} bt_check_level_result;
typedef struct bt_check_result {
    const bt_check_level_result *levels;
    int64_t count;
} bt_check_result;
bt_check_result *bt_engine_check(bt_engine *engine, const char *level, int64_t samples);
void bt_check_result_free(bt_check_result *result); /* may be NULL */

/* betty-run --plan, in bytes: the memory kept for the whole run, and for each phase the memory in use at its peak.
 * Returns NULL on an error. The caller frees the table, including all its text, with bt_memory_table_free. */
typedef struct bt_memory_row {
    const char *level, *phase; /* phase NULL: kept for the whole run */
    const char *category;      /* "parameters", "saved activations", ... */
    size_t bytes;
} bt_memory_row;
typedef struct bt_memory_table {
    size_t persistent;        /* kept for the whole run: the sum of these rows */
    size_t arena, arena_used; /* size of the memory that all phases share; how much of it is used */
    const bt_memory_row *rows;
    int64_t count;
} bt_memory_table;
bt_memory_table *bt_engine_memory(bt_engine *engine);
void bt_memory_table_free(bt_memory_table *table); /* may be NULL */

/* The last value of PROBLEM.METRIC, NaN if there is none. In validation_end, PROBLEM.valid.METRIC is the value of this
 * validation so far. */
double bt_engine_metric(bt_engine *engine, const char *name);
bt_problem *bt_engine_problem(bt_engine *engine, const char *name); /* for bt_eval and bt_adapt; NULL if missing */

#ifdef __cplusplus
}
#endif
#endif

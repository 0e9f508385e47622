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

/* Calls fail as long as an error of this thread (bt_error) has not been cleared, whoever made it: a program need not
 * look at each of them. After bt_error_clear an engine goes on: wrong arguments and questions that are refused leave it
 * as it was. Where it was left half way (its set-up, a step or a validation failed), each later call fails again. */
bt_engine *bt_engine_new(void);
void bt_engine_free(bt_engine *engine);                        /* NULL ok; refused in a callback of this engine */
bt_status bt_engine_load(bt_engine *engine, const char *file); /* an INI file */
bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user); /* problems and parts from C */

/* One setting, as in the INI file: key is SECTION.KEY; value: format. bt_engine_set(e, "model.lr", "%g", lr). Between
 * two calls that train, what says how long and how loudly may change: train_iters, valid_step, log_step,
 * checkpoint_step, checkpoint_minutes, checkpoint_keep and early_stopping_tolerance of [engine], log_step of a problem.
 * A schedule that goes by train_iters keeps the number that it was set up with. Everything else is refused then
 * (BT_ERROR_ARGUMENT). */
bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...) BT_FORMAT(3, 4);

/* What a run says, line by line, without line ends. The text is gone when the function returns, which must not call the
 * engine. */
typedef enum bt_line {
    BT_LINE_INFO,       /* what the levels follow, where the files are */
    BT_LINE_NOTE,       /* what set-up has done: weights that were loaded */
    BT_LINE_WARNING,    /* something is not as it should be, and the run goes on */
    BT_LINE_TRAINING,   /* "step 10/6000  classifier.loss 0.43": metrics, each log_step steps */
    BT_LINE_VALIDATION, /* likewise, of a validation, and the last of a run */
} bt_line;
typedef void bt_log_fn(void *user, bt_line kind, const char *text);
/* From now on fn hears each line when it is said, in place of the one before; NULL: nobody does. The library itself
 * prints nothing: warnings and notes that nobody has heard wait, and come within this call. */
bt_status bt_engine_log(bt_engine *engine, bt_log_fn *fn, void *user);

/* Trains up to engine.train_iters, with validation, logs, checkpoints and early stopping. Several calls are one run:
 * its metrics, output folder and summary are those of a single one. A run that has ended goes on, in its folder, once
 * train_iters is larger; the metrics and the validation that its end has brought stay. */
bt_status bt_engine_run(bt_engine *engine);
/* The same, but no further than to leaf step `step`, counted from the very beginning, and by one step. Only the call
 * that reaches the end of the run ends it: the last metrics, checkpoint and summary.json come then. An earlier step
 * than the one reached is refused (BT_ERROR_ARGUMENT). bt_engine_step: BT_DONE where the run has no further step.
 *
 * A leaf step is one step of each leaf, which is a problem that no solution of another reaches (l2u). Leaves step in
 * the order in which bt_engine_use and engine.problems give them, but one whose parameters the loss of another leaf
 * reads (u2l) comes before that one. After the step of a leaf, each problem above it that has waited for nothing else
 * makes its own step, and so on upwards, before the next leaf begins. */
bt_status bt_engine_run_to(bt_engine *engine, int64_t step);
bt_status bt_engine_step(bt_engine *engine);
int64_t bt_engine_steps(const bt_engine *engine); /* leaf steps so far; of NULL 0 */

/* A checkpoint, between two runs: everything that training has changed, in FOLDER/checkpoints/step-N.safetensors and
 * .json. A run that has an output folder writes them by itself (engine.checkpoint_step, and at its end). Parameters are
 * found there by name, "model.0.weight". */
bt_status bt_engine_save(bt_engine *engine, const char *folder);
/* Puts the engine, which has got its problems and settings as before, where the newest checkpoint of the folder was
 * written, so that bt_engine_run goes on as if it had never stopped, in that folder if the run had left its metrics
 * there. A damaged checkpoint is passed over with a warning; one of another problem, of other settings or other data is
 * refused with the differences (BT_ERROR_CONFIG). `folder` may also name one of its checkpoints,
 * FOLDER/checkpoints/best or FOLDER/checkpoints/step-N: the engine is put where that was written. */
bt_status bt_engine_resume(bt_engine *engine, const char *folder);

bt_status bt_engine_print(bt_engine *engine, bt_report what, FILE *file);

/* Variables by name, between two steps: `name` as in a checkpoint, "classifier.0.weight" (a parameter or buffer),
 * "classifier.0.weight:momentum" (what belongs to one: a slot, or D, "...:slope of the update", where the method keeps
 * it), "classifier:applied" (others). "classifier:gradient" is what bt_hypergradient gives: the gradient that a step
 * would use now; "reweight:x.classifier" and "reweight:adjoint.classifier" are what that step of reweight would have as
 * x and make it from: all of them like bt_params, worked out when they are asked for, and not to be written. The array
 * has as many elements as the variable, and any dtype: numbers are converted. An unknown name, and another number of
 * elements, are refused and harm nothing (BT_ERROR_ARGUMENT, BT_ERROR_SHAPE). */
bt_status bt_engine_read(bt_engine *engine, const char *name, bt_array values);
bt_status bt_engine_write(bt_engine *engine, const char *name, bt_array values);
/* The names, one by one, and the shape if `shape` is not NULL (its data is NULL); NULL after the last. The text is the
 * engine's, until the next call of this function. */
const char *bt_engine_name(bt_engine *engine, int64_t index, bt_array *shape);

/* betty-run --check-hypergradient: what a hypergradient stands for is measured by training the levels below again, with
 * the upper parameters moved, and compared. `level`: an upper problem; NULL: each of them. `samples`: coordinates; 0: a
 * sensible number. The engine is afterwards as it was. NULL after an error, which a hypergradient that disagrees is
 * not. The result, with all its text, is the caller's, for bt_check_result_free. */
typedef enum bt_verdict {
    BT_AGREES,        /* in direction and in length */
    BT_APPROXIMATION, /* what must be exact agrees, and the text says what the method leaves out */
    BT_UNDECIDED,     /* a kink or rounding is in the way of differences */
    BT_DISAGREES,     /* something that must be exact is not */
} bt_verdict;
typedef struct bt_check_part { /* what must be exact: a gradient, or a product of a lower problem */
    const char *name;          /* "the product of classifier with reweight" */
    double error;              /* relative */
    const char *cause;         /* "none": it agrees; "noise", "kink"; "rule": it is wrong */
} bt_check_part;
typedef struct bt_check_lower { /* x of a lower problem, against a solution of its equation */
    const char *level, *method;
    double cosine, ratio; /* direction; length; NaN: there is no x, or no solution could be had */
} bt_check_lower;
typedef struct bt_check_level_result {
    const char *level, *text; /* text: the verdict in words */
    bt_verdict verdict;
    double cosine, ratio; /* of the hypergradient to differences: direction; length */
    const bt_check_part *parts;
    const bt_check_lower *lowers;
    int64_t part_count, lower_count;
} bt_check_level_result;
typedef struct bt_check_result {
    const bt_check_level_result *levels;
    int64_t count;
} bt_check_result;
bt_check_result *bt_engine_check(bt_engine *engine, const char *level, int64_t samples);
void bt_check_result_free(bt_check_result *result); /* NULL ok */

/* betty-run --plan, in bytes: what is kept for the whole run, and of each phase what lives where it needs most. NULL
 * after an error; the table, with all its text, is the caller's, for bt_memory_table_free. */
typedef struct bt_memory_row {
    const char *level, *phase; /* phase NULL: kept for the whole run */
    const char *category;      /* "parameters", "saved activations", ... */
    size_t bytes;
} bt_memory_row;
typedef struct bt_memory_table {
    size_t persistent;        /* kept for the whole run: the sum of those rows */
    size_t arena, arena_used; /* shared by all phases; up to the last byte that is written */
    const bt_memory_row *rows;
    int64_t count;
} bt_memory_table;
bt_memory_table *bt_engine_memory(bt_engine *engine);
void bt_memory_table_free(bt_memory_table *table); /* NULL ok */

/* The last value of PROBLEM.METRIC, NaN if there is none; in validation_end, of PROBLEM.valid.METRIC, this validation's
 * so far. */
double bt_engine_metric(bt_engine *engine, const char *name);
bt_problem *bt_engine_problem(bt_engine *engine, const char *name); /* for bt_eval and bt_adapt; NULL if missing */

#ifdef __cplusplus
}
#endif
#endif

/* tests/engine/levels.h: engines from C for tests, and access to their internals. */
#ifndef LEVELS_H
#define LEVELS_H

#include <betty/betty.h>
#include <check.h>

/* An engine with these parts in double precision, without validation, with these settings ("lower.type = cg\n...").
 * NULL after a failure. */
bt_engine *levels_engine(const bt_export *parts, void *user, const char *settings);

void levels_fill(bt_engine *engine, const bt_export *parts, void *user, const char *settings); /* for a new engine */

/* configure_train_data: one example, whose field x is 1. */
bt_dataset *levels_one_row(bt_problem *self);

#define EXPECT_OK(expression) ck_assert_msg((expression) == BT_OK, "%s: %s", #expression, bt_error())

/* Runs to the end; if it fails, the test fails with its message. */
void levels_run(bt_engine *engine);

/* `count` leaf steps, and the steps of other levels that they trigger; no validation, no report. */
void levels_step(bt_engine *engine, int64_t count);

/* A problem's parameters, as bt_params has them. */
void levels_params(bt_engine *engine, const char *problem, double *values, int64_t count);

/* A hash over every bit of a problem's run variables (parameters, optimiser state, buffers, counters, sums of metrics);
 * NULL: of all problems. */
uint64_t levels_hash(bt_engine *engine, const char *problem);

/* A hash over the state from which a run continues, without variables that each step writes before it reads them. */
uint64_t levels_state(bt_engine *engine);

/* Checks that a run of `steps` leaf steps ends with the same state if, after any one of them, it is saved to a folder
 * and resumed by a new engine from make(user). */
void levels_expect_resumes(bt_engine *(*make)(void *user), void *user, int steps);

/* Steps taken, and updates skipped because of a non-finite gradient. */
int64_t levels_steps(bt_engine *engine, const char *problem);
int64_t levels_skipped(bt_engine *engine, const char *problem);

/* Checks that a run with these settings fails with all of the words (up to NULL) in its message; frees the engine. */
void levels_expect_error(bt_engine *engine, ...);

#endif

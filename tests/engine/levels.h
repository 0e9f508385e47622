/* tests/engine/levels.h: engines from C for tests, and looks inside. */
#ifndef LEVELS_H
#define LEVELS_H

#include <betty/betty.h>
#include <check.h>

/* An engine with these parts in double precision, without validation, set up by lines ("lower.type = cg\n..."). NULL
 * after a failure. */
bt_engine *levels_engine(const bt_export *parts, void *user, const char *settings);

void levels_fill(bt_engine *engine, const bt_export *parts, void *user, const char *settings); /* such a new one */

/* configure_train_data: one example, whose field x is 1. */
bt_dataset *levels_one_row(bt_problem *self);

#define EXPECT_OK(expression) ck_assert_msg((expression) == BT_OK, "%s: %s", #expression, bt_error())

/* One run of all its steps; the test fails with the message. */
void levels_run(bt_engine *engine);

/* `count` leaf steps, and what they set off; no validation, no report. */
void levels_step(bt_engine *engine, int64_t count);

/* A problem's parameters, as bt_params has them. */
void levels_params(bt_engine *engine, const char *problem, double *values, int64_t count);

/* Over every bit of a problem's run variables (parameters, optimiser state, buffers, counters, sums of metrics); NULL:
 * of all problems. */
uint64_t levels_hash(bt_engine *engine, const char *problem);

/* Over all that a run goes on from; what each step fills in before it reads it is left out. */
uint64_t levels_state(bt_engine *engine);

/* That a run of `steps` leaf steps, saved after each of them to a folder of its own and taken up again from
 * there by a new engine of make(user), ends as if it had not been. */
void levels_expect_resumes(bt_engine *(*make)(void *user), void *user, int steps);

/* Steps asked for, and updates left out because of a gradient that was not finite. */
int64_t levels_steps(bt_engine *engine, const char *problem);
int64_t levels_skipped(bt_engine *engine, const char *problem);

/* Whether a run with these settings fails, with all of the words (NULL ends) in its message; the engine is freed. */
void levels_expect_error(bt_engine *engine, ...);

#endif

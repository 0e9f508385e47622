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
void bt_engine_free(bt_engine *engine);
bt_status bt_engine_load(bt_engine *engine, const char *file);                  /* an INI file */
bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user); /* problems and parts from C */

/* One setting, as in the INI file: key is SECTION.KEY; value: format. bt_engine_set(e, "model.lr", "%g", lr). */
bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...) BT_FORMAT(3, 4);

bt_status bt_engine_run(bt_engine *engine); /* up to train_iters, with validation and logs */

/* A checkpoint, between two runs: everything that training has changed, in FOLDER/checkpoints/step-N.safetensors and
 * .json. A run that has an output folder writes them by itself (engine.checkpoint_step, and at its end). Parameters are
 * found there by name, "model.0.weight". */
bt_status bt_engine_save(bt_engine *engine, const char *folder);
/* Puts the engine, which has got its problems and settings as before, where the newest checkpoint of the folder was
 * written, so that bt_engine_run goes on as if it had never stopped, in that folder if the run had left its metrics
 * there. A damaged checkpoint is passed over with a warning; one of another problem, of other settings or other data is
 * refused with the differences (BT_ERROR_CONFIG). */
bt_status bt_engine_resume(bt_engine *engine, const char *folder);

bt_status bt_engine_print(bt_engine *engine, bt_report what, FILE *file);
double bt_engine_metric(bt_engine *engine, const char *name);       /* last value of PROBLEM.METRIC; NaN if none */
bt_problem *bt_engine_problem(bt_engine *engine, const char *name); /* for bt_eval and bt_adapt; NULL if missing */

#ifdef __cplusplus
}
#endif
#endif

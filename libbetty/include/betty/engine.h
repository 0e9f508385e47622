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

bt_engine *bt_engine_new(void);
void bt_engine_free(bt_engine *engine);
bt_status bt_engine_load(bt_engine *engine, const char *file);                  /* an INI file */
bt_status bt_engine_use(bt_engine *engine, const bt_export *parts, void *user); /* problems and parts from C */

/* One setting, as in the INI file: key is SECTION.KEY; value: format. bt_engine_set(e, "model.lr", "%g", lr). */
bt_status bt_engine_set(bt_engine *engine, const char *key, const char *value, ...) BT_FORMAT(3, 4);

bt_status bt_engine_run(bt_engine *engine); /* up to train_iters, with validation and logs */
bt_status bt_engine_print(bt_engine *engine, bt_report what, FILE *file);
double bt_engine_metric(bt_engine *engine, const char *name);       /* last value of PROBLEM.METRIC; NaN if none */
bt_problem *bt_engine_problem(bt_engine *engine, const char *name); /* for bt_eval and bt_adapt; NULL if missing */

#ifdef __cplusplus
}
#endif
#endif

/* engine/level/context.h: what all levels of one engine share. */
#ifndef BT_CONTEXT_H
#define BT_CONTEXT_H

#include "engine/config/config.h"
#include "engine/hierarchy/hierarchy.h"
#include "engine/level/ledger.h"
#include "engine/level/metrics.h"
#include "runtime/phase.h"

struct bt_context {
    bt_engine *engine; /* whose part it is: for the session alone */
    bt_config *config;
    const bt_engine_settings *settings;
    bt_status status; /* of the call that failed half way: all later ones fail with it */
    char *message;
    bt_problem **problems; /* owned; the configuration and the hierarchy have them at the same places */
    int problem_count, problem_capacity;
    bt_hierarchy hierarchy; /* of the dependencies in force */
    bt_instance *instance;
    bt_ledger ledger; /* everything that a run is */
    bt_metric_row **metrics;
    int metric_count, metric_capacity;
    bool loaded, ready;                 /* problems are known; everything is planned */
    bool entering, running, validating; /* setting up; in bt_engine_run; in a validation */
    const bt_problem *until;            /* bt_run_until: this level does not step; NULL: all do */
    bool *inner;                        /* then: which ones do, by place */
    bool arrived;                       /* then: it would step now */
    bool apart;                         /* a check asks for gradients and products by themselves: none are joined */
    bool stepping;                      /* in bt_leaf_step */
    bool steps_now;                     /* what bt_steps_show was told last */
    bool busy;           /* within a step or a validation: no program may be made anew, no stream be moved */
    int64_t step;        /* leaf steps */
    bt_problem **leaves; /* active, without children, in the order of their steps */
    int leaf_count;
    bool resuming;           /* the output folder holds this run already */
    bt_text warnings, notes; /* lines to say when a run starts */
};

bt_status bt_context_enter(const bt_context *context); /* an error where the engine cannot be asked now */
void bt_warn(bt_context *context, const char *format, ...) BT_FORMAT(2, 3);
/* What was failed at is done by half, so that the engine cannot go on: every later call is to fail likewise. What
 * leaves the engine as it was (wrong arguments, questions that cannot be answered) is returned, and not kept. */
bt_status bt_keep_error(bt_context *context, bt_status status);
bt_status bt_check_restored(const bt_context *context); /* every bt_adapt has had its bt_restore */

#endif

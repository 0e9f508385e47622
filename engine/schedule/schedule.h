/* engine/schedule/schedule.h: who steps when: leaves, then the parents that become ready; inner loops; roll_back. */
#ifndef BT_SCHEDULE_H
#define BT_SCHEDULE_H

#include "engine/step/step.h"

/* ---- run.c ---- */

typedef struct bt_until { /* does only what comes before a step of one level */
    const bt_problem *level;
    bool *inner;  /* which levels step, by place */
    bool arrived; /* it would now step */
} bt_until;

bt_status bt_step_leaves(bt_context *context); /* one step of each leaf, and of the parents that become ready */
bt_status bt_leaf_step(bt_problem *leaf);      /* one step, and those of the parents that become ready */
/* All steps of the levels below that come before a step of `upper`, in the order of a run; skips warm-ups. */
bt_status bt_run_until(bt_problem *upper);

/* ---- inner_loop.c ---- */

bt_status bt_inner_loop_begin(bt_problem *problem); /* before the loop's first step; does nothing if no loop begins */
bt_status bt_inner_loop_count(bt_problem *problem); /* part of it: sets bt_inner_step to 0, on_inner_loop_start */
bt_status bt_roll_back_all(bt_context *context);    /* roll_back, of problems whose upper problem has stepped */
bt_status bt_loop_starts_open(bt_context *context); /* storage for the states that roll_back returns to, if it is set */
void bt_loop_starts_close(bt_context *context);

/* ---- rewire.c: new dependencies, between two steps ---- */

/* Parses and checks the lines; NULL keeps the present line. Free edges->list. */
bt_status bt_rewire_parse(bt_context *context, const char *u2l, const char *l2u, const char *origin, bt_edges *edges);
/* Puts the edges into force and frees the earlier ones; on failure nothing changes. */
bt_status bt_rewire_apply(bt_context *context, bt_edges *edges);
bt_status bt_rewire(bt_context *context, const char *u2l, const char *l2u, const char *origin); /* both */

/* ---- idle.c ---- */

/* Whether a key of the engine (problem NULL) or of a problem, including its method's, does nothing in this run. */
bool bt_is_idle(const bt_context *context, const bt_problem *problem, const char *key);
void bt_warn_idle(bt_context *context); /* warns about keys that are set but do nothing in this run */

#endif

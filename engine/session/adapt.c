/* engine/session/adapt.c: few-shot evaluation: takes a few steps of a problem on one batch, and restores its state. */
#include "engine/session/session.h"

/* Keeps the state before the first bt_adapt; a second one continues from the first. */
static bt_status keep(bt_problem *self)
{
    if (!self->adapted)
        self->adapted = bt_kept_new(self->context, BT_KEEP_ADAPT, self);
    return self->adapted ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status restore(bt_problem *self)
{
    bt_status status = bt_kept_restore(self->adapted);
    bt_kept_free(self->adapted);
    self->adapted = NULL;
    return status;
}

/* An inner loop, which begins and continues as in training. */
static bt_status inner_loop(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    BT_TRY(bt_inner_loop_count(self));
    BT_TRY(bt_update_scalars(self->context));
    BT_TRY(bt_start_run(self));
    for (int64_t k = 0; k < steps; k++) { /* random numbers are counted from this call */
        BT_TRY(bt_update_scalars(self->context));
        BT_TRY(bt_step_on(self, batch, k));
    }
    return BT_OK;
}

/* Takes the steps, then restores training metrics and the values that callbacks keep with bt_state. */
static bt_status steps_on(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    bt_kept *before = bt_kept_new(self->context, BT_KEEP_REPORTS, NULL);
    if (!before)
        return BT_ERROR_MEMORY;
    bt_status status = inner_loop(self, batch, steps);
    bt_status restored = bt_kept_restore(before);
    bt_kept_free(before);
    return status == BT_OK ? restored : status;
}

static bt_status adapt(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    if (!batch || steps < 0)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_adapt: %s needs a batch and a number of steps, found %s and %lld",
                       self->name, batch ? "one" : "none", (long long)steps);
    if (!self->settings->active)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_adapt: %s is not part of this run", self->name);
    if (self->child_count)
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "bt_adapt: %s is upper to %s: only a problem without levels below it can adapt", self->name,
                       self->children[0]->name);
    bt_status status = keep(self);
    bt_stage_enter(self->context, BT_STAGE_QUESTION);
    if (status == BT_OK)
        status = steps_on(self, batch, steps);
    bt_stage_leave(self->context);
    if (status == BT_OK)
        return BT_OK;
    bt_error_context("bt_adapt");
    if (self->adapted)
        restore(self);
    return status;
}

bt_status bt_adapt(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    BT_TRY(bt_ask_between(self, "bt_adapt"));
    return bt_fail(adapt(self, batch, steps), "failed");
}

bt_status bt_restore(bt_problem *self)
{
    BT_TRY(bt_ask_between(self, "bt_restore"));
    if (!self->adapted)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_restore: %s has not been adapted (bt_adapt)", self->name);
    return restore(self);
}

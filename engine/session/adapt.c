/* engine/session/adapt.c: few-shot evaluation: a few steps of a problem on one batch, and back. */
#include "engine/level/level.h"

#include <string.h>

typedef struct bt_adapted {
    bt_var *vars[BT_SNAPSHOT + 1]; /* what steps change, and the count of updates left out */
    char *copies[BT_SNAPSHOT + 1];
    int count;
    int64_t steps, seen;
} bt_adapted;

void bt_adapted_free(bt_adapted *adapted)
{
    for (int i = 0; adapted && i < adapted->count; i++)
        bt_free(adapted->copies[i]);
    bt_free(adapted);
}

/* What is there before the first bt_adapt; a second one goes on from the first. */
static bt_status keep(bt_problem *self)
{
    if (self->adapted)
        return BT_OK;
    bt_adapted *kept = self->adapted = bt_alloc(sizeof *kept);
    if (!kept)
        return BT_ERROR_MEMORY;
    kept->steps = self->steps;
    kept->seen = self->seen;
    int count = bt_run_variables(self, kept->vars);
    kept->vars[count++] = self->optimizer->skipped;
    for (; kept->count < count; kept->count++) {
        const bt_var *var = kept->vars[kept->count];
        char *copy = kept->copies[kept->count] = bt_alloc(var->bytes);
        if (!copy)
            return BT_ERROR_MEMORY;
        memcpy(copy, var->data, var->bytes);
    }
    return BT_OK;
}

static bt_status restore(bt_problem *self)
{
    bt_adapted *kept = self->adapted;
    for (int i = 0; i < kept->count; i++)
        memcpy(kept->vars[i]->data, kept->copies[i], kept->vars[i]->bytes);
    self->steps = kept->steps;
    self->seen = kept->seen;
    bt_adapted_free(kept);
    self->adapted = NULL;
    return BT_OK;
}

/* One update on the batch; random numbers are those of the how-manyth step it is. */
static bt_status step_on(bt_problem *self, const bt_batch *batch, int64_t number)
{
    bt_step_phase *step = &self->step;
    int shape = bt_stream_shape(self->train, batch);
    if (shape < 0) {
        bt_error_context("bt_adapt");
        return bt_error_status();
    }
    double total = (double)batch->count;
    self->seen = self->steps;
    bt_steps_show(self->engine, true);
    bt_micro_bind(&step->micros[shape], batch);
    memcpy(step->micros[shape].record->data, &number, sizeof number);
    memcpy(step->total->data, &total, sizeof total);
    bt_phase_begin(step->phase);
    bt_status status = bt_part_run(step->phase, step->gradient[shape]);
    if (status == BT_OK && step->average >= 0)
        status = bt_part_run(step->phase, step->average);
    if (status == BT_OK)
        status = bt_part_run(step->phase, step->update);
    bt_phase_end(step->phase);
    bt_steps_show(self->engine, false);
    self->steps++;
    return status;
}

/* Training metrics stay as they are. */
static bt_status steps_on(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    bt_engine *engine = self->engine;
    double *sums = bt_alloc_array((size_t)engine->metric_count * 2 + 1, sizeof *sums);
    bt_status status = sums ? bt_start_run(self) : BT_ERROR_MEMORY;
    int count = sums ? engine->metric_count : 0;
    for (int i = 0; i < count; i++) {
        memcpy(&sums[2 * i], engine->metrics[i]->sum->data, sizeof *sums);
        memcpy(&sums[2 * i + 1], engine->metrics[i]->weight->data, sizeof *sums);
    }
    for (int64_t k = 0; k < steps && status == BT_OK; k++)
        status = step_on(self, batch, k);
    for (int i = 0; i < count; i++) {
        memcpy(engine->metrics[i]->sum->data, &sums[2 * i], sizeof *sums);
        memcpy(engine->metrics[i]->weight->data, &sums[2 * i + 1], sizeof *sums);
    }
    bt_free(sums);
    return status;
}

static bt_status adapt(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    if (!batch || steps < 0)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_adapt: %s needs a batch and a number of steps, found %s and %lld",
                       self->name, batch ? "one" : "none", (long long)steps);
    if (!self->settings->active)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_adapt: %s takes no part in this run", self->name);
    if (self->child_count)
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "bt_adapt: %s is upper to %s: only a problem without levels below it can adapt", self->name,
                       self->children[0]->name);
    BT_TRY(bt_update_scalars(self->engine));
    bt_status status = keep(self);
    if (status == BT_OK)
        status = steps_on(self, batch, steps);
    if (status != BT_OK && self->adapted)
        restore(self);
    return status;
}

bt_status bt_adapt(bt_problem *self, const bt_batch *batch, int64_t steps)
{
    BT_TRY(bt_ask_between(self, "bt_adapt"));
    return bt_engine_keep_error(self->engine, adapt(self, batch, steps));
}

bt_status bt_restore(bt_problem *self)
{
    BT_TRY(bt_ask_between(self, "bt_restore"));
    if (!self->adapted)
        return bt_engine_keep_error(
            self->engine, bt_fail(BT_ERROR_ARGUMENT, "bt_restore: %s has not been adapted (bt_adapt)", self->name));
    return restore(self);
}

bt_status bt_check_restored(const bt_engine *engine)
{
    for (int i = 0; i < engine->problem_count; i++)
        if (engine->problems[i]->adapted)
            return bt_fail(
                BT_ERROR_ARGUMENT,
                "%s is still adapted to another batch: bt_adapt needs a bt_restore before the next step, and "
                "before anything that asks how the run goes on",
                engine->problems[i]->name);
    return BT_OK;
}

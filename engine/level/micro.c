/* engine/level/micro.c: what programs read of a problem's micro-batches. */
#include "engine/level/level.h"

#include <string.h>

bt_status bt_micro_new(bt_micro *micro, const bt_problem *reader, const bt_stream *stream, int shape)
{
    micro->batch = bt_batch_template(stream->shapes[shape]);
    micro->context = stream->problem->context;
    micro->record =
        bt_ledger_var(micro->context, reader, BT_ROLE_INPUT, BT_BATCH, "record", (bt_array){.dtype = BT_I64});
    return micro->batch && micro->record ? BT_OK : BT_ERROR_MEMORY;
}

void bt_micro_free(bt_micro *micro)
{
    bt_batch_free(micro->batch);
    if (micro->record)
        bt_ledger_var_free(micro->context, micro->record);
    *micro = (bt_micro){0};
}

void bt_micro_bind(const bt_micro *micro, const bt_batch *batch)
{
    bt_batch_bind(micro->batch, batch);
    memcpy(micro->record->data, &batch->number, sizeof batch->number);
}

bt_status bt_micro_set_open(bt_micro_set *set, const bt_problem *reader, const bt_problem *problem, int64_t count)
{
    *set = (bt_micro_set){.count = count, .context = problem->context};
    for (int s = 0; s < problem->train->shape_count; s++) {
        set->shape_count++;
        BT_TRY(bt_micro_new(&set->shapes[s], reader, problem->train, s));
    }
    if (count > 1)
        set->share = bt_ledger_var(set->context, reader, BT_ROLE_INPUT, BT_BATCH, "share", (bt_array){.dtype = BT_F64});
    return count > 1 && !set->share ? BT_ERROR_MEMORY : BT_OK;
}

void bt_micro_set_free(bt_micro_set *set)
{
    for (int s = 0; s < set->shape_count; s++)
        bt_micro_free(&set->shapes[s]);
    if (set->share)
        bt_ledger_var_free(set->context, set->share);
    *set = (bt_micro_set){0};
}

int bt_micro_set_kinds(const bt_micro_set *set) { return set->count == 1 ? set->shape_count : 1; }

/* The m-th of the newest `count` micro-batches; NULL after an error. */
static const bt_batch *newest(const bt_micro_set *set, const bt_problem *problem, int64_t m)
{
    int64_t first = problem->train->kept_count - set->count;
    if (problem->train->of || first >= 0)
        return bt_stream_kept(problem->train, first + m);
    bt_fail(BT_ERROR_ARGUMENT, "%s has made no step yet, on whose batch its product could be taken", problem->name);
    return NULL;
}

/* Returns its shape; -1 after an error. */
static int bind(const bt_micro_set *set, const bt_problem *problem, int64_t m)
{
    const bt_batch *batch = newest(set, problem, m);
    int shape = batch ? bt_stream_shape(problem->train, batch) : -1;
    if (shape >= 0)
        bt_micro_bind(&set->shapes[shape], batch);
    return shape;
}

int bt_micro_set_bind(const bt_micro_set *set, const bt_problem *problem)
{
    return set->count == 1 ? bind(set, problem, 0) : 0;
}

bt_status bt_micro_set_run(const bt_micro_set *set, const bt_problem *problem, bt_phase *phase, const int *entries)
{
    double total = 0;
    for (int64_t m = 0; m < set->count; m++) {
        const bt_batch *batch = newest(set, problem, m);
        if (!batch)
            return bt_error_status();
        total += (double)batch->count;
    }
    for (int64_t m = 0; m < set->count; m++) {
        int shape = bind(set, problem, m);
        if (shape < 0)
            return bt_error_status();
        double share = (double)set->shapes[shape].batch->count / total;
        if (set->share)
            bt_number_set(set->share, share);
        BT_TRY(bt_part_run(phase, entries[shape]));
    }
    return BT_OK;
}

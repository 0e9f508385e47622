/* engine/level/micro.c: what programs read of a problem's micro-batches. */
#include "engine/level/level.h"

#include <math.h>
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
    bt_count_set(micro->context, micro->record, batch->number);
}

bt_status bt_micro_set_open(bt_micro_set *set, const bt_problem *reader, const bt_problem *problem, int64_t count)
{
    *set = (bt_micro_set){.count = count, .context = problem->context};
    set->kinds = count == 1 ? problem->train->shape_count : 1;
    for (int s = 0; s < problem->train->shape_count; s++) {
        set->shape_count++;
        BT_TRY(bt_micro_new(&set->shapes[s], reader, problem->train, s));
    }
    if (count == 1)
        return BT_OK;
    set->share = bt_ledger_var(set->context, reader, BT_ROLE_INPUT, BT_BATCH, "share", (bt_array){.dtype = BT_F64});
    set->counts = bt_alloc_array((size_t)count, sizeof *set->counts);
    return set->share && set->counts ? BT_OK : BT_ERROR_MEMORY;
}

void bt_micro_set_free(bt_micro_set *set)
{
    for (int s = 0; s < set->shape_count; s++)
        bt_micro_free(&set->shapes[s]);
    if (set->share)
        bt_ledger_var_free(set->context, set->share);
    if (set->counted)
        bt_ledger_var_free(set->context, set->counted);
    bt_free(set->counts);
    *set = (bt_micro_set){0};
}

/* Binds the programs to this batch (NULL: after an error). Returns its shape; -1 after an error. */
static int bind(const bt_micro_set *set, const bt_problem *problem, const bt_batch *batch)
{
    int shape = batch ? bt_stream_shape(problem->train, batch) : -1;
    if (shape >= 0)
        bt_micro_bind(&set->shapes[shape], batch);
    return shape;
}

int bt_micro_set_bind(const bt_micro_set *set, const bt_problem *problem)
{
    return set->count == 1 ? bind(set, problem, bt_stream_newest(problem->train, 1, 0)) : 0;
}

bt_status bt_micro_set_run_on(const bt_micro_set *set, const bt_problem *problem, const bt_batch *batch, double share,
                              bt_phase *phase, const int *entries)
{
    int shape = bind(set, problem, batch);
    if (set->share)
        bt_number_set(problem->context, set->share, share);
    return shape < 0 ? bt_error_status() : bt_part_run(phase, entries[shape]);
}

bt_status bt_micro_set_run(const bt_micro_set *set, const bt_problem *problem, bt_phase *phase,
                           const bt_micro_part *part)
{
    return bt_micro_set_run_newest(set, problem, set->count, phase, part);
}

/* The count of one micro-batch; NaN if that is not a valid count. */
static bt_status count_one(const bt_micro_set *set, const bt_problem *problem, const bt_batch *batch, bt_phase *phase,
                           const bt_micro_part *part, double *count)
{
    if (!batch)
        return bt_error_status();
    *count = (double)batch->count;
    if (!set->counted)
        return BT_OK;
    BT_TRY(bt_micro_set_run_on(set, problem, batch, 1, phase, part->count));
    *count = bt_number_get(problem->context, set->counted);
    *count = *count >= 0 && isfinite(*count) ? *count : NAN;
    return BT_OK;
}

bt_status bt_micro_set_run_newest(const bt_micro_set *set, const bt_problem *problem, int64_t count, bt_phase *phase,
                                  const bt_micro_part *part)
{
    double total = 0;
    for (int64_t m = 0; set->share && m < count; m++) {
        const bt_batch *batch = bt_stream_newest(problem->train, count, m);
        BT_TRY(count_one(set, problem, batch, phase, part, &set->counts[m]));
        total += set->counts[m];
    }
    for (int64_t m = 0; m < count; m++) {
        if (set->share && set->counts[m] == 0 && total > 0)
            continue;
        const bt_batch *batch = bt_stream_newest(problem->train, count, m);
        double share = !set->share ? 1 : total > 0 ? set->counts[m] / total : NAN;
        BT_TRY(bt_micro_set_run_on(set, problem, batch, share, phase, part->each));
    }
    return BT_OK;
}

/* engine/step/update.c: the program that updates a problem: schedule, clipping, optimiser, callbacks. */
#include "engine/level/scale.h"
#include "engine/step/step.h"

#include "engine/traced/batch.h"
#include "engine/traced/logged.h"
#include "ops/ops.h"
#include <string.h>

static bt_block *gradients_of(bt_problem *problem) { return problem->sums.flat ? &problem->sums : &problem->gradients; }

/* A stretch of one parameter, with its slots, whatever their shape. */
static void own_stretch(bt_problem *problem, int64_t i)
{
    bt_update_part *stretch = &problem->step->stretches[problem->step->stretch_count++];
    const bt_slate *param = problem->module->params[i];
    *stretch = (bt_update_part){.group = problem->group[i], .name = param->path, .param = param->var};
    stretch->grad = gradients_of(problem)->windows[i];
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++)
        stretch->slots[k] = problem->slots[k].windows[i];
}

/* Part of a block, as a variable of the phase. */
static bt_var *stretch_of(bt_problem *problem, const bt_block *block, size_t from, bt_array shape)
{
    return bt_phase_own(problem->step->phase, bt_var_window(block->flat, from, problem->name, shape));
}

/* All trained parameters of a group are adjacent in the block: they form one stretch, gaps included. */
static bt_status group_stretch(bt_problem *problem, int group)
{
    size_t from = SIZE_MAX, to = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        const bt_var *var = problem->module->params[i]->var;
        if (problem->group[i] != group || !problem->trainable[i])
            continue;
        from = var->offset < from ? var->offset : from;
        to = var->offset + var->bytes + var->tail > to ? var->offset + var->bytes + var->tail : to;
    }
    if (to == 0)
        return BT_OK;
    bt_array shape = {
        .dtype = problem->dtype, .rank = 1, .dims = {(int64_t)((to - from) / bt_dtype_size(problem->dtype))}};
    bt_update_part *stretch = &problem->step->stretches[problem->step->stretch_count++];
    *stretch = (bt_update_part){.group = group, .name = problem->name};
    stretch->param = stretch_of(problem, &problem->module->param_block, from, shape);
    stretch->grad = stretch_of(problem, gradients_of(problem), from, shape);
    bool there = stretch->param && stretch->grad;
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++) {
        stretch->slots[k] = stretch_of(problem, &problem->slots[k], from, shape); /* flat: shaped like the parameters */
        there = there && stretch->slots[k];
    }
    return there ? BT_OK : BT_ERROR_MEMORY;
}

static bool one_by_one(const bt_problem *problem)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        if (problem->trainable[i] && !bt_is_updated(problem, i))
            return true;
    return !problem->optimizer->kind.flat || problem->def->grad_callback || problem->def->param_callback ||
           problem->masks.flat || problem->narrow || problem->optimizer->narrow; /* blocks with different dtypes */
}

static bt_status make_stretches(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    int64_t count = problem->module->param_count;
    if (step->stretches)
        return BT_OK;
    step->stretches = bt_alloc_array((size_t)(count + problem->optimizer->group_count), sizeof *step->stretches);
    if (!step->stretches)
        return BT_ERROR_MEMORY;
    step->flat = !one_by_one(problem);
    if (step->flat) {
        for (int g = 0; g < problem->optimizer->group_count; g++)
            BT_TRY(group_stretch(problem, g));
        return BT_OK;
    }
    for (int64_t i = 0; i < count; i++)
        if (bt_is_updated(problem, i))
            own_stretch(problem, i);
    return BT_OK;
}

/* Masks the gradients or (after) the updated parameters; with masks, each parameter is a stretch of its own. */
static void keep_pruned(bt_problem *problem, bt_segment *segments, bool after)
{
    for (int64_t i = 0, s = 0; problem->masks.flat && i < problem->module->param_count; i++)
        if (bt_is_updated(problem, i)) {
            bt_tensor **x = after ? &segments[s++].next_param : &segments[s++].grad;
            *x = bt_pruned(problem, i, *x);
        }
}

/* The mean over a meta-batch. */
static bt_tensor *gradient_of(const bt_problem *problem, const bt_update_part *part)
{
    bt_tensor *grad = bt_wide(bt_graph_read(bt_trace_now()->graph, part->grad));
    const int64_t calls = problem->settings->meta_batch;
    return calls > 1 ? bt_mul(1 / (double)calls, grad) : grad;
}

/* The gradients as the optimiser receives them: after grad_callback, without pruned weights. */
static void read_gradients(bt_problem *problem, const bt_update_part *list, int64_t count, bt_segment *segments)
{
    bt_graph *graph = bt_trace_now()->graph;
    for (int64_t s = 0; s < count; s++)
        segments[s].grad = gradient_of(problem, &list[s]);
    if (!problem->def->grad_callback) {
        keep_pruned(problem, segments, false);
        return;
    }
    bt_tensor **parts = bt_graph_list(graph, problem->module->param_count);
    for (int64_t i = 0, s = 0; parts && i < problem->module->param_count; i++)
        parts[i] = problem->trainable[i]
                       ? segments[s++].grad
                       : bt_zeros_like(bt_wide(bt_graph_read(graph, problem->module->params[i]->var)));
    if (!parts || graph->status != BT_OK)
        return;
    bt_vector_callback(problem, problem->def->grad_callback, "grad_callback", parts);
    for (int64_t i = 0, s = 0; i < problem->module->param_count; i++)
        if (problem->trainable[i])
            segments[s++].grad = parts[i];
    keep_pruned(problem, segments, false);
}

/* The new parameters, after param_callback; if the update is skipped, nothing changes. */
static void write_parameters(bt_problem *problem, const bt_update *update)
{
    bt_step_phase *step = problem->step;
    bt_graph *graph = bt_trace_now()->graph;
    int64_t count = problem->module->param_count;
    bt_tensor **parts = bt_graph_list(graph, count);
    if (!parts)
        return;
    for (int64_t i = 0, s = 0; i < count; i++)
        parts[i] = bt_is_updated(problem, i) ? update->segments[s++].next_param
                                             : bt_wide(bt_graph_read(graph, problem->module->params[i]->var));
    bt_vector_callback(problem, problem->def->param_callback, "param_callback", parts);
    if (graph->status != BT_OK)
        return;
    for (int64_t i = 0, s = 0; i < count; i++)
        if (problem->trainable[i]) {
            bt_var *var = bt_is_updated(problem, i) ? step->stretches[s++].param : problem->module->params[i]->var;
            bt_tensor *next = bt_pruned(problem, i, parts[i]);
            bt_graph_assign_as(graph, var, bt_where(update->ok, next, bt_wide(bt_graph_read(graph, var))));
        }
}

/* The part of a stretch's value that belongs to one parameter; NULL: the parameter is not in the stretch. */
static bt_tensor *part_of(const bt_update_part *stretch, bt_tensor *whole, const bt_slate *param)
{
    size_t from = bt_var_start(stretch->param), at = bt_var_start(param->var);
    if (at < from || at >= from + stretch->param->bytes || bt_poisoned(whole))
        return NULL;
    int64_t first = (int64_t)((at - from) / bt_dtype_size(whole->dtype)), count = bt_array_count(param->shape);
    int64_t sizes[BT_MAX_RANK + 1];
    for (int k = 0; k < param->shape.rank; k++)
        sizes[k] = param->shape.dims[k];
    sizes[param->shape.rank] = BT_END;
    return (bt_reshape)(bt_slice(bt_reshape(whole, -1), 0, first, first + count), sizes);
}

/* Keeps the slopes for the levels above, by parameter, as the gaps between parameters have none. A skipped update
 * changes nothing. */
static void keep_slopes(bt_problem *problem, const bt_update *update)
{
    bt_graph *graph = bt_trace_now()->graph;
    for (int64_t s = 0; update->slopes && s < update->count; s++)
        for (int64_t i = 0; i < problem->module->param_count && graph->status == BT_OK; i++) {
            bt_var *slope = problem->slope.windows[i];
            const bt_slate *param = problem->module->params[i];
            bt_tensor *now = bt_is_updated(problem, i)
                                 ? part_of(&problem->step->stretches[s], update->segments[s].slope, param)
                                 : NULL;
            if (now)
                bt_graph_assign(graph, slope, bt_where(update->ok, now, bt_graph_read(graph, slope)));
        }
}

static bool keep_number(bt_problem *problem, bt_var **var, const char *hyper, const char *what)
{
    char *name = *var ? NULL : bt_string("%s out of range, %s", hyper, what);
    if (name)
        *var = bt_ledger_var(problem->context, problem, BT_ROLE_OPTIMIZER, BT_OPTIMIZER, name,
                             (bt_array){.dtype = BT_F64});
    bt_free(name);
    return *var != NULL;
}

/* Counts the updates in which `schedule` sets a hyperparameter outside the range of its key, for a warning. */
static bt_status count_strays(bt_problem *problem, const bt_update *update)
{
    bt_graph *graph = bt_trace_now()->graph;
    for (int i = 0; i < BT_MAX_ITEMS && graph->status == BT_OK; i++) {
        if (!update->strays[i])
            continue;
        bt_stray *stray = &problem->strays[i];
        const char *name = problem->optimizer->kind.def->hypers[i].name;
        if (!keep_number(problem, &stray->count, name, "times") || !keep_number(problem, &stray->first, name, "first"))
            return BT_ERROR_MEMORY;
        bt_tensor *count = bt_graph_read(graph, stray->count), *first = bt_graph_read(graph, stray->first);
        bt_tensor *now = bt_greater(bt_as(update->strays[i], BT_F64), count); /* 1 if above 0 */
        bt_graph_assign(graph, stray->first, bt_where(now, update->scheduled[i], first));
        bt_graph_assign(graph, stray->count, bt_add(count, bt_as(update->strays[i], BT_F64)));
    }
    return BT_OK;
}

/* Reads the segments as they are before the update. */
static void read_segments(bt_problem *problem, const bt_update_part *list, int64_t count, bt_segment *segments)
{
    bt_graph *graph = bt_trace_now()->graph;
    read_gradients(problem, list, count, segments);
    for (int64_t s = 0; s < count; s++) {
        const bt_update_part *part = &list[s];
        segments[s].group = part->group;
        segments[s].name = part->name;
        segments[s].narrow = problem->narrow;
        segments[s].param = bt_wide(bt_graph_read(graph, part->param));
        for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++)
            segments[s].slots[k] = part->slots[k] ? bt_wide(bt_graph_read(graph, part->slots[k])) : NULL;
    }
}

static void write_segments(bt_problem *problem, const bt_update_part *list, int64_t count, const bt_segment *segments)
{
    bt_graph *graph = bt_trace_now()->graph;
    for (int64_t s = 0; s < count && graph->status == BT_OK; s++) {
        if (!problem->def->param_callback)
            bt_graph_assign_as(graph, list[s].param, segments[s].next_param);
        for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++)
            if (list[s].slots[k])
                bt_graph_assign_as(graph, list[s].slots[k], segments[s].next_slots[k]);
    }
}

/* The norm of a gradient in pieces is computed from the stretches, so that it is the same to the last bit. */
static void read_whole(const bt_problem *problem, bt_update *update)
{
    const bt_step_phase *step = problem->step;
    update->whole = bt_graph_list(bt_trace_now()->graph, step->stretch_count);
    update->wholes = update->whole ? step->stretch_count : 0;
    for (int64_t i = 0; i < update->wholes; i++)
        update->whole[i] = gradient_of(problem, &step->stretches[i]);
}

bt_status bt_update_trace(bt_problem *problem, bt_graph *graph, bool pieces)
{
    bt_step_phase *step = problem->step;
    bt_trace trace;
    bt_tracing tracing;
    BT_TRY(make_stretches(problem));
    const bt_update_part *list = pieces ? step->pieces : step->stretches;
    const int64_t count = pieces ? step->piece_count : step->stretch_count;
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_STEP, NULL);
    bt_segment *segments = bt_region_alloc(graph->region, (size_t)(count + 1) * sizeof *segments);
    bt_status counted = BT_OK;
    if (segments && count) {
        read_segments(problem, list, count, segments);
        bt_update update = {.segments = segments, .count = count, .context = problem};
        if (pieces)
            read_whole(problem, &update);
        update.slopes = problem->slope.flat != NULL;
        update.schedule = problem->def->schedule ? bt_schedule_trace : NULL;
        bt_optimizer_update(problem->optimizer, &update);
        keep_pruned(problem, segments, true);
        write_segments(problem, list, count, segments);
        keep_slopes(problem, &update);
        if (problem->context->settings->log_histograms && step->site.solve_count && graph->status == BT_OK)
            bt_histogram_add(problem, "hypergradient_norm", false, update.norm);
        if (problem->def->param_callback && graph->status == BT_OK)
            write_parameters(problem, &update);
        if (graph->status == BT_OK) {
            bt_optimizer_advance(problem->optimizer, &update);
            bt_scale_next(problem, update.finite);
        }
        counted = count_strays(problem, &update);
    }
    bt_trace_end(&trace);
    return segments && counted == BT_OK ? bt_graph_take_error(graph, problem, "update") : BT_ERROR_MEMORY;
}

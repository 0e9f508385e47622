/* engine/traced/update.c: the traced update of a problem: schedule, clipping, optimiser, callbacks. */
#include "engine/level/level.h"

#include "ops/ops.h"
#include <string.h>

/* Windows of the same place in every block. */
static bt_status stretch_new(bt_problem *problem, bt_stretch *stretch, int group, const char *name, size_t from,
                             bt_array shape)
{
    bt_step_phase *step = &problem->step;
    bt_block *gradients = step->sums.flat ? &step->sums : &step->gradients;
    *stretch = (bt_stretch){.group = group};
    stretch->param = bt_phase_own(step->phase, bt_var_window(problem->module->param_block.flat, from, name, shape));
    stretch->grad = bt_phase_own(step->phase, bt_var_window(gradients->flat, from, name, shape));
    bool made = stretch->param && stretch->grad;
    for (int k = 0; made && k < bt_optimizer_slot_count(problem->optimizer); k++) {
        stretch->slots[k] = bt_phase_own(step->phase, bt_var_window(problem->slots[k].flat, from, name, shape));
        made = stretch->slots[k] != NULL;
    }
    return made ? BT_OK : BT_ERROR_MEMORY;
}

/* A parameter that no gradient reaches is left as it is, as in PyTorch: it neither decays nor follows its momentum.
 * What a grad_callback gives it counts. */
bool bt_is_updated(const bt_problem *problem, int64_t i)
{
    return problem->trainable[i] && (problem->step.used[i] || problem->def->grad_callback);
}

/* All trained parameters of a group lie together in the block: one stretch, gaps included. */
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
    return stretch_new(problem, &problem->step.stretches[problem->step.stretch_count++], group, problem->name, from,
                       shape);
}

static bool one_by_one(const bt_problem *problem)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        if (problem->trainable[i] && !bt_is_updated(problem, i))
            return true;
    return !problem->optimizer->kind.flat || problem->def->grad_callback || problem->def->param_callback;
}

static bt_status make_stretches(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    int64_t count = problem->module->param_count;
    if (step->stretches)
        return BT_OK;
    step->stretches = bt_alloc_array((size_t)(count + problem->optimizer->group_count), sizeof *step->stretches);
    if (!step->stretches)
        return BT_ERROR_MEMORY;
    if (!one_by_one(problem)) {
        for (int g = 0; g < problem->optimizer->group_count; g++)
            BT_TRY(group_stretch(problem, g));
        return BT_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        const bt_slate *param = problem->module->params[i];
        bt_array shape = param->shape;
        shape.dtype = problem->dtype;
        if (bt_is_updated(problem, i))
            BT_TRY(stretch_new(problem, &step->stretches[step->stretch_count++], problem->group[i], param->path,
                               param->var->offset, shape));
    }
    return BT_OK;
}

static void schedule(void *context, bt_rule *rule)
{
    bt_problem *problem = context;
    bt_guest before = bt_problem_enter(problem, "schedule");
    problem->def->schedule(problem, rule);
    bt_guest_leave(before);
}

/* A whole-vector callback, applied to parts. */
static void through_callback(bt_problem *problem, bt_vector_fn *callback, const char *name, bt_tensor **parts)
{
    bt_tensor *before = bt_problem_join(problem, parts);
    bt_guest outer = bt_problem_enter(problem, name);
    bt_tensor *after = callback(problem, before);
    bt_guest_leave(outer);
    if (bt_poisoned(after) || bt_poisoned(before)) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned nothing", name);
        return;
    }
    if (after->rank != 1 || after->dims[0] != before->dims[0] || !bt_dtype_floats(after->dtype)) {
        char found[256], due[256];
        bt_trace_poison(BT_ERROR_SHAPE, "%s returned %s, expected %s like bt_params", name,
                        bt_shape_text(found, after->rank, after->dims), bt_shape_text(due, before->rank, before->dims));
        return;
    }
    bt_problem_split(problem, bt_as(after, problem->dtype), parts);
}

/* The gradients as the optimiser gets them: a meta-batch's mean, after grad_callback. */
static void read_gradients(bt_problem *problem, bt_segment *segments)
{
    bt_step_phase *step = &problem->step;
    bt_graph *graph = bt_trace_now()->graph;
    for (int64_t s = 0; s < step->stretch_count; s++) {
        bt_tensor *grad = bt_graph_read(graph, step->stretches[s].grad);
        int64_t calls = problem->settings->meta_batch;
        segments[s].grad = calls > 1 ? bt_mul(1 / (double)calls, grad) : grad;
    }
    if (!problem->def->grad_callback)
        return;
    bt_tensor **parts = bt_graph_list(graph, problem->module->param_count);
    for (int64_t i = 0, s = 0; parts && i < problem->module->param_count; i++)
        parts[i] = problem->trainable[i] ? segments[s++].grad
                                         : bt_zeros_like(bt_graph_read(graph, problem->module->params[i]->var));
    if (!parts || graph->status != BT_OK)
        return;
    through_callback(problem, problem->def->grad_callback, "grad_callback", parts);
    for (int64_t i = 0, s = 0; i < problem->module->param_count; i++)
        if (problem->trainable[i])
            segments[s++].grad = parts[i];
}

/* The parameters to keep, after param_callback; where the update is left out, nothing changes. */
static void write_parameters(bt_problem *problem, const bt_update *update)
{
    bt_step_phase *step = &problem->step;
    bt_graph *graph = bt_trace_now()->graph;
    int64_t count = problem->module->param_count;
    bt_tensor **parts = bt_graph_list(graph, count);
    if (!parts)
        return;
    for (int64_t i = 0, s = 0; i < count; i++)
        parts[i] = bt_is_updated(problem, i) ? update->segments[s++].next_param
                                             : bt_graph_read(graph, problem->module->params[i]->var);
    through_callback(problem, problem->def->param_callback, "param_callback", parts);
    if (graph->status != BT_OK)
        return;
    for (int64_t i = 0, s = 0; i < count; i++)
        if (problem->trainable[i]) {
            bt_var *var = bt_is_updated(problem, i) ? step->stretches[s++].param : problem->module->params[i]->var;
            bt_graph_assign(graph, var, bt_where(update->ok, parts[i], bt_graph_read(graph, var)));
        }
}

/* ---- the update as a function ---- */

/* Every parameter that is updated as a segment of its own. */
static int64_t own_segments(bt_problem *problem, const bt_transition *t, bt_segment *segments)
{
    int slots = bt_optimizer_slot_count(problem->optimizer);
    int64_t count = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        if (!bt_is_updated(problem, i))
            continue;
        segments[count] = (bt_segment){.group = problem->group[i], .param = t->param[i], .grad = t->grad[i]};
        for (int k = 0; k < slots; k++)
            segments[count].slots[k] = t->slot[k][i];
        count++;
    }
    return count;
}

static void read_results(bt_problem *problem, const bt_update *update, bt_transition *t)
{
    int slots = bt_optimizer_slot_count(problem->optimizer);
    int64_t count = problem->module->param_count;
    for (int64_t i = 0, s = 0; i < count; i++) {
        const bt_segment *segment = bt_is_updated(problem, i) ? &update->segments[s++] : NULL;
        t->next_param[i] = segment ? segment->next_param : t->param[i];
        for (int k = 0; k < slots; k++)
            t->next_slot[k][i] = segment ? segment->next_slots[k] : t->slot[k][i];
    }
    t->next_applied = update->next_applied;
    if (!problem->def->param_callback)
        return;
    bt_tensor **parts = bt_graph_list(bt_trace_now()->graph, count);
    if (!parts)
        return;
    memcpy(parts, t->next_param, (size_t)count * sizeof *parts);
    through_callback(problem, problem->def->param_callback, "param_callback", parts);
    for (int64_t i = 0; i < count && bt_trace_now()->graph->status == BT_OK; i++)
        if (problem->trainable[i])
            t->next_param[i] = bt_where(update->ok, parts[i], t->param[i]);
}

static bool make_room(bt_problem *problem, bt_transition *t)
{
    bt_graph *graph = bt_trace_now()->graph;
    int64_t count = problem->module->param_count;
    t->param = bt_graph_list(graph, count);
    t->grad = bt_graph_list(graph, count);
    t->next_param = bt_graph_list(graph, count);
    bool room = t->param && t->grad && t->next_param;
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++) {
        t->slot[k] = bt_graph_list(graph, count);
        t->next_slot[k] = bt_graph_list(graph, count);
        room = room && t->slot[k] && t->next_slot[k];
    }
    return room;
}

bool bt_transition_begin(bt_problem *problem, bt_transition *t)
{
    bt_graph *graph = bt_trace_now()->graph;
    *t = (bt_transition){0};
    if (!make_room(problem, t))
        return false;
    bt_problem_params(problem, t->param);
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++)
        for (int64_t i = 0; i < problem->module->param_count; i++)
            t->slot[k][i] = bt_graph_read(graph, problem->slots[k].windows[i]);
    return true;
}

void bt_transition_trace(bt_problem *problem, bt_transition *t)
{
    bt_graph *graph = bt_trace_now()->graph;
    int64_t count = problem->module->param_count;
    bt_segment *segments = bt_region_alloc(graph->region, (size_t)(count + 1) * sizeof *segments);
    if (!segments) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    for (int64_t i = 0; i < count; i++)
        t->grad[i] = t->grad[i] && problem->trainable[i] ? t->grad[i] : bt_zeros_like(t->param[i]);
    if (problem->def->grad_callback)
        through_callback(problem, problem->def->grad_callback, "grad_callback", t->grad);
    if (graph->status != BT_OK)
        return;
    bt_update update = {.segments = segments, .count = own_segments(problem, t, segments), .context = problem};
    update.made = t->made;
    update.schedule = problem->def->schedule ? schedule : NULL;
    bt_optimizer_update(problem->optimizer, &update);
    if (graph->status == BT_OK)
        read_results(problem, &update, t);
}

/* ---- the update of a step ---- */

/* What a stretch has for one of its parameters; NULL: that one is not in it. */
static bt_tensor *part_of(const bt_stretch *stretch, bt_tensor *whole, const bt_slate *param)
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

/* For the levels above, by parameter, for between parameters there is nothing; of an update that is left out neither.
 */
static void keep_slopes(bt_problem *problem, const bt_update *update)
{
    bt_graph *graph = bt_trace_now()->graph;
    for (int64_t s = 0; update->slopes && s < update->count; s++)
        for (int64_t i = 0; i < problem->module->param_count && graph->status == BT_OK; i++) {
            bt_var *slope = problem->slope.windows[i];
            const bt_slate *param = problem->module->params[i];
            bt_tensor *now = bt_is_updated(problem, i)
                                 ? part_of(&problem->step.stretches[s], update->segments[s].slope, param)
                                 : NULL;
            if (now)
                bt_graph_assign(graph, slope, bt_where(update->ok, now, bt_graph_read(graph, slope)));
        }
}

bt_status bt_update_trace(bt_problem *problem, bt_graph *graph)
{
    bt_step_phase *step = &problem->step;
    bt_trace trace;
    bt_tracing tracing;
    BT_TRY(make_stretches(problem));
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_STEP, NULL);
    bt_segment *segments = bt_region_alloc(graph->region, (size_t)(step->stretch_count + 1) * sizeof *segments);
    int slots = bt_optimizer_slot_count(problem->optimizer);
    if (segments && step->stretch_count) {
        read_gradients(problem, segments);
        for (int64_t s = 0; s < step->stretch_count; s++) {
            segments[s].group = step->stretches[s].group;
            segments[s].param = bt_graph_read(graph, step->stretches[s].param);
            for (int k = 0; k < slots; k++)
                segments[s].slots[k] = bt_graph_read(graph, step->stretches[s].slots[k]);
        }
        bt_update update = {.segments = segments, .count = step->stretch_count, .context = problem};
        update.slopes = problem->slope.flat != NULL;
        update.schedule = problem->def->schedule ? schedule : NULL;
        bt_optimizer_update(problem->optimizer, &update);
        for (int64_t s = 0; s < step->stretch_count && graph->status == BT_OK; s++) {
            if (!problem->def->param_callback)
                bt_graph_assign(graph, step->stretches[s].param, segments[s].next_param);
            for (int k = 0; k < slots; k++)
                bt_graph_assign(graph, step->stretches[s].slots[k], segments[s].next_slots[k]);
        }
        keep_slopes(problem, &update);
        if (problem->def->param_callback && graph->status == BT_OK)
            write_parameters(problem, &update);
        if (graph->status == BT_OK)
            bt_optimizer_advance(problem->optimizer, &update);
    }
    bt_trace_end(&trace);
    return segments ? bt_graph_take_error(graph, problem, "update") : BT_ERROR_MEMORY;
}

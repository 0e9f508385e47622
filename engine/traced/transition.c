/* engine/traced/transition.c: one whole update as a function of the state before it. */
#include "engine/traced/traced.h"

#include "ops/ops.h"
#include <string.h>

void bt_schedule_trace(void *context, bt_rule *rule)
{
    bt_problem *problem = context;
    bt_guest before = bt_problem_enter(problem, "schedule");
    problem->def->schedule(problem, rule);
    bt_problem_leave(problem, "schedule", before);
}

void bt_vector_callback(bt_problem *problem, bt_vector_fn *callback, const char *name, bt_tensor **parts)
{
    bt_tensor *before = bt_problem_join(problem, parts);
    bt_guest outer = bt_problem_enter(problem, name);
    bt_tensor *after = callback(problem, before);
    bt_problem_leave(problem, name, outer);
    if (bt_poisoned(after) || bt_poisoned(before)) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned nothing", name);
        return;
    }
    if (after->rank != 1 || after->dims[0] != before->dims[0] || !bt_dtype_floats(after->dtype)) {
        char found[256], due[256];
        bt_trace_poison(BT_ERROR_SHAPE, "%s returned %s%s, expected %s%s like bt_params", name,
                        bt_dtype_name(after->dtype), bt_shape_text(found, after->rank, after->dims),
                        bt_dtype_name(before->dtype), bt_shape_text(due, before->rank, before->dims));
        return;
    }
    bt_problem_split(problem, bt_as(after, problem->dtype), parts);
}

/* ---- the update as a function ---- */

/* Makes every updated parameter a segment of its own. */
static int64_t own_segments(bt_problem *problem, const bt_transition *t, bt_segment *segments)
{
    int slots = bt_optimizer_slot_count(problem->optimizer);
    int64_t count = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        if (!bt_is_updated(problem, i))
            continue;
        segments[count] = (bt_segment){.group = problem->group[i],
                                       .name = problem->module->params[i]->path,
                                       .narrow = problem->narrow,
                                       .param = t->param[i],
                                       .grad = t->grad[i]};
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
    bt_vector_callback(problem, problem->def->param_callback, "param_callback", parts);
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
            if (problem->slots[k].windows[i])
                t->slot[k][i] = bt_wide(bt_graph_read(graph, problem->slots[k].windows[i]));
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
        bt_vector_callback(problem, problem->def->grad_callback, "grad_callback", t->grad);
    if (graph->status != BT_OK)
        return;
    bt_update update = {.segments = segments, .count = own_segments(problem, t, segments), .context = problem};
    update.made = t->made;
    update.schedule = problem->def->schedule ? bt_schedule_trace : NULL;
    bt_optimizer_update(problem->optimizer, &update);
    if (graph->status == BT_OK)
        read_results(problem, &update, t);
}

/* engine/traced/loss.c: traces of a problem's callbacks, and what is kept of them. */
#include "engine/level/level.h"

#include "graph/variable.h"
#include "ops/ops.h"

void bt_problem_begin(bt_trace *trace, bt_tracing *tracing, bt_problem *problem, bt_graph *graph, bt_trace_kind kind,
                      const bt_micro *micro)
{
    bt_mode mode = kind == BT_TRACE_VALID || kind == BT_TRACE_EVAL ? BT_VALID : BT_TRAIN;
    bt_trace_begin(trace, graph, mode, problem->dtype);
    *tracing = (bt_tracing){.engine = problem->engine,
                            .problem = problem,
                            .kind = kind,
                            .count = micro && micro->batch ? micro->batch->count : 1};
    trace->context = tracing;
    trace->tag.owner = problem->name;
    trace->seed = bt_hash_text((uint64_t)problem->engine->settings->seed, problem->name);
    trace->record = micro ? micro->record : NULL;
}

bt_tensor *bt_problem_loss(bt_problem *problem, const bt_batch *batch, bt_mode mode)
{
    bt_step_fn *step = mode == BT_TRAIN ? problem->def->training_step : problem->def->validation_step;
    const char *callback = mode == BT_TRAIN ? "training_step" : "validation_step";
    bt_guest before = bt_problem_enter(problem, callback);
    bt_tensor *loss = step(problem, batch);
    bt_guest_leave(before);
    if (bt_poisoned(loss))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned no loss", callback);
    if (bt_tensor_count(loss) != 1 || !bt_dtype_floats(loss->dtype)) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "%s must return a scalar, found %s%s%s", callback,
                               bt_dtype_name(loss->dtype), bt_shape_text(shape, loss->rank, loss->dims),
                               loss->batch_axis >= 0 ? "; losses have one value per example: take bt_mean" : "");
    }
    if (loss->rank)
        loss = (bt_reshape)(loss, (const int64_t[]){BT_END});
    return bt_as(loss, problem->dtype);
}

bt_tensor *bt_problem_vector(const bt_problem *problem, bt_tensor *vector, const char *callback)
{
    int64_t due = 0;
    if (bt_poisoned(vector))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned nothing", callback);
    for (int64_t i = 0; i < problem->module->param_count; i++)
        due += bt_array_count(problem->module->params[i]->shape);
    char found[256];
    if (vector->rank != 1 || vector->dims[0] != due || !bt_dtype_floats(vector->dtype))
        return bt_trace_poison(BT_ERROR_SHAPE, "%s returned %s, expected [%lld] like bt_params(self)", callback,
                               bt_shape_text(found, vector->rank, vector->dims), (long long)due);
    return bt_as(vector, problem->dtype);
}

bt_tensor *bt_problem_condition(bt_problem *problem, const bt_batch *batch)
{
    bt_guest before = bt_problem_enter(problem, "condition");
    bt_tensor *field = problem->def->condition(problem, batch);
    bt_guest_leave(before);
    return bt_problem_vector(problem, field, "condition");
}

bt_status bt_graph_take_error(bt_graph *graph, const bt_problem *problem, const char *callback)
{
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    if (graph->status == BT_OK)
        return BT_OK;
    bt_fail(graph->status, "%s", graph->message);
    bt_error_context("%s, %s", problem->name, callback);
    return graph->status;
}

void bt_problem_params(bt_problem *problem, bt_tensor **params)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        params[i] = bt_trace_read(problem->module->params[i]->var);
}

bt_tensor *bt_problem_join(bt_problem *problem, bt_tensor *const *parts)
{
    bt_trace *trace = bt_trace_now();
    int64_t count = problem->module->param_count;
    bt_tensor **flat = bt_region_alloc(trace->graph->region, (size_t)(count + 1) * sizeof *flat);
    if (!flat)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < count; i++)
        flat[i] = bt_poisoned(parts[i]) ? parts[i] : bt_reshape(parts[i], -1);
    return count == 1 ? flat[0] : bt_concat_list(0, flat, (int)count);
}

void bt_problem_split(bt_problem *problem, bt_tensor *vector, bt_tensor **parts)
{
    int64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        bt_array shape = problem->module->params[i]->shape;
        int64_t sizes[BT_MAX_RANK + 1], count = bt_array_count(shape);
        for (int k = 0; k < shape.rank; k++)
            sizes[k] = shape.dims[k];
        sizes[shape.rank] = BT_END;
        bt_tensor *part = problem->module->param_count == 1 ? vector : bt_slice(vector, 0, at, at + count);
        parts[i] = (bt_reshape)(part, sizes);
        at += count;
    }
}

static bool is_metric(const bt_engine *engine, const bt_var *var)
{
    for (int i = 0; i < engine->metric_count; i++)
        if (engine->metrics[i]->sum == var || engine->metrics[i]->weight == var)
            return true;
    return false;
}

bool bt_owns_buffer(const bt_problem *problem, bt_var *var)
{
    return problem->module && problem->module->buffer_block.flat &&
           bt_var_root(var) == problem->module->buffer_block.flat;
}

/* The effects rule: a program keeps only writes to what its problem owns, and only in that problem's own step. */
void bt_keep_effects(bt_graph *graph, const bt_problem *problem, bt_trace_kind kind)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bool metric = is_metric(problem->engine, graph->assigns[i].var);
        bool own = bt_owns_buffer(problem, graph->assigns[i].var);
        if ((kind == BT_TRACE_STEP && (metric || own)) || (kind == BT_TRACE_VALID && metric))
            graph->assigns[kept++] = graph->assigns[i];
    }
    graph->assign_count = kept;
}

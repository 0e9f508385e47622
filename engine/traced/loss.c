/* engine/traced/loss.c: traces a problem's callbacks, and selects their effects. */
#include "engine/level/scale.h"
#include "engine/traced/batch.h"

#include "ops/ops.h"

void bt_problem_begin(bt_trace *trace, bt_tracing *tracing, bt_problem *problem, bt_graph *graph, bt_trace_kind kind,
                      const bt_micro *micro)
{
    bt_mode mode = kind == BT_TRACE_VALID || kind == BT_TRACE_EVAL ? BT_VALID : BT_TRAIN;
    bt_trace_begin(trace, graph, mode, problem->dtype);
    *tracing = (bt_tracing){.context = problem->context,
                            .problem = problem,
                            .kind = kind,
                            .count = micro && micro->batch ? micro->batch->count : 1};
    trace->context = tracing;
    trace->tag.owner = trace->tag.level = problem->name;
    trace->seed = bt_hash_text((uint64_t)problem->context->settings->seed, problem->name);
    trace->record = micro ? micro->record : NULL;
}

bt_tensor *bt_problem_loss(bt_problem *problem, const bt_batch *batch, bt_mode mode)
{
    bt_step_fn *step = mode == BT_TRAIN ? problem->def->training_step : problem->def->validation_step;
    const char *callback = mode == BT_TRAIN ? "training_step" : "validation_step";
    bt_tracing *tracing = bt_trace_now()->context;
    bt_guest before = bt_problem_enter(problem, callback);
    bt_trace_now()->tag.low = problem->low;
    tracing->of_loss = true;
    bt_tensor *loss = step(problem, batch);
    tracing->of_loss = false;
    bt_trace_now()->tag.low = BT_F32;
    bt_problem_leave(problem, callback, before);
    if (bt_poisoned(loss))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned no loss", callback);
    if (bt_tensor_count(loss) != 1 || !bt_dtype_floats(loss->dtype)) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "%s must return a scalar of floating numbers, found %s%s%s", callback,
                               bt_dtype_name(loss->dtype), bt_shape_text(shape, loss->rank, loss->dims),
                               loss->batch_axis >= 0 ? "; losses have one value per example: use bt_mean" : "");
    }
    if (loss->rank)
        loss = (bt_reshape)(loss, (const int64_t[]){BT_END});
    return bt_counted_loss(bt_as(loss, problem->dtype));
}

bt_tensor *bt_problem_condition(bt_problem *problem, const bt_batch *batch)
{
    bt_guest before = bt_problem_enter(problem, "condition");
    bt_trace_now()->tag.low = problem->low;
    bt_tensor *field = problem->def->condition(problem, batch);
    bt_trace_now()->tag.low = BT_F32;
    bt_problem_leave(problem, "condition", before);
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

static bool is_metric(const bt_context *context, const bt_var *var)
{
    for (int i = 0; i < context->metric_count; i++)
        if (bt_metric_keeps(context->metrics[i], var))
            return true;
    return false;
}

/* The effects rule: a program keeps only writes to what its problem owns, and only in that problem's own step. A
 * product also keeps the writes to its scale. */
void bt_keep_effects(bt_graph *graph, const bt_problem *problem, bt_trace_kind kind)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bool metric = is_metric(problem->context, graph->assigns[i].var);
        bool own = bt_owns_buffer(problem, graph->assigns[i].var);
        bool scale = kind == BT_TRACE_PRODUCT && bt_is_product_scale(problem->context, graph->assigns[i].var);
        if ((kind == BT_TRACE_STEP && (metric || own)) || (kind == BT_TRACE_VALID && metric) || scale)
            graph->assigns[kept++] = graph->assigns[i];
    }
    graph->assign_count = kept;
}

bt_graph *bt_loss_trace(bt_problem *problem, const bt_micro *micro, bt_trace_kind kind, bt_loss_fn *then)
{
    bt_trace trace;
    bt_tracing tracing;
    int callback = kind == BT_TRACE_VALID ? BT_PURE_VALID : BT_PURE_STEP;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return NULL;
    bt_problem_begin(&trace, &tracing, problem, graph, kind, micro);
    bt_tensor *loss = bt_traced_here(problem, callback, micro, &(bt_recording){.assigns = true});
    if (then && !bt_poisoned(loss) && graph->status == BT_OK)
        then(problem, graph, loss);
    bt_trace_end(&trace);
    if (bt_graph_take_error(graph, problem, bt_pure_name(problem, callback)) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

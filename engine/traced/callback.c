/* engine/traced/callback.c: the recordings of a problem's callbacks: each callback is called once for each shape of
 * batch, and its recording is used wherever it is needed. */
#include "engine/traced/batch.h"
#include "engine/traced/logged.h"

#include "transform/splice.h"

/* The one place that calls the callback. */
static bt_tensor *call(bt_problem *problem, int kind, const bt_micro *micro)
{
    if (kind == BT_PURE_CONDITION)
        return bt_problem_condition(problem, micro->batch);
    if (kind == BT_PURE_START)
        return bt_problem_start(problem);
    bt_tensor *loss = bt_problem_loss(problem, micro->batch, kind == BT_PURE_VALID ? BT_VALID : BT_TRAIN);
    bt_metric_loss(problem, loss);
    return loss;
}

/* Returns whether it could be called. The recording goes into `traced`, except for micro, its argument. */
static bool trace(bt_problem *problem, int kind, const bt_micro *micro, bt_traced *traced)
{
    static const bt_trace_kind kinds[BT_PURE_KINDS] = {[BT_PURE_STEP] = BT_TRACE_STEP,
                                                       [BT_PURE_VALID] = BT_TRACE_VALID,
                                                       [BT_PURE_CONDITION] = BT_TRACE_PRODUCT,
                                                       [BT_PURE_START] = BT_TRACE_PRODUCT};
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = traced->graph = bt_graph_new();
    if (!graph)
        return false;
    bt_problem_begin(&trace, &tracing, problem, graph, kinds[kind], micro);
    traced->value = call(problem, kind, micro);
    traced->count = tracing.weight;
    bt_keep_effects(graph, problem, kinds[kind]);
    if (kinds[kind] == BT_TRACE_PRODUCT && !bt_poisoned(traced->value))
        bt_graph_output(graph, traced->value);
    bt_trace_end(&trace);
    return bt_graph_take_error(graph, problem, bt_pure_name(problem, kind)) == BT_OK;
}

/* Brings the recording into the form that programs use. */
static bool settle(bt_problem *problem, bt_traced *traced)
{
    bt_tensor *kept[] = {traced->value, traced->count};
    if (bt_chunk_rows(problem, &traced->graph, kept, BT_COUNT_OF(kept)) != BT_OK)
        return false;
    traced->value = kept[0];
    traced->count = kept[1];
    return true;
}

static bt_stream *stream_of(const bt_problem *problem, int kind)
{
    return kind == BT_PURE_VALID ? problem->valid : problem->train;
}

static void traced_free(bt_traced *traced)
{
    if (!traced)
        return;
    bt_graph_free(traced->graph);
    bt_batch_free(traced->micro.batch);
    bt_var_free(traced->micro.record);
    bt_free(traced);
}

/* The arguments of a callback only stand for what its programs will read, so they have no room for values. */
static bt_status open_micro(bt_traced *traced, const bt_problem *problem, const bt_batch *shape)
{
    traced->micro.batch = bt_batch_template(shape);
    traced->micro.record = bt_var_new(BT_EXTERNAL, BT_BATCH, problem->name, "record", (bt_array){.dtype = BT_I64});
    return traced->micro.batch && traced->micro.record ? BT_OK : BT_ERROR_MEMORY;
}

static bt_traced *traced_new(bt_problem *problem, int kind, int shape)
{
    bt_traced *traced = bt_alloc(sizeof *traced);
    bt_status status = traced ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK && kind != BT_PURE_START)
        status = open_micro(traced, problem, stream_of(problem, kind)->shapes[shape]);
    if (status == BT_OK && trace(problem, kind, &traced->micro, traced)) {
        if (kind == BT_PURE_STEP)
            bt_warn_batch(problem, traced);
        if (settle(problem, traced))
            return traced;
    }
    bt_fail(BT_ERROR_MEMORY, "out of memory"); /* unless there is an error already */
    traced_free(traced);
    return NULL;
}

bt_traced *bt_traced_of(bt_problem *problem, int kind, const bt_micro *micro)
{
    int shape = micro && micro->batch ? bt_stream_shape(stream_of(problem, kind), micro->batch) : 0;
    if (shape < 0)
        return NULL;
    bt_traced **traced = &problem->traced[kind][shape];
    if (!*traced)
        *traced = traced_new(problem, kind, shape);
    return *traced;
}

bt_status bt_traced_keep(bt_problem *problem, int kind, bt_graph *graph)
{
    traced_free(problem->traced[kind][0]);
    bt_traced *traced = problem->traced[kind][0] = bt_alloc(sizeof *traced);
    if (traced)
        traced->graph = graph;
    else
        bt_graph_free(graph);
    return traced ? BT_OK : BT_ERROR_MEMORY;
}

bt_graph *bt_traced_again(bt_problem *problem, int kind)
{
    bt_traced again = {0};
    if (trace(problem, kind, &problem->traced[kind][0]->micro, &again) && settle(problem, &again))
        return again.graph;
    bt_graph_free(again.graph);
    return NULL;
}

const bt_graph *bt_traced_graph(const bt_problem *problem, int kind)
{
    return problem->traced[kind][0] ? problem->traced[kind][0]->graph : NULL;
}

void bt_traced_free(bt_problem *problem)
{
    for (int kind = 0; kind < BT_PURE_KINDS; kind++)
        for (int shape = 0; shape < BT_MAX_SHAPES; shape++) {
            traced_free(problem->traced[kind][shape]);
            problem->traced[kind][shape] = NULL;
        }
}

/* ---- in the trace in progress ---- */

typedef struct places { /* two micro-batches of the same shape */
    const bt_micro *from, *to;
} places;

static bt_var *stand_in(void *user, bt_var *var)
{
    const places *p = user;
    if (var == p->from->record)
        return p->to->record;
    bt_var *field = bt_batch_other(p->from->batch, p->to->batch, var);
    return field ? field : var;
}

/* A recorded tensor in the current trace; poison after an error. */
static bt_tensor *here(bt_traced *traced, bt_tensor *value, const bt_micro *micro, const bt_recording *how)
{
    bt_graph *graph = bt_trace_now()->graph;
    places places = {&traced->micro, micro};
    bt_splice splice = {.stand_in = micro ? stand_in : NULL,
                        .user = &places,
                        .assigns = how && how->assigns,
                        .detached = how ? how->detached : NULL,
                        .wide = how && how->wide};
    bt_tensor **map = bt_graph_splice(traced->graph, value, &splice);
    if (how && how->map)
        *how->map = map;
    return map && graph->status == BT_OK ? map[value->id] : graph->poison;
}

bt_tensor *bt_traced_here(bt_problem *problem, int kind, const bt_micro *micro, const bt_recording *how)
{
    bt_traced *traced = bt_traced_of(problem, kind, micro);
    if (!traced)
        return bt_graph_fail(bt_trace_now()->graph, bt_error_status(), "%s", bt_error());
    return here(traced, traced->value, micro, how);
}

bt_tensor *bt_traced_count(bt_problem *problem, const bt_micro *micro)
{
    bt_traced *traced = bt_traced_of(problem, BT_PURE_STEP, micro);
    if (!traced)
        bt_graph_fail(bt_trace_now()->graph, bt_error_status(), "%s", bt_error());
    return traced && traced->count ? here(traced, traced->count, micro, NULL) : NULL;
}

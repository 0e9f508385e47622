/* engine/traced/histogram.c: histograms of traced values, counted by the programs that compute them. */
#include "engine/traced/logged.h"

#include "ops/ops.h"
#include <math.h>

/* The bucket of each value (engine/output/sinks.h), as numbers. */
static bt_tensor *buckets_of(bt_tensor *x)
{
    const double smallest = exp2(-BT_HISTOGRAM_OCTAVES), side = BT_HISTOGRAM_SIDE;
    bt_tensor *size = bt_abs(x);
    bt_tensor *octaves = bt_mul(bt_log(bt_maximum(size, smallest)), BT_HISTOGRAM_PER_OCTAVE / log(2));
    bt_tensor *place = bt_clamp(bt_add(bt_floor(octaves), side / 2), 0, side - 1);
    bt_tensor *signed_place = bt_where(bt_greater(x, 0), bt_add(place, side + 1), bt_sub(side - 1, place));
    return bt_where(bt_less(size, smallest), side, signed_place);
}

static void add(bt_graph *graph, bt_var *var, bt_tensor *value)
{
    bt_graph_assign(graph, var, (bt_add)(bt_assigned_or_read(graph, var), value));
}

static void extend(bt_graph *graph, bt_var *var, bt_tensor *some, bt_tensor *value,
                   bt_tensor *(*further)(bt_tensor *, bt_tensor *))
{
    bt_tensor *before = bt_assigned_or_read(graph, var);
    bt_graph_assign(graph, var, bt_where(some, further(before, value), value));
}

static bt_tensor *lower(bt_tensor *a, bt_tensor *b) { return bt_minimum(a, b); }
static bt_tensor *higher(bt_tensor *a, bt_tensor *b) { return bt_maximum(a, b); }

void bt_histogram_add(bt_problem *problem, const char *name, bool valid, bt_tensor *value)
{
    bt_graph *graph = bt_trace_now()->graph;
    bt_metric_row *row = bt_histogram_find(problem->context, problem, name, valid);
    if (!row) {
        bt_graph_fail(graph, bt_error_status(), "%s", bt_error());
        return;
    }
    const bt_histogram_row *histogram = row->histogram;
    bt_tensor *all = bt_as(bt_dtype_floats(value->dtype) ? bt_wide(value) : value, BT_F64);
    bt_tensor *x = bt_reshape(all, -1), *finite = bt_isfinite(x), *counts = bt_as(finite, BT_F64);
    bt_tensor *known = bt_where(finite, x, 0), *some = bt_greater(bt_assigned_or_read(graph, row->weight), 0);
    bt_tensor *index = bt_as(buckets_of(known), BT_I32);
    add(graph, histogram->counts, bt_scatter_add(index, counts, BT_HISTOGRAM_BUCKETS));
    extend(graph, histogram->least, some, bt_min(bt_where(finite, x, INFINITY)), lower);
    extend(graph, histogram->most, some, bt_max(bt_where(finite, x, -INFINITY)), higher);
    add(graph, histogram->square, bt_sum(bt_square(known)));
    add(graph, row->sum, bt_sum(known));
    add(graph, row->weight, bt_sum(counts));
}

void bt_histogram(bt_problem *self, const char *name, bt_tensor *value)
{
    bt_trace *trace = bt_trace_now();
    const bt_tracing *tracing = trace ? trace->context : NULL;
    if (!self || !name || !*name || !tracing) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_histogram: call it with a problem and a name, inside a traced callback");
        return;
    }
    if (!self->missing && !value)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_histogram: the value of `%s` is NULL", name);
    if (self->missing || bt_poisoned(value) || !self->context->settings->log_histograms)
        return;
    if (tracing->kind == BT_TRACE_STEP || tracing->kind == BT_TRACE_VALID)
        bt_histogram_add(self, name, tracing->kind == BT_TRACE_VALID, value);
}

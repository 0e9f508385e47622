/* engine/traced/metric.c: metrics of traced values, summed by the programs that compute them. */
#include "engine/traced/traced.h"

#include "ops/ops.h"

static bt_tensor *assigned_or_read(bt_trace *trace, bt_var *var)
{
    bt_tensor *assigned = bt_graph_assigned(trace->graph, var);
    return assigned ? assigned : bt_graph_read(trace->graph, var);
}

void bt_metric_tensor_(bt_problem *self, const char *name, bt_tensor *value)
{
    bt_trace *trace = bt_trace_now();
    bt_tracing *tracing = trace ? trace->context : NULL;
    if (!self || !name || !tracing) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_metric: a problem, a name and a trace of the engine are needed");
        return;
    }
    if (!self->missing && !bt_poisoned(value) && bt_capture_metric(self, name, value))
        return;
    if (self->missing || bt_poisoned(value) || (tracing->kind != BT_TRACE_STEP && tracing->kind != BT_TRACE_VALID))
        return;
    bt_metric_row *row = bt_metric_find(tracing->context, self, name, tracing->kind == BT_TRACE_VALID);
    if (!row) {
        bt_graph_fail(trace->graph, bt_error_status(), "%s", bt_error());
        return;
    }
    bt_tensor *mean =
        value->rank ? bt_mean(bt_as(value, bt_dtype_floats(value->dtype) ? value->dtype : BT_F64)) : value;
    bt_tensor *weight = bt_number((double)tracing->count, BT_F64);
    bt_tensor *part = tracing->count == 1 ? bt_as(mean, BT_F64) : (bt_mul)(bt_as(mean, BT_F64), weight);
    bt_graph_assign(trace->graph, row->sum, (bt_add)(assigned_or_read(trace, row->sum), part));
    bt_graph_assign(trace->graph, row->weight, (bt_add)(assigned_or_read(trace, row->weight), weight));
}

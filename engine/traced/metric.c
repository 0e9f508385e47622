/* engine/traced/metric.c: metrics of traced values, summed by the programs that compute them. */
#include "engine/traced/batch.h"
#include "engine/traced/logged.h"

#include "ops/ops.h"
#include <string.h>

bt_tensor *bt_assigned_or_read(bt_graph *graph, bt_var *var)
{
    bt_tensor *assigned = bt_graph_assigned(graph, var);
    return assigned ? assigned : bt_graph_read(graph, var);
}

static bool is_logged(const bt_tracing *tracing)
{
    return tracing->kind == BT_TRACE_STEP || tracing->kind == BT_TRACE_VALID;
}

static void log_mean(bt_trace *trace, bt_problem *self, const char *name, bt_tensor *value, bt_metric_use use)
{
    bt_tracing *tracing = trace->context;
    bt_metric_row *row = bt_metric_find(tracing->context, self, name, tracing->kind == BT_TRACE_VALID);
    if (!row) {
        bt_graph_fail(trace->graph, bt_error_status(), "%s", bt_error());
        return;
    }
    row->traced = true;
    row->exponential = use == BT_METRIC_PERPLEXITY;
    bt_tensor *mean =
        value->rank ? bt_mean(bt_dtype_floats(value->dtype) ? bt_wide(value) : bt_as(value, BT_F64)) : value;
    bt_tensor *weight = bt_weight_of(tracing), *part = bt_as(mean, BT_F64);
    tracing->logs = true;
    if (weight) { /* the mean over nothing is NaN */
        bt_tensor *some = bt_greater(weight, 0);
        weight = bt_where(some, weight, 0);
        part = bt_where(some, bt_mul(part, weight), 0);
    } else {
        weight = bt_number((double)tracing->count, BT_F64);
        part = tracing->count == 1 ? part : (bt_mul)(part, weight);
    }
    bt_graph_assign(trace->graph, row->sum, (bt_add)(bt_assigned_or_read(trace->graph, row->sum), part));
    bt_graph_assign(trace->graph, row->weight, (bt_add)(bt_assigned_or_read(trace->graph, row->weight), weight));
}

void bt_metric_loss(bt_problem *problem, bt_tensor *loss)
{
    bt_trace *trace = bt_trace_now();
    if (!bt_poisoned(loss) && is_logged(trace->context))
        log_mean(trace, problem, "loss", loss, BT_METRIC_ONCE);
}

/* The row of that name; NULL: none. */
static const bt_metric_row *known(const bt_problem *self, const char *name, bool valid)
{
    const bt_context *context = self->context;
    for (int i = 0; i < context->metric_count; i++) {
        const bt_metric_row *row = context->metrics[i];
        if (row->problem == self && row->valid == valid && strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static bool may_log(const bt_trace *trace, const bt_problem *self, const char *name, bt_metric_use use)
{
    bool valid = ((const bt_tracing *)trace->context)->kind == BT_TRACE_VALID;
    const char *before = valid ? "valid." : "";
    const bt_metric_row *row = known(self, name, valid);
    if (bt_metric_is_taken(self, name, valid))
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_metric: %s.%s%s is what %s returns, and this value would be averaged into it; choose "
                        "another name than `%s`",
                        self->name, before, name, valid ? "validation_step" : "training_step", name);
    else if (row && row->histogram)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_metric: %s is a histogram (bt_histogram); choose another name than `%s`",
                        row->full, name);
    else if (use != BT_METRIC_MEAN && row && bt_graph_assigned(trace->graph, row->sum)) /* by this trace */
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_metric: %s.%s%s is logged twice in one trace, and the values would be averaged; choose "
                        "another name than `%s` or, if you want their mean, say so: bt_metric(..., BT_METRIC_MEAN)",
                        self->name, before, name, name);
    else
        return true;
    return false;
}

void bt_metric_use_tensor_(bt_problem *self, const char *name, bt_tensor *value, bt_metric_use use)
{
    bt_trace *trace = bt_trace_now();
    if (!self || !name || !trace || !trace->context) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_metric: call it with a problem and a name, inside a traced callback");
        return;
    }
    if (!self->missing && !value)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_metric: the value of `%s` is NULL", name);
    if (self->missing || bt_poisoned(value) || bt_capture_metric(self, name, value))
        return;
    if (is_logged(trace->context) && may_log(trace, self, name, use))
        log_mean(trace, self, name, value, use);
}

void bt_metric_tensor_(bt_problem *self, const char *name, bt_tensor *value)
{
    bt_metric_use_tensor_(self, name, value, BT_METRIC_ONCE);
}

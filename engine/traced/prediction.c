/* engine/traced/prediction.c: the results of a validation for each example: predictions, and metrics with one value per
 * example. */
#include "engine/traced/traced.h"

#include "ops/ops.h"
#include <stdio.h>
#include <string.h>

static bt_captured *find(bt_capture *capture, const char *name)
{
    for (int i = 0; i < capture->count; i++)
        if (strcmp(capture->items[i].name, name) == 0)
            return &capture->items[i];
    return NULL;
}

static bool is_per_example(const bt_tracing *tracing, const bt_tensor *value)
{
    return value->rank >= 1 && value->dims[0] == tracing->count;
}

/* The trace in progress, if it belongs to a capture; else NULL. */
static bt_tracing *capturing(void)
{
    bt_trace *trace = bt_trace_now();
    bt_tracing *tracing = trace ? trace->context : NULL;
    return tracing && tracing->kind == BT_TRACE_EVAL && tracing->context->capture ? tracing : NULL;
}

static bt_status add(bt_tracing *tracing, const bt_problem *owner, const char *name, bt_tensor *value, bool metric)
{
    bt_capture *capture = tracing->context->capture;
    const bool own = owner == tracing->problem;
    bt_captured *item = &capture->items[capture->count];
    if (capture->count == BT_CAPTURE_ITEMS)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: there are more than %d values per example", owner->name,
                       BT_CAPTURE_ITEMS);
    int length = snprintf(item->name, sizeof item->name, "%s%s%s", own ? "" : owner->name, own ? "" : ".", name);
    if (length < 0 || length >= (int)sizeof item->name)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the name \"%.40s...\" is too long", owner->name, name);
    item->value = value;
    item->width = bt_tensor_count(value) / tracing->count;
    item->integer = !bt_dtype_floats(value->dtype) && value->dtype != BT_BOOL;
    item->metric = metric;
    capture->count++;
    return BT_OK;
}

bool bt_capture_metric(const bt_problem *owner, const char *name, bt_tensor *value)
{
    bt_tracing *tracing = capturing();
    if (!tracing)
        return false;
    if (is_per_example(tracing, value) && !find(tracing->context->capture, name))
        add(tracing, owner, name, value, true);
    return true;
}

void bt_prediction(bt_problem *self, const char *name, bt_tensor *value)
{
    bt_trace *trace = bt_trace_now();
    bt_tracing *tracing = trace ? trace->context : NULL;
    char shape[256];
    if (!self || !name || !*name || !tracing) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_prediction: call it with a problem and a name, inside a traced "
                                           "callback");
        return;
    }
    if (!self->missing && !value)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_prediction: the value of `%s` is NULL", name);
    if (self->missing || bt_poisoned(value) || (tracing->kind != BT_TRACE_VALID && tracing->kind != BT_TRACE_EVAL))
        return;
    if (!is_per_example(tracing, value)) {
        bt_trace_poison(BT_ERROR_SHAPE,
                        "bt_prediction: `%s` is of shape %s; expected one row for each of the %lld examples", name,
                        bt_shape_text(shape, value->rank, value->dims), (long long)tracing->count);
        return;
    }
    if (!capturing())
        return;
    bt_captured *known = find(tracing->context->capture, name);
    if (known && !known->metric)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_prediction: two predictions are called `%s`", name);
    else if (!known)
        add(tracing, self, name, value, false);
}

/* The validation's loss; the results for each example are in the capture. */
static bt_tensor *validation(bt_problem *problem, const bt_batch *batch)
{
    problem->context->capture->count = 0;
    return bt_problem_loss(problem, batch, BT_VALID);
}

bt_tensor *bt_capture_probe(bt_problem *problem, const bt_batch *batch) { return validation(problem, batch); }

bt_tensor *bt_capture_table(bt_problem *problem, const bt_batch *batch)
{
    const bt_capture *capture = problem->context->capture;
    bt_tensor *loss = validation(problem, batch), *parts[BT_CAPTURE_ITEMS + 1] = {NULL};
    const int64_t count = bt_batch_count(batch);
    for (int i = 0; i < capture->count; i++)
        parts[i] = (bt_reshape)(bt_as(capture->items[i].value, BT_F64),
                                (const int64_t[]){count, capture->items[i].width, BT_END});
    return bt_poisoned(loss) || !capture->count ? loss : capture->count == 1 ? parts[0] : (bt_concat)(1, parts);
}

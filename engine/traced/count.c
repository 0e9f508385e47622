/* engine/traced/count.c: the weight of a batch relative to others, if its loss declares it: for example the number of
 * tokens in a mean over tokens. */
#include "engine/traced/batch.h"

#include "engine/level/ledger.h"
#include "ops/ops.h"
#include <math.h>

/* ---- counts that a loss declares ---- */

/* A parameter or buffer that x depends on, which changes during training; NULL: none. */
static const bt_var *find_moving(const bt_tensor *x)
{
    const bt_graph *graph = x->node->graph;
    bool *live = bt_alloc_array((size_t)graph->node_count + 1, sizeof *live);
    const bt_var *found = NULL;
    if (live)
        live[x->node->index] = true;
    else
        bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    for (int64_t n = x->node->index; live && n >= 0 && !found; n--) {
        const bt_node *node = graph->nodes[n];
        if (!live[n])
            continue;
        const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
        found = var && (var->category == BT_PARAMETERS || var->category == BT_BUFFERS) ? var : NULL;
        for (int i = 0; i < node->inputs; i++)
            live[node->in[i]->node->index] = true;
    }
    bt_free(live);
    return found;
}

static void check(const bt_tracing *tracing, const bt_tensor *n)
{
    char shape[256];
    const bt_var *moving;
    if (bt_tensor_count(n) != 1)
        bt_trace_poison(BT_ERROR_SHAPE, "bt_loss_count: found a count of shape %s, expected a scalar: use bt_sum",
                        bt_shape_text(shape, n->rank, n->dims));
    else if (tracing->weight)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_loss_count: called twice for one loss; the first count is kept");
    else if (tracing->logs)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_loss_count: called after a bt_metric, which also uses the count: call "
                                           "it before");
    else if ((moving = find_moving(n)) != NULL)
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_loss_count: the count depends on `%s`, which changes in training, but a count is not "
                        "differentiated: let it depend only on the batch",
                        moving->name);
}

void bt_loss_count_(bt_problem *self, bt_tensor *n)
{
    bt_trace *trace = bt_trace_now();
    bt_tracing *tracing = trace ? trace->context : NULL;
    if (!self || !tracing) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_loss_count: call it with a problem, inside a traced callback");
        return;
    }
    if (self->missing || !tracing->of_loss || tracing->problem != self)
        return;
    if (!n)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_loss_count: the count is NULL");
    if (bt_poisoned(n))
        return;
    n = n->weak ? (bt_add)(n, bt_number(0, BT_F64)) : n; /* turns a number into a value of the graph */
    check(tracing, n);
    if (trace->graph->status == BT_OK)
        tracing->weight = n;
}

bt_tensor *bt_weight_of(const bt_tracing *tracing)
{
    bt_tensor *n = tracing->weight;
    n = n && n->rank ? (bt_reshape)(n, (const int64_t[]){BT_END}) : n;
    return n ? bt_as(n, BT_F64) : NULL;
}

bt_tensor *bt_counted_loss(bt_tensor *loss)
{
    bt_tensor *count = bt_weight_of(bt_trace_now()->context);
    if (!count || bt_poisoned(loss))
        return loss;
    bt_tensor *one = bt_number(1, loss->dtype), *none = bt_number(NAN, loss->dtype);
    return (bt_mul)((bt_where)(bt_greater(count, 0), one, none), loss);
}

/* ---- the count of a micro-batch, as entries ---- */

bt_tensor *bt_count_of(bt_problem *self, const bt_batch *batch)
{
    bt_micro micro = {.batch = (bt_batch *)(uintptr_t)batch, .record = bt_trace_now()->record};
    bt_tracing counted = {.weight = bt_traced_count(self, &micro)};
    return counted.weight ? bt_weight_of(&counted) : bt_number((double)batch->count, BT_F64);
}

static bool says(bt_problem *problem, const bt_micro_set *set)
{
    bool any = false;
    for (int s = 0; s < set->shape_count; s++) {
        const bt_traced *traced = bt_traced_of(problem, BT_PURE_STEP, &set->shapes[s]);
        any |= traced && traced->count;
    }
    return any;
}

static int add_entry(bt_problem *problem, const bt_micro_set *set, int shape, bt_phase *phase, int loop)
{
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return -1;
    const bt_micro *micro = &set->shapes[shape];
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_PRODUCT, micro);
    bt_graph_assign(graph, set->counted, bt_count_of(problem, micro->batch));
    bt_trace_end(&trace);
    int entry = -1;
    if (bt_graph_take_error(graph, problem, "bt_loss_count") == BT_OK)
        entry = bt_phase_add(phase, graph, loop, "count");
    bt_graph_free(graph);
    return entry;
}

bt_status bt_counts_add(bt_problem *problem, bt_micro_set *set, bt_phase *phase, int loop, bt_micro_part *part)
{
    if (set->count == 1 || !says(problem, set))
        return bt_error_status();
    if (!set->counted)
        set->counted =
            bt_ledger_var(problem->context, problem, BT_ROLE_INPUT, BT_BATCH, "count", (bt_array){.dtype = BT_F64});
    if (!set->counted)
        return BT_ERROR_MEMORY;
    set->counted->mailed = false; /* a program sets it */
    const double runs = phase->runs;
    for (int s = 0; s < set->shape_count; s++) {
        phase->runs = s ? 0 : runs * (double)set->count;
        part->count[s] = add_entry(problem, set, s, phase, loop);
        phase->runs = runs;
        if (part->count[s] < 0)
            return bt_error_status();
    }
    return BT_OK;
}

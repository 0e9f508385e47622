/* engine/traced/additive.c: what is computed over a whole batch, and so is not the sum of micro-batches. */
#include "engine/traced/traced.h"

#include "transform/inline.h"
#include <string.h>

enum { SHOWN = 6 };

/* A value without a batch axis that is made of the examples: a statistic of the batch. */
static bool is_statistic(const bt_node *node, const bool *statistic)
{
    for (int i = 0; i < node->inputs; i++) {
        const bt_tensor *x = node->in[i];
        if (statistic[x->id])
            return true;
        if (x->batch_axis >= 0 && bt_tensor_count(node->out) < bt_tensor_count(x))
            return true;
    }
    return false;
}

/* Whether the node puts a statistic of the batch together with its examples. */
static bool mixes(const bt_node *node, const bool *statistic)
{
    bool examples = false, whole = false;
    for (int i = 0; i < node->inputs; i++) {
        examples |= node->in[i]->batch_axis >= 0;
        whole |= node->in[i]->batch_axis < 0 && statistic[node->in[i]->id];
    }
    return examples && whole;
}

/* Adds the places where it happens to the text, SHOWN of them at most; returns how many there are. */
static int64_t find_places(const bt_graph *graph, bt_text *places)
{
    bool *statistic = bt_alloc((size_t)graph->tensor_count + 1);
    const char *last = NULL;
    int64_t count = 0;
    for (int64_t n = 0; statistic && n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        bool whole = is_statistic(node, statistic);
        for (int o = 0; o < bt_op_outputs(node->op); o++)
            statistic[node->out[o].id] = whole && node->out[o].batch_axis < 0;
        const char *place = *node->tag.path ? node->tag.path : "training_step";
        if (!mixes(node, statistic) || (last && strcmp(last, place) == 0))
            continue;
        last = place;
        if (count++ < SHOWN)
            bt_text_add(places, count > 1 ? ", %s" : "%s", place);
    }
    bt_free(statistic);
    return count;
}

void bt_warn_batch(bt_problem *problem, const bt_graph *graph)
{
    if (problem->told_batch) /* traces that are made again have the same layers */
        return;
    problem->told_batch = true;
    bt_text places = {0};
    bt_graph *whole = bt_inline(graph, NULL, NULL); /* what composites are made of */
    int64_t count = whole ? find_places(whole, &places) : 0;
    if (count)
        bt_warn(problem->context,
                       "%s: gradient_accumulation = %lld: what is taken over a whole batch is taken over each "
                       "micro-batch instead, so that a step is not that of the large batch, in %lld place%s: %s%s",
                       problem->name, (long long)problem->settings->gradient_accumulation, (long long)count,
                       count > 1 ? "s" : "", bt_text_get(&places), count > SHOWN ? ", ..." : "");
    bt_text_free(&places);
    bt_graph_free(whole);
}

/* engine/traced/chunks.c: `chunks`: computes in pieces of rows the logits of a level, and other values that are read
 * row by row until little is left of them. */
#include "engine/traced/batch.h"

#include "ops/ops.h"
#include "transform/chunk.h"
#include <math.h>
#include <string.h>

/* auto: makes pieces if the whole has more bytes than 1 / PART of the level's other forward values. No piece has more
 * than that, unless this needs more than MOST pieces: finding an order of many more steps is not worth the time. */
enum { PART = 8, MOST = 64 };

static bt_problem *find_level(const bt_context *context, const bt_node *node)
{
    for (int i = 0; i < context->problem_count; i++)
        if (strcmp(context->problems[i]->name, node->tag.level) == 0)
            return context->problems[i];
    return NULL;
}

/* Bytes of the level's forward values, except those with as many elements as the product. */
static double other_bytes(const bt_graph *graph, const bt_node *product)
{
    double bytes = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        const bool looks = node->op->info && node->op->info->view;
        if (node->tag.order || looks || bt_op_flags(node->op) & BT_OP_LEAF ||
            strcmp(node->tag.level, product->tag.level) != 0)
            continue;
        for (int o = 0; o < node->outputs; o++)
            if (bt_tensor_count(&node->out[o]) != bt_tensor_count(product->out))
                bytes += (double)bt_tensor_bytes(&node->out[o]);
    }
    return bytes;
}

static int64_t pieces(void *user, const bt_node *product)
{
    bt_problem *level = find_level(user, product);
    if (!level)
        return 1;
    const double other = other_bytes(product->graph, product), whole = (double)bt_tensor_bytes(product->out);
    const bool large = whole > other / PART;
    level->heads++;
    level->large_heads += large;
    if (level->settings->chunks || !large)
        return level->settings->chunks ? level->settings->chunks : 1;
    const double wanted = whole > MOST * other ? MOST : ceil(whole / other);
    return wanted > 2 ? (int64_t)wanted : 2;
}

bt_status bt_chunk_rows(bt_problem *problem, bt_graph **graph, bt_tensor **kept, int count)
{
    return bt_chunk(graph, kept, count, pieces, problem->context);
}

/* graph/compare.c: compares graphs: their hashes, the first difference, and when to compare again. */
#include "graph/graph.h"

#include "graph/variable.h"
#include <string.h>

static uint64_t add(uint64_t hash, int64_t number) { return bt_hash(hash, &number, sizeof number); }

static uint64_t add_text(uint64_t hash, const char *text)
{
    size_t length = strlen(text);
    return bt_hash(add(hash, (int64_t)length), text, length);
}

static uint64_t add_tensor(uint64_t hash, const bt_tensor *x)
{
    hash = add(add(add(hash, x->dtype), x->rank), x->batch_axis);
    for (int k = 0; k < x->rank; k++)
        hash = add(hash, x->dims[k]);
    return hash;
}

static uint64_t add_source(uint64_t hash, const bt_tensor *x) { return add(add(hash, x->node->index), x->output); }

/* A variable's address differs between processes, so its owner and name are hashed instead. */
static uint64_t add_node(uint64_t hash, const bt_node *node)
{
    const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    hash = add_text(add_text(hash, node->op->name), node->tag.path);
    if (node->op == &bt_op_read)
        hash = var ? add_text(add_text(hash, var->owner), var->name) : add(hash, 0);
    else
        hash = bt_hash(add(hash, (int64_t)node->attr_size), node->attr, node->attr_size);
    hash = add(add(hash, node->inputs), node->outputs);
    for (int i = 0; i < node->inputs; i++)
        hash = add_source(hash, node->in[i]);
    for (int i = 0; i < node->outputs; i++)
        hash = add_tensor(hash, &node->out[i]);
    return add(hash, (int64_t)node->body);
}

uint64_t bt_graph_hash(const bt_graph *graph)
{
    uint64_t hash = add(0, graph->node_count);
    for (int64_t n = 0; n < graph->node_count; n++)
        hash = add_node(hash, graph->nodes[n]);
    for (int64_t i = 0; i < graph->assign_count; i++) {
        const bt_assign *assign = &graph->assigns[i];
        hash = add_source(add_text(add_text(hash, assign->var->owner), assign->var->name), assign->value);
    }
    for (int64_t i = 0; i < graph->output_count; i++)
        hash = add_source(hash, graph->outputs[i]);
    return hash;
}

/* Compares two nodes without their bodies. */
static bool same_outside(const bt_node *x, const bt_node *y)
{
    bool same = x->op == y->op && x->inputs == y->inputs && x->attr_size == y->attr_size &&
                memcmp(x->attr, y->attr, x->attr_size) == 0 && x->out->rank == y->out->rank &&
                x->out->dtype == y->out->dtype && memcmp(x->out->dims, y->out->dims, sizeof x->out->dims) == 0;
    for (int i = 0; same && i < x->inputs; i++)
        same = x->in[i]->id == y->in[i]->id;
    return same;
}

static bool same_results(const bt_graph *a, const bt_graph *b)
{
    bool same = a->assign_count == b->assign_count && a->output_count == b->output_count;
    for (int64_t i = 0; same && i < a->assign_count; i++)
        same = a->assigns[i].var == b->assigns[i].var && a->assigns[i].value->id == b->assigns[i].value->id;
    for (int64_t i = 0; same && i < a->output_count; i++)
        same = a->outputs[i]->id == b->outputs[i]->id;
    return same;
}

static void say_difference(const bt_node *x, const bt_node *y, bt_text *text)
{
    bt_text_add(text, "node %lld: ", (long long)x->index);
    if (same_outside(x, y))
        bt_text_add(text, "the body of ");
    bt_text_add(text, "`");
    bt_node_describe(x, text);
    if (same_outside(x, y)) {
        bt_text_add(text, "` records something else");
        return;
    }
    bt_text_add(text, "` became `");
    bt_node_describe(y, text);
    bt_text_add(text, "`");
}

bool bt_graph_differs(const bt_graph *a, const bt_graph *b, bt_text *text)
{
    for (int64_t n = 0; n < a->node_count && n < b->node_count; n++) {
        const bt_node *x = a->nodes[n], *y = b->nodes[n];
        if (same_outside(x, y) && x->body == y->body)
            continue;
        say_difference(x, y, text);
        return true;
    }
    if (a->node_count != b->node_count)
        bt_text_add(text, "%lld nodes became %lld", (long long)a->node_count, (long long)b->node_count);
    else if (!same_results(a, b))
        bt_text_add(text, "it returns or sets other values");
    else
        return false;
    return true;
}

bool bt_look_again(int64_t time)
{
    if (time < 10)
        return time == 2 || time == 3;
    while (time >= 10 && time % 10 == 0)
        time /= 10;
    return time == 1;
}

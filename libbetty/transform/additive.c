/* transform/additive.c: whether a loss is a mean over the examples of its batch. Classifies each value, from the leaves
 * on, by its op's record. */
#include "transform/additive.h"

#include "ops/ops.h"
#include "transform/inline.h"
#include <math.h>
#include <string.h>

typedef enum kind {
    CONSTANT, /* the same for every batch */
    ROWS,     /* each part along its axis belongs to one example and depends on no other */
    MEAN,     /* a mean over the examples, up to constant factors and summands */
    SUM,      /* a sum over the examples, likewise */
    MIXED     /* depends on the batch in another way, which has been reported */
} kind;

typedef struct value {
    kind kind;
    int axis; /* ROWS: its size is a multiple of the examples; -1: a batch of one example without its axis */
    double terms, factor; /* SUM: of how many elements; the factor since then */
    bool final;           /* SUM: something has been added, so no factor makes it a mean */
    const bt_node *sum;   /* SUM: the node that took it */
} value;

typedef struct analysis {
    int64_t examples;
    const bt_node *count; /* the weight of micro-batches; NULL: their examples */
    value *values;        /* by tensor id */
    bool *reaches;        /* by node index: the loss depends on it */
    bt_array *in;         /* of the current node */
    int *axes;            /* twice as many, for bt_node_batch_axis */
    int inputs_room;
    const char *told; /* the path of the last node reported */
    bool mixed;
    bt_split_fn *found;
    void *user;
} analysis;

static bool is_one(double x) { return fabs(x - 1) < 1e-5; /* holds even if 1/n was rounded to float */ }

/* The classes of a node's inputs, summed up. */
typedef struct inputs {
    bool mixed, rows, taken; /* taken: a MEAN or a SUM among them */
    bool aligned;            /* all ROWS have the same axis */
    int sum;                 /* the input that is a SUM; -1: none */
    int count;               /* how many are not CONSTANT */
} inputs;

static inputs look(const analysis *a, const bt_node *node)
{
    inputs all = {.aligned = true, .sum = -1};
    int axis = -1;
    for (int i = 0; i < node->inputs; i++) {
        const value *v = &a->values[node->in[i]->id];
        all.count += v->kind != CONSTANT;
        all.mixed |= v->kind == MIXED;
        all.taken |= v->kind == MEAN || v->kind == SUM;
        if (v->kind == SUM)
            all.sum = i;
        if (v->kind == ROWS) {
            all.aligned = all.aligned && (!all.rows || v->axis == axis);
            all.rows = true;
            axis = v->axis;
        }
    }
    return all;
}

/* The axis of the examples in the output; or -1, or BT_BATCH_SUMMED. */
static int axis_of(const analysis *a, const bt_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        const value *v = &a->values[node->in[i]->id];
        a->in[i] = bt_tensor_array(node->in[i]);
        a->axes[i] = v->kind == ROWS ? v->axis : -1;
    }
    int axis = bt_node_batch_axis(node, a->in, a->axes, a->examples);
    return axis >= 0 && node->out[0].dims[axis] % a->examples ? -1 : axis;
}

/* Whether the node is linear in all inputs that come from the batch. */
static bool is_linear(const analysis *a, const bt_node *node, const inputs *all)
{
    const bt_op_info *info = node->op->info;
    unsigned flags = bt_op_flags(node->op);
    bool together = flags & (BT_OP_LINEAR | BT_OP_IDENTITY);
    unsigned linear = flags & BT_OP_IDENTITY ? 1 : !info ? 0 : together ? info->differentiable : info->linear;
    for (int i = 0; i < node->inputs; i++)
        if (a->values[node->in[i]->id].kind != CONSTANT && (i >= 32 ? !together : !(linear >> i & 1)))
            return false;
    return together || all->count == 1;
}

/* The number by which the op multiplies its input `which`; NaN: not a single known number. */
static double factor_of(const bt_node *node, int which)
{
    double numbers[BT_MAX_ITEMS], at_one, at_zero;
    if (!node->op->info || !node->op->info->fold || node->inputs > BT_MAX_ITEMS)
        return node->inputs == 1 ? 1 : NAN;
    for (int i = 0; i < node->inputs; i++)
        if (i != which && !bt_uniform(node->in[i], &numbers[i]))
            return NAN;
    numbers[which] = 1;
    at_one = node->op->info->fold(numbers);
    numbers[which] = 0;
    at_zero = node->op->info->fold(numbers);
    return at_zero == 0 ? at_one : NAN;
}

/* A sum over n elements is a mean once it has been divided by n. */
static value scaled(const analysis *a, const bt_node *node, const inputs *all)
{
    value v = a->values[node->in[all->sum]->id];
    double factor = factor_of(node, all->sum), n = (double)a->examples;
    bool added = bt_op_flags(node->op) & BT_OP_LINEAR && node->inputs > 1;
    v.final |= added; /* the summand does not grow with n */
    v.factor *= factor;
    if (!v.final &&
        (is_one(factor * n) || is_one(factor * v.terms) || is_one(v.factor * n) || is_one(v.factor * v.terms)))
        return (value){.kind = MEAN};
    return v;
}

static value summed(const bt_node *node, int64_t examples)
{
    double in = (double)bt_tensor_count(node->in[0]), out = (double)bt_tensor_count(node->out);
    double terms = node->inputs == 1 && out > 0 ? in / out : (double)examples;
    return (value){.kind = SUM, .terms = terms, .factor = 1, .sum = node};
}

/* The class of the node's outputs. *mixes: this node mixes the examples. */
static value classify(const analysis *a, const bt_node *node, bool *mixes)
{
    inputs all = look(a, node);
    if (!all.count)
        return (value){.kind = CONSTANT};
    int axis = axis_of(a, node);
    if (all.mixed) /* next to examples it counts as a constant, so that the next mixing is reported too */
        return axis >= 0 ? (value){.kind = ROWS, .axis = axis} : (value){.kind = MIXED};
    if (!all.taken) {
        if (axis == BT_BATCH_SUMMED)
            return summed(node, a->examples);
        *mixes = bt_op_flags(node->op) & BT_OP_ELEMENTWISE && !all.aligned;
        if (axis >= 0 || a->examples == 1)
            return (value){.kind = ROWS, .axis = axis};
        *mixes = true;
        return (value){.kind = MIXED};
    }
    *mixes = all.rows || !is_linear(a, node, &all);
    if (!*mixes)
        return all.sum >= 0 ? scaled(a, node, &all) : (value){.kind = MEAN};
    return axis >= 0 ? (value){.kind = ROWS, .axis = axis} : (value){.kind = MIXED};
}

static void tell(analysis *a, const bt_node *node)
{
    a->mixed = true;
    if (!a->told || strcmp(a->told, node->tag.path) != 0)
        a->found(a->user, node);
    a->told = node->tag.path;
}

static void visit(analysis *a, const bt_node *node)
{
    bool leaf = bt_op_flags(node->op) & BT_OP_LEAF, mixes = false;
    bool examples = leaf && node->out->batch_axis >= 0;
    value v = examples                   ? (value){.kind = ROWS, .axis = node->out->batch_axis}
              : leaf || node == a->count ? (value){.kind = CONSTANT}
                                         : classify(a, node, &mixes);
    for (int o = 0; o < node->outputs; o++)
        a->values[node->out[o].id] = v;
    if (mixes)
        tell(a, node);
}

static void mark(analysis *a, const bt_graph *graph, const bt_tensor *loss)
{
    a->reaches[loss->node->index] = true;
    for (int64_t n = loss->node->index; n >= 0; n--)
        for (int i = 0; a->reaches[n] && i < graph->nodes[n]->inputs; i++)
            a->reaches[graph->nodes[n]->in[i]->node->index] = true;
}

static bool open(analysis *a, const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n]->inputs > a->inputs_room)
            a->inputs_room = graph->nodes[n]->inputs;
    a->values = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *a->values);
    a->reaches = bt_alloc_array((size_t)graph->node_count + 1, sizeof *a->reaches);
    a->in = bt_alloc_array((size_t)a->inputs_room + 1, sizeof *a->in);
    a->axes = bt_alloc_array(2 * (size_t)a->inputs_room + 1, sizeof *a->axes);
    return a->values && a->reaches && a->in && a->axes;
}

static bt_split judge(analysis *a, const bt_graph *graph, const bt_tensor *loss)
{
    mark(a, graph, loss);
    for (int64_t n = 0; n <= loss->node->index; n++)
        if (a->reaches[n])
            visit(a, graph->nodes[n]);
    const value *v = &a->values[loss->id];
    if (a->mixed)
        return BT_SPLIT_NOT;
    if (v->kind != SUM || a->count)
        return BT_SPLITS;
    tell(a, v->sum);
    return BT_SPLIT_SUM;
}

bt_status bt_split_of(bt_graph *graph, bt_tensor *loss, bt_tensor *count, int64_t examples, bt_split_fn *found,
                      void *user, bt_split *split)
{
    *split = BT_SPLITS;
    if (examples < 1)
        return BT_OK;
    const int64_t outputs = graph->output_count;
    if (count)
        bt_graph_output(graph, count);
    bt_graph_output(graph, loss);                                            /* the last outputs, for inlining only */
    const bool there = graph->output_count == outputs + 1 + (count != NULL); /* else memory ran out */
    bt_graph *whole = there ? bt_inline(graph, NULL, NULL) : NULL;
    graph->output_count = outputs;
    analysis a = {.examples = examples, .found = found, .user = user};
    if (whole && count)
        a.count = whole->outputs[whole->output_count - 2]->node;
    bt_status status = whole && open(&a, whole) ? BT_OK : bt_error_status() ? bt_error_status() : BT_ERROR_MEMORY;
    if (status == BT_OK)
        *split = judge(&a, whole, whole->outputs[whole->output_count - 1]);
    bt_free(a.values);
    bt_free(a.reaches);
    bt_free(a.in);
    bt_free(a.axes);
    bt_graph_free(whole);
    return status;
}

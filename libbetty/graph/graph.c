/* graph/graph.c: nodes, leaves, assigns. */
#include "graph/graph.h"

#include "graph/variable.h"
#include <stdio.h>
#include <string.h>

unsigned bt_op_flags(const bt_op *op)
{
    if (op->info)
        return op->info->flags;
    return (op->vjp ? BT_OP_OWN_VJP : 0U) | (op->jvp ? BT_OP_OWN_JVP : 0U);
}

bool bt_node_any(const bt_node *node, unsigned flags) { return ((bt_op_flags(node->op) | node->hides) & flags) != 0; }

int bt_op_outputs(const bt_op *op, int inputs)
{
    return bt_op_flags(op) & BT_OP_EACH ? inputs : op->outputs > 0 ? op->outputs : 1;
}

bt_status bt_op_infer(const bt_op *op, const void *attr, int inputs, const bt_array *in, bt_array *out)
{
    const int each = bt_op_flags(op) & BT_OP_EACH ? inputs : 1;
    for (int i = 0; i < each; i++)
        BT_TRY(op->infer(attr, &in[i], &out[i]));
    return BT_OK;
}

bt_graph *bt_graph_new(void)
{
    bt_graph *graph = bt_alloc(sizeof *graph);
    if (!graph)
        return NULL;
    graph->region = bt_region_new();
    graph->poison = graph->region ? bt_region_alloc(graph->region, sizeof *graph->poison) : NULL;
    if (!graph->poison) {
        bt_graph_free(graph);
        return NULL;
    }
    graph->poison->id = -1;
    graph->poison->batch_axis = -1;
    return graph;
}

void bt_graph_free(bt_graph *graph)
{
    if (!graph)
        return;
    for (int64_t i = graph->held_count - 1; i >= 0; i--)
        graph->held[i]->info->hold(graph->held[i], false);
    bt_free(graph->held);
    bt_region_free(graph->region);
    bt_free(graph->nodes);
    bt_free(graph->assigns);
    bt_free(graph->outputs);
    bt_map_free(&graph->leaves);
    bt_map_free(&graph->assigned);
    bt_free(graph);
}

bool bt_poisoned(const bt_tensor *x) { return !x || !x->node; }

bt_tensor *bt_graph_fail(bt_graph *graph, bt_status status, const char *format, ...)
{
    if (graph->status != BT_OK)
        return graph->poison;
    va_list args;
    va_start(args, format);
    char *text = bt_format(format, args);
    va_end(args);
    graph->status = status;
    graph->message = text ? bt_region_copy(graph->region, text, strlen(text) + 1) : NULL;
    if (!graph->message)
        graph->message = "out of memory";
    bt_free(text);
    return graph->poison;
}

bt_array bt_tensor_array(const bt_tensor *x)
{
    bt_array array = {.dtype = x->dtype, .rank = x->rank};
    memcpy(array.dims, x->dims, sizeof array.dims);
    return array;
}

int64_t bt_tensor_count(const bt_tensor *x) { return bt_array_count(bt_tensor_array(x)); }

size_t bt_tensor_bytes(const bt_tensor *x) { return bt_array_bytes(bt_tensor_array(x)); }

/* Nodes often have the same tags, so recently used texts are shared and not copied again. */
const char *bt_graph_intern(bt_graph *graph, const char *text)
{
    if (!text || !*text)
        return "";
    /* Usually the same pointer as for an earlier node. But the memory may have been reused for another text since. */
    bt_interned *place = &graph->interned[(uintptr_t)text / 16 % BT_COUNT_OF(graph->interned)];
    if (place->text == text && strcmp(place->copy, text) == 0)
        return place->copy;
    const char **copy = &graph->copies[bt_hash_text(0, text) % BT_COUNT_OF(graph->copies)];
    if (!*copy || strcmp(*copy, text) != 0) {
        const char *made = bt_region_copy(graph->region, text, strlen(text) + 1);
        if (!made)
            return "";
        *copy = made;
    }
    *place = (bt_interned){text, *copy};
    return *copy;
}

static void set_shape(bt_tensor *x, bt_array shape)
{
    x->dtype = shape.dtype;
    x->rank = shape.rank;
    memcpy(x->dims, shape.dims, sizeof x->dims);
    for (int i = shape.rank; i < BT_MAX_RANK; i++)
        x->dims[i] = 0;
}

/* Makes a node whose outputs have no shapes yet. NULL: out of memory, which poisons the graph. */
static bt_node *node_new(bt_graph *graph, const bt_op *op, const void *attr, size_t attr_size, int inputs, int outputs,
                         bt_tag tag)
{
    bt_node **nodes = bt_grow(graph->nodes, &graph->node_capacity, graph->node_count + 1, sizeof(bt_node *));
    if (nodes)
        graph->nodes = nodes;
    bt_node *node = nodes ? bt_region_alloc(graph->region, sizeof *node) : NULL;
    void *copy = node ? bt_region_copy(graph->region, attr, attr_size) : NULL;
    bt_tensor **in = copy ? bt_region_alloc(graph->region, (size_t)inputs * sizeof *in) : NULL;
    bt_tensor *out = in ? bt_region_alloc(graph->region, (size_t)outputs * sizeof *out) : NULL;
    if (!out) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
        return NULL;
    }
    tag.owner = bt_graph_intern(graph, tag.owner);
    tag.level = bt_graph_intern(graph, tag.level);
    tag.path = bt_graph_intern(graph, tag.path);
    graph->regions = tag.region > graph->regions ? tag.region : graph->regions; /* from another graph */
    tag.call = bt_graph_intern(graph, tag.call && *tag.call ? tag.call : op->name);
    tag.low = bt_low_kept(tag.low);
    *node = (bt_node){.graph = graph,
                      .op = op,
                      .attr = copy,
                      .attr_size = attr_size,
                      .inputs = inputs,
                      .outputs = outputs,
                      .in = in,
                      .out = out,
                      .index = graph->node_count,
                      .tag = tag};
    for (int i = 0; i < outputs; i++)
        out[i] = (bt_tensor){.node = node, .output = i, .batch_axis = -1};
    return node;
}

/* Keeps the op's record alive as long as the graph. */
static bool hold(bt_graph *graph, const bt_op *op)
{
    if (!op->info || !op->info->hold)
        return true;
    const bt_op **held = bt_grow(graph->held, &graph->held_capacity, graph->held_count + 1, sizeof(bt_op *));
    if (!held)
        return false;
    graph->held = held;
    graph->held[graph->held_count++] = op;
    op->info->hold(op, true);
    return true;
}

void bt_graph_note_leaf(bt_node *node)
{
    bt_map *leaves = &node->graph->leaves;
    const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    if (var && bt_map_get(leaves, var) < 0 && bt_map_put(leaves, var, node->index) != BT_OK)
        bt_graph_fail(node->graph, BT_ERROR_MEMORY, "out of memory while recording");
}

/* Adds the node to the graph and numbers its tensors. */
static void node_commit(bt_node *node)
{
    bt_graph *graph = node->graph;
    graph->nodes[graph->node_count++] = node;
    for (int i = 0; i < node->outputs; i++)
        node->out[i].id = graph->tensor_count++;
    bt_graph_note_leaf(node);
}

void bt_graph_keep(bt_graph *graph, const bool *nodes)
{
    int64_t count = graph->node_count;
    bt_map_free(&graph->leaves);
    graph->node_count = graph->tensor_count = 0;
    for (int64_t n = 0; n < count; n++) {
        if (!nodes[n])
            continue;
        graph->nodes[n]->index = graph->node_count;
        node_commit(graph->nodes[n]);
    }
}

/* The batch axis of the output of a user's op, which gives no rule: an axis that keeps its place and size. */
static int guessed_axis(const bt_node *node, const bt_array *in, const int *axes)
{
    for (int i = 0; i < node->inputs; i++) {
        int axis = axes[i];
        if (axis >= 0 && axis < node->out[0].rank && in[i].dims[axis] == node->out[0].dims[axis] &&
            (in[i].rank == node->out[0].rank || axis == 0))
            return axis;
    }
    return -1;
}

static int first_split(const int *axes, int count)
{
    int i = 0;
    while (i < count && axes[i] < 0)
        i++;
    return i;
}

bt_view bt_view_of(bt_array shape)
{
    bt_view view = {.dtype = shape.dtype, .rank = shape.rank};
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        view.dims[i] = shape.dims[i];
        view.strides[i] = stride;
        stride *= shape.dims[i];
    }
    return view;
}

bool bt_view_dense(const bt_view *view)
{
    int64_t stride = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        if (view->dims[i] == 0)
            return true;
        if (view->dims[i] != 1 && view->strides[i] != stride)
            return false;
        stride *= view->dims[i];
    }
    return true;
}

bool bt_view_repeats(const bt_view *view)
{
    bool one = true;
    for (int d = 0; d < view->rank; d++)
        one = one && (view->dims[d] == 1 || view->strides[d] == 0);
    return one;
}

int bt_shares_axis(const bt_shares *shares)
{
    int first = first_split(shares->in_axis, shares->inputs);
    return first < shares->inputs ? shares->in_axis[first] : -1;
}

bool bt_shares_along(bt_shares *shares, int axis, int outputs)
{
    for (int i = 0; i < shares->inputs; i++)
        shares->in_axis[i] = axis;
    for (int o = 0; o < outputs; o++)
        shares->out_axis[o] = axis;
    return true;
}

bool bt_node_shares(const bt_node *node, bt_shares *shares)
{
    const bt_op_info *info = node->op->info;
    for (int o = 0; o < BT_MAX_OUTPUTS; o++)
        shares->out_axis[o] = -1;
    shares->stacked = false;
    if (info && info->shares)
        return info->shares(shares);
    return info && info->flags & BT_OP_ELEMENTWISE && bt_shares_along(shares, bt_shares_axis(shares), node->outputs);
}

int bt_node_batch_axis(const bt_node *node, const bt_array *in, int *axes, int64_t rows)
{
    const bt_op_info *info = node->op->info;
    int *wanted = axes + node->inputs, first = first_split(axes, node->inputs);
    if (first == node->inputs)
        return -1;
    if (!info || !(info->shares || info->flags & BT_OP_ELEMENTWISE))
        return guessed_axis(node, in, axes);
    memcpy(wanted, axes, (size_t)node->inputs * sizeof *wanted);
    rows = rows ? rows : in[first].dims[axes[first]];
    bt_shares shares = {node->attr, in, node->inputs, rows, wanted, {0}, false};
    if (!bt_node_shares(node, &shares) || shares.rows != rows)
        return -1;
    for (int i = 0; i < node->inputs; i++)
        if (axes[i] >= 0 && wanted[i] != axes[i])
            return -1; /* each part needs all of that input */
    return shares.out_axis[0] == BT_BATCH_UNITED ? -1 : shares.out_axis[0];
}

static bt_status infer(bt_node *node)
{
    bt_array in[BT_MAX_ITEMS + 1], small_out[BT_MAX_OUTPUTS], *ins = in, *outs = small_out;
    int axes[2 * BT_MAX_ITEMS], *batch = axes;
    bt_region *region = node->graph->region;
    if (node->inputs > BT_MAX_ITEMS) {
        ins = bt_region_alloc(region, (size_t)(node->inputs + 1) * sizeof *ins);
        batch = bt_region_alloc(region, 2 * (size_t)node->inputs * sizeof *batch);
    }
    if (node->outputs > BT_MAX_OUTPUTS)
        outs = bt_region_alloc(region, (size_t)node->outputs * sizeof *outs);
    if (!ins || !batch || !outs)
        return bt_fail(BT_ERROR_MEMORY, "out of memory while recording");
    for (int i = 0; i < node->inputs; i++) {
        ins[i] = bt_tensor_array(node->in[i]);
        batch[i] = node->in[i]->batch_axis;
    }
    ins[node->inputs] = (bt_array){0};
    memset(outs, 0, (size_t)node->outputs * sizeof *outs);
    const bt_op *op = node->op;
    if (op->infer) {
        bt_guest before = bt_op_enter(op, "infer");
        bt_status status = bt_op_infer(op, node->attr, node->inputs, ins, outs);
        bt_guest_leave(before);
        BT_TRY(status);
    }
    if (!op->infer || (op->body && !op->info)) /* the library's own ops declare all that their bodies do */
        BT_TRY(bt_composite_infer(node, op->infer ? NULL : outs));
    for (int i = 0; i < node->outputs; i++) {
        if (bt_array_bytes(outs[i]) > SIZE_MAX / 4)
            return bt_fail(BT_ERROR_SHAPE, "the result is too large");
        set_shape(&node->out[i], outs[i]);
    }
    int axis = bt_node_batch_axis(node, ins, batch, 0);
    int alike = bt_op_flags(op) & BT_OP_ELEMENTWISE ? node->outputs : 1;
    for (int i = 0; i < alike; i++)
        node->out[i].batch_axis = axis < 0 ? -1 : axis;
    return BT_OK;
}

/* A user's kernel receives its operands in arrays of fixed size, so their number is limited. */
static bool check_kernels(bt_graph *graph, const bt_op *op, int inputs)
{
    if (op->kernels[BT_MAX_ITEMS].launch)
        bt_graph_fail(graph, BT_ERROR_ARGUMENT, "%s: its record lists more than %d kernels", op->name, BT_MAX_ITEMS);
    else if (op->kernels[0].launch && (inputs > BT_MAX_ITEMS || bt_op_outputs(op, inputs) > BT_MAX_OUTPUTS))
        bt_graph_fail(graph, BT_ERROR_UNSUPPORTED,
                      "%s: a kernel can have at most %d operands and %d results; found %d and %d", op->name,
                      BT_MAX_ITEMS, BT_MAX_OUTPUTS, inputs, bt_op_outputs(op, inputs));
    else
        return true;
    return false;
}

bt_node *bt_graph_append(bt_graph *graph, const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in,
                         int inputs, bt_tag tag)
{
    for (int i = 0; i < inputs; i++) {
        if (bt_poisoned(in[i])) {
            bt_graph_fail(graph, BT_ERROR_ARGUMENT, "%s: operand %d is %s", op->name, i + 1,
                          in[i] ? "poisoned, and came from another trace" : "NULL");
            return NULL;
        }
        if (in[i]->node->graph != graph) {
            bt_graph_fail(graph, BT_ERROR_ARGUMENT, "%s: operand %d belongs to another trace", op->name, i + 1);
            return NULL;
        }
    }
    if (op->inputs >= 0 && op->inputs != inputs) {
        bt_graph_fail(graph, BT_ERROR_ARGUMENT, "%s takes %d operands, found %d", op->name, op->inputs, inputs);
        return NULL;
    }
    if (!check_kernels(graph, op, inputs))
        return NULL;
    bt_node *node = node_new(graph, op, attr, attr_size, inputs, bt_op_outputs(op, inputs), tag);
    if (!node)
        return NULL;
    if (inputs)
        memcpy(node->in, in, (size_t)inputs * sizeof *node->in);
    bt_status before = bt_error_status();
    bt_status status = infer(node);
    if (status != BT_OK) {
        bt_graph_fail(graph, status, "%s", bt_error());
        if (before == BT_OK) /* the graph keeps the message now; it is reported when the graph is compiled */
            bt_error_clear();
        return NULL;
    }
    if (!hold(graph, op)) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
        return NULL;
    }
    node_commit(node);
    return node;
}

static bt_tensor *leaf(bt_graph *graph, const bt_op *op, const void *attr, size_t attr_size, bt_array shape, bt_tag tag)
{
    bt_node *node = node_new(graph, op, attr, attr_size, 0, 1, tag);
    if (!node)
        return graph->poison;
    set_shape(node->out, shape);
    node_commit(node);
    return node->out;
}

bt_tensor *bt_graph_constant(bt_graph *graph, bt_array values)
{
    size_t bytes = bt_array_bytes(values);
    if (bytes == SIZE_MAX || (bytes && !values.data))
        return bt_graph_fail(graph, BT_ERROR_ARGUMENT, "constant: the array has no values");
    bt_trace *trace = bt_trace_now();
    return leaf(graph, &bt_op_constant, values.data, bytes, values,
                trace && trace->graph == graph ? bt_trace_tag(trace) : (bt_tag){.owner = "", .path = ""});
}

/* Index of the variable's assign; -1: none. It may have moved if assigns were removed. */
static int64_t find_assign(const bt_graph *graph, const bt_var *var)
{
    int64_t i = bt_map_get(&graph->assigned, var);
    if (i < 0 || (i < graph->assign_count && graph->assigns[i].var == var))
        return i;
    for (i = graph->assign_count - 1; i >= 0 && graph->assigns[i].var != var;)
        i--;
    return i;
}

bt_tensor *bt_graph_assigned(const bt_graph *graph, const bt_var *var)
{
    int64_t i = find_assign(graph, var);
    return i < 0 ? NULL : graph->assigns[i].value;
}

void bt_graph_retarget(bt_graph *graph, int64_t assign, bt_var *var)
{
    if (bt_map_put(&graph->assigned, var, assign) != BT_OK)
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
    graph->assigns[assign].var = var;
}

void bt_graph_assign(bt_graph *graph, bt_var *var, bt_tensor *value)
{
    if (bt_poisoned(value)) {
        bt_graph_fail(graph, BT_ERROR_ARGUMENT, "a value that is assigned is missing");
        return;
    }
    int64_t known = find_assign(graph, var);
    if (known >= 0) {
        graph->assigns[known].value = value;
        return;
    }
    bt_assign *assigns =
        bt_grow(graph->assigns, &graph->assign_capacity, graph->assign_count + 1, sizeof *graph->assigns);
    if (assigns)
        graph->assigns = assigns;
    if (!assigns || bt_map_put(&graph->assigned, var, graph->assign_count) != BT_OK) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
        return;
    }
    graph->assigns[graph->assign_count++] = (bt_assign){var, value};
}

void bt_graph_output(bt_graph *graph, bt_tensor *value)
{
    if (bt_poisoned(value)) {
        bt_graph_fail(graph, BT_ERROR_ARGUMENT, "a result is missing");
        return;
    }
    bt_tensor **outputs =
        bt_grow(graph->outputs, &graph->output_capacity, graph->output_count + 1, sizeof(bt_tensor *));
    if (!outputs) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while recording");
        return;
    }
    graph->outputs = outputs;
    graph->outputs[graph->output_count++] = value;
}

bt_tensor **bt_graph_list(bt_graph *graph, int64_t count)
{
    bt_tensor **items = bt_region_alloc(graph->region, (size_t)(count + 1) * sizeof *items);
    if (!items)
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
    return items;
}

bt_tensor *bt_graph_read(bt_graph *graph, bt_var *var)
{
    int64_t known = bt_map_get(&graph->leaves, var);
    if (known >= 0)
        return graph->nodes[known]->out;
    bt_read_attr attr = {var};
    return leaf(graph, &bt_op_read, &attr, sizeof attr, bt_var_array(var),
                (bt_tag){.owner = var->owner, .level = var->owner, .path = var->name});
}

bt_tensor *bt_graph_placeholder(bt_graph *graph, const bt_tensor *like)
{
    bt_read_attr attr = {NULL};
    bt_tensor *x =
        leaf(graph, &bt_op_read, &attr, sizeof attr, bt_tensor_array(like), (bt_tag){.owner = "", .path = ""});
    if (x->node)
        x->batch_axis = like->batch_axis;
    return x;
}

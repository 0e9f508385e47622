/* transform/grad.c: vjp and jvp over a graph. Each walks the nodes once and asks each op for its rule. */
#include "transform/grad.h"

#include "ops/ops.h"
#include <string.h>

/* Everything that one walk needs, by tensor id. */
typedef struct walk {
    bt_graph *graph;
    int64_t nodes; /* the number at the start; the walk appends more */
    bool through;
    bool *given;       /* is an x */
    bool *moves;       /* depends on an x */
    bool *matters;     /* a y depends on it */
    bt_tensor **value; /* cotangents or tangents */
    bt_tensor **kept;  /* its cast to 16 bits, if that is its only reader; else the value itself; NULL: not read */
} walk;

static bool differentiable(const walk *w, const bt_node *node, int input)
{
    unsigned flags = bt_op_flags(node->op);
    if (flags & BT_OP_DETACH)
        return w->through && !w->given[node->out->id]; /* a detached value that is an x stays detached */
    if (flags & BT_OP_LEAF || !bt_dtype_floats(node->in[input]->dtype))
        return false;
    const bt_op_info *info = node->op->info;
    return !info || info->derived_body ||
           (input < 32 ? (info->differentiable >> input) & 1u : info->differentiable == ~0u);
}

/* If a result is stored only in 16 bits, its op's rule gets the stored value. */
static void find_kept(walk *w)
{
    const bt_graph *graph = w->graph;
    for (int64_t n = 0; n < w->nodes; n++) {
        const bt_node *node = graph->nodes[n];
        for (int i = 0; i < node->inputs; i++) {
            bt_tensor **kept = &w->kept[node->in[i]->id];
            bool first = !*kept && node->op == &bt_op_cast && bt_dtype_half(node->out->dtype);
            *kept = first ? node->out : node->in[i];
        }
    }
}

static bool walk_start(walk *w, bt_graph *graph, bool through)
{
    size_t count = (size_t)graph->tensor_count + 1;
    *w = (walk){.graph = graph, .nodes = graph->node_count, .through = through};
    w->given = bt_alloc_array(count, sizeof *w->given);
    w->moves = bt_alloc_array(count, sizeof *w->moves);
    w->matters = bt_alloc_array(count, sizeof *w->matters);
    w->value = bt_alloc_array(count, sizeof(bt_tensor *));
    w->kept = bt_alloc_array(count, sizeof(bt_tensor *));
    if (w->given && w->moves && w->matters && w->value && w->kept) {
        find_kept(w);
        return true;
    }
    bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while differentiating");
    return false;
}

static void walk_end(walk *w)
{
    bt_free(w->given);
    bt_free(w->moves);
    bt_free(w->matters);
    bt_free(w->value);
    bt_free(w->kept);
}

static bool any_output(const bool *flags, const bt_node *node)
{
    for (int i = 0; i < node->outputs; i++)
        if (flags[node->out[i].id])
            return true;
    return false;
}

/* Marks the tensors on a path from an x to a y. */
static void mark(walk *w, bt_tensor *const *x, int xs, bt_tensor *const *y, int ys)
{
    for (int i = 0; i < xs; i++)
        w->given[x[i]->id] = w->moves[x[i]->id] = true;
    for (int j = 0; j < ys; j++)
        if (!bt_poisoned(y[j]))
            w->matters[y[j]->id] = true;
    for (int64_t n = 0; n < w->nodes; n++) {
        bt_node *node = w->graph->nodes[n];
        bool moves = false;
        for (int i = 0; i < node->inputs && !moves; i++)
            moves = w->moves[node->in[i]->id] && differentiable(w, node, i);
        for (int i = 0; moves && i < node->outputs; i++)
            w->moves[node->out[i].id] |= bt_dtype_floats(node->out[i].dtype);
    }
    for (int64_t n = w->nodes - 1; n >= 0; n--) {
        bt_node *node = w->graph->nodes[n];
        if (!any_output(w->matters, node))
            continue;
        for (int i = 0; i < node->inputs; i++)
            if (differentiable(w, node, i))
                w->matters[node->in[i]->id] = true;
    }
}

/* Lists for one node's rule: inputs (ending with NULL), outputs, given and wanted derivatives. */
typedef struct lists {
    bt_tensor **in, **out, **given, **wanted;
} lists;

static bool lists_of(const walk *w, bt_node *node, int given, int wanted, lists *l)
{
    size_t count = (size_t)(node->inputs + 1 + node->outputs + given + wanted);
    bt_tensor **room = bt_region_alloc(node->graph->region, count * sizeof *room);
    if (!room) {
        bt_graph_fail(node->graph, BT_ERROR_MEMORY, "out of memory while differentiating");
        return false;
    }
    *l = (lists){room, room + node->inputs + 1, room + node->inputs + 1 + node->outputs,
                 room + node->inputs + 1 + node->outputs + given};
    for (int i = 0; i < node->inputs; i++)
        l->in[i] = node->in[i];
    for (int i = 0; i < node->outputs; i++) {
        bt_tensor *kept = w->kept[node->out[i].id];
        l->out[i] = kept && kept->dtype != node->out[i].dtype ? bt_wide(kept) : &node->out[i];
    }
    return true;
}

static void call(const bt_node *node, bt_derivative_fn *rule, const char *name, lists *l)
{
    bt_guest before = bt_op_enter(node->op, name);
    rule(node->attr, l->in, l->out, l->given, l->wanted);
    bt_guest_leave(before);
}

/* A rule whose result has the wrong shape is a fault in the op's record. */
static bt_tensor *checked(const bt_node *node, bt_tensor *found, const bt_tensor *like, const char *rule)
{
    if (!found || !found->node)
        return found;
    if (bt_array_same(bt_tensor_array(found), bt_tensor_array(like)))
        return found;
    char a[256], b[256];
    return bt_graph_fail(node->graph, BT_ERROR_INTERNAL, "%s: its %s rule gives %s%s where %s%s is expected",
                         node->op->name, rule, bt_dtype_name(found->dtype), bt_shape_text(a, found->rank, found->dims),
                         bt_dtype_name(like->dtype), bt_shape_text(b, like->rank, like->dims));
}

static void no_rule(const bt_node *node)
{
    bt_text text = {0};
    bt_node_describe(node, &text);
    bt_graph_fail(node->graph, BT_ERROR_UNSUPPORTED, "%s has no derivative: give its record a body or a rule (%s)",
                  node->op->name, bt_text_get(&text));
    bt_text_free(&text);
}

static void pull(walk *w, bt_node *node)
{
    lists l;
    if (!lists_of(w, node, node->outputs, node->inputs, &l))
        return;
    for (int i = 0; i < node->outputs; i++)
        l.given[i] = w->value[node->out[i].id];
    if (bt_op_flags(node->op) & BT_OP_DETACH)
        l.wanted[0] = l.given[0];
    else if (node->op->vjp)
        call(node, node->op->vjp, "vjp", &l);
    else if (bt_op_is_composite(node->op))
        bt_derive_vjp(node, l.given, l.wanted, w->through);
    else
        no_rule(node);
    for (int i = 0; i < node->inputs; i++) {
        int64_t id = node->in[i]->id;
        if (l.wanted[i] && w->moves[id] && differentiable(w, node, i))
            w->value[id] = bt_accumulate(w->value[id], checked(node, l.wanted[i], node->in[i], "vjp"));
    }
}

void bt_vjp(bt_graph *graph, bt_tensor *const *y, bt_tensor *const *cotangent, int ys, bt_tensor *const *x, int xs,
            bt_tensor **result, bool through)
{
    bt_trace *trace = bt_trace_now();
    walk w;
    memset(result, 0, (size_t)xs * sizeof(bt_tensor *));
    for (int i = 0; i < xs; i++)
        if (bt_poisoned(x[i]))
            return;
    if (walk_start(&w, graph, through)) {
        bt_tag tag = bt_trace_tag(trace);
        mark(&w, x, xs, y, ys);
        for (int j = 0; j < ys; j++)
            if (!bt_poisoned(y[j]) && cotangent[j] && w.moves[y[j]->id])
                w.value[y[j]->id] = bt_accumulate(w.value[y[j]->id], cotangent[j]);
        for (int64_t n = w.nodes - 1; n >= 0 && graph->status == BT_OK; n--) {
            bt_node *node = graph->nodes[n];
            bool given = false, wanted = false;
            for (int i = 0; i < node->outputs; i++)
                given |= w.value[node->out[i].id] != NULL;
            for (int i = 0; given && i < node->inputs; i++)
                wanted |= w.moves[node->in[i]->id] && differentiable(&w, node, i);
            if (wanted) {
                bt_trace_as(trace, &node->tag);
                trace->tag.order++;
                pull(&w, node);
            }
        }
        bt_trace_as(trace, &tag);
        for (int i = 0; i < xs; i++)
            result[i] = w.value[x[i]->id];
    }
    walk_end(&w);
}

/* jvp by way of vjp: a vjp is linear in its cotangents, and the adjoint of that map is the jvp. The point at which it
 * is taken does not matter, so the cotangents are zero. */
static void push_by_vjp(const walk *w, const bt_node *node, const lists *l)
{
    int inputs = node->inputs, outputs = node->outputs, ys = 0, xs = 0;
    bt_tensor **u = bt_region_alloc(node->graph->region, (size_t)(3 * outputs + 3 * inputs + 1) * sizeof *u);
    if (!u) {
        bt_graph_fail(node->graph, BT_ERROR_MEMORY, "out of memory while differentiating");
        return;
    }
    bt_tensor **x = u + outputs, **result = x + outputs, **pulled = result + outputs, **y = pulled + inputs,
              **given = y + inputs;
    for (int o = 0; o < outputs; o++)
        if (bt_dtype_floats(node->out[o].dtype))
            x[xs++] = u[o] = bt_alias(bt_zeros_like(&node->out[o]));
    bt_guest before = bt_op_enter(node->op, "vjp");
    node->op->vjp(node->attr, l->in, l->out, u, pulled);
    bt_guest_leave(before);
    for (int i = 0; i < inputs; i++)
        if (l->given[i] && pulled[i]) {
            y[ys] = checked(node, pulled[i], node->in[i], "vjp");
            given[ys++] = l->given[i];
        }
    bt_vjp(node->graph, y, given, ys, x, xs, result, w->through);
    for (int o = 0, next = 0; o < outputs; o++)
        if (u[o])
            l->wanted[o] = result[next++];
}

static void push(walk *w, bt_node *node)
{
    lists l;
    if (!lists_of(w, node, node->inputs, node->outputs, &l))
        return;
    for (int i = 0; i < node->inputs; i++)
        l.given[i] = differentiable(w, node, i) ? w->value[node->in[i]->id] : NULL;
    if (bt_op_flags(node->op) & BT_OP_DETACH)
        l.wanted[0] = l.given[0];
    else if (node->op->jvp)
        call(node, node->op->jvp, "jvp", &l);
    else if (bt_op_is_composite(node->op))
        bt_derive_jvp(node, l.given, l.wanted, w->through);
    else if (node->op->vjp)
        push_by_vjp(w, node, &l);
    else
        no_rule(node);
    for (int i = 0; i < node->outputs; i++)
        if (l.wanted[i] && bt_dtype_floats(node->out[i].dtype)) {
            int64_t id = node->out[i].id;
            w->value[id] = bt_accumulate(w->value[id], checked(node, l.wanted[i], &node->out[i], "jvp"));
        }
}

void bt_jvp(bt_graph *graph, bt_tensor *const *x, bt_tensor *const *tangent, int xs, bt_tensor *const *y, int ys,
            bt_tensor **result, bool through)
{
    bt_trace *trace = bt_trace_now();
    walk w;
    memset(result, 0, (size_t)ys * sizeof(bt_tensor *));
    for (int i = 0; i < xs; i++)
        if (bt_poisoned(x[i]))
            return;
    if (walk_start(&w, graph, through)) {
        bt_tag tag = bt_trace_tag(trace);
        mark(&w, x, xs, y, ys);
        for (int i = 0; i < xs; i++)
            if (tangent[i])
                w.value[x[i]->id] = bt_accumulate(w.value[x[i]->id], tangent[i]);
        for (int64_t n = 0; n < w.nodes && graph->status == BT_OK; n++) {
            bt_node *node = graph->nodes[n];
            bool given = false;
            if (any_output(w.matters, node))
                for (int i = 0; i < node->inputs; i++)
                    given |= w.value[node->in[i]->id] != NULL && differentiable(&w, node, i);
            if (given) {
                bt_trace_as(trace, &node->tag);
                trace->tag.order++;
                push(&w, node);
            }
        }
        bt_trace_as(trace, &tag);
        for (int j = 0; j < ys; j++)
            result[j] = bt_poisoned(y[j]) ? NULL : w.value[y[j]->id];
    }
    walk_end(&w);
}

/* A loss reads the parameters one by one, not the vector into which bt_params joins them. */
static bt_tensor *grad_of_params(bt_graph *graph, bt_tensor *y, bt_tensor *vector)
{
    bool joined = vector->node->op == &bt_op_concat;
    int count = joined ? vector->node->inputs : 1;
    bt_tensor *const *in = joined ? vector->node->in : &vector, *one = bt_number(1, y->dtype);
    bt_tensor **parts = bt_region_alloc(graph->region, (size_t)count * 2 * sizeof *parts), **grads = parts + count;
    if (!parts)
        return bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < count; i++)
        parts[i] = in[i]->node->op == &bt_op_reshape ? in[i]->node->in[0] : in[i];
    bt_vjp(graph, &y, &one, 1, parts, count, grads, false);
    for (int i = 0; i < count; i++)
        grads[i] = bt_reshape(grads[i] ? grads[i] : bt_zeros_like(parts[i]), -1);
    return joined ? bt_concat_list(0, grads, count) : grads[0];
}

bt_tensor *bt_grad(bt_tensor *y, bt_tensor *wrt)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_grad: derivatives can only be taken inside a traced callback");
    if (bt_poisoned(y) || bt_poisoned(wrt))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_grad: an operand is NULL or poisoned");
    if (bt_tensor_count(y) != 1 || y->rank != 0) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "bt_grad: the first operand must be a scalar, found %s",
                               bt_shape_text(shape, y->rank, y->dims));
    }
    if (wrt->params)
        return grad_of_params(trace->graph, y, wrt);
    bt_tensor *one = bt_number(1, y->dtype), *result;
    bt_vjp(trace->graph, &y, &one, 1, &wrt, 1, &result, false);
    return result ? result : bt_zeros_like(wrt);
}

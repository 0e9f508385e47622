/* transform/reassociate.c: multiplies chains of matrix products in the cheapest order, by the recurrence over all
 * parenthesisations (Godbole, "On efficient computation of matrix chain products", 1973). */
#include "transform/reassociate.h"

#include "ops/ops.h"
#include "transform/rewrite.h"
#include "transform/simplify.h"

enum { MOST = 16 }; /* factors of a chain, at most; a longer one is cut */

/* Cost per call and per byte: the f32 operations that a core of about 100 GFlop/s could do in the third of a
 * microsecond that a call takes, or while a byte moves to or from its outer caches. */
#define CALL_COST 3e4
#define BYTE_COST 4.0

/* A chain that would gain less than this fraction stays: the estimate is no more accurate than that. */
#define LEAST_GAIN 0.1

typedef struct factor { /* a matrix, or its transpose */
    const bt_tensor *x;
    bool turned;
} factor;

typedef struct chain {
    factor factors[MOST];
    int64_t dims[MOST + 1]; /* factor i is [dims[i], dims[i + 1]] */
    int count;
    bt_dtype low;  /* the precision of its products; products of another precision do not belong to it */
    struct whole { /* the product of factors `from` to `to`, which is computed in any case */
        factor product;
        int from, to;
    } wholes[MOST];
    int whole_count;
    double now; /* cost of what the chain alone needs */
    double best[MOST][MOST];
    int cut[MOST][MOST]; /* the best split of i .. j: i .. cut times cut + 1 .. j; KEPT + k: wholes[k] */
} chain;

enum { KEPT = 2 * MOST };

typedef struct pass {
    bt_rewrite rewrite;
    int64_t *uses;   /* by tensor id: reads by live nodes, assigns and results */
    bt_node **users; /* by tensor id: the last reader */
    bool changed;
} pass;

double bt_product_cost(bt_dtype dtype, int64_t g, int64_t m, int64_t k, int64_t n)
{
    double size = (double)bt_dtype_size(dtype), products = (double)g, rows = (double)m, inner = (double)k;
    double columns = (double)n, values = rows * inner + inner * columns + rows * columns;
    double flops = 2 * rows * inner * columns * size / (double)bt_dtype_size(BT_F32);
    return CALL_COST + products * (flops + BYTE_COST * size * values);
}

/* ---- products ---- */

static bool is_product(const bt_node *node) { return node->op == &bt_op_dot || node->op == &bt_op_linear; }

static int64_t group(const bt_tensor *x)
{
    int64_t count = 1;
    for (int i = 0; i < x->rank - 2; i++)
        count *= x->dims[i];
    return count;
}

static double cost_of(const bt_node *node)
{
    const bt_tensor *y = node->out, *a = node->in[0];
    return bt_product_cost(y->dtype, group(y), y->dims[y->rank - 2], a->dims[a->rank - 1], y->dims[y->rank - 1]);
}

/* Whether its only reader is a product that has it as a factor: then it belongs to that product's chain. */
static bool within_chain(const pass *p, const bt_node *node)
{
    if (node->op != &bt_op_dot)
        return false;
    for (const bt_tensor *x = node->out;;) {
        const bt_node *user = p->users[x->id];
        if (p->uses[x->id] != 1 || !user)
            return false;
        if (!bt_transposes(user))
            return is_product(user) && user->tag.low == node->tag.low;
        x = user->out;
    }
}

/* ---- the chain of a product ---- */

/* Appends the factors of x: at least one, at most `room`. shared: a product that contains x is also read outside this
 * chain. */
static void add_factors(const pass *p, chain *c, const bt_tensor *x, bool turned, bool shared, int room)
{
    for (;; turned = !turned) {
        shared |= p->uses[x->id] != 1;
        if (!bt_transposes(x->node))
            break;
        x = x->node->in[0];
    }
    if (x->node->op != &bt_op_dot || x->node->tag.low != c->low || room < 2) {
        int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
        c->dims[c->count] = turned ? columns : rows;
        c->dims[c->count + 1] = turned ? rows : columns;
        c->factors[c->count++] = (factor){x, turned};
        return;
    }
    int from = c->count;
    add_factors(p, c, x->node->in[turned], turned, shared, room - 1);
    add_factors(p, c, x->node->in[!turned], turned, shared, room - (c->count - from));
    if (!shared)
        c->now += cost_of(x->node);
    else if (p->uses[x->id] > 0) /* 0: the product that read it has been rewritten */
        c->wholes[c->whole_count++] = (struct whole){{x, turned}, from, c->count - 1};
}

static void find_chain(const pass *p, chain *c, const bt_node *node)
{
    c->count = c->whole_count = 0;
    c->low = node->tag.low;
    c->now = cost_of(node);
    add_factors(p, c, node->in[0], false, false, MOST - 1);
    add_factors(p, c, node->in[1], node->op == &bt_op_linear, false, MOST - c->count);
}

static void best_way(chain *c, const bt_tensor *product, int i, int j)
{
    c->best[i][j] = 0;
    for (int k = 0; k < c->whole_count; k++)
        if (c->wholes[k].from == i && c->wholes[k].to == j) {
            c->cut[i][j] = KEPT + k;
            return;
        }
    for (int s = i; s < j; s++) {
        double last = bt_product_cost(product->dtype, group(product), c->dims[i], c->dims[s + 1], c->dims[j + 1]);
        double all = c->best[i][s] + c->best[s + 1][j] + last;
        if (s == i || all < c->best[i][j]) {
            c->best[i][j] = all;
            c->cut[i][j] = s;
        }
    }
}

static void solve(chain *c, const bt_tensor *product)
{
    for (int length = 1; length <= c->count; length++)
        for (int i = 0; i + length <= c->count; i++)
            best_way(c, product, i, i + length - 1);
}

/* ---- the new products ---- */

/* The old graph's x, with one more reader. */
static bt_tensor *take(pass *p, factor f, bool turned)
{
    bt_tensor *x = p->rewrite.map[f.x->id];
    p->uses[f.x->id]++;
    return f.turned != turned ? bt_transpose(x) : x;
}

static bt_tensor *multiply(pass *p, const chain *c, int i, int j)
{
    int cut = c->cut[i][j];
    if (i == j)
        return take(p, c->factors[i], false);
    if (cut >= KEPT)
        return take(p, c->wholes[cut - KEPT].product, false);
    return bt_dot(multiply(p, c, i, cut), multiply(p, c, cut + 1, j));
}

/* The transpose of the product of factors i .. j; a view if there are several. */
static bt_tensor *multiply_turned(pass *p, const chain *c, int i, int j)
{
    return i == j ? take(p, c->factors[i], true) : bt_transpose(multiply(p, c, i, j));
}

/* The node no longer reads its inputs; products left without a reader read nothing either. */
static void release(pass *p, const bt_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        const bt_node *source = node->in[i]->node;
        if (--p->uses[node->in[i]->id] == 0 && (is_product(source) || bt_transposes(source)))
            release(p, source);
    }
}

static void rewrite_product(pass *p, const chain *c, const bt_node *node)
{
    int cut = c->cut[0][c->count - 1], last = c->count - 1;
    bt_trace_as(&p->rewrite.trace, &node->tag);
    bt_tensor *y;
    if (node->op == &bt_op_linear) {
        bt_tensor *a = multiply(p, c, 0, cut), *b = multiply_turned(p, c, cut + 1, last);
        p->uses[node->in[2]->id]++;
        y = BT_RECORD(&bt_op_linear, (const bt_linear_attr *)node->attr, a, b, p->rewrite.map[node->in[2]->id]);
    } else {
        y = multiply(p, c, 0, last);
    }
    if (!bt_poisoned(y))
        y->batch_axis = node->out->batch_axis;
    p->rewrite.map[node->out->id] = y;
    release(p, node);
}

/* ---- the walk ---- */

static void look(pass *p, chain *c, const bt_node *node)
{
    if (is_product(node) && !within_chain(p, node)) {
        find_chain(p, c, node);
        if (c->count > 2) {
            solve(c, node->out);
            if (c->best[0][c->count - 1] < (1 - LEAST_GAIN) * c->now) {
                p->changed = true;
                rewrite_product(p, c, node);
                return;
            }
        }
    }
    bt_rewrite_copy(&p->rewrite, node);
}

/* Whether there can be a chain of three. If not, there is nothing to do and the graph need not be copied. */
static bool has_chain(const bt_graph *graph)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        for (int i = 0; i < 2 && is_product(graph->nodes[n]); i++) {
            const bt_tensor *x = graph->nodes[n]->in[i];
            while (bt_transposes(x->node))
                x = x->node->in[0];
            if (x->node->op == &bt_op_dot)
                return true;
        }
    return false;
}

static double total_cost(const bt_graph *graph)
{
    double sum = 0;
    for (int64_t n = 0; n < graph->node_count; n++)
        if (is_product(graph->nodes[n]))
            sum += cost_of(graph->nodes[n]);
    return sum;
}

/* The graph with its chains in the best order, and the old products still in it; NULL after an error. */
static bt_graph *rewrite(const bt_graph *graph, bool *changed)
{
    size_t tensors = (size_t)graph->tensor_count + 1;
    pass p = {.changed = false};
    bool *live = bt_live_nodes(graph);
    chain *c = bt_alloc(sizeof *c);
    bt_graph *result = NULL;
    p.uses = bt_alloc_array(tensors, sizeof *p.uses);
    p.users = bt_alloc_array(tensors, sizeof(bt_node *));
    if (live && c && p.uses && p.users && bt_rewrite_begin(&p.rewrite, graph)) {
        bt_count_uses(graph, live, p.uses, p.users);
        for (int64_t n = 0; n < graph->node_count && p.rewrite.to->status == BT_OK; n++)
            if (live[n])
                look(&p, c, graph->nodes[n]);
        result = bt_rewrite_end(&p.rewrite);
    }
    *changed = p.changed;
    bt_free(live);
    bt_free(c);
    bt_free(p.uses);
    bt_free(p.users);
    return result;
}

bt_status bt_reassociate(const bt_graph *graph, bt_graph **shorter, double *saved)
{
    bool changed;
    *shorter = NULL;
    *saved = 0;
    if (!has_chain(graph))
        return BT_OK;
    bt_graph *found = rewrite(graph, &changed);
    BT_TRY(bt_simplify_found(found, changed, false, shorter));
    if (*shorter)
        *saved = total_cost(graph) - total_cost(*shorter);
    if (*saved <= 0) {
        bt_graph_free(*shorter);
        *shorter = NULL;
        *saved = 0;
    }
    return BT_OK;
}

/* compile/hold.c: chooses what is held between two parts of a computation: a minimum cut (plan/cut.h) of the first
 * part's graph, between the values that must not be recomputed and those that the second part reads. */
#include "compile/hold.h"

#include "base/map.h"
#include "base/overlap.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "plan/cut.h"
#include "transform/rewrite.h"

enum {
    SMALL = 4096,  /* bytes: a value this small is held rather than recomputed; a kernel call costs as much as reading a
                      few thousand bytes */
    STRETCHES = 8, /* of the second part: a recomputed value is reused only within one of them */
    SHRINKS = 4 /* an op whose output is this many times smaller is a reduction: repeating it costs a pass over values
                   not held */
};

const char *const bt_holding_names[BT_HOLDINGS] = {"all", "products", "forward", "cuts", "nothing"};

typedef struct hold {
    const bt_graph *once, *each;
    bt_holding holding;
    bt_overlaps changed; /* variables that either part assigns, except those that keep values */
    bt_map keeps;        /* the variables that keep values for the second part */
    bt_var **kept;       /* by tensor of the first part: the variable that keeps it; NULL: none */
    bool *wanted;        /* by tensor of the first part: the second part reads it */
    bool *ends;          /* by node of the first part: a cut of the forward pass */
    bool *skips;         /* by node of the first part: its value bypasses a product, as one of its inputs already did */
    int64_t *number;     /* by tensor of the first part: its index in values; -1: not in the cut */
    bt_cut_value *values;
    bt_cut_need *needs;
    const bt_tensor **tensors; /* by value of the cut */
    int64_t count, need_count;
} hold;

static const bt_var *read_of(const bt_node *node)
{
    return node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
}

/* Whether the assign keeps a value for the second part. */
static bool keeps(const hold *h, const bt_assign *assign) { return bt_map_get(&h->keeps, assign->var) >= 0; }

/* ---- which values may be recomputed ---- */

static double bytes_in(const bt_node *node)
{
    double sum = 0;
    for (int i = 0; i < node->inputs; i++)
        sum += (double)bt_tensor_bytes(node->in[i]);
    return sum;
}

static double bytes_out(const bt_node *node)
{
    double sum = 0;
    for (int o = 0; o < node->outputs; o++)
        sum += (double)bt_tensor_bytes(&node->out[o]);
    return sum;
}

static bool changes(hold *h, const bt_node *node)
{
    const bt_var *var = read_of(node);
    if (!var)
        return false;
    size_t start = bt_var_start(var);
    bt_overlaps_find(&h->changed, (uintptr_t)(var->base ? var->base : var), start, start + var->bytes);
    return h->changed.found_count > 0;
}

static bool is_cheap(const bt_node *node) { return bt_op_flags(node->op) & (BT_OP_LEAF | BT_OP_CHEAP); }

/* Whether the node costs little more than a pass over memory. The cost of a user's op is unknown. */
static bool is_light(const bt_node *node)
{
    return node->op->info && !(bt_op_flags(node->op) & BT_OP_PRODUCT) && SHRINKS * bytes_out(node) > bytes_in(node);
}

/* Whether the node is computed from nearby values. A residual sum is not: it would have to be added up from its first
 * term. */
static bool is_near(const hold *h, const bt_node *node) { return is_light(node) && !h->skips[node->index]; }

static bool may_repeat(hold *h, const bt_node *node)
{
    if (is_cheap(node))
        return !changes(h, node);
    bool near = is_near(h, node), derived = node->tag.order > 0;
    const bool repeats[BT_HOLDINGS] = {[BT_HOLD_PRODUCTS] = near,
                                       [BT_HOLD_FORWARD] = near || derived,
                                       [BT_HOLD_CUTS] = derived || !h->ends[node->index],
                                       [BT_HOLD_NOTHING] = true};
    return repeats[h->holding];
}

static bool is_small(const hold *h, const bt_tensor *x)
{
    return h->holding != BT_HOLD_NOTHING && !is_cheap(x->node) && bt_tensor_bytes(x) <= SMALL;
}

/* ---- the cuts of the forward pass ---- */

/* The tensor under a chain of cheap views. */
static const bt_tensor *bare(const bt_tensor *x)
{
    while (is_cheap(x->node) && x->node->inputs > 0)
        x = x->node->in[0];
    return x;
}

static bool goes_on(const bt_tensor *x)
{
    return x->node->tag.order == 0 && !is_cheap(x->node) && bt_tensor_bytes(x) > SMALL;
}

/* Returns how many products (0 or 1) the path of light nodes to this node bypasses. An input that would bypass a second
 * product is marked in h->skips instead. products: by node, the longest chain of products that leads to it. */
static int64_t hops_of(hold *h, const bt_node *node, const int64_t *products, const int64_t *hops)
{
    int64_t most = 0;
    for (int i = 0; i < node->inputs; i++) {
        const bt_node *source = bare(node->in[i])->node;
        int64_t s = source->index;
        bool past = source->tag.order == node->tag.order && products[s] < products[node->index];
        if (is_cheap(source) || !is_near(h, source))
            continue;
        h->skips[s] = past && hops[s] > 0;
        most = h->skips[s] || hops[s] + past < most ? most : hops[s] + past;
    }
    return most;
}

static bt_status find_skips(hold *h)
{
    const bt_graph *graph = h->once;
    int64_t *products = bt_alloc_array((size_t)graph->node_count + 1, sizeof *products);
    int64_t *hops = bt_alloc_array((size_t)graph->node_count + 1, sizeof *hops);
    for (int64_t n = 0; products && hops && n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        for (int i = 0; i < node->inputs; i++) {
            int64_t before = products[node->in[i]->node->index];
            products[n] = before > products[n] ? before : products[n];
        }
        if (!is_cheap(node) && is_light(node))
            hops[n] = hops_of(h, node, products, hops);
        products[n] += (bt_op_flags(node->op) & BT_OP_PRODUCT) != 0;
    }
    bool there = products && hops;
    bt_free(products);
    bt_free(hops);
    return there ? BT_OK : BT_ERROR_MEMORY;
}

/* By node: the last node of the forward pass that reads its first output; itself if none does. */
static void find_last(const bt_graph *graph, int64_t *last)
{
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        last[n] = n;
        for (int i = 0; node->tag.order == 0 && i < node->inputs; i++)
            last[bare(node->in[i])->node->index] = n;
    }
}

/* Finds the values after which no other large value is alive. Between two products it keeps the smallest of them; of
 * equals, the last. */
static bt_status find_ends(hold *h)
{
    const bt_graph *graph = h->once;
    int64_t *last = bt_alloc_array((size_t)graph->node_count + 1, sizeof *last);
    int64_t *ending = bt_alloc_array((size_t)graph->node_count + 1, sizeof *ending); /* values read last there */
    if (!last || !ending) {
        bt_free(last);
        bt_free(ending);
        return BT_ERROR_MEMORY;
    }
    find_last(graph, last);
    int64_t alive = 0, best = -1;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        bool large = goes_on(node->out) && last[n] > n;
        if (node->tag.order == 0 && bt_op_flags(node->op) & BT_OP_PRODUCT)
            best = -1;
        alive += large - ending[n];
        ending[last[n]] += large;
        if (!large || alive != 1)
            continue;
        if (best >= 0 && bytes_out(node) > bytes_out(graph->nodes[best]))
            continue;
        if (best >= 0)
            h->ends[best] = false;
        h->ends[n] = true;
        best = n;
    }
    bt_free(last);
    bt_free(ending);
    return BT_OK;
}

/* ---- the cut ---- */

static bt_status list_changed(hold *h)
{
    const bt_graph *parts[] = {h->once, h->each};
    BT_TRY(bt_overlaps_new(&h->changed, h->once->assign_count + h->each->assign_count));
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < parts[p]->assign_count; i++) {
            const bt_var *var = parts[p]->assigns[i].var;
            size_t start = bt_var_start(var);
            if (p == 1 || !keeps(h, &parts[p]->assigns[i]))
                h->changed.stretches[h->changed.count++] =
                    (bt_stretch){(uintptr_t)(var->base ? var->base : var), start, start + var->bytes, i};
        }
    bt_overlaps_sort(&h->changed);
    return BT_OK;
}

static void add_value(hold *h, const bt_tensor *x, bool given)
{
    int64_t bytes = (int64_t)((bt_tensor_bytes(x) + BT_ALIGN - 1) / BT_ALIGN * BT_ALIGN);
    h->number[x->id] = h->count;
    h->tensors[h->count] = x;
    h->values[h->count++] =
        (bt_cut_value){.bytes = is_cheap(x->node) && !given ? -1 : bytes, .given = given, .wanted = h->wanted[x->id]};
}

/* Lists values backwards, from those that are wanted to those that are given. `needed` is by tensor. */
static void list_values(hold *h, bool *needed)
{
    for (int64_t n = h->once->node_count - 1; n >= 0; n--) {
        const bt_node *node = h->once->nodes[n];
        bool repeats = may_repeat(h, node), made = false;
        if (repeats && (bt_op_flags(node->op) & BT_OP_LEAF))
            continue; /* a leaf costs nothing */
        for (int o = 0; o < node->outputs; o++) {
            const bt_tensor *x = &node->out[o];
            if (!needed[x->id] && !h->wanted[x->id])
                continue;
            bool given = !repeats || is_small(h, x);
            add_value(h, x, given);
            made |= !given;
        }
        for (int i = 0; made && i < node->inputs; i++)
            needed[node->in[i]->id] = true;
    }
}

static void list_needs(hold *h)
{
    for (int64_t v = 0; v < h->count; v++) {
        const bt_node *node = h->tensors[v]->node;
        for (int i = 0; !h->values[v].given && i < node->inputs; i++)
            if (h->number[node->in[i]->id] >= 0)
                h->needs[h->need_count++] = (bt_cut_need){v, h->number[node->in[i]->id]};
    }
}

static bt_status choose(hold *h, int64_t *bytes)
{
    bool *needed = bt_alloc_array((size_t)h->once->tensor_count + 1, sizeof *needed);
    if (!needed)
        return BT_ERROR_MEMORY;
    h->count = h->need_count = 0;
    for (int64_t i = 0; i < h->once->tensor_count; i++)
        h->number[i] = -1;
    list_values(h, needed);
    list_needs(h);
    bt_free(needed);
    return bt_cut(h->values, h->count, h->needs, h->need_count, bytes);
}

/* If holding the cuts takes no fewer bytes than BT_HOLD_FORWARD, the extra work is not worth it. */
static bt_status choose_least(hold *h)
{
    int64_t bytes, before;
    BT_TRY(find_skips(h));
    if (h->holding != BT_HOLD_CUTS)
        return choose(h, &bytes);
    BT_TRY(find_ends(h));
    h->holding = BT_HOLD_FORWARD;
    BT_TRY(choose(h, &before));
    h->holding = BT_HOLD_CUTS;
    BT_TRY(choose(h, &bytes));
    h->holding = bytes >= before ? BT_HOLD_FORWARD : BT_HOLD_CUTS;
    return bytes >= before ? choose(h, &bytes) : BT_OK;
}

static bool is_held(const hold *h, const bt_tensor *x)
{
    int64_t v = h->number[x->id];
    return v >= 0 && h->values[v].held;
}

/* ---- the two parts ---- */

static bt_graph *first_part(hold *h, bt_keep_fn *keep, void *user)
{
    bt_rewrite rewrite;
    bool *live = bt_alloc_array((size_t)h->once->node_count + 1, sizeof *live);
    if (!live || !bt_rewrite_begin(&rewrite, h->once)) {
        bt_free(live);
        return NULL;
    }
    for (int64_t v = 0; v < h->count; v++)
        live[h->tensors[v]->node->index] |= h->values[v].held;
    for (int64_t i = 0; i < h->once->assign_count; i++)
        live[h->once->assigns[i].value->node->index] |= !keeps(h, &h->once->assigns[i]);
    bt_live_spread(h->once, live);
    for (int64_t n = 0; n < h->once->node_count; n++)
        if (live[n])
            bt_rewrite_copy(&rewrite, h->once->nodes[n]);
    bt_free(live);
    for (int64_t v = 0; v < h->count && rewrite.to->status == BT_OK; v++) {
        int64_t id = h->tensors[v]->id;
        if (!h->values[v].held || h->kept[id])
            continue;
        h->kept[id] = keep(user, h->tensors[v]);
        if (h->kept[id])
            bt_graph_assign(rewrite.to, h->kept[id], rewrite.map[id]);
        else
            bt_graph_fail(rewrite.to, BT_ERROR_MEMORY, "out of memory");
    }
    bt_graph *part = bt_rewrite_end(&rewrite);
    int64_t count = 0;
    for (int64_t i = 0; part && i < part->assign_count; i++) { /* recomputed values are not kept */
        const bt_assign *assign = &part->assigns[i];
        const bt_tensor *value = keeps(h, assign) ? bt_graph_assigned(h->once, assign->var) : NULL;
        if (!value || (is_held(h, value) && h->kept[value->id] == assign->var))
            part->assigns[count++] = part->assigns[i];
    }
    if (part)
        part->assign_count = count;
    return part;
}

/* The value of the first part that this node of the second part reads; NULL: it reads something else. */
static bt_tensor *from_once(const hold *h, const bt_node *node)
{
    const bt_var *var = read_of(node);
    return var ? bt_graph_assigned(h->once, var) : NULL;
}

/* A graph has one leaf per variable. */
static void read_again(bt_rewrite *rewrite, const bt_tensor *x, bt_var *var)
{
    bt_trace_as(bt_trace_now(), &x->node->tag);
    bt_tensor *leaf = bt_graph_read(rewrite->to, var);
    if (!bt_poisoned(leaf) && leaf->batch_axis < 0)
        leaf->batch_axis = x->batch_axis;
    rewrite->map[x->id] = leaf;
}

static void copy(bt_rewrite *rewrite, const bt_node *node)
{
    if (node->op == &bt_op_read)
        read_again(rewrite, node->out, ((const bt_read_attr *)node->attr)->var);
    else
        bt_rewrite_copy(rewrite, node);
}

/* ---- the second part ---- */

typedef struct rest { /* under construction */
    hold *h;
    bt_rewrite rewrite, once; /* of the second part, and of what it recomputes of the first */
    double *made;             /* by node of the first part: when it was recomputed; -1: not yet */
    double clock, window;     /* bytes computed so far; the age in bytes at which a value is old */
    const bt_node **stack;
    int64_t depth, capacity;
} rest;

static void note(rest *r, const bt_node *node)
{
    if (!is_cheap(node))
        r->clock += bytes_out(node);
}

/* Whether the value is available to a reader at `now` without recomputing it. */
static bool is_there(const rest *r, const bt_tensor *x, double now)
{
    const bt_node *node = x->node;
    if (is_held(r->h, x) || r->made[node->index] < 0)
        return r->once.map[x->id] != NULL;
    bool lasts = bt_op_flags(node->op) & BT_OP_LEAF || !(is_cheap(node) || is_near(r->h, node));
    return lasts || r->made[node->index] >= now - r->window;
}

static bool push(rest *r, const bt_node *node)
{
    const bt_node **stack = bt_grow(r->stack, &r->capacity, r->depth + 1, sizeof *stack);
    if (!stack) {
        bt_graph_fail(r->rewrite.to, BT_ERROR_MEMORY, "out of memory");
        return false;
    }
    r->stack = stack;
    stack[r->depth++] = node;
    return true;
}

/* Makes a value of the first part available: reads it, or recomputes it and all its inputs. */
static void provide(rest *r, const bt_tensor *x)
{
    double now = r->clock;
    if (is_held(r->h, x) && !r->once.map[x->id])
        read_again(&r->once, x, r->h->kept[x->id]);
    if (is_there(r, x, now) || !push(r, x->node))
        return;
    while (r->depth > 0 && r->rewrite.to->status == BT_OK) {
        const bt_node *node = r->stack[r->depth - 1];
        int64_t depth = r->depth;
        for (int i = 0; i < node->inputs; i++) {
            const bt_tensor *in = node->in[i];
            if (is_held(r->h, in) && !r->once.map[in->id])
                read_again(&r->once, in, r->h->kept[in->id]);
            if (!is_there(r, in, now))
                push(r, in->node);
        }
        if (r->depth > depth)
            continue;
        r->depth--;
        copy(&r->once, node);
        r->made[node->index] = r->clock;
        note(r, node);
    }
    r->depth = 0;
}

static void take(rest *r, const bt_tensor *x)
{
    const bt_tensor *value = from_once(r->h, x->node);
    if (!value)
        return;
    provide(r, value);
    r->rewrite.map[x->id] = r->once.map[value->id];
}

static void walk(rest *r)
{
    const bt_graph *each = r->h->each;
    for (int64_t n = 0; n < each->node_count && r->rewrite.to->status == BT_OK; n++) {
        const bt_node *node = each->nodes[n];
        if (from_once(r->h, node))
            continue;
        for (int i = 0; i < node->inputs; i++)
            take(r, node->in[i]);
        copy(&r->rewrite, node);
        note(r, node);
    }
    for (int64_t i = 0; i < each->assign_count; i++)
        take(r, each->assigns[i].value);
}

/* The bytes computed in the second part if each value is computed once. */
static double all_bytes(const hold *h)
{
    double sum = 0;
    for (int64_t n = 0; n < h->each->node_count; n++)
        sum += is_cheap(h->each->nodes[n]) ? 0 : bytes_out(h->each->nodes[n]);
    for (int64_t v = 0; v < h->count; v++)
        sum += is_cheap(h->tensors[v]->node) ? 0 : (double)bt_tensor_bytes(h->tensors[v]);
    return sum;
}

static bt_graph *second_part(hold *h)
{
    rest r = {.h = h, .once.from = h->once, .window = all_bytes(h) / STRETCHES};
    r.made = bt_alloc_array((size_t)h->once->node_count + 1, sizeof *r.made);
    r.once.map = bt_alloc_array((size_t)h->once->tensor_count + 1, sizeof(bt_tensor *));
    bt_graph *part = NULL;
    if (r.made && r.once.map && bt_rewrite_begin(&r.rewrite, h->each)) {
        for (int64_t n = 0; n < h->once->node_count; n++)
            r.made[n] = -1;
        r.once.to = r.rewrite.to;
        walk(&r);
        part = bt_rewrite_end(&r.rewrite);
    }
    bt_free(r.made);
    bt_free(r.once.map);
    bt_free(r.stack);
    return part;
}

/* ---- all of it ---- */

static bt_status list_kept(hold *h, const bt_parts *parts)
{
    for (int64_t i = 0; i < parts->kept_count; i++)
        BT_TRY(bt_map_put(&h->keeps, parts->kept[i], i));
    for (int64_t n = 0; n < h->each->node_count; n++) {
        const bt_tensor *value = from_once(h, h->each->nodes[n]);
        if (value)
            h->wanted[value->id] = true;
    }
    for (int64_t i = 0; i < h->once->assign_count; i++) {
        const bt_assign *assign = &h->once->assigns[i];
        if (keeps(h, assign) && h->wanted[assign->value->id] && !h->kept[assign->value->id])
            h->kept[assign->value->id] = assign->var;
    }
    return BT_OK;
}

static bt_status open_hold(hold *h)
{
    size_t nodes = (size_t)h->once->node_count + 1, tensors = (size_t)h->once->tensor_count + 1, needs = 1;
    for (int64_t n = 0; n < h->once->node_count; n++)
        needs += (size_t)h->once->nodes[n]->inputs * (size_t)h->once->nodes[n]->outputs;
    h->kept = bt_alloc_array(tensors, sizeof(bt_var *));
    h->wanted = bt_alloc_array(tensors, sizeof *h->wanted);
    h->ends = bt_alloc_array(nodes, sizeof *h->ends);
    h->skips = bt_alloc_array(nodes, sizeof *h->skips);
    h->number = bt_alloc_array(tensors, sizeof *h->number);
    h->values = bt_alloc_array(tensors, sizeof *h->values);
    h->needs = bt_alloc_array(needs, sizeof *h->needs);
    h->tensors = bt_alloc_array(tensors, sizeof(bt_tensor *));
    bool there = h->kept && h->wanted && h->ends && h->skips && h->number && h->values && h->needs;
    return there && h->tensors ? BT_OK : BT_ERROR_MEMORY;
}

static void close_hold(hold *h)
{
    bt_overlaps_free(&h->changed);
    bt_map_free(&h->keeps);
    bt_free(h->kept);
    bt_free(h->wanted);
    bt_free(h->ends);
    bt_free(h->skips);
    bt_free(h->number);
    bt_free(h->values);
    bt_free(h->needs);
    bt_free(h->tensors);
}

bt_status bt_hold(const bt_parts *parts, bt_holding holding, bt_keep_fn *keep, void *user, bt_graph **once,
                  bt_graph **each)
{
    hold h = {.once = parts->once, .each = parts->each, .holding = holding};
    *once = *each = NULL;
    bt_status status = open_hold(&h);
    status = status == BT_OK ? list_kept(&h, parts) : status;
    status = status == BT_OK ? list_changed(&h) : status;
    status = status == BT_OK ? choose_least(&h) : status;
    if (status == BT_OK) {
        *once = first_part(&h, keep, user);
        *each = *once ? second_part(&h) : NULL;
    }
    close_hold(&h);
    if (*each)
        return BT_OK;
    bt_graph_free(*once);
    *once = NULL;
    return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
}

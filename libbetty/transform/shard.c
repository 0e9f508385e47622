/* transform/shard.c: the walk over the nodes of the whole graph, and the layout of variables. No decision here depends
 * on which rank this is, so all ranks come to the same collectives in the same order. */
#include "transform/shard_inside.h"

#include "graph/variable.h"
#include <string.h>

typedef struct root { /* a root variable that the graph reads or assigns to */
    bt_var *var;
    bt_spread layout;
    bool known;  /* its layout was decided before */
    bool open;   /* its layout follows from what is assigned to it */
    bool tried;  /* it is read as partial, in the hope that its assigned value is partial too */
    bool forced; /* that hope failed: it is replicated */
} root;

typedef struct leaf { /* a variable that is read */
    bt_node *own;
    bt_var *var;
} leaf;

typedef struct walk {
    bt_sharding s;
    const bt_graph *from;
    bool *live;
    root *roots;
    int64_t root_count, root_capacity;
    bt_map by_var;
    leaf *leaves;
    int64_t leaf_count, leaf_capacity;
    bt_tensor **assigned; /* by assign */
    int64_t *goes_to;     /* by tensor id of the whole graph: 1 + its first assign; 0: none */
    bt_array *arrays;     /* room for the current node's inputs */
    int *axes, *wanted;
    bt_spread *outputs;
} walk;

static const bt_spread replicated = {.kind = BT_REPLICATED}, partial = {.kind = BT_PARTIAL};

static void out_of_memory(walk *w) { bt_graph_fail(w->s.rewrite.to, BT_ERROR_MEMORY, "out of memory"); }

/* ---- variables ---- */

/* NULL: the graph has failed. */
static root *root_of(walk *w, bt_var *any)
{
    bt_var *var = bt_var_root(any);
    int64_t known = bt_map_get(&w->by_var, var);
    if (known >= 0)
        return &w->roots[known];
    root *roots = bt_grow(w->roots, &w->root_capacity, w->root_count + 1, sizeof *roots);
    if (roots)
        w->roots = roots;
    if (!roots || bt_map_put(&w->by_var, var, w->root_count) != BT_OK) {
        out_of_memory(w);
        return NULL;
    }
    root *r = &roots[w->root_count++];
    *r = (root){.var = var};
    r->known = w->s.world->layout && w->s.world->layout(w->s.world->user, var, &r->layout);
    if (w->s.world->ranks == 1)
        r->layout = replicated;
    r->open = !r->known && var->lifetime == BT_PHASE && w->s.world->ranks > 1;
    return r;
}

static bool assigns_to(const bt_graph *graph, const bt_var *root)
{
    for (int64_t i = 0; i < graph->assign_count; i++)
        if (bt_var_root(graph->assigns[i].var) == root)
            return true;
    return false;
}

/* Decides the layout of the variable that this leaf reads, if it is unknown. 16-bit values are never left as partial
 * sums. */
static void decide_read(walk *w, root *r, const bt_tensor *x)
{
    const int axis = x->batch_axis;
    const bool rows = r->var->lifetime == BT_EXTERNAL && w->s.world->ranks > 1 && axis >= 0 && x->dims[axis] > 0;
    if (rows && !r->known && !r->open && r->layout.kind == BT_REPLICATED)
        r->layout = (bt_spread){.kind = BT_SHARDED, .axis = axis, .rows = x->dims[axis]};
    if (!r->open)
        return;
    r->open = false;
    r->tried = !r->forced && r->var->clear && bt_dtype_size(r->var->dtype) >= 4 && assigns_to(w->from, r->var);
    r->layout = r->tried ? partial : replicated;
}

/* Partial sums that ranks will divide are added up where they are read, except by a graph that adds to them. */
static bool lay_read(walk *w, const bt_tensor *x, const root *r, const bt_spread *layout, bt_tensor *own)
{
    bt_spread added = *layout;
    if (layout->kind != BT_PARTIAL || !layout->of || assigns_to(w->from, r->var)) {
        const bool laid = bt_lay_output(&w->s, x, layout, own);
        w->s.values[x->id].only =
            layout->kind == BT_STRETCH && r->var->category == BT_PARAMETERS && !assigns_to(w->from, r->var);
        return laid;
    }
    added.kind = BT_STRETCH;
    return bt_lay_output(&w->s, x, &added, bt_stretch_scatter(&w->s, own, &added));
}

/* The leaf is bound to the rank's own variable at the end, when all layouts are decided. */
static void read_var(walk *w, const bt_node *node, bt_var *var)
{
    bt_graph *to = w->s.rewrite.to;
    root *r = root_of(w, var);
    leaf *leaves = bt_grow(w->leaves, &w->leaf_capacity, w->leaf_count + 1, sizeof *leaves);
    if (leaves)
        w->leaves = leaves;
    if (!r || !leaves) {
        out_of_memory(w);
        return;
    }
    decide_read(w, r, node->out);
    const bt_spread layout = bt_spread_within(&r->layout, var);
    if (layout.kind == BT_SHARDED && var->base) {
        bt_graph_fail(to, BT_ERROR_INTERNAL, "shard: '%s' is a window of what is sharded", var->name);
        return;
    }
    bt_tensor like = *node->out;
    const bt_array shape = bt_local_shape(bt_tensor_array(&like), &layout, w->s.world->rank, w->s.world->ranks);
    like.rank = shape.rank;
    memcpy(like.dims, shape.dims, sizeof like.dims);
    bt_tensor *own = bt_graph_placeholder(to, &like);
    if (bt_poisoned(own) || !lay_read(w, node->out, r, &layout, own))
        return;
    leaves[w->leaf_count++] = (leaf){own->node, var};
    own->node->tag = node->tag;
    own->node->tag.owner = bt_graph_intern(to, node->tag.owner);
    own->node->tag.level = bt_graph_intern(to, node->tag.level);
    own->node->tag.path = bt_graph_intern(to, node->tag.path);
    own->node->tag.call = bt_graph_intern(to, node->tag.call);
}

static void visit_leaf(walk *w, const bt_node *node)
{
    bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    if (var) {
        read_var(w, node, var);
        return;
    }
    bt_rewrite_copy(&w->s.rewrite, node);
    if (w->s.rewrite.to->status == BT_OK)
        bt_lay_output(&w->s, node->out, &replicated, w->s.rewrite.map[node->out->id]);
}

/* ---- nodes ---- */

static bt_lying lying(const walk *w, const bt_tensor *x) { return w->s.values[x->id].layout.kind; }

/* The node's inputs, split along `axes`: by input; -1: whole. */
static bt_tensor **inputs_along(walk *w, const bt_node *node, const int *axes, int64_t rows)
{
    bt_tensor **in = bt_graph_list(w->s.rewrite.to, node->inputs);
    for (int i = 0; in && i < node->inputs; i++)
        in[i] =
            !axes || axes[i] < 0 ? bt_lay_whole(&w->s, node->in[i]) : bt_lay_part(&w->s, node->in[i], axes[i], rows);
    return in;
}

static void take_layouts(walk *w, const bt_node *node, bt_tensor *const *in, const bt_spread *same)
{
    for (int o = 0; o < node->outputs; o++)
        w->outputs[o] = *same;
    if (in)
        bt_lay_node(&w->s, node, in, w->outputs);
}

static void visit_whole(walk *w, const bt_node *node)
{
    take_layouts(w, node, inputs_along(w, node, NULL, 0), &replicated);
}

/* Values that are printed are whole, and only rank 0 prints. */
static void visit_effect(walk *w, const bt_node *node)
{
    if (w->s.world->rank == 0 || !(bt_op_flags(node->op) & BT_OP_ELEMENTWISE))
        visit_whole(w, node);
    else
        bt_lay_output(&w->s, node->out, &replicated, bt_lay_whole(&w->s, node->in[0]));
}

static bool keeps_precision(const bt_tensor *x, const bt_tensor *y)
{
    return x->dtype == y->dtype || (bt_dtype_floats(x->dtype) && bt_dtype_floats(y->dtype) &&
                                    bt_dtype_size(y->dtype) > bt_dtype_size(x->dtype));
}

/* Whether the op can work on each rank's summand, and the sum be taken of its results: it is linear in the partial
 * inputs, and no other input is added to them. A value that others read too is summed at once, and so is one that would
 * grow: it is sent once, when it is smallest. */
static bool passes_summands(const walk *w, const bt_node *node)
{
    const bt_op_info *info = node->op->info;
    const bool together = info && info->flags & (BT_OP_LINEAR | BT_OP_IDENTITY);
    int64_t taken = 0, given = 0;
    int partials = 0;
    if (!info)
        return false;
    for (int i = 0; i < node->inputs; i++) {
        const bt_tensor *x = node->in[i];
        const unsigned bit = i < 32 ? 1U << i : 0;
        const bool added = info->flags & BT_OP_IDENTITY ? i == 0 : !bit || info->differentiable & bit;
        if (lying(w, x) == BT_SHARDED || lying(w, x) == BT_STRETCH ||
            (lying(w, x) == BT_REPLICATED && together && added))
            return false;
        if (lying(w, x) != BT_PARTIAL)
            continue;
        if (!(together ? added : (info->linear & bit) != 0) || w->s.uses[x->id] > 1 || !keeps_precision(x, node->out))
            return false;
        taken += bt_tensor_count(x);
        partials++;
    }
    for (int o = 0; o < node->outputs; o++)
        given += bt_tensor_count(&node->out[o]);
    return partials > 0 && (together || partials == 1) && given <= taken;
}

/* Computes the node on the partial inputs as they are, and the others whole. */
static void visit_summands(walk *w, const bt_node *node)
{
    bt_tensor **in = bt_graph_list(w->s.rewrite.to, node->inputs);
    for (int i = 0; in && i < node->inputs; i++)
        in[i] =
            lying(w, node->in[i]) == BT_PARTIAL ? w->s.values[node->in[i]->id].own : bt_lay_whole(&w->s, node->in[i]);
    take_layouts(w, node, in, &partial);
}

/* Asks the op's rule, with inputs split as `axes` says. *shares: the split of its inputs and outputs. */
static bool rule(walk *w, const bt_node *node, const int *axes, int64_t rows, bt_shares *shares)
{
    memcpy(w->wanted, axes, (size_t)node->inputs * sizeof *axes);
    *shares =
        (bt_shares){.attr = node->attr, .in = w->arrays, .inputs = node->inputs, .rows = rows, .in_axis = w->wanted};
    if (!bt_node_shares(node, shares) || shares->stacked)
        return false;
    rows = shares->rows;
    for (int i = 0; i < node->inputs; i++)
        if (w->wanted[i] >= node->in[i]->rank ||
            (w->wanted[i] >= 0 && (!node->in[i]->dims[w->wanted[i]] || node->in[i]->dims[w->wanted[i]] % rows)))
            return false;
    for (int o = 0; o < node->outputs && o < BT_MAX_OUTPUTS; o++)
        if (shares->out_axis[o] >= node->out[o].rank ||
            (shares->out_axis[o] >= 0 && node->out[o].dims[shares->out_axis[o]] % rows))
            return false;
    return node->outputs <= BT_MAX_OUTPUTS;
}

/* The fewest rows by which an input is split into unequal parts; 0: all parts are equally long. */
static int64_t fewest_rows(const walk *w, const bt_node *node)
{
    int64_t fewest = 0;
    for (int i = 0; i < node->inputs; i++) {
        const bt_spread *layout = &w->s.values[node->in[i]->id].layout;
        if (layout->kind == BT_SHARDED && layout->rows != w->s.world->ranks && (!fewest || layout->rows < fewest))
            fewest = layout->rows;
    }
    return fewest;
}

/* Finds a rule for the split inputs: for those with the fewest rows, for all that are split alike, or for one alone.
 * Groups of rows come before single rows: these are then sent only once, as the batch or the first values computed from
 * it. */
static bool find_rule(walk *w, const bt_node *node, bt_shares *shares)
{
    enum { FEWEST, ALIKE, ALONE };
    const int64_t fewest = fewest_rows(w, node);
    for (int i = 0; i < node->inputs; i++)
        w->arrays[i] = bt_tensor_array(node->in[i]);
    for (int way = FEWEST; way <= ALONE; way++)
        for (int i = 0; i < node->inputs; i++) {
            const bt_spread *first = &w->s.values[node->in[i]->id].layout;
            if (first->kind != BT_SHARDED || (way == FEWEST && first->rows != fewest))
                continue;
            for (int k = 0; k < node->inputs; k++) {
                const bt_spread *other = &w->s.values[node->in[k]->id].layout;
                bool alike = other->kind == BT_SHARDED && other->rows == first->rows;
                w->axes[k] = (way == ALONE ? k == i : alike) ? other->axis : -1;
            }
            if (rule(w, node, w->axes, first->rows, shares))
                return true;
        }
    return false;
}

static void visit_united(walk *w, const bt_node *node, const bt_shares *shares, bt_tensor *const *in)
{
    const bt_union with = {node->attr, shares->in_axis[0], w->s.world->rank, w->s.world->ranks, shares->rows};
    bt_tensor *out[BT_MAX_OUTPUTS] = {NULL};
    node->op->info->unite(&with, in, out);
    for (int o = 0; o < node->outputs; o++)
        if (w->s.rewrite.to->status == BT_OK)
            bt_lay_output(&w->s, &node->out[o], &replicated, out[o]);
}

static void visit_split(walk *w, const bt_node *node)
{
    bt_shares shares;
    if (!find_rule(w, node, &shares)) {
        visit_whole(w, node);
        return;
    }
    bt_tensor **in = inputs_along(w, node, w->wanted, shares.rows);
    if (!in || w->s.rewrite.to->status != BT_OK)
        return;
    if (shares.out_axis[0] == BT_BATCH_UNITED) {
        visit_united(w, node, &shares, in);
        return;
    }
    for (int o = 0; o < node->outputs; o++) {
        const int axis = shares.out_axis[o];
        w->outputs[o] = axis >= 0                 ? (bt_spread){.kind = BT_SHARDED, .axis = axis, .rows = shares.rows}
                        : axis == BT_BATCH_SUMMED ? partial
                                                  : replicated;
    }
    bt_lay_node(&w->s, node, in, w->outputs);
}

static void visit(walk *w, const bt_node *node)
{
    bool partials = false, split = false;
    const unsigned flags = bt_op_flags(node->op);
    w->s.reader = node;
    bt_trace_as(&w->s.rewrite.trace, &node->tag);
    for (int i = 0; i < node->inputs; i++) {
        partials = partials || lying(w, node->in[i]) == BT_PARTIAL;
        split = split || lying(w, node->in[i]) == BT_SHARDED;
    }
    if (flags & BT_OP_LEAF)
        visit_leaf(w, node);
    else if (flags & BT_OP_EFFECT && !node->op->info->shares)
        visit_effect(w, node);
    else if (bt_stretch_visit(&w->s, node))
        return;
    else if (partials && !(flags & BT_OP_EFFECT) && passes_summands(w, node))
        visit_summands(w, node);
    else if (split)
        visit_split(w, node);
    else
        visit_whole(w, node);
}

/* ---- the end of a run ---- */

/* Decides the layout of a variable from its assigns: if a sharded value is assigned to the whole variable, it is
 * sharded like that. A sum over ranks stays partial only if this graph adds it up: others may read it in many places.
 * False: the variable was read as partial but is not. */
static bool decide_assigned(walk *w, root *r)
{
    bool all_partial = true;
    bt_spread found = replicated;
    for (int64_t i = 0; i < w->from->assign_count; i++) {
        const bt_assign *assign = &w->from->assigns[i];
        if (bt_var_root(assign->var) != r->var)
            continue;
        const bt_lain *value = &w->s.values[assign->value->id];
        all_partial = all_partial && value->layout.kind == BT_PARTIAL;
        if (assign->var == r->var && value->layout.kind == BT_SHARDED)
            found = value->layout;
    }
    if (r->open)
        r->layout = found;
    r->open = false;
    r->forced = r->tried && !all_partial;
    return !r->forced;
}

static void assign(walk *w, int64_t i)
{
    const bt_assign *of = &w->from->assigns[i];
    const root *r = root_of(w, of->var);
    if (!r)
        return;
    const bt_spread layout = bt_spread_within(&r->layout, of->var);
    w->s.wanted_by = of->var->name;
    w->s.reader = NULL;
    w->assigned[i] = bt_lay_as(&w->s, of->value, &layout);
}

/* A value assigned to a variable that lies in stretches goes there as soon as it is computed, so that sums are taken in
 * the order in which their summands are ready. */
static void assign_made(walk *w, const bt_node *node)
{
    for (int o = 0; o < node->outputs && w->s.rewrite.to->status == BT_OK; o++) {
        const int64_t i = w->goes_to[node->out[o].id] - 1;
        const root *r = i < 0 ? NULL : root_of(w, w->from->assigns[i].var);
        if (r && r->layout.of && w->s.uses[node->out[o].id] <= 1)
            assign(w, i);
    }
}

/* False: the walk must be repeated, or the graph has failed. */
static bool end_run(walk *w)
{
    bool right = true;
    const bt_graph *from = w->from;
    w->s.reader = NULL;
    for (int64_t i = 0; i < from->assign_count; i++) {
        root *r = root_of(w, from->assigns[i].var);
        if (!r)
            return false;
        if (r->open || r->tried)
            right = decide_assigned(w, r) && right;
    }
    for (int64_t i = 0; right && i < from->assign_count; i++) {
        if (!w->assigned[i])
            assign(w, i);
    }
    w->s.wanted_by = "a result";
    for (int64_t i = 0; right && i < from->output_count && w->s.rewrite.to->status == BT_OK; i++)
        bt_graph_output(w->s.rewrite.to, bt_lay_whole(&w->s, from->outputs[i]));
    return right;
}

/* ---- the rank's own variables ---- */

static bt_var *local_var(walk *w, bt_var *var)
{
    const bt_spread layout = bt_spread_within(&root_of(w, var)->layout, var);
    bt_var *own = w->s.world->local ? w->s.world->local(w->s.world->user, var) : var;
    if (!own)
        return NULL;
    const bt_array due = bt_local_shape(bt_var_array(var), &layout, w->s.world->rank, w->s.world->ranks);
    if (bt_array_same(bt_var_array(own), due))
        return own;
    bt_fail(BT_ERROR_INTERNAL, "shard: what stands for '%s' on rank %d has another shape than its part", var->name,
            w->s.world->rank);
    return NULL;
}

static bt_status tell_world(const walk *w)
{
    const bt_world *world = w->s.world;
    for (int64_t i = 0; i < w->root_count; i++)
        if (!w->roots[i].known && world->decide)
            BT_TRY(world->decide(world->user, w->roots[i].var, &w->roots[i].layout));
    return BT_OK;
}

static bt_status bind(walk *w)
{
    bt_graph *to = w->s.rewrite.to;
    BT_TRY(tell_world(w));
    for (int64_t i = 0; i < w->leaf_count; i++) {
        bt_read_attr attr = {local_var(w, w->leaves[i].var)};
        w->leaves[i].own->attr = attr.var ? bt_region_copy(to->region, &attr, sizeof attr) : NULL;
        if (!w->leaves[i].own->attr)
            return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
        bt_graph_note_leaf(w->leaves[i].own);
    }
    for (int64_t i = 0; i < w->from->assign_count; i++) {
        bt_var *own = local_var(w, w->from->assigns[i].var);
        if (!own)
            return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
        bt_graph_assign(to, own, w->assigned[i]);
    }
    return BT_OK;
}

/* Drops whole values that nobody needed after all; collectives are always needed. */
static bt_graph *tidy(bt_graph *graph)
{
    bool *live = bt_live_nodes(graph);
    if (live)
        bt_graph_keep(graph, live);
    else
        bt_graph_free(graph);
    bt_free(live);
    return live ? graph : NULL;
}

static void count(const bt_graph *graph, bt_sharded_report *report)
{
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (!(bt_op_flags(node->op) & BT_OP_COLLECTIVE))
            continue;
        const bool gather = node->op == &bt_op_all_gather;
        *(gather ? &report->gathers : &report->reductions) += 1;
        *(gather ? &report->gathered : &report->reduced) += bt_tensor_count(gather ? node->out : node->in[0]);
    }
}

/* ---- the walk ---- */

static bool open_room(walk *w)
{
    int most_in = 0, most_out = 1;
    for (int64_t n = 0; n < w->from->node_count; n++) {
        most_in = w->from->nodes[n]->inputs > most_in ? w->from->nodes[n]->inputs : most_in;
        most_out = w->from->nodes[n]->outputs > most_out ? w->from->nodes[n]->outputs : most_out;
    }
    w->live = bt_live_nodes(w->from);
    w->s.values = bt_alloc_array((size_t)w->from->tensor_count + 1, sizeof *w->s.values);
    w->s.uses = bt_alloc_array((size_t)w->from->tensor_count + 1, sizeof *w->s.uses);
    w->assigned = bt_alloc_array((size_t)w->from->assign_count + 1, sizeof(bt_tensor *));
    w->goes_to = bt_alloc_array((size_t)w->from->tensor_count + 1, sizeof *w->goes_to);
    w->arrays = bt_alloc_array((size_t)most_in + 1, sizeof *w->arrays);
    w->axes = bt_alloc_array(2 * ((size_t)most_in + 1), sizeof *w->axes);
    w->wanted = w->axes ? w->axes + most_in + 1 : NULL;
    w->outputs = bt_alloc_array((size_t)most_out, sizeof *w->outputs);
    if (!w->live || !w->s.values || !w->s.uses || !w->assigned || !w->goes_to || !w->arrays || !w->axes || !w->outputs)
        return false;
    bt_count_uses(w->from, w->live, w->s.uses, NULL);
    for (int64_t i = w->from->assign_count - 1; i >= 0; i--)
        w->goes_to[w->from->assigns[i].value->id] = i + 1;
    return true;
}

static void close_room(walk *w)
{
    bt_free(w->live);
    bt_free(w->s.values);
    bt_free(w->s.uses);
    bt_free(w->assigned);
    bt_free(w->goes_to);
    bt_free(w->arrays);
    bt_free(w->axes);
    bt_free(w->outputs);
    bt_free(w->leaves);
    bt_free(w->roots);
    bt_map_free(&w->by_var);
}

/* One walk. *right: its assumptions about variables held. */
static bt_graph *walk_once(walk *w, bt_sharded_report *report, bool *right)
{
    bt_graph *to;
    w->leaf_count = 0;
    memset(w->s.values, 0, (size_t)w->from->tensor_count * sizeof *w->s.values);
    memset(w->assigned, 0, (size_t)w->from->assign_count * sizeof(bt_tensor *));
    w->s.gathered = 0;
    w->s.uneven = false;
    for (int64_t i = 0; i < w->root_count; i++) {
        w->roots[i].open = !w->roots[i].known && w->roots[i].var->lifetime == BT_PHASE && w->s.world->ranks > 1;
        w->roots[i].tried = false;
    }
    *right = true;
    if (!bt_rewrite_begin(&w->s.rewrite, w->from)) {
        bt_fail(BT_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    to = w->s.rewrite.to;
    for (int64_t n = 0; n < w->from->node_count && to->status == BT_OK; n++)
        if (w->live[n]) {
            visit(w, w->from->nodes[n]);
            assign_made(w, w->from->nodes[n]);
        }
    if (to->status == BT_OK)
        *right = end_run(w) || to->status != BT_OK;
    const bt_status status = *right && to->status == BT_OK ? bind(w) : BT_OK;
    memset(w->s.rewrite.map, 0, (size_t)w->from->tensor_count * sizeof(bt_tensor *)); /* carry nothing else over */
    to = bt_rewrite_end(&w->s.rewrite);
    if (to && (status != BT_OK || !*right)) {
        bt_graph_free(to);
        return NULL;
    }
    if (to && !(to = tidy(to)))
        bt_fail(BT_ERROR_MEMORY, "out of memory");
    if (to)
        count(to, report);
    report->place_count = w->s.place_count;
    report->uneven = w->s.uneven;
    return to;
}

bt_graph *bt_shard(const bt_graph *graph, const bt_world *world, bt_sharded_report *report)
{
    bool right = false;
    bt_graph *own = NULL;
    *report = (bt_sharded_report){0};
    walk w = {.from = graph, .s = {.world = world, .places = &report->places}};
    if (!open_room(&w)) {
        bt_fail(BT_ERROR_MEMORY, "out of memory");
        right = true;
    }
    while (!right) { /* each walk assumes less about the variables */
        bt_text_free(&report->places);
        report->places = (bt_text){0};
        w.s.place_count = 0;
        own = walk_once(&w, report, &right);
    }
    close_room(&w);
    if (own && report->places.failed) {
        bt_fail(BT_ERROR_MEMORY, "out of memory");
        bt_graph_free(own);
        own = NULL;
    }
    return own;
}

void bt_sharded_free(bt_sharded_report *report) { bt_text_free(&report->places); }

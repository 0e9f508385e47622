/* transform/join.c: joins two graphs that run one after the other. */
#include "transform/join.h"

#include "base/overlap.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "transform/rewrite.h"

typedef struct join {
    const bt_graph *first, *second;
    const bt_var *last;
    bt_rewrite rewrite;   /* of `second`, after the nodes of `first` */
    bt_tensor **map;      /* of `first`; until its nodes are copied, the memory for the map of `second` */
    bt_overlaps assigned; /* windows that `first` assigns; items are its assigns */
    bool apart;           /* they cannot be joined */
} join;

static bool left_out(const join *j, const bt_var *var) { return j->last && bt_var_overlap(var, j->last); }

static bt_status list_assigned(join *j)
{
    BT_TRY(bt_overlaps_new(&j->assigned, j->first->assign_count));
    for (int64_t i = 0; i < j->first->assign_count; i++) {
        bt_var *var = j->first->assigns[i].var;
        size_t start = bt_var_start(var);
        j->assigned.stretches[j->assigned.count++] =
            (bt_stretch){(uintptr_t)bt_var_root(var), start, start + var->bytes, i};
    }
    bt_overlaps_sort(&j->assigned);
    return BT_OK;
}

/* Finds the first graph's assigns that share a byte with the variable, and returns how many. */
static int64_t find_assigned(join *j, const bt_var *var)
{
    const bt_var *root = var->base ? var->base : var;
    size_t start = bt_var_start(var);
    bt_overlaps_find(&j->assigned, (uintptr_t)root, start, start + var->bytes);
    return j->assigned.found_count;
}

/* Whether an assign of the second graph overwrites part of one of the first. */
static bool collide(join *j)
{
    for (int64_t k = 0; k < j->second->assign_count; k++) {
        const bt_var *var = j->second->assigns[k].var;
        int64_t found = find_assigned(j, var);
        for (int64_t i = 0; i < found; i++) {
            const bt_var *other = j->first->assigns[j->assigned.found[i]].var;
            if (other != var && !left_out(j, other))
                return true;
        }
    }
    return false;
}

/* The variable's value after the first graph, put together from the assigns just found; NULL: they do not cover it. */
static bt_tensor *held(join *j, const bt_var *var)
{
    bt_graph *to = j->rewrite.to;
    bt_tensor **parts = bt_region_alloc(to->region, (size_t)j->assigned.found_count * sizeof *parts);
    if (!parts)
        return bt_graph_fail(to, BT_ERROR_MEMORY, "out of memory");
    size_t begin = bt_var_start(var), end = begin + var->bytes, size = bt_dtype_size(var->dtype), at = begin;
    int count = 0;
    for (int64_t i = 0; at < end; i++) {
        const bt_assign *assign = i < j->assigned.found_count ? &j->first->assigns[j->assigned.found[i]] : NULL;
        size_t from = assign ? bt_var_start(assign->var) : 0, to = assign ? from + assign->var->bytes : 0;
        if (!assign || from > at || assign->value->dtype != var->dtype)
            return NULL;
        if (to <= at)
            continue;
        to = to < end ? to : end;
        bt_tensor *flat = bt_reshape(j->map[assign->value->id], -1);
        parts[count++] = bt_slice(flat, 0, (int64_t)((at - from) / size), (int64_t)((to - from) / size));
        at = to;
    }
    bt_tensor *all = count == 1 ? parts[0] : bt_concat_list(0, parts, count);
    int64_t dims[BT_MAX_RANK + 1];
    for (int k = 0; k < var->rank; k++)
        dims[k] = var->dims[k];
    dims[var->rank] = BT_END;
    return (bt_reshape)(all, dims);
}

static void take_over(join *j, const bt_node *node)
{
    const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
    if (!var || !find_assigned(j, var)) {
        bt_rewrite_copy(&j->rewrite, node);
        return;
    }
    bt_trace_as(&j->rewrite.trace, &node->tag);
    bt_tensor *value = held(j, var);
    j->rewrite.map[node->out->id] = value;
    j->apart |= !value;
}

static void copy_both(join *j)
{
    bt_rewrite *rewrite = &j->rewrite;
    bt_tensor **second = j->map;
    for (int64_t n = 0; n < j->first->node_count; n++)
        bt_rewrite_copy(rewrite, j->first->nodes[n]);
    j->map = rewrite->map;
    rewrite->from = j->second;
    rewrite->map = second;
    for (int64_t n = 0; n < j->second->node_count && rewrite->to->status == BT_OK && !j->apart; n++)
        take_over(j, j->second->nodes[n]);
    for (int64_t i = 0; i < j->first->assign_count; i++)
        if (!left_out(j, j->first->assigns[i].var))
            bt_graph_assign(rewrite->to, j->first->assigns[i].var, j->map[j->first->assigns[i].value->id]);
    for (int64_t i = 0; i < j->first->output_count; i++)
        bt_graph_output(rewrite->to, j->map[j->first->outputs[i]->id]);
}

static bt_status join_both(join *j, bt_graph **joined)
{
    j->map = bt_alloc_array((size_t)j->second->tensor_count + 1, sizeof(bt_tensor *));
    if (!j->map || !bt_rewrite_begin(&j->rewrite, j->first)) {
        bt_free(j->map);
        return BT_ERROR_MEMORY;
    }
    copy_both(j);
    bt_graph *graph = bt_rewrite_end(&j->rewrite);
    bt_free(j->map);
    if (graph && j->apart) {
        bt_graph_free(graph);
        return BT_OK;
    }
    *joined = graph;
    return graph ? BT_OK : bt_error_status();
}

bt_status bt_join(const bt_graph *first, const bt_graph *second, const bt_var *last, bt_graph **joined)
{
    join j = {.first = first, .second = second, .last = last};
    *joined = NULL;
    bt_status status = list_assigned(&j);
    if (status == BT_OK && !collide(&j))
        status = join_both(&j, joined);
    bt_overlaps_free(&j.assigned);
    return status;
}

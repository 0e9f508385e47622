/* tests/support/ranks.c: a graph on several ranks, computed by plain loops. */
#include "support/ranks.h"

#include "ops/ops.h"
#include "runtime/variable.h"
#include "support/vars.h"
#include "transform/bucket.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const bt_var *var) { return bt_array_count(bt_var_array(var)); }

/* Copies rows of [outer, size, inner], `size` of them from `first` on, out of `whole` or back into it. */
static void move_rows(double *whole, double *part, bt_array shape, int axis, int64_t first, int64_t size, bool out)
{
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < shape.rank; i++) {
        outer *= i < axis ? shape.dims[i] : 1;
        inner *= i > axis ? shape.dims[i] : 1;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < size * inner; i++) {
            double *x = &whole[(o * shape.dims[axis] + first) * inner + i], *y = &part[o * size * inner + i];
            *(out ? y : x) = *(out ? x : y);
        }
}

static int64_t first_row(const ranks *r, const bt_spread *spread, bt_array shape, int rank)
{
    return (rank * spread->rows + r->count - 1) / r->count * (shape.dims[spread->axis] / spread->rows);
}

/* In a window of `count` elements that begins at `from` in a line of `of`: the first element that belongs to the rank
 * or a later one, as transform/shard.h defines it. */
static int64_t first_element(const ranks *r, int64_t rows, int64_t of, int64_t from, int64_t count, int rank)
{
    const int64_t first = (rank * rows + r->count - 1) / r->count * (of / rows) - from;
    return first < 0 ? 0 : first < count ? first : count;
}

static double *room(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    ck_assert_ptr_nonnull(values);
    return values;
}

/* ---- variables ---- */

static rank_var *var_of(ranks *r, const bt_var *root)
{
    for (int i = 0; i < r->var_count; i++)
        if (r->vars[i].whole == root)
            return &r->vars[i];
    ck_assert_int_lt(r->var_count, RANKS_VARS);
    r->vars[r->var_count] = (rank_var){.whole = (bt_var *)(uintptr_t)root};
    return &r->vars[r->var_count++];
}

/* The summands of all ranks, added in rank order, give exactly x. */
static double summand(const ranks *r, int rank, double x)
{
    const bool large = fabs(x) > 1; /* 2x could overflow for a large x, x / 2 could underflow for a small one */
    if (r->count == 1)
        return x;
    if (rank < 2)
        return large ? x / 2 : rank == 0 ? 2 * x : -x;
    return (rank | 1) == r->count ? 0 : rank % 2 ? -x : x;
}

/* The part of a variable's values that a rank has. */
static void share(const ranks *r, const rank_var *v, int rank, double *values, double *own, int64_t count)
{
    const bt_array shape = bt_var_array(v->whole);
    if (v->spread.kind == BT_SHARDED) {
        int64_t first = first_row(r, &v->spread, shape, rank), next = first_row(r, &v->spread, shape, rank + 1);
        move_rows(values, own, shape, v->spread.axis, first, next - first, true);
        return;
    }
    const bt_spread *line = &v->spread;
    const int64_t first = line->kind == BT_STRETCH ? first_element(r, line->rows, line->of, 0, count, rank) : 0;
    const int64_t end = line->kind == BT_STRETCH ? first_element(r, line->rows, line->of, 0, count, rank + 1) : count;
    for (int64_t i = 0; i < end - first && line->kind == BT_STRETCH; i++)
        own[i] = values[first + i];
    for (int64_t i = 0; i < count && line->kind != BT_STRETCH; i++)
        own[i] = v->spread.kind == BT_PARTIAL ? summand(r, rank, values[i]) : values[i];
}

static bt_var *own_root(ranks *r, rank_var *v, int rank)
{
    bt_var *whole = v->whole;
    if (v->own[rank])
        return v->own[rank];
    bt_array shape = bt_local_shape(bt_var_array(whole), &v->spread, rank, r->count);
    v->own[rank] = bt_var_new(BT_RUN, whole->category, whole->owner, whole->name, shape);
    ck_assert_ptr_nonnull(v->own[rank]);
    double *values = room(count_of(whole)), *own = room(count_of(whole));
    for (int64_t i = 0; i < count_of(whole); i++)
        values[i] = whole->data ? var_get(whole, i) : 0;
    share(r, v, rank, values, own, count_of(whole));
    for (int64_t i = 0; i < count_of(v->own[rank]); i++)
        var_put(v->own[rank], i, own[i]);
    free(values);
    free(own);
    return v->own[rank];
}

static bool layout(void *user, const bt_var *root, bt_spread *spread)
{
    const rank_var *v = var_of(((rank_user *)user)->ranks, root);
    *spread = v->spread;
    return v->known;
}

static bt_status decide(void *user, bt_var *root, const bt_spread *spread)
{
    rank_var *v = var_of(((rank_user *)user)->ranks, root);
    ck_assert_msg(!v->known, "%s is decided on twice", root->name);
    v->known = true;
    v->spread = *spread;
    return BT_OK;
}

static bt_var *local(void *user, bt_var *var)
{
    rank_user *a = user;
    ranks *r = a->ranks;
    rank_var *v = var_of(r, bt_var_root(var));
    bt_var *root = own_root(r, v, a->rank);
    ck_assert_msg(v->known, "%s has not been decided on", var->name);
    if (!var->base)
        return root;
    for (int i = 0; i < r->window_count; i++)
        if (r->windows[i]->base == root && r->of[i] == var)
            return r->windows[i];
    ck_assert_int_lt(r->window_count, RANKS_VARS * RANKS_MOST);
    const size_t size = bt_dtype_size(var->dtype), start = bt_var_start(var);
    const bt_spread spread = bt_spread_within(&v->spread, var);
    const bt_array own = bt_local_shape(bt_var_array(var), &spread, a->rank, r->count);
    int64_t from = (int64_t)(start / size);
    if (spread.kind == BT_STRETCH) /* relative to the rank's first element */
        from += first_element(r, spread.rows, spread.of, spread.from, count_of(var), a->rank) -
                first_element(r, spread.rows, spread.of, 0, spread.of, a->rank);
    bt_var *window = bt_var_window(root, own.dims[0] || own.rank != 1 ? (size_t)from * size : 0, var->name, own);
    ck_assert_ptr_nonnull(window);
    r->of[r->window_count] = var;
    return r->windows[r->window_count++] = window;
}

/* ---- the graphs ---- */

void ranks_begin(ranks *r, const bt_graph *whole, int count) { *r = (ranks){.whole = whole, .count = count}; }

void ranks_spread(ranks *r, bt_var *root, bt_spread spread)
{
    rank_var *v = var_of(r, root);
    v->known = true;
    v->spread = spread;
}

bt_spread ranks_found(const ranks *r, const bt_var *root)
{
    bt_spread none = {.kind = BT_REPLICATED, .axis = -1, .rows = -1};
    for (int i = 0; i < r->var_count; i++)
        if (r->vars[i].whole == root && r->vars[i].known)
            return r->vars[i].spread;
    return none;
}

bt_world ranks_world(ranks *r, int rank)
{
    r->users[rank] = (rank_user){r, rank};
    return (bt_world){.rank = rank,
                      .ranks = r->count,
                      .layout = layout,
                      .decide = decide,
                      .local = local,
                      .window = r->window,
                      .user = &r->users[rank]};
}

/* Merges the all-reduces, as a program does. */
static void bucket(ranks *r, int rank)
{
    bt_graph *joined = NULL;
    const bt_status status =
        r->bucket ? bt_bucket(r->graphs[rank], r->bucket, &joined, &r->reports[rank].reductions) : BT_OK;
    ck_assert_msg(status == BT_OK, "rank %d of %d: %s", rank, r->count, bt_error());
    if (!joined)
        return;
    bt_graph_free(r->graphs[rank]);
    r->graphs[rank] = joined;
    ck_assert_msg(bt_graph_verify(joined, "bucket") == BT_OK, "%s", bt_error());
}

void ranks_shard(ranks *r)
{
    for (int rank = 0; rank < r->count; rank++) {
        const bt_world world = ranks_world(r, rank);
        bt_sharded_report *report = &r->reports[rank];
        r->graphs[rank] = bt_shard(r->whole, &world, report);
        ck_assert_msg(r->graphs[rank] != NULL, "rank %d of %d: %s", rank, r->count, bt_error());
        ck_assert_int_eq(bt_graph_verify(r->graphs[rank], "shard"), BT_OK);
        bucket(r, rank);
        ck_assert_int_eq(report->reductions, r->reports[0].reductions);
        ck_assert_int_eq(report->gathers, r->reports[0].gathers);
        ck_assert_int_eq(report->reduced, r->reports[0].reduced);
        ck_assert_int_eq(report->gathered, r->reports[0].gathered);
        ck_assert_str_eq(bt_text_get(&report->places), bt_text_get(&r->reports[0].places));
    }
}

/* ---- collectives, as ops/ops.h defines them ---- */

static double reduced(const ranks *r, const bt_node *const *nodes, int which, int64_t i)
{
    const int64_t reduction = ((const bt_collective_attr *)nodes[0]->attr)->reduction;
    double all = interpreter_value(r->values[0], nodes[0]->in[which])[i];
    for (int k = 1; k < r->count; k++) {
        double x = interpreter_value(r->values[k], nodes[k]->in[which])[i];
        if (reduction == BT_REDUCE_SUM)
            all = all + x;
        else if (!isnan(all) && (isnan(x) || (reduction == BT_REDUCE_MAX ? x > all : x < all)))
            all = x;
    }
    return all;
}

static double *joined(const ranks *r, const bt_node *const *nodes, int which)
{
    const bt_collective_attr *attr = nodes[0]->attr;
    const bt_array shape = bt_tensor_array(nodes[0]->op == &bt_op_all_gather ? nodes[0]->out : nodes[0]->in[which]);
    double *whole = room(bt_array_count(shape));
    if (nodes[0]->op != &bt_op_all_gather) {
        for (int64_t i = 0; i < bt_array_count(shape); i++)
            whole[i] = reduced(r, nodes, which, i);
        return whole;
    }
    const bt_spread spread = {.kind = BT_SHARDED, .axis = (int)attr->axis, .rows = attr->rows};
    for (int rank = 0; rank < r->count; rank++) {
        double *part = (double *)(uintptr_t)interpreter_value(r->values[rank], nodes[rank]->in[0]);
        if (attr->of) {
            int64_t first = first_element(r, attr->rows, attr->of, attr->from, attr->size, rank);
            memcpy(whole + first, part, (size_t)bt_tensor_count(nodes[rank]->in[0]) * sizeof *part);
            continue;
        }
        move_rows(whole, part, shape, spread.axis, first_row(r, &spread, shape, rank),
                  nodes[rank]->in[0]->dims[attr->axis], false);
    }
    return whole;
}

static void join(ranks *r, const bt_node *const *nodes, int which)
{
    double *whole = joined(r, nodes, which);
    for (int rank = 0; rank < r->count; rank++) {
        const bt_collective_attr *attr = nodes[rank]->attr;
        const bt_tensor *out = &nodes[rank]->out[which];
        double *own = room(bt_tensor_count(out));
        ck_assert_msg(nodes[rank]->op == nodes[0]->op && nodes[rank]->inputs == nodes[0]->inputs,
                      "ranks are at different collectives");
        ck_assert(attr->rank == rank && attr->ranks == r->count);
        if (nodes[rank]->op == &bt_op_reduce_scatter && attr->of) {
            interpreter_set(r->values[rank], out,
                            whole + first_element(r, attr->rows, attr->of, attr->from, attr->size, rank));
        } else if (nodes[rank]->op == &bt_op_reduce_scatter) {
            const bt_spread spread = {.kind = BT_SHARDED, .axis = (int)attr->axis, .rows = attr->rows};
            const bt_array shape = bt_tensor_array(nodes[rank]->in[0]);
            move_rows(whole, own, shape, spread.axis, first_row(r, &spread, shape, rank), out->dims[spread.axis], true);
            interpreter_set(r->values[rank], out, own);
        } else {
            interpreter_set(r->values[rank], out, whole);
        }
        free(own);
    }
    free(whole);
}

void ranks_run(ranks *r)
{
    int64_t at[RANKS_MOST] = {0};
    const bt_node *nodes[RANKS_MOST];
    for (int rank = 0; rank < r->count; rank++)
        r->values[rank] = interpreter_new(r->graphs[rank]);
    for (;;) {
        int there = 0;
        for (int rank = 0; rank < r->count; rank++) {
            nodes[rank] = interpreter_advance(r->values[rank], &at[rank]);
            there += nodes[rank] != NULL;
        }
        if (!there)
            return;
        ck_assert_msg(there == r->count, "%d of %d ranks are at a collective", there, r->count);
        for (int i = 0; i < nodes[0]->inputs; i++)
            join(r, nodes, i);
        for (int rank = 0; rank < r->count; rank++)
            at[rank]++;
    }
}

void ranks_free(ranks *r)
{
    for (int rank = 0; rank < r->count; rank++) {
        interpreter_free(r->values[rank]);
        bt_graph_free(r->graphs[rank]);
        bt_sharded_free(&r->reports[rank]);
    }
    for (int i = 0; i < r->window_count; i++)
        bt_var_free(r->windows[i]);
    for (int i = 0; i < r->var_count; i++)
        for (int rank = 0; rank < r->count; rank++)
            bt_var_free(r->vars[i].own[rank]);
    free(r->out);
    *r = (ranks){0};
}

/* ---- results ---- */

static const double *together(ranks *r, bt_array shape, const bt_spread *spread, const bt_tensor *const *own)
{
    const int64_t count = bt_array_count(shape);
    free(r->out);
    r->out = room(count);
    for (int rank = 0; rank < r->count; rank++) {
        const double *values = interpreter_value(r->values[rank], own[rank]);
        if (spread->kind == BT_STRETCH) {
            int64_t first = first_element(r, spread->rows, spread->of, spread->from, count, rank);
            memcpy(r->out + first, values, (size_t)bt_tensor_count(own[rank]) * sizeof *values);
            continue;
        }
        if (spread->kind == BT_SHARDED) {
            move_rows(r->out, (double *)(uintptr_t)values, shape, spread->axis, first_row(r, spread, shape, rank),
                      own[rank]->dims[spread->axis], false);
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            if (spread->kind == BT_REPLICATED && rank)
                ck_assert_msg(memcmp(&r->out[i], &values[i], sizeof *values) == 0 || isnan(values[i]),
                              "[%d] is %.17g on rank 0 and %.17g on rank %d", (int)i, r->out[i], values[i], rank);
            r->out[i] = spread->kind == BT_PARTIAL ? r->out[i] + values[i] : values[i];
        }
    }
    return r->out;
}

const double *ranks_assigned(ranks *r, int64_t assign)
{
    const bt_tensor *own[RANKS_MOST];
    const bt_assign *whole = &r->whole->assigns[assign];
    const bt_spread root = ranks_found(r, bt_var_root(whole->var)), spread = bt_spread_within(&root, whole->var);
    for (int rank = 0; rank < r->count; rank++)
        own[rank] = r->graphs[rank]->assigns[assign].value;
    return together(r, bt_tensor_array(whole->value), &spread, own);
}

const double *ranks_output(ranks *r, int64_t output)
{
    const bt_tensor *own[RANKS_MOST];
    const bt_spread spread = {.kind = BT_REPLICATED};
    for (int rank = 0; rank < r->count; rank++)
        own[rank] = r->graphs[rank]->outputs[output];
    return together(r, bt_tensor_array(r->whole->outputs[output]), &spread, own);
}

static double largest(double so_far, const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        so_far = isfinite(values[i]) ? fmax(so_far, fabs(values[i])) : so_far;
    return so_far;
}

static void expect(const double *found, const double *right, int64_t count, double tolerance, const char *name,
                   const char *what, int64_t which)
{
    for (int64_t i = 0; i < count; i++) {
        bool near = fabs(found[i] - right[i]) <= tolerance || found[i] == right[i];
        ck_assert_msg(near || (isnan(found[i]) && isnan(right[i])), "%s: %s %d [%d]: %.17g, must be %.17g", name, what,
                      (int)which, (int)i, found[i], right[i]);
    }
}

void ranks_expect_whole(ranks *r, double tolerance, const char *name)
{
    const bt_graph *graph = r->whole;
    interpreter *whole = interpreter_new(graph);
    double most = 0;
    interpreter_run(whole);
    for (int64_t i = 0; i < graph->assign_count + graph->output_count; i++) {
        const bt_tensor *x =
            i < graph->assign_count ? graph->assigns[i].value : graph->outputs[i - graph->assign_count];
        most = largest(most, interpreter_value(whole, x), bt_tensor_count(x));
    }
    for (int64_t i = 0; i < graph->assign_count; i++) {
        const bt_tensor *x = graph->assigns[i].value;
        expect(ranks_assigned(r, i), interpreter_value(whole, x), bt_tensor_count(x), tolerance * most, name,
               "assigned", i);
    }
    for (int64_t i = 0; i < graph->output_count; i++) {
        const bt_tensor *x = graph->outputs[i];
        expect(ranks_output(r, i), interpreter_value(whole, x), bt_tensor_count(x), tolerance * most, name, "output",
               i);
    }
    interpreter_free(whole);
}

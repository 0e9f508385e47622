/* export/rules_shape.c: rules for ops that move, select, join and reduce elements. */
#include "export/onnx.h"

#include "ops/ops.h"
#include <string.h>

/* ---- reductions ---- */

static int axes_of(const bt_reduce_attr *reduce, int rank, int64_t axes[BT_MAX_RANK])
{
    int count = 0;
    for (int a = 0; a < rank; a++)
        if (reduce->axes >> a & 1)
            axes[count++] = a;
    return count;
}

static void write_reduce(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_reduce_attr *reduce = node->attr;
    int64_t axes[BT_MAX_RANK];
    const int count = axes_of(reduce, node->in[0]->rank, axes);
    bt_onnx_out(m, node, 0, bt_onnx_reduce(m, name, bt_onnx_in(m, node, 0), axes, count, reduce->keep));
}

static void write_argmax(bt_onnx *m, const bt_node *node, const char *name)
{
    int64_t axes[BT_MAX_RANK];
    axes_of(node->attr, node->in[0]->rank, axes);
    const char *at =
        BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("axis", axes[0]), BT_WHOLE("keepdims", 0)), bt_onnx_in(m, node, 0));
    bt_onnx_out(m, node, 0, bt_onnx_cast(m, at, node->out->dtype));
}

/* ---- shape ---- */

/* A size that grows is written as -1, to be inferred; there is only one, because the element count grows in proportion
 * to one size. */
static void write_reshape(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_tensor *out = node->out;
    int64_t sizes[BT_MAX_RANK];
    bool empty = false;
    for (int a = 0; a < out->rank; a++) {
        sizes[a] = bt_onnx_grows(m, out, a) ? -1 : out->dims[a];
        empty |= !out->dims[a];
    }
    const char *shape = empty ? bt_onnx_shape(m, out) : bt_onnx_wholes(m, sizes, out->rank);
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, empty ? BT_ATTRS(BT_WHOLE("allowzero", 1)) : NULL, bt_onnx_in(m, node, 0), shape));
}

static void write_permute(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_shape_attr *shape = node->attr;
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, BT_ATTRS(BT_WHOLES("perm", shape->axes, node->out->rank)), bt_onnx_in(m, node, 0)));
}

/* Repeated axes get size 1; the op that reads the value broadcasts it, or Expand repeats it. */
static void write_broadcast(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_shape_attr *shape = node->attr;
    int64_t fresh[BT_MAX_RANK];
    int count = 0, given = 0;
    for (int a = 0; a < node->out->rank; a++)
        if (given < node->in[0]->rank && shape->axes[given] == a)
            given++;
        else
            fresh[count++] = a;
    const char *x = bt_onnx_in(m, node, 0);
    bool leading = true; /* ONNX adds leading axes by itself, as NumPy does */
    for (int i = 0; i < count; i++)
        leading &= fresh[i] == i;
    bt_onnx_out_thin(m, node, leading ? x : BT_ONNX(m, name, NULL, x, bt_onnx_wholes(m, fresh, count)));
}

/* ---- parts ---- */

static void write_slice(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_range_attr *range = node->attr, *twin = bt_onnx_twin(m, node->out)->node->attr;
    const char *from = bt_onnx_size(m, range->from, twin->from), *to = bt_onnx_size(m, range->to, twin->to);
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, NULL, bt_onnx_in(m, node, 0), from, to, bt_onnx_wholes(m, &range->axis, 1)));
}

static void write_pad(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_range_attr *range = node->attr;
    const int rank = node->out->rank, axis = (int)range->axis;
    int64_t pads[2 * BT_MAX_RANK] = {0};
    if (bt_onnx_grows(m, node->in[0], axis))
        bt_onnx_refuse(m, node, "of the batch");
    pads[axis] = range->from;
    pads[rank + axis] = range->to - range->from - node->in[0]->dims[axis];
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, bt_onnx_in(m, node, 0), bt_onnx_wholes(m, pads, 2 * rank)));
}

static void write_concat(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_range_attr *range = node->attr;
    const char **in = bt_alloc_array((size_t)node->inputs + 1, sizeof *in);
    for (int i = 0; in && i < node->inputs; i++)
        in[i] = bt_onnx_in(m, node, i);
    if (in)
        bt_onnx_out(m, node, 0, bt_onnx_op(m, name, BT_ATTRS(BT_WHOLE("axis", range->axis)), in));
    else
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    bt_free(in);
}

/* ---- indices ---- */

static void write_gather(bt_onnx *m, const bt_node *node, const char *name)
{
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("axis", 0)), bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1)));
}

static const char *zeros(bt_onnx *m, const bt_tensor *like)
{
    return BT_ONNX(m, "Expand", NULL, bt_onnx_number(m, like->dtype, 0), bt_onnx_shape(m, like));
}

/* ONNX's scatter ops need I64 indices. */
static void write_scatter_add(bt_onnx *m, const bt_node *node, const char *name)
{
    const int64_t last = -1;
    const char *index =
        BT_ONNX(m, "Unsqueeze", NULL, bt_onnx_cast(m, bt_onnx_in(m, node, 0), BT_I64), bt_onnx_wholes(m, &last, 1));
    bt_onnx_out(
        m, node, 0,
        BT_ONNX(m, name, BT_ATTRS(BT_TEXT("reduction", "add")), zeros(m, node->out), index, bt_onnx_in(m, node, 1)));
}

static void write_one_hot(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_one_hot_attr *hot = node->attr;
    const int64_t last = -1;
    bt_array classes = {.dtype = BT_I64, .rank = 1, .dims = {hot->classes}};
    classes.data = bt_alloc(bt_array_bytes(classes));
    for (int64_t i = 0; classes.data && i < hot->classes; i++)
        bt_put(BT_I64, classes.data, i, (double)i);
    const char *label =
        BT_ONNX(m, "Unsqueeze", NULL, bt_onnx_cast(m, bt_onnx_in(m, node, 0), BT_I64), bt_onnx_wholes(m, &last, 1));
    const char *hit = BT_ONNX(m, name, NULL, label, bt_onnx_array(m, classes));
    bt_free(classes.data);
    bt_onnx_out(m, node, 0, bt_onnx_cast(m, hit, node->out->dtype));
}

static void write_argsort(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_sort_attr *sort = node->attr;
    const char *in[] = {bt_onnx_in(m, node, 0), bt_onnx_wholes(m, &sort->count, 1), NULL}, *out[2];
    bt_onnx_node(m, name, BT_ATTRS(BT_WHOLE("axis", sort->axis), BT_WHOLE("largest", sort->descending)), in, out, 2);
    bt_onnx_out(m, node, 0, bt_onnx_cast(m, out[1], node->out->dtype));
}

static void write_take_along(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_axis_attr *along = node->attr;
    bt_onnx_out(
        m, node, 0,
        BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("axis", along->axis)), bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1)));
}

static void write_put_along(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_places_attr *places = node->attr;
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("axis", places->axis), BT_TEXT("reduction", "add")),
                        zeros(m, node->out), bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1)));
}

static void write_cumsum(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_cumsum_attr *along = node->attr;
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("reverse", along->reverse)), bt_onnx_in(m, node, 0),
                        bt_onnx_number(m, BT_I64, (double)along->axis)));
}

const bt_onnx_rule bt_onnx_rules_shape[] = {
    BT_RULE(sum, write_reduce, "ReduceSum"),
    BT_RULE(max, write_reduce, "ReduceMax"),
    BT_RULE(min, write_reduce, "ReduceMin"),
    BT_RULE(argmax, write_argmax, "ArgMax"),
    BT_RESIZED(reshape, write_reshape, "Reshape"),
    BT_RESIZED(permute, write_permute, "Transpose"),
    BT_RESIZED(broadcast, write_broadcast, "Unsqueeze"),
    BT_RESIZED(slice, write_slice, "Slice"),
    BT_RESIZED(pad, write_pad, "Pad"),
    BT_RESIZED(concat, write_concat, "Concat"),
    BT_RULE(gather, write_gather, "Gather"),
    BT_RESIZED(scatter_add, write_scatter_add, "ScatterND"),
    BT_RULE(one_hot, write_one_hot, "Equal"),
    BT_RULE(argsort, write_argsort, "TopK"),
    BT_RULE(take_along, write_take_along, "GatherElements"),
    BT_RESIZED(put_along, write_put_along, "ScatterElements"),
    BT_RULE(cumsum, write_cumsum, "CumSum"),
    {.op = NULL},
};

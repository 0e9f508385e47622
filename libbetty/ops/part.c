/* ops/part.c: slices, zero padding, concatenation, copies. */
#include "ops/define.h"

#include <stdio.h>

static void range_describe(const void *attr, bt_text *text)
{
    const bt_range_attr *range = attr;
    bt_text_add(text, "axis %lld, %lld, %lld", (long long)range->axis, (long long)range->from, (long long)range->to);
}

static bt_tensor *slice(bt_tensor *x, int64_t axis, int64_t from, int64_t to)
{
    bt_range_attr attr = {axis, from, to};
    return from == 0 && to == x->dims[axis] ? x : BT_RECORD(&bt_op_slice, &attr, x);
}

static bt_tensor *pad(bt_tensor *x, int64_t axis, int64_t before, int64_t size)
{
    bt_range_attr attr = {axis, before, size};
    return before == 0 && size == x->dims[axis] ? x : BT_RECORD(&bt_op_pad, &attr, x);
}

/* Splits along any axis but the one that is cut or padded. */
static bool range_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return shares->in_axis[0] != ((const bt_range_attr *)shares->attr)->axis;
}

/* ---- slice ---- */

static bt_status slice_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_range_attr *range = attr;
    BT_TRY(bt_check_axis("slice", range->axis, in[0].rank));
    if (range->from < 0 || range->from > range->to || range->to > in[0].dims[range->axis])
        return bt_fail(BT_ERROR_SHAPE, "slice: from %lld to %lld of an axis of size %lld", (long long)range->from,
                       (long long)range->to, (long long)in[0].dims[range->axis]);
    out[0] = in[0];
    out[0].dims[range->axis] = range->to - range->from;
    return BT_OK;
}

static void slice_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    (void)out;
    wanted[0] = given[0] ? pad(given[0], range->axis, range->from, in[0]->dims[range->axis]) : NULL;
}

static void slice_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    (void)in, (void)out;
    wanted[0] = given[0] ? slice(given[0], range->axis, range->from, range->to) : NULL;
}

static bool slice_view(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    const bt_range_attr *range = attr;
    bt_view_same(NULL, in, out, offset);
    out->dims[range->axis] = range->to - range->from;
    *offset = range->from * in->strides[range->axis];
    return true;
}

/* A slice of a padded or concatenated tensor that lies within one of the parts: a slice of that part. */
static bt_tensor *slice_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    const bt_range_attr *range = attr, *made = in[0]->node->attr;
    const bt_node *node = in[0]->node;
    int64_t from = node->op == &bt_op_pad ? made->from : 0;
    (void)inputs;
    if ((node->op != &bt_op_pad && node->op != &bt_op_concat) || made->axis != range->axis)
        return NULL;
    for (int i = 0; i < node->inputs; i++) {
        int64_t to = from + node->in[i]->dims[range->axis];
        if (from <= range->from && range->to <= to)
            return slice(node->in[i], range->axis, range->from - from, range->to - from);
        from = to;
    }
    return NULL;
}

static void slice_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "rows", .inputs = 1, BT_ATTR(bt_range_attr, 0, 1, 3),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)});
    BT_SAMPLE(sampler, .name = "columns", .inputs = 1, BT_ATTR(bt_range_attr, 1, 2, 5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 1, BT_ATTR(bt_range_attr, 1, 0, 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 4, 3)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, BT_ATTR(bt_range_attr, 0, 2, 2),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 1, BT_ATTR(bt_range_attr, 0, 1, 3),
              .in = {BT_DRAWN(0, 9, BT_I64, 1, 4)});
}

const bt_op bt_op_slice = {
    .name = "slice",
    .inputs = 1,
    .attr_size = sizeof(bt_range_attr),
    .infer = slice_infer,
    .vjp = slice_vjp,
    .jvp = slice_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR | BT_OP_CHEAP,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .shares = range_shares,
                                .view = slice_view,
                                .simplify = slice_simplify,
                                .describe = range_describe,
                                .samples = slice_samples},
};

/* ---- pad ---- */

static bt_status pad_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_range_attr *range = attr;
    BT_TRY(bt_check_axis("pad", range->axis, in[0].rank));
    if (range->from < 0 || range->from > range->to || in[0].dims[range->axis] > range->to - range->from)
        return bt_fail(BT_ERROR_SHAPE, "pad: an axis of size %lld, with %lld zeros before it, does not fit into %lld",
                       (long long)in[0].dims[range->axis], (long long)range->from, (long long)range->to);
    out[0] = in[0];
    out[0].dims[range->axis] = range->to;
    return BT_OK;
}

static void pad_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    (void)out;
    wanted[0] = given[0] ? slice(given[0], range->axis, range->from, range->from + in[0]->dims[range->axis]) : NULL;
}

static void pad_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    (void)in, (void)out;
    wanted[0] = given[0] ? pad(given[0], range->axis, range->from, range->to) : NULL;
}

/* Whether the padded part of `b` begins where that of `a` ends. */
static bool follows(const bt_tensor *a, const bt_tensor *b)
{
    const bt_range_attr *first = a->node->attr, *second = b->node->attr;
    return first->from + a->node->in[0]->dims[first->axis] == second->from;
}

bt_tensor *bt_pads_joined(bt_tensor *a, bt_tensor *b)
{
    if (a->node->op != &bt_op_pad || b->node->op != &bt_op_pad)
        return NULL;
    const bt_range_attr *range = a->node->attr;
    if (range->axis != ((const bt_range_attr *)b->node->attr)->axis || (!follows(a, b) && !follows(b, a)))
        return NULL;
    const bt_node *first = follows(a, b) ? a->node : b->node, *second = follows(a, b) ? b->node : a->node;
    bt_tensor *both = bt_concat_list((int)range->axis, (bt_tensor *const[]){first->in[0], second->in[0]}, 2);
    range = first->attr;
    return bt_poisoned(both) ? NULL : pad(both, range->axis, range->from, range->to);
}

static void pad_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "rows", .inputs = 1, BT_ATTR(bt_range_attr, 0, 1, 5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 2)});
    BT_SAMPLE(sampler, .name = "columns", .inputs = 1, BT_ATTR(bt_range_attr, 1, 0, 5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 2)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 1, BT_ATTR(bt_range_attr, 1, 3, 5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "from nothing", .inputs = 1, BT_ATTR(bt_range_attr, 0, 2, 4),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 1, BT_ATTR(bt_range_attr, 0, 1, 5),
              .in = {BT_DRAWN(0, 9, BT_I32, 1, 4)});
}

const bt_op bt_op_pad = {
    .name = "pad",
    .inputs = 1,
    .attr_size = sizeof(bt_range_attr),
    .infer = pad_infer,
    .vjp = pad_vjp,
    .jvp = pad_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = range_shares,
                                .describe = range_describe,
                                .samples = pad_samples},
};

/* ---- concat: the attributes give the number of parts ---- */

static bt_status concat_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_range_attr *range = attr;
    int64_t size = 0;
    if (range->from < 1)
        return bt_fail(BT_ERROR_ARGUMENT, "concat: no parts");
    BT_TRY(bt_check_axis("concat", range->axis, in[0].rank));
    for (int64_t i = 0; i < range->from; i++) {
        bt_array like = in[0];
        if (in[i].rank == in[0].rank)
            like.dims[range->axis] = in[i].dims[range->axis];
        BT_TRY(bt_check_equal("concat", "a part", in[i], "the first, but for the joined axis", like));
        if (__builtin_add_overflow(size, in[i].dims[range->axis], &size))
            return bt_fail(BT_ERROR_SHAPE, "concat: the result is too large");
    }
    if (size != range->to)
        return bt_fail(BT_ERROR_INTERNAL, "concat: the parts have %lld along the joined axis, not %lld",
                       (long long)size, (long long)range->to);
    out[0] = in[0];
    out[0].dims[range->axis] = size;
    return BT_OK;
}

static void concat_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    (void)out;
    int64_t from = 0;
    for (int64_t i = 0; i < range->from && given[0]; i++) {
        int64_t to = from + in[i]->dims[range->axis];
        wanted[i] = slice(given[0], range->axis, from, to);
        from = to;
    }
}

static void concat_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    const bt_range_attr *range = attr;
    bt_trace *trace = bt_trace_now();
    int64_t moved = 0;
    (void)out;
    bt_tensor **parts = bt_region_alloc(trace->graph->region, (size_t)range->from * sizeof(bt_tensor *));
    for (int64_t i = 0; i < range->from && parts; i++) {
        moved += given[i] != NULL;
        parts[i] = given[i] ? given[i] : bt_zeros_like(in[i]);
    }
    if (!parts)
        wanted[0] = bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    else if (moved)
        wanted[0] = bt_concat_list((int)range->axis, parts, (int)range->from);
}

static bool concat_shares(bt_shares *shares)
{
    int along = (int)((const bt_range_attr *)shares->attr)->axis;
    shares->stacked = true;
    for (int i = 0; i < shares->inputs; i++) {
        if (shares->in_axis[i] >= 0 && shares->in_axis[i] != along) {
            shares->stacked = false;
            return bt_shares_along(shares, shares->in_axis[i], 1);
        }
        shares->stacked = shares->stacked && shares->in_axis[i] == along;
    }
    shares->out_axis[0] = along;
    return shares->stacked;
}

static void concat_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "axis %lld", (long long)((const bt_range_attr *)attr)->axis);
}

static void concat_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "rows", .inputs = 2, BT_ATTR(bt_range_attr, 0, 2, 5),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 4), BT_DRAWN(-2, 2, BT_F64, 2, 2, 4)});
    BT_SAMPLE(
        sampler, .name = "columns", .inputs = 3, BT_ATTR(bt_range_attr, 1, 3, 6),
        .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 4), BT_DRAWN(-2, 2, BT_F64, 2, 3, 0), BT_DRAWN(-2, 2, BT_F64, 2, 3, 2)});
    BT_SAMPLE(sampler, .name = "one part", .inputs = 1, BT_ATTR(bt_range_attr, 0, 1, 3),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 3)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 2, BT_ATTR(bt_range_attr, 1, 2, 3),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 1, 3), BT_DRAWN(-2, 2, BT_F64, 3, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 2, BT_ATTR(bt_range_attr, 0, 2, 5),
              .in = {BT_DRAWN(0, 9, BT_U8, 1, 3), BT_DRAWN(0, 9, BT_U8, 1, 2)});
}

const bt_op bt_op_concat = {
    .name = "concat",
    .inputs = -1,
    .attr_size = sizeof(bt_range_attr),
    .infer = concat_infer,
    .vjp = concat_vjp,
    .jvp = concat_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR,
                                .differentiable = ~0U,
                                .shares = concat_shares,
                                .describe = concat_describe,
                                .samples = concat_samples},
};

/* ---- copy: the same values in a separate buffer ---- */

BT_INFER_EQUAL(copy, BT_EVERY, 1)

static void copy_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = given[0];
}

static void copy_samples(bt_sampler *sampler)
{
    bt_samples_equal(sampler, 1, -2, 2);
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 1, .in = {BT_DRAWN(0, 9, BT_U8, 2, 3, 3)});
    BT_SAMPLE(sampler, .name = "truth", .inputs = 1, .in = {BT_DRAWN(0, 2, BT_BOOL, 1, 9)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 1, .in = {BT_DRAWN(-9, 9, BT_I64, 1, 9)});
}

const bt_op bt_op_copy = {
    .name = "copy",
    .inputs = 1,
    .infer = copy_infer,
    .vjp = copy_rule,
    .jvp = copy_rule,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR,
                                .differentiable = 1,
                                .samples = copy_samples},
};

/* ---- builders ---- */

bt_tensor *bt_slice(bt_tensor *x, int axis, int64_t from, int64_t to)
{
    bt_tensor *poison = bt_operand_missing("slice", x);
    if (!poison)
        poison = bt_operand_axis("slice", x, axis, &axis);
    if (poison)
        return poison;
    int64_t size = x->dims[axis], first = from < 0 ? from + size : from,
            end = to == BT_REST ? size
                  : to < 0      ? to + size
                                : to;
    if (first < 0 || first > end || end > size) {
        char shape[256], until[32] = "the end";
        if (to != BT_REST)
            snprintf(until, sizeof until, "%lld", (long long)to);
        return bt_trace_poison(BT_ERROR_SHAPE, "slice: from %lld to %s along axis %d of %s, whose size is %lld",
                               (long long)from, until, axis, bt_shape_text(shape, x->rank, x->dims), (long long)size);
    }
    return slice(x, axis, first, end);
}

bt_tensor *(bt_at)(bt_tensor *x, const int64_t *index)
{
    bt_tensor *poison = bt_operand_missing("at", x), *part = x;
    int axis = 0;
    if (poison)
        return poison;
    for (; index && *index != BT_END; index++, axis++) {
        char shape[256];
        bt_shape_text(shape, x->rank, x->dims);
        if (axis == x->rank)
            return bt_trace_poison(BT_ERROR_SHAPE, "at: more indices than the %d axes of %s", x->rank, shape);
        int64_t size = x->dims[axis], i = *index < 0 && *index >= -size ? *index + size : *index;
        if (i < 0 || i >= size)
            return bt_trace_poison(BT_ERROR_SHAPE, "at: index %lld along axis %d of %s, whose size is %lld",
                                   (long long)*index, axis, shape, (long long)size);
        part = slice(part, axis, i, i + 1);
        if (bt_poisoned(part))
            return part;
    }
    return bt_reshape_to(part, x->rank - axis, x->dims + axis);
}

bt_tensor *bt_pad_axis(bt_tensor *x, int axis, int64_t before, int64_t size)
{
    bt_tensor *poison = bt_operand_missing("pad", x);
    if (!poison)
        poison = bt_operand_axis("pad", x, axis, &axis);
    return poison ? poison : pad(x, axis, before, size);
}

bt_tensor *bt_concat_list(int axis, bt_tensor *const *parts, int count)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "concat: tensors can only be computed inside a traced callback");
    if (!parts || count < 1)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "concat: there are no parts, or the first is NULL");
    bt_tensor **x = bt_region_copy(trace->graph->region, parts, (size_t)count * sizeof(bt_tensor *));
    bt_tensor *poison = x ? bt_operands_promote("concat", x, count, BT_PROMOTE_KEEP)
                          : bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    if (!poison)
        poison = bt_operand_axis("concat", x[0], axis, &axis);
    if (poison || count == 1)
        return poison ? poison : x[0];
    bt_range_attr attr = {axis, count, 0};
    for (int i = 0; i < count; i++) /* if a part has too few axes, infer reports it */
        if (axis >= x[i]->rank || __builtin_add_overflow(attr.to, x[i]->dims[axis], &attr.to))
            break;
    return bt_record(&bt_op_concat, &attr, sizeof attr, x, count);
}

bt_tensor *(bt_concat)(int axis, bt_tensor *const *parts)
{
    int count = 0;
    while (parts && parts[count])
        count++;
    return bt_concat_list(axis, parts, count);
}

bt_tensor *bt_copy(bt_tensor *x)
{
    bt_tensor *poison = bt_operand_missing("copy", x);
    return poison ? poison : BT_RECORD0(&bt_op_copy, x);
}

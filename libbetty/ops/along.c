/* ops/along.c: ops along one axis: sorting, elements by position, running sums. */
#include "ops/define.h"

static void axis_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "axis %lld", (long long)((const bt_axis_attr *)attr)->axis);
}

/* ---- argsort(x): positions of the first `count` elements in sorted order, BT_I32; ties keep their order ---- */

static bt_status argsort_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_sort_attr *sort = attr;
    char shape[256];
    BT_TRY(bt_check_dtype("argsort", "the operand", in[0].dtype, BT_NUMBERS));
    BT_TRY(bt_check_axis("argsort", sort->axis, in[0].rank));
    int64_t size = in[0].dims[sort->axis];
    if (size > INT32_MAX)
        return bt_fail(BT_ERROR_SHAPE, "argsort: %lld elements along axis %lld; their places are i32, so at most %d",
                       (long long)size, (long long)sort->axis, INT32_MAX);
    if (sort->count < 0 || sort->count > size)
        return bt_fail(BT_ERROR_SHAPE, "argsort: the first %lld along axis %lld of %s, which has only %lld there",
                       (long long)sort->count, (long long)sort->axis, bt_shape_text(shape, in[0].rank, in[0].dims),
                       (long long)size);
    out[0] = in[0];
    out[0].dtype = BT_I32;
    out[0].dims[sort->axis] = sort->count;
    return BT_OK;
}

static bool sort_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return shares->in_axis[0] != (int)((const bt_sort_attr *)shares->attr)->axis;
}

static void sort_describe(const void *attr, bt_text *text)
{
    const bt_sort_attr *sort = attr;
    bt_text_add(text, "axis %lld, the first %lld%s", (long long)sort->axis, (long long)sort->count,
                sort->descending ? ", descending" : "");
}

static void argsort_samples(bt_sampler *sampler)
{
    static const double ties[] = {1, 3, 3, 2, 3, -1, -1, -5, -0.0, 0};
    static const double extreme[] = {0x1p62, -9, -0x1p31, 7, -0x1p62};
    static const struct {
        const char *name;
        bt_sort_attr attr;
        bt_sample_input in;
    } cases[] = {
        {"rows", {1, 5, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},
        {"rows, descending", {1, 5, 1}, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},
        {"columns", {0, 6, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 6, 3)},
        {"middle, the first", {1, 2, 1}, BT_DRAWN(-2, 2, BT_F64, 3, 2, 5, 3)},
        {"long", {0, 203, 0}, BT_DRAWN(-2, 2, BT_F64, 1, 203)},
        {"long, descending", {0, 131, 1}, BT_DRAWN(-2, 2, BT_F64, 1, 131)},
        {"long, the first", {0, 3, 0}, BT_DRAWN(-2, 2, BT_F64, 1, 203)},
        {"long, most", {0, 150, 1}, BT_DRAWN(-2, 2, BT_F64, 1, 203)},
        {"ties", {1, 10, 0}, BT_LISTED(ties, BT_F64, 2, 2, 10)},
        {"ties, descending", {1, 10, 1}, BT_LISTED(ties, BT_F64, 2, 2, 10)},
        {"long ties", {0, 100, 1}, BT_LISTED(ties, BT_F64, 1, 100)},
        {"integers", {0, 20, 0}, BT_DRAWN(-9, 9, BT_I32, 1, 20)},
        {"long integers", {0, 5, 1}, BT_LISTED(extreme, BT_I64, 1, 5)},
        {"none", {0, 0, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 3, 2)},
        {"no elements", {1, 0, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 3, 0)},
        {"no rows", {1, 3, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        BT_SAMPLE(sampler, .name = cases[i].name, .inputs = 1, .attr = &cases[i].attr,
                  .attr_size = sizeof cases[i].attr, .in = {cases[i].in});
}

const bt_op bt_op_argsort = {
    .name = "argsort",
    .inputs = 1,
    .attr_size = sizeof(bt_sort_attr),
    .infer = argsort_infer,
    .info =
        &(const bt_op_info){
            .flops = bt_flops_input, .shares = sort_shares, .describe = sort_describe, .samples = argsort_samples},
};

/* ---- take_along(x, index): shaped like the index; element i along the axis is x's element index[i] ---- */

/* x and the index must have the same shape except along the axis. */
static bt_status check_places(const char *op, int64_t axis, bt_array x, bt_array index)
{
    char a[256], b[256];
    BT_TRY(bt_check_dtype(op, "the index", index.dtype, BT_INTEGERS));
    BT_TRY(bt_check_axis(op, axis, x.rank));
    bool fits = x.rank == index.rank;
    for (int d = 0; fits && d < x.rank; d++)
        fits = d == axis || x.dims[d] == index.dims[d];
    return fits ? BT_OK
                : bt_fail(BT_ERROR_SHAPE,
                          "%s: %s with the index %s; both must have the same shape except along axis %lld", op,
                          bt_shape_text(a, x.rank, x.dims), bt_shape_text(b, index.rank, index.dims), (long long)axis);
}

static bt_status take_along_infer(const void *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(check_places("take_along", ((const bt_axis_attr *)attr)->axis, in[0], in[1]));
    out[0] = in[1];
    out[0].dtype = in[0].dtype;
    return BT_OK;
}

static bt_tensor *put_along(bt_tensor *index, bt_tensor *values, int64_t axis, int64_t size)
{
    bt_places_attr attr = {axis, size};
    return BT_RECORD(&bt_op_put_along, &attr, index, values);
}

static void take_along_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    int64_t axis = ((const bt_axis_attr *)attr)->axis;
    (void)out;
    wanted[0] = given[0] ? put_along(in[1], given[0], axis, in[0]->dims[axis]) : NULL;
}

static void take_along_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_take_along, (const bt_axis_attr *)attr, given[0], in[1]) : NULL;
}

/* Split along the axis itself: x must be whole, because each index may point anywhere. */
static bool take_along_shares(bt_shares *shares)
{
    int along = (int)((const bt_axis_attr *)shares->attr)->axis, x = shares->in_axis[0], index = shares->in_axis[1];
    int axis = x >= 0 && x != along ? x : index;
    shares->in_axis[0] = axis == along ? -1 : axis;
    shares->in_axis[1] = shares->out_axis[0] = axis;
    return axis >= 0;
}

static void take_along_samples(bt_sampler *sampler)
{
    static const double twice[] = {2, 0, 2, 1, 2, 0};
    BT_SAMPLE(sampler, .name = "rows", .inputs = 2, BT_ATTR(bt_axis_attr, 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 2, 4), BT_LISTED(twice, BT_I32, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "columns", .inputs = 2, BT_ATTR(bt_axis_attr, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 2), BT_DRAWN(0, 3, BT_I64, 2, 5, 2)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 2, BT_ATTR(bt_axis_attr, 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 4), BT_DRAWN(0, 3, BT_I32, 3, 2, 2, 4)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 2, BT_ATTR(bt_axis_attr, 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 2, 4), BT_DRAWN(0, 4, BT_I32, 2, 2, 0)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 2, BT_ATTR(bt_axis_attr, 0),
              .in = {BT_DRAWN(0, 9, BT_U8, 1, 4), BT_DRAWN(0, 4, BT_I32, 1, 6)});
}

const bt_op bt_op_take_along = {
    .name = "take_along",
    .inputs = 2,
    .attr_size = sizeof(bt_axis_attr),
    .infer = take_along_infer,
    .vjp = take_along_vjp,
    .jvp = take_along_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = take_along_shares,
                                .describe = axis_describe,
                                .samples = take_along_samples},
};

/* ---- put_along(index, values): the adjoint: place p along the axis is the sum of the values whose index is p ---- */

static bt_status put_along_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_places_attr *places = attr;
    BT_TRY(bt_check_dtype("put_along", "the values", in[1].dtype, BT_FLOATS));
    BT_TRY(check_places("put_along", places->axis, in[1], in[0]));
    if (in[0].dims[places->axis] != in[1].dims[places->axis] || places->size < 0)
        return bt_fail(BT_ERROR_SHAPE, "put_along: %lld indices for %lld values, into %lld places",
                       (long long)in[0].dims[places->axis], (long long)in[1].dims[places->axis],
                       (long long)places->size);
    out[0] = in[1];
    out[0].dims[places->axis] = places->size;
    return BT_OK;
}

static void put_along_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    bt_axis_attr axis = {((const bt_places_attr *)attr)->axis};
    (void)out;
    wanted[1] = given[0] ? BT_RECORD(&bt_op_take_along, &axis, given[0], in[0]) : NULL;
}

static void put_along_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    const bt_places_attr *places = attr;
    (void)out;
    wanted[0] = given[1] ? put_along(in[0], given[1], places->axis, places->size) : NULL;
}

static bool put_along_shares(bt_shares *shares)
{
    int along = (int)((const bt_places_attr *)shares->attr)->axis, axis = bt_shares_axis(shares);
    shares->in_axis[0] = shares->in_axis[1] = axis;
    shares->out_axis[0] = axis == along ? BT_BATCH_SUMMED : axis;
    return true;
}

static void put_along_describe(const void *attr, bt_text *text)
{
    const bt_places_attr *places = attr;
    bt_text_add(text, "axis %lld, %lld places", (long long)places->axis, (long long)places->size);
}

static void put_along_samples(bt_sampler *sampler)
{
    static const double twice[] = {2, 0, 2, 1, 2, 0};
    BT_SAMPLE(sampler, .name = "rows", .inputs = 2, BT_ATTR(bt_places_attr, 1, 4),
              .in = {BT_LISTED(twice, BT_I32, 2, 2, 3), BT_DRAWN(-2, 2, BT_F64, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "columns", .inputs = 2, BT_ATTR(bt_places_attr, 0, 3),
              .in = {BT_DRAWN(0, 3, BT_I64, 2, 5, 2), BT_DRAWN(-2, 2, BT_F64, 2, 5, 2)});
    BT_SAMPLE(sampler, .name = "middle", .inputs = 2, BT_ATTR(bt_places_attr, 1, 3),
              .in = {BT_DRAWN(0, 3, BT_I32, 3, 2, 2, 4), BT_DRAWN(-2, 2, BT_F64, 3, 2, 2, 4)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 2, BT_ATTR(bt_places_attr, 1, 2),
              .in = {BT_DRAWN(0, 2, BT_I32, 2, 3, 0), BT_DRAWN(-2, 2, BT_F64, 2, 3, 0)});
}

const bt_op bt_op_put_along = {
    .name = "put_along",
    .inputs = 2,
    .attr_size = sizeof(bt_places_attr),
    .infer = put_along_infer,
    .vjp = put_along_vjp,
    .jvp = put_along_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 2,
                                .shares = put_along_shares,
                                .describe = put_along_describe,
                                .samples = put_along_samples},
};

/* ---- cumsum(x): each element plus all before it along the axis; reverse = 1: plus all after it ---- */

static bt_status cumsum_infer(const void *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_infer_equal("cumsum", BT_NUMBERS, 1, in, out));
    return bt_check_axis("cumsum", ((const bt_cumsum_attr *)attr)->axis, in[0].rank);
}

static bt_tensor *cumsum(bt_tensor *x, int64_t axis, int64_t reverse)
{
    bt_cumsum_attr attr = {axis, reverse};
    return BT_RECORD(&bt_op_cumsum, &attr, x);
}

static void cumsum_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    const bt_cumsum_attr *sum = attr;
    (void)in, (void)out;
    wanted[0] = given[0] ? cumsum(given[0], sum->axis, !sum->reverse) : NULL;
}

static void cumsum_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    const bt_cumsum_attr *sum = attr;
    (void)in, (void)out;
    wanted[0] = given[0] ? cumsum(given[0], sum->axis, sum->reverse) : NULL;
}

static bool cumsum_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return shares->in_axis[0] != (int)((const bt_cumsum_attr *)shares->attr)->axis;
}

static void cumsum_describe(const void *attr, bt_text *text)
{
    const bt_cumsum_attr *sum = attr;
    bt_text_add(text, "axis %lld%s", (long long)sum->axis, sum->reverse ? ", from the end" : "");
}

static void cumsum_samples(bt_sampler *sampler)
{
    static const struct {
        const char *name;
        bt_cumsum_attr attr;
        bt_sample_input in;
    } cases[] = {
        {"rows", {1, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},
        {"columns", {0, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},
        {"middle, from the end", {1, 1}, BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 4)},
        {"long", {0, 0}, BT_DRAWN(-2, 2, BT_F64, 1, 203)},
        {"integers", {0, 1}, BT_DRAWN(-9, 9, BT_I32, 1, 20)},
        {"long integers", {1, 0}, BT_DRAWN(-9, 9, BT_I64, 2, 3, 5)},
        {"no elements", {1, 0}, BT_DRAWN(-2, 2, BT_F64, 2, 3, 0)},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        BT_SAMPLE(sampler, .name = cases[i].name, .inputs = 1, .attr = &cases[i].attr,
                  .attr_size = sizeof cases[i].attr, .in = {cases[i].in});
}

const bt_op bt_op_cumsum = {
    .name = "cumsum",
    .inputs = 1,
    .attr_size = sizeof(bt_cumsum_attr),
    .infer = cumsum_infer,
    .vjp = cumsum_vjp,
    .jvp = cumsum_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = cumsum_shares,
                                .describe = cumsum_describe,
                                .samples = cumsum_samples},
};

/* ---- builders ---- */

/* count < 0: all elements. */
static bt_tensor *order(const char *name, bt_tensor **x, int *axis, int64_t count, bool descending)
{
    bt_tensor *poison = bt_operands_promote(name, x, 1, BT_PROMOTE_NUMBER);
    if (!poison)
        poison = bt_operand_axis(name, *x, *axis, axis);
    if (poison)
        return poison;
    bt_sort_attr attr = {*axis, count < 0 ? (*x)->dims[*axis] : count, descending};
    return BT_RECORD(&bt_op_argsort, &attr, *x);
}

static bt_tensor *take(bt_tensor *x, bt_tensor *index, int64_t axis)
{
    bt_axis_attr attr = {axis};
    return bt_poisoned(index) ? index : BT_RECORD(&bt_op_take_along, &attr, x, index);
}

bt_tensor *bt_argsort(bt_tensor *x, int axis, bool descending) { return order("argsort", &x, &axis, -1, descending); }

bt_tensor *bt_sort(bt_tensor *x, int axis, bool descending)
{
    bt_tensor *places = order("sort", &x, &axis, -1, descending);
    return take(x, places, axis);
}

bt_tensor *bt_topk(bt_tensor *x, int64_t k, int axis, bt_tensor **index)
{
    char shape[256];
    bt_tensor *poison = bt_operand_missing("topk", x), *places = poison;
    int counted = axis;
    if (!poison)
        places = poison = bt_operand_axis("topk", x, axis, &counted);
    if (!poison && (k < 0 || k > x->dims[counted]))
        places = poison =
            bt_trace_poison(BT_ERROR_SHAPE, "topk: the %lld largest along axis %d of %s, which has only %lld",
                            (long long)k, counted, bt_shape_text(shape, x->rank, x->dims), (long long)x->dims[counted]);
    if (!poison)
        places = order("topk", &x, &counted, k, true);
    if (index)
        *index = places;
    return take(x, places, counted);
}

bt_tensor *bt_take_along(bt_tensor *x, bt_tensor *index, int axis)
{
    bt_tensor *poison = bt_operand_missing("take_along", x);
    if (!poison)
        poison = bt_operand_axis("take_along", x, axis, &axis);
    return poison ? poison : take(x, bt_index_of("take_along", index), axis);
}

bt_tensor *bt_cumsum(bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote("cumsum", &x, 1, BT_PROMOTE_NUMBER);
    if (!poison)
        poison = bt_operand_axis("cumsum", x, axis, &axis);
    return poison ? poison : cumsum(x, axis, 0);
}

/* ops/index.c: rows by index, and the adjoint; one-hot labels. */
#include "ops/define.h"

static bt_status check_index(const char *op, bt_array index)
{
    BT_TRY(bt_check_dtype(op, "the index", index.dtype, BT_INTEGERS));
    if (index.rank != 1)
        return bt_fail(BT_ERROR_SHAPE, "%s: the index has %d axes, must have 1", op, index.rank);
    return BT_OK;
}

/* ---- gather(x [rows, ...], index [k]): [k, ...] ---- */

static bt_status gather_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(check_index("gather", in[1]));
    if (in[0].rank < 1)
        return bt_fail(BT_ERROR_SHAPE, "gather: the operand is a scalar, which has no rows");
    out[0] = in[0];
    out[0].dims[0] = in[1].dims[0];
    return BT_OK;
}

static void gather_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_scatter_add(in[1], given[0], in[0]->dims[0]) : NULL;
}

static void gather_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? BT_RECORD0(&bt_op_gather, given[0], in[1]) : NULL;
}

/* If the index is split, each part may need any row, so x must be whole. */
static bool gather_shares(bt_shares *shares)
{
    const bool indices = shares->in_axis[1] == 0;
    shares->out_axis[0] = indices ? 0 : shares->in_axis[0];
    shares->in_axis[0] = indices ? -1 : shares->in_axis[0];
    return indices || shares->in_axis[0] > 0;
}

static void gather_samples(bt_sampler *sampler)
{
    static const double twice[] = {2, 0, 2, 1, 2};
    BT_SAMPLE(sampler, .name = "rows", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 3), BT_LISTED(twice, BT_I32, 1, 5)});
    BT_SAMPLE(sampler, .name = "elements", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 4), BT_DRAWN(0, 4, BT_I64, 1, 9)});
    BT_SAMPLE(sampler, .name = "blocks", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 3, 4, 2, 2), BT_DRAWN(0, 4, BT_I32, 1, 2)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 3), BT_DRAWN(0, 4, BT_I32, 1, 0)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 2,
              .in = {BT_DRAWN(0, 9, BT_U8, 2, 4, 3), BT_DRAWN(0, 4, BT_I32, 1, 5)});
}

const bt_op bt_op_gather = {
    .name = "gather",
    .inputs = 2,
    .infer = gather_infer,
    .vjp = gather_vjp,
    .jvp = gather_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = gather_shares,
                                .samples = gather_samples},
};

/* ---- scatter_add(index [k], values [k, ...]): [rows, ...]; row r is the sum of the values whose index is r ---- */

static bt_status scatter_add_infer(const void *attr, const bt_array *in, bt_array *out)
{
    int64_t rows = ((const bt_rows_attr *)attr)->rows;
    BT_TRY(check_index("scatter_add", in[0]));
    BT_TRY(bt_check_dtype("scatter_add", "the values", in[1].dtype, BT_FLOATS));
    if (in[1].rank < 1 || in[1].dims[0] != in[0].dims[0]) {
        char shape[256];
        return bt_fail(BT_ERROR_SHAPE, "scatter_add: %lld indices for the rows of %s", (long long)in[0].dims[0],
                       bt_shape_text(shape, in[1].rank, in[1].dims));
    }
    if (rows < 0)
        return bt_fail(BT_ERROR_SHAPE, "scatter_add: %lld rows", (long long)rows);
    out[0] = in[1];
    out[0].dims[0] = rows;
    return BT_OK;
}

static void scatter_add_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[1] = given[0] ? BT_RECORD0(&bt_op_gather, given[0], in[0]) : NULL;
}

static void scatter_add_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[1] ? BT_RECORD(&bt_op_scatter_add, (const bt_rows_attr *)attr, in[0], given[1]) : NULL;
}

static bool scatter_add_shares(bt_shares *shares)
{
    const bool columns = shares->in_axis[1] > 0;
    shares->in_axis[0] = columns ? -1 : 0;
    shares->in_axis[1] = columns ? shares->in_axis[1] : 0;
    shares->out_axis[0] = columns ? shares->in_axis[1] : BT_BATCH_SUMMED;
    return true;
}

static void scatter_add_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "rows %lld", (long long)((const bt_rows_attr *)attr)->rows);
}

static void scatter_add_samples(bt_sampler *sampler)
{
    static const double twice[] = {2, 0, 2, 1, 2};
    BT_SAMPLE(sampler, .name = "rows", .inputs = 2, BT_ATTR(bt_rows_attr, 4),
              .in = {BT_LISTED(twice, BT_I32, 1, 5), BT_DRAWN(-2, 2, BT_F64, 2, 5, 3)});
    BT_SAMPLE(sampler, .name = "elements", .inputs = 2, BT_ATTR(bt_rows_attr, 3),
              .in = {BT_DRAWN(0, 3, BT_I64, 1, 9), BT_DRAWN(-2, 2, BT_F64, 1, 9)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 2, BT_ATTR(bt_rows_attr, 3),
              .in = {BT_DRAWN(0, 3, BT_I32, 1, 0), BT_DRAWN(-2, 2, BT_F64, 2, 0, 2)});
}

const bt_op bt_op_scatter_add = {
    .name = "scatter_add",
    .inputs = 2,
    .attr_size = sizeof(bt_rows_attr),
    .infer = scatter_add_infer,
    .vjp = scatter_add_vjp,
    .jvp = scatter_add_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 2,
                                .shares = scatter_add_shares,
                                .describe = scatter_add_describe,
                                .samples = scatter_add_samples},
};

/* ---- one_hot(label [...]): [..., classes] ---- */

static bt_status one_hot_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_one_hot_attr *hot = attr;
    BT_TRY(bt_check_dtype("one_hot", "the label", in[0].dtype, BT_INTEGERS));
    BT_TRY(bt_check_dtype("one_hot", "the result", (bt_dtype)hot->dtype, BT_FLOATS));
    if (hot->classes < 1)
        return bt_fail(BT_ERROR_SHAPE, "one_hot: %lld classes, must be at least 1", (long long)hot->classes);
    if (in[0].rank == BT_MAX_RANK)
        return bt_fail(BT_ERROR_SHAPE, "one_hot: the label already has %d axes, the most that a tensor may have",
                       BT_MAX_RANK);
    out[0] = in[0];
    out[0].dtype = (bt_dtype)hot->dtype;
    out[0].dims[out[0].rank++] = hot->classes;
    return BT_OK;
}

static bool one_hot_shares(bt_shares *shares) { return bt_shares_along(shares, shares->in_axis[0], 1); }

static void one_hot_describe(const void *attr, bt_text *text)
{
    const bt_one_hot_attr *hot = attr;
    bt_text_add(text, "%lld classes, %s", (long long)hot->classes, bt_dtype_name((bt_dtype)hot->dtype));
}

static void one_hot_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "labels", .inputs = 1, BT_ATTR(bt_one_hot_attr, 4, BT_F64),
              .in = {BT_DRAWN(0, 4, BT_I32, 1, 7)});
    BT_SAMPLE(sampler, .name = "one label", .inputs = 1, BT_ATTR(bt_one_hot_attr, 3, BT_F32),
              .in = {BT_DRAWN(0, 3, BT_I64, 0, 0)});
    BT_SAMPLE(sampler, .name = "a grid", .inputs = 1, BT_ATTR(bt_one_hot_attr, 5, BT_F64),
              .in = {BT_DRAWN(0, 5, BT_I32, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 1, BT_ATTR(bt_one_hot_attr, 5, BT_F64),
              .in = {BT_DRAWN(0, 5, BT_I32, 1, 0)});
}

const bt_op bt_op_one_hot = {
    .name = "one_hot",
    .inputs = 1,
    .attr_size = sizeof(bt_one_hot_attr),
    .infer = one_hot_infer,
    .info = &(const bt_op_info){.shares = one_hot_shares, .describe = one_hot_describe, .samples = one_hot_samples},
};

/* ---- builders ---- */

bt_tensor *bt_index_of(const char *op, bt_tensor *index)
{
    bt_tensor *poison = bt_operand_missing(op, index);
    if (poison)
        return poison;
    if (bt_dtype_floats(index->dtype) || index->dtype == BT_BOOL)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: the index is %s, must be of integers", op,
                               bt_dtype_name(index->dtype));
    return index->dtype == BT_U8 ? bt_as(index, BT_I32) : index;
}

bt_tensor *bt_gather(bt_tensor *x, bt_tensor *index)
{
    bt_tensor *poison = bt_operand_missing("gather", x);
    if (poison)
        return poison;
    index = bt_index_of("gather", index);
    if (bt_poisoned(index) || index->rank == 1)
        return bt_poisoned(index) ? index : BT_RECORD0(&bt_op_gather, x, index);
    /* For an index of any shape, its axes replace the axis of rows. */
    int64_t count = bt_tensor_count(index), dims[2 * BT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < index->rank; i++)
        dims[rank++] = index->dims[i];
    for (int i = 1; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    bt_tensor *flat = bt_reshape_to(index, 1, &count);
    if (bt_poisoned(flat))
        return flat;
    return bt_reshape_to(BT_RECORD0(&bt_op_gather, x, flat), rank, dims);
}

bt_tensor *bt_scatter_add(bt_tensor *index, bt_tensor *values, int64_t rows)
{
    bt_tensor *poison = bt_operands_promote("scatter_add", &values, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    index = bt_index_of("scatter_add", index);
    bt_rows_attr attr = {rows};
    return bt_poisoned(index) ? index : BT_RECORD(&bt_op_scatter_add, &attr, index, values);
}

bt_tensor *bt_one_hot(bt_tensor *label, int64_t classes)
{
    label = bt_index_of("one_hot", label);
    if (bt_poisoned(label))
        return label;
    bt_one_hot_attr attr = {classes, bt_trace_now()->dtype};
    return BT_RECORD(&bt_op_one_hot, &attr, label);
}

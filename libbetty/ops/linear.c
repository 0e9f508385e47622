/* ops/linear.c: y = activation(x wᵀ + b), one node for the whole layer. */
#include "ops/define.h"

static bool has_relu(const void *attr) { return ((const bt_linear_attr *)attr)->activation == 1; }

static bt_status linear_infer(const void *attr, const bt_array *in, bt_array *out)
{
    int64_t activation = ((const bt_linear_attr *)attr)->activation;
    char x[256], w[256], b[256];
    bt_shape_text(x, in[0].rank, in[0].dims);
    bt_shape_text(w, in[1].rank, in[1].dims);
    bt_shape_text(b, in[2].rank, in[2].dims);
    if (activation != 0 && activation != 1)
        return bt_fail(BT_ERROR_ARGUMENT, "linear: activation %lld, must be 0 (none) or 1 (relu)",
                       (long long)activation);
    BT_TRY(bt_check_dtype("linear", "x", in[0].dtype, BT_FLOATS));
    if (in[1].dtype != in[0].dtype || in[2].dtype != in[0].dtype)
        return bt_fail(BT_ERROR_SHAPE, "linear: x is %s, weight %s, bias %s: the dtypes differ",
                       bt_dtype_name(in[0].dtype), bt_dtype_name(in[1].dtype), bt_dtype_name(in[2].dtype));
    if (in[0].rank != 2 || in[1].rank != 2 || in[2].rank != 1)
        return bt_fail(BT_ERROR_SHAPE, "linear: x %s, weight %s, bias %s, must be [n, in], [out, in], [out]", x, w, b);
    if (in[0].dims[1] != in[1].dims[1])
        return bt_fail(BT_ERROR_SHAPE, "linear: x %s times weight %s: the inner sizes %lld and %lld differ", x, w,
                       (long long)in[0].dims[1], (long long)in[1].dims[1]);
    if (in[2].dims[0] != in[1].dims[0])
        return bt_fail(BT_ERROR_SHAPE, "linear: weight %s gives %lld outputs, bias %s is for %lld", w,
                       (long long)in[1].dims[0], b, (long long)in[2].dims[0]);
    *out = (bt_array){.dtype = in[0].dtype, .rank = 2, .dims = {in[0].dims[0], in[1].dims[0]}};
    return BT_OK;
}

static void linear_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *z = bt_dot(in[0], bt_transpose(in[1]));
    z = bt_add(z, bt_along(in[2], z, 0));
    out[0] = has_relu(attr) ? bt_relu(z) : z;
}

/* The effect of relu on a derivative, seen from the output. */
static bt_tensor *gated(const void *attr, bt_tensor *g, bt_tensor *y)
{
    return g && has_relu(attr) ? BT_RECORD0(&bt_op_gate, g, y) : g;
}

static void linear_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    if (!given[0])
        return;
    bt_tensor *g = gated(attr, given[0], out[0]);
    wanted[0] = bt_dot(g, in[1]);
    wanted[1] = bt_dot(bt_transpose(g), in[0]);
    wanted[2] = bt_sum_axis(g, 0, false);
}

static void linear_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    bt_tensor *x = in[0], *dx = given[0], *dw = given[1], *db = given[2], *t = NULL;
    bt_linear_attr plain = {0};
    if (dw && db) /* one node computes both */
        t = BT_RECORD(&bt_op_linear, &plain, x, dw, db);
    else if (dx && db)
        t = BT_RECORD(&bt_op_linear, &plain, dx, in[1], db);
    else if (dw)
        t = bt_dot(x, bt_transpose(dw));
    else if (db)
        t = bt_along(db, out[0], 0);
    if (dx && (dw || !db))
        t = bt_accumulate(t, bt_dot(dx, bt_transpose(in[1])));
    wanted[0] = gated(attr, t, out[0]);
}

static double linear_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    double count = (double)bt_array_count(out[0]);
    return 2 * count * (double)in[0].dims[1] + count * (has_relu(attr) ? 2 : 1);
}

static bool linear_shares(bt_shares *shares)
{
    shares->in_axis[1] = shares->in_axis[2] = -1;
    shares->out_axis[0] = 0;
    return shares->in_axis[0] == 0;
}

static void linear_describe(const void *attr, bt_text *text) { bt_text_add(text, has_relu(attr) ? "relu" : "plain"); }

static void linear_samples(bt_sampler *sampler)
{
    static const int64_t sizes[][3] = {{3, 4, 5}, {4, 4, 4}, {1, 6, 1}, {1, 1, 1}, {19, 33, 17}, {0, 3, 2}};
    static const double x[] = {1, 0, 0, 1}, w[] = {1, 2, -1, 0, 0, 0}, b[] = {-1, 1, 0};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++)
        for (int64_t relu = 0; relu < 2; relu++)
            BT_SAMPLE(sampler, .name = relu ? "relu" : "plain", .inputs = 3, BT_ATTR(bt_linear_attr, relu),
                      .in = {BT_DRAWN(-1, 1, BT_F64, 2, sizes[i][0], sizes[i][1]),
                             BT_DRAWN(-1, 1, BT_F64, 2, sizes[i][2], sizes[i][1]),
                             BT_DRAWN(-1, 1, BT_F64, 1, sizes[i][2])});
    BT_SAMPLE(sampler, .name = "at the kink", .inputs = 3, BT_ATTR(bt_linear_attr, 1), .kink = true,
              .in = {BT_LISTED(x, BT_F64, 2, 2, 2), BT_LISTED(w, BT_F64, 2, 3, 2), BT_LISTED(b, BT_F64, 1, 3)});
}

const bt_op bt_op_linear = {
    .name = "linear",
    .inputs = 3,
    .attr_size = sizeof(bt_linear_attr),
    .infer = linear_infer,
    .body = linear_body,
    .vjp = linear_vjp,
    .jvp = linear_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_LOW,
                                .flags = BT_OP_PRODUCT,
                                .differentiable = 7,
                                .flops = linear_flops,
                                .shares = linear_shares,
                                .describe = linear_describe,
                                .samples = linear_samples},
};

bt_tensor *bt_linear(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, bool relu)
{
    bt_tensor *operands[] = {x, weight, bias};
    bt_tensor *poison = bt_operands_promote("linear", operands, bias ? 3 : 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    x = operands[0], weight = operands[1], bias = operands[2];
    char first[256], second[256];
    if (weight->rank != 2 || x->rank < 1 || x->dims[x->rank - 1] != weight->dims[1])
        return bt_trace_poison(BT_ERROR_SHAPE, "linear: x %s with weight %s, must be [..., in] with [out, in]",
                               bt_shape_text(first, x->rank, x->dims),
                               bt_shape_text(second, weight->rank, weight->dims));
    int64_t rows = 1, dims[BT_MAX_RANK];
    for (int i = 0; i < x->rank - 1; i++) {
        dims[i] = x->dims[i];
        rows *= x->dims[i];
    }
    dims[x->rank - 1] = weight->dims[0];
    bt_linear_attr attr = {relu};
    bt_tensor *flat = bt_reshape_to(x, 2, (const int64_t[]){rows, weight->dims[1]}), *y;
    if (bias)
        y = BT_RECORD(&bt_op_linear, &attr, flat, weight, bias);
    else if (relu)
        y = bt_relu(bt_dot(flat, bt_transpose(weight)));
    else
        y = bt_dot(flat, bt_transpose(weight));
    return bt_reshape_to(y, x->rank, dims);
}

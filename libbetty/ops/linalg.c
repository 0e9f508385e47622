/* ops/linalg.c: linear systems, inverses, log-determinants; of one matrix, or of many along the axes before the last
 * two. */
#include "ops/define.h"

static bt_status square_infer(const char *op, bt_array a)
{
    char shape[256];
    BT_TRY(bt_check_dtype(op, "the matrix", a.dtype, BT_FLOATS));
    if (a.rank < 2 || a.dims[a.rank - 1] != a.dims[a.rank - 2])
        return bt_fail(BT_ERROR_SHAPE, "%s: the matrix is %s, must be [..., n, n]", op,
                       bt_shape_text(shape, a.rank, a.dims));
    return BT_OK;
}

/* Splits along the axes before the matrices. */
static bool matrix_shares(bt_shares *shares)
{
    for (int i = 0; i < shares->inputs; i++)
        if (shares->in_axis[i] >= 0 && shares->in_axis[i] < shares->in[i].rank - 2)
            return bt_shares_along(shares, shares->in_axis[i], 1);
    return false;
}

/* Far from singular, and not symmetric. */
static const double matrix[] = {4, 1, -1, 0.5, 3, 1, -1, 0.5, 5},
                    others[] = {2, 1, 0.5, 3, -1, 0.5, 1, 4, -4, 1, 0.5, 2};

/* ---- solve(a [..., n, n], b [..., n, m]): x with a x = b ---- */

static bt_status solve_infer(const void *attr, const bt_array *in, bt_array *out)
{
    char a[256], b[256];
    (void)attr;
    BT_TRY(square_infer("solve", in[0]));
    bool fits = in[1].rank == in[0].rank && in[1].dtype == in[0].dtype;
    for (int i = 0; fits && i < in[0].rank - 1; i++)
        fits = in[1].dims[i] == in[0].dims[i];
    if (!fits)
        return bt_fail(BT_ERROR_SHAPE, "solve: a %s with b %s, must be [..., n, n] and [..., n, m] of one dtype",
                       bt_shape_text(a, in[0].rank, in[0].dims), bt_shape_text(b, in[1].rank, in[1].dims));
    out[0] = in[1];
    return BT_OK;
}

static bt_tensor *solve(bt_tensor *a, bt_tensor *b) { return BT_RECORD0(&bt_op_solve, a, b); }

static void solve_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr;
    if (!given[0])
        return;
    wanted[1] = solve(bt_transpose(in[0]), given[0]);
    wanted[0] = bt_neg(bt_matmul(wanted[1], bt_transpose(out[0])));
}

static void solve_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr;
    bt_tensor *right = bt_accumulate(given[1], given[0] ? bt_neg(bt_matmul(given[0], out[0])) : NULL);
    wanted[0] = right ? solve(in[0], right) : NULL;
}

static double solve_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    double n = (double)in[0].dims[in[0].rank - 1];
    (void)attr;
    return 0.67 * n * (double)bt_array_count(in[0]) + 2 * n * (double)bt_array_count(out[0]);
}

static void solve_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "one system", .inputs = 2,
              .in = {BT_LISTED(matrix, BT_F64, 2, 3, 3), BT_DRAWN(-1, 1, BT_F64, 2, 3, 2)});
    BT_SAMPLE(sampler, .name = "many", .inputs = 2,
              .in = {BT_LISTED(others, BT_F64, 3, 3, 2, 2), BT_DRAWN(-1, 1, BT_F64, 3, 3, 2, 1)});
    BT_SAMPLE(sampler, .name = "one number", .inputs = 2,
              .in = {BT_DRAWN(1, 2, BT_F64, 2, 1, 1), BT_DRAWN(-1, 1, BT_F64, 2, 1, 3)});
    BT_SAMPLE(sampler, .name = "none", .inputs = 2,
              .in = {BT_DRAWN(1, 2, BT_F64, 3, 0, 2, 2), BT_DRAWN(-1, 1, BT_F64, 3, 0, 2, 1)});
}

const bt_op bt_op_solve = {
    .name = "solve",
    .inputs = 2,
    .infer = solve_infer,
    .vjp = solve_vjp,
    .jvp = solve_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,
                                .differentiable = 3,
                                .flops = solve_flops,
                                .shares = matrix_shares,
                                .samples = solve_samples},
};

/* ---- logdet(a [..., n, n]): log |det a|, [...] ---- */

static bt_status logdet_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(square_infer("logdet", in[0]));
    out[0] = in[0];
    out[0].dims[--out[0].rank] = 0;
    out[0].dims[--out[0].rank] = 0;
    return BT_OK;
}

/* An identity matrix for each matrix of a. */
static bt_tensor *units(bt_tensor *a)
{
    bt_tensor *one = bt_as(bt_eye(a->dims[a->rank - 1]), a->dtype);
    return bt_broadcast_like(one, a);
}

/* Gives g, one number per matrix, two more axes, so that it broadcasts against the matrices. */
static bt_tensor *beside(bt_tensor *g) { return bt_unsqueeze(bt_unsqueeze(g, -1), -1); }

static void logdet_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    (void)attr, (void)out;
    if (given[0])
        wanted[0] = bt_mul(beside(given[0]), solve(bt_transpose(in[0]), units(in[0])));
}

static void logdet_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    (void)attr, (void)out;
    if (given[0])
        wanted[0] = bt_sum(bt_mul(solve(in[0], given[0]), units(in[0])), -1, -2);
}

static double logdet_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr, (void)out;
    return 0.67 * (double)in[0].dims[in[0].rank - 1] * (double)bt_array_count(in[0]);
}

static void logdet_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "one matrix", .inputs = 1, .in = {BT_LISTED(matrix, BT_F64, 2, 3, 3)});
    BT_SAMPLE(sampler, .name = "many", .inputs = 1, .in = {BT_LISTED(others, BT_F64, 3, 3, 2, 2)});
    BT_SAMPLE(sampler, .name = "one number", .inputs = 1, .in = {BT_DRAWN(1, 2, BT_F64, 2, 1, 1)});
}

const bt_op bt_op_logdet = {
    .name = "logdet",
    .inputs = 1,
    .infer = logdet_infer,
    .vjp = logdet_vjp,
    .jvp = logdet_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,
                                .differentiable = 1,
                                .flops = logdet_flops,
                                .shares = matrix_shares,
                                .samples = logdet_samples},
};

/* ---- builders ---- */

bt_tensor *bt_linear_solve(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *x[] = {a, b}, *poison = bt_operands_promote("solve", x, 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    if (x[1]->rank != x[0]->rank - 1)
        return solve(x[0], x[1]);
    return bt_squeeze(solve(x[0], bt_unsqueeze(x[1], -1)), -1); /* b has one column per matrix */
}

bt_tensor *bt_inverse(bt_tensor *a)
{
    bt_tensor *poison = bt_operands_promote("inverse", &a, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    if (a->rank < 2)
        return bt_trace_poison(BT_ERROR_SHAPE, "inverse: a tensor of %d axes, must be [..., n, n]", a->rank);
    return solve(a, units(a));
}

bt_tensor *bt_logdet(bt_tensor *a) { return bt_build_unary(&bt_op_logdet, a, BT_PROMOTE_FLOAT); }

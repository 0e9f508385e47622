/* ops/dot.c: matrix products: dot(a [m, k], b [k, n]), of one matrix or of many along one or two leading axes; dot_add,
 * of single matrices. */
#include "ops/define.h"

#include <string.h>

static bt_status product_infer(const char *op, const bt_array *in, bt_array *out)
{
    int rank = in[0].rank;
    char a[256], b[256];
    bt_shape_text(a, in[0].rank, in[0].dims);
    bt_shape_text(b, in[1].rank, in[1].dims);
    BT_TRY(bt_check_dtype(op, "the first operand", in[0].dtype, BT_FLOATS));
    if (in[1].dtype != in[0].dtype)
        return bt_fail(BT_ERROR_SHAPE, "%s: %s %s times %s %s: the dtypes differ", op, bt_dtype_name(in[0].dtype), a,
                       bt_dtype_name(in[1].dtype), b);
    if (rank < 2 || rank > 4 || in[1].rank != rank)
        return bt_fail(BT_ERROR_SHAPE, "%s: %s times %s: both must have 2 axes, or both 3, or both 4", op, a, b);
    for (int i = 0; i < rank - 2; i++)
        if (in[0].dims[i] != in[1].dims[i])
            return bt_fail(BT_ERROR_SHAPE, "%s: %s times %s: %lld matrices times %lld", op, a, b,
                           (long long)in[0].dims[i], (long long)in[1].dims[i]);
    if (in[0].dims[rank - 1] != in[1].dims[rank - 2])
        return bt_fail(BT_ERROR_SHAPE, "%s: %s times %s: the inner sizes %lld and %lld differ", op, a, b,
                       (long long)in[0].dims[rank - 1], (long long)in[1].dims[rank - 2]);
    out[0] = in[0];
    out[0].dims[rank - 1] = in[1].dims[rank - 1];
    return BT_OK;
}

static bt_status dot_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    return product_infer("dot", in, out);
}

static void dot_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_dot(given[0], bt_transpose(in[1])) : NULL;
    wanted[1] = given[0] ? bt_dot(bt_transpose(in[0]), given[0]) : NULL;
}

static void dot_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = bt_accumulate(given[0] ? bt_dot(given[0], in[1]) : NULL, given[1] ? bt_dot(in[0], given[1]) : NULL);
}

static double dot_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr;
    return 2 * (double)bt_array_count(out[0]) * (double)in[0].dims[in[0].rank - 1];
}

/* Splits of a and b: rows of a give rows, columns of b give columns, the inner axis gives summands, and leading axes
 * give matrices. If both are split in different ways, the other operand must be whole, or split as the first one is. */
static bool dot_shares(bt_shares *shares)
{
    int rank = shares->in[0].rank, a = shares->in_axis[0], b = shares->in_axis[1];
    bool sums_a = a == rank - 1, sums_b = b == rank - 2;
    int matrices = a >= 0 && a < rank - 2 ? a : b >= 0 && b < rank - 2 ? b : -1;
    shares->in_axis[0] = shares->in_axis[1] = shares->out_axis[0] = -1;
    if (matrices >= 0)
        shares->in_axis[0] = shares->in_axis[1] = shares->out_axis[0] = matrices;
    else if (a == rank - 2)
        shares->in_axis[0] = shares->out_axis[0] = a;
    else if (b == rank - 1)
        shares->in_axis[1] = shares->out_axis[0] = b;
    else if (sums_a || sums_b) {
        shares->in_axis[0] = rank - 1;
        shares->in_axis[1] = rank - 2;
        shares->out_axis[0] = BT_BATCH_SUMMED;
    }
    return true;
}

/* If the product were split along its inner axis, each part would add c: so this is refused. */
static bool dot_add_shares(bt_shares *shares)
{
    int given = shares->in_axis[2];
    bool some = shares->in_axis[0] >= 0 || shares->in_axis[1] >= 0;
    if (some)
        dot_shares(shares);
    else
        shares->in_axis[given] = given; /* along the rows of a or the columns of b */
    shares->out_axis[0] = some ? shares->out_axis[0] : given;
    shares->in_axis[2] = shares->out_axis[0];
    return shares->out_axis[0] >= 0;
}

static void dot_samples(bt_sampler *sampler)
{
    static const int64_t sizes[][3] = {{3, 4, 5},   {4, 4, 4}, {1, 7, 1}, {1, 1, 1},
                                       {17, 33, 9}, {5, 1, 6}, {0, 3, 2}, {2, 0, 3}};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        BT_SAMPLE(sampler, .name = "matrices", .inputs = 2,
                  .in = {BT_DRAWN(-1, 1, BT_F64, 2, m, k), BT_DRAWN(-1, 1, BT_F64, 2, k, n)});
    }
    BT_SAMPLE(sampler, .name = "many matrices", .inputs = 2,
              .in = {BT_DRAWN(-1, 1, BT_F64, 3, 2, 3, 4), BT_DRAWN(-1, 1, BT_F64, 3, 2, 4, 5)});
    BT_SAMPLE(sampler, .name = "heads", .inputs = 2,
              .in = {BT_DRAWN(-1, 1, BT_F64, 4, 2, 3, 4, 5), BT_DRAWN(-1, 1, BT_F64, 4, 2, 3, 5, 2)});
    BT_SAMPLE(sampler, .name = "no matrices", .inputs = 2,
              .in = {BT_DRAWN(-1, 1, BT_F64, 3, 0, 3, 4), BT_DRAWN(-1, 1, BT_F64, 3, 0, 4, 5)});
}

const bt_op bt_op_dot = {
    .name = "dot",
    .inputs = 2,
    .infer = dot_infer,
    .vjp = dot_vjp,
    .jvp = dot_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_LOW,
                                .flags = BT_OP_PRODUCT,
                                .differentiable = 3,
                                .linear = 3,
                                .flops = dot_flops,
                                .shares = dot_shares,
                                .samples = dot_samples},
};

bt_tensor *bt_dot(bt_tensor *a, bt_tensor *b) { return BT_RECORD0(&bt_op_dot, a, b); }

/* ---- dot_add(a, b, c, f) = f c + a b ---- */

static bt_status dot_add_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (in[0].rank != 2)
        return bt_fail(BT_ERROR_SHAPE, "dot_add: the first operand has %d axes, must have 2", in[0].rank);
    BT_TRY(product_infer("dot_add", in, out));
    BT_TRY(bt_check_equal("dot_add", "what is added", in[2], "the product", out[0]));
    return bt_check_scalar("dot_add", "its factor", in[3], in[0].dtype);
}

static void dot_add_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_add(bt_mul(in[3], in[2]), bt_dot(in[0], in[1]));
}

static double dot_add_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return dot_flops(attr, in, out) + 2 * (double)bt_array_count(out[0]);
}

static void dot_add_samples(bt_sampler *sampler)
{
    static const int64_t sizes[][3] = {{3, 4, 5}, {1, 7, 1}, {17, 33, 19}, {7, 450, 21},
                                       {5, 1, 6}, {0, 3, 2}, {2, 0, 3}};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        BT_SAMPLE(sampler, .name = "matrices", .inputs = 4,
                  .in = {BT_DRAWN(-1, 1, BT_F64, 2, m, k), BT_DRAWN(-1, 1, BT_F64, 2, k, n),
                         BT_DRAWN(-1, 1, BT_F64, 2, m, n), BT_DRAWN(-1, 1, BT_F64, 0, 0)});
    }
}

const bt_op bt_op_dot_add = {
    .name = "dot_add",
    .inputs = 4,
    .infer = dot_add_infer,
    .body = dot_add_body,
    .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,
                                .differentiable = 15,
                                .overwrites = {4},
                                .flops = dot_add_flops,
                                .shares = dot_add_shares,
                                .samples = dot_add_samples},
};

/* ---- matmul ---- */

/* Broadcasts the leading axes. If there are more than two, each operand is reshaped to [g, rows, columns]. */
static bt_tensor *many_matrices(bt_tensor *a, bt_tensor *b)
{
    int rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    int64_t lead[BT_MAX_RANK + 2], group = 1;
    for (int k = 0; k < rank; k++) {
        int i = k - (rank - (a->rank - 2)), j = k - (rank - (b->rank - 2));
        int64_t from_a = i >= 0 ? a->dims[i] : 1, from_b = j >= 0 ? b->dims[j] : 1;
        if (from_a != from_b && from_a != 1 && from_b != 1) {
            char first[256], second[256];
            return bt_trace_poison(BT_ERROR_SHAPE, "matmul: %s times %s: the leading sizes %lld and %lld do not match",
                                   bt_shape_text(first, a->rank, a->dims), bt_shape_text(second, b->rank, b->dims),
                                   (long long)from_a, (long long)from_b);
        }
        lead[k] = from_a == 1 ? from_b : from_a;
        group *= lead[k];
    }
    bt_tensor *x[] = {a, b};
    for (int o = 0; o < 2; o++) {
        int axes[BT_MAX_RANK], own = x[o]->rank;
        int64_t rows = x[o]->dims[own - 2], columns = x[o]->dims[own - 1];
        for (int i = 0; i < own; i++)
            axes[i] = rank + 2 - own + i;
        lead[rank] = rows;
        lead[rank + 1] = columns;
        x[o] = bt_broadcast(x[o], rank + 2, lead, axes);
        if (rank > 2)
            x[o] = bt_reshape_to(x[o], 3, (const int64_t[]){group, rows, columns});
        if (bt_poisoned(x[o]))
            return x[o];
    }
    bt_tensor *y = bt_dot(x[0], x[1]);
    lead[rank] = x[0]->dims[x[0]->rank - 2];
    lead[rank + 1] = x[1]->dims[x[1]->rank - 1];
    return bt_reshape_to(y, rank + 2, lead);
}

/* b is one matrix: a's leading axes count as rows, and one product is enough. */
static bt_tensor *one_matrix(bt_tensor *a, bt_tensor *b)
{
    int64_t inner = a->dims[a->rank - 1], rows = 1, dims[BT_MAX_RANK];
    for (int i = 0; i < a->rank - 1; i++) {
        dims[i] = a->dims[i];
        rows *= a->dims[i];
    }
    dims[a->rank - 1] = b->dims[1];
    bt_tensor *flat = bt_reshape_to(a, 2, (const int64_t[]){rows, inner});
    return bt_poisoned(flat) ? flat : bt_reshape_to(bt_dot(flat, b), a->rank, dims);
}

bt_tensor *bt_matmul(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *x[] = {a, b}, *poison = bt_operands_promote("matmul", x, 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    a = x[0], b = x[1];
    char first[256], second[256];
    bt_shape_text(first, a->rank, a->dims);
    bt_shape_text(second, b->rank, b->dims);
    if (a->rank < 1 || b->rank < 1)
        return bt_trace_poison(BT_ERROR_SHAPE, "matmul: %s times %s: a scalar is not a matrix; use bt_mul", first,
                               second);
    int64_t inner = a->dims[a->rank - 1], other = b->dims[b->rank > 1 ? b->rank - 2 : 0];
    if (inner != other)
        return bt_trace_poison(BT_ERROR_SHAPE, "matmul: %s times %s: the inner sizes %lld and %lld differ", first,
                               second, (long long)inner, (long long)other);
    bool row = a->rank == 1, column = b->rank == 1;
    if (row)
        a = bt_unsqueeze(a, 0);
    if (column)
        b = bt_unsqueeze(b, 1);
    if (bt_poisoned(a) || bt_poisoned(b))
        return bt_poisoned(a) ? a : b;
    bt_tensor *y = b->rank == 2 ? one_matrix(a, b) : many_matrices(a, b);
    if (column && !bt_poisoned(y))
        y = bt_squeeze(y, -1);
    if (row && !bt_poisoned(y))
        y = bt_squeeze(y, column ? -1 : y->rank - 2);
    return y;
}

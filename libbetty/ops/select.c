/* ops/select.c: comparison, selection, casts. */
#include "ops/define.h"

#include "graph/variable.h"

static bt_status compare_infer(const char *op, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_infer_equal(op, BT_NUMBERS, 2, in, out));
    out[0].dtype = BT_BOOL;
    return BT_OK;
}

static void compare_samples(bt_sampler *sampler)
{
    static const double a[] = {1, 2, -1, 0}, b[] = {1, 3, -2, -0.0};
    bt_samples_equal(sampler, 2, -2, 2);
    BT_SAMPLE(sampler, .name = "ties", .inputs = 2, .in = {BT_LISTED(a, BT_F64, 1, 4), BT_LISTED(b, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 2,
              .in = {BT_DRAWN(-2, 3, BT_I32, 2, 3, 3), BT_DRAWN(-2, 3, BT_I32, 2, 3, 3)});
    BT_SAMPLE(sampler, .name = "long integers", .inputs = 2,
              .in = {BT_DRAWN(-2, 3, BT_I64, 1, 9), BT_DRAWN(-2, 3, BT_I64, 1, 9)});
}

#define COMPARE(op)                                                                                                    \
    static bt_status op##_infer(const void *attr, const bt_array *in, bt_array *out)                                   \
    {                                                                                                                  \
        (void)attr;                                                                                                    \
        return compare_infer(#op, in, out);                                                                            \
    }                                                                                                                  \
    const bt_op bt_op_##op = {                                                                                         \
        .name = #op,                                                                                                   \
        .inputs = 2,                                                                                                   \
        .infer = op##_infer,                                                                                           \
        .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE, .samples = compare_samples},                           \
    };                                                                                                                 \
    bt_tensor *(bt_##op)(bt_tensor * a, bt_tensor * b) { return bt_build_binary(&bt_op_##op, a, b, BT_PROMOTE_NUMBER); }

COMPARE(less)
COMPARE(greater)
COMPARE(equal)

/* ---- where(condition, a, b) ---- */

static bt_status where_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    bt_array condition = in[1];
    condition.dtype = BT_BOOL;
    BT_TRY(bt_check_equal("where", "the second choice", in[2], "the first", in[1]));
    BT_TRY(bt_check_equal("where", "the condition", in[0], "a comparison of the choices would be", condition));
    out[0] = in[1];
    return BT_OK;
}

static bt_tensor *where_part(bt_tensor *condition, bt_tensor *g, bool first)
{
    if (!g)
        return NULL;
    return first ? bt_where(condition, g, 0) : bt_where(condition, 0, g);
}

static void where_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[1] = where_part(in[0], given[0], true);
    wanted[2] = where_part(in[0], given[0], false);
}

static void where_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)out;
    if (given[1] && given[2])
        wanted[0] = bt_where(in[0], given[1], given[2]);
    else
        wanted[0] = given[1] ? where_part(in[0], given[1], true) : where_part(in[0], given[2], false);
}

static bt_tensor *where_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    double first, second;
    (void)attr, (void)inputs;
    if (in[1] == in[2])
        return in[1];
    return bt_uniform(in[1], &first) && bt_uniform(in[2], &second) && first == second ? in[1] : NULL;
}

static void where_samples(bt_sampler *sampler)
{
    BT_SAMPLE(
        sampler, .name = "matrix", .inputs = 3,
        .in = {BT_DRAWN(0, 2, BT_BOOL, 2, 3, 7), BT_DRAWN(-2, 2, BT_F64, 2, 3, 7), BT_DRAWN(-2, 2, BT_F64, 2, 3, 7)});
    BT_SAMPLE(sampler, .name = "scalar", .inputs = 3,
              .in = {BT_DRAWN(0, 1, BT_BOOL, 0, 0), BT_DRAWN(-2, 2, BT_F64, 0, 0), BT_DRAWN(-2, 2, BT_F64, 0, 0)});
    BT_SAMPLE(sampler, .name = "integers", .inputs = 3,
              .in = {BT_DRAWN(0, 2, BT_BOOL, 1, 9), BT_DRAWN(-9, 9, BT_I32, 1, 9), BT_DRAWN(-9, 9, BT_I32, 1, 9)});
    BT_SAMPLE(sampler, .name = "bytes", .inputs = 3,
              .in = {BT_DRAWN(0, 2, BT_BOOL, 1, 9), BT_DRAWN(0, 9, BT_U8, 1, 9), BT_DRAWN(0, 9, BT_U8, 1, 9)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 3,
              .in = {BT_DRAWN(0, 2, BT_BOOL, 1, 0), BT_DRAWN(-2, 2, BT_F64, 1, 0), BT_DRAWN(-2, 2, BT_F64, 1, 0)});
}

const bt_op bt_op_where = {
    .name = "where",
    .inputs = 3,
    .infer = where_infer,
    .vjp = where_vjp,
    .jvp = where_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR,
                                .differentiable = 6,
                                .overwrites = {6},
                                .simplify = where_simplify,
                                .samples = where_samples},
};

bt_tensor *(bt_where)(bt_tensor *condition, bt_tensor *a, bt_tensor *b)
{
    bt_tensor *x[] = {a, b, condition}, *poison = bt_operand_missing("where", condition);
    if (poison)
        return poison;
    if (condition->dtype != BT_BOOL)
        return bt_trace_poison(BT_ERROR_SHAPE,
                               "where: the condition is %s, must be bool: a comparison, such as "
                               "bt_greater(x, 0)",
                               bt_dtype_name(condition->dtype));
    poison = bt_operands_promote("where", x, 2, BT_PROMOTE_KEEP);
    if (!poison)
        poison = bt_operands_broadcast("where", x, 3);
    return poison ? poison : BT_RECORD0(&bt_op_where, x[2], x[0], x[1]);
}

/* ---- cast ---- */


static bt_status cast_infer(const void *attr, const bt_array *in, bt_array *out)
{
    bt_dtype dtype = (bt_dtype)((const bt_cast_attr *)attr)->dtype;
    BT_TRY(bt_check_dtype("cast", "the result", dtype, BT_EVERY));
    out[0] = in[0];
    out[0].dtype = dtype;
    return BT_OK;
}

static bool between_floats(const bt_tensor *x, const bt_tensor *y)
{
    return bt_dtype_floats(x->dtype) && bt_dtype_floats(y->dtype);
}

static void cast_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = given[0] && between_floats(in[0], out[0]) ? bt_as(given[0], in[0]->dtype) : NULL;
}

static void cast_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = given[0] && between_floats(in[0], out[0]) ? bt_as(given[0], out[0]->dtype) : NULL;
}

static bt_tensor *cast_simplify(const void *attr, bt_tensor *const *in, int inputs)
{
    bt_dtype dtype = (bt_dtype)((const bt_cast_attr *)attr)->dtype;
    bool back = in[0]->node->op == &bt_op_widen && in[0]->node->in[0]->dtype == dtype;
    (void)inputs;
    return dtype == in[0]->dtype ? in[0] : back ? in[0]->node->in[0] : NULL;
}

static double cast_fold(const double *in) { return in[0]; }

static void cast_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "%s", bt_dtype_name((bt_dtype)((const bt_cast_attr *)attr)->dtype));
}

static void cast_samples(bt_sampler *sampler)
{
    static const double odd[] = {-3, -0.5, 0, 0.75, 2, 100};
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BOOL, BT_BF16, BT_F16};
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++)
        for (int j = 0; j < BT_COUNT_OF(dtypes);
             j++) { /* values that every dtype can hold; for u8 without the negative ones */
            const double *values = dtypes[i] == BT_U8 || dtypes[j] == BT_U8 ? odd + 2 : odd;
            BT_SAMPLE(sampler, .name = "between dtypes", .inputs = 1, BT_ATTR(bt_cast_attr, dtypes[i]),
                      .kink = bt_dtype_half(dtypes[i]) || bt_dtype_half(dtypes[j]),
                      .in = {{.dtype = dtypes[j], .rank = 2, .dims = {2, 9}, .values = values, .value_count = 4}});
        }
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, BT_ATTR(bt_cast_attr, BT_F64),
              .in = {BT_DRAWN(0, 1, BT_F32, 1, 0)});
}

const bt_op bt_op_cast = {
    .name = "cast",
    .inputs = 1,
    .attr_size = sizeof(bt_cast_attr),
    .infer = cast_infer,
    .vjp = cast_vjp,
    .jvp = cast_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR,
                                .cast = BT_CAST_ANY,
                                .differentiable = 1,
                                .fold = cast_fold,
                                .simplify = cast_simplify,
                                .describe = cast_describe,
                                .samples = cast_samples},
};

bt_tensor *bt_as(bt_tensor *x, bt_dtype dtype)
{
    bt_tensor *poison = bt_operand_missing("cast", x);
    if (poison)
        return poison;
    bt_cast_attr attr = {dtype};
    if (bt_dtype_half(x->dtype) && dtype == BT_F32)
        return bt_wide(x);
    return x->dtype == dtype ? x : BT_RECORD(&bt_op_cast, &attr, x);
}

void bt_graph_assign_as(bt_graph *graph, bt_var *var, bt_tensor *value)
{
    bt_graph_assign(graph, var, bt_as(value, var->dtype));
}

bt_tensor *bt_cast(bt_tensor *x, bt_dtype dtype)
{
    if (!bt_dtype_size(dtype))
        return bt_trace_poison(BT_ERROR_ARGUMENT,
                               "bt_cast: %d is not a dtype; expected BT_F32, BT_F64, BT_BF16, BT_F16, BT_I32, BT_I64, "
                               "BT_U8 or BT_BOOL",
                               (int)dtype);
    return bt_as(x, dtype);
}

/* ops/binary.c: elementwise functions of two operands. */
#include "ops/define.h"

#include <math.h>

#define BINARY(op, kinds_, flags_, differentiable_, linear_, simplify_, absorb_)                                       \
    BT_INFER_EQUAL(op, kinds_, 2)                                                                                      \
    const bt_op bt_op_##op = {                                                                                         \
        .name = #op,                                                                                                   \
        .inputs = 2,                                                                                                   \
        .infer = op##_infer,                                                                                           \
        .vjp = op##_vjp,                                                                                               \
        .jvp = op##_jvp,                                                                                               \
        .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | (flags_),                                             \
                                    .differentiable = (differentiable_),                                               \
                                    .linear = (linear_),                                                               \
                                    .overwrites = {3},                                                                 \
                                    .fold = op##_fold,                                                                 \
                                    .simplify = (simplify_),                                                           \
                                    .absorb = (absorb_),                                                               \
                                    .samples = op##_samples},                                                          \
    };

/* vjp and jvp of an op with partial derivatives: da and db multiply `g` by them. */
#define RULES(op, da, db)                                                                                              \
    static void op##_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,       \
                         bt_tensor **wanted)                                                                           \
    {                                                                                                                  \
        bt_tensor *a = in[0], *b = in[1], *y = out[0], *g = given[0];                                                  \
        (void)attr, (void)a, (void)b, (void)y;                                                                         \
        wanted[0] = g ? (da) : NULL;                                                                                   \
        wanted[1] = g ? (db) : NULL;                                                                                   \
    }                                                                                                                  \
    static void op##_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,       \
                         bt_tensor **wanted)                                                                           \
    {                                                                                                                  \
        bt_tensor *a = in[0], *b = in[1], *y = out[0], *g = given[0], *from_a, *from_b;                                \
        (void)attr, (void)a, (void)b, (void)y;                                                                         \
        from_a = g ? (da) : NULL;                                                                                      \
        g = given[1];                                                                                                  \
        from_b = g ? (db) : NULL;                                                                                      \
        wanted[0] = bt_accumulate(from_a, from_b);                                                                     \
    }

#define FOLD(op, expression)                                                                                           \
    static double op##_fold(const double *in)                                                                          \
    {                                                                                                                  \
        double a = in[0], b = in[1];                                                                                   \
        return (expression);                                                                                           \
    }

/* A simpler tensor that the op equals if an operand is known; NULL: none. */
#define SIMPLIFY(op, expression)                                                                                       \
    static bt_tensor *op##_simplify(const void *attr, bt_tensor *const *in, int inputs)                                \
    {                                                                                                                  \
        bt_tensor *a = in[0], *b = in[1];                                                                              \
        (void)attr, (void)inputs;                                                                                      \
        return (expression);                                                                                           \
    }

static bool is(const bt_tensor *x, double value)
{
    double known;
    return bt_uniform(x, &known) && known == value;
}

#define SAMPLES(op, low, high)                                                                                         \
    static void op##_samples(bt_sampler *sampler) { bt_samples_equal(sampler, 2, (low), (high)); }

RULES(add, g, g)
SAMPLES(add, -2, 2)
FOLD(add, a + b)
SIMPLIFY(add, is(b, 0) ? a : is(a, 0) ? b : bt_pads_joined(a, b))
BINARY(add, BT_NUMBERS, BT_OP_LINEAR, 3, 0, add_simplify, bt_channel_absorb_sum)

RULES(sub, g, bt_neg(g))
SAMPLES(sub, -2, 2)
FOLD(sub, a - b)
SIMPLIFY(sub, is(b, 0) ? a : is(a, 0) ? bt_neg(b) : NULL)
BINARY(sub, BT_NUMBERS, BT_OP_LINEAR, 3, 0, sub_simplify, NULL)

RULES(mul, bt_mul(g, b), bt_mul(a, g))
SAMPLES(mul, -2, 2)
FOLD(mul, (a)*b)
SIMPLIFY(mul, is(b, 1) ? a : is(a, 1) ? b : is(b, -1) ? bt_neg(a) : is(a, -1) ? bt_neg(b) : NULL)
BINARY(mul, BT_NUMBERS, 0, 3, 3, mul_simplify, NULL)

RULES(div, bt_div(g, b), bt_neg(bt_div(bt_mul(g, y), b)))
SAMPLES(div, 0.5, 2)
FOLD(div, a / b)
SIMPLIFY(div, is(b, 1) ? a : NULL)
BINARY(div, BT_FLOATS, 0, 3, 1, div_simplify, NULL)

/* b a^(b-1), or 0 where b is 0, even at a = 0: there the power is taken of 1, so that no derivative of any order
 * computes 0^-1. */
static bt_tensor *pow_in_base(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *constant = bt_equal(b, 0);
    return bt_where(constant, 0, bt_mul(b, bt_pow(bt_where(constant, 1, a), bt_sub(b, 1))));
}

/* a^b log(a), or 0 at a = 0 (b > 0). */
static bt_tensor *pow_in_exponent(bt_tensor *a, bt_tensor *y)
{
    return bt_mul(y, bt_log(bt_where(bt_equal(a, 0), 1, a)));
}

RULES(pow, bt_mul(g, pow_in_base(a, b)), bt_mul(g, pow_in_exponent(a, y)))

static void pow_samples(bt_sampler *sampler)
{
    static const double base[] = {0, 0, 0, 0, 1, 2}, exponent[] = {0, 1, 2, 3, 0, 0};
    bt_samples_equal(sampler, 2, 0.5, 2);
    BT_SAMPLE(sampler, .name = "at zero", .inputs = 2, .kink = true,
              .in = {BT_LISTED(base, BT_F64, 1, 6), BT_LISTED(exponent, BT_F64, 1, 6)});
}

FOLD(pow, pow(a, b))
SIMPLIFY(pow, is(b, 1) ? a : is(b, 2) ? bt_square(a) : NULL)
BINARY(pow, BT_FLOATS, 0, 3, 0, pow_simplify, NULL)

/* g where this operand was chosen, half of g at a tie. */
static bt_tensor *chosen(bt_tensor *g, bt_tensor *small, bt_tensor *large)
{
    bt_tensor *half = bt_where(bt_equal(small, large), 0.5, 0);
    return bt_mul(g, bt_where(bt_less(small, large), 1, bt_as(half, g->dtype)));
}

RULES(minimum, chosen(g, a, b), chosen(g, b, a))
RULES(maximum, chosen(g, b, a), chosen(g, a, b))

static void choice_samples(bt_sampler *sampler)
{
    static const double a[] = {1, 2, -1, 0}, b[] = {1, 3, -1, -2};
    BT_SAMPLE(sampler, .name = "apart", .inputs = 2,
              .in = {BT_DRAWN(-2, -0.1, BT_F64, 2, 3, 5), BT_DRAWN(0.1, 2, BT_F64, 2, 3, 5)});
    BT_SAMPLE(sampler, .name = "apart, turned", .inputs = 2,
              .in = {BT_DRAWN(0.1, 2, BT_F64, 0, 0), BT_DRAWN(-2, -0.1, BT_F64, 0, 0)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 2,
              .in = {BT_DRAWN(0, 1, BT_F64, 1, 0), BT_DRAWN(0, 1, BT_F64, 1, 0)});
    BT_SAMPLE(sampler, .name = "ties", .inputs = 2, .kink = true,
              .in = {BT_LISTED(a, BT_F64, 1, 4), BT_LISTED(b, BT_F64, 1, 4)});
}

#define minimum_samples choice_samples
#define maximum_samples choice_samples
FOLD(minimum, a < b || a != a ? a : b)
BINARY(minimum, BT_NUMBERS, 0, 3, 0, NULL, NULL)
FOLD(maximum, a > b || a != a ? a : b)
BINARY(maximum, BT_NUMBERS, 0, 3, 0, NULL, NULL)

static void gate_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? BT_RECORD0(&bt_op_gate, given[0], in[1]) : NULL;
}
#define gate_jvp gate_vjp

static void gate_samples(bt_sampler *sampler)
{
    static const double y[] = {0, 1, -0.0, -2, 1e-30};
    bt_samples_equal(sampler, 2, -2, 2);
    BT_SAMPLE(sampler, .name = "at zero", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 5), BT_LISTED(y, BT_F64, 1, 5)});
}

FOLD(gate, b > 0 ? a : 0)
BINARY(gate, BT_FLOATS, BT_OP_LINEAR | BT_OP_SELECTS, 1, 0, NULL, NULL)

/* ---- builders ---- */

#define BUILD(op, promotion)                                                                                           \
    bt_tensor *(bt_##op)(bt_tensor * a, bt_tensor * b) { return bt_build_binary(&bt_op_##op, a, b, promotion); }

BUILD(add, BT_PROMOTE_NUMBER)
BUILD(sub, BT_PROMOTE_NUMBER)
BUILD(mul, BT_PROMOTE_NUMBER)
BUILD(div, BT_PROMOTE_FLOAT)
BUILD(minimum, BT_PROMOTE_NUMBER)
BUILD(maximum, BT_PROMOTE_NUMBER)

bt_tensor *(bt_pow)(bt_tensor *a, bt_tensor *b)
{
    if (bt_operand_is_number(b, 2))
        return bt_build_unary(&bt_op_square, a, BT_PROMOTE_FLOAT);
    return bt_build_binary(&bt_op_pow, a, b, BT_PROMOTE_FLOAT);
}

bt_tensor *(bt_clamp)(bt_tensor *x, bt_tensor *low, bt_tensor *high)
{
    return (bt_minimum)((bt_maximum)(x, low), high);
}

bt_tensor *(bt_soft_threshold)(bt_tensor *x, bt_tensor *by) { return bt_sub(x, bt_clamp(x, bt_neg(by), by)); }

bt_tensor *bt_accumulate(bt_tensor *a, bt_tensor *b) { return !a ? b : !b ? a : (bt_add)(a, b); }

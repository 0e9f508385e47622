/* ops/function.c: elementwise functions built from other ops: activations, inverse functions, rounding, logic. */
#include "ops/define.h"

/* Makes x a float; if it is poisoned, the function returns the poison. */
#define FUNCTION(name, x)                                                                                              \
    do {                                                                                                               \
        bt_tensor *poison_ = bt_operands_promote(name, &(x), 1, BT_PROMOTE_FLOAT);                                     \
        if (poison_)                                                                                                   \
            return poison_;                                                                                            \
    } while (0)

/* ---- activations ---- */

bt_tensor *bt_silu(bt_tensor *x)
{
    FUNCTION("silu", x);
    return bt_mul(x, bt_sigmoid(x));
}

bt_tensor *bt_mish(bt_tensor *x)
{
    FUNCTION("mish", x);
    return bt_mul(x, bt_tanh(bt_softplus(x)));
}

bt_tensor *bt_log_sigmoid(bt_tensor *x)
{
    FUNCTION("log_sigmoid", x);
    return bt_neg(bt_softplus(bt_neg(x)));
}

/* exp is taken only of values <= 0: elsewhere its derivative could be infinite, and times 0 that is NaN. */
bt_tensor *bt_elu(bt_tensor *x, double alpha)
{
    FUNCTION("elu", x);
    bt_tensor *positive = bt_greater(x, 0);
    return bt_where(positive, x, bt_mul(alpha, bt_expm1(bt_where(positive, 0, x))));
}

/* Klambauer et al. 2017 */
bt_tensor *bt_selu(bt_tensor *x) { return bt_mul(1.0507009873554804934, bt_elu(x, 1.6732632423543772848)); }

bt_tensor *bt_leaky_relu(bt_tensor *x, double slope)
{
    FUNCTION("leaky_relu", x);
    return bt_where(bt_greater(x, 0), x, bt_mul(slope, x));
}

/* ---- inverse functions ---- */

bt_tensor *bt_tan(bt_tensor *x)
{
    FUNCTION("tan", x);
    return bt_div(bt_sin(x), bt_cos(x));
}

/* sqrt(1 - x^2), without cancellation near 1 */
static bt_tensor *other_leg(bt_tensor *x) { return bt_sqrt(bt_mul(bt_sub(1, x), bt_add(1, x))); }

bt_tensor *bt_asin(bt_tensor *x)
{
    FUNCTION("asin", x);
    return bt_atan(bt_div(x, other_leg(x)));
}

bt_tensor *bt_acos(bt_tensor *x)
{
    FUNCTION("acos", x);
    return bt_mul(2, bt_atan(bt_sqrt(bt_div(bt_sub(1, x), bt_add(1, x)))));
}

/* Uses |x|, since the function is odd: log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))), which is accurate
 * near 0. */
bt_tensor *bt_asinh(bt_tensor *x)
{
    FUNCTION("asinh", x);
    bt_tensor *negative = bt_less(x, 0), *a = bt_where(negative, bt_neg(x), x), *square = bt_square(a);
    bt_tensor *y = bt_log1p(bt_add(a, bt_div(square, bt_add(1, bt_sqrt(bt_add(square, 1))))));
    return bt_where(negative, bt_neg(y), y);
}

bt_tensor *bt_acosh(bt_tensor *x)
{
    FUNCTION("acosh", x);
    bt_tensor *above = bt_sub(x, 1);
    return bt_log1p(bt_add(above, bt_sqrt(bt_mul(above, bt_add(x, 1)))));
}

bt_tensor *bt_atanh(bt_tensor *x)
{
    FUNCTION("atanh", x);
    return bt_mul(0.5, bt_sub(bt_log1p(x), bt_log1p(bt_neg(x))));
}

bt_tensor *bt_logit(bt_tensor *x)
{
    FUNCTION("logit", x);
    return bt_sub(bt_log(x), bt_log1p(bt_neg(x)));
}

/* ---- rounding ---- */

bt_tensor *bt_ceil(bt_tensor *x)
{
    FUNCTION("ceil", x);
    return bt_neg(bt_floor(bt_neg(x)));
}

/* Rounds halves to even: halfway above an odd number it goes up, above an even one down. */
bt_tensor *bt_rint(bt_tensor *x)
{
    FUNCTION("round", x);
    bt_tensor *low = bt_floor(x), *above = bt_sub(x, low);
    bt_tensor *odd = bt_sub(low, bt_mul(2, bt_floor(bt_mul(0.5, low))));
    bt_tensor *half = bt_equal(above, 0.5);
    return bt_add(low, bt_where(half, odd, bt_where(bt_greater(above, 0.5), 1, 0)));
}

/* ---- logic: nonzero is true ---- */

static bt_tensor *truth(const char *name, bt_tensor *x)
{
    bt_tensor *poison = bt_operands_promote(name, &x, 1, BT_PROMOTE_KEEP);
    return poison ? poison : bt_as(x, BT_BOOL);
}

bt_tensor *bt_not(bt_tensor *x)
{
    bt_tensor *on = truth("not", x);
    return bt_poisoned(on) ? on : bt_where(on, bt_number(0, BT_BOOL), bt_number(1, BT_BOOL));
}

bt_tensor *bt_and(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *one = truth("and", a), *other = truth("and", b);
    return bt_poisoned(one) ? one : bt_where(one, other, bt_number(0, BT_BOOL));
}

bt_tensor *bt_or(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *one = truth("or", a), *other = truth("or", b);
    return bt_poisoned(one) ? one : bt_where(one, bt_number(1, BT_BOOL), other);
}

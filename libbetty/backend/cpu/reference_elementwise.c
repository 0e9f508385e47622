/* backend/cpu/reference_elementwise.c: plain loops for the elementwise ops. */
#include "backend/cpu/reference.h"

#include <math.h>

/* ---- one operand ---- */

static double negate(double x) { return -x; }

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; /* NaN stays */ }

static double square(double x) { return x * x; }

static double sigmoid(double x)
{
    double z = exp(-fabs(x));
    return x < 0 ? z / (1 + z) : 1 / (1 + z);
}

static double relu(double x) { return x <= 0 ? 0 : x; /* NaN stays */ }

static double step(double x) { return x > 0; }

static double is_finite(double x) { return isfinite(x) ? 1 : 0; }

static double softplus(double x)
{
    double tail = log1p(exp(-fabs(x)));
    return x < 0 ? tail : x + tail;
}

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440); /* erfc keeps the digits of the tail */
}

static double gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + 0.39894228040143267794 * x * exp(-0.5 * x * x);
}

static double gelu_tanh(double x) { return x * sigmoid(1.59576912160573071176 * x * (1 + 0.044715 * x * x)); }

static int64_t int_negate(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

static int64_t int_abs(int64_t x) { return x < 0 ? int_negate(x) : x; }

static int64_t int_sign(int64_t x) { return (x > 0) - (x < 0); }

static int64_t int_square(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }

static const struct {
    const bt_op *op;
    double (*floating)(double);
    int64_t (*integer)(int64_t); /* NULL: there is none */
} unaries[] = {
    {&bt_op_neg, negate, int_negate},
    {&bt_op_abs, fabs, int_abs},
    {&bt_op_sign, sign, int_sign},
    {&bt_op_square, square, int_square},
    {&bt_op_sqrt, sqrt, NULL},
    {&bt_op_exp, exp, NULL},
    {&bt_op_log, log, NULL},
    {&bt_op_log1p, log1p, NULL},
    {&bt_op_sin, sin, NULL},
    {&bt_op_cos, cos, NULL},
    {&bt_op_tanh, tanh, NULL},
    {&bt_op_erf, erf, NULL},
    {&bt_op_sigmoid, sigmoid, NULL},
    {&bt_op_relu, relu, NULL},
    {&bt_op_step, step, NULL},
    {&bt_op_floor, floor, NULL},
    {&bt_op_isfinite, is_finite, NULL},
    {&bt_op_softplus, softplus, NULL},
    {&bt_op_gelu, gelu, NULL},
    {&bt_op_gelu_slope, gelu_slope, NULL},
    {&bt_op_gelu_tanh, gelu_tanh, NULL},
    {&bt_op_expm1, expm1, NULL},
    {&bt_op_sinh, sinh, NULL},
    {&bt_op_cosh, cosh, NULL},
    {&bt_op_atan, atan, NULL},
};

static bt_status unary(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    int i = 0;
    while (unaries[i].op != call->op)
        i++;
    if (unaries[i].integer && !bt_dtype_floats(call->in[0].dtype)) {
        for (int64_t e = 0; e < count; e++)
            bt_cpu_put_int(&call->out[0], e, unaries[i].integer(bt_cpu_get_int(&call->in[0], e)));
        return BT_OK;
    }
    for (int64_t e = 0; e < count; e++)
        bt_cpu_put(&call->out[0], e, unaries[i].floating(bt_cpu_get(&call->in[0], e)));
    return BT_OK;
}

/* ---- two operands ---- */

static double add(double a, double b) { return a + b; }

static double subtract(double a, double b) { return a - b; }

static double multiply(double a, double b) { return a * b; }

static double divide(double a, double b) { return a / b; }

static double minimum(double a, double b) { return isnan(a) || a < b ? a : b; }

static double maximum(double a, double b) { return isnan(a) || a > b ? a : b; }

static double gate(double g, double y) { return y > 0 ? g : 0; }

static double less(double a, double b) { return a < b; }

static double greater(double a, double b) { return a > b; }

static double equal(double a, double b) { return a >= b && a <= b; }

static int64_t int_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static int64_t int_subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

static int64_t int_multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static int64_t int_minimum(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t int_maximum(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t int_less(int64_t a, int64_t b) { return a < b; }

static int64_t int_greater(int64_t a, int64_t b) { return a > b; }

static int64_t int_equal(int64_t a, int64_t b) { return a == b; }

static const struct {
    const bt_op *op;
    double (*floating)(double, double);
    int64_t (*integer)(int64_t, int64_t);
} binaries[] = {
    {&bt_op_add, add, int_add},
    {&bt_op_sub, subtract, int_subtract},
    {&bt_op_mul, multiply, int_multiply},
    {&bt_op_div, divide, NULL},
    {&bt_op_pow, pow, NULL},
    {&bt_op_minimum, minimum, int_minimum},
    {&bt_op_maximum, maximum, int_maximum},
    {&bt_op_gate, gate, NULL},
    {&bt_op_less, less, int_less},
    {&bt_op_greater, greater, int_greater},
    {&bt_op_equal, equal, int_equal},
};

static bt_status binary(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    const bt_view *a = &call->in[0], *b = &call->in[1];
    int i = 0;
    while (binaries[i].op != call->op)
        i++;
    if (binaries[i].integer && !bt_dtype_floats(a->dtype) && !bt_dtype_floats(b->dtype)) {
        for (int64_t e = 0; e < count; e++)
            bt_cpu_put_int(&call->out[0], e, binaries[i].integer(bt_cpu_get_int(a, e), bt_cpu_get_int(b, e)));
        return BT_OK;
    }
    for (int64_t e = 0; e < count; e++)
        bt_cpu_put(&call->out[0], e, binaries[i].floating(bt_cpu_get(a, e), bt_cpu_get(b, e)));
    return BT_OK;
}

/* ---- selection ---- */

static void move(const bt_view *to, const bt_view *from, int64_t element)
{
    if (bt_dtype_floats(from->dtype))
        bt_cpu_put(to, element, bt_cpu_get(from, element));
    else
        bt_cpu_put_int(to, element, bt_cpu_get_int(from, element));
}

static bt_status where(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    for (int64_t e = 0; e < count; e++)
        move(&call->out[0], &call->in[bt_cpu_get(&call->in[0], e) != 0 ? 1 : 2], e);
    return BT_OK;
}

static bt_status cast(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    for (int64_t e = 0; e < count; e++)
        move(&call->out[0], &call->in[0], e);
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_elementwise[] = {
    BT_REFERENCE(expm1, unary),      BT_REFERENCE(sinh, unary),
    BT_REFERENCE(cosh, unary),       BT_REFERENCE(atan, unary),
    BT_REFERENCE(gelu_tanh, unary),  BT_REFERENCE(neg, unary),
    BT_REFERENCE(abs, unary),        BT_REFERENCE(sign, unary),
    BT_REFERENCE(square, unary),     BT_REFERENCE(sqrt, unary),
    BT_REFERENCE(exp, unary),        BT_REFERENCE(log, unary),
    BT_REFERENCE(log1p, unary),      BT_REFERENCE(sin, unary),
    BT_REFERENCE(cos, unary),        BT_REFERENCE(tanh, unary),
    BT_REFERENCE(erf, unary),        BT_REFERENCE(sigmoid, unary),
    BT_REFERENCE(relu, unary),       BT_REFERENCE(step, unary),
    BT_REFERENCE(floor, unary),      BT_REFERENCE(isfinite, unary),
    BT_REFERENCE(softplus, unary),   BT_REFERENCE(gelu, unary),
    BT_REFERENCE(add, binary),       BT_REFERENCE(sub, binary),
    BT_REFERENCE(mul, binary),       BT_REFERENCE(div, binary),
    BT_REFERENCE(pow, binary),       BT_REFERENCE(minimum, binary),
    BT_REFERENCE(maximum, binary),   BT_REFERENCE(gate, binary),
    BT_REFERENCE(less, binary),      BT_REFERENCE(greater, binary),
    BT_REFERENCE(equal, binary),     BT_REFERENCE(where, where),
    BT_REFERENCE(cast, cast),        BT_REFERENCE(widen, cast),
    BT_REFERENCE(gelu_slope, unary), {.op = NULL},
};

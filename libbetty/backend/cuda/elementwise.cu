/* backend/cuda/elementwise.cu: ops of one or two operands, element by element. In f32 with the functions of
 * backend/math.h, and so with the CPU's bits; in f64, which serves checks, with those of the device. */
#include "backend/cuda/lines.h"

/* F: a function of T, with T and what it gives, R. */
template <class F, int N> static __global__ void elementwise(const bt_lines<N> lines)
{
    typedef typename F::T T;
    BT_CUDA_EACH(i, lines.n)
    {
        int64_t at[N];
        T x[2] = {};
        bt_lines_at<N>(lines, i, at);
        for (int k = 0; k < N; k++)
            x[k] = bt_load<T>(lines.in[k].dtype, lines.in[k].data, at[k]);
        bt_store<typename F::R>(lines.dtype, lines.out, i, F::of(x[0], x[1]));
    }
}

template <class F, int N> static bt_status start(const bt_call *call)
{
    const bt_lines<N> lines = bt_lines_of<N>(call->in, &call->out[0]);
    return bt_cuda_each<bt_lines<N>>(call, elementwise<F, N>, lines.n, lines);
}

#define FUNCTION(name, type, result, expression)                                                                       \
    struct name {                                                                                                      \
        typedef type T;                                                                                                \
        typedef result R;                                                                                              \
        static __device__ inline R of(T x, T y) { return (void)x, (void)y, expression; }                               \
    };
#define FLOATS(name, f32, f64)                                                                                         \
    FUNCTION(name##_f32, float, float, f32)                                                                            \
    FUNCTION(name##_f64, double, double, f64)
#define INTEGERS(name, expression)                                                                                     \
    FUNCTION(name##_i32, int32_t, int32_t, (int32_t)(expression))                                                      \
    FUNCTION(name##_i64, int64_t, int64_t, (int64_t)(expression))
#define TRUTHS(name, expression)                                                                                       \
    FUNCTION(name##_f32, float, uint8_t, expression)                                                                   \
    FUNCTION(name##_f64, double, uint8_t, expression)                                                                  \
    FUNCTION(name##_i32, int32_t, uint8_t, expression)                                                                 \
    FUNCTION(name##_i64, int64_t, uint8_t, expression)

static __device__ inline double sigmoid(double x)
{
    const double z = exp(-fabs(x));
    return x < 0 ? z / (1 + z) : 1 / (1 + z);
}

static __device__ inline double softplus(double x)
{
    const double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}

/* Far from 0, where few go, the device's library knows the remainder. */
static __device__ inline float sine(float x) { return bt_abs_f32(x) <= BT_SIN_LIMIT ? bt_sin_f32(x, 0) : sinf(x); }
static __device__ inline float cosine(float x) { return bt_abs_f32(x) <= BT_SIN_LIMIT ? bt_sin_f32(x, 1) : cosf(x); }

/* ---- one operand ---- */

FLOATS(neg, -x, -x)
FLOATS(abs, bt_abs_f32(x), fabs(x))
FLOATS(sign, x > 0 ? 1.0F : x < 0 ? -1.0F : x, x > 0 ? 1.0 : x < 0 ? -1.0 : x)
FLOATS(square, x *x, x *x)
INTEGERS(neg, 0 - (uint64_t)x)
INTEGERS(abs, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
INTEGERS(sign, (x > 0) - (x < 0))
INTEGERS(square, (uint64_t)x *(uint64_t)x)
FLOATS(sqrt, sqrtf(x), sqrt(x))
FLOATS(exp, bt_exp_f32(x), exp(x))
FLOATS(log, bt_log_f32(x), log(x))
FLOATS(log1p, bt_log1p_f32(x), log1p(x))
FLOATS(expm1, expm1f(x), expm1(x))
FLOATS(sinh, sinhf(x), sinh(x))
FLOATS(cosh, coshf(x), cosh(x))
FLOATS(atan, atanf(x), atan(x))
FLOATS(sin, sine(x), sin(x))
FLOATS(cos, cosine(x), cos(x))
FLOATS(tanh, bt_tanh_f32(x), tanh(x))
FLOATS(erf, bt_erf_f32(x), erf(x))
FLOATS(sigmoid, bt_sigmoid_f32(x), sigmoid(x))
FLOATS(relu, x <= 0 ? 0.0F : x, x <= 0 ? 0.0 : x)
FLOATS(step, x > 0 ? 1.0F : 0.0F, x > 0 ? 1.0 : 0.0)
FLOATS(floor, floorf(x), floor(x))
FUNCTION(isfinite_f32, float, uint8_t, bt_abs_f32(x) < __builtin_inff())
FUNCTION(isfinite_f64, double, uint8_t, fabs(x) < __builtin_inf())
FLOATS(softplus, bt_softplus_f32(x), softplus(x))
FLOATS(gelu, bt_gelu_f32(x), 0.5 * x * erfc(-x * 0.70710678118654752440))
FLOATS(gelu_tanh, x *bt_sigmoid_f32(1.5957691216F * x * (1 + 0.044715F * x * x)),
       x *sigmoid(1.59576912160573071176 * x * (1 + 0.044715 * x * x)))

/* ---- two ---- */

FLOATS(add, x + y, x + y)
FLOATS(sub, x - y, x - y)
FLOATS(mul, x *y, x *y)
FLOATS(div, x / y, x / y)
FLOATS(pow, powf(x, y), pow(x, y))
FLOATS(minimum, x < y || x != x ? x : y, x < y || x != x ? x : y)
FLOATS(maximum, x > y || x != x ? x : y, x > y || x != x ? x : y)
FLOATS(gate, y > 0 ? x : 0, y > 0 ? x : 0)
INTEGERS(add, (uint64_t)x + (uint64_t)y)
INTEGERS(sub, (uint64_t)x - (uint64_t)y)
INTEGERS(mul, (uint64_t)x *(uint64_t)y)
INTEGERS(minimum, x < y ? x : y)
INTEGERS(maximum, x > y ? x : y)
TRUTHS(less, x < y)
TRUTHS(greater, x > y)
TRUTHS(equal, x == y)

/* ---- by op and dtype ---- */

typedef bt_status start_fn(const bt_call *call);

static const struct entry {
    const bt_op *op;
    start_fn *f32, *f64, *i32, *i64; /* NULL: there is none */
} entries[] = {
#define ALL(name, N)                                                                                                   \
    {                                                                                                                  \
        &bt_op_##name, start<name##_f32, N>, start<name##_f64, N>, start<name##_i32, N>, start<name##_i64, N>          \
    }
#define FLOATING(name, N)                                                                                              \
    {                                                                                                                  \
        &bt_op_##name, start<name##_f32, N>, start<name##_f64, N>, nullptr, nullptr                                    \
    }
    ALL(neg, 1),           ALL(abs, 1),           ALL(sign, 1),       ALL(square, 1),         FLOATING(sqrt, 1),
    FLOATING(exp, 1),      FLOATING(log, 1),      FLOATING(log1p, 1), FLOATING(expm1, 1),     FLOATING(sinh, 1),
    FLOATING(cosh, 1),     FLOATING(atan, 1),     FLOATING(sin, 1),   FLOATING(cos, 1),       FLOATING(tanh, 1),
    FLOATING(erf, 1),      FLOATING(sigmoid, 1),  FLOATING(relu, 1),  FLOATING(step, 1),      FLOATING(floor, 1),
    FLOATING(isfinite, 1), FLOATING(softplus, 1), FLOATING(gelu, 1),  FLOATING(gelu_tanh, 1), ALL(add, 2),
    ALL(sub, 2),           ALL(mul, 2),           FLOATING(div, 2),   FLOATING(pow, 2),       ALL(minimum, 2),
    ALL(maximum, 2),       FLOATING(gate, 2),     ALL(less, 2),       ALL(greater, 2),        ALL(equal, 2),
};

static const entry *entry_of(const bt_call *call)
{
    const entry *found = entries;
    while (found->op != call->op)
        found++;
    return found;
}

/* What the operands are computed in: f32 where they are stored in 16 bits, else as they are. */
static start_fn *start_of(const bt_call *call)
{
    const entry *found = entry_of(call);
    for (int i = 0; i < call->inputs; i++)
        if (call->in[i].dtype == BT_F64)
            return found->f64;
    const bt_dtype dtype = call->in[0].dtype;
    return dtype == BT_I32 ? found->i32 : dtype == BT_I64 ? found->i64 : found->f32;
}

static bool accepts(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (call->in[i].dtype == BT_U8 || call->in[i].dtype == BT_BOOL)
            return false;
    return start_of(call) != nullptr;
}

static bt_status launch(const bt_call *call) { return start_of(call)(call); }

#define ELEMENTWISE(op_name)                                                                                           \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .accepts = accepts, .launch = launch, .half = true           \
    }

extern "C" const bt_kernel_impl bt_cuda_elementwise[] = {
    ELEMENTWISE(neg),      ELEMENTWISE(abs),      ELEMENTWISE(sign),    ELEMENTWISE(square),
    ELEMENTWISE(sqrt),     ELEMENTWISE(exp),      ELEMENTWISE(log),     ELEMENTWISE(log1p),
    ELEMENTWISE(expm1),    ELEMENTWISE(sinh),     ELEMENTWISE(cosh),    ELEMENTWISE(atan),
    ELEMENTWISE(sin),      ELEMENTWISE(cos),      ELEMENTWISE(tanh),    ELEMENTWISE(erf),
    ELEMENTWISE(sigmoid),  ELEMENTWISE(relu),     ELEMENTWISE(step),    ELEMENTWISE(floor),
    ELEMENTWISE(isfinite), ELEMENTWISE(softplus), ELEMENTWISE(gelu),    ELEMENTWISE(gelu_tanh),
    ELEMENTWISE(add),      ELEMENTWISE(sub),      ELEMENTWISE(mul),     ELEMENTWISE(div),
    ELEMENTWISE(pow),      ELEMENTWISE(minimum),  ELEMENTWISE(maximum), ELEMENTWISE(gate),
    ELEMENTWISE(less),     ELEMENTWISE(greater),  ELEMENTWISE(equal),   {},
};

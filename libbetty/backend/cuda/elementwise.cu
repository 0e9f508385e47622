/* backend/cuda/elementwise.cu: ops of one or two operands, element by element. */
#include "backend/cuda/functions.h"
#include "backend/cuda/lines.h"

/* F: a function, with the type T of its operands and R of its result. */
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
    ALL(neg, 1),           ALL(abs, 1),           ALL(sign, 1),      ALL(square, 1),
    FLOATING(sqrt, 1),     FLOATING(exp, 1),      FLOATING(log, 1),  FLOATING(log1p, 1),
    FLOATING(expm1, 1),    FLOATING(sinh, 1),     FLOATING(cosh, 1), FLOATING(atan, 1),
    FLOATING(sin, 1),      FLOATING(cos, 1),      FLOATING(tanh, 1), FLOATING(erf, 1),
    FLOATING(sigmoid, 1),  FLOATING(relu, 1),     FLOATING(step, 1), FLOATING(floor, 1),
    FLOATING(isfinite, 1), FLOATING(softplus, 1), FLOATING(gelu, 1), FLOATING(gelu_tanh, 1),
    ALL(add, 2),           ALL(sub, 2),           ALL(mul, 2),       FLOATING(div, 2),
    FLOATING(pow, 2),      ALL(minimum, 2),       ALL(maximum, 2),   FLOATING(gate, 2),
    ALL(less, 2),          ALL(greater, 2),       ALL(equal, 2),     FLOATING(gelu_slope, 1),
};

static const entry *entry_of(const bt_call *call)
{
    const entry *found = entries;
    while (found->op != call->op)
        found++;
    return found;
}

/* The kernel for the type that operands are computed in: f32 if they have 16 bits, else their own. */
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
    ELEMENTWISE(neg),
    ELEMENTWISE(abs),
    ELEMENTWISE(sign),
    ELEMENTWISE(square),
    ELEMENTWISE(sqrt),
    ELEMENTWISE(exp),
    ELEMENTWISE(log),
    ELEMENTWISE(log1p),
    ELEMENTWISE(expm1),
    ELEMENTWISE(sinh),
    ELEMENTWISE(cosh),
    ELEMENTWISE(atan),
    ELEMENTWISE(sin),
    ELEMENTWISE(cos),
    ELEMENTWISE(tanh),
    ELEMENTWISE(erf),
    ELEMENTWISE(sigmoid),
    ELEMENTWISE(relu),
    ELEMENTWISE(step),
    ELEMENTWISE(floor),
    ELEMENTWISE(isfinite),
    ELEMENTWISE(softplus),
    ELEMENTWISE(gelu),
    ELEMENTWISE(gelu_tanh),
    ELEMENTWISE(add),
    ELEMENTWISE(sub),
    ELEMENTWISE(mul),
    ELEMENTWISE(div),
    ELEMENTWISE(pow),
    ELEMENTWISE(minimum),
    ELEMENTWISE(maximum),
    ELEMENTWISE(gate),
    ELEMENTWISE(less),
    ELEMENTWISE(greater),
    ELEMENTWISE(equal),
    ELEMENTWISE(gelu_slope),
    {},
};

/* backend/cuda/chain.cu: successive elementwise steps as one kernel, which runs them all for each element. The result
 * of a link stays in shared memory, in a column per thread, so that no barrier is needed. It computes in f32 with the
 * same bits as elementwise.cu and select.cu; ops in f64 or integers are not part of a chain. */
#include "backend/cuda/functions.h"

extern "C" {
#include "compile/chain.h"
}

/* The ops that a link can be. X(op, number of operands) */
/* clang-format off */
#define FUNCTIONS(X)                                                                                                   \
    X(neg, 1) X(abs, 1) X(sign, 1) X(square, 1) X(sqrt, 1) X(exp, 1) X(log, 1) X(log1p, 1) X(expm1, 1) X(sinh, 1)      \
    X(cosh, 1) X(atan, 1) X(sin, 1) X(cos, 1) X(tanh, 1) X(erf, 1) X(sigmoid, 1) X(relu, 1) X(step, 1) X(floor, 1)     \
    X(isfinite, 1) X(softplus, 1) X(gelu, 1) X(gelu_slope, 1) X(gelu_tanh, 1) X(add, 2) X(sub, 2) X(mul, 2)            \
    X(div, 2) X(pow, 2) X(minimum, 2) X(maximum, 2) X(gate, 2) X(less, 2) X(greater, 2) X(equal, 2)
/* clang-format on */

enum code {
#define CODE(name, operands) CODE_##name,
    FUNCTIONS(CODE)
#undef CODE
        CODE_where,
    CODE_cast,
    CODES
};

struct chain {
    int64_t n;
    int links;
    struct input {
        const char *data;
        uint8_t dtype;
        bool number; /* one number for all elements */
    } in[BT_CHAIN_OPERANDS];
    char *out[BT_CHAIN_OPERANDS];
    struct step {
        uint8_t code, dtype, operands, in[BT_ROW_INPUTS];
        int8_t out;
    } steps[BT_CHAIN_LINKS];
};

static __device__ float computed(int code, float x, float y, float z)
{
    switch (code) {
#define CASE(name, operands)                                                                                           \
    case CODE_##name:                                                                                                  \
        return (float)name##_f32::of(x, y);
        FUNCTIONS(CASE)
#undef CASE
    case CODE_where:
        return x != 0 ? y : z;
    default:
        return x;
    }
}

/* x as it would be read back from memory in this dtype. */
static __device__ float rounded(int dtype, float x)
{
    switch (dtype) {
    case BT_BF16:
        return bt_f32_of_bf16(bt_bf16_of(x));
    case BT_F16:
        return bt_f32_of_f16(bt_f16_of(x));
    case BT_BOOL:
        return x != 0 ? 1.0F : 0.0F;
    default:
        return x;
    }
}

static __global__ void run(const chain c)
{
    BT_SHARED(float, values, BT_CHAIN_LINKS *BT_CUDA_THREADS);
    BT_CUDA_EACH(i, c.n)
    {
        for (int k = 0; k < c.links; k++) {
            const chain::step &link = c.steps[k];
            float x[BT_ROW_INPUTS] = {};
            for (int j = 0; j < link.operands; j++)
                if (link.in[j] >= BT_CHAIN_OPERANDS) {
                    x[j] = values[(link.in[j] - BT_CHAIN_OPERANDS) * blockDim.x + threadIdx.x];
                } else {
                    const chain::input &in = c.in[link.in[j]];
                    x[j] = bt_load<float>((bt_dtype)in.dtype, in.data, in.number ? 0 : i);
                }
            const float y = rounded(link.dtype, computed(link.code, x[0], x[1], x[2]));
            values[k * blockDim.x + threadIdx.x] = y;
            if (link.out >= 0)
                bt_store<float>((bt_dtype)link.dtype, c.out[link.out], i, y);
        }
    }
}

/* ---- on the host ---- */

static const struct known {
    const bt_op *op;
    int operands;
} known[] = {
#define KNOWN(name, operands) {&bt_op_##name, operands},
    FUNCTIONS(KNOWN)
#undef KNOWN
        {&bt_op_where, 3},
    {&bt_op_cast, 1},
};

static int code_of(const bt_op *op)
{
    int code = 0;
    while (code < CODES && known[code].op != op)
        code++;
    return code;
}

/* BT_BOOL is an operand of `where` and `cast` only. */
static bool takes(int code, int operand, bt_dtype dtype)
{
    const bool truth = dtype == BT_BOOL;
    if (code == CODE_where && operand == 0)
        return truth;
    return dtype == BT_F32 || bt_dtype_half(dtype) || (truth && (code == CODE_where || code == CODE_cast));
}

static bool accepts(const bt_call *call)
{
    const bt_chain_attr *attr = (const bt_chain_attr *)call->attr;
    for (int64_t k = 0; k < attr->joined.count; k++) {
        const bt_chain_link *link = &attr->links[k];
        const int code = code_of(link->op);
        if (code == CODES || link->inputs != known[code].operands ||
            !(link->dtype == BT_F32 || link->dtype == BT_BOOL || bt_dtype_half(link->dtype)))
            return false;
        for (int j = 0; j < link->inputs; j++)
            if (link->in[j] < BT_CHAIN_OPERANDS && !takes(code, j, call->in[link->in[j]].dtype))
                return false;
    }
    return true;
}

static bt_status launch(const bt_call *call)
{
    const bt_chain_attr *attr = (const bt_chain_attr *)call->attr;
    chain c = {};
    c.n = attr->n;
    c.links = (int)attr->joined.count;
    for (int i = 0; i < call->inputs; i++)
        c.in[i] = {(const char *)call->in[i].data, (uint8_t)call->in[i].dtype, bt_view_repeats(&call->in[i])};
    for (int o = 0; o < call->outputs; o++)
        c.out[o] = (char *)call->out[o].data;
    for (int k = 0; k < c.links; k++) {
        const bt_chain_link *from = &attr->links[k];
        chain::step *to = &c.steps[k];
        to->code = (uint8_t)code_of(from->op);
        to->dtype = (uint8_t)from->dtype;
        to->operands = from->inputs;
        to->out = from->out;
        for (int j = 0; j < BT_ROW_INPUTS; j++)
            to->in[j] = from->in[j];
    }
    return bt_cuda_each<chain>(call, run, c.n, c);
}

extern "C" const bt_kernel_impl bt_cuda_chain[] = {
    {.op = &bt_op_chain, .name = "chain.cuda", .accepts = accepts, .launch = launch, .half = true},
    {},
};

/* backend/cpu/binary.c: elementwise ops of two operands, either of which may be a single number along a row;
 * comparisons. */
#include "backend/binary.h"
#include "backend/cpu/loop.h"
#include "backend/cpu/vector.h"

#include <math.h>

/* name_0: two rows; name_1: the first is a single number; name_2: the second is. */
#define VARIANT(name, T, U, at_a, at_b, expression)                                                                    \
    static void name(int64_t n, void *out, const void *const *in)                                                      \
    {                                                                                                                  \
        const T *a = in[0], *b = in[1];                                                                                \
        const T a0 = *a, b0 = *b;                                                                                      \
        U *z = out;                                                                                                    \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T x = at_a, y = at_b;                                                                                      \
            z[i] = expression;                                                                                         \
        }                                                                                                              \
        (void)a0, (void)b0;                                                                                            \
    }
#define ROWS(name, T, U, expression)                                                                                   \
    VARIANT(name##_0, T, U, a[i], b[i], expression)                                                                    \
    VARIANT(name##_1, T, U, a0, b[i], expression)                                                                      \
    VARIANT(name##_2, T, U, a[i], b0, expression)
#define FLOATS(name, f32, f64)                                                                                         \
    ROWS(name##_f32, float, float, f32)                                                                                \
    ROWS(name##_f64, double, double, f64)
#define COMPARES(name, expression)                                                                                     \
    ROWS(name##_f32, float, uint8_t, expression)                                                                       \
    ROWS(name##_f64, double, uint8_t, expression)                                                                      \
    ROWS(name##_i32, int32_t, uint8_t, expression)                                                                     \
    ROWS(name##_i64, int64_t, uint8_t, expression)
#define INTEGERS(name, operator)                                                                                       \
    ROWS(name##_i32, int32_t, int32_t, (int32_t)((uint32_t)x operator(uint32_t) y))                                    \
    ROWS(name##_i64, int64_t, int64_t, (int64_t)((uint64_t)x operator(uint64_t) y))

#define SAME(name, expression) FLOATS(name, expression, expression)
#define EXTREMES(name, expression)                                                                                     \
    ROWS(name##_i32, int32_t, int32_t, expression)                                                                     \
    ROWS(name##_i64, int64_t, int64_t, expression)

BT_BINARY_FLOATS(SAME)
FLOATS(pow, powf(x, y), pow(x, y))
INTEGERS(add, +)
INTEGERS(sub, -)
INTEGERS(mul, *)
BT_BINARY_EXTREMES(EXTREMES)
BT_BINARY_TRUTHS(COMPARES)

enum { DTYPES = BT_I64 + 1 };

typedef bt_row_fn *const variants[4];
#define V(name)                                                                                                        \
    {                                                                                                                  \
        name##_0, name##_1, name##_2, NULL                                                                             \
    }

static const struct binary {
    const bt_op *op;
    bt_row_fn *variants[DTYPES][4];
    int cost;
} binaries[] = {
    {&bt_op_add, {V(add_f32), V(add_f64), V(add_i32), V(add_i64)}, 1},
    {&bt_op_sub, {V(sub_f32), V(sub_f64), V(sub_i32), V(sub_i64)}, 1},
    {&bt_op_mul, {V(mul_f32), V(mul_f64), V(mul_i32), V(mul_i64)}, 1},
    {&bt_op_div, {V(div_f32), V(div_f64)}, 2},
    {&bt_op_pow, {V(pow_f32), V(pow_f64)}, 40},
    {&bt_op_minimum, {V(minimum_f32), V(minimum_f64), V(minimum_i32), V(minimum_i64)}, 1},
    {&bt_op_maximum, {V(maximum_f32), V(maximum_f64), V(maximum_i32), V(maximum_i64)}, 1},
    {&bt_op_gate, {V(gate_f32), V(gate_f64)}, 1},
    {&bt_op_less, {V(less_f32), V(less_f64), V(less_i32), V(less_i64)}, 1},
    {&bt_op_greater, {V(greater_f32), V(greater_f64), V(greater_i32), V(greater_i64)}, 1},
    {&bt_op_equal, {V(equal_f32), V(equal_f64), V(equal_i32), V(equal_i64)}, 1},
};

static const struct binary *binary_of(const bt_call *call)
{
    const struct binary *binary = binaries;
    while (binary->op != call->op)
        binary++;
    return binary;
}

static bool accepts(const bt_call *call)
{
    bt_dtype dtype = call->in[0].dtype;
    return (int)dtype < DTYPES && call->in[1].dtype == dtype && binary_of(call)->variants[dtype][0];
}

static bt_status prepare(bt_call *call)
{
    const struct binary *binary = binary_of(call);
    return BT_ISA(bt_loop_prepare)(call, binary->variants[call->in[0].dtype], binary->cost);
}

#define BINARY(name)                                                                                                   \
    {                                                                                                                  \
        &bt_op_##name, #name ".vector", accepts, NULL, prepare, BT_ISA(bt_loop_launch), BT_ISA(bt_loop_release),       \
            false, false                                                                                               \
    }

const bt_kernel_impl BT_ISA(bt_cpu_binary)[] = {
    BINARY(add),     BINARY(sub),  BINARY(mul),  BINARY(div),     BINARY(pow),   BINARY(minimum),
    BINARY(maximum), BINARY(gate), BINARY(less), BINARY(greater), BINARY(equal), {.op = NULL},
};

/* backend/cpu/select.c: where and cast. */
#include "backend/cpu/loop.h"
#include "backend/cpu/vector.h"
#include "base/bounded.h"
#include "base/half.h"

/* ---- where: values are only moved, so only their size matters ---- */

#define WHERE(name, T, at_a, at_b)                                                                                     \
    static void name(int64_t n, void *out, const void *const *in)                                                      \
    {                                                                                                                  \
        const uint8_t *c = in[0];                                                                                      \
        const T *a = in[1], *b = in[2];                                                                                \
        const T a0 = *a, b0 = *b;                                                                                      \
        T *y = out;                                                                                                    \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T yes = at_a, no = at_b;                                                                                   \
            y[i] = c[i] ? yes : no;                                                                                    \
        }                                                                                                              \
        (void)a0, (void)b0;                                                                                            \
    }
/* One condition for the whole row. */
#define CHOOSE(name, T, at_a, at_b)                                                                                    \
    static void name(int64_t n, void *out, const void *const *in)                                                      \
    {                                                                                                                  \
        const bool all = *(const uint8_t *)in[0] != 0;                                                                 \
        const T *a = in[1], *b = in[2];                                                                                \
        const T a0 = *a, b0 = *b;                                                                                      \
        T *y = out;                                                                                                    \
        if (all) {                                                                                                     \
            BT_SIMD                                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                            \
                y[i] = at_a;                                                                                           \
        } else {                                                                                                       \
            BT_SIMD                                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                            \
                y[i] = at_b;                                                                                           \
        }                                                                                                              \
        (void)a0, (void)b0;                                                                                            \
    }
#define WHERES(size, T)                                                                                                \
    typedef T value##size __attribute__((may_alias));                                                                  \
    WHERE(where##size##_0, value##size, a[i], b[i])                                                                    \
    WHERE(where##size##_2, value##size, a0, b[i])                                                                      \
    WHERE(where##size##_4, value##size, a[i], b0)                                                                      \
    WHERE(where##size##_6, value##size, a0, b0)                                                                        \
    CHOOSE(where##size##_1, value##size, a[i], b[i])                                                                   \
    CHOOSE(where##size##_3, value##size, a0, b[i])                                                                     \
    CHOOSE(where##size##_5, value##size, a[i], b0)
WHERES(1, uint8_t)
WHERES(4, uint32_t)
WHERES(8, uint64_t)

#define W(size)                                                                                                        \
    {                                                                                                                  \
        where##size##_0, where##size##_1, where##size##_2, where##size##_3, where##size##_4, where##size##_5,          \
            where##size##_6, NULL                                                                                      \
    }
static bt_row_fn *const wheres[][8] = {[1] = W(1), [4] = W(4), [8] = W(8)};

static bool where_accepts(const bt_call *call)
{
    return bt_dtype_size(call->in[0].dtype) == 1 && bt_cpu_same_dtypes(call, 1, 2);
}

static bt_status where_prepare(bt_call *call)
{
    return BT_ISA(bt_loop_prepare)(call, wheres[bt_dtype_size(call->out[0].dtype)], 1);
}

/* ---- cast ---- */

#define SAME(T, x)     (T)(x)
#define TRUTH(T, x)    (x) != 0
#define INTO_I32(T, x) bt_i32_of((double)(x))
#define INTO_I64(T, x) bt_i64_of((double)(x))
#define INTO_U8(T, x)  bt_u8_of((double)(x))
#define CUT_BF16(T, x) bt_bf16_of(bt_f32_cut((double)(x)))
#define CUT_F16(T, x)  bt_f16_of(bt_f32_cut((double)(x)))
#define TO_BF16(T, x)  bt_bf16_of(x)
#define TO_F16(T, x)   bt_f16_of(x)
#define CAST(from, T, read, to, U, convert)                                                                            \
    static void from##_to_##to(int64_t n, void *out, const void *const *in)                                            \
    {                                                                                                                  \
        const T *x = in[0];                                                                                            \
        U *y = out;                                                                                                    \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = convert(U, read(x[i]));                                                                             \
    }
#define CASTS(from, T, read, cut_i32, cut_i64, cut_u8, into_bf16, into_f16)                                            \
    CAST(from, T, read, f32, float, SAME)                                                                              \
    CAST(from, T, read, f64, double, SAME)                                                                             \
    CAST(from, T, read, i32, int32_t, cut_i32)                                                                         \
    CAST(from, T, read, i64, int64_t, cut_i64)                                                                         \
    CAST(from, T, read, u8, uint8_t, cut_u8)                                                                           \
    CAST(from, T, read, truth, uint8_t, TRUTH)                                                                         \
    CAST(from, T, read, bf16, uint16_t, into_bf16)                                                                     \
    CAST(from, T, read, f16, uint16_t, into_f16)
#define LIST(from)                                                                                                     \
    {                                                                                                                  \
        from##_to_f32, from##_to_f64, from##_to_i32, from##_to_i64, from##_to_u8, from##_to_truth, from##_to_bf16,     \
            from##_to_f16                                                                                              \
    }

CASTS(f32, float, , INTO_I32, INTO_I64, INTO_U8, TO_BF16, TO_F16)
CASTS(f64, double, , INTO_I32, INTO_I64, INTO_U8, CUT_BF16, CUT_F16)
CASTS(i32, int32_t, , SAME, SAME, SAME, CUT_BF16, CUT_F16)
CASTS(i64, int64_t, , SAME, SAME, SAME, CUT_BF16, CUT_F16)
CASTS(u8, uint8_t, , SAME, SAME, SAME, CUT_BF16, CUT_F16)
CASTS(bf16, uint16_t, bt_f32_of_bf16, INTO_I32, INTO_I64, INTO_U8, TO_BF16, TO_F16)
CASTS(f16, uint16_t, bt_f32_of_f16, INTO_I32, INTO_I64, INTO_U8, TO_BF16, TO_F16)

static bt_row_fn *const casts[][BT_F16 + 1] = {
    [BT_F32] = LIST(f32), [BT_F64] = LIST(f64), [BT_I32] = LIST(i32),   [BT_I64] = LIST(i64),
    [BT_U8] = LIST(u8),   [BT_BOOL] = LIST(u8), [BT_BF16] = LIST(bf16), [BT_F16] = LIST(f16),
};

static bt_status cast_prepare(bt_call *call)
{
    bt_row_fn *const variants[] = {casts[call->in[0].dtype][call->out[0].dtype], NULL};
    return BT_ISA(bt_loop_prepare)(call, variants, 1);
}

const bt_kernel_impl BT_ISA(bt_cpu_select)[] = {
    {&bt_op_where, "where.vector", where_accepts, NULL, where_prepare, BT_ISA(bt_loop_launch), BT_ISA(bt_loop_release),
     false, false},
    {&bt_op_cast, "cast.vector", NULL, NULL, cast_prepare, BT_ISA(bt_loop_launch), BT_ISA(bt_loop_release), false,
     true},
    {&bt_op_widen, "widen.vector", NULL, NULL, cast_prepare, BT_ISA(bt_loop_launch), BT_ISA(bt_loop_release), false,
     true},
    {.op = NULL},
};

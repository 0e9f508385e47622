/* backend/cpu/loss.c: softmax, log_softmax, cross-entropy, layer_norm, and their derivatives, in one pass over
 * contiguous rows; binary cross-entropy. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/row.h"
#include "backend/cpu/transpose.h"
#include "backend/cpu/vector.h"
#include "backend/math.h"

#include <math.h>

typedef struct places { /* where the rows of an operand begin */
    bt_view outer;
    int64_t step; /* bytes between rows if they lie along one axis; else -1 */
} places;

typedef struct rows {
    int64_t n, count;
    places first, second; /* of the first and of the second operand */
    bt_view label;
    void *out;
    const void *scale, *shift;
    void *mean, *deviation; /* of each row: written by layer_norm and read by its derivatives */
    double eps;
} rows;

static inline const void *place_of(const places *p, int64_t row)
{
    return p->step >= 0 ? p->outer.data + row * p->step : bt_cpu_at(&p->outer, row);
}

static inline const void *row_of(const rows *r, int64_t row) { return place_of(&r->first, row); }

static inline const void *second_of(const rows *r, int64_t row) { return place_of(&r->second, row); }

static inline int64_t label_of(const rows *r, int64_t row)
{
    const void *data = r->label.data;
    int64_t at = row * r->label.strides[0];
    return r->label.dtype == BT_I64 ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
}

#define T        float
#define R(x)     x##_f32
#define EXP      bt_exp_f32
#define LOG      bt_log_f32
#define TURN_ALL bt_turn_all4
#include "backend/cpu/loss_template.h"
#undef T
#undef R
#undef EXP
#undef LOG
#undef TURN_ALL
#define T        double
#define R(x)     x##_f64
#define EXP      exp
#define LOG      log
#define TURN_ALL bt_turn_all8
#include "backend/cpu/loss_template.h"
#undef T
#undef R
#undef EXP
#undef LOG
#undef TURN_ALL

static places places_of(bt_view outer)
{
    places result = {.outer = outer, .step = -1};
    int64_t size = (int64_t)bt_dtype_size(outer.dtype), step = 0, reach = 0;
    bool one_axis = true, any = false;
    for (int d = outer.rank - 1; d >= 0; d--) {
        if (outer.dims[d] == 1)
            continue;
        one_axis &= !any || outer.strides[d] == reach;
        step = any ? step : outer.strides[d];
        reach = outer.strides[d] * outer.dims[d];
        any = true;
    }
    if (one_axis && step >= 0)
        result.step = step * size;
    return result;
}

/* The rows of x along its last axis. */
static places rows_in(const bt_view *x)
{
    bt_view kept, along;
    bt_cpu_split(x, 1U << (x->rank - 1), &kept, &along);
    return places_of(kept);
}

static bool rows_contiguous(const bt_view *x)
{
    return x->rank && bt_dtype_floats(x->dtype) && (x->strides[x->rank - 1] == 1 || x->dims[x->rank - 1] == 1);
}

static rows rows_of(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    rows r = {.n = x->dims[x->rank - 1], .first = rows_in(x), .out = call->out[0].data};
    r.count = bt_cpu_count(&r.first.outer);
    return r;
}

typedef void rows_fn(const rows *r, int64_t begin, int64_t end);

typedef struct shared { /* between threads */
    const rows *rows;
    rows_fn *function;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    s->function(s->rows, s->rows->count * t / threads, s->rows->count * (t + 1) / threads);
}

static void run(const bt_call *call, const rows *r, rows_fn *f32, rows_fn *f64, int cost)
{
    rows_fn *function = call->out[0].dtype == BT_F32 ? f32 : f64;
    if (!r->n)
        return;
    int threads = call->threads > 1 && (double)r->count * (double)r->n * cost >= 1 << 17 ? call->threads : 1;
    bt_team_do(share, &(shared){r, function}, threads);
}

static bool softmax_accepts(const bt_call *call)
{
    return rows_contiguous(&call->in[0]) && ((const bt_axis_attr *)call->attr)->axis == call->in[0].rank - 1;
}

static bt_status softmax(const bt_call *call)
{
    rows r = rows_of(call);
    run(call, &r, softmax_rows_f32, softmax_rows_f64, 6);
    return BT_OK;
}

static bt_status log_softmax(const bt_call *call)
{
    rows r = rows_of(call);
    run(call, &r, log_softmax_rows_f32, log_softmax_rows_f64, 6);
    return BT_OK;
}

static bool softmax_grad_accepts(const bt_call *call)
{
    return softmax_accepts(call) && rows_contiguous(&call->in[1]) && bt_cpu_same_dtypes(call, 0, 1);
}

static bt_status softmax_grad(const bt_call *call)
{
    rows r = rows_of(call);
    r.second = rows_in(&call->in[1]);
    run(call, &r, softmax_grad_rows_f32, softmax_grad_rows_f64, 3);
    return BT_OK;
}

static bool cross_entropy_accepts(const bt_call *call)
{
    return rows_contiguous(&call->in[0]) && call->in[0].rank == 2 && call->in[1].rank == 1 &&
           (call->in[1].dtype == BT_I32 || call->in[1].dtype == BT_I64) &&
           (call->inputs < 3 || call->in[2].dtype == call->in[0].dtype);
}

static bt_status labels(const bt_call *call, rows *r)
{
    r->label = call->in[1];
    for (int64_t i = 0; i < r->count; i++) {
        int64_t label = label_of(r, i);
        if (label < 0 || label >= r->n)
            return bt_cpu_index(call, &r->label, i, r->n, &label);
    }
    return BT_OK;
}

static bt_status cross_entropy(const bt_call *call)
{
    rows r = rows_of(call);
    BT_TRY(labels(call, &r));
    run(call, &r, cross_entropy_rows_f32, cross_entropy_rows_f64, 6);
    return BT_OK;
}

static bt_status cross_entropy_grad(const bt_call *call)
{
    rows r = rows_of(call);
    BT_TRY(labels(call, &r));
    r.second = places_of(call->in[2]);
    run(call, &r, cross_entropy_grad_rows_f32, cross_entropy_grad_rows_f64, 6);
    return BT_OK;
}

static bool layer_norm_accepts(const bt_call *call)
{
    return rows_contiguous(&call->in[0]) && bt_cpu_same_dtypes(call, 0, 2) && bt_cpu_contiguous(&call->in[1]) &&
           bt_cpu_contiguous(&call->in[2]);
}

static bt_status layer_norm(const bt_call *call)
{
    rows r = rows_of(call);
    r.scale = call->in[1].data;
    r.shift = call->in[2].data;
    r.mean = call->out[1].data;
    r.deviation = call->out[2].data;
    r.eps = ((const bt_eps_attr *)call->attr)->eps;
    run(call, &r, layer_norm_rows_f32, layer_norm_rows_f64, 4);
    return BT_OK;
}

/* layer_norm_grad, layer_norm_dot */
static bool statistics_accepts(const bt_call *call)
{
    return rows_contiguous(&call->in[0]) && rows_contiguous(&call->in[3]) && bt_cpu_same_dtypes(call, 0, 3) &&
           bt_cpu_contiguous(&call->in[1]) && bt_cpu_contiguous(&call->in[2]);
}

static rows with_statistics(const bt_call *call)
{
    rows r = rows_of(call);
    r.mean = call->in[1].data;
    r.deviation = call->in[2].data;
    r.second = rows_in(&call->in[3]);
    return r;
}

static bt_status layer_norm_grad(const bt_call *call)
{
    rows r = with_statistics(call);
    run(call, &r, layer_norm_grad_rows_f32, layer_norm_grad_rows_f64, 4);
    return BT_OK;
}

static void share_columns(const void *work, int t, int threads)
{
    const shared *s = work;
    int64_t unit = 64, units = (s->rows->n + unit - 1) / unit, end = units * (t + 1) / threads * unit;
    s->function(s->rows, units * t / threads * unit, end < s->rows->n ? end : s->rows->n);
}

static bt_status layer_norm_dot(const bt_call *call)
{
    rows r = with_statistics(call);
    bool worth = call->threads > 1 && (double)r.count * (double)r.n * 4 >= 1 << 17;
    rows_fn *function = call->out[0].dtype == BT_F32 ? layer_norm_dot_columns_f32 : layer_norm_dot_columns_f64;
    bt_team_do(share_columns, &(shared){&r, function}, worth ? call->threads : 1);
    return BT_OK;
}

/* ---- binary_cross_entropy: loss and sigmoid of contiguous numbers ---- */

#define PAIRS(T, exp, log1p, absolute)                                                                                 \
    static void pairs_##T(int64_t begin, int64_t end, const bt_call *call)                                             \
    {                                                                                                                  \
        const T *x = (const T *)(const void *)call->in[0].data, *label = (const T *)(const void *)call->in[1].data;    \
        T *loss = (T *)(void *)call->out[0].data, *sigmoid = (T *)(void *)call->out[1].data;                           \
        BT_SIMD                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            T at = x[i], z = exp(-absolute(at)), tail = log1p(z), y = 1 / (1 + z), product = at * label[i];            \
            loss[i] = (at > 0 ? at + tail : tail) - product;                                                           \
            sigmoid[i] = at < 0 ? z * y : y;                                                                           \
        }                                                                                                              \
    }
PAIRS(float, bt_exp_f32, bt_log1p_near_f32, bt_abs_f32)
PAIRS(double, exp, log1p, __builtin_fabs)
#undef PAIRS

static bool binary_cross_entropy_accepts(const bt_call *call)
{
    return bt_dtype_floats(call->out[0].dtype) && bt_cpu_same_dtypes(call, 0, 1) && bt_cpu_contiguous(&call->in[0]) &&
           bt_cpu_contiguous(&call->in[1]);
}

static void share_pairs(const void *work, int t, int threads)
{
    const bt_call *call = work;
    int64_t unit = 64, count = bt_cpu_count(&call->out[0]), units = (count + unit - 1) / unit; /* whole cache lines */
    int64_t begin = units * t / threads * unit, end = units * (t + 1) / threads * unit;
    (call->out[0].dtype == BT_F32 ? pairs_float : pairs_double)(begin, end < count ? end : count, call);
}

static bt_status binary_cross_entropy(const bt_call *call)
{
    int cost = call->out[0].dtype == BT_F32 ? 12 : 80;
    bool worth = call->threads > 1 && (double)bt_cpu_count(&call->out[0]) * cost >= 1 << 17;
    bt_team_do(share_pairs, call, worth ? call->threads : 1);
    return BT_OK;
}

#define LOSS(name, accepts)                                                                                            \
    {                                                                                                                  \
        &bt_op_##name, #name ".rows", accepts, NULL, NULL, name, NULL, false, false                                    \
    }

const bt_kernel_impl BT_ISA(bt_cpu_loss)[] = {
    LOSS(softmax, softmax_accepts),
    LOSS(log_softmax, softmax_accepts),
    LOSS(softmax_grad, softmax_grad_accepts),
    LOSS(cross_entropy, cross_entropy_accepts),
    LOSS(cross_entropy_grad, cross_entropy_accepts),
    LOSS(binary_cross_entropy, binary_cross_entropy_accepts),
    LOSS(layer_norm, layer_norm_accepts),
    LOSS(layer_norm_grad, statistics_accepts),
    LOSS(layer_norm_dot, statistics_accepts),
    {.op = NULL},
};

/* backend/cpu/loss.c: softmax, log_softmax, cross-entropy, their derivatives, and layer_norm, in one pass over rows
 * that are contiguous. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/math_f32.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/row.h"

#include <math.h>

typedef struct rows {
    int64_t n, count;
    bt_view outer, second_outer; /* where the rows of the first operand begin, and of the second */
    const bt_view *label;
    void *out;
    const void *scale, *shift;
    double eps;
} rows;

static const void *row_of(const rows *r, int64_t row) { return bt_cpu_at(&r->outer, row); }

static const void *second_of(const rows *r, int64_t row) { return bt_cpu_at(&r->second_outer, row); }

static int64_t label_of(const rows *r, int64_t row) { return bt_cpu_get_int(r->label, row); }

#define T    float
#define R(x) x##_f32
#define EXP  bt_exp_f32
#include "backend/cpu/loss_template.h"
#undef T
#undef R
#undef EXP
#define T    double
#define R(x) x##_f64
#define EXP  exp
#include "backend/cpu/loss_template.h"
#undef T
#undef R
#undef EXP

/* The rows of x along its last axis; a view of the places where they begin. */
static bt_view outside(const bt_view *x)
{
    bt_view kept, along;
    bt_cpu_split(x, 1U << (x->rank - 1), &kept, &along);
    if (bt_cpu_contiguous(x) && kept.rank > 1) { /* one axis is found faster than several */
        int64_t count = bt_cpu_count(&kept);
        kept.rank = 1;
        kept.dims[0] = count;
        kept.strides[0] = x->dims[x->rank - 1];
    }
    return kept;
}

static bool rows_contiguous(const bt_view *x)
{
    return x->rank && bt_dtype_floats(x->dtype) && (x->strides[x->rank - 1] == 1 || x->dims[x->rank - 1] == 1);
}

static rows rows_of(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    rows r = {.n = x->dims[x->rank - 1], .outer = outside(x), .out = call->out[0].data};
    r.count = bt_cpu_count(&r.outer);
    return r;
}

typedef void rows_fn(const rows *r, int64_t begin, int64_t end);

static void run(const bt_call *call, const rows *r, rows_fn *f32, rows_fn *f64, int cost)
{
    rows_fn *function = call->out[0].dtype == BT_F32 ? f32 : f64;
    if (!r->n)
        return;
    int threads = call->threads > 1 && (double)r->count * (double)r->n * cost >= 1 << 17 ? call->threads : 1;
    if (threads == 1) {
        function(r, 0, r->count);
        return;
    }
#if defined _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int t = 0; t < threads; t++)
        function(r, r->count * t / threads, r->count * (t + 1) / threads);
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
    r.second_outer = outside(&call->in[1]);
    run(call, &r, softmax_grad_rows_f32, softmax_grad_rows_f64, 3);
    return BT_OK;
}

static bool cross_entropy_accepts(const bt_call *call)
{
    return rows_contiguous(&call->in[0]) && call->in[0].rank == 2 &&
           (call->inputs < 3 || call->in[2].dtype == call->in[0].dtype);
}

static bt_status labels(const bt_call *call, rows *r)
{
    r->label = &call->in[1];
    for (int64_t i = 0; i < r->count; i++) {
        int64_t label;
        BT_TRY(bt_cpu_index(call, r->label, i, r->n, &label));
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
    r.second_outer = call->in[2];
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
    r.eps = ((const bt_eps_attr *)call->attr)->eps;
    run(call, &r, layer_norm_rows_f32, layer_norm_rows_f64, 4);
    return BT_OK;
}

#define LOSS(name, accepts)                                                                                            \
    {                                                                                                                  \
        &bt_op_##name, #name ".rows", accepts, NULL, NULL, name, NULL                                                  \
    }

const bt_kernel_impl BT_ISA(bt_cpu_loss)[] = {
    LOSS(softmax, softmax_accepts),
    LOSS(log_softmax, softmax_accepts),
    LOSS(softmax_grad, softmax_grad_accepts),
    LOSS(cross_entropy, cross_entropy_accepts),
    LOSS(cross_entropy_grad, cross_entropy_accepts),
    LOSS(layer_norm, layer_norm_accepts),
    {.op = NULL},
};

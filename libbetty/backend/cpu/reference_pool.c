/* backend/cpu/reference_pool.c: plain loops for pooling and resampling. */
#include "backend/cpu/reference.h"
#include "ops/windows.h"

#include <math.h>
#include <string.h>

/* The index of an element of an image [n, h, w, c]. */
static int64_t element(const bt_view *x, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return ((n * x->dims[1] + h) * x->dims[2] + w) * x->dims[3] + c;
}

static void clear(const bt_view *out)
{
    size_t bytes = (size_t)bt_cpu_count(out) * bt_dtype_size(out->dtype);
    if (bytes)
        memset(out->data, 0, bytes);
}

/* Output o of a window op, and its window. */
typedef struct window {
    int64_t n, c, top, bottom, left, right; /* top <= h < bottom, left <= w < right */
    double share;                           /* of each pixel */
} window;

static window window_at(const bt_window_attr *attr, const bt_view *small, int64_t o)
{
    window at = {.c = o % small->dims[3], .share = 1};
    int64_t pixel = o / small->dims[3], width = small->dims[2], height = small->dims[1];
    at.n = pixel / width / height;
    bt_window_range(attr, 0, pixel / width % height, &at.top, &at.bottom);
    bt_window_range(attr, 1, pixel % width, &at.left, &at.right);
    if (attr->average)
        at.share = 1 / ((double)(at.bottom - at.top) * (double)(at.right - at.left));
    return at;
}

static bt_status window_sum(const bt_call *call)
{
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t count = bt_cpu_count(out);
    for (int64_t o = 0; o < count; o++) {
        window at = window_at(call->attr, out, o);
        double sum = 0;
        for (int64_t h = at.top; h < at.bottom; h++)
            for (int64_t w = at.left; w < at.right; w++)
                sum += bt_cpu_get(x, element(x, at.n, h, w, at.c));
        bt_cpu_put(out, o, sum * at.share);
    }
    return BT_OK;
}

static bt_status window_spread(const bt_call *call)
{
    const bt_view *g = &call->in[0], *out = &call->out[0];
    int64_t count = bt_cpu_count(g);
    clear(out);
    for (int64_t o = 0; o < count; o++) {
        window at = window_at(call->attr, g, o);
        for (int64_t h = at.top; h < at.bottom; h++)
            for (int64_t w = at.left; w < at.right; w++) {
                int64_t e = element(out, at.n, h, w, at.c);
                bt_cpu_put(out, e, bt_cpu_get(out, e) + bt_cpu_get(g, o) * at.share);
            }
    }
    return BT_OK;
}

static bt_status window_max(const bt_call *call)
{
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t count = bt_cpu_count(out);
    for (int64_t o = 0; o < count; o++) {
        window at = window_at(call->attr, out, o);
        int64_t best = at.top * x->dims[2] + at.left;
        double most = -(double)INFINITY;
        for (int64_t h = at.top; h < at.bottom; h++)
            for (int64_t w = at.left; w < at.right; w++) {
                double now = bt_cpu_get(x, element(x, at.n, h, w, at.c));
                if (now > most || isnan(now)) {
                    most = now;
                    best = h * x->dims[2] + w;
                }
            }
        bt_cpu_put(out, o, most);
        bt_cpu_put_int(&call->out[1], o, best);
    }
    return BT_OK;
}

/* gather: from the pixels to the small images; otherwise the adjoint. */
static bt_status by_index(const bt_call *call, const bt_view *pixels, const bt_view *small, bool gather)
{
    const bt_view *index = &call->in[1];
    int64_t count = bt_cpu_count(index), width = pixels->dims[2];
    for (int64_t o = 0; o < count; o++) {
        int64_t at;
        BT_TRY(bt_cpu_index(call, index, o, pixels->dims[1] * width, &at));
        int64_t n = o / (index->dims[1] * index->dims[2] * index->dims[3]);
        int64_t e = element(pixels, n, at / width, at % width, o % index->dims[3]);
        if (gather)
            bt_cpu_put(small, o, bt_cpu_get(pixels, e));
        else
            bt_cpu_put(pixels, e, bt_cpu_get(pixels, e) + bt_cpu_get(small, o));
    }
    return BT_OK;
}

static bt_status window_gather(const bt_call *call) { return by_index(call, &call->in[0], &call->out[0], true); }

static bt_status window_scatter(const bt_call *call)
{
    clear(&call->out[0]);
    return by_index(call, &call->out[0], &call->in[0], false);
}

static bt_status resample(const bt_call *call)
{
    const bt_resample_attr *attr = call->attr;
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < x->rank; d++)
        if (d != attr->axis)
            *(d < attr->axis ? &outer : &inner) *= x->dims[d];
    clear(out);
    for (int64_t i = 0; i < outer * inner; i++)
        for (int64_t o = 0; o < attr->to; o++) {
            int64_t at[2];
            double weight[2];
            bt_resample_taps(attr, o, at, weight);
            for (int k = 0; k < 2; k++) {
                int64_t large = (i / inner * attr->to + o) * inner + i % inner;
                int64_t small = (i / inner * attr->from + at[k]) * inner + i % inner;
                int64_t from = attr->adjoint ? large : small, to = attr->adjoint ? small : large;
                bt_cpu_put(out, to, bt_cpu_get(out, to) + bt_cpu_get(x, from) * weight[k]);
            }
        }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_pool[] = {
    BT_REFERENCE(window_sum, window_sum),
    BT_REFERENCE_WIDE(window_spread, window_spread),
    BT_REFERENCE(window_max, window_max),
    BT_REFERENCE(window_gather, window_gather),
    BT_REFERENCE_WIDE(window_scatter, window_scatter),
    BT_REFERENCE_WIDE(resample, resample),
    {.op = NULL},
};

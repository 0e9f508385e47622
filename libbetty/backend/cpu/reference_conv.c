/* backend/cpu/reference_conv.c: plain loops for conv, conv_bias, conv_dx and conv_dw: each output element is one
 * sum. */
#include "backend/cpu/reference.h"

typedef struct form { /* the three arrays, one of which is the output */
    const bt_conv_attr *attr;
    const bt_view *x, *w, *g;
    int64_t inner, outer; /* channels per group: of x, of g */
} form;

static double get(const bt_view *view, int64_t i, int64_t j, int64_t k, int64_t l)
{
    const int64_t *s = view->strides;
    return bt_get(view->dtype, view->data, i * s[0] + j * s[1] + k * s[2] + l * s[3]);
}

static double conv_element(const form *f, const int64_t *at)
{
    const bt_conv_attr *a = f->attr;
    int64_t first = at[3] / f->outer * f->inner;
    double sum = 0;
    for (int64_t ky = 0; ky < f->w->dims[0]; ky++)
        for (int64_t kx = 0; kx < f->w->dims[1]; kx++) {
            int64_t y = at[1] * a->stride[0] + ky * a->dilation[0] - a->padding[0];
            int64_t x = at[2] * a->stride[1] + kx * a->dilation[1] - a->padding[1];
            if (y < 0 || y >= f->x->dims[1] || x < 0 || x >= f->x->dims[2])
                continue;
            for (int64_t c = 0; c < f->inner; c++)
                sum += get(f->x, at[0], y, x, first + c) * get(f->w, ky, kx, c, at[3]);
        }
    return sum;
}

/* The place of the window whose element `tap` covers x's element `at`, along one axis; false if there is none. */
static bool place_of(const form *f, int axis, int64_t at, int64_t tap, int64_t *place)
{
    int64_t from = at + f->attr->padding[axis] - tap * f->attr->dilation[axis];
    *place = from / f->attr->stride[axis];
    return from >= 0 && from % f->attr->stride[axis] == 0 && *place < f->g->dims[1 + axis];
}

static double conv_dx_element(const form *f, const int64_t *at)
{
    int64_t first = at[3] / f->inner * f->outer, c = at[3] % f->inner, y, x;
    double sum = 0;
    for (int64_t ky = 0; ky < f->w->dims[0]; ky++)
        for (int64_t kx = 0; kx < f->w->dims[1]; kx++)
            if (place_of(f, 0, at[1], ky, &y) && place_of(f, 1, at[2], kx, &x))
                for (int64_t o = first; o < first + f->outer; o++)
                    sum += get(f->g, at[0], y, x, o) * get(f->w, ky, kx, c, o);
    return sum;
}

static double conv_dw_element(const form *f, const int64_t *at)
{
    const bt_conv_attr *a = f->attr;
    int64_t channel = at[3] / f->outer * f->inner + at[2];
    double sum = 0;
    for (int64_t n = 0; n < f->x->dims[0]; n++)
        for (int64_t oy = 0; oy < f->g->dims[1]; oy++)
            for (int64_t ox = 0; ox < f->g->dims[2]; ox++) {
                int64_t y = oy * a->stride[0] + at[0] * a->dilation[0] - a->padding[0];
                int64_t x = ox * a->stride[1] + at[1] * a->dilation[1] - a->padding[1];
                if (y >= 0 && y < f->x->dims[1] && x >= 0 && x < f->x->dims[2])
                    sum += get(f->x, n, y, x, channel) * get(f->g, n, oy, ox, at[3]);
            }
    return sum;
}

static bt_status each_element(const bt_call *call, const bt_view *x, const bt_view *w, const bt_view *g,
                              double (*element)(const form *f, const int64_t *at))
{
    form f = {call->attr, x, w, g, w->dims[2], w->dims[3] / ((const bt_conv_attr *)call->attr)->groups};
    const bt_view *out = &call->out[0];
    int64_t count = bt_cpu_count(out), at[4] = {0};
    for (int64_t e = 0; e < count; e++) {
        double start = call->inputs > 2 ? bt_cpu_get(&call->in[2], at[3]) : 0;
        bt_put(out->dtype, out->data, e, start + element(&f, at));
        for (int k = 3; k >= 0 && ++at[k] == out->dims[k]; k--)
            at[k] = 0;
    }
    return BT_OK;
}

static bt_status conv(const bt_call *call)
{
    return each_element(call, &call->in[0], &call->in[1], &call->out[0], conv_element);
}

static bt_status conv_dx(const bt_call *call)
{
    return each_element(call, &call->out[0], &call->in[1], &call->in[0], conv_dx_element);
}

static bt_status conv_dw(const bt_call *call)
{
    return each_element(call, &call->in[0], &call->out[0], &call->in[1], conv_dw_element);
}

const bt_kernel_impl bt_cpu_reference_conv[] = {
    BT_REFERENCE(conv, conv),
    BT_REFERENCE(conv_bias, conv),
    BT_REFERENCE(conv_dx, conv_dx),
    BT_REFERENCE(conv_dw, conv_dw),
    {.op = NULL},
};

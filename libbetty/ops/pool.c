/* ops/pool.c: windows over the height and width of images: sums, averages, maxima. */
#include "ops/define.h"

#include <stdio.h>

static const char *const sides[] = {"height", "width"};

enum { FAULT = 192 };

/* Whether every window along one axis contains a pixel; if not, the text says why. */
static bool axis_works(const bt_window_attr *attr, int axis, char text[FAULT])
{
    const bt_window_axis *a = &attr->axis[axis];
    const char *side = sides[axis];
    if (a->size < 1)
        snprintf(text, FAULT, "the images have %s %lld, must be at least 1", side, (long long)a->size);
    else if (attr->adaptive && (a->out < 1 || a->out > INT32_MAX))
        snprintf(text, FAULT, "%s %lld of the result, must be 1 to %d", side, (long long)a->out, INT32_MAX);
    else if (attr->adaptive)
        return true;
    else if (a->window < 1 || a->window > INT32_MAX || a->stride < 1 || a->stride > INT32_MAX)
        snprintf(text, FAULT, "window %lld with stride %lld, both must be 1 to %d", (long long)a->window,
                 (long long)a->stride, INT32_MAX);
    else if (a->padding < 0 || a->padding > a->window / 2)
        snprintf(text, FAULT,
                 "padding %lld, must be 0 to %lld, half of the window: some windows would see no pixel otherwise",
                 (long long)a->padding, (long long)(a->window / 2));
    else if (a->size + 2 * a->padding < a->window)
        snprintf(text, FAULT, "%s %lld with padding %lld is smaller than the window, %lld", side, (long long)a->size,
                 (long long)a->padding, (long long)a->window);
    else
        return true;
    return false;
}

static int64_t out_size(const bt_window_attr *attr, int axis)
{
    const bt_window_axis *a = &attr->axis[axis];
    return attr->adaptive ? a->out : (a->size + 2 * a->padding - a->window) / a->stride + 1;
}

/* Checks the windows, and changes *images from the input's shape to the result's. */
static bt_status check_windows(const char *op, const bt_window_attr *attr, bt_array *images, bool spread)
{
    char shape[256], fault[FAULT];
    bt_array x = *images;
    BT_TRY(bt_check_dtype(op, spread ? "the cotangent" : "x", x.dtype, BT_FLOATS));
    bt_shape_text(shape, x.rank, x.dims);
    if (x.rank != 4)
        return bt_fail(BT_ERROR_SHAPE, "%s: %s, must be images, [n, height, width, channels]", op, shape);
    for (int i = 0; i < 2; i++) {
        const bt_window_axis *a = &attr->axis[i];
        if (!axis_works(attr, i, fault))
            return bt_fail(BT_ERROR_SHAPE, "%s: %s", op, fault);
        if (a->out != out_size(attr, i) || x.dims[1 + i] != (spread ? a->out : a->size))
            return bt_fail(BT_ERROR_SHAPE, "%s: %s with windows from %s %lld to %lld", op, shape, sides[i],
                           (long long)a->size, (long long)a->out);
        images->dims[1 + i] = spread ? a->size : a->out;
    }
    if (attr->axis[0].size > INT32_MAX / attr->axis[1].size)
        return bt_fail(BT_ERROR_SHAPE, "%s: images of %lld x %lld pixels, must have at most %lld pixels", op,
                       (long long)attr->axis[0].size, (long long)attr->axis[1].size, (long long)INT32_MAX);
    return BT_OK;
}

static void window_describe(const void *attr, bt_text *text)
{
    const bt_window_attr *w = attr;
    const bt_window_axis *a = w->axis;
    if (w->adaptive)
        bt_text_add(text, "%lld x %lld to %lld x %lld", (long long)a[0].size, (long long)a[1].size, (long long)a[0].out,
                    (long long)a[1].out);
    else
        bt_text_add(text, "%lld x %lld, stride %lld, padding %lld", (long long)a[0].window, (long long)a[1].window,
                    (long long)a[0].stride, (long long)a[0].padding);
    bt_text_add(text, w->average ? ", average" : "");
}

static double window_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    const bt_window_attr *w = attr;
    double sizes = 1;
    (void)in;
    for (int i = 0; i < 2; i++) {
        const bt_window_axis *a = &w->axis[i];
        sizes *= w->adaptive ? (double)a->size : (double)a->window * (double)a->out;
    }
    return sizes * (double)(out[0].dims[0] * out[0].dims[3]);
}

/* ---- samples ---- */

static const struct window_case {
    const char *name;
    int64_t n, h, w, c, window, stride, padding; /* adaptive: window 0; stride and padding are the output size */
} window_cases[] = {
    {"halves", 2, 4, 4, 3, 2, 2, 0},          {"overlapping", 2, 5, 4, 2, 3, 1, 1},
    {"does not divide", 1, 6, 5, 9, 2, 3, 0}, {"far padding", 1, 5, 5, 1, 4, 2, 2},
    {"one pixel", 1, 1, 1, 4, 1, 1, 0},       {"a pixel and padding", 1, 1, 1, 3, 3, 2, 1},
    {"no image", 0, 4, 4, 3, 2, 2, 0},        {"adaptive", 2, 5, 4, 3, 0, 2, 3},
    {"to more", 1, 2, 3, 2, 0, 3, 5},         {"all in one", 2, 3, 3, 5, 0, 1, 1},
};

/* Uses the output sizes that the builders compute. */
static bt_window_attr attr_of(const struct window_case *c, bool average)
{
    int64_t sizes[] = {c->h, c->w}, outs[] = {c->stride, c->padding};
    bt_window_attr attr = {.adaptive = c->window == 0, .average = average};
    for (int i = 0; i < 2; i++) {
        attr.axis[i] = (bt_window_axis){sizes[i], outs[i], 0, 0, 0};
        if (c->window)
            attr.axis[i] = (bt_window_axis){sizes[i], 0, c->window, c->stride, c->padding};
        attr.axis[i].out = out_size(&attr, i);
    }
    return attr;
}

static void add_windows(bt_sampler *sampler, bool average, bool spread)
{
    for (int i = 0; i < BT_COUNT_OF(window_cases); i++) {
        const struct window_case *c = &window_cases[i];
        bt_window_attr attr = attr_of(c, average);
        bt_sample sample = {.name = c->name, .attr = &attr, .attr_size = sizeof attr, .inputs = 1};
        sample.in[0] = (bt_sample_input)BT_DRAWN(-2, 2, BT_F64, 4, c->n, c->h, c->w, c->c);
        for (int k = 0; k < 2 && spread; k++)
            sample.in[0].dims[1 + k] = attr.axis[k].out;
        sampler->add(sampler, &sample);
    }
}

/* ---- window_sum(x), window_spread(g): adjoint to each other ---- */

static bt_status window_sum_infer(const void *attr, const bt_array *in, bt_array *out)
{
    out[0] = in[0];
    return check_windows("window_sum", attr, out, false);
}

static void window_sum_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_window_spread, (const bt_window_attr *)attr, given[0]) : NULL;
}

static void window_sum_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_window_sum, (const bt_window_attr *)attr, given[0]) : NULL;
}

static void window_sum_samples(bt_sampler *sampler)
{
    add_windows(sampler, false, false);
    add_windows(sampler, true, false);
}

/* For all window ops: images and channels are independent. */
static bool window_shares(bt_shares *shares)
{
    const int axis = bt_shares_axis(shares);
    return (axis == 0 || axis == 3) && bt_shares_along(shares, axis, 2);
}

const bt_op bt_op_window_sum = {
    .name = "window_sum",
    .inputs = 1,
    .attr_size = sizeof(bt_window_attr),
    .infer = window_sum_infer,
    .vjp = window_sum_vjp,
    .jvp = window_sum_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = window_shares,
                                .flops = window_flops,
                                .describe = window_describe,
                                .samples = window_sum_samples},
};

static bt_status window_spread_infer(const void *attr, const bt_array *in, bt_array *out)
{
    out[0] = in[0];
    return check_windows("window_spread", attr, out, true);
}

static void window_spread_samples(bt_sampler *sampler)
{
    add_windows(sampler, false, true);
    add_windows(sampler, true, true);
}

const bt_op bt_op_window_spread = {
    .name = "window_spread",
    .inputs = 1,
    .attr_size = sizeof(bt_window_attr),
    .infer = window_spread_infer,
    .vjp = window_sum_jvp,
    .jvp = window_sum_vjp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = window_shares,
                                .flops = window_flops,
                                .describe = window_describe,
                                .samples = window_spread_samples},
};

/* ---- window_max(x): the largest pixel and its index ---- */

static bt_status window_max_infer(const void *attr, const bt_array *in, bt_array *out)
{
    out[0] = in[0];
    BT_TRY(check_windows("window_max", attr, out, false));
    out[1] = out[0];
    out[1].dtype = BT_I32;
    return BT_OK;
}

static bt_tensor *gather(bt_tensor *x, bt_tensor *index) { return BT_RECORD0(&bt_op_window_gather, x, index); }

static bt_tensor *scatter(bt_tensor *g, bt_tensor *index, int64_t height, int64_t width)
{
    bt_pixels_attr attr = {height, width};
    return BT_RECORD(&bt_op_window_scatter, &attr, g, index);
}

static void window_max_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = given[0] ? scatter(given[0], out[1], in[0]->dims[1], in[0]->dims[2]) : NULL;
}

static void window_max_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                           bt_tensor **wanted)
{
    (void)attr, (void)in;
    wanted[0] = given[0] ? gather(given[0], out[1]) : NULL;
}

static void window_max_samples(bt_sampler *sampler)
{
    static const double equal[] = {3}, ties[] = {1, 3, 3, 2, 3, -1, -1, 3, 2}, lowest[] = {-3e38};
    bt_window_attr overlapping = attr_of(&window_cases[1], false);
    add_windows(sampler, false, false);
    BT_SAMPLE(sampler, .name = "all equal", .inputs = 1, .kink = true, .attr = &overlapping,
              .attr_size = sizeof overlapping, .in = {BT_LISTED(equal, BT_F64, 4, 2, 5, 4, 2)});
    BT_SAMPLE(sampler, .name = "ties", .inputs = 1, .kink = true, .attr = &overlapping, .attr_size = sizeof overlapping,
              .in = {BT_LISTED(ties, BT_F64, 4, 1, 5, 4, 9)});
    BT_SAMPLE(sampler, .name = "far below zero", .inputs = 1, .kink = true, .attr = &overlapping,
              .attr_size = sizeof overlapping, .in = {BT_LISTED(lowest, BT_F64, 4, 1, 5, 4, 1)});
}

const bt_op bt_op_window_max = {
    .name = "window_max",
    .inputs = 1,
    .outputs = 2,
    .attr_size = sizeof(bt_window_attr),
    .infer = window_max_infer,
    .vjp = window_max_vjp,
    .jvp = window_max_jvp,
    .info = &(const bt_op_info){.differentiable = 1,
                                .shares = window_shares,
                                .flops = window_flops,
                                .describe = window_describe,
                                .samples = window_max_samples},
};

/* ---- window_gather(x, index), window_scatter(g, index): adjoint to each other ---- */

static bt_status check_pixels(const char *op, bt_array x, bt_array index)
{
    char a[256], b[256];
    BT_TRY(bt_check_dtype(op, "x", x.dtype, BT_FLOATS));
    if (x.rank == 4 && index.rank == 4 && index.dtype == BT_I32 && x.dims[0] == index.dims[0] &&
        x.dims[3] == index.dims[3])
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: %s with the index %s %s, must be two of [n, height, width, channels], i32", op,
                   bt_shape_text(a, x.rank, x.dims), bt_dtype_name(index.dtype),
                   bt_shape_text(b, index.rank, index.dims));
}

static bt_status window_gather_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(check_pixels("window_gather", in[0], in[1]));
    out[0] = in[1];
    out[0].dtype = in[0].dtype;
    return BT_OK;
}

static void window_gather_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? scatter(given[0], in[1], in[0]->dims[1], in[0]->dims[2]) : NULL;
}

static void window_gather_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? gather(given[0], in[1]) : NULL;
}

static void window_gather_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "images", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 2, 3, 2, 3), BT_DRAWN(0, 6, BT_I32, 4, 2, 2, 2, 3)});
    BT_SAMPLE(sampler, .name = "many channels", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 1, 2, 3, 19), BT_DRAWN(0, 6, BT_I32, 4, 1, 3, 2, 19)});
    BT_SAMPLE(sampler, .name = "no image", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 0, 3, 2, 3), BT_DRAWN(0, 6, BT_I32, 4, 0, 2, 2, 3)});
}

const bt_op bt_op_window_gather = {
    .name = "window_gather",
    .inputs = 2,
    .infer = window_gather_infer,
    .vjp = window_gather_vjp,
    .jvp = window_gather_jvp,
    .info =
        &(const bt_op_info){
            .flags = BT_OP_LINEAR, .differentiable = 1, .shares = window_shares, .samples = window_gather_samples},
};

static bt_status window_scatter_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_pixels_attr *pixels = attr;
    BT_TRY(check_pixels("window_scatter", in[0], in[1]));
    bt_array index = in[0];
    index.dtype = BT_I32;
    BT_TRY(bt_check_equal("window_scatter", "the index", in[1], "the cotangent", index));
    if (pixels->height < 0 || pixels->width < 0)
        return bt_fail(BT_ERROR_SHAPE, "window_scatter: to images of %lld x %lld", (long long)pixels->height,
                       (long long)pixels->width);
    out[0] = in[0];
    out[0].dims[1] = pixels->height;
    out[0].dims[2] = pixels->width;
    return BT_OK;
}

static void window_scatter_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                               bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? gather(given[0], in[1]) : NULL;
}

static void window_scatter_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                               bt_tensor **wanted)
{
    const bt_pixels_attr *pixels = attr;
    (void)out;
    wanted[0] = given[0] ? scatter(given[0], in[1], pixels->height, pixels->width) : NULL;
}

static void window_scatter_describe(const void *attr, bt_text *text)
{
    const bt_pixels_attr *pixels = attr;
    bt_text_add(text, "to %lld x %lld", (long long)pixels->height, (long long)pixels->width);
}

static void window_scatter_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "images", .inputs = 2, BT_ATTR(bt_pixels_attr, 3, 2),
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 2, 2, 3, 3), BT_DRAWN(0, 6, BT_I32, 4, 2, 2, 3, 3)});
    BT_SAMPLE(sampler, .name = "many channels", .inputs = 2, BT_ATTR(bt_pixels_attr, 2, 3),
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 1, 4, 3, 19), BT_DRAWN(0, 6, BT_I32, 4, 1, 4, 3, 19)});
    BT_SAMPLE(sampler, .name = "no image", .inputs = 2, BT_ATTR(bt_pixels_attr, 3, 2),
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 0, 2, 2, 3), BT_DRAWN(0, 6, BT_I32, 4, 0, 2, 2, 3)});
}

const bt_op bt_op_window_scatter = {
    .name = "window_scatter",
    .inputs = 2,
    .attr_size = sizeof(bt_pixels_attr),
    .infer = window_scatter_infer,
    .vjp = window_scatter_vjp,
    .jvp = window_scatter_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .shares = window_shares,
                                .flops = bt_flops_input,
                                .describe = window_scatter_describe,
                                .samples = window_scatter_samples},
};

/* ---- builders ---- */

static bt_tensor *pool(const char *name, const bt_op *op, bt_tensor *x, bt_window_attr attr)
{
    const bt_tensor *like = x;
    x = bt_wide(x);
    bt_tensor *poison = bt_operands_promote(name, &x, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    char shape[256], fault[FAULT];
    if (x->rank != 4)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: x is %s, must be images, [n, height, width, channels]", name,
                               bt_shape_text(shape, x->rank, x->dims));
    for (int i = 0; i < 2; i++) {
        attr.axis[i].size = x->dims[1 + i];
        if (!axis_works(&attr, i, fault))
            return bt_trace_poison(BT_ERROR_SHAPE, "%s: %s", name, fault);
        attr.axis[i].out = out_size(&attr, i);
    }
    return bt_stored_like(BT_RECORD(op, &attr, x), like);
}

static bt_window_attr fixed(int64_t window, int64_t stride, int64_t padding, bool average)
{
    bt_window_axis axis = {.window = window, .stride = stride, .padding = padding};
    return (bt_window_attr){.axis = {axis, axis}, .average = average};
}

static bt_window_attr adaptive(int64_t height, int64_t width, bool average)
{
    return (bt_window_attr){.axis = {{.out = height}, {.out = width}}, .adaptive = 1, .average = average};
}

bt_tensor *bt_max_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding)
{
    return pool("max_pool2d", &bt_op_window_max, x, fixed(window, stride, padding, false));
}

bt_tensor *bt_avg_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding)
{
    return pool("avg_pool2d", &bt_op_window_sum, x, fixed(window, stride, padding, true));
}

bt_tensor *bt_adaptive_max_pool2d(bt_tensor *x, int64_t height, int64_t width)
{
    return pool("adaptive_max_pool2d", &bt_op_window_max, x, adaptive(height, width, false));
}

bt_tensor *bt_adaptive_avg_pool2d(bt_tensor *x, int64_t height, int64_t width)
{
    return pool("adaptive_avg_pool2d", &bt_op_window_sum, x, adaptive(height, width, true));
}

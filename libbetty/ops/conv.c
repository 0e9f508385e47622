/* ops/conv.c: convolution, channels last. conv, conv_dx and conv_dw are the derivatives, with respect to g, x and w, of
 * one form that is linear in each of x [n, h, w, in], w [kh, kw, in/groups, out] and g [n, oh, ow, out]:
 *
 *   sum of x[n, y stride + ky dilation - padding, ..., ci] w[ky, kx, ci, co] g[n, y, ..., co]
 *
 * over all indices for which x has an element and ci, co are in the same group. So the derivatives of each op consist
 * of the other ops, at every order. conv_bias is conv with sums that start from the bias. */
#include "ops/define.h"

enum { Y, X };

static const char *const axis_names[] = {"height", "width"};

typedef struct conv_shape { /* sizes of the three arrays; each op fills in what it knows */
    int64_t n, image[2], in, window[2], inner, out, grid[2];
} conv_shape;

static bool in_range(int64_t value, int64_t least) { return value >= least && value <= INT32_MAX; }

static bt_status check_attr(const char *op, const bt_conv_attr *attr)
{
    for (int a = Y; a <= X; a++) {
        if (!in_range(attr->stride[a], 1) || !in_range(attr->dilation[a], 1))
            return bt_fail(BT_ERROR_ARGUMENT, "%s: stride %lld and dilation %lld along the %s, must be 1 to %d", op,
                           (long long)attr->stride[a], (long long)attr->dilation[a], axis_names[a], INT32_MAX);
        if (!in_range(attr->padding[a], 0))
            return bt_fail(BT_ERROR_ARGUMENT, "%s: padding %lld along the %s, must be 0 to %d", op,
                           (long long)attr->padding[a], axis_names[a], INT32_MAX);
    }
    if (!in_range(attr->groups, 1))
        return bt_fail(BT_ERROR_ARGUMENT, "%s: %lld groups, must be 1 to %d", op, (long long)attr->groups, INT32_MAX);
    return BT_OK;
}

static bt_status check_images(const char *op, const char *name, const char *form, bt_array x)
{
    char shape[256];
    if (x.rank == 4)
        return bt_check_dtype(op, name, x.dtype, BT_FLOATS);
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s, must be %s", op, name, bt_shape_text(shape, x.rank, x.dims), form);
}

static bt_status check_x(const char *op, bt_array x, conv_shape *s)
{
    BT_TRY(check_images(op, "x", "[n, height, width, in]", x));
    *s = (conv_shape){.n = x.dims[0], .image = {x.dims[1], x.dims[2]}, .in = x.dims[3]};
    return BT_OK;
}

static bt_status check_weight(const char *op, bt_array w, const bt_conv_attr *attr, conv_shape *s)
{
    BT_TRY(check_images(op, "the weight", "[height, width, in/groups, out]", w));
    s->window[Y] = w.dims[0];
    s->window[X] = w.dims[1];
    s->inner = w.dims[2];
    s->out = w.dims[3];
    if (s->out % attr->groups)
        return bt_fail(BT_ERROR_SHAPE, "%s: %lld output channels cannot be divided into %lld groups", op,
                       (long long)s->out, (long long)attr->groups);
    return BT_OK;
}

static bt_status check_same_dtype(const char *op, const char *a, bt_array x, const char *b, bt_array y)
{
    if (x.dtype == y.dtype)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s, %s %s: the dtypes differ", op, a, bt_dtype_name(x.dtype), b,
                   bt_dtype_name(y.dtype));
}

/* The number of window positions along each axis. */
static bt_status find_grid(const char *op, const bt_conv_attr *attr, conv_shape *s)
{
    for (int a = Y; a <= X; a++) {
        if (!in_range(s->window[a], 1) || !in_range(s->image[a], 0))
            return bt_fail(BT_ERROR_SHAPE,
                           "%s: a window of %s %lld on images of %s %lld; expected a window of at least 1", op,
                           axis_names[a], (long long)s->window[a], axis_names[a], (long long)s->image[a]);
        int64_t span = (s->window[a] - 1) * attr->dilation[a] + 1, room = s->image[a] + 2 * attr->padding[a];
        if (span > room)
            return bt_fail(BT_ERROR_SHAPE,
                           "%s: along the %s the window of %lld, dilation %lld, spans %lld, but the image of %lld with "
                           "padding %lld on both sides has only %lld: use a smaller window or more padding",
                           op, axis_names[a], (long long)s->window[a], (long long)attr->dilation[a], (long long)span,
                           (long long)s->image[a], (long long)attr->padding[a], (long long)room);
        s->grid[a] = (room - span) / attr->stride[a] + 1;
    }
    return BT_OK;
}

/* Checks that g has the shape of a convolution's result with these sizes. */
static bt_status check_grid(const char *op, const bt_conv_attr *attr, bt_array g, conv_shape *s)
{
    BT_TRY(find_grid(op, attr, s));
    if (g.dims[1] == s->grid[Y] && g.dims[2] == s->grid[X])
        return BT_OK;
    char shape[256];
    return bt_fail(BT_ERROR_SHAPE,
                   "%s: a window of %lld x %lld has %lld x %lld places on an image of %lld x %lld, but g is %s", op,
                   (long long)s->window[Y], (long long)s->window[X], (long long)s->grid[Y], (long long)s->grid[X],
                   (long long)s->image[Y], (long long)s->image[X], bt_shape_text(shape, g.rank, g.dims));
}

static bt_array images(bt_dtype dtype, int64_t n, int64_t height, int64_t width, int64_t channels)
{
    return (bt_array){.dtype = dtype, .rank = 4, .dims = {n, height, width, channels}};
}

/* Multiplications and additions of the form. */
static double flops(bt_array g, bt_array w)
{
    return 2 * (double)bt_array_count(g) * (double)w.dims[0] * (double)w.dims[1] * (double)w.dims[2];
}

/* Splits by example; the window must be whole. */
static bool conv_shares(bt_shares *shares)
{
    for (int i = 1; i < shares->inputs; i++)
        shares->in_axis[i] = -1;
    shares->out_axis[0] = 0;
    return shares->in_axis[0] == 0;
}

static bool conv_dw_shares(bt_shares *shares)
{
    const bool examples = shares->in_axis[0] == 0 || shares->in_axis[1] == 0;
    shares->in_axis[0] = shares->in_axis[1] = 0;
    shares->out_axis[0] = BT_BATCH_SUMMED;
    return examples;
}

static void describe(const void *attr, bt_text *text)
{
    const bt_conv_attr *c = attr;
    bt_text_add(text, "stride %lldx%lld, padding %lldx%lld", (long long)c->stride[Y], (long long)c->stride[X],
                (long long)c->padding[Y], (long long)c->padding[X]);
    if (c->dilation[Y] != 1 || c->dilation[X] != 1)
        bt_text_add(text, ", dilation %lldx%lld", (long long)c->dilation[Y], (long long)c->dilation[X]);
    if (c->groups != 1)
        bt_text_add(text, ", groups %lld", (long long)c->groups);
    if (c->size[Y] || c->size[X])
        bt_text_add(text, ", to %lldx%lld", (long long)c->size[Y], (long long)c->size[X]);
}

/* ---- conv(x, w): [n, oh, ow, out] ---- */

static bt_status infer(const char *op, const bt_conv_attr *attr, const bt_array *in, bt_array *out)
{
    conv_shape s;
    BT_TRY(check_attr(op, attr));
    BT_TRY(check_x(op, in[0], &s));
    BT_TRY(check_weight(op, in[1], attr, &s));
    BT_TRY(check_same_dtype(op, "x", in[0], "the weight", in[1]));
    if (s.in % attr->groups || s.in / attr->groups != s.inner)
        return bt_fail(BT_ERROR_SHAPE, "%s: x has %lld channels, but %lld groups of the weight's %lld are expected", op,
                       (long long)s.in, (long long)attr->groups, (long long)s.inner);
    BT_TRY(find_grid(op, attr, &s));
    *out = images(in[0].dtype, s.n, s.grid[Y], s.grid[X], s.out);
    return BT_OK;
}

static bt_status conv_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return infer("conv", attr, in, out);
}

static void conv_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)out;
    if (!given[0])
        return;
    wanted[0] = bt_conv_dx(given[0], in[1], in[0]->dims + 1, attr);
    wanted[1] = bt_conv_dw(in[0], given[0], in[1]->dims, attr);
}

static void conv_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)out;
    wanted[0] = bt_accumulate(given[0] ? bt_conv(given[0], in[1], attr) : NULL,
                              given[1] ? bt_conv(in[0], given[1], attr) : NULL);
}

static double conv_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr;
    return flops(out[0], in[1]);
}

/* ---- conv_dx(g, w): [n, size, in] ---- */

static bt_status conv_dx_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_conv_attr *c = attr;
    conv_shape s = {.image = {c->size[Y], c->size[X]}};
    BT_TRY(check_attr("conv_dx", c));
    BT_TRY(check_images("conv_dx", "g", "[n, height, width, out]", in[0]));
    BT_TRY(check_weight("conv_dx", in[1], c, &s));
    BT_TRY(check_same_dtype("conv_dx", "g", in[0], "the weight", in[1]));
    if (in[0].dims[3] != s.out)
        return bt_fail(BT_ERROR_SHAPE, "conv_dx: g has %lld channels, but the weight gives %lld",
                       (long long)in[0].dims[3], (long long)s.out);
    if (s.inner > INT64_MAX / c->groups)
        return bt_fail(BT_ERROR_SHAPE, "conv_dx: %lld groups of %lld channels are too many", (long long)c->groups,
                       (long long)s.inner);
    BT_TRY(check_grid("conv_dx", c, in[0], &s));
    *out = images(in[0].dtype, in[0].dims[0], s.image[Y], s.image[X], s.inner * c->groups);
    return BT_OK;
}

static void conv_dx_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)out;
    if (!given[0])
        return;
    wanted[0] = bt_conv(given[0], in[1], attr);
    wanted[1] = bt_conv_dw(given[0], in[0], in[1]->dims, attr);
}

static void conv_dx_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    const int64_t *size = out[0]->dims + 1;
    wanted[0] = bt_accumulate(given[0] ? bt_conv_dx(given[0], in[1], size, attr) : NULL,
                              given[1] ? bt_conv_dx(in[0], given[1], size, attr) : NULL);
}

static double conv_dx_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr, (void)out;
    return flops(in[0], in[1]);
}

/* ---- conv_dw(x, g): [size, in/groups, out] ---- */

static bt_status conv_dw_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_conv_attr *c = attr;
    conv_shape s;
    BT_TRY(check_attr("conv_dw", c));
    BT_TRY(check_x("conv_dw", in[0], &s));
    BT_TRY(check_images("conv_dw", "g", "[n, height, width, out]", in[1]));
    BT_TRY(check_same_dtype("conv_dw", "x", in[0], "g", in[1]));
    if (in[1].dims[0] != s.n)
        return bt_fail(BT_ERROR_SHAPE, "conv_dw: x has %lld images, but g has %lld", (long long)s.n,
                       (long long)in[1].dims[0]);
    if (s.in % c->groups || in[1].dims[3] % c->groups)
        return bt_fail(BT_ERROR_SHAPE, "conv_dw: %lld and %lld channels cannot be divided into %lld groups",
                       (long long)s.in, (long long)in[1].dims[3], (long long)c->groups);
    s.window[Y] = c->size[Y];
    s.window[X] = c->size[X];
    BT_TRY(check_grid("conv_dw", c, in[1], &s));
    *out = images(in[0].dtype, s.window[Y], s.window[X], s.in / c->groups, in[1].dims[3]);
    return BT_OK;
}

static void conv_dw_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    (void)out;
    if (!given[0])
        return;
    wanted[0] = bt_conv_dx(in[1], given[0], in[0]->dims + 1, attr);
    wanted[1] = bt_conv(in[0], given[0], attr);
}

static void conv_dw_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                        bt_tensor **wanted)
{
    const int64_t *size = out[0]->dims;
    wanted[0] = bt_accumulate(given[0] ? bt_conv_dw(given[0], in[1], size, attr) : NULL,
                              given[1] ? bt_conv_dw(in[0], given[1], size, attr) : NULL);
}

static double conv_dw_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    (void)attr;
    return flops(in[1], out[0]);
}

/* ---- conv_bias(x, w, b [out]): conv(x, w) + b ---- */

static bt_status conv_bias_infer(const void *attr, const bt_array *in, bt_array *out)
{
    char shape[256];
    BT_TRY(infer("conv_bias", attr, in, out));
    BT_TRY(check_same_dtype("conv_bias", "x", in[0], "the bias", in[2]));
    if (in[2].rank == 1 && in[2].dims[0] == in[1].dims[3])
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "conv_bias: the bias is %s, must be [%lld], the weight's output channels",
                   bt_shape_text(shape, in[2].rank, in[2].dims), (long long)in[1].dims[3]);
}

static bt_tensor *everywhere(bt_tensor *bias, const bt_tensor *y)
{
    return bt_broadcast(bias, 4, y->dims, (const int[]){3});
}

static void conv_bias_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *y = bt_conv(in[0], in[1], attr);
    out[0] = bt_poisoned(y) ? y : bt_add(y, everywhere(in[2], y));
}

static void conv_bias_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    conv_vjp(attr, in, out, given, wanted);
    wanted[2] = given[0] ? bt_reduce(&bt_op_sum, given[0], 7, false) : NULL;
}

static void conv_bias_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    bt_tensor *dx = given[0], *dw = given[1], *db = given[2], *t = NULL;
    if (db && dw) /* one node computes both */
        t = BT_RECORD(&bt_op_conv_bias, (const bt_conv_attr *)attr, in[0], dw, db);
    else if (db && dx)
        t = BT_RECORD(&bt_op_conv_bias, (const bt_conv_attr *)attr, dx, in[1], db);
    else if (dw)
        t = bt_conv(in[0], dw, attr);
    else if (db)
        t = everywhere(db, out[0]);
    if (dx && (dw || !db))
        t = bt_accumulate(t, bt_conv(dx, in[1], attr));
    wanted[0] = t;
}

static double conv_bias_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return conv_flops(attr, in, out) + (double)bt_array_count(out[0]);
}

/* ---- samples: the awkward cases, for all of these ops ---- */

static const struct sample_case {
    const char *name;
    int64_t n, image[2], in, window[2], out, stride[2], padding[2], dilation[2], groups;
} sample_cases[] = {
    {"windows that overlap", 2, {4, 5}, 2, {3, 3}, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {"no padding", 1, {4, 4}, 2, {3, 2}, 2, {1, 1}, {0, 0}, {1, 1}, 1},
    {"stride that does not divide", 1, {6, 5}, 2, {3, 2}, 2, {2, 3}, {1, 0}, {1, 1}, 1},
    {"stride wider than the window", 1, {7, 6}, 2, {2, 1}, 2, {3, 2}, {0, 1}, {1, 1}, 1},
    {"padding larger than half the window", 1, {2, 3}, 2, {2, 3}, 2, {1, 1}, {2, 3}, {1, 1}, 1},
    {"dilation with stride", 1, {7, 6}, 2, {3, 2}, 2, {2, 2}, {2, 1}, {2, 3}, 1},
    {"groups", 1, {3, 3}, 4, {2, 2}, 6, {1, 1}, {1, 0}, {1, 1}, 2},
    {"depthwise", 1, {4, 3}, 5, {3, 3}, 5, {1, 1}, {1, 1}, {1, 1}, 5},
    {"depthwise, two for each, stride", 1, {5, 4}, 3, {3, 2}, 6, {2, 1}, {1, 1}, {1, 1}, 3},
    {"one pixel", 1, {1, 1}, 3, {3, 3}, 2, {1, 1}, {1, 1}, {1, 1}, 1},
    {"window as large as the padded image", 2, {3, 2}, 2, {5, 4}, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {"19 channels", 1, {2, 2}, 19, {2, 1}, 17, {1, 1}, {0, 0}, {1, 1}, 1},
    {"1 x 1", 2, {2, 3}, 4, {1, 1}, 5, {1, 1}, {0, 0}, {1, 1}, 1},
    {"1 x 1, stride", 1, {4, 3}, 3, {1, 1}, 4, {2, 2}, {0, 0}, {1, 1}, 1},
    {"a line", 2, {1, 7}, 2, {1, 3}, 2, {1, 2}, {0, 1}, {1, 1}, 1},
    {"no image", 0, {3, 3}, 2, {2, 2}, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {"no channels", 1, {3, 3}, 0, {2, 2}, 3, {1, 1}, {0, 0}, {1, 1}, 1},
};

enum { GIVES_X, GIVES_W, GIVES_G, GIVES_SUM };

static void add_samples(bt_sampler *sampler, int gives)
{
    for (int i = 0; i < BT_COUNT_OF(sample_cases); i++) {
        const struct sample_case *c = &sample_cases[i];
        bt_conv_attr attr = {.groups = c->groups};
        int64_t grid[2];
        for (int a = Y; a <= X; a++) {
            attr.stride[a] = c->stride[a];
            attr.padding[a] = c->padding[a];
            attr.dilation[a] = c->dilation[a];
            attr.size[a] = gives == GIVES_X ? c->image[a] : gives == GIVES_W ? c->window[a] : 0;
            int64_t span = (c->window[a] - 1) * c->dilation[a] + 1;
            grid[a] = (c->image[a] + 2 * c->padding[a] - span) / c->stride[a] + 1;
        }
        bt_sample_input x = BT_DRAWN(-1, 1, BT_F64, 4, c->n, c->image[Y], c->image[X], c->in);
        bt_sample_input w = BT_DRAWN(-1, 1, BT_F64, 4, c->window[Y], c->window[X], c->in / c->groups, c->out);
        bt_sample_input g = BT_DRAWN(-1, 1, BT_F64, 4, c->n, grid[Y], grid[X], c->out);
        bt_sample sample = {.name = c->name, .attr = &attr, .attr_size = sizeof attr, .inputs = 2};
        sample.in[0] = gives == GIVES_X ? g : x;
        sample.in[1] = gives == GIVES_W ? g : w;
        if (gives == GIVES_SUM)
            sample.in[sample.inputs++] = (bt_sample_input)BT_DRAWN(-1, 1, BT_F64, 1, c->out);
        sampler->add(sampler, &sample);
    }
}

static void conv_samples(bt_sampler *sampler) { add_samples(sampler, GIVES_G); }
static void conv_dx_samples(bt_sampler *sampler) { add_samples(sampler, GIVES_X); }
static void conv_dw_samples(bt_sampler *sampler) { add_samples(sampler, GIVES_W); }
static void conv_bias_samples(bt_sampler *sampler) { add_samples(sampler, GIVES_SUM); }

#define CONV_RECORD(op, rule)                                                                                          \
    const bt_op bt_op_##op = {                                                                                         \
        .name = #op,                                                                                                   \
        .inputs = 2,                                                                                                   \
        .attr_size = sizeof(bt_conv_attr),                                                                             \
        .infer = op##_infer,                                                                                           \
        .vjp = op##_vjp,                                                                                               \
        .jvp = op##_jvp,                                                                                               \
        .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,                                                            \
                                    .cast = BT_CAST_LOW,                                                               \
                                    .differentiable = 3,                                                               \
                                    .linear = 3,                                                                       \
                                    .flops = op##_flops,                                                               \
                                    .shares = (rule),                                                                  \
                                    .describe = describe,                                                              \
                                    .samples = op##_samples},                                                          \
    };

CONV_RECORD(conv, conv_shares)
CONV_RECORD(conv_dx, conv_shares)
CONV_RECORD(conv_dw, conv_dw_shares)

const bt_op bt_op_conv_bias = {
    .name = "conv_bias",
    .inputs = 3,
    .attr_size = sizeof(bt_conv_attr),
    .infer = conv_bias_infer,
    .body = conv_bias_body,
    .vjp = conv_bias_vjp,
    .jvp = conv_bias_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,
                                .cast = BT_CAST_LOW,
                                .differentiable = 7,
                                .flops = conv_bias_flops,
                                .shares = conv_shares,
                                .describe = describe,
                                .samples = conv_bias_samples},
};

/* ---- builders ---- */

static bt_tensor *sized(const bt_op *op, bt_tensor *a, bt_tensor *b, int64_t height, int64_t width,
                        const bt_conv_attr *attr)
{
    bt_conv_attr own = *attr;
    own.size[Y] = height;
    own.size[X] = width;
    return BT_RECORD(op, &own, a, b);
}

bt_tensor *bt_conv(bt_tensor *x, bt_tensor *w, const bt_conv_attr *attr)
{
    return sized(&bt_op_conv, x, w, 0, 0, attr);
}

bt_tensor *bt_conv_dx(bt_tensor *g, bt_tensor *w, const int64_t *image, const bt_conv_attr *attr)
{
    return sized(&bt_op_conv_dx, g, w, image[Y], image[X], attr);
}

bt_tensor *bt_conv_dw(bt_tensor *x, bt_tensor *g, const int64_t *window, const bt_conv_attr *attr)
{
    return sized(&bt_op_conv_dw, x, g, window[Y], window[X], attr);
}

bt_conv2d_options bt_conv2d_defaults(void)
{
    return (bt_conv2d_options){.stride = 1, .padding = 0, .dilation = 1, .groups = 1, .bias = true};
}

/* A convolution with or without a bias. */
static bt_tensor *conv_of(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv_attr *attr)
{
    return bias ? BT_RECORD(&bt_op_conv_bias, attr, x, weight, bias) : bt_conv(x, weight, attr);
}

bt_tensor *bt_conv2d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options)
{
    bt_conv2d_options o = options ? *options : bt_conv2d_defaults();
    bt_tensor *operands[] = {x, weight, bias};
    bt_tensor *poison = bt_operands_promote("conv2d", operands, bias ? 3 : 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    bt_conv_attr attr = {.stride = {o.stride, o.stride},
                         .padding = {o.padding, o.padding},
                         .dilation = {o.dilation, o.dilation},
                         .groups = o.groups};
    return conv_of(operands[0], operands[1], operands[2], &attr);
}

bt_tensor *bt_conv1d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options)
{
    bt_conv2d_options o = options ? *options : bt_conv2d_defaults();
    bt_tensor *operands[] = {x, weight, bias};
    bt_tensor *poison = bt_operands_promote("conv1d", operands, bias ? 3 : 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    x = operands[0], weight = operands[1];
    char first[256], second[256];
    if (x->rank != 3 || weight->rank != 3)
        return bt_trace_poison(
            BT_ERROR_SHAPE, "conv1d: x %s with weight %s, must be [n, length, in] with [window, in/groups, out]",
            bt_shape_text(first, x->rank, x->dims), bt_shape_text(second, weight->rank, weight->dims));
    bt_conv_attr attr = {
        .stride = {1, o.stride}, .padding = {0, o.padding}, .dilation = {1, o.dilation}, .groups = o.groups};
    bt_tensor *y = conv_of(bt_unsqueeze(x, 1), bt_unsqueeze(weight, 0), operands[2], &attr);
    return bt_poisoned(y) ? y : bt_squeeze(y, 1);
}

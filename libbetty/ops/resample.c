/* ops/resample.c: enlarges or shrinks images, one axis at a time. */
#include "ops/define.h"

static bt_status resample_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_resample_attr *r = attr;
    char shape[256];
    BT_TRY(bt_check_dtype("resample", "x", in[0].dtype, BT_FLOATS));
    BT_TRY(bt_check_axis("resample", r->axis, in[0].rank));
    bt_shape_text(shape, in[0].rank, in[0].dims);
    if (r->from < 1 || r->to < 1 || r->from > INT32_MAX || r->to > INT32_MAX)
        return bt_fail(BT_ERROR_SHAPE, "resample: from size %lld to size %lld, both must be 1 to %d",
                       (long long)r->from, (long long)r->to, INT32_MAX);
    int64_t expected = r->adjoint ? r->to : r->from;
    if (in[0].dims[r->axis] != expected)
        return bt_fail(BT_ERROR_SHAPE, "resample: axis %lld of %s, must have size %lld", (long long)r->axis, shape,
                       (long long)expected);
    out[0] = in[0];
    out[0].dims[r->axis] = r->adjoint ? r->from : r->to;
    return BT_OK;
}

static bt_tensor *again(const void *attr, bt_tensor *x, bool turned)
{
    bt_resample_attr other = *(const bt_resample_attr *)attr;
    other.adjoint ^= turned;
    return x ? BT_RECORD(&bt_op_resample, &other, x) : NULL;
}

static void resample_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = again(attr, given[0], true);
}

static void resample_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)in, (void)out;
    wanted[0] = again(attr, given[0], false);
}

static void resample_describe(const void *attr, bt_text *text)
{
    const bt_resample_attr *r = attr;
    bt_text_add(text, "axis %lld, %lld to %lld, %s%s", (long long)r->axis, (long long)r->from, (long long)r->to,
                r->linear ? "linear" : "nearest", r->adjoint ? ", adjoint" : "");
}

static double resample_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    const bt_resample_attr *r = attr;
    return r->linear ? 3 * (double)bt_array_count(r->adjoint ? in[0] : out[0]) : 0;
}

static void resample_samples(bt_sampler *sampler)
{
    static const struct {
        const char *name;
        int64_t axis, from, to;
    } cases[] = {
        {"twice", 1, 3, 6},  {"not a multiple", 2, 3, 7}, {"smaller", 1, 5, 2},   {"one pixel", 2, 1, 4},
        {"to one", 1, 4, 1}, {"the same", 2, 3, 3},       {"last axis", 3, 2, 5},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        for (int way = 0; way < 4; way++) {
            bt_resample_attr attr = {cases[i].axis, cases[i].from, cases[i].to, way & 1, way >> 1};
            bt_sample sample = {.name = cases[i].name, .attr = &attr, .attr_size = sizeof attr, .inputs = 1};
            sample.in[0] = (bt_sample_input)BT_DRAWN(-2, 2, BT_F64, 4, 2, 2, 2, i == 1 ? 9 : 3);
            sample.in[0].dims[attr.axis] = attr.adjoint ? attr.to : attr.from;
            sampler->add(sampler, &sample);
        }
    BT_SAMPLE(sampler, .name = "no image", .inputs = 1, BT_ATTR(bt_resample_attr, 1, 2, 4, 1, 0),
              .in = {BT_DRAWN(-2, 2, BT_F64, 4, 0, 2, 3, 3)});
}

static bool resample_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return shares->in_axis[0] != ((const bt_resample_attr *)shares->attr)->axis;
}

const bt_op bt_op_resample = {
    .name = "resample",
    .inputs = 1,
    .attr_size = sizeof(bt_resample_attr),
    .infer = resample_infer,
    .vjp = resample_vjp,
    .jvp = resample_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_LINEAR,
                                .differentiable = 1,
                                .flops = resample_flops,
                                .shares = resample_shares,
                                .describe = resample_describe,
                                .samples = resample_samples},
};

static bt_tensor *upsample(const char *name, bt_tensor *x, int64_t height, int64_t width, bool linear)
{
    bt_tensor *poison = bt_operands_promote(name, &x, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    char shape[256];
    bt_shape_text(shape, x->rank, x->dims);
    if (x->rank != 4 || x->dims[1] < 1 || x->dims[2] < 1)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: x is %s, must be images, [n, height, width, channels]", name,
                               shape);
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: to %lld x %lld pixels, both must be 1 to %d", name,
                               (long long)height, (long long)width, INT32_MAX);
    int64_t to[] = {height, width};
    for (int i = 0; i < 2 && !bt_poisoned(x); i++) {
        bt_resample_attr attr = {1 + i, x->dims[1 + i], to[i], linear, 0};
        x = attr.from == attr.to ? x : BT_RECORD(&bt_op_resample, &attr, x);
    }
    return x;
}

bt_tensor *bt_upsample_nearest(bt_tensor *x, int64_t height, int64_t width)
{
    return upsample("upsample_nearest", x, height, width, false);
}

bt_tensor *bt_upsample_bilinear(bt_tensor *x, int64_t height, int64_t width)
{
    return upsample("upsample_bilinear", x, height, width, true);
}

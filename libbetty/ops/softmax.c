/* ops/softmax.c: softmax, its logarithm, and its derivative as an op. */
#include "ops/define.h"

static bt_status axis_infer(const char *op, int count, const bt_axis_attr *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_infer_equal(op, BT_FLOATS, count, in, out));
    return bt_check_axis(op, attr->axis, in[0].rank);
}

static void axis_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "axis %lld", (long long)((const bt_axis_attr *)attr)->axis);
}

/* Elements along the op's own axis depend on one another, so it cannot be split. */
static bool axis_shares(bt_shares *shares)
{
    int axis = bt_shares_axis(shares);
    return axis != ((const bt_axis_attr *)shares->attr)->axis && bt_shares_along(shares, axis, 1);
}

static double five_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 5 * bt_flops_input(attr, in, out);
}

static void axis_samples(bt_sampler *sampler, int inputs)
{
    static const struct {
        const char *name;
        int64_t axis;
        bt_sample_input in;
    } cases[] = {
        {"rows", 1, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},      {"columns", 0, BT_DRAWN(-2, 2, BT_F64, 2, 4, 5)},
        {"middle", 1, BT_DRAWN(-2, 2, BT_F64, 3, 2, 3, 4)}, {"one class", 1, BT_DRAWN(-2, 2, BT_F64, 2, 3, 1)},
        {"long", 0, BT_DRAWN(-2, 2, BT_F64, 1, 67)},        {"no rows", 1, BT_DRAWN(-2, 2, BT_F64, 2, 0, 3)},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        BT_SAMPLE(sampler, .name = cases[i].name, .inputs = inputs, BT_ATTR(bt_axis_attr, cases[i].axis),
                  .in = {cases[i].in, cases[i].in});
}

static void large_sample(bt_sampler *sampler)
{
    static const double large[] = {1000, 999, 1000.5, -1000, -1000.25, -1001};
    BT_SAMPLE(sampler, .name = "large", .inputs = 1, BT_ATTR(bt_axis_attr, 1),
              .in = {BT_LISTED(large, BT_F64, 2, 2, 3)});
}

/* x minus its maximum along the axis, so that no exponential overflows. The result does not depend on what is
 * subtracted, so that is a constant for derivatives. */
static bt_tensor *shifted(bt_tensor *x, int axis) { return bt_sub(x, bt_stop(bt_max(x, axis, BT_KEEP))); }

static int axis_of(const void *attr) { return (int)((const bt_axis_attr *)attr)->axis; }

/* ---- softmax ---- */

static bt_status softmax_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return axis_infer("softmax", 1, attr, in, out);
}

static void softmax_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *e = bt_exp(shifted(in[0], axis_of(attr)));
    out[0] = bt_div(e, bt_sum(e, axis_of(attr), BT_KEEP));
}

/* The Jacobian is symmetric. */
static void softmax_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)in;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_softmax_grad, (const bt_axis_attr *)attr, out[0], given[0]) : NULL;
}

static void softmax_samples(bt_sampler *sampler)
{
    axis_samples(sampler, 1);
    large_sample(sampler);
}

const bt_op bt_op_softmax = {
    .name = "softmax",
    .inputs = 1,
    .attr_size = sizeof(bt_axis_attr),
    .infer = softmax_infer,
    .body = softmax_body,
    .vjp = softmax_rule,
    .jvp = softmax_rule,
    .info = &(const bt_op_info){.differentiable = 1,
                                .overwrites = {1},
                                .flops = five_flops,
                                .shares = axis_shares,
                                .describe = axis_describe,
                                .samples = softmax_samples},
};

/* ---- softmax_grad(y, g): y (g - sum(y g)) ---- */

static bt_status softmax_grad_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return axis_infer("softmax_grad", 2, attr, in, out);
}

static bt_tensor *inner(const void *attr, bt_tensor *a, bt_tensor *b) /* sum(a b) along the axis, which is kept */
{
    return bt_sum(bt_mul(a, b), axis_of(attr), BT_KEEP);
}

static void softmax_grad_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_mul(in[0], bt_sub(in[1], inner(attr, in[0], in[1])));
}

/* Derivative in y: c (g - sum(y g)) - g sum(c y). In g: symmetric. */
static void softmax_grad_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                             bt_tensor **wanted)
{
    bt_tensor *y = in[0], *g = in[1], *c = given[0];
    (void)out;
    if (!c)
        return;
    wanted[0] = bt_sub(bt_mul(c, bt_sub(g, inner(attr, y, g))), bt_mul(g, inner(attr, c, y)));
    wanted[1] = BT_RECORD(&bt_op_softmax_grad, (const bt_axis_attr *)attr, y, c);
}

static void softmax_grad_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                             bt_tensor **wanted)
{
    bt_tensor *y = in[0], *g = in[1], *dy = given[0], *dg = given[1], *from_y = NULL, *from_g = NULL;
    (void)out;
    if (dy)
        from_y = bt_sub(bt_mul(dy, bt_sub(g, inner(attr, y, g))), bt_mul(y, inner(attr, dy, g)));
    if (dg)
        from_g = BT_RECORD(&bt_op_softmax_grad, (const bt_axis_attr *)attr, y, dg);
    wanted[0] = bt_accumulate(from_y, from_g);
}

static void softmax_grad_samples(bt_sampler *sampler) { axis_samples(sampler, 2); }

const bt_op bt_op_softmax_grad = {
    .name = "softmax_grad",
    .inputs = 2,
    .attr_size = sizeof(bt_axis_attr),
    .infer = softmax_grad_infer,
    .body = softmax_grad_body,
    .vjp = softmax_grad_vjp,
    .jvp = softmax_grad_jvp,
    .info = &(const bt_op_info){.differentiable = 3,
                                .overwrites = {3},
                                .flops = five_flops,
                                .shares = axis_shares,
                                .describe = axis_describe,
                                .samples = softmax_grad_samples},
};

/* ---- log_softmax ---- */

static bt_status log_softmax_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return axis_infer("log_softmax", 1, attr, in, out);
}

static void log_softmax_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *z = shifted(in[0], axis_of(attr));
    out[0] = bt_sub(z, bt_log(bt_sum(bt_exp(z), axis_of(attr), BT_KEEP)));
}

static void log_softmax_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)in;
    if (given[0])
        wanted[0] = bt_sub(given[0], bt_mul(bt_exp(out[0]), bt_sum(given[0], axis_of(attr), BT_KEEP)));
}

static void log_softmax_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    (void)in;
    wanted[0] = given[0] ? bt_sub(given[0], inner(attr, bt_exp(out[0]), given[0])) : NULL;
}

const bt_op bt_op_log_softmax = {
    .name = "log_softmax",
    .inputs = 1,
    .attr_size = sizeof(bt_axis_attr),
    .infer = log_softmax_infer,
    .body = log_softmax_body,
    .vjp = log_softmax_vjp,
    .jvp = log_softmax_jvp,
    .info = &(const bt_op_info){.differentiable = 1,
                                .overwrites = {1},
                                .flops = five_flops,
                                .shares = axis_shares,
                                .describe = axis_describe,
                                .samples = softmax_samples},
};

/* ---- builders ---- */

static bt_tensor *build(const bt_op *op, bt_tensor *x, int axis)
{
    bt_tensor *poison = bt_operands_promote(op->name, &x, 1, BT_PROMOTE_FLOAT);
    if (!poison)
        poison = bt_operand_axis(op->name, x, axis, &axis);
    if (poison)
        return poison;
    if (x->dims[axis] == 0)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: axis %d has size 0, must have an element", op->name, axis);
    bt_axis_attr attr = {axis};
    return BT_RECORD(op, &attr, x);
}

bt_tensor *bt_softmax(bt_tensor *x, int axis) { return build(&bt_op_softmax, x, axis); }

bt_tensor *bt_log_softmax(bt_tensor *x, int axis) { return build(&bt_op_log_softmax, x, axis); }

/* ops/update.c: the updates of SGD, Adam and AdamW, as PyTorch computes them. They have traced bodies, so that
 * derivatives can pass through a whole update; fused kernels run them. If `ok` is false, nothing changes. */
#include "ops/define.h"

/* in[0 .. tensors-1] have one shape; scalars follow. Bit i of `truths`: input i is BT_BOOL. */
static bt_status update_infer(const char *op, const char *const *names, int inputs, int tensors, unsigned truths,
                              int outputs, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_check_dtype(op, names[0], in[0].dtype, BT_FLOATS));
    for (int i = 1; i < tensors; i++)
        BT_TRY(bt_check_equal(op, names[i], in[i], names[0], in[0]));
    for (int i = tensors; i < inputs; i++)
        BT_TRY(bt_check_scalar(op, names[i], in[i], truths >> i & 1 ? BT_BOOL : in[0].dtype));
    for (int i = 0; i < outputs; i++)
        out[i] = in[0];
    return BT_OK;
}

static const double truth[] = {1}, untruth[] = {0};

#define OK(list)         BT_LISTED(list, BT_BOOL, 0, 0)
#define NUMBER(from, to) BT_DRAWN(from, to, BT_F64, 0, 0)
#define TENSOR           BT_DRAWN(-1, 1, BT_F64, 2, 3, 7)
#define POSITIVE         BT_DRAWN(0.5, 1, BT_F64, 2, 3, 7)
#define ZERO             BT_LISTED(untruth, BT_F64, 2, 3, 7)
#define NONE             BT_DRAWN(-1, 1, BT_F64, 1, 0)

/* If the gradient is not finite, the update is skipped, so derivatives must not see that gradient. */
static bt_tensor *sound(bt_tensor *ok, bt_tensor *g) { return bt_where(ok, g, 0); }

/* Splits all that is shaped like the parameter in the same way; scalars are whole. */
static bool update_shares(bt_shares *shares)
{
    const int axis = bt_shares_axis(shares);
    for (int i = 0; i < shares->inputs; i++)
        shares->in_axis[i] = bt_shape_same(shares->in[i], shares->in[0]) && shares->in[0].rank ? axis : -1;
    for (int o = 0; o < BT_MAX_OUTPUTS; o++)
        shares->out_axis[o] = axis;
    return true;
}

/* ---- sgd_plain_update(p, g, ok, lr, weight_decay) ---- */

static bt_status sgd_plain_infer(const void *attr, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"p", "g", "ok", "lr", "weight_decay"};
    (void)attr;
    return update_infer("sgd_plain_update", names, 5, 2, 1 << 2, 1, in, out);
}

static void sgd_plain_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *p = in[0], *ok = in[2], *lr = in[3], *weight_decay = in[4], *g = sound(ok, in[1]);
    (void)attr;
    out[0] = bt_where(ok, bt_sub(p, bt_mul(lr, bt_add(g, bt_mul(weight_decay, p)))), p);
}

/* Written by hand for type = itd, where it is the whole backward pass of a step: `ok` chooses between two scalars, not
 * two tensors. */
static void sgd_plain_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    bt_tensor *p = in[0], *ok = in[2], *lr = in[3], *weight_decay = in[4], *g = given[0];
    bt_tensor *rate = bt_where(ok, lr, 0);
    (void)attr;
    (void)out;
    if (!g)
        return;
    wanted[0] = bt_mul(bt_sub(1, bt_mul(rate, weight_decay)), g);
    wanted[1] = bt_mul(bt_neg(rate), g);
    wanted[3] = bt_neg(bt_where(ok, bt_sum(bt_mul(g, bt_add(sound(ok, in[1]), bt_mul(weight_decay, p)))), 0));
    wanted[4] = bt_neg(bt_mul(rate, bt_sum(bt_mul(g, p))));
}

static double sgd_plain_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 4 * bt_flops_input(attr, in, out);
}

static void sgd_plain_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "step", .inputs = 5, .in = {TENSOR, TENSOR, OK(truth), NUMBER(0.1, 1), NUMBER(0, 0.5)});
    BT_SAMPLE(sampler, .name = "not ok", .inputs = 5,
              .in = {TENSOR, TENSOR, OK(untruth), NUMBER(0.1, 1), NUMBER(0, 0.5)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 5, .in = {NONE, NONE, OK(truth), NUMBER(0.1, 1), NUMBER(0, 0.5)});
}

const bt_op bt_op_sgd_plain_update = {
    .name = "sgd_plain_update",
    .inputs = 5,
    .infer = sgd_plain_infer,
    .body = sgd_plain_body,
    .vjp = sgd_plain_vjp,
    .info = &(const bt_op_info){.differentiable = 0x1b,
                                .overwrites = {3},
                                .flops = sgd_plain_flops,
                                .shares = update_shares,
                                .samples = sgd_plain_samples},
};

/* ---- sgd_update(p, g, m, ok, lr, momentum, dampening, weight_decay, first) ---- */

static bt_status sgd_infer(const void *attr, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"p", "g", "m", "ok", "lr", "momentum", "dampening", "weight_decay", "first"};
    (void)attr;
    return update_infer("sgd_update", names, 9, 3, 1 << 3 | 1 << 8, 2, in, out);
}

static void sgd_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *p = in[0], *m = in[2], *ok = in[3], *lr = in[4], *momentum = in[5], *first = in[8];
    bt_tensor *g = bt_add(sound(ok, in[1]), bt_mul(in[7], p)), *old = bt_where(first, 0, m);
    bt_tensor *moved = bt_where(first, g, bt_add(bt_mul(momentum, old), bt_mul(bt_sub(1, in[6]), g)));
    bt_tensor *step = ((const bt_sgd_attr *)attr)->nesterov ? bt_add(g, bt_mul(momentum, moved)) : moved;
    out[0] = bt_where(ok, bt_sub(p, bt_mul(lr, step)), p);
    out[1] = bt_where(ok, moved, m);
}

static double sgd_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 8 * bt_flops_input(attr, in, out);
}

static void sgd_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, ((const bt_sgd_attr *)attr)->nesterov ? "nesterov" : "momentum");
}

static void sgd_samples(bt_sampler *sampler)
{
    for (int64_t nesterov = 0; nesterov < 2; nesterov++) {
        BT_SAMPLE(sampler, .name = "step", .inputs = 9, BT_ATTR(bt_sgd_attr, nesterov),
                  .in = {TENSOR, TENSOR, TENSOR, OK(truth), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0, 0.5),
                         NUMBER(0, 0.5), OK(untruth)});
        BT_SAMPLE(sampler, .name = "first step", .inputs = 9, BT_ATTR(bt_sgd_attr, nesterov),
                  .in = {TENSOR, TENSOR, ZERO, OK(truth), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0, 0.5),
                         NUMBER(0, 0.5), OK(truth)});
        BT_SAMPLE(sampler, .name = "not ok", .inputs = 9, BT_ATTR(bt_sgd_attr, nesterov),
                  .in = {TENSOR, TENSOR, TENSOR, OK(untruth), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0, 0.5),
                         NUMBER(0, 0.5), OK(untruth)});
    }
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 9, BT_ATTR(bt_sgd_attr, 0),
              .in = {NONE, NONE, NONE, OK(truth), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0, 0.5), NUMBER(0, 0.5),
                     OK(untruth)});
}

const bt_op bt_op_sgd_update = {
    .name = "sgd_update",
    .inputs = 9,
    .outputs = 2,
    .attr_size = sizeof(bt_sgd_attr),
    .infer = sgd_infer,
    .body = sgd_body,
    .info = &(const bt_op_info){.differentiable = 0xf7,
                                .overwrites = {3, 4},
                                .flops = sgd_flops,
                                .shares = update_shares,
                                .describe = sgd_describe,
                                .samples = sgd_samples},
};

/* ---- adam_update(p, g, m, v, ok, lr, beta1, beta2, eps, weight_decay, t) ---- */

static bt_status adam_infer(const void *attr, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"p", "g", "m", "v", "ok", "lr", "beta1", "beta2", "eps", "weight_decay", "t"};
    (void)attr;
    return update_infer("adam_update", names, 11, 4, 1 << 4, 3, in, out);
}

/* The square root, with derivative 0 at 0. v = 0 means that all gradients so far were 0; around that point the step is
 * lr g / (|g| + eps), with slope lr / eps. */
static bt_tensor *root(bt_tensor *v)
{
    bt_tensor *positive = bt_greater(v, 0);
    return bt_where(positive, bt_sqrt(bt_where(positive, v, 1)), 0);
}

/* Kingma and Ba 2015; decoupled: Loshchilov and Hutter 2019. */
static void adam_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *p = in[0], *m = in[2], *v = in[3], *ok = in[4], *lr = in[5], *g = sound(ok, in[1]);
    bt_tensor *beta1 = in[6], *beta2 = in[7], *eps = in[8], *weight_decay = in[9], *t = in[10], *decayed = p;
    if (((const bt_adam_attr *)attr)->decoupled)
        decayed = bt_mul(p, bt_sub(1, bt_mul(lr, weight_decay)));
    else
        g = bt_add(g, bt_mul(weight_decay, p));
    bt_tensor *mean = bt_add(bt_mul(beta1, m), bt_mul(bt_sub(1, beta1), g));
    bt_tensor *square = bt_add(bt_mul(beta2, v), bt_mul(bt_sub(1, beta2), bt_square(g)));
    bt_tensor *rate = bt_div(lr, bt_sub(1, bt_pow(beta1, t)));
    bt_tensor *scale = bt_add(bt_div(root(square), bt_sqrt(bt_sub(1, bt_pow(beta2, t)))), eps);
    out[0] = bt_where(ok, bt_sub(decayed, bt_mul(rate, bt_div(mean, scale))), p);
    out[1] = bt_where(ok, mean, m);
    out[2] = bt_where(ok, square, v);
}

static double adam_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 15 * bt_flops_input(attr, in, out);
}

static void adam_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, ((const bt_adam_attr *)attr)->decoupled ? "decoupled" : "coupled");
}

#define ADAM_NUMBERS(eps)                                                                                              \
    NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0.5, 0.9), BT_LISTED(eps, BT_F64, 0, 0), NUMBER(0.1, 0.5)

static void adam_samples(bt_sampler *sampler)
{
    static const double eps[] = {0.01}, t[] = {3};
    for (int64_t decoupled = 0; decoupled < 2; decoupled++) {
        BT_SAMPLE(sampler, .name = "step", .inputs = 11, BT_ATTR(bt_adam_attr, decoupled),
                  .in = {TENSOR, TENSOR, TENSOR, POSITIVE, OK(truth), ADAM_NUMBERS(eps), BT_LISTED(t, BT_F64, 0, 0)});
        BT_SAMPLE(sampler, .name = "first step", .inputs = 11, BT_ATTR(bt_adam_attr, decoupled),
                  .in = {POSITIVE, POSITIVE, ZERO, ZERO, OK(truth), ADAM_NUMBERS(eps), BT_LISTED(truth, BT_F64, 0, 0)});
        BT_SAMPLE(sampler, .name = "no gradient", .inputs = 11, BT_ATTR(bt_adam_attr, decoupled), .kink = true,
                  .in = {ZERO, ZERO, ZERO, ZERO, OK(truth), ADAM_NUMBERS(eps), BT_LISTED(truth, BT_F64, 0, 0)});
        BT_SAMPLE(sampler, .name = "not ok", .inputs = 11, BT_ATTR(bt_adam_attr, decoupled),
                  .in = {TENSOR, TENSOR, TENSOR, POSITIVE, OK(untruth), ADAM_NUMBERS(eps), BT_LISTED(t, BT_F64, 0, 0)});
    }
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 11, BT_ATTR(bt_adam_attr, 0),
              .in = {NONE, NONE, NONE, NONE, OK(truth), ADAM_NUMBERS(eps), BT_LISTED(t, BT_F64, 0, 0)});
}

const bt_op bt_op_adam_update = {
    .name = "adam_update",
    .inputs = 11,
    .outputs = 3,
    .attr_size = sizeof(bt_adam_attr),
    .infer = adam_infer,
    .body = adam_body,
    .info = &(const bt_op_info){.differentiable = 0x3ef,
                                .overwrites = {3, 4, 8},
                                .flops = adam_flops,
                                .shares = update_shares,
                                .describe = adam_describe,
                                .samples = adam_samples},
};

/* ops/control.c: ops that do not change values: detach, stop, and print and check, which look at them. */
#include "ops/define.h"

#include <stdio.h>

BT_INFER_EQUAL(detach, BT_EVERY, 1)
BT_INFER_EQUAL(stop, BT_EVERY, 1)
BT_INFER_EQUAL(print, BT_EVERY, 1)

static void identity_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                          bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = given[0];
}

static void identity_samples(bt_sampler *sampler) { bt_samples_equal(sampler, 1, -2, 2); }

/* Its derivative is up to transform/grad.c, which sees the flag. */
const bt_op bt_op_detach = {
    .name = "detach",
    .inputs = 1,
    .infer = detach_infer,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR | BT_OP_DETACH | BT_OP_IDENTITY | BT_OP_CHEAP,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .view = bt_view_same,
                                .samples = identity_samples},
};

const bt_op bt_op_stop = {
    .name = "stop",
    .inputs = 1,
    .infer = stop_infer,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_ELEMENTWISE | BT_OP_IDENTITY | BT_OP_CHEAP,
                                .flops = bt_flops_none,
                                .view = bt_view_same,
                                .samples = identity_samples},
};

static void text_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "\"%.127s\"", ((const bt_text_attr *)attr)->text);
}

static void print_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "vector", .inputs = 1, BT_ATTR(bt_text_attr, "x"),
              .in = {BT_DRAWN(-2, 2, BT_F64, 1, 3)});
}

/* The values pass through, so that printing happens where they are used. */
const bt_op bt_op_print = {
    .name = "print",
    .inputs = 1,
    .attr_size = sizeof(bt_text_attr),
    .infer = print_infer,
    .vjp = identity_rule,
    .jvp = identity_rule,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR | BT_OP_EFFECT,
                                .differentiable = 1,
                                .describe = text_describe,
                                .samples = print_samples},
};

static bt_status check_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (in[0].dtype != BT_BOOL)
        return bt_fail(BT_ERROR_SHAPE, "check: the condition is %s, must be bool", bt_dtype_name(in[0].dtype));
    out[0] = (bt_array){.dtype = BT_BOOL};
    return BT_OK;
}

static void check_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "true", .inputs = 1, BT_ATTR(bt_text_attr, "holds"),
              .in = {BT_DRAWN(1, 2, BT_BOOL, 2, 3, 2)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, BT_ATTR(bt_text_attr, "holds"),
              .in = {BT_DRAWN(1, 2, BT_BOOL, 1, 0)});
}

/* Each part is checked by itself. */
static bool check_shares(bt_shares *shares)
{
    (void)shares;
    return true;
}

const bt_op bt_op_check = {
    .name = "check",
    .inputs = 1,
    .attr_size = sizeof(bt_text_attr),
    .infer = check_infer,
    .info = &(const bt_op_info){.flags = BT_OP_EFFECT,
                                .flops = bt_flops_input,
                                .shares = check_shares,
                                .describe = text_describe,
                                .samples = check_samples},
};

/* ---- builders ---- */

bt_tensor *bt_detach(bt_tensor *x)
{
    bt_tensor *poison = bt_operand_missing("detach", x);
    return poison ? poison : BT_RECORD0(&bt_op_detach, x);
}

bt_tensor *bt_stop(bt_tensor *x)
{
    bt_tensor *poison = bt_operand_missing("stop", x);
    return poison ? poison : BT_RECORD0(&bt_op_stop, x);
}

static bt_text_attr text_attr(const char *text)
{
    bt_text_attr attr = {{0}};
    snprintf(attr.text, sizeof attr.text, "%s", text ? text : "");
    return attr;
}

static bool quiet(void) { return bt_trace_now() && bt_trace_now()->tag.quiet; }

bt_tensor *bt_print(bt_tensor *x, const char *label)
{
    bt_tensor *poison = bt_operand_missing("print", x);
    bt_text_attr attr = text_attr(label);
    return poison ? poison : quiet() ? x : BT_RECORD(&bt_op_print, &attr, x);
}

void bt_check(bt_tensor *condition, const char *message)
{
    if (bt_operand_missing("check", condition))
        return;
    if (condition->dtype != BT_BOOL) {
        bt_trace_poison(BT_ERROR_SHAPE,
                        "check: the condition is %s, must be bool: a comparison, such as bt_greater(x, 0)",
                        bt_dtype_name(condition->dtype));
        return;
    }
    bt_text_attr attr = text_attr(message);
    if (!quiet())
        BT_RECORD(&bt_op_check, &attr, condition);
}

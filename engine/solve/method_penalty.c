/* engine/solve/method_penalty.c: uses first-order derivatives only. min over y of f(x, y) + p (C(x, y) - min C) tends
 * to F(x) as p grows. Its derivative is p (grad_x C(x, y) - grad_x C(x, w)) + grad_x f(x, y) at the minimising y, which
 * K steps of gradient descent from w approximate. Liu, Ye, Wright, Stone and Liu, "BOME!" (NeurIPS 2022); Kwon, Kwon,
 * Wright and Nowak, "A fully first-order method for stochastic bilevel optimization" (ICML 2023).
 *
 * y is stored as x = -p (y - w), which tends to H^-1 v. */
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "optim/rule.h"

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    (void)rule;
    return bt_zeros_like(v);
}

/* y = y - lr (grad C + grad f / p) */
static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    bt_tensor *p = bt_hyper(rule, "lambda"), *shift = bt_neg(bt_div(x, p));
    bt_tensor *slope = bt_add(bt_upper_gradient(rule, shift), bt_mul(p, bt_lower_gradient(rule, shift)));
    bt_tensor *size = bt_norm_square(slope), *before = bt_norm_square(bt_slot(rule, "slope"));
    bt_slot_set(rule, "slope", slope);
    rule->trouble = bt_mul(bt_greater(before, 0), bt_greater(size, before));
    rule->trouble_means = "the gradient of the upper loss plus penalty_lambda times the lower loss grows from step to "
                          "step: penalty_lr must be below 2 / (largest eigenvalue of H)";
    return bt_add(x, bt_mul(bt_hyper(rule, "lr"), slope));
}

const bt_method_def bt_method_penalty = {
    .name = "penalty",
    .hypers = {{"iterations", 10, 1, 1e9, "number of steps of gradient descent", BT_HYPER_WHOLE},
               {"lambda", 10, 1e-30, 1e30, "weight of the lower loss; the error falls as 1 / lambda", BT_HYPER_REAL},
               {"lr", 0.1, 0, 1e9, "learning rate for the lower loss plus 1 / lambda times the upper loss",
                BT_HYPER_REAL}},
    .slots = {"slope"},
    .start = start,
    .step = step,
    .penalty = "lambda",
};

/* optim/lamb.c: LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2). */
#include "optim/kinds.h"

#include "ops/ops.h"

/* One ratio for the whole parameter; 1 if it is undefined. */
static bt_tensor *trust(bt_tensor *param, bt_tensor *step)
{
    bt_tensor *p = bt_root_or_zero(bt_norm_square(param)), *u = bt_root_or_zero(bt_norm_square(step));
    bt_tensor *both = bt_greater(bt_mul(bt_greater(p, 0), bt_greater(u, 0)), 0);
    return bt_where(both, bt_div(p, bt_where(both, u, 1)), 1);
}

static bt_tensor *lamb_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *m = bt_rule_mean(rule, "m", "beta1", grad), *v = bt_rule_mean(rule, "v", "beta2", bt_square(grad));
    bt_tensor *rate = bt_rule_round(rule, bt_div(1, bt_rule_left(rule, "beta1")));
    bt_tensor *scale = bt_rule_round(rule, bt_div(1, bt_sqrt(bt_rule_left(rule, "beta2"))));
    bt_tensor *size = bt_add(bt_mul(scale, bt_root_or_zero(v)), bt_hyper(rule, "eps"));
    bt_tensor *step = bt_rule_coupled(rule, param, bt_div(bt_mul(rate, m), size));
    return bt_sub(param, bt_mul(bt_mul(bt_hyper(rule, "lr"), trust(param, step)), step));
}

static const bt_optimizer_def lamb = {
    .name = "lamb",
    .hypers = {BT_HYPER_LR(1e-3),
               BT_HYPER_BETAS(0.9, 0.999),
               BT_HYPER_EPS(1e-6),
               {"weight_decay", 0, 0, 1e6,
                "factor of the parameter that is added to the step before the step is scaled", BT_HYPER_REAL}},
    .slots = {"m", "v"},
    .update = lamb_update,
};

const bt_optimizer_kind bt_kind_lamb = {.def = &lamb};

/* optim/adam.c: Adam and AdamW. The formulas are in ops/update.c, except those of AMSGrad. */
#include "optim/kinds.h"

#include "ops/ops.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, AMSGRAD };

static unsigned adam_slots(const double *hypers) { return hypers[AMSGRAD] != 0 ? 7 : 3; }

/* Reddi, Kale and Kumar, ICLR 2018, as in PyTorch: the maximum of the mean squares before bias correction. */
static bt_tensor *amsgrad_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
{
    bt_tensor *from = decoupled ? bt_rule_decayed(rule, param) : param;
    bt_tensor *g = decoupled ? grad : bt_rule_coupled(rule, param, grad);
    bt_tensor *m = bt_rule_mean(rule, "m", "beta1", g), *v = bt_rule_mean(rule, "v", "beta2", bt_square(g));
    bt_tensor *most = bt_maximum(bt_slot(rule, "v_max"), v);
    bt_slot_set(rule, "v_max", most);
    bt_tensor *rate = bt_rule_round(rule, bt_div(bt_rule_number(rule, "lr"), bt_rule_left(rule, "beta1")));
    bt_tensor *scale = bt_rule_round(rule, bt_div(1, bt_sqrt(bt_rule_left(rule, "beta2"))));
    bt_tensor *size = bt_add(bt_mul(scale, bt_root_or_zero(most)), bt_hyper(rule, "eps"));
    return bt_sub(from, bt_mul(rate, bt_div(m, size)));
}

/* If the gradient is not finite, nothing changes. */
static bt_tensor *amsgrad(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
{
    static const char *const slots[] = {"m", "v", "v_max"};
    bt_tensor *next = amsgrad_step(rule, param, bt_where(rule->ok, grad, 0), decoupled);
    for (int i = 0; i < BT_COUNT_OF(slots); i++)
        bt_slot_set(rule, slots[i],
                    bt_where(rule->ok, bt_rule_next(bt_rule_slot(rule, slots[i])), bt_slot(rule, slots[i])));
    return bt_where(rule->ok, next, param);
}

bt_tensor *bt_adam_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
{
    const bt_adam_attr attr = {decoupled};
    bt_tensor *in[] = {param,
                       grad,
                       bt_slot(rule, "m"),
                       bt_slot(rule, "v"),
                       rule->ok,
                       bt_hyper(rule, "lr"),
                       bt_hyper(rule, "beta1"),
                       bt_hyper(rule, "beta2"),
                       bt_hyper(rule, "eps"),
                       bt_hyper(rule, "weight_decay"),
                       bt_rule_round(rule, rule->count)};
    bt_tensor *next = bt_record(&bt_op_adam_update, &attr, sizeof attr, in, BT_COUNT_OF(in));
    if (!bt_poisoned(next)) {
        bt_slot_set(rule, "m", &next->node->out[1]);
        bt_slot_set(rule, "v", &next->node->out[2]);
    }
    return next;
}

static bt_tensor *adam_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
{
    return bt_rule_is_on(rule, "amsgrad") ? amsgrad(rule, param, grad, decoupled)
                                          : bt_adam_step(rule, param, grad, decoupled);
}

static bt_tensor *adam_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, false);
}

static bt_tensor *adamw_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, true);
}

#define AMSGRAD_HYPER                                                                                                  \
    {                                                                                                                  \
        "amsgrad", 0, 0, 1, "true: divide by the largest mean square so far, which takes another slot",                \
            BT_HYPER_SWITCH                                                                                            \
    }

static const bt_optimizer_def adam = {
    .name = "adam",
    .hypers = {BT_HYPER_LR(1e-3), BT_HYPER_BETAS(0.9, 0.999), BT_HYPER_EPS(1e-8), BT_HYPER_COUPLED, AMSGRAD_HYPER},
    .slots = {"m", "v", "v_max"},
    .update = adam_update,
};

static const bt_optimizer_def adamw = {
    .name = "adamw",
    .hypers = {BT_HYPER_LR(1e-3), BT_HYPER_BETAS(0.9, 0.999), BT_HYPER_EPS(1e-8), BT_HYPER_DECOUPLED(0.01),
               AMSGRAD_HYPER},
    .slots = {"m", "v", "v_max"},
    .update = adamw_update,
};

const bt_optimizer_kind bt_kind_adam = {
    .def = &adam, .flat = true, .guarded = true, .fixed = 1U << AMSGRAD, .slots = adam_slots};
const bt_optimizer_kind bt_kind_adamw = {
    .def = &adamw, .flat = true, .guarded = true, .fixed = 1U << AMSGRAD, .slots = adam_slots};

/* optim/lion.c: Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, algorithm 2). */
#include "optim/kinds.h"

bt_tensor *bt_lion_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *m = bt_slot(rule, "m"), *beta1 = bt_rule_number(rule, "beta1");
    bt_tensor *fresh = bt_rule_round(rule, bt_sub(1, beta1));
    bt_tensor *direction = bt_add(bt_mul(bt_rule_round(rule, beta1), m), bt_mul(fresh, grad));
    bt_rule_mean(rule, "m", "beta2", grad);
    return bt_sub(bt_rule_decayed(rule, param), bt_mul(bt_hyper(rule, "lr"), bt_sign(direction)));
}

static const bt_optimizer_def lion = {
    .name = "lion",
    .hypers = {BT_HYPER_LION},
    .slots = {"m"},
    .update = bt_lion_step,
};

const bt_optimizer_kind bt_kind_lion = {.def = &lion, .flat = true};

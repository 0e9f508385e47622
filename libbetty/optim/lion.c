/* optim/lion.c: Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, algorithm 2). */
#include "optim/kinds.h"

static bt_tensor *lion_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *m = bt_slot(rule, "m"), *beta1 = bt_rule_number(rule, "beta1");
    bt_tensor *fresh = bt_rule_round(rule, bt_sub(1, beta1));
    bt_tensor *direction = bt_add(bt_mul(bt_rule_round(rule, beta1), m), bt_mul(fresh, grad));
    bt_rule_mean(rule, "m", "beta2", grad);
    return bt_sub(bt_rule_decayed(rule, param), bt_mul(bt_hyper(rule, "lr"), bt_sign(direction)));
}

static const bt_optimizer_def lion = {
    .name = "lion",
    .hypers = {BT_HYPER_LR(1e-4),
               {"beta1", 0.9, 0, 1, "share of the momentum in the direction", BT_HYPER_REAL},
               {"beta2", 0.99, 0, 1, "share of the momentum that is kept", BT_HYPER_REAL},
               BT_HYPER_DECOUPLED(0)},
    .slots = {"m"},
    .update = lion_update,
};

const bt_optimizer_kind bt_kind_lion = {.def = &lion, .flat = true};

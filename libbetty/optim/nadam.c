/* optim/nadam.c: RAdam and NAdam, as in PyTorch. */
#include "optim/kinds.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED, MOMENTUM_DECAY };

/* Returns the gradient for the running means. *from: the parameter from which the step is subtracted. */
static bt_tensor *decay(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bt_tensor **from)
{
    bool decoupled = bt_rule_is_on(rule, "decoupled_weight_decay");
    *from = decoupled ? bt_rule_decayed(rule, param) : param;
    return decoupled ? grad : bt_rule_coupled(rule, param, grad);
}

/* ---- radam: Liu et al., ICLR 2020; adaptive once rho > 5 ---- */

static bt_tensor *radam_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *from, *g = decay(rule, param, grad, &from);
    bt_tensor *m = bt_rule_mean(rule, "m", "beta1", g), *v = bt_rule_mean(rule, "v", "beta2", bt_square(g));
    bt_tensor *beta2 = bt_rule_number(rule, "beta2"), *left = bt_rule_left(rule, "beta2");
    bt_tensor *most = bt_sub(bt_div(2, bt_sub(1, beta2)), 1);
    bt_tensor *rho = bt_sub(most, bt_mul(bt_mul(2, rule->count), bt_div(bt_sub(1, left), left)));
    bt_tensor *on = bt_greater(rho, 5);
    bt_tensor *now = bt_mul(bt_mul(bt_sub(rho, 4), bt_sub(rho, 2)), most);
    bt_tensor *limit = bt_mul(bt_mul(bt_sub(most, 4), bt_sub(most, 2)), rho);
    bt_tensor *rectified = bt_sqrt(bt_div(bt_where(on, now, 1), bt_where(on, limit, 1)));
    bt_tensor *rate = bt_div(bt_rule_number(rule, "lr"), bt_rule_left(rule, "beta1"));
    bt_tensor *scale = bt_where(on, bt_mul(rectified, bt_sqrt(left)), 1);
    bt_tensor *size = bt_where(on, bt_add(bt_root_or_zero(v), bt_hyper(rule, "eps")), 1);
    return bt_sub(from, bt_mul(bt_rule_round(rule, bt_mul(rate, scale)), bt_div(m, size)));
}

static const bt_optimizer_def radam = {
    .name = "radam",
    .hypers = {BT_HYPER_LR(1e-3), BT_HYPER_BETAS(0.9, 0.999), BT_HYPER_EPS(1e-8), BT_HYPER_COUPLED, BT_HYPER_EITHER},
    .slots = {"m", "v"},
    .update = radam_update,
};

const bt_optimizer_kind bt_kind_radam = {.def = &radam, .flat = true, .fixed = 1U << DECOUPLED};

/* ---- nadam: Dozat 2016 ---- */

enum { M, V, PRODUCT };

/* The slot for the product of all mu so far is a single number. */
static bt_array nadam_slot(int slot, bt_array param, const double *hypers)
{
    (void)hypers;
    return slot == PRODUCT ? (bt_array){.dtype = BT_F64} : param;
}

/* beta1 (1 - 0.96^(t momentum_decay) / 2) */
static bt_tensor *momentum_at(bt_rule *rule, bt_tensor *t)
{
    bt_tensor *warmth = bt_pow(0.96, bt_mul(t, bt_rule_number(rule, "momentum_decay")));
    return bt_mul(bt_rule_number(rule, "beta1"), bt_sub(1, bt_mul(0.5, warmth)));
}

static bt_tensor *nadam_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *from, *g = decay(rule, param, grad, &from), *lr = bt_rule_number(rule, "lr");
    bt_tensor *m = bt_rule_mean(rule, "m", "beta1", g), *v = bt_rule_mean(rule, "v", "beta2", bt_square(g));
    bt_tensor *mu = momentum_at(rule, rule->count), *next = momentum_at(rule, bt_add(rule->count, 1));
    bt_tensor *product = bt_mul(bt_where(rule->first, 1, bt_slot(rule, "mu_product")), mu);
    bt_slot_set(rule, "mu_product", product);
    bt_tensor *of_g = bt_div(bt_mul(lr, bt_sub(1, mu)), bt_sub(1, product));
    bt_tensor *of_m = bt_div(bt_mul(lr, next), bt_sub(1, bt_mul(product, next)));
    bt_tensor *scale = bt_rule_round(rule, bt_div(1, bt_sqrt(bt_rule_left(rule, "beta2"))));
    bt_tensor *size = bt_add(bt_mul(scale, bt_root_or_zero(v)), bt_hyper(rule, "eps"));
    bt_tensor *step = bt_add(bt_mul(bt_rule_round(rule, of_g), g), bt_mul(bt_rule_round(rule, of_m), m));
    return bt_sub(from, bt_div(step, size));
}

static const bt_optimizer_def nadam = {
    .name = "nadam",
    .hypers = {[LR] = BT_HYPER_LR(2e-3),
               BT_HYPER_BETAS(0.9, 0.999),
               BT_HYPER_EPS(1e-8),
               BT_HYPER_COUPLED,
               [DECOUPLED] = BT_HYPER_EITHER,
               [MOMENTUM_DECAY] = {"momentum_decay", 4e-3, 0, 1e6,
                                   "how fast the momentum rises from beta1 / 2 to beta1", BT_HYPER_REAL}},
    .slots = {[M] = "m", [V] = "v", [PRODUCT] = "mu_product"},
    .update = nadam_update,
    .slot = nadam_slot,
};

const bt_optimizer_kind bt_kind_nadam = {.def = &nadam, .fixed = 1U << DECOUPLED};

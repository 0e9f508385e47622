/* optim/rmsprop.c: RMSprop and Adagrad, as in PyTorch. */
#include "optim/kinds.h"

/* ---- rmsprop: Tieleman and Hinton 2012; centred: Graves 2013 ---- */

enum { LR, ALPHA, EPS, WEIGHT_DECAY, MOMENTUM, CENTERED };
enum { V, MEAN, BUFFER };

static unsigned rmsprop_slots(const double *hypers)
{
    return 1U << V | (hypers[CENTERED] != 0 ? 1U << MEAN : 0) | (hypers[MOMENTUM] != 0 ? 1U << BUFFER : 0);
}

static bt_tensor *rmsprop_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *g = bt_rule_coupled(rule, param, grad), *v = bt_rule_mean(rule, "v", "alpha", bt_square(g));
    if (bt_has_slot(rule, "mean"))
        v = bt_sub(v, bt_square(bt_rule_mean(rule, "mean", "alpha", g)));
    bt_tensor *step = bt_div(g, bt_add(bt_root_or_zero(v), bt_hyper(rule, "eps")));
    if (bt_has_slot(rule, "momentum")) {
        step = bt_add(bt_mul(bt_hyper(rule, "momentum"), bt_slot(rule, "momentum")), step);
        bt_slot_set(rule, "momentum", step);
    }
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), step));
}

static const bt_optimizer_def rmsprop = {
    .name = "rmsprop",
    .hypers = {[LR] = BT_HYPER_LR(1e-2),
               [ALPHA] = {"alpha", 0.99, 0, 1, "share of the squared gradient's running mean that each update keeps",
                          BT_HYPER_REAL},
               [EPS] = BT_HYPER_EPS(1e-8),
               [WEIGHT_DECAY] = BT_HYPER_COUPLED,
               [MOMENTUM] = {"momentum", 0, 0, 1,
                             "share of the last step that is added to this one; 0: no momentum, and no slot for it",
                             BT_HYPER_REAL},
               [CENTERED] = {"centered", 0, 0, 1,
                             "true: divide by the variance instead, which takes another slot for the mean",
                             BT_HYPER_SWITCH}},
    .slots = {[V] = "v", [MEAN] = "mean", [BUFFER] = "momentum"},
    .update = rmsprop_update,
};

const bt_optimizer_kind bt_kind_rmsprop = {
    .def = &rmsprop, .flat = true, .fixed = 1U << CENTERED, .slots = rmsprop_slots};

/* ---- adagrad: Duchi, Hazan and Singer, JMLR 2011 ---- */

static bt_tensor *adagrad_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *g = bt_rule_coupled(rule, param, grad);
    bt_tensor *before = bt_where(rule->first, bt_hyper(rule, "initial_accumulator_value"), bt_slot(rule, "sum"));
    bt_tensor *sum = bt_add(before, bt_square(g));
    bt_slot_set(rule, "sum", sum);
    bt_tensor *slower = bt_add(1, bt_mul(bt_sub(rule->count, 1), bt_rule_number(rule, "lr_decay")));
    bt_tensor *rate = bt_rule_round(rule, bt_div(bt_rule_number(rule, "lr"), slower));
    return bt_sub(param, bt_mul(rate, bt_div(g, bt_add(bt_root_or_zero(sum), bt_hyper(rule, "eps")))));
}

static const bt_optimizer_def adagrad = {
    .name = "adagrad",
    .hypers = {BT_HYPER_LR(1e-2),
               {"lr_decay", 0, 0, 1e6, "lr is divided by 1 + lr_decay t after t updates", BT_HYPER_REAL},
               BT_HYPER_COUPLED,
               {"initial_accumulator_value", 0, 0, 1e30, "initial sum of squares", BT_HYPER_REAL},
               BT_HYPER_EPS(1e-10)},
    .slots = {"sum"},
    .update = adagrad_update,
};

const bt_optimizer_kind bt_kind_adagrad = {.def = &adagrad, .flat = true};

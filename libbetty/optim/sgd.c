/* optim/sgd.c: SGD, with classical or Nesterov momentum. The formulas are in ops/update.c. */
#include "optim/kinds.h"

#include "ops/ops.h"

enum { SGD_LR, SGD_MOMENTUM, SGD_DAMPENING, SGD_WEIGHT_DECAY, SGD_NESTEROV };

static unsigned sgd_slots(const double *hypers)
{
    return hypers[SGD_MOMENTUM] != 0 ? 1 : 0; /* without momentum there is nothing to remember */
}

static bt_status sgd_check(const char *what, const double *hypers)
{
    double nesterov = hypers[SGD_NESTEROV];
    if (nesterov != 0 && nesterov != 1)
        return bt_fail(BT_ERROR_CONFIG, "optimizer %s: nesterov is %g; expected 0 or 1", what, nesterov);
    if (nesterov == 1 && (hypers[SGD_MOMENTUM] == 0 || hypers[SGD_DAMPENING] != 0))
        return bt_fail(BT_ERROR_CONFIG,
                       "optimizer %s: nesterov = 1 needs momentum above 0 and dampening = 0; found momentum = %g and "
                       "dampening = %g",
                       what, hypers[SGD_MOMENTUM], hypers[SGD_DAMPENING]);
    return BT_OK;
}

static bt_tensor *sgd_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *lr = bt_hyper(rule, "lr"), *decay = bt_hyper(rule, "weight_decay");
    if (!bt_rule_slot(rule, "momentum")) {
        bt_tensor *in[] = {param, grad, rule->ok, lr, decay};
        return bt_record(&bt_op_sgd_plain_update, NULL, 0, in, BT_COUNT_OF(in));
    }
    const bt_sgd_attr attr = {bt_rule_hyper(rule, "nesterov")->fixed != 0};
    bt_tensor *in[] = {param,
                       grad,
                       bt_slot(rule, "momentum"),
                       rule->ok,
                       lr,
                       bt_hyper(rule, "momentum"),
                       bt_hyper(rule, "dampening"),
                       decay,
                       rule->first};
    bt_tensor *next = bt_record(&bt_op_sgd_update, &attr, sizeof attr, in, BT_COUNT_OF(in));
    if (!bt_poisoned(next))
        bt_slot_set(rule, "momentum", &next->node->out[1]);
    return next;
}

static const bt_optimizer_def sgd = {
    .name = "sgd",
    .hypers = {[SGD_LR] = {"lr", 1e-3, 0, 1e6, "learning rate", BT_HYPER_REAL},
               [SGD_MOMENTUM] = {"momentum", 0, 0, 1,
                                 "share of the last step that is added to this one; 0: no momentum, and no slot for it",
                                 BT_HYPER_REAL},
               [SGD_DAMPENING] = {"dampening", 0, 0, 1,
                                  "the gradient is added to the momentum with the factor 1 - dampening", BT_HYPER_REAL},
               [SGD_WEIGHT_DECAY] = {"weight_decay", 0, 0, 1e6, "factor of the parameter that is added to the gradient",
                                     BT_HYPER_REAL},
               [SGD_NESTEROV] = {"nesterov", 0, 0, 1, "true: use Nesterov's momentum", BT_HYPER_SWITCH}},
    .slots = {"momentum"},
    .update = sgd_update,
};

const bt_optimizer_kind bt_kind_sgd = {
    .def = &sgd, .flat = true, .guarded = true, .fixed = 1U << SGD_NESTEROV, .slots = sgd_slots, .check = sgd_check};

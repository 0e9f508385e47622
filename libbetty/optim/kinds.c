/* optim/kinds.c: the optimisers of the library, by PyTorch's formulas, which ops/update.c holds. */
#include "optim/optim.h"

#include "ops/ops.h"
#include <string.h>

int bt_hyper_count(const bt_hyper_def *hypers)
{
    int count = 0;
    while (hypers && count < BT_MAX_ITEMS && hypers[count].name)
        count++;
    return count;
}

int bt_hyper_index(const bt_hyper_def *hypers, const char *name)
{
    for (int i = 0, count = bt_hyper_count(hypers); name && i < count; i++)
        if (strcmp(hypers[i].name, name) == 0)
            return i;
    return -1;
}

int bt_slot_name_count(const char *const *slots)
{
    int count = 0;
    while (slots && count < BT_MAX_ITEMS && slots[count])
        count++;
    return count;
}

bt_status bt_record_fits(const char *kind, const char *name, const bt_hyper_def *hypers, const char *const *slots)
{
    bool many = hypers[BT_MAX_ITEMS].name != NULL;
    if (!many && !slots[BT_MAX_ITEMS])
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "%s %s: its record lists more than %d %s", kind, name, BT_MAX_ITEMS,
                   many ? "hyperparameters" : "slots");
}

/* ---- sgd ---- */

enum { SGD_LR, SGD_MOMENTUM, SGD_DAMPENING, SGD_WEIGHT_DECAY, SGD_NESTEROV };

static unsigned sgd_slots(const double *hypers)
{
    return hypers[SGD_MOMENTUM] != 0 ? 1 : 0; /* without momentum there is nothing to remember */
}

static bt_status sgd_check(const char *what, const double *hypers)
{
    double nesterov = hypers[SGD_NESTEROV];
    if (nesterov != 0 && nesterov != 1)
        return bt_fail(BT_ERROR_CONFIG, "optimizer %s: nesterov is %g; it is 0 or 1", what, nesterov);
    if (nesterov == 1 && (hypers[SGD_MOMENTUM] == 0 || hypers[SGD_DAMPENING] != 0))
        return bt_fail(BT_ERROR_CONFIG,
                       "optimizer %s: nesterov = 1 wants momentum above 0 and dampening = 0, found momentum = %g and "
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
               [SGD_MOMENTUM] = {"momentum", 0, 0, 1, "share of the last step that is kept; 0: no momentum, no slot",
                                 BT_HYPER_REAL},
               [SGD_DAMPENING] = {"dampening", 0, 0, 1, "the gradient enters the momentum with 1 - dampening",
                                  BT_HYPER_REAL},
               [SGD_WEIGHT_DECAY] = {"weight_decay", 0, 0, 1e6, "times the parameter is added to the gradient",
                                     BT_HYPER_REAL},
               [SGD_NESTEROV] = {"nesterov", 0, 0, 1, "1: Nesterov's momentum", BT_HYPER_SWITCH}},
    .slots = {"momentum"},
    .update = sgd_update,
};

/* ---- adam, adamw ---- */

static bt_tensor *adam_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
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
                       rule->count};
    bt_tensor *next = bt_record(&bt_op_adam_update, &attr, sizeof attr, in, BT_COUNT_OF(in));
    if (!bt_poisoned(next)) {
        bt_slot_set(rule, "m", &next->node->out[1]);
        bt_slot_set(rule, "v", &next->node->out[2]);
    }
    return next;
}

static bt_tensor *adam_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, false);
}

static bt_tensor *adamw_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, true);
}

/* The betas end below 1, where the bias correction would divide by 0; eps above 0, so that 0 / eps is 0. */
#define ADAM_HYPERS(decay, decay_help)                                                                                 \
    {                                                                                                                  \
        {"lr", 1e-3, 0, 1e6, "learning rate", BT_HYPER_REAL},                                                          \
            {"beta1", 0.9, 0, 0.999999, "share of the gradient's running mean that is kept", BT_HYPER_REAL},           \
            {"beta2", 0.999, 0, 0.999999, "share of the running mean of its square that is kept", BT_HYPER_REAL},      \
            {"eps", 1e-8, 1e-30, 1, "is added to the root of the mean square", BT_HYPER_REAL},                         \
        {                                                                                                              \
            "weight_decay", decay, 0, 1e6, decay_help, BT_HYPER_REAL                                                   \
        }                                                                                                              \
    }

static const bt_optimizer_def adam = {
    .name = "adam",
    .hypers = ADAM_HYPERS(0, "times the parameter is added to the gradient"),
    .slots = {"m", "v"},
    .update = adam_update,
};

static const bt_optimizer_def adamw = {
    .name = "adamw",
    .hypers = ADAM_HYPERS(0.01, "times lr is the share of the parameter that goes at each step"),
    .slots = {"m", "v"},
    .update = adamw_update,
};

static const bt_optimizer_kind kinds[] = {
    {.def = &sgd, .flat = true, .guarded = true, .fixed = 1U << SGD_NESTEROV, .slots = sgd_slots, .check = sgd_check},
    {.def = &adam, .flat = true, .guarded = true},
    {.def = &adamw, .flat = true, .guarded = true},
};

const bt_optimizer_def *bt_optimizer_builtin(int index)
{
    return index >= 0 && index < BT_COUNT_OF(kinds) ? kinds[index].def : NULL;
}

bt_optimizer_kind bt_optimizer_kind_of(const bt_optimizer_def *def)
{
    for (int i = 0; i < BT_COUNT_OF(kinds); i++)
        if (kinds[i].def == def)
            return kinds[i];
    return (bt_optimizer_kind){.def = def};
}

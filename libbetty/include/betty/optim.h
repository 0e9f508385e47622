/* betty/optim.h: optimisers and hypergradient methods */
#ifndef BETTY_OPTIM_H
#define BETTY_OPTIM_H

#include <betty/base.h>
#include <betty/nn.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Both are traced rules with hyperparameters, which are INI keys, and slots, kept from call to call, 0 at first. */

typedef struct bt_hyper_def {
    const char *name;
    double value, low, high; /* default and range, ends included */
    const char *help;
} bt_hyper_def;

bt_tensor *bt_hyper(bt_rule *rule, const char *name);                 /* a hyperparameter, as it is at this step */
void bt_hyper_set(bt_rule *rule, const char *name, bt_tensor *value); /* in `schedule`: what it is at this step */
bt_tensor *bt_slot(bt_rule *rule, const char *name);                  /* what the last call left */
void bt_slot_set(bt_rule *rule, const char *name, bt_tensor *value);  /* what the next call finds */
bt_tensor *bt_hvp(bt_rule *rule, bt_tensor *x); /* in a method: H x, H the Hessian of the lower loss */

typedef struct bt_optimizer_def { /* chosen by `optimizer = NAME` */
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS];                                      /* keys as named; schedulers move "lr" */
    const char *slots[BT_MAX_ITEMS];                                        /* each like the parameter */
    bt_tensor *(*update)(bt_rule *rule, bt_tensor *param, bt_tensor *grad); /* one parameter's next value */
} bt_optimizer_def;

/* Chosen by `type = NAME`. Turns v, a vector like bt_params of the lower problem, into x, which stands for H^-1 v: by
 * `start`, then as many `step`s as the hyperparameter "iterations" says. The library applies the cross derivative. */
typedef struct bt_method_def {
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS];                             /* keys NAME_hyper */
    const char *slots[BT_MAX_ITEMS];                               /* each like v */
    bt_tensor *(*start)(bt_rule *rule, bt_tensor *v);              /* the first x */
    bt_tensor *(*step)(bt_rule *rule, bt_tensor *v, bt_tensor *x); /* the next x; NULL: none */
} bt_method_def;

/* Without a problem. By PyTorch's formulas and with its defaults:
 *   sgd          lr 1e-3, momentum 0, dampening 0, weight_decay 0, nesterov 0 (or 1)
 *   adam, adamw  lr 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, weight_decay 0, of adamw 0.01
 * An update whose gradient is not finite is left out. */
bt_optimizer *bt_optimizer_new(const char *name);
bt_status bt_optimizer_set(bt_optimizer *optimizer, const char *hyper, double value);
void bt_optimizer_minimize(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module); /* traced: one update */
void bt_optimizer_free(bt_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif

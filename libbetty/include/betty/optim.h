/* betty/optim.h: optimisers and hypergradient methods */
#ifndef BETTY_OPTIM_H
#define BETTY_OPTIM_H

#include <betty/base.h>
#include <betty/nn.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An optimiser and a hypergradient method are both traced rules. A rule has hyperparameters, which are INI keys, and
 * slots, which keep their values from call to call and start at 0. */

/* The values that the key of a hyperparameter accepts. REAL: a number. WHOLE: a whole number. SWITCH: true or false,
 * which are 1 and 0. SPACING: a whole number, or sqrt or auto, which are 0 and -1. */
typedef enum bt_hyper_kind { BT_HYPER_REAL, BT_HYPER_WHOLE, BT_HYPER_SWITCH, BT_HYPER_SPACING } bt_hyper_kind;

typedef struct bt_hyper_def {
    const char *name;
    double value, low, high; /* default and range, both ends included */
    const char *help;
    bt_hyper_kind kind;
} bt_hyper_def;

bt_tensor *bt_hyper(bt_rule *rule, const char *name);                 /* the value of a hyperparameter at this step */
void bt_hyper_set(bt_rule *rule, const char *name, bt_tensor *value); /* in `schedule`: sets the value for this step */
bt_tensor *bt_slot(bt_rule *rule, const char *name);                  /* the value set in the last call */
void bt_slot_set(bt_rule *rule, const char *name, bt_tensor *value);  /* sets the value for the next call */
bool bt_has_slot(bt_rule *rule, const char *name); /* in `update`: whether this parameter has it, see `slot` */

/* For methods: questions about the lower problem. Vectors are like bt_params of that problem; w stands for its
 * parameters. */
bt_tensor *bt_hvp(bt_rule *rule, bt_tensor *x);                /* H x, where H is the Hessian of the lower loss */
bt_tensor *bt_lower_gradient(bt_rule *rule, bt_tensor *shift); /* of the lower loss at w + shift; NULL: at w */
/* v at w + shift, from the upper loss. The part of v that comes through other levels keeps its value at w. */
bt_tensor *bt_upper_gradient(bt_rule *rule, bt_tensor *shift);
/* If the record sets .slope: the derivative of each parameter's last update with respect to its gradient, for an
 * elementwise optimiser. For plain sgd this is lr. It is 0 before the first update. */
bt_tensor *bt_slope(bt_rule *rule);
bt_tensor *bt_iteration(bt_rule *rule); /* the number of this step, BT_I64 []; 0 at first */
/* A vector with a single 1, at a parameter that is differentiated. Each step uses a different one, chosen by the seed.
 * When all have been used, the vector is 0. */
bt_tensor *bt_unit(bt_rule *rule);
/* The x of the last upper step, 0 at first. NULL if the hyperparameter "warm_start" is 0 or missing. */
bt_tensor *bt_last_solution(bt_rule *rule);

/* A list in a record has at most BT_MAX_ITEMS entries and then NULL. A method's slots and stacks together count as one
 * list. */

typedef struct bt_optimizer_def { /* chosen by `optimizer = NAME` */
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS + 1]; /* keys have these names; schedulers change "lr" */
    const char *slots[BT_MAX_ITEMS + 1];   /* each like the parameter, or as `slot` says */
    bt_tensor *(*update)(bt_rule *rule, bt_tensor *param, bt_tensor *grad); /* the next value of one parameter */
    /* The shape and dtype of slots[slot], for a parameter with the shape and dtype of `param`. hypers: the configured
     * hyperparameters, in order. Any shape and dtype may be returned; one with no elements means that this parameter
     * does not have the slot. NULL: all slots are like the parameter. */
    bt_array (*slot)(int slot, bt_array param, const double *hypers);
} bt_optimizer_def;

/* Chosen by `type = NAME`. A method turns v, a vector like bt_params of the lower problem, into x, which approximates
 * H^-1 v. It calls `start` once, then `step` as often as the hyperparameter "iterations" says. The library then applies
 * the cross derivative. */
typedef struct bt_method_def {
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS + 1];                         /* keys are called NAME_hyper */
    const char *slots[BT_MAX_ITEMS + 1];                           /* each like v */
    bt_tensor *(*start)(bt_rule *rule, bt_tensor *v);              /* the first x */
    bt_tensor *(*step)(bt_rule *rule, bt_tensor *v, bt_tensor *x); /* the next x; NULL: none */

    /* Few methods need the following fields. */
    const char *stacks[BT_MAX_ITEMS + 1]; /* slots [steps, n], a row like v for each step; at most n steps */
    const char *steps;                    /* the hyperparameter that holds the number of steps; NULL: "iterations" */
    const char *product;                  /* default of the key `product`; NULL: jvp */
    /* The name of the hyperparameter that is the penalty p of a value function, min over y of f + p (C - min C). For
     * its minimum y, -x / p is y - w. The cross derivative is a difference of first-order gradients, p (grad C(y) -
     * grad C(w)), and the gradient of f is taken at y. NULL: the key `product` chooses the product. */
    const char *penalty;
    bool slope; /* whether it calls bt_slope */
    /* Whether x comes from differentiating back through the lower problem's steps, instead of from `start` and `step`.
     * The hyperparameters are then those of itd. */
    bool unrolls;
} bt_method_def;

/* Optimisers without a problem. They use PyTorch's formulas and defaults:
 *   sgd          lr 1e-3, momentum 0, dampening 0, weight_decay 0, nesterov 0 (or 1)
 *   adam, adamw  lr 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, weight_decay 0 (adamw 0.01), amsgrad 0 (or 1)
 *   rmsprop, adagrad, radam, nadam
 *   lion, lamb   as in their papers
 *   adafactor    in the forms of PyTorch and of transformers
 *   adam8bit, adamw8bit, lion8bit    with their state in 8 bits
 * docs/ini-reference.md lists the hyperparameters of all. An update whose gradient is not finite is skipped. */
bt_optimizer *bt_optimizer_new(const char *name);
bt_status bt_optimizer_set(bt_optimizer *optimizer, const char *hyper, double value);
void bt_optimizer_minimize(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module); /* traced: makes one update */
void bt_optimizer_free(bt_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif

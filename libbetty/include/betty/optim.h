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

/* What the key of a hyperparameter takes: a number; a whole number; true or false, which are 1 and 0; a whole number,
 * or sqrt or auto, which are 0 and -1. */
typedef enum bt_hyper_kind { BT_HYPER_REAL, BT_HYPER_WHOLE, BT_HYPER_SWITCH, BT_HYPER_SPACING } bt_hyper_kind;

typedef struct bt_hyper_def {
    const char *name;
    double value, low, high; /* default and range, ends included */
    const char *help;
    bt_hyper_kind kind;
} bt_hyper_def;

bt_tensor *bt_hyper(bt_rule *rule, const char *name);                 /* a hyperparameter, as it is at this step */
void bt_hyper_set(bt_rule *rule, const char *name, bt_tensor *value); /* in `schedule`: what it is at this step */
bt_tensor *bt_slot(bt_rule *rule, const char *name);                  /* what the last call left */
void bt_slot_set(bt_rule *rule, const char *name, bt_tensor *value);  /* what the next call finds */
bool bt_has_slot(bt_rule *rule, const char *name); /* in `update`: this parameter has it: bt_optimizer_def.slot */

/* In a method: what it may ask of the lower problem. Vectors are like bt_params of that problem; w: its parameters. */
bt_tensor *bt_hvp(bt_rule *rule, bt_tensor *x);                /* H x, H the Hessian of the lower loss */
bt_tensor *bt_lower_gradient(bt_rule *rule, bt_tensor *shift); /* of the lower loss at w + shift; NULL: at w */
/* v as it would be at w + shift, by the upper loss; what comes to v through other levels stays as it is at w. */
bt_tensor *bt_upper_gradient(bt_rule *rule, bt_tensor *shift);
/* Where the record says .slope: by how much each parameter's last update would have been larger for a gradient larger
 * by 1, the optimiser being elementwise: lr for plain sgd. 0 before the first update. */
bt_tensor *bt_slope(bt_rule *rule);
bt_tensor *bt_iteration(bt_rule *rule); /* which step this is: BT_I64 [], 0 at first */
/* A unit vector, another one in each step, chosen by the seed among the parameters that are differentiated. */
bt_tensor *bt_unit(bt_rule *rule);
/* The x of the last upper step, 0 at first; NULL where the hyperparameter "warm_start" is 0, or missing. */
bt_tensor *bt_last_solution(bt_rule *rule);

/* Lists in records have at most BT_MAX_ITEMS entries, a method's slots and stacks together; then comes NULL. */

typedef struct bt_optimizer_def { /* chosen by `optimizer = NAME` */
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS + 1]; /* keys as named; schedulers move "lr" */
    const char *slots[BT_MAX_ITEMS + 1];   /* each like the parameter, or as `slot` says */
    bt_tensor *(*update)(bt_rule *rule, bt_tensor *param, bt_tensor *grad); /* one parameter's next value */
    /* Shape and dtype, any, of slots[slot] for a parameter of this shape and dtype, with the hyperparameters as they
     * are configured, in their order; of no elements: this parameter has none. NULL: all are like the parameter. */
    bt_array (*slot)(int slot, bt_array param, const double *hypers);
} bt_optimizer_def;

/* Chosen by `type = NAME`. Turns v, a vector like bt_params of the lower problem, into x, which stands for H^-1 v: by
 * `start`, then as many `step`s as the hyperparameter "iterations" says. The library applies the cross derivative. */
typedef struct bt_method_def {
    const char *name;
    bt_hyper_def hypers[BT_MAX_ITEMS + 1];                         /* keys NAME_hyper */
    const char *slots[BT_MAX_ITEMS + 1];                           /* each like v */
    bt_tensor *(*start)(bt_rule *rule, bt_tensor *v);              /* the first x */
    bt_tensor *(*step)(bt_rule *rule, bt_tensor *v, bt_tensor *x); /* the next x; NULL: none */

    /* What few methods need. */
    const char
        *stacks[BT_MAX_ITEMS + 1]; /* slots of [steps, n], a row like v for each step; steps are then at most n */
    const char *steps;             /* the hyperparameter that counts the steps; NULL: "iterations" */
    const char *product;           /* the default of the key `product`; NULL: jvp */
    /* The hyperparameter that is the penalty p of a value function min over y of f + p (C - min C), of which -x / p is
     * y - w. The cross derivative is then a difference of first-order gradients, p (grad C(y) - grad C(w)), and the
     * gradient of f is taken at y. NULL: the product that the key `product` chooses. */
    const char *penalty;
    bool slope; /* bt_slope is asked for */
    /* x comes from going back through the steps that the lower problem has made, not from `start` and `step`; the
     * hyperparameters are then those of itd. */
    bool unrolls;
} bt_method_def;

/* Without a problem. By PyTorch's formulas and with its defaults:
 *   sgd          lr 1e-3, momentum 0, dampening 0, weight_decay 0, nesterov 0 (or 1)
 *   adam, adamw  lr 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, weight_decay 0, of adamw 0.01, amsgrad 0 (or 1)
 *   rmsprop, adagrad, radam, nadam; lion, lamb by their papers; adafactor in PyTorch's form and that of transformers;
 *   adam8bit, adamw8bit, lion8bit with their state in 8 bits. docs/ini-reference.md has the hyperparameters of all.
 * An update whose gradient is not finite is left out. */
bt_optimizer *bt_optimizer_new(const char *name);
bt_status bt_optimizer_set(bt_optimizer *optimizer, const char *hyper, double value);
void bt_optimizer_minimize(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module); /* traced: one update */
void bt_optimizer_free(bt_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif

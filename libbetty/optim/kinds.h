/* optim/kinds.h: the library's optimisers, and helpers shared by their updates. */
#ifndef BT_KINDS_H
#define BT_KINDS_H

#include "optim/optim.h"

/* In the order of the documentation. Adding one: its record in a file of optim/, a line here. */
/* clang-format off */
#define BT_KIND_LIST(X)                                                                                                \
    /* sgd.c */       X(sgd)                                                                                           \
    /* adam.c */      X(adam) X(adamw)                                                                                 \
    /* rmsprop.c */   X(rmsprop) X(adagrad)                                                                            \
    /* lion.c */      X(lion)                                                                                          \
    /* nadam.c */     X(radam) X(nadam)                                                                                \
    /* adafactor.c */ X(adafactor)                                                                                     \
    /* lamb.c */      X(lamb)                                                                                          \
    /* eight.c */     X(adam8bit) X(adamw8bit) X(lion8bit)
/* clang-format on */
#define BT_KIND_DECLARE(name) extern const bt_optimizer_kind bt_kind_##name;
BT_KIND_LIST(BT_KIND_DECLARE)
#undef BT_KIND_DECLARE

/* ---- in an update: kinds.c. Numbers are F64 [], so that 1 - beta^t is not a difference of rounded numbers; they are
 * rounded once, when applied to elements. ---- */

bt_tensor *bt_rule_number(bt_rule *rule, const char *hyper);      /* its value at this step */
bool bt_rule_is_on(bt_rule *rule, const char *hyper);             /* of a switch, which is fixed */
bt_tensor *bt_rule_round(const bt_rule *rule, bt_tensor *number); /* in the dtype of the parameter */
bt_tensor *bt_rule_left(bt_rule *rule, const char *beta);         /* 1 - beta^t, where t counts updates from 1 */

/* slot <- share slot + (1 - share) x, which is returned; `share` names the hyperparameter. */
bt_tensor *bt_rule_mean(bt_rule *rule, const char *slot, const char *share, bt_tensor *x);
bt_tensor *bt_root_or_zero(bt_tensor *v); /* the square root, 0 with derivative 0 where v <= 0 */

/* Weight decay: coupled, it is added to the gradient; decoupled, lr times it is subtracted from the parameter. */
bt_tensor *bt_rule_coupled(bt_rule *rule, bt_tensor *param, bt_tensor *grad);
bt_tensor *bt_rule_decayed(bt_rule *rule, bt_tensor *param);

/* The guarded step of Adam, with slots m and v; the step of Lion, with slot m. */
bt_tensor *bt_adam_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled);
bt_tensor *bt_lion_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad);

/* Rows of a record, with PyTorch's defaults. Betas stay below 1, where 1 - beta^t would be 0; eps stays above 0, so
 * that 0 / eps is 0. */
#define BT_HYPER_LR(value)                                                                                             \
    {                                                                                                                  \
        "lr", (value), 0, 1e6, "learning rate", BT_HYPER_REAL                                                          \
    }
#define BT_HYPER_BETAS(first, second)                                                                                  \
    {"beta1", (first), 0, 0.999999, "share of the gradient's running mean that each update keeps", BT_HYPER_REAL},     \
    {                                                                                                                  \
        "beta2", (second), 0, 0.999999, "share of the squared gradient's running mean that each update keeps",         \
            BT_HYPER_REAL                                                                                              \
    }
#define BT_HYPER_EPS(value)                                                                                            \
    {                                                                                                                  \
        "eps", (value), 1e-30, 1, "added to the root of the mean square", BT_HYPER_REAL                                \
    }
#define BT_HYPER_COUPLED                                                                                               \
    {                                                                                                                  \
        "weight_decay", 0, 0, 1e6, "factor of the parameter that is added to the gradient", BT_HYPER_REAL              \
    }
#define BT_HYPER_DECOUPLED(value)                                                                                      \
    {                                                                                                                  \
        "weight_decay", (value), 0, 1e6, "each step subtracts lr times this factor of the parameter", BT_HYPER_REAL    \
    }
#define BT_HYPER_LION                                                                                                  \
    BT_HYPER_LR(1e-4), {"beta1", 0.9, 0, 1, "share of the momentum in the direction", BT_HYPER_REAL},                  \
        {"beta2", 0.99, 0, 1, "share of the momentum that each update keeps", BT_HYPER_REAL}, BT_HYPER_DECOUPLED(0)
#define BT_HYPER_EITHER                                                                                                \
    {                                                                                                                  \
        "decoupled_weight_decay", 0, 0, 1, "true: weight_decay works as in adamw; false: as in adam", BT_HYPER_SWITCH  \
    }

#endif

/* engine/solve/method_neumann.c: x = alpha sum over j = 0 .. K of (I - alpha H)^j v. Lorraine, Vicol and Duvenaud,
 * "Optimizing millions of hyperparameters by implicit differentiation" (AISTATS 2020). Needs alpha < 2 / |H|. */
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "optim/rule.h"

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    bt_slot_set(rule, "term", v);
    return bt_mul(bt_hyper(rule, "alpha"), v);
}

static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    bt_tensor *alpha = bt_hyper(rule, "alpha"), *term = bt_slot(rule, "term");
    bt_tensor *next = bt_sub(term, bt_mul(alpha, bt_hvp(rule, term)));
    bt_slot_set(rule, "term", next);
    rule->trouble = bt_greater(bt_norm_square(next), bt_norm_square(term));
    rule->trouble_means = "the terms of the series grow, so it diverges: neumann_alpha must be below 2 / (largest "
                          "eigenvalue of H)";
    return bt_add(x, bt_mul(alpha, next));
}

const bt_method_def bt_method_neumann = {
    .name = "neumann",
    .hypers = {{"iterations", 1, 0, 1e9, "number of terms after the first", BT_HYPER_WHOLE},
               {"alpha", 1, 0, 1e9, "step of the series; must be below 2 / (largest eigenvalue of H)", BT_HYPER_REAL}},
    .slots = {"term"},
    .start = start,
    .step = step,
};

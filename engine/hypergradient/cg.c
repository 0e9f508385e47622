/* engine/hypergradient/cg.c: K steps of conjugate gradients on (H + damping I) x = v from x = 0: Hestenes and Stiefel
 * (1952); for hypergradients: Pedregosa (ICML 2016), Rajeswaran et al. (NeurIPS 2019). A scaling of H by cg_alpha,
 * which is undone in x, leaves the iterates as they are: the key is accepted and changes nothing. */
#include "engine/hypergradient/methods.h"
#include "optim/rule.h"

static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

/* a / b, and 0 where b is not positive: at the solution, and along a direction of no or negative curvature. */
static bt_tensor *ratio(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *positive = bt_greater(b, 0);
    return bt_where(positive, bt_div(a, bt_where(positive, b, 1)), 0);
}

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    bt_slot_set(rule, "residual", v);
    bt_slot_set(rule, "direction", v);
    return bt_zeros_like(v);
}

static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    bt_tensor *r = bt_slot(rule, "residual"), *p = bt_slot(rule, "direction");
    bt_tensor *hp = bt_add(bt_hvp(rule, p), bt_mul(bt_hyper(rule, "damping"), p));
    bt_tensor *rr = dot(r, r), *curvature = dot(p, hp), *length = ratio(rr, curvature);
    bt_tensor *next = bt_sub(r, bt_mul(length, hp));
    rule->trouble = bt_less(curvature, 0);
    rule->trouble_means = "a direction of negative curvature was met, where the iteration stops: H is not positive "
                          "definite there (more steps of the lower problem, or cg_damping, may help)";
    bt_slot_set(rule, "residual", next);
    bt_slot_set(rule, "direction", bt_add(next, bt_mul(ratio(dot(next, next), rr), p)));
    return bt_add(x, bt_mul(length, p));
}

const bt_method_def bt_method_cg = {
    .name = "cg",
    .hypers = {{"iterations", 1, 0, 1e9, "how many steps"},
               {"alpha", 1, 1e-300, 1e300, "Betty's scaling of H; the result does not depend on it"},
               {"damping", 0, 0, 1e9, "added to the diagonal of H"}},
    .slots = {"residual", "direction"},
    .start = start,
    .step = step,
};

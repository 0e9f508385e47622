/* engine/solve/method_cg.c: K steps of conjugate gradients on (H + damping I) x = v from x = 0: Hestenes and Stiefel
 * (1952); for hypergradients: Pedregosa (ICML 2016), Rajeswaran et al. (NeurIPS 2019). Scaling H by cg_alpha and
 * undoing that in x would not change the iterates, so this key is accepted but has no effect. */
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "optim/rule.h"

static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

/* a / b, or 0 if b is not positive: at the solution, and along a direction of zero or negative curvature. */
static bt_tensor *ratio(bt_tensor *a, bt_tensor *b)
{
    bt_tensor *positive = bt_greater(b, 0);
    return bt_where(positive, bt_div(a, bt_where(positive, b, 1)), 0);
}

static bt_tensor *damped(bt_rule *rule, bt_tensor *x)
{
    double number;
    bt_tensor *damping = bt_hyper(rule, "damping"), *hx = bt_hvp(rule, x);
    bool none = bt_uniform(damping, &number) && number == 0; /* no simplification drops 0 x, since x may be infinite */
    return none ? hx : bt_add(hx, bt_mul(damping, x));
}

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    bt_tensor *last = bt_last_solution(rule), *residual = last ? bt_sub(v, damped(rule, last)) : v;
    bt_slot_set(rule, "residual", residual);
    bt_slot_set(rule, "direction", residual);
    return last ? last : bt_zeros_like(v);
}

/* Once the residual is small enough, nothing changes any more: the x that achieved it is the result. */
static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *r = bt_slot(rule, "residual"), *p = bt_slot(rule, "direction"), *hp = damped(rule, p);
    bt_tensor *rr = dot(r, r), *curvature = dot(p, hp), *length = ratio(rr, curvature);
    bt_tensor *on = bt_greater(rr, bt_mul(bt_square(bt_hyper(rule, "tolerance")), dot(v, v)));
    length = bt_where(on, length, 0);
    bt_tensor *next = bt_sub(r, bt_mul(length, hp));
    rule->trouble = bt_mul(on, bt_less(curvature, 0));
    rule->trouble_means = "the iteration stopped at a direction of negative curvature: H is not positive definite "
                          "there (more steps of the lower problem, or cg_damping, may help)";
    bt_slot_set(rule, "residual", next);
    bt_slot_set(rule, "direction", bt_where(on, bt_add(next, bt_mul(ratio(dot(next, next), rr), p)), p));
    return bt_add(x, bt_mul(length, p));
}

const bt_method_def bt_method_cg = {
    .name = "cg",
    .hypers = {{"iterations", 1, 0, 1e9, "number of steps", BT_HYPER_WHOLE},
               {"alpha", 1, 1e-300, 1e300, "Betty's scaling of H; does not change the result", BT_HYPER_REAL},
               {"damping", 0, 0, 1e9, "added to the diagonal of H", BT_HYPER_REAL},
               {"tolerance", 0, 0, 1, "stop when |v - H x| is at most this times |v|; 0: do all steps", BT_HYPER_REAL},
               {"warm_start", 0, 0, 1, "start from the x of the last upper step instead of 0", BT_HYPER_SWITCH}},
    .slots = {"residual", "direction"},
    .start = start,
    .step = step,
};

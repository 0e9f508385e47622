/* engine/solve/method_nystrom.c: x = (H_k + rho I)^-1 v with the Nystroem approximation H_k = C W^-1 C^T of rank k: C
 * are k columns of H, W the rows of the same numbers in them. Hataya and Yamada, "Nystroem method for accurate and
 * scalable implicit differentiation" (AISTATS 2023). By Woodbury x = v / rho - C M^-1 C^T v / rho^2 with M = W + C^T C
 * / rho.
 *
 * No k x k system is stored or solved: the columns come one by one, and each is made conjugate with respect to M to
 * those before, whose images q = C u, of length <u, u>_M = 1, are the rows of a stack. For the unit vector e of the new
 * column h = H e, <u, e>_M = q . (e + h / rho), and its share of x is -q (q . v) / rho^2. */
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "optim/rule.h"
#include <float.h>

#define MEANS(least, precision)                                                                                        \
    "a column was left out, along which the curvature is negative: H is not positive definite (more steps of the "     \
    "lower problem, or a larger nystrom_rho, may help); or nystrom_rho is so small that x is lost in rounding "        \
    "(with " precision " it should be at least " least " times the largest eigenvalue of H)"

static double rounding_of(const bt_tensor *x) { return x->dtype == BT_F64 ? DBL_EPSILON : (double)FLT_EPSILON; }

static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

static bt_tensor *start(bt_rule *rule, bt_tensor *v) { return bt_div(v, bt_hyper(rule, "rho")); }

/* Row `at` of the stack becomes the vector. */
static bt_tensor *with_row(bt_tensor *stack, bt_tensor *at, bt_tensor *row)
{
    int64_t count = bt_dim(stack, 0), *places = bt_region_alloc(bt_trace_now()->graph->region, (size_t)count * 8);
    for (int64_t i = 0; places && i < count; i++)
        places[i] = i;
    if (!places)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    bt_tensor *here = bt_equal(bt_constant(BT_ARRAY(places, count, 1)), at);
    return bt_where(here, bt_unsqueeze(row, 0), stack);
}

/* Whether x is so much smaller than v / rho, from which it is subtracted, that fewer than three digits are left. */
static bt_tensor *cancelled(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    double lost = 1e3 * rounding_of(x);
    return bt_less(bt_norm_square(bt_mul(bt_hyper(rule, "rho"), x)), bt_mul(lost * lost, bt_norm_square(v)));
}

static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *rho = bt_hyper(rule, "rho"), *rows = bt_slot(rule, "rows"), *e = bt_unit(rule), *h = bt_hvp(rule, e);
    bt_tensor *with = bt_add(e, bt_div(h, rho)), *whole = dot(h, with);
    bt_tensor *shares = bt_matmul(rows, with);
    bt_tensor *part = bt_sub(h, bt_reshape(bt_matmul(bt_unsqueeze(shares, 0), rows), -1)), *square = dot(part, with);
    /* What is left of a column that depends on those before is rounding: H_k has it already. */
    bt_tensor *least = bt_mul(64 * rounding_of(x), bt_abs(whole));
    bt_tensor *good = bt_greater(square, least);
    bt_tensor *row = bt_where(good, bt_div(part, bt_sqrt(bt_where(good, square, 1))), 0);
    x = bt_sub(x, bt_mul(bt_div(dot(row, v), bt_square(rho)), row));
    rule->trouble = bt_maximum(bt_as(bt_less(square, bt_neg(least)), BT_I64), bt_as(cancelled(rule, v, x), BT_I64));
    rule->trouble_means = x->dtype == BT_F64 ? MEANS("2e-13", "fp64") : MEANS("1e-4", "fp32");
    bt_slot_set(rule, "rows", with_row(rows, bt_iteration(rule), row));
    return x;
}

const bt_method_def bt_method_nystrom = {
    .name = "nystrom",
    .hypers = {{"rank", 10, 0, 1e9, "how many columns of H are used; at most as many as there are parameters",
                BT_HYPER_WHOLE},
               {"rho", 0.01, 1e-30, 1e30, "added to the diagonal of the approximation", BT_HYPER_REAL}},
    .stacks = {"rows"},
    .steps = "rank",
    .start = start,
    .step = step,
};

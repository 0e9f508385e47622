/* engine/solve/method_nystrom.c: x = (H_k + rho I)^-1 v with the Nystroem approximation H_k = C W^-1 C^T of rank k: C
 * are k columns of H, W its rows at the same indices. Hataya and Yamada, "Nystroem method for accurate and scalable
 * implicit differentiation" (AISTATS 2023). By Woodbury x = v / rho - C M^-1 C^T v / rho^2 with M = W + C^T C / rho.
 *
 * No k x k system is stored or solved: the columns come one at a time, and each is made M-conjugate to the earlier
 * ones. This gives combinations u of unit vectors with <u, u>_M = 1. Their images q = H u are the rows of a stack, and
 * x is v / rho minus the sum of q (q . v) / rho^2.
 *
 * If rho is small compared with H, this is a small difference of large numbers. With as many columns as parameters,
 * if the part of v outside their range is zero or small, x is assembled from two parts instead. In the range of C it
 * is y = the sum of u (q . v) / rho, because H y is the sum of q (q . v) / rho, as H_k x is; outside it, v / rho.
 * This needs two more stacks: the u, and the orthonormalised q. */
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "optim/rule.h"
#include <float.h>

#define MEANS(least, precision)                                                                                        \
    "a column was left out, because the curvature along it is negative: H is not positive definite (more steps of "    \
    "the lower problem, or a larger nystrom_rho, may help); or nystrom_rho is so small that x is lost in rounding "    \
    "(with " precision " it should be at least " least " times the largest eigenvalue of H, or nystrom_rank be the "   \
    "number of parameters)"

static double rounding_of(const bt_tensor *x) { return x->dtype == BT_F64 ? DBL_EPSILON : (double)FLT_EPSILON; }

static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

static bt_tensor *both(bt_tensor *a, bt_tensor *b) { return bt_greater(bt_mul(bt_as(a, BT_I64), bt_as(b, BT_I64)), 0); }

static bt_tensor *sum_of(bt_tensor *rows, bt_tensor *shares)
{
    return bt_reshape(bt_matmul(bt_unsqueeze(shares, 0), rows), -1);
}

/* Whether there are as many columns as parameters. */
static bool is_whole(bt_rule *rule, const bt_tensor *v) { return bt_dim(bt_slot(rule, "rows"), 0) >= bt_dim(v, 0); }

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    bt_tensor *x = bt_div(v, bt_hyper(rule, "rho"));
    if (!is_whole(rule, v))
        return x;
    bt_slot_set(rule, "rest", v);
    bt_slot_set(rule, "difference", x);
    bt_slot_set(rule, "inside", bt_zeros_like(v));
    return x;
}

/* Sets row `at` of the stack to the vector. */
static void set_row(bt_rule *rule, const char *stack, bt_tensor *row)
{
    bt_tensor *rows = bt_slot(rule, stack);
    int64_t count = bt_dim(rows, 0), *places = bt_region_alloc(bt_trace_now()->graph->region, (size_t)count * 8);
    for (int64_t i = 0; places && i < count; i++)
        places[i] = i;
    if (!places) {
        bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
        return;
    }
    bt_tensor *here = bt_equal(bt_constant(BT_ARRAY(places, count, 1)), bt_iteration(rule));
    bt_slot_set(rule, stack, bt_where(here, bt_unsqueeze(row, 0), rows));
}

/* Whether |x| is below `part` times |v| / rho. */
static bt_tensor *below(bt_rule *rule, double part, bt_tensor *v, bt_tensor *x)
{
    return bt_less(bt_norm_square(bt_mul(bt_hyper(rule, "rho"), x)), bt_mul(part * part, bt_norm_square(v)));
}

static void trouble(bt_rule *rule, bt_tensor *negative, bt_tensor *lost, bt_dtype dtype)
{
    rule->trouble = bt_maximum(bt_as(negative, BT_I64), bt_as(lost, BT_I64));
    rule->trouble_means = dtype == BT_F64 ? MEANS("2e-13", "fp64") : MEANS("1e-4", "fp32");
}

/* ---- some columns ---- */

static bt_tensor *some(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *rho = bt_hyper(rule, "rho"), *rows = bt_slot(rule, "rows"), *e = bt_unit(rule), *h = bt_hvp(rule, e);
    bt_tensor *with = bt_add(e, bt_div(h, rho)), *whole = dot(h, with);
    bt_tensor *shares = bt_matmul(rows, with);
    bt_tensor *part = bt_sub(h, sum_of(rows, shares)), *square = dot(part, with);
    /* If a column depends on the earlier ones, only rounding errors remain of it: H_k covers it already. */
    bt_tensor *least = bt_mul(64 * rounding_of(x), bt_abs(whole));
    bt_tensor *good = bt_greater(square, least);
    bt_tensor *row = bt_where(good, bt_div(part, bt_sqrt(bt_where(good, square, 1))), 0);
    x = bt_sub(x, bt_mul(bt_div(bt_div(dot(row, v), rho), rho), row));
    /* x is so much smaller than v / rho that fewer than three digits are left. */
    trouble(rule, bt_less(square, bt_neg(least)), below(rule, 1e3 * rounding_of(x), v, x), x->dtype);
    set_row(rule, "rows", row);
    return x;
}

/* ---- all columns ---- */

enum { LEAST = 16 }; /* in units of rounding: a remainder that is relatively smaller is only rounding error */

typedef struct column {
    bt_tensor *u, *q, *p; /* a combination of unit vectors, its image, and a direction orthogonal to all others */
    bt_tensor *negative;  /* whether the curvature along it is negative */
} column;

/* Makes it conjugate to the rows; twice, because of rounding. */
static void make_conjugate(bt_rule *rule, column *c)
{
    bt_tensor *us = bt_slot(rule, "units"), *qs = bt_slot(rule, "rows");
    for (int again = 0; again < 2; again++) {
        bt_tensor *shares = bt_matmul(qs, bt_add(c->u, bt_div(c->q, bt_hyper(rule, "rho"))));
        c->u = bt_sub(c->u, sum_of(us, shares));
        c->q = bt_sub(c->q, sum_of(qs, shares));
    }
}

/* Makes it orthogonal to the rows of the stack, and of length 1. */
static bt_tensor *orthonormal(bt_tensor *rows, bt_tensor *x)
{
    x = bt_sub(x, sum_of(rows, bt_matmul(rows, x)));
    bt_tensor *square = bt_norm_square(x), *some = bt_greater(square, 0);
    return bt_where(some, bt_div(x, bt_sqrt(bt_where(some, square, 1))), 0);
}

/* The next row of each stack. It is 0 if the column depends on the earlier ones (only rounding errors remain of it, and
 * H_k covers it already), or if the curvature along it is not positive. */
static column add_column(bt_rule *rule)
{
    bt_tensor *e = bt_unit(rule), *h = bt_hvp(rule, e);
    column c = {.u = e, .q = h};
    make_conjugate(rule, &c);
    double noise = LEAST * rounding_of(h);
    bt_tensor *size = bt_norm_square(c.q), *own = dot(c.u, c.q), *rest = bt_div(size, bt_hyper(rule, "rho"));
    bt_tensor *square = bt_add(own, rest), *least = bt_mul(64 * rounding_of(h), bt_add(bt_abs(own), rest));
    bt_tensor *new = bt_greater(size, bt_mul(noise * noise, bt_mul(bt_norm_square(c.u), bt_norm_square(h))));
    bt_tensor *good = both(new, bt_greater(square, least)), *length = bt_sqrt(bt_where(good, square, 1));
    c.p = bt_where(good, orthonormal(bt_slot(rule, "basis"), c.q), 0);
    c.u = bt_where(good, bt_div(c.u, length), 0);
    c.q = bt_where(good, bt_div(c.q, length), 0);
    c.negative = both(new, bt_less(square, bt_neg(least)));
    set_row(rule, "units", c.u);
    set_row(rule, "rows", c.q);
    set_row(rule, "basis", c.p);
    return c;
}

/* Adds a multiple of the vector to the slot. */
static bt_tensor *add_to(bt_rule *rule, const char *slot, bt_tensor *much, bt_tensor *x)
{
    bt_tensor *sum = bt_add(bt_slot(rule, slot), bt_mul(much, x));
    bt_slot_set(rule, slot, sum);
    return sum;
}

/* The part of v outside the range of the columns; 0 if it is negligible. */
static bt_tensor *outside(bt_rule *rule, bt_tensor *v, bt_tensor *p)
{
    double least = LEAST * rounding_of(v);
    bt_tensor *rest = add_to(rule, "rest", bt_neg(dot(p, bt_slot(rule, "rest"))), p);
    return bt_where(bt_greater(bt_norm_square(rest), bt_mul(least * least, bt_norm_square(v))), rest, 0);
}

static bt_tensor *all(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    column c = add_column(rule);
    bt_tensor *rho = bt_hyper(rule, "rho"), *share = bt_div(dot(c.q, v), rho), *rest = outside(rule, v, c.p);
    bt_tensor *difference = add_to(rule, "difference", bt_neg(bt_div(share, rho)), c.q);
    bt_tensor *y = add_to(rule, "inside", share, c.u), *basis = bt_rule_next(bt_rule_slot(rule, "basis"));
    bt_tensor *apart = bt_add(sum_of(basis, bt_matmul(basis, y)), bt_div(rest, rho));
    /* Both are exact up to rounding: the error of the difference is eps |v| / rho, that of the parts depends on the
     * condition of C. */
    x = bt_where(below(rule, 1e-2, v, apart), apart, difference);
    bt_tensor *last = bt_equal(bt_iteration(rule), bt_dim(basis, 0) - 1);
    bt_tensor *lost = both(bt_greater(bt_norm_square(rest), 0), below(rule, 1e3 * rounding_of(x), v, x));
    trouble(rule, c.negative, both(last, lost), x->dtype);
    return x;
}

static bt_tensor *step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    return is_whole(rule, v) ? all(rule, v, x) : some(rule, v, x);
}

const bt_method_def bt_method_nystrom = {
    .name = "nystrom",
    .hypers = {{"rank", 10, 0, 1e9, "number of columns of H to use, at most the number of parameters", BT_HYPER_WHOLE},
               {"rho", 0.01, 1e-30, 1e30, "added to the diagonal of the approximation", BT_HYPER_REAL}},
    .slots = {"rest", "difference", "inside"},
    .stacks = {"rows", "units", "basis"},
    .steps = "rank",
    .start = start,
    .step = step,
};

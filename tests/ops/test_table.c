/* Derivatives of every op in the table: vjp against jvp, both against finite differences in double precision, to third
 * order; reverse over reverse, forward over reverse and reverse over forward agree; second derivatives are symmetric; a
 * hand-written rule equals the derivative of the body. */
#include "cases.h"

#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { X = CASE_INPUTS, Y = BT_MAX_OUTPUTS };

/* A case with everything to compare. xs: the inputs with a derivative; u: cotangents of the outputs; v, w: two tangents
 * of the inputs. */
typedef struct walk {
    setup s;
    const op_case *c;
    int xs, ys;
    bt_tensor *x[X], *y[Y];
    int place[X]; /* which input x[i] is */
    extra u[Y], v[X], w[X];
    bt_tensor *g[X];    /* vjp: J^T u, a function of x */
    bt_tensor *t[Y];    /* jvp: J v */
    bt_tensor *gv[X];   /* jvp of g along v: the second derivative */
    bt_tensor *h[X];    /* jvp of g along w */
    bt_tensor *back[X]; /* vjp of g with w */
    bt_tensor *mix[X];  /* vjp of t with u */
    bt_tensor *k[X];    /* jvp of h along v: the third derivative */
    bt_tensor *last[X]; /* vjp of h with v */
} walk;

static void leaves_of(const extra *extras, int count, bt_tensor **leaves)
{
    for (int i = 0; i < count; i++)
        leaves[i] = extras[i].leaf;
}

/* Bit i of x_mask: the i-th differentiable input has a tangent; bit o of y_mask: the o-th output has a cotangent. */
static void walk_begin(walk *all, const op_case *c, const bt_op *op, unsigned x_mask, unsigned y_mask)
{
    unsigned inputs = 0, outputs = 0;
    *all = (walk){.c = c};
    setup *s = &all->s;
    setup_begin(s, c, op);
    ck_assert_msg(s->node != NULL, "%s: %s", c->name, s->graph->message);
    for (int i = 0; i < s->node->inputs; i++)
        if (bt_dtype_floats(s->in[i]->dtype) && (op->info->differentiable >> i & 1) && (x_mask >> inputs++ & 1)) {
            all->place[all->xs] = i;
            all->x[all->xs++] = s->in[i];
        }
    for (int o = 0; o < s->node->outputs; o++)
        if (bt_dtype_floats(s->out[o]->dtype) && (y_mask >> outputs++ & 1))
            all->y[all->ys++] = s->out[o];
    for (int o = 0; o < all->ys; o++)
        all->u[o] = extra_like(s, all->y[o], 100 + (uint64_t)o);
    for (int i = 0; i < all->xs; i++) {
        all->v[i] = extra_like(s, all->x[i], 200 + (uint64_t)i);
        all->w[i] = extra_like(s, all->x[i], 300 + (uint64_t)i);
    }
}

/* orders: 1 stops after first derivatives. */
static void differentiate(walk *all, int orders)
{
    bt_graph *graph = all->s.graph;
    bt_tensor *u[Y], *v[X], *w[X];
    leaves_of(all->u, all->ys, u);
    leaves_of(all->v, all->xs, v);
    leaves_of(all->w, all->xs, w);
    bt_vjp(graph, all->y, u, all->ys, all->x, all->xs, all->g, false);
    bt_jvp(graph, all->x, v, all->xs, all->y, all->ys, all->t, false);
    if (orders > 1) {
        bt_jvp(graph, all->x, v, all->xs, all->g, all->xs, all->gv, false);
        bt_jvp(graph, all->x, w, all->xs, all->g, all->xs, all->h, false);
        bt_vjp(graph, all->g, w, all->xs, all->x, all->xs, all->back, false);
        bt_vjp(graph, all->t, u, all->ys, all->x, all->xs, all->mix, false);
        bt_jvp(graph, all->x, v, all->xs, all->h, all->xs, all->k, false);
        bt_vjp(graph, all->h, v, all->xs, all->x, all->xs, all->last, false);
    }
    ck_assert_msg(graph->status == BT_OK, "%s: %s", all->c->name, graph->message);
    ck_assert_msg(bt_graph_verify(graph, "differentiation") == BT_OK, "%s: %s", all->c->name, bt_error());
}

static void walk_end(walk *all)
{
    for (int o = 0; o < all->ys; o++)
        free(all->u[o].values);
    for (int i = 0; i < all->xs; i++) {
        free(all->v[i].values);
        free(all->w[i].values);
    }
    setup_end(&all->s);
}

/* The whole graph at x + move v. */
static interpreter *at(const walk *all, double move)
{
    interpreter *in = interpreter_new(all->s.graph);
    setup_values(&all->s, all->c, in);
    for (int i = 0; i < all->xs; i++) {
        int64_t count = bt_tensor_count(all->x[i]);
        double *moved = calloc((size_t)count + 1, sizeof *moved);
        ck_assert_ptr_nonnull(moved);
        for (int64_t e = 0; e < count; e++)
            moved[e] = all->c->values[all->place[i]][e] + move * all->v[i].values[e];
        interpreter_set(in, all->x[i], moved);
        interpreter_set(in, all->v[i].leaf, all->v[i].values);
        interpreter_set(in, all->w[i].leaf, all->w[i].values);
        free(moved);
    }
    for (int o = 0; o < all->ys; o++)
        interpreter_set(in, all->u[o].leaf, all->u[o].values);
    interpreter_run(in);
    return in;
}

static double element(const interpreter *in, const bt_tensor *x, int64_t e)
{
    return x ? interpreter_value(in, x)[e] : 0; /* no tensor: zero */
}

static double inner(const interpreter *in, bt_tensor *const *a, const extra *b, int count, double *scale)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int64_t e = 0; e < bt_tensor_count(b[i].leaf); e++) {
            double product = element(in, a[i], e) * b[i].values[e];
            sum += product;
            *scale += fabs(product);
        }
    return sum;
}

static void assert_inner(const walk *all, const interpreter *in, const char *what, bt_tensor *const *a, const extra *b,
                         int bs, bt_tensor *const *c, const extra *d, int ds)
{
    double scale = 1, first = inner(in, a, b, bs, &scale), second = inner(in, c, d, ds, &scale);
    ck_assert_msg(fabs(first - second) <= (1e-12 + case_rounding(all->c)) * scale, "%s: %s: %.17g and %.17g",
                  all->c->name, what, first, second);
}

static void assert_equal(const walk *all, const interpreter *in, const char *what, bt_tensor *const *a,
                         const interpreter *other, bt_tensor *const *b, bt_tensor *const *like, int count,
                         double tolerance)
{
    for (int i = 0; i < count; i++) {
        double scale = 1;
        for (int64_t e = 0; e < bt_tensor_count(like[i]); e++)
            scale = fmax(scale, fabs(element(in, a[i], e)));
        for (int64_t e = 0; e < bt_tensor_count(like[i]); e++) {
            double first = element(in, a[i], e), second = element(other, b[i], e);
            ck_assert_msg(fabs(first - second) <= tolerance * scale, "%s: %s of %d, [%lld]: %.17g and %.17g",
                          all->c->name, what, i, (long long)e, first, second);
        }
    }
}

/* `slope` against the difference quotient of f along v, by Richardson extrapolation: error of fourth order in the
 * step. */
static void assert_slope(const walk *all, const interpreter *in, interpreter *const *moved, double step,
                         const char *what, bt_tensor *const *f, bt_tensor *const *slope, bt_tensor *const *like,
                         int count)
{
    for (int i = 0; i < count; i++) {
        double scale = 1;
        for (int64_t e = 0; e < bt_tensor_count(like[i]); e++)
            scale = fmax(scale, fmax(fabs(element(in, f[i], e)), fabs(element(in, slope[i], e))));
        for (int64_t e = 0; e < bt_tensor_count(like[i]); e++) {
            double wide = (element(moved[0], f[i], e) - element(moved[1], f[i], e)) / (2 * step);
            double narrow = (element(moved[2], f[i], e) - element(moved[3], f[i], e)) / step;
            double expected = (4 * narrow - wide) / 3, found = element(in, slope[i], e);
            ck_assert_msg(fabs(found - expected) <= 2e-7 * scale, "%s: %s of %d, [%lld]: found %.17g, expected %.10g",
                          all->c->name, what, i, (long long)e, found, expected);
        }
    }
}

static void assert_differences(const walk *all, const interpreter *in)
{
    const double step = 4e-4;
    interpreter *moved[] = {at(all, step), at(all, -step), at(all, step / 2), at(all, -step / 2)};
    assert_slope(all, in, moved, step, "first derivative", all->y, all->t, all->y, all->ys);
    assert_slope(all, in, moved, step, "second derivative", all->g, all->gv, all->x, all->xs);
    assert_slope(all, in, moved, step, "third derivative", all->h, all->k, all->x, all->xs);
    for (int i = 0; i < BT_COUNT_OF(moved); i++)
        interpreter_free(moved[i]);
}

static int check_part(const op_case *c, unsigned x_mask, unsigned y_mask)
{
    walk all;
    walk_begin(&all, c, c->op, x_mask, y_mask);
    if (all.xs > 0) {
        differentiate(&all, c->sample.kink ? 1 : 3);
        interpreter *in = at(&all, 0);
        assert_inner(&all, in, "<u, J v> and <J^T u, v>", all.t, all.u, all.ys, all.g, all.v, all.xs);
        if (!c->sample.kink) {
            assert_inner(&all, in, "<w, H v> and <v, H w>", all.gv, all.w, all.xs, all.h, all.v, all.xs);
            assert_equal(&all, in, "reverse and forward over reverse", all.back, in, all.h, all.x, all.xs, 1e-12);
            assert_equal(&all, in, "reverse over forward and forward over reverse", all.mix, in, all.gv, all.x, all.xs,
                         1e-12);
            assert_equal(&all, in, "third order, reverse and forward", all.last, in, all.k, all.x, all.xs, 1e-11);
            assert_differences(&all, in);
        }
        interpreter_free(in);
    }
    int inputs = all.xs;
    walk_end(&all);
    return inputs;
}

static bool has_f32(const bt_graph *graph)
{
    bool found = false;
    for (int64_t n = 0; n < graph->node_count; n++)
        for (int o = 0; o < graph->nodes[n]->outputs; o++)
            found |= graph->nodes[n]->out[o].dtype == BT_F32;
    return found;
}

/* The same graph compiled: inlined, simplified, placed in one arena, run by kernels. */
static void check_compiled(const op_case *c)
{
    walk all;
    walk_begin(&all, c, c->op, ~0U, ~0U);
    differentiate(&all, c->sample.kink ? 1 : 3);
    bt_tensor **lists[] = {all.y, all.g, all.t, all.gv, all.h, all.k};
    int counts[] = {all.ys, all.xs, all.ys, all.xs, all.xs, all.xs}, outputs = 0;
    bt_array results[6 * CASE_INPUTS];
    for (int l = 0; l < BT_COUNT_OF(lists); l++)
        for (int i = 0; i < counts[l]; i++)
            if (lists[l][i]) {
                bt_array array = bt_tensor_array(lists[l][i]);
                array.dtype = BT_F64;
                array.data = calloc((size_t)bt_array_count(array) + 1, sizeof(double));
                ck_assert_ptr_nonnull(array.data);
                results[outputs++] = array;
                bt_graph_output(all.s.graph, lists[l][i]);
            }
    double tolerance = c->op == &bt_op_normal ? 1e-3 : has_f32(all.s.graph) ? 3e-5 : 1e-11;
    tolerance += case_rounding(c);
    interpreter *in = at(&all, 0);
    ck_assert_msg(bt_evaluate(all.s.graph, results) == BT_OK, "%s: %s", c->name, bt_error());
    for (int o = 0; o < outputs; o++) {
        const double *expected = interpreter_value(in, all.s.graph->outputs[o]), *found = results[o].data;
        double scale = 1;
        for (int64_t e = 0; e < bt_array_count(results[o]); e++)
            scale = fmax(scale, fabs(expected[e]));
        for (int64_t e = 0; e < bt_array_count(results[o]); e++)
            ck_assert_msg(fabs(found[e] - expected[e]) <= tolerance * scale,
                          "%s: result %d (%s), [%lld]: found %.17g, expected %.17g", c->name, o,
                          all.s.graph->outputs[o]->node->op->name, (long long)e, found[e], expected[e]);
        free(results[o].data);
    }
    interpreter_free(in);
    walk_end(&all);
}

/* Loop index: 2 * op + dtype. */
START_TEST(test_compiled)
{
    const bt_op *op = bt_op_table[_i / 2];
    bt_dtype dtype = _i % 2 ? BT_F32 : BT_F64;
    if (bt_op_flags(op) & (BT_OP_DETACH | BT_OP_EFFECT))
        return;
    case_list list = cases_of(op, dtype);
    for (int i = 0; i < list.count; i++)
        check_compiled(&list.cases[i]);
    cases_free(&list);
}
END_TEST

/* All inputs together, then each alone, then all but one: a rule gets NULL for inputs without a tangent. Each output
 * alone. */
static void check_case(const op_case *c)
{
    int inputs = check_part(c, ~0U, ~0U), outputs = bt_op_outputs(c->op, inputs);
    for (int i = 0; i < inputs && inputs > 1; i++) {
        check_part(c, 1U << i, ~0U);
        if (inputs > 2)
            check_part(c, ~(1U << i), ~0U);
    }
    for (int o = 0; o < outputs && outputs > 1; o++)
        check_part(c, ~0U, 1U << o);
}

START_TEST(test_derivatives)
{
    case_list list = cases_of(bt_op_table[_i], BT_F64);
    for (int i = 0; i < list.count; i++)
        if (!(bt_op_flags(list.cases[i].op) & BT_OP_DETACH))
            check_case(&list.cases[i]);
    cases_free(&list);
}
END_TEST

/* The same op without its rules. Derivative ops refer to their base op for the lifetime of the library. */
static const bt_op *without_rules(int index)
{
    static bt_op twins[256];
    ck_assert_int_lt(index, BT_COUNT_OF(twins));
    twins[index] = *bt_op_table[index];
    twins[index].vjp = NULL;
    twins[index].jvp = NULL;
    return &twins[index];
}

static void check_rule(const op_case *c, const bt_op *twin)
{
    walk rule, body;
    int orders = c->sample.kink ? 1 : 3;
    double rounding = case_rounding(c);
    walk_begin(&rule, c, c->op, ~0U, ~0U); /* traces nest: finish one before beginning the next */
    differentiate(&rule, orders);
    walk_begin(&body, c, twin, ~0U, ~0U);
    differentiate(&body, orders);
    interpreter *a = at(&rule, 0), *b = at(&body, 0);
    assert_equal(&rule, a, "vjp, by rule and by body", rule.g, b, body.g, rule.x, rule.xs, 1e-12 + rounding);
    assert_equal(&rule, a, "jvp, by rule and by body", rule.t, b, body.t, rule.y, rule.ys, 1e-12 + rounding);
    assert_equal(&rule, a, "second derivative, by rule and by body", rule.gv, b, body.gv, rule.x, rule.xs,
                 1e-11 + rounding);
    assert_equal(&rule, a, "third derivative, by rule and by body", rule.k, b, body.k, rule.x, rule.xs,
                 1e-11 + rounding);
    interpreter_free(a);
    interpreter_free(b);
    walk_end(&body);
    walk_end(&rule);
}

START_TEST(test_rules_equal_bodies)
{
    const bt_op *op = bt_op_table[_i];
    if (!op->body || !(op->vjp || op->jvp))
        return;
    case_list list = cases_of(op, BT_F64);
    for (int i = 0; i < list.count; i++)
        check_rule(&list.cases[i], without_rules(_i));
    cases_free(&list);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: derivatives");
    TCase *derivatives = tcase_create("derivatives");
    tcase_set_timeout(derivatives, 120);
    tcase_add_loop_test(derivatives, test_derivatives, 0, op_count());
    tcase_add_loop_test(derivatives, test_compiled, 0, 2 * op_count());
    tcase_add_loop_test(derivatives, test_rules_equal_bodies, 0, op_count());
    suite_add_tcase(suite, derivatives);
    return run_suite(suite);
}

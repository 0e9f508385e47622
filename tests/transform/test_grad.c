/* Derivatives of graphs, checked by hand: vjp, jvp, and each applied to both. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *vjp(bt_tensor *y, bt_tensor *cotangent, bt_tensor *x, bool through)
{
    bt_tensor *result;
    bt_vjp(s.graph, &y, &cotangent, 1, &x, 1, &result, through);
    return result;
}

static bt_tensor *jvp(bt_tensor *x, bt_tensor *tangent, bt_tensor *y, bool through)
{
    bt_tensor *result;
    bt_jvp(s.graph, &x, &tangent, 1, &y, 1, &result, through);
    return result;
}

static void outputs(bt_tensor *const *x, int count)
{
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, x[i]);
    scene_end(&s);
}
#define OUTPUTS(...)                                                                                                   \
    outputs((bt_tensor *const[]){__VA_ARGS__}, (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))

/* y = a b a + sin(a): a occurs in three places. */
START_TEST(a_value_used_several_times)
{
    bt_tensor *a = VECTOR(&s, "a", 2, -1), *b = VECTOR(&s, "b", 3, 5), *u = VECTOR(&s, "u", 10, 100);
    bt_tensor *y = bt_add(bt_mul(bt_mul(a, b), a), bt_sin(a));
    OUTPUTS(vjp(y, u, a, false), vjp(y, u, b, false), jvp(a, u, y, false), jvp(b, u, y, false));
    double da0 = 10 * (2 * 2 * 3 + cos(2)), da1 = 100 * (2 * -1 * 5 + cos(-1)), db0 = 10 * 4, db1 = 100 * 1;
    EXPECT_RUN(s.graph, 1e-14, da0, da1, db0, db1, da0, da1, db0, db1);
}
END_TEST

/* f = x^4 at 1.5, one order after the other. */
START_TEST(every_order)
{
    bt_tensor *x = SCALAR(&s, "x", 1.5), *y = bt_square(bt_square(x)), *d[6];
    for (int order = 0; order < 6; order++) {
        d[order] = y;
        y = bt_grad(y, x);
    }
    outputs(d, 6);
    EXPECT_RUN(s.graph, 1e-14, 5.0625, 13.5, 27, 36, 24, 0);
}
END_TEST

/* f = x0^2 x1 + x1^3: H = [[2 x1, 2 x0], [2 x0, 6 x1]], by all four pairs of vjp and jvp. */
START_TEST(hessian_times_vector)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *v = VECTOR(&s, "v", 1, -10), *one = bt_number(1, BT_F64);
    bt_tensor *a = bt_at(x, 0), *b = bt_at(x, 1);
    bt_tensor *f = bt_add(bt_mul(bt_square(a), b), bt_mul(b, bt_mul(b, b)));
    bt_tensor *g = vjp(f, one, x, false), *slope = jvp(x, v, f, false);
    OUTPUTS(g, slope, vjp(g, v, x, false), jvp(x, v, g, false), vjp(slope, one, x, false), jvp(x, v, slope, false));
    double h0 = 6 * 1 + 4 * -10, h1 = 4 * 1 + 18 * -10;
    EXPECT_RUN(s.graph, 1e-14, 12, 31, 12 - 310, h0, h1, h0, h1, h0, h1, h0 - 10 * h1);
}
END_TEST

START_TEST(several_results)
{
    bt_tensor *a = VECTOR(&s, "a", 2, 3), *b = VECTOR(&s, "b", 5, 7), *u = VECTOR(&s, "u", 1, 10),
              *t = SCALAR(&s, "t", 100);
    bt_tensor *y[] = {bt_mul(a, b), bt_sum(a), bt_exp(b), bt_mul(a, b), NULL};
    y[4] = y[0]; /* listed twice: counts twice */
    bt_tensor *cotangent[] = {u, t, NULL, NULL, u}, *x[] = {a, b}, *result[2];
    bt_vjp(s.graph, y, cotangent, 5, x, 2, result, false);
    bt_tensor *tangent[] = {u, NULL}, *moved[5];
    bt_jvp(s.graph, x, tangent, 2, y, 5, moved, false);
    ck_assert_ptr_null(moved[2]); /* exp(b) does not depend on a */
    ck_assert_ptr_eq(moved[0], moved[4]);
    OUTPUTS(result[0], result[1], moved[0], moved[1], moved[3]);
    EXPECT_RUN(s.graph, 1e-14, 2 * 5 + 100, 2 * 70 + 100, 2 * 2, 2 * 30, 5, 70, 11, 5, 70);
}
END_TEST

START_TEST(y_is_x)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *u = VECTOR(&s, "u", 5, 7), *y[] = {x, bt_square(x)}, *both[] = {u, u},
              *result;
    ck_assert_ptr_eq(vjp(x, u, x, false), u);
    ck_assert_ptr_eq(jvp(x, u, x, false), u);
    bt_vjp(s.graph, y, both, 2, &x, 1, &result, false);
    bt_tensor *twice[] = {x, x}, *results[2];
    bt_vjp(s.graph, &y[1], &u, 1, twice, 2, results, false); /* each entry gets the whole derivative */
    OUTPUTS(result, results[0], results[1]);
    EXPECT_RUN(s.graph, 1e-14, 5 + 20, 7 + 42, 20, 42, 20, 42);
}
END_TEST

START_TEST(what_is_not_reached)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *z = VECTOR(&s, "z", 5, 7), *y = bt_sum(bt_exp(x)),
              *one = bt_number(1, BT_F64);
    int64_t before = s.graph->node_count;
    ck_assert_ptr_null(vjp(y, one, z, false));
    ck_assert_ptr_null(jvp(z, z, y, false));
    ck_assert_ptr_null(jvp(x, NULL, y, false));
    ck_assert_ptr_null(vjp(y, NULL, x, false));
    ck_assert_ptr_null(vjp(x, x, y, false));       /* in the wrong direction */
    ck_assert_int_eq(s.graph->node_count, before); /* and nothing is recorded for it */
    bt_tensor *zero = bt_grad(y, z);
    ck_assert(!bt_poisoned(zero));
    OUTPUTS(zero);
    EXPECT_RUN(s.graph, 0, 0, 0);
}
END_TEST

/* x1 = exp(x0), y = x0 x1: the derivative by x0 includes the path through x1. */
START_TEST(one_x_behind_another)
{
    bt_tensor *x0 = SCALAR(&s, "x0", 0.5), *x1 = bt_exp(x0), *y = bt_mul(x0, x1), *one = bt_number(1, BT_F64);
    bt_tensor *x[] = {x0, x1}, *result[2], *t[] = {SCALAR(&s, "t0", 3), SCALAR(&s, "t1", 7)}, *moved;
    bt_vjp(s.graph, &y, &one, 1, x, 2, result, false);
    bt_jvp(s.graph, x, t, 2, &y, 1, &moved, false);
    OUTPUTS(result[0], result[1], moved);
    double d0 = exp(0.5) + 0.5 * exp(0.5), d1 = 0.5;
    EXPECT_RUN(s.graph, 1e-15, d0, d1, 3 * d0 + 7 * d1);
}
END_TEST

/* y = x detach(x^2) stop(x): detach is a constant or not, as requested; stop always is. */
START_TEST(detached_values)
{
    bt_tensor *x = SCALAR(&s, "x", 3), *u = SCALAR(&s, "u", 10);
    bt_tensor *y = bt_mul(bt_mul(x, bt_detach(bt_square(x))), bt_stop(x));
    OUTPUTS(vjp(y, u, x, false), jvp(x, u, y, false), vjp(y, u, x, true), jvp(x, u, y, true));
    EXPECT_RUN(s.graph, 1e-14, 270, 270, 270 + 540, 270 + 540);
}
END_TEST

/* g = d/dx of x detach(x) is x without differentiating detach; its own derivative sees the x in it, in both modes. */
START_TEST(detach_at_the_second_order)
{
    bt_tensor *x = SCALAR(&s, "x", 3), *y = bt_mul(x, bt_detach(x)), *one = bt_number(1, BT_F64);
    bt_tensor *g = vjp(y, one, x, false);
    ck_assert_ptr_null(vjp(g, one, x, false)); /* detach(x): a constant at every order */
    bt_tensor *field = vjp(g, one, x, true);
    OUTPUTS(g, field);
    EXPECT_RUN(s.graph, 0, 3, 1);
}
END_TEST

/* No derivative passes through integers and booleans, and they cause no crash. */
START_TEST(integers_on_the_way)
{
    bt_tensor *x = VECTOR(&s, "x", 2.5, -3.5, 1), *u = VECTOR(&s, "u", 1, 10, 100);
    bt_tensor *cut = bt_as(bt_as(x, BT_I32), BT_F64), *sign = bt_greater(x, 0);
    bt_tensor *y = bt_add(bt_mul(cut, x), bt_where(sign, bt_square(x), bt_as(bt_argmax(x, 0), BT_F64)));
    ck_assert_ptr_null(vjp(cut, u, x, false));
    ck_assert_ptr_null(vjp(sign, u, x, false)); /* y itself is not differentiable */
    ck_assert_ptr_null(jvp(x, u, bt_as(x, BT_I32), false));
    OUTPUTS(vjp(y, u, x, false), jvp(x, u, y, false));
    EXPECT_RUN(s.graph, 0, 2 + 5, -30, 100 * (1 + 2), 2 + 5, -30, 300);
}
END_TEST

/* An integer input has no derivative. */
START_TEST(integers_have_no_derivative)
{
    bt_tensor *i = bt_trace_read(scene_var(&s, "i", BT_I32, NUMBERS(1, 2), (const int64_t[]){2, BT_END}));
    bt_tensor *y = bt_mul(bt_as(i, BT_F64), 3), *u = VECTOR(&s, "u", 1, 10);
    ck_assert_ptr_null(vjp(y, u, i, false));
    ck_assert_ptr_null(jvp(i, i, y, false));
    OUTPUTS(bt_grad(bt_sum(y), i));
    EXPECT_RUN(s.graph, 0, 0, 0);
}
END_TEST

/* Rows gathered twice get both contributions, and so do overlapping windows. Against a plain loop. */
START_TEST(contributions_accumulate)
{
    static const double index[] = {3, 0, 3, 3, 1}, weight[] = {1, 10, 100, 1000, 1e4};
    bt_tensor *x = VECTOR(&s, "x", 0.5, 1, 2, 4, 8), *u = scene_read(&s, "u", weight, (const int64_t[]){5, BT_END});
    bt_tensor *i = bt_trace_read(scene_var(&s, "index", BT_I32, index, (const int64_t[]){5, BT_END}));
    bt_tensor *rows = bt_square(bt_gather(x, i)), *windows = bt_number(0, BT_F64);
    for (int from = 0; from < 3; from++)
        windows = bt_add(windows, bt_sum(bt_mul(from + 1, bt_slice(x, 0, from, from + 3))));
    OUTPUTS(vjp(rows, u, x, false), vjp(windows, bt_number(1, BT_F64), x, false));
    double expected[10] = {0}, values[] = {0.5, 1, 2, 4, 8};
    for (int k = 0; k < 5; k++)
        expected[(int)index[k]] += weight[k] * 2 * values[(int)index[k]];
    for (int from = 0; from < 3; from++)
        for (int k = from; k < from + 3; k++)
            expected[5 + k] += from + 1;
    expect_run(__FILE__, __LINE__, s.graph, expected, 10, 1e-15);
}
END_TEST

/* Two parameters with equal initial values stay separate. */
START_TEST(equal_values_are_different_parameters)
{
    bt_tensor *a = VECTOR(&s, "a", 1, 1), *b = VECTOR(&s, "b", 1, 1), *x[] = {a, b}, *result[2],
              *one = bt_number(1, BT_F64);
    bt_tensor *y = bt_sum(bt_add(bt_mul(2, a), bt_mul(3, b)));
    bt_vjp(s.graph, &y, &one, 1, x, 2, result, false);
    OUTPUTS(result[0], result[1]);
    EXPECT_RUN(s.graph, 0, 2, 2, 3, 3);
}
END_TEST

START_TEST(derivatives_carry_the_tag_of_their_node)
{
    bt_tensor *x = SCALAR(&s, "x", 3), *one = bt_number(1, BT_F64);
    s.trace.tag.owner = "lower";
    const char *before = bt_trace_push("net.layer1");
    bt_tensor *y = bt_exp(x);
    bt_trace_pop(before);
    s.trace.tag.owner = "upper";
    bt_tensor *g = vjp(y, one, x, false), *h = jvp(x, one, g, false);
    ck_assert_str_eq(g->node->tag.path, "net.layer1");
    ck_assert_str_eq(g->node->tag.owner, "lower");
    ck_assert(y->node->tag.order == 0 && g->node->tag.order == 1 && h->node->tag.order == 2);
    ck_assert(s.trace.tag.order == 0 && strcmp(s.trace.tag.owner, "upper") == 0);
    scene_end(&s);
}
END_TEST

/* ---- user-defined ops ---- */

static bt_status cube_kernel(const bt_launch *run)
{
    const double *x = run->in[0].data;
    double *y = run->out[0].data;
    for (int64_t i = 0; i < bt_array_count(run->in[0]); i++)
        y[i] = x[i] * x[i] * x[i];
    return BT_OK;
}

static void cube_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_mul(given[0], bt_mul(3, bt_square(in[0]))) : NULL;
}

static void bad_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                    bt_tensor **wanted)
{
    (void)attr, (void)out, (void)in;
    wanted[0] = bt_sum(given[0]);
}

#define CUBE                                                                                                           \
    .inputs = 1, .infer = bt_infer_same, .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = cube_kernel}}
static const bt_op opaque = {.name = "opaque", CUBE}, cube = {.name = "cube", CUBE, .vjp = cube_vjp},
                   bad = {.name = "bad", CUBE, .vjp = bad_vjp};

START_TEST(an_opaque_op_has_no_derivative)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *y = bt_sum(bt_apply(&opaque, NULL, x));
    bt_grad(y, x);
    ck_assert_int_eq(s.graph->status, BT_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "opaque has no derivative: give its record a body or a rule"));
    ck_assert_ptr_nonnull(strstr(s.graph->message, "f64[2] opaque %0"));
}
END_TEST

START_TEST(an_opaque_op_beside_the_path)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *z = VECTOR(&s, "z", 5, 7);
    OUTPUTS(bt_grad(bt_sum(bt_mul(x, bt_apply(&opaque, NULL, z))), x));
    EXPECT_RUN(s.graph, 0, 125, 343);
}
END_TEST

/* op.h: without a body, a missing jvp is derived from the vjp. */
START_TEST(forward_by_reverse)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *v = VECTOR(&s, "v", 1, -10), *y = bt_apply(&cube, NULL, bt_exp(x));
    bt_tensor *slope = jvp(x, v, y, false);
    bt_tensor *g = vjp(bt_sum(y), bt_number(1, BT_F64), x, false), *h = jvp(x, v, g, false);
    OUTPUTS(slope, g, h);
    double a = exp(2 * 3.0), b = exp(3 * 3.0);
    EXPECT_RUN(s.graph, 1e-14, 3 * a, -30 * b, 3 * a, 3 * b, 9 * a, -90 * b);
}
END_TEST

/* parts(a, b): a b, a^2 as f64, and their count: no cotangent is ever passed for an output that is not a float. */
static bt_status parts_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    out[0] = out[2] = in[0];
    out[1] = (bt_array){.dtype = BT_I64};
    return BT_OK;
}

static bt_status parts_kernel(const bt_launch *run)
{
    const double *a = run->in[0].data, *b = run->in[1].data;
    for (int64_t i = 0; i < bt_array_count(run->in[0]); i++) {
        ((double *)run->out[0].data)[i] = a[i] * b[i];
        ((double *)run->out[2].data)[i] = a[i] * a[i];
    }
    *(int64_t *)run->out[1].data = bt_array_count(run->in[0]);
    return BT_OK;
}

static void parts_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)out;
    ck_assert_ptr_null(given[1]);
    bt_tensor *first = given[0] ? bt_mul(given[0], in[1]) : NULL,
              *second = given[2] ? bt_mul(given[2], bt_mul(2, in[0])) : NULL;
    wanted[0] = bt_accumulate(first, second);
    wanted[1] = given[0] ? bt_mul(given[0], in[0]) : NULL;
}

static const bt_op parts = {.name = "parts",
                            .inputs = 2,
                            .outputs = 3,
                            .infer = parts_infer,
                            .vjp = parts_vjp,
                            .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = parts_kernel}}};

START_TEST(forward_by_reverse_of_several_outputs)
{
    bt_tensor *a = VECTOR(&s, "a", 2, 3), *b = VECTOR(&s, "b", 5, 7), *v = VECTOR(&s, "v", 1, -10);
    bt_node *node = bt_apply(&parts, NULL, a, b)->node;
    bt_tensor *x[] = {a, b}, *tangent[] = {v, NULL}, *y[] = {&node->out[0], &node->out[1], &node->out[2]}, *moved[3];
    bt_jvp(s.graph, x, tangent, 2, y, 3, moved, false);
    ck_assert_ptr_null(moved[1]);
    bt_tensor *other[] = {NULL, v}, *moved_too[3];
    bt_jvp(s.graph, x, other, 2, y, 3, moved_too, false);
    ck_assert_ptr_null(moved_too[2]);
    OUTPUTS(moved[0], moved[2], moved_too[0], &node->out[1]);
    EXPECT_RUN(s.graph, 0, 5, -70, 4, -60, 2, -30, 2);
}
END_TEST

START_TEST(a_rule_that_gives_the_wrong_shape)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3);
    bt_grad(bt_sum(bt_apply(&bad, NULL, x)), x);
    ck_assert_int_eq(s.graph->status, BT_ERROR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "bad: its vjp rule gives f64[] where f64[2] is expected"));
}
END_TEST

/* ---- bt_grad ---- */

START_TEST(mistakes)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3);
    ck_assert(bt_poisoned(bt_grad(bt_exp(x), x)));
    ck_assert_str_eq(s.graph->message, "bt_grad: the first operand must be a scalar, found [2]");
    teardown();
    setup();
    ck_assert(bt_poisoned(bt_grad(NULL, NULL)));
    ck_assert_str_eq(s.graph->message, "bt_grad: an operand is NULL or poisoned");
    teardown();
    setup();
    ck_assert(bt_poisoned(bt_grad(bt_number(1, BT_F64), NULL)));
    teardown();
    setup();
    x = SCALAR(&s, "x", 1); /* poisoned lists are not read */
    bt_tensor *bad_x = s.graph->poison, *result = x;
    bt_vjp(s.graph, &x, &x, 1, &bad_x, 1, &result, false);
    ck_assert_ptr_null(result);
    bt_jvp(s.graph, &bad_x, &x, 1, &x, 1, &result, false);
    ck_assert_ptr_null(result);
    bt_vjp(s.graph, &bad_x, &x, 1, &x, 1, &result, false);
    ck_assert_ptr_null(result);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grad");
    TCase *tests = tcase_create("grad");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_value_used_several_times);
    tcase_add_test(tests, every_order);
    tcase_add_test(tests, hessian_times_vector);
    tcase_add_test(tests, several_results);
    tcase_add_test(tests, y_is_x);
    tcase_add_test(tests, what_is_not_reached);
    tcase_add_test(tests, one_x_behind_another);
    tcase_add_test(tests, detached_values);
    tcase_add_test(tests, detach_at_the_second_order);
    tcase_add_test(tests, integers_on_the_way);
    tcase_add_test(tests, integers_have_no_derivative);
    tcase_add_test(tests, contributions_accumulate);
    tcase_add_test(tests, equal_values_are_different_parameters);
    tcase_add_test(tests, derivatives_carry_the_tag_of_their_node);
    tcase_add_test(tests, an_opaque_op_has_no_derivative);
    tcase_add_test(tests, an_opaque_op_beside_the_path);
    tcase_add_test(tests, forward_by_reverse);
    tcase_add_test(tests, forward_by_reverse_of_several_outputs);
    tcase_add_test(tests, a_rule_that_gives_the_wrong_shape);
    tcase_add_test(tests, mistakes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

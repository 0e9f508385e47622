/* Derivatives of ops that have a body but no rules: they are composites themselves, at every order. */
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

/* f(a, b) = a^2 b, and the sum of a's sines. */
static void f_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(bt_square(in[0]), in[1]);
    out[1] = bt_sum(bt_sin(in[0]));
}

static const bt_op f = {.name = "f", .inputs = 2, .outputs = 2, .body = f_body};

static bt_tensor *vjp(bt_tensor *y, bt_tensor *cotangent, bt_tensor *x)
{
    bt_tensor *result;
    bt_vjp(s.graph, &y, &cotangent, 1, &x, 1, &result, false);
    return result;
}

static bt_tensor *jvp(bt_tensor *x, bt_tensor *tangent, bt_tensor *y)
{
    bt_tensor *result;
    bt_jvp(s.graph, &x, &tangent, 1, &y, 1, &result, false);
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

START_TEST(of_each_output_and_input)
{
    bt_tensor *a = VECTOR(&s, "a", 2, 3), *b = VECTOR(&s, "b", 5, 7), *u = VECTOR(&s, "u", 1, 10),
              *t = SCALAR(&s, "t", 100);
    bt_node *node = bt_apply(&f, NULL, a, b)->node;
    bt_tensor *y[] = {&node->out[0], &node->out[1]}, *given[] = {u, t}, *x[] = {a, b}, *both[2], *moved[2];
    bt_vjp(s.graph, y, given, 2, x, 2, both, false);
    bt_tensor *tangent[] = {u, u};
    bt_jvp(s.graph, x, tangent, 2, y, 2, moved, false);
    ck_assert_ptr_null(vjp(y[1], t, b)); /* the sines do not depend on b */
    ck_assert_ptr_null(jvp(b, u, y[1]));
    OUTPUTS(both[0], both[1], moved[0], moved[1], vjp(y[0], u, a), vjp(y[1], t, a), jvp(b, u, y[0]));
    EXPECT_RUN(s.graph, 1e-15, 20 + 100 * cos(2), 420 + 100 * cos(3), 4, 90, /* both */
               20 + 4, 420 + 90, cos(2) + 10 * cos(3),                       /* moved */
               20, 420, 100 * cos(2), 100 * cos(3), 4, 90);
}
END_TEST

/* One node for each derivative, named after the op; the same request gives the same record. */
START_TEST(they_are_composites)
{
    bt_tensor *a = VECTOR(&s, "a", 2, 3), *b = VECTOR(&s, "b", 5, 7), *u = VECTOR(&s, "u", 1, 10);
    bt_tensor *y = bt_apply(&f, NULL, a, b);
    int64_t before = s.graph->node_count;
    bt_tensor *g = vjp(y, u, a), *h = vjp(g, u, a), *again = vjp(y, u, a), *of_b = vjp(y, u, b),
              *forward = jvp(a, u, y);
    ck_assert_int_eq(s.graph->node_count, before + 5);
    ck_assert_str_eq(g->node->op->name, "f.vjp");
    ck_assert_str_eq(h->node->op->name, "f.vjp.vjp");
    ck_assert_str_eq(forward->node->op->name, "f.jvp");
    ck_assert(again != g && again->node->op == g->node->op && of_b->node->op == g->node->op);
    ck_assert(bt_op_is_composite(g->node->op));
    scene_end(&s);
}
END_TEST

START_TEST(to_the_third_order)
{
    bt_tensor *a = VECTOR(&s, "a", 2, 3), *b = VECTOR(&s, "b", 5, 7), *y = bt_sum(bt_apply(&f, NULL, a, b)), *d[3];
    d[0] = bt_grad(y, a);
    d[1] = bt_grad(bt_sum(d[0]), a);
    d[2] = bt_grad(bt_sum(d[1]), b);
    bt_node *node = bt_apply(&f, NULL, a, b)->node;
    bt_tensor *sines = &node->out[1], *e = bt_grad(sines, a), *one = bt_ones_like(a);
    OUTPUTS(d[0], d[1], d[2], jvp(a, one, jvp(a, one, e)), bt_grad(bt_sum(bt_grad(bt_sum(e), a)), a));
    EXPECT_RUN(s.graph, 1e-15, 20, 42, 10, 14, 2, 2, -cos(2), -cos(3), -cos(2), -cos(3));
}
END_TEST

/* f(x, x) = x^3. */
START_TEST(one_tensor_given_twice)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *u = VECTOR(&s, "u", 1, 10), *y = bt_apply(&f, NULL, x, x);
    bt_tensor *g = vjp(y, u, x), *h = vjp(g, u, x);
    OUTPUTS(g, jvp(x, u, y), h, jvp(x, u, g), jvp(x, u, jvp(x, u, y)));
    EXPECT_RUN(s.graph, 1e-15, 12, 270, 12, 270, 12, 1800, 12, 1800, 12, 1800);
}
END_TEST

/* f(x, e^x) = x^2 e^x: a dependence outside the op is counted once, outside of it. */
START_TEST(one_input_computed_from_another)
{
    bt_tensor *x = SCALAR(&s, "x", 0.5), *one = bt_number(1, BT_F64), *y = bt_apply(&f, NULL, x, bt_exp(x));
    bt_tensor *g = vjp(y, one, x), *h = vjp(g, one, x);
    OUTPUTS(g, jvp(x, one, y), h, jvp(x, one, g), vjp(h, one, x));
    double e = exp(0.5), first = (2 * 0.5 + 0.25) * e, second = (2 + 4 * 0.5 + 0.25) * e;
    EXPECT_RUN(s.graph, 1e-15, first, first, second, second, (6 + 6 * 0.5 + 0.25) * e);
}
END_TEST

/* The input of one application is the output of another, and a cotangent depends on the inputs. */
START_TEST(one_behind_the_other)
{
    bt_tensor *x = SCALAR(&s, "x", 1.5), *y = x;
    for (int i = 0; i < 3; i++) /* x -> x^3 -> (x^3)^2 x ... */
        y = bt_apply(&f, NULL, y, x);
    bt_tensor *z = bt_mul(y, y), *g = bt_grad(z, x);
    OUTPUTS(y, g, bt_grad(g, x)); /* y = x^15, z = x^30 */
    EXPECT_RUN(s.graph, 1e-14, pow(1.5, 15), 30 * pow(1.5, 29), 30 * 29 * pow(1.5, 28));
}
END_TEST

/* rows(x, index): a body with a non-float input, an input that nothing depends on, and detached values. */
static void rows_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    bt_tensor *rows = bt_gather(in[0], in[1]);
    out[0] = bt_mul(rows, bt_detach(rows));
    out[1] = bt_argmax(rows, 0);
}

static const bt_op rows = {.name = "rows", .inputs = 3, .outputs = 2, .body = rows_body};

START_TEST(with_integers_and_detached_values)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3, 5), *unused = VECTOR(&s, "unused", 1, 1), *u = VECTOR(&s, "u", 1, 10);
    bt_tensor *i = bt_trace_read(scene_var(&s, "i", BT_I64, NUMBERS(2, 2), (const int64_t[]){2, BT_END}));
    bt_tensor *y = bt_apply(&rows, NULL, x, i, unused), *through, *slope;
    bt_vjp(s.graph, &y, &u, 1, &x, 1, &through, true);
    bt_tensor *t = VECTOR(&s, "t", 1, 1, 7);
    bt_jvp(s.graph, &x, &t, 1, &y, 1, &slope, true);
    ck_assert_ptr_null(vjp(y, u, unused));
    ck_assert_ptr_null(vjp(&y->node->out[1], u, x));
    OUTPUTS(vjp(y, u, x), through, jvp(x, t, y), slope);
    EXPECT_RUN(s.graph, 1e-15, 0, 0, 55, 0, 0, 110, 35, 35, 70, 70);
}
END_TEST

/* The derivatives that exist may depend on the attributes, and on the number of inputs. */
typedef struct which_attr {
    int64_t which;
} which_attr;

static void which_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_square(in[((const which_attr *)attr)->which]);
}

static const bt_op which = {.name = "which", .inputs = -1, .attr_size = sizeof(which_attr), .body = which_body};

START_TEST(by_attributes_and_numbers_of_inputs)
{
    bt_tensor *a = SCALAR(&s, "a", 2), *b = SCALAR(&s, "b", 3), *one = bt_number(1, BT_F64);
    which_attr first = {0}, second = {1};
    bt_tensor *of_a = bt_apply(&which, &first, a, b), *of_b = bt_apply(&which, &second, a, b),
              *of_three = bt_apply(&which, &first, a, b, b), *of_one = bt_apply(&which, &first, b);
    ck_assert_ptr_null(vjp(of_a, one, b));
    ck_assert_ptr_null(vjp(of_b, one, a));
    OUTPUTS(vjp(of_a, one, a), vjp(of_b, one, b), vjp(of_three, one, a), vjp(of_one, one, b), jvp(a, one, of_a),
            jvp(b, one, of_b), jvp(a, one, of_three));
    EXPECT_RUN(s.graph, 0, 4, 6, 4, 6, 4, 6, 4);
}
END_TEST

static void pass_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = in[0];
    out[1] = bt_number(4, BT_F64);
}

static const bt_op pass = {.name = "pass", .inputs = 1, .outputs = 2, .body = pass_body};

START_TEST(a_body_that_does_nothing)
{
    bt_tensor *x = VECTOR(&s, "x", 2, 3), *u = VECTOR(&s, "u", 1, 10), *y = bt_apply(&pass, NULL, x);
    bt_tensor *g = vjp(y, u, x), *slope = jvp(x, u, y), *four = &y->node->out[1];
    ck_assert_ptr_null(vjp(four, four, x));
    OUTPUTS(g, slope, y, four);
    EXPECT_RUN(s.graph, 0, 1, 10, 1, 10, 2, 3, 4);
}
END_TEST

static void sum_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_square(in[0]);
    for (int i = 1; in[i]; i++)
        out[0] = bt_add(out[0], bt_mul(i, bt_square(in[i])));
}

static const bt_op sum_all = {.name = "sum_all", .inputs = -1, .body = sum_body};

/* More derivatives than an op of the library has outputs, and more than a bit mask can hold. */
START_TEST(many_inputs)
{
    bt_tensor *x[65] = {NULL}, *result[64], *one = bt_number(1, BT_F64);
    double expected[40];
    for (int i = 0; i < 40; i++) {
        x[i] = SCALAR(&s, "x", i + 1);
        expected[i] = 2 * (i + 1) * (i ? i : 1);
    }
    bt_tensor *y = (bt_apply)(&sum_all, NULL, x);
    bt_vjp(s.graph, &y, &one, 1, x, 40, result, false);
    outputs(result, 40);
    expect_run(__FILE__, __LINE__, s.graph, expected, 40, 0);
    teardown();
    setup();
    for (int i = 0; i < 64; i++)
        x[i] = bt_number(i, BT_F64);
    bt_grad((bt_apply)(&sum_all, NULL, x), x[3]);
    ck_assert_int_eq(s.graph->status, BT_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "sum_all: more than 63 inputs"));
}
END_TEST

/* An error that only appears when the body is differentiated. */
static void opaque_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static const bt_op opaque = {.name = "opaque", .inputs = 1, .infer = bt_infer_same};
static const bt_op veil = {.name = "veil", .inputs = 1, .body = opaque_body};

static void opaque_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&opaque, NULL, in[0]);
}

START_TEST(a_body_without_a_derivative)
{
    bt_tensor *x = SCALAR(&s, "x", 2), *y = bt_apply(&veil, NULL, x);
    ck_assert(!bt_poisoned(y));
    bt_grad(y, x);
    ck_assert_int_eq(s.graph->status, BT_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "opaque has no derivative"));
}
END_TEST

static void cube_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(bt_square(in[0]), in[0]);
}

static void power_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_mul(*(const double *)attr, bt_square(in[0]));
}

/* The op of a closed file, and another op that was later placed at its address. */
START_TEST(another_op_at_the_same_address)
{
    static bt_op op;
    double by = 5;
    for (int time = 0; time < 3; time++) {
        op = time == 1 ? (bt_op){.name = "power", .inputs = 1, .attr_size = sizeof by, .body = power_body}
                       : (bt_op){.name = "cube", .inputs = 1, .body = cube_body};
        bt_tensor *x = SCALAR(&s, "x", 2), *y = bt_apply(&op, time == 1 ? &by : NULL, x);
        bt_tensor *first = bt_grad(y, x), *second = bt_grad(first, x);
        ck_assert_str_eq(first->node->op->name, time == 1 ? "power.vjp" : "cube.vjp");
        ck_assert_uint_eq(first->node->op->attr_size, op.attr_size);
        bt_graph_output(s.graph, first);
        bt_graph_output(s.graph, second);
        scene_end(&s);
        EXPECT_RUN(s.graph, 1e-14, time == 1 ? 20 : 12, time == 1 ? 10 : 12);
        teardown();
        setup();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("derive");
    TCase *tests = tcase_create("derive");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, of_each_output_and_input);
    tcase_add_test(tests, they_are_composites);
    tcase_add_test(tests, to_the_third_order);
    tcase_add_test(tests, one_tensor_given_twice);
    tcase_add_test(tests, one_input_computed_from_another);
    tcase_add_test(tests, one_behind_the_other);
    tcase_add_test(tests, with_integers_and_detached_values);
    tcase_add_test(tests, by_attributes_and_numbers_of_inputs);
    tcase_add_test(tests, a_body_that_does_nothing);
    tcase_add_test(tests, another_op_at_the_same_address);
    tcase_add_test(tests, many_inputs);
    tcase_add_test(tests, a_body_without_a_derivative);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* User-defined ops: shapes by infer or from the body, and errors for a wrong record or body. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

typedef struct scale_attr {
    double factor;
} scale_attr;

static void scale_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_mul(((const scale_attr *)attr)->factor, in[0]);
    out[1] = bt_sum(in[0], 0);
    ck_assert_ptr_null(in[1]); /* the list of inputs is terminated */
}

static const bt_op scale = {
    .name = "scale", .inputs = 1, .outputs = 2, .attr_size = sizeof(scale_attr), .body = scale_body};

START_TEST(shapes_from_the_body)
{
    bt_tensor *x = MATRIX(&s, "x", 2, 3, 1, 2, 3, 4, 5, 6);
    scale_attr attr = {2};
    int64_t before = s.graph->node_count;
    bt_tensor *y = bt_apply(&scale, &attr, x);
    attr.factor = 7;
    ck_assert_int_eq(s.graph->node_count, before + 1); /* one node, whatever the body */
    ck_assert(y->node->op == &scale && y->node->outputs == 2 && y->output == 0);
    ck_assert(y->rank == 2 && y->dims[0] == 2 && y->dims[1] == 3 && y->dtype == BT_F64);
    ck_assert(y->node->out[1].rank == 1 && y->node->out[1].dims[0] == 3 && y->node->out[1].output == 1);
    ck_assert_double_eq(((const scale_attr *)y->node->attr)->factor, 2);
    scene_end(&s);
}
END_TEST

static void sum_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = in[0];
    for (int i = 1; in[i]; i++)
        out[0] = bt_add(out[0], in[i]);
}

static const bt_op sum_all = {.name = "sum_all", .inputs = -1, .body = sum_body};

START_TEST(any_number_of_inputs)
{
    bt_tensor *in[41] = {NULL};
    for (int i = 0; i < 40; i++) /* more than a record's lists can hold */
        in[i] = VECTOR(&s, "x", i, 2);
    ck_assert_int_eq((bt_apply)(&sum_all, NULL, in)->node->inputs, 40);
    ck_assert_int_eq(bt_apply(&sum_all, NULL, in[0], in[1])->node->inputs, 2);
    scene_end(&s);
}
END_TEST

static void expect_mistake(int line, bt_tensor *x, const char *message)
{
    ck_assert_msg(x && bt_poisoned(x), "line %d: no poison", line);
    ck_assert_msg(s.graph->status != BT_OK && strstr(s.graph->message, message), "line %d: %s", line, s.graph->message);
    teardown();
    setup();
}
#define MISTAKE(x, message) expect_mistake(__LINE__, (x), (message))

static void forgetful_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_neg(in[0]);
}

static void wrong_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_dot(in[0], in[0]);
}

static const bt_op forgetful = {.name = "forgetful", .inputs = 1, .outputs = 2, .body = forgetful_body};
static const bt_op wrong = {.name = "wrong", .inputs = 1, .body = wrong_body};
static const bt_op opaque = {.name = "opaque", .inputs = 1};
static const bt_op nameless = {.inputs = 1, .body = wrong_body};

START_TEST(mistakes)
{
    scale_attr attr = {2};
    MISTAKE((bt_apply)(NULL, NULL, NULL), "bt_apply: an op without a record or a name");
    MISTAKE(bt_apply(&nameless, NULL, VECTOR(&s, "x", 1)), "bt_apply: an op without a record or a name");
    MISTAKE(bt_apply(&scale, NULL, VECTOR(&s, "x", 1)), "scale: attributes of 8 bytes are missing");
    MISTAKE(bt_apply(&forgetful, NULL, VECTOR(&s, "x", 1)), "forgetful: the body leaves output 1 unset");
    MISTAKE(bt_apply(&wrong, NULL, MATRIX(&s, "x", 1, 2, 1, 2)), "wrong: dot: ");
    MISTAKE(bt_apply(&opaque, NULL, VECTOR(&s, "x", 1)), "opaque: an op needs `infer` or a `body`");
    MISTAKE((bt_apply)(&scale, &attr, NULL), "scale takes 1 operands, found 0");
    MISTAKE((bt_apply)(&scale, &attr, (bt_tensor *const[]){NULL}), "scale takes 1 operands, found 0");
    bt_tensor *x = VECTOR(&s, "x", 1);
    MISTAKE(bt_apply(&scale, &attr, x, x), "scale takes 1 operands, found 2");
    MISTAKE((bt_apply)(&sum_all, NULL, NULL), "sum_all: ");
    const char *before = bt_trace_push("net");
    bt_tensor *bad = bt_apply(&wrong, NULL, MATRIX(&s, "x", 1, 2, 1, 2));
    bt_trace_pop(before);
    ck_assert(bt_poisoned(bad));
    ck_assert_int_eq(strncmp(s.graph->message, "net: wrong: dot: ", 17), 0);
}
END_TEST

/* Also outside a trace: no crash. */
START_TEST(outside_of_a_trace)
{
    bt_tensor *x = VECTOR(&s, "x", 1);
    scene_end(&s);
    ck_assert(bt_poisoned(bt_apply(&sum_all, NULL, x)));
    ck_assert(bt_poisoned((bt_apply)(NULL, NULL, NULL)));
    ck_assert(bt_poisoned((bt_apply)(&forgetful, NULL, NULL)));
}
END_TEST

/* ---- bodies that never end ---- */

static void mirror_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static void echo_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static const bt_op mirror = {.name = "mirror", .inputs = 1, .body = mirror_body};
static const bt_op echo = {.name = "echo", .inputs = 1, .body = echo_body};

static void mirror_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&echo, NULL, in[0]);
}

static void echo_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&mirror, NULL, in[0]);
}

START_TEST(a_body_that_contains_itself)
{
    bt_tensor *x = VECTOR(&s, "x", 1);
    ck_assert(bt_poisoned(bt_apply(&mirror, NULL, x)));
    ck_assert_int_eq(s.graph->status, BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "contain itself"));
}
END_TEST

static void nest_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static const bt_op nest = {.name = "nest", .inputs = 1, .attr_size = sizeof(scale_attr), .body = nest_body};

static void nest_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    scale_attr inner = {((const scale_attr *)attr)->factor - 1};
    out[0] = inner.factor > 0 ? bt_apply(&nest, &inner, in[0]) : bt_exp(in[0]);
}

START_TEST(deep_bodies_are_fine)
{
    bt_tensor *x = VECTOR(&s, "x", 1);
    scale_attr depth = {12};
    ck_assert(!bt_poisoned(bt_apply(&nest, &depth, x)));
    scene_end(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("composite");
    TCase *tests = tcase_create("composite");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, shapes_from_the_body);
    tcase_add_test(tests, any_number_of_inputs);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, outside_of_a_trace);
    tcase_add_test(tests, a_body_that_contains_itself);
    tcase_add_test(tests, deep_bodies_are_fine);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

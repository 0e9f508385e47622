/* tests/graph/test_checkpoint.c: bt_checkpoint marks the nodes recorded within it, and reports errors. */
#include "support/scene.h"

#include "compile/compile.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void begin(void) { scene_begin(&s, BT_F64); }

static void end(void)
{
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *twice(void *user, bt_tensor *const *in)
{
    ck_assert(!user || in[1] == user);
    return bt_mul(2, bt_tanh(in[0]));
}

static bt_tensor *outer(void *user, bt_tensor *const *in)
{
    bt_tensor *x = bt_checkpoint(twice, NULL, bt_sin(in[0]));
    *(bt_tensor **)user = bt_exp(x); /* a second result */
    return bt_cos(x);
}

static bt_tensor *none_given(void *user, bt_tensor *const *in)
{
    ck_assert_ptr_null(in[0]);
    return user;
}

static bt_tensor *nothing(void *user, bt_tensor *const *in)
{
    (void)user, (void)in;
    return NULL;
}

START_TEST(what_is_recorded_within)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, 4), *second = NULL;
    bt_tensor *a = bt_checkpoint(twice, y, x, y), *between = bt_sqrt(a), *b = bt_checkpoint(outer, &second, between);
    bt_tensor *after = bt_exp(bt_add(b, second));
    ck_assert_uint_eq(x->node->tag.region, 0);
    ck_assert_uint_eq(a->node->tag.region, 1);
    ck_assert_uint_eq(a->node->in[1]->node->tag.region, 1);
    ck_assert_uint_eq(between->node->tag.region, 0);
    ck_assert_uint_eq(b->node->tag.region, 2);
    ck_assert_uint_eq(second->node->tag.region, 2);
    for (bt_node *inner = second->node; inner != between->node; inner = inner->in[inner->inputs - 1]->node)
        ck_assert_uint_eq(inner->tag.region, 2); /* the outer one counts, also within the inner one */
    ck_assert_uint_eq(after->node->tag.region, 0);
    ck_assert_ptr_eq(bt_checkpoint(none_given, x), x);
    ck_assert_ptr_eq((bt_checkpoint)(none_given, x, NULL), x);
    bt_graph_output(s.graph, after);
    scene_end(&s);
    double t[2][2];
    for (int i = 0; i < 2; i++) {
        double z = 2 * tanh(sin(sqrt(2 * tanh(i + 1.0))));
        t[0][i] = exp(cos(z) + exp(z));
    }
    EXPECT_RUN(s.graph, 1e-12, t[0][0], t[0][1]);
}
END_TEST

/* Marks are copied to derivatives and to any copy of a graph. */
START_TEST(it_goes_where_the_nodes_go)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = bt_checkpoint(twice, NULL, x);
    bt_tensor *slope = bt_grad(bt_sum(y), x);
    bt_graph_output(s.graph, slope);
    scene_end(&s);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    bt_graph *lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_ptr_nonnull(lowered);
    int within = 0;
    for (int64_t n = 0; n < lowered->node_count; n++)
        within += lowered->nodes[n]->op == &bt_op_tanh && lowered->nodes[n]->tag.region == 1;
    ck_assert_int_eq(within, 1);
    ck_assert_uint_eq(lowered->regions, 1);
    bt_graph_free(lowered);
}
END_TEST

START_TEST(mistakes)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    ck_assert(bt_poisoned(_i ? bt_checkpoint(nothing, NULL, x) : bt_checkpoint(NULL, NULL, x)));
    ck_assert_str_eq(s.graph->message,
                     _i ? "bt_checkpoint: the function returned NULL" : "bt_checkpoint: the function is NULL");
}
END_TEST

START_TEST(outside_of_a_trace)
{
    ck_assert(bt_poisoned((bt_checkpoint)(twice, NULL, NULL)));
    ck_assert_str_eq(bt_error(), "bt_checkpoint: tensors can only be computed inside a traced callback");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tests = tcase_create("checkpoint"), *bare = tcase_create("bare");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, what_is_recorded_within);
    tcase_add_test(tests, it_goes_where_the_nodes_go);
    tcase_add_loop_test(tests, mistakes, 0, 2);
    tcase_add_test(bare, outside_of_a_trace);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, bare);
    return run_suite(suite);
}

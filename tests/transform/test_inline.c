/* Inlining: protected nodes stay, everything else becomes primitives, and the values do not change. */
#include "support/random_graph.h"

#include "support/suite.h"
#include "transform/grad.h"
#include "transform/inline.h"
#include "transform/simplify.h"
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

static void inner_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_softmax(bt_square(in[0]), 0);
}

static const bt_op inner = {.name = "inner", .inputs = 1, .body = inner_body};

static void outer_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    bt_tensor *y = bt_apply(&inner, NULL, in[0]);
    out[1] = bt_apply(&inner, NULL, bt_mul(y, in[1]));
    out[0] = in[0];
}

static const bt_op outer = {.name = "outer", .inputs = 2, .outputs = 2, .body = outer_body};

static bool keep_inner(const bt_node *node, void *user)
{
    ++*(int *)user;
    return node->op == &inner;
}

static int count_composites(const bt_graph *graph)
{
    int count = 0;
    for (int64_t n = 0; n < graph->node_count; n++)
        count += bt_op_is_composite(graph->nodes[n]->op);
    return count;
}

START_TEST(what_is_held_stays)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, -1);
    bt_tensor *z = bt_apply(&outer, NULL, x, y);
    bt_graph_output(s.graph, &z->node->out[1]);
    bt_graph_output(s.graph, z);
    scene_end(&s);
    int asked = 0;
    bt_graph *held = bt_inline(s.graph, keep_inner, &asked), *all = bt_inline(s.graph, NULL, NULL);
    ck_assert(held && all && asked > 2);
    EXPECT_OK(bt_graph_verify(held, "inline"));
    EXPECT_OK(bt_graph_verify(all, "inline"));
    ck_assert_int_eq(count_op(held, &inner), 2);
    ck_assert_int_eq(count_composites(held), 2);
    ck_assert_int_eq(count_composites(all), 0);
    ck_assert_int_eq(count_op(s.graph, &outer), 1); /* the old graph is unchanged */
    ck_assert(held->output_count == 2 && held->outputs[1]->node->op == &bt_op_read);
    double *before = run_once(s.graph), *after = run_once(held), *plain = run_once(all);
    expect_values(__FILE__, __LINE__, after, before, 4, 1e-15);
    expect_values(__FILE__, __LINE__, plain, before, 4, 1e-15);
    free(before);
    free(after);
    free(plain);
    bt_graph_free(held);
    bt_graph_free(all);
}
END_TEST

START_TEST(dead_nodes_are_left_behind)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *y = VECTOR(&s, "y", 3, -1);
    bt_apply(&outer, NULL, x, y);
    bt_graph_output(s.graph, bt_exp(x));
    scene_end(&s);
    bt_graph *graph = bt_inline(s.graph, NULL, NULL);
    ck_assert_int_eq(graph->node_count, 2);
    bt_graph_free(graph);
}
END_TEST

START_TEST(nodes_of_a_body_carry_the_tag)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    s.trace.tag.owner = "lower";
    const char *before = bt_trace_push("net.head");
    bt_tensor *y = bt_apply(&inner, NULL, x);
    bt_trace_pop(before);
    bt_graph_output(s.graph, bt_grad(bt_sum(bt_square(y)), x));
    scene_end(&s);
    bt_graph *graph = bt_inline(s.graph, NULL, NULL);
    int forward = 0, backward = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_tag *tag = &graph->nodes[n]->tag;
        if (strcmp(tag->path, "net.head") == 0) {
            ck_assert_str_eq(tag->owner, "lower");
            forward += tag->order == 0;
            backward += tag->order == 1;
        }
    }
    ck_assert(forward > 3 && backward > 3);
    bt_graph_free(graph);
}
END_TEST

/* A boolean times a number: a float of the trace's dtype, also if the body is recorded again much later. */
static void share_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(0.1, bt_greater(in[0], 0));
}

static const bt_op share = {.name = "share", .inputs = 1, .body = share_body};

START_TEST(a_body_keeps_the_dtype_of_its_trace)
{
    bt_tensor *y = bt_apply(&share, NULL, VECTOR(&s, "x", 1, -2));
    ck_assert_int_eq(y->dtype, BT_F64);
    bt_graph_output(s.graph, y);
    bt_graph_output(s.graph, bt_mul(y, bt_apply(&share, NULL, VECTOR(&s, "z", 3, 4))));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 0.1, 0, 0.1 * 0.1, 0);
}
END_TEST

static void drop_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_dropout(in[0], 0.5);
}

static const bt_op drop = {.name = "drop", .inputs = 1, .body = drop_body};

START_TEST(a_body_keeps_the_mode_of_its_trace)
{
    bt_trace_end(&s.trace);
    bt_trace_begin(&s.trace, s.graph, BT_VALID, BT_F64);
    bt_graph_output(s.graph, bt_apply(&drop, NULL, VECTOR(&s, "x", 1, -2)));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 1, -2);
}
END_TEST

static void endless_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static const bt_op endless = {.name = "endless", .inputs = 1, .infer = bt_infer_same, .body = endless_body};

static void endless_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&endless, NULL, bt_neg(in[0]));
}

START_TEST(a_body_that_contains_itself)
{
    bt_apply(&endless, NULL, VECTOR(&s, "x", 1, -2));
    ck_assert_int_eq(s.graph->status, BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "contain itself"));
}
END_TEST

static void wrong_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_sum(in[0]);
}

static const bt_op wrong = {.name = "wrong", .inputs = 1, .infer = bt_infer_same, .body = wrong_body};

START_TEST(a_body_of_another_shape_than_infer_says)
{
    const char *before = bt_trace_push("net.head");
    bt_tensor *y = bt_apply(&wrong, NULL, VECTOR(&s, "x", 1, -2));
    bt_trace_pop(before);
    bt_graph_output(s.graph, y);
    scene_end(&s);
    ck_assert_ptr_null(bt_inline(s.graph, NULL, NULL));
    ck_assert_str_eq(bt_error(), "net.head: wrong: the body gives f64[] as output 0, but infer f64[2]");
}
END_TEST

static void shown_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_square(bt_print(in[0], "x"));
    bt_check(bt_greater(in[0], 0), "positive");
}

static const bt_op shown = {.name = "shown", .inputs = 1, .body = shown_body};

static void around_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&shown, NULL, in[0]);
}

static const bt_op around = {.name = "around", .inputs = 1, .body = around_body};

/* Nothing reads the first two, which are equal; the derivatives record the bodies again. */
START_TEST(effects_of_bodies_stay_and_happen_once)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_apply(&around, NULL, x);
    bt_apply(&around, NULL, x);
    bt_tensor *slope = bt_grad(bt_sum(bt_apply(&around, NULL, x)), x);
    bt_graph_output(s.graph, bt_grad(bt_sum(bt_mul(slope, x)), x));
    scene_end(&s);
    bt_graph *simple = bt_simplify(s.graph, false), *graph = bt_inline(simple, NULL, NULL);
    ck_assert_int_eq(count_op(graph, &bt_op_print), 3);
    ck_assert_int_eq(count_op(graph, &bt_op_check), 3);
    bt_graph *inlined = bt_inline(s.graph, NULL, NULL);
    EXPECT_RUN(inlined, 1e-15, 4, 8);
    bt_graph_free(simple);
    bt_graph_free(graph);
    bt_graph_free(inlined);
}
END_TEST

/* Random graphs with composites and derivatives: every node is expanded down to primitives. */
START_TEST(values_are_preserved)
{
    teardown();
    random_graph(&s, (uint64_t)_i + 1, BT_F64, 60, RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_SMOOTH);
    bt_graph *flat = bt_inline(s.graph, NULL, NULL);
    ck_assert_msg(flat != NULL, "%s", bt_error());
    EXPECT_OK(bt_graph_verify(flat, "inline"));
    ck_assert_int_eq(count_composites(flat), 0);
    interpreter *before = interpret(s.graph), *after = interpret(flat);
    ck_assert_int_eq(flat->output_count, s.graph->output_count);
    for (int64_t o = 0; o < flat->output_count; o++) {
        const bt_tensor *x = s.graph->outputs[o], *y = flat->outputs[o];
        ck_assert(bt_tensor_count(x) == bt_tensor_count(y) && x->dtype == y->dtype && x->batch_axis == y->batch_axis);
        expect_values(__FILE__, __LINE__, interpreter_value(after, y), interpreter_value(before, x), bt_tensor_count(x),
                      1e-10);
    }
    interpreter_free(before);
    interpreter_free(after);
    bt_graph_free(flat);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inline");
    TCase *tests = tcase_create("inline");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_held_stays);
    tcase_add_test(tests, dead_nodes_are_left_behind);
    tcase_add_test(tests, effects_of_bodies_stay_and_happen_once);
    tcase_add_test(tests, nodes_of_a_body_carry_the_tag);
    tcase_add_test(tests, a_body_keeps_the_dtype_of_its_trace);
    tcase_add_test(tests, a_body_keeps_the_mode_of_its_trace);
    tcase_add_test(tests, a_body_that_contains_itself);
    tcase_add_test(tests, a_body_of_another_shape_than_infer_says);
    tcase_add_loop_test(tests, values_are_preserved, 0, 100);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

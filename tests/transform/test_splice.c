/* tests/transform/test_splice.c: records one graph again inside another: with other variables, at other points, with
 * its random numbers, tags and marks, with or without its assigns; values by hand. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/splice.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene from, to;

static void setup(void)
{
    scene_begin(&from, BT_F64);
    from.trace.tag.owner = "lower";
}

static void teardown(void)
{
    scene_free(&to);
    scene_free(&from);
}

/* Finishes the first graph and begins the second. */
static void go_on(void)
{
    scene_end(&from);
    scene_begin(&to, BT_F64);
    to.trace.tag.owner = "upper";
}

static bt_tensor *here(const bt_tensor *value, const bt_splice *splice)
{
    bt_tensor **map = bt_graph_splice(from.graph, value, splice);
    ck_assert(map);
    return map[value->id];
}

static bt_var *instead(void *user, bt_var *var) { return var == from.vars[0] ? user : var; }

/* x y + x: x is another variable, y has an overlay. */
START_TEST(variables)
{
    bt_tensor *x = SCALAR(&from, "x", 3), *y = SCALAR(&from, "y", 5), *value = bt_add(bt_mul(x, y), x);
    go_on();
    bt_var *other = SCALAR(&to, "other", 10)->node ? to.vars[0] : NULL;
    bt_graph_output(to.graph, here(value, &(bt_splice){0}));
    bt_graph_output(to.graph, here(value, &(bt_splice){.stand_in = instead, .user = other}));
    bt_trace_overlay(from.vars[1], bt_mul(2, bt_trace_read(from.vars[1])));
    bt_graph_output(to.graph, here(value, &(bt_splice){.stand_in = instead, .user = other}));
    EXPECT_RUN(to.graph, 1e-15, 18, 60, 110);
}
END_TEST

/* (detach(x) + x) at 2, then at 5: the detached value stays 2, or is 5. */
START_TEST(detached_values_stay)
{
    bt_tensor *x = SCALAR(&from, "x", 2), *value = bt_add(bt_detach(x), x);
    go_on();
    bt_tensor **first = bt_graph_splice(from.graph, value, &(bt_splice){0});
    ck_assert(first && first[value->id]);
    bt_trace_overlay(from.vars[0], bt_number(5, BT_F64));
    bt_graph_output(to.graph, first[value->id]);
    for (int round = 0; round < 2; round++) /* any number of times */
        bt_graph_output(to.graph, here(value, &(bt_splice){.detached = first}));
    bt_graph_output(to.graph, here(value, &(bt_splice){0}));
    EXPECT_RUN(to.graph, 1e-15, 4, 7, 7, 10);
}
END_TEST

START_TEST(stopped_values_move)
{
    bt_tensor *x = SCALAR(&from, "x", 2), *value = bt_add(bt_stop(x), x);
    go_on();
    bt_tensor **first = bt_graph_splice(from.graph, value, &(bt_splice){0});
    bt_trace_overlay(from.vars[0], bt_number(5, BT_F64));
    bt_graph_output(to.graph, here(value, &(bt_splice){.detached = first}));
    EXPECT_RUN(to.graph, 1e-15, 10);
}
END_TEST

/* Assigns, and what only they need, are copied on request; effects always; the rest never. */
START_TEST(what_is_needed)
{
    bt_tensor *x = SCALAR(&from, "x", 2), *value = bt_square(x);
    bt_graph_assign(from.graph, from.vars[0], bt_exp(x));
    bt_print(x, "x");
    bt_tanh(x);
    go_on();
    here(value, &(bt_splice){0});
    ck_assert_int_eq(to.graph->assign_count, 0);
    ck_assert_int_eq(count_op(to.graph, &bt_op_exp), 0);
    ck_assert_int_eq(count_op(to.graph, &bt_op_print), 1);
    here(value, &(bt_splice){.assigns = true});
    ck_assert_int_eq(to.graph->assign_count, 1);
    ck_assert_ptr_eq(to.graph->assigns[0].var, from.vars[0]);
    ck_assert_int_eq(count_op(to.graph, &bt_op_exp), 1);
    ck_assert_int_eq(count_op(to.graph, &bt_op_print), 2);
    ck_assert_int_eq(count_op(to.graph, &bt_op_tanh), 0);
    scene_end(&to);
}
END_TEST

/* Names, sites and marks are those of the first trace, and the trace in progress continues as before. */
START_TEST(tags_and_marks)
{
    bt_tensor *x = VECTOR(&from, "x", 1, 2, 3);
    from.trace.record = scene_var(&from, "record", BT_I64, NULL, (const int64_t[]){BT_END});
    x->batch_axis = 0;
    const char *before = bt_trace_push("layer");
    bt_tensor *noise = bt_normal_like(x), *y = bt_mul(noise, x);
    bt_trace_pop(before);
    y->params = true;
    bt_tensor *value = bt_sum(y);
    go_on();
    bt_tensor **map = bt_graph_splice(from.graph, value, &(bt_splice){0});
    const bt_node *a = noise->node, *b = map[noise->id]->node;
    ck_assert_str_eq(b->tag.owner, "lower");
    ck_assert_str_eq(b->tag.path, "layer");
    ck_assert(b->op == a->op && b->attr_size == a->attr_size && memcmp(b->attr, a->attr, a->attr_size) == 0);
    ck_assert_int_eq(map[x->id]->batch_axis, 0);
    ck_assert_int_eq(map[y->id]->batch_axis, 0);
    ck_assert(map[y->id]->params && !map[value->id]->params);
    ck_assert_str_eq(bt_exp(map[value->id])->node->tag.owner, "upper");
    scene_end(&to);
}
END_TEST

/* A part recorded with full precision has no tf32 either, nor do its derivatives, which follow the tags. */
START_TEST(tf32_only_where_it_may_be)
{
    from.trace.tag.low = BT_TF32;
    bt_tensor *x = MATRIX(&from, "x", 2, 2, 1, 2, 3, 4), *value = bt_dot(x, x);
    ck_assert(value->node->tag.low == BT_TF32);
    go_on();
    ck_assert(here(value, &(bt_splice){0})->node->tag.low == BT_TF32);
    ck_assert(here(value, &(bt_splice){.wide = true})->node->tag.low == BT_F32);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("splice");
    TCase *tests = tcase_create("splice");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, variables);
    tcase_add_test(tests, detached_values_stay);
    tcase_add_test(tests, stopped_values_move);
    tcase_add_test(tests, what_is_needed);
    tcase_add_test(tests, tags_and_marks);
    tcase_add_test(tests, tf32_only_where_it_may_be);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

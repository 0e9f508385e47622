/* The verifier: a valid graph passes; graphs with a single deliberate fault do not. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_graph *g; /* x [2, 3], e = exp(x), t = permute(e), y = dot(x, t); v := y; return t */

static void setup(void)
{
    scene_begin(&s, BT_F64);
    bt_tensor *x = MATRIX(&s, "x", 2, 3, 1, 2, 3, 4, 5, 6);
    bt_var *v = scene_var(&s, "v", BT_F64, NULL, (const int64_t[]){2, 2, BT_END});
    bt_tensor *t = bt_permute(bt_exp(x), 1, 0);
    bt_graph_assign(s.graph, v, bt_dot(x, t));
    bt_graph_output(s.graph, t);
    scene_end(&s);
    g = s.graph;
    ck_assert_int_eq(g->node_count, 4);
    EXPECT_OK(bt_graph_verify(g, "recording"));
}

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static void expect_fault(int line, bt_status status, const char *text)
{
    ck_assert_msg(bt_graph_verify(g, "fusing") == status, "line %d: not found", line);
    ck_assert_msg(bt_error_status() == status && strstr(bt_error(), text), "line %d: %s", line, bt_error());
    bt_error_clear();
}
#define EXPECT_FAULT(text) expect_fault(__LINE__, BT_ERROR_INTERNAL, (text))

/* Breaks something, verifies, and restores it. */
#define WITH(place, value, text)                                                                                       \
    do {                                                                                                               \
        __typeof__(place) kept_ = (place);                                                                             \
        (place) = (value);                                                                                             \
        EXPECT_FAULT(text);                                                                                            \
        (place) = kept_;                                                                                               \
        EXPECT_OK(bt_graph_verify(g, "fusing"));                                                                       \
    } while (0)

START_TEST(poison)
{
    bt_graph_fail(g, BT_ERROR_DATA, "a mistake of the user");
    expect_fault(__LINE__, BT_ERROR_DATA, "a mistake of the user");
}
END_TEST

START_TEST(nodes_at_wrong_places)
{
    bt_graph *other = bt_graph_new();
    bt_node *exp = g->nodes[1], *permute = g->nodes[2];
    WITH(exp->index, 2, "after fusing: node %2 = f64[2, 3] exp %0 stands at the wrong place");
    WITH(exp->graph, other, "stands at the wrong place");
    g->nodes[1] = permute;
    g->nodes[2] = exp;
    EXPECT_FAULT("stands at the wrong place");
    g->nodes[1] = exp;
    g->nodes[2] = permute;
    bt_graph_free(other);
}
END_TEST

START_TEST(wrong_numbers_of_inputs_and_outputs)
{
    WITH(g->nodes[3]->inputs, 1, "has the wrong number of inputs");
    WITH(g->nodes[1]->op, &bt_op_add, "has the wrong number of inputs");
    static bt_op two;
    two = bt_op_exp;
    two.outputs = 2;
    WITH(g->nodes[1]->op, &two, "has the wrong number of outputs");
}
END_TEST

START_TEST(inputs_that_are_not_there)
{
    bt_graph *other = bt_graph_new();
    bt_tensor *far = bt_graph_placeholder(other, g->nodes[0]->out), stray = *g->nodes[0]->out;
    WITH(g->nodes[1]->in[0], NULL, "node %1 ");
    WITH(g->nodes[1]->in[0], g->poison, "reads a value that is not computed before it");
    WITH(g->nodes[1]->in[0], far, "reads a value that is not computed before it");
    WITH(g->nodes[1]->in[0], &stray, "reads a value that is not computed before it");           /* like x, but not x */
    WITH(g->nodes[1]->in[0], g->nodes[1]->out, "reads a value that is not computed before it"); /* itself */
    WITH(g->nodes[1]->in[0], g->nodes[3]->out, "reads a value that is not computed before it"); /* a later one */
    WITH(g->nodes[0]->out->output, 1, "broken output");
    bt_graph_free(other);
}
END_TEST

START_TEST(outputs_that_are_broken)
{
    bt_tensor *e = g->nodes[1]->out;
    WITH(e->node, g->nodes[0], "has a broken output");
    WITH(e->output, 3, "has a broken output");
    WITH(e->output, -1, "has a broken output");
    WITH(e->id, g->tensor_count, "has a broken output");
    WITH(e->id, -1, "has a broken output");
    WITH(e->id, 0, "has a broken output"); /* another tensor's id: anything indexed by it would confuse them */
    WITH(e->dims[0], -2, "has an impossible shape");
    WITH(e->rank, BT_MAX_RANK + 1, "has an impossible shape");
}
END_TEST

START_TEST(shapes_that_the_op_does_not_give)
{
    WITH(g->nodes[1]->out->dims[1], 2, "node %1 ");
    WITH(g->nodes[1]->out->dtype, BT_F32, "has outputs of another shape than its inputs give");
    WITH(g->nodes[3]->out->dims[1], 1, "has outputs of another shape than its inputs give");
    WITH(g->nodes[3]->out->rank, 1, "has outputs of another shape than its inputs give");
    WITH(g->nodes[3]->in[1], g->nodes[1]->out,
         "node %3 = f64[2, 2] dot %0, %1 does not accept its inputs: dot: [2, 3] times [2, 3]");
    bt_range_attr slice = {0, 1, 9};
    g->nodes[1]->op = &bt_op_slice;
    g->nodes[1]->attr = &slice;
    EXPECT_FAULT("does not accept its inputs");
}
END_TEST

START_TEST(assigns_that_are_broken)
{
    bt_tensor stray = *g->nodes[3]->out;
    WITH(g->assigns[0].value, NULL, "after fusing: variable v takes a value of no node");
    WITH(g->assigns[0].value, &stray, "after fusing: variable v takes a value of no node");
    g->assigns[0].value = g->nodes[1]->out;
    expect_fault(__LINE__, BT_ERROR_SHAPE, "variable v, f64[2, 2], takes a value f64[2, 3]");
    g->assigns[0].value = g->nodes[3]->out;
    s.vars[1]->dtype = BT_I64; /* the same number of bytes, but another dtype */
    expect_fault(__LINE__, BT_ERROR_SHAPE, "variable v, i64[2, 2], takes a value f64[2, 2]");
    s.vars[1]->dtype = BT_F64;
}
END_TEST

START_TEST(results_that_are_broken)
{
    WITH(g->outputs[0], g->poison, "after fusing: result 0 is of no node");
    WITH(g->outputs[0], NULL, "after fusing: result 0 is of no node");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *tests = tcase_create("verify");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, poison);
    tcase_add_test(tests, nodes_at_wrong_places);
    tcase_add_test(tests, wrong_numbers_of_inputs_and_outputs);
    tcase_add_test(tests, inputs_that_are_not_there);
    tcase_add_test(tests, outputs_that_are_broken);
    tcase_add_test(tests, shapes_that_the_op_does_not_give);
    tcase_add_test(tests, assigns_that_are_broken);
    tcase_add_test(tests, results_that_are_broken);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* Appending: the fields that a node gets, and the required ones; leaves, assigns, outputs; large graphs. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/grad.h"
#include "transform/simplify.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static scene s;
static const bt_tag nowhere = {.owner = "", .path = ""};

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static void expect_mistake(bt_node *node, bt_status status, const char *message)
{
    ck_assert_ptr_null(node);
    ck_assert_int_eq(s.graph->status, status);
    ck_assert_str_eq(s.graph->message, message);
    ck_assert_str_eq(bt_error(), ""); /* the error appears when the graph is compiled */
    ck_assert_int_eq(bt_graph_verify(s.graph, "recording"), status);
    ck_assert_str_eq(bt_error(), message);
    bt_error_clear();
    teardown();
    setup();
}

START_TEST(a_node_gets_its_place)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *in[] = {x, x};
    bt_tag tag = {.owner = "lower", .path = "net.layer1", .site = 77, .order = 2};
    bt_node *node = bt_graph_append(s.graph, &bt_op_add, NULL, 0, in, 2, tag);
    ck_assert_ptr_nonnull(node);
    ck_assert(node->graph == s.graph && node->op == &bt_op_add && node->inputs == 2 && node->outputs == 1);
    ck_assert(node->in[0] == x && node->in[1] == x && node->in != in);
    ck_assert(node->index == 1 && s.graph->nodes[1] == node && s.graph->node_count == 2);
    ck_assert(node->out->node == node && node->out->output == 0 && node->out->id == 1 && x->id == 0);
    ck_assert(node->out->dtype == BT_F64 && node->out->rank == 1 && node->out->dims[0] == 3 && !node->out->weak);
    ck_assert_int_eq(s.graph->tensor_count, 2);
    ck_assert_str_eq(node->tag.owner, "lower");
    ck_assert_str_eq(node->tag.path, "net.layer1");
    ck_assert(node->tag.site == 77 && node->tag.order == 2);
}
END_TEST

START_TEST(attributes_are_copied)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3);
    bt_range_attr attr = {0, 1, 3};
    bt_node *node = bt_graph_append(s.graph, &bt_op_slice, &attr, sizeof attr, &x, 1, nowhere);
    attr.to = 2;
    ck_assert_int_eq(((const bt_range_attr *)node->attr)->to, 3);
    double values[] = {4, 5};
    bt_tensor *constant = bt_graph_constant(s.graph, BT_ARRAY(values, 2));
    values[0] = 0;
    ck_assert_double_eq(bt_get(BT_F64, constant->node->attr, 0), 4);
}
END_TEST

START_TEST(wrong_operands)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3), *in[] = {x, NULL};
    expect_mistake(bt_graph_append(s.graph, &bt_op_add, NULL, 0, in, 1, nowhere), BT_ERROR_ARGUMENT,
                   "add takes 2 operands, found 1");
    in[0] = VECTOR(&s, "x", 1, 2, 3);
    expect_mistake(bt_graph_append(s.graph, &bt_op_add, NULL, 0, in, 2, nowhere), BT_ERROR_ARGUMENT,
                   "add: operand 2 is NULL");
    bt_graph *other = bt_graph_new();
    in[0] = VECTOR(&s, "x", 1, 2, 3);
    in[1] = other->poison;
    expect_mistake(bt_graph_append(s.graph, &bt_op_add, NULL, 0, in, 2, nowhere), BT_ERROR_ARGUMENT,
                   "add: operand 2 is poisoned, and came from another trace");
    in[0] = bt_graph_placeholder(other, &(bt_tensor){.dtype = BT_F64, .rank = 1, .dims = {3}, .batch_axis = -1});
    in[1] = VECTOR(&s, "x", 1, 2, 3);
    expect_mistake(bt_graph_append(s.graph, &bt_op_add, NULL, 0, in, 2, nowhere), BT_ERROR_ARGUMENT,
                   "add: operand 1 belongs to another trace");
    bt_graph_free(other);
}
END_TEST

START_TEST(shapes_that_do_not_fit)
{
    bt_tensor *in[] = {MATRIX(&s, "a", 2, 2, 1, 2, 3, 4), MATRIX(&s, "b", 3, 1, 1, 2, 3)};
    bt_node *node = bt_graph_append(s.graph, &bt_op_dot, NULL, 0, in, 2, nowhere);
    ck_assert_ptr_null(node);
    ck_assert_int_eq(s.graph->status, BT_ERROR_SHAPE);
    ck_assert_int_eq(strncmp(s.graph->message, "dot: ", 5), 0);
    ck_assert_ptr_nonnull(strstr(s.graph->message, "[2, 2]"));
    ck_assert_ptr_nonnull(strstr(s.graph->message, "[3, 1]"));
    ck_assert_int_eq(s.graph->node_count, 2); /* no partial node remains */
    ck_assert_int_eq(s.graph->tensor_count, 2);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

/* An earlier error is not lost. */
START_TEST(an_earlier_error_stays)
{
    bt_tensor *in[] = {MATRIX(&s, "a", 2, 2, 1, 2, 3, 4), MATRIX(&s, "b", 3, 1, 1, 2, 3)};
    bt_fail(BT_ERROR_DATA, "a file is missing");
    ck_assert_ptr_null(bt_graph_append(s.graph, &bt_op_dot, NULL, 0, in, 2, nowhere));
    ck_assert_str_eq(bt_error(), "a file is missing");
    ck_assert_int_eq(s.graph->status, BT_ERROR_SHAPE);
}
END_TEST

START_TEST(impossible_sizes)
{
    bt_tensor *x = SCALAR(&s, "x", 1);
    int64_t dims[] = {(int64_t)1 << 31, (int64_t)1 << 31};
    ck_assert(bt_poisoned(bt_broadcast(x, 2, dims, NULL)));
    ck_assert_str_eq(s.graph->message, "the result is too large");
    ck_assert_int_eq(s.graph->status, BT_ERROR_SHAPE);
    teardown();
    setup();
    x = SCALAR(&s, "x", 1);
    ck_assert(!bt_poisoned(bt_broadcast(x, 2, (int64_t[]){(int64_t)1 << 31, 16}, NULL))); /* beyond 32 bits */
    ck_assert_int_eq(s.graph->status, BT_OK);
}
END_TEST

START_TEST(the_first_mistake_stays)
{
    bt_tensor *poison = bt_graph_fail(s.graph, BT_ERROR_DATA, "first %d", 1);
    ck_assert(bt_poisoned(poison) && poison == s.graph->poison);
    ck_assert(bt_graph_fail(s.graph, BT_ERROR_SHAPE, "second") == poison);
    ck_assert_int_eq(s.graph->status, BT_ERROR_DATA);
    ck_assert_str_eq(s.graph->message, "first 1");
}
END_TEST

START_TEST(leaves)
{
    bt_var *a = scene_var(&s, "a", BT_F32, NULL, (const int64_t[]){2, 3, BT_END});
    bt_var *b = scene_var(&s, "b", BT_F32, NULL, (const int64_t[]){2, 3, BT_END});
    bt_tensor *x = bt_graph_read(s.graph, a);
    ck_assert(x == bt_graph_read(s.graph, a) && x != bt_graph_read(s.graph, b)); /* one leaf for each variable */
    ck_assert(x->dtype == BT_F32 && x->rank == 2 && x->dims[0] == 2 && x->dims[1] == 3);
    ck_assert_str_eq(x->node->tag.path, "a");
    bt_tensor *p = bt_graph_placeholder(s.graph, x), *q = bt_graph_placeholder(s.graph, x);
    ck_assert(p != q && p->dtype == BT_F32 && p->rank == 2); /* each is a separate input */
    bt_tensor batch = *x;
    batch.batch_axis = 1;
    ck_assert_int_eq(bt_graph_placeholder(s.graph, &batch)->batch_axis, 1);
    ck_assert_int_eq(s.graph->status, BT_OK);
    ck_assert(bt_poisoned(bt_graph_constant(s.graph, (bt_array){.dtype = BT_F32, .rank = 1, .dims = {2}})));
    ck_assert_str_eq(s.graph->message, "constant: the array has no values");
}
END_TEST

START_TEST(constants_of_nothing)
{
    bt_tensor *x = bt_graph_constant(s.graph, (bt_array){.dtype = BT_F32, .rank = 2, .dims = {0, 2}});
    ck_assert(!bt_poisoned(x) && bt_tensor_count(x) == 0 && x->node->attr_size == 0);
    ck_assert(bt_poisoned(bt_graph_constant(
        s.graph, (bt_array){.dtype = BT_F64, .rank = 2, .dims = {INT64_MAX, 2}, .data = &(double){1}})));
}
END_TEST

START_TEST(assigns_and_outputs)
{
    bt_tensor *x = SCALAR(&s, "x", 1), *y = bt_neg(x), *z = bt_exp(x);
    bt_var *v = s.vars[0];
    bt_graph_assign(s.graph, v, y);
    bt_graph_assign(s.graph, v, z); /* the later one wins */
    ck_assert(s.graph->assign_count == 1 && s.graph->assigns[0].value == z && s.graph->assigns[0].var == v);
    for (int i = 0; i < 100; i++)
        bt_graph_output(s.graph, i % 2 ? y : z);
    ck_assert(s.graph->output_count == 100 && s.graph->outputs[0] == z && s.graph->outputs[99] == y);
    bt_graph_output(s.graph, NULL);
    ck_assert_str_eq(s.graph->message, "a result is missing");
    ck_assert_int_eq(s.graph->output_count, 100);
    teardown();
    setup();
    x = SCALAR(&s, "x", 1);
    bt_graph_assign(s.graph, s.vars[0], NULL);
    ck_assert_str_eq(s.graph->message, "a value that is assigned is missing");
    ck_assert_int_eq(s.graph->assign_count, 0);
}
END_TEST

START_TEST(batch_axes)
{
    bt_var *v = scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){5, 4, BT_END});
    bt_tensor *x = bt_trace_read(v), *plain = MATRIX(&s, "w", 4, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    ck_assert_int_eq(plain->batch_axis, -1);
    x->batch_axis = 0;
    ck_assert_int_eq(bt_exp(x)->batch_axis, 0);
    ck_assert_int_eq(bt_matmul(x, plain)->batch_axis, 0);
    ck_assert_int_eq(bt_permute(x, 1, 0)->batch_axis, 1);
    ck_assert_int_eq(bt_sum(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_sum(x, 0)->batch_axis, -1);
    ck_assert_int_eq(bt_neg(plain)->batch_axis, -1);
    scene_end(&s);
}
END_TEST

START_TEST(tags_are_the_graphs_own)
{
    char path[] = "net.layer", owner[] = "net";
    bt_tensor *x = SCALAR(&s, "x", 1);
    bt_node *first = bt_graph_append(s.graph, &bt_op_neg, NULL, 0, &x, 1, (bt_tag){.owner = owner, .path = path});
    path[0] = owner[0] = 'b';
    ck_assert_str_eq(first->tag.path, "net.layer");
    ck_assert_str_eq(first->tag.owner, "net");
    bt_node *next = bt_graph_append(s.graph, &bt_op_neg, NULL, 0, &x, 1, (bt_tag){.owner = "", .path = "net.layer"});
    ck_assert_ptr_eq(next->tag.path, first->tag.path); /* neighbours share their strings */
    ck_assert_str_eq(bt_graph_intern(s.graph, NULL), "");
}
END_TEST

static double seconds(clock_t since) { return (double)(clock() - since) / CLOCKS_PER_SEC; }

/* 100,000 nodes: no size is given in advance, and no cost is quadratic. */
START_TEST(a_large_graph)
{
    enum { NODES = 100000, PARAMETERS = 40 };
    clock_t start = clock();
    bt_tensor *parameter[PARAMETERS], *x = VECTOR(&s, "x", 0.5, -0.25);
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] = VECTOR(&s, "w", 0.125, 1);
    for (int i = 0; s.graph->node_count < NODES; i++) {
        const char *before = bt_trace_push(i % 1000 ? "layer" : "norm");
        x = bt_tanh(bt_mul(x, parameter[i % PARAMETERS]));
        bt_trace_pop(before);
    }
    ck_assert_int_ge(s.graph->node_count, NODES);
    ck_assert_int_eq(bt_graph_verify(s.graph, "recording"), BT_OK);
    bt_tensor *y = bt_sum(x), *one = bt_number(1, BT_F64), *gradient[PARAMETERS];
    bt_vjp(s.graph, &y, &one, 1, parameter, PARAMETERS, gradient, false);
    for (int i = 0; i < PARAMETERS; i++)
        bt_graph_output(s.graph, gradient[i]);
    scene_end(&s);
    bt_graph *simple = bt_simplify(s.graph, true);
    ck_assert_ptr_nonnull(simple);
    ck_assert_int_eq(bt_graph_verify(simple, "simplify"), BT_OK);
    ck_assert_int_gt(simple->node_count, NODES);
    bt_graph_free(simple);
    ck_assert_msg(seconds(start) < 20, "took %.1f s", seconds(start));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("append");
    TCase *tests = tcase_create("append");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_node_gets_its_place);
    tcase_add_test(tests, attributes_are_copied);
    tcase_add_test(tests, wrong_operands);
    tcase_add_test(tests, shapes_that_do_not_fit);
    tcase_add_test(tests, an_earlier_error_stays);
    tcase_add_test(tests, impossible_sizes);
    tcase_add_test(tests, the_first_mistake_stays);
    tcase_add_test(tests, leaves);
    tcase_add_test(tests, constants_of_nothing);
    tcase_add_test(tests, assigns_and_outputs);
    tcase_add_test(tests, batch_axes);
    tcase_add_test(tests, tags_are_the_graphs_own);
    tcase_add_test(tests, a_large_graph);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

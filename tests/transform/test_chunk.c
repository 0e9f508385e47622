/* tests/transform/test_chunk.c: products split into chunks of rows: which can be split, and equality to third order. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/chunk.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, WIDTH = 3, CLASSES = 24 };

static scene s;
static bt_tensor *x, *w, *b, *label, *weights;
static int64_t wanted, asked;

static double number(int i) { return 2 * bt_host_uniform(7, 1, (uint64_t)i) - 1; }

static bt_tensor *variable(const char *name, int64_t rows, int64_t columns)
{
    double values[CLASSES * ROWS];
    for (int i = 0; i < CLASSES * ROWS; i++)
        values[i] = number(i + 1000 * s.count);
    return scene_read(&s, name, values, (const int64_t[]){rows, columns ? columns : BT_END, BT_END});
}

static void setup(void)
{
    static const int32_t labels[ROWS] = {3, 0, 23, 7, 3, 11, 1};
    scene_begin(&s, BT_F64);
    x = variable("x", ROWS, WIDTH);
    w = variable("w", CLASSES, WIDTH);
    b = variable("b", CLASSES, 0);
    weights = variable("weights", ROWS, 0);
    label = bt_constant(BT_ARRAY(labels, ROWS));
    asked = 0;
}

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *logits(void) { return bt_linear(x, w, b, false); }

/* ---- losses that can be split ---- */

static bt_tensor *cross_entropy(void) { return bt_cross_entropy(logits(), label); }
static bt_tensor *tied(void) { return bt_cross_entropy(bt_matmul(x, bt_transpose(w)), label); }
static bt_tensor *of_softmax(void) { return bt_log(bt_max(bt_softmax(bt_mul(2, logits()), 1), 1)); }
static bt_tensor *accuracy(void) { return bt_accuracy(logits(), label); }

static bt_tensor *both(void)
{
    bt_tensor *all = logits();
    return bt_mul(bt_sub(1, bt_accuracy(all, label)), bt_cross_entropy(all, label));
}

static bt_tensor *smoothed(void)
{
    bt_cross_entropy_options options = {.ignore = 3, .smoothing = 0.2};
    return bt_cross_entropy_with(logits(), label, &options);
}

static bt_tensor *shaped(void)
{
    bt_tensor *all = bt_linear(bt_reshape(x, 1, ROWS, WIDTH), w, b, false); /* [1, ROWS, CLASSES] */
    return bt_cross_entropy(bt_reshape(all, -1, CLASSES), label);
}

static bt_tensor *normed(void)
{
    bt_tensor *ones = bt_add(bt_zeros_like(b), 1);
    return bt_cross_entropy(bt_layer_norm(logits(), ones, b, 1e-5), label);
}

/* The weights depend on all losses. */
static bt_tensor *normalised(void)
{
    bt_tensor *losses = bt_cross_entropy(logits(), label), *u = bt_sigmoid(losses);
    return bt_div(bt_mul(u, losses), bt_sum(u));
}

static bt_tensor *two(void)
{
    bt_tensor *second = bt_linear(x, bt_mul(w, w), b, false);
    return bt_add(bt_cross_entropy(logits(), label), bt_cross_entropy(second, label));
}

static bt_tensor *(*const right[])(void) = {cross_entropy, tied,   of_softmax, accuracy,   both,
                                            smoothed,      shaped, normed,     normalised, two};

static int64_t pieces(void *user, const bt_node *product)
{
    (void)user;
    ck_assert_int_eq(bt_tensor_count(product->out), ROWS * CLASSES);
    asked++;
    return wanted;
}

/* The weighted sum of the rows' losses, computed before derivatives are taken, and in chunks. */
static bt_graph *chunked(bt_tensor *rows, bt_tensor **value)
{
    *value = bt_sum(bt_mul(weights, rows));
    bt_tensor *kept[] = {*value, NULL};
    scene_end(&s);
    bt_graph *graph = s.graph;
    s.graph = NULL; /* the caller owns it now */
    EXPECT_OK(bt_chunk(&graph, kept, 2, pieces, NULL));
    ck_assert_ptr_null(kept[1]);
    s.graph = graph;
    *value = kept[0];
    return graph;
}

/* All derivatives up to the third along fixed directions, with respect to x, w and b. */
static void add_derivatives(bt_graph *graph, bt_tensor *value)
{
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    for (int v = 0; v < 3; v++) {
        bt_tensor *of = value, *point = bt_graph_read(graph, s.vars[v]);
        for (int order = 1; order < 4; order++) {
            bt_tensor *slope = bt_grad(of, point);
            bt_graph_output(graph, slope);
            of = bt_sum(bt_mul(slope, bt_detach(bt_sin(bt_mul(order, point)))));
        }
    }
    bt_graph_output(graph, value);
    bt_trace_end(&trace);
    ck_assert_msg(graph->status == BT_OK, "%s", graph->message);
}

static double *results(bt_tensor *(*rows)(void), int64_t count, int64_t *elements)
{
    bt_tensor *value;
    wanted = count;
    bt_graph *graph = chunked(rows(), &value);
    add_derivatives(graph, value);
    *elements = output_elements(graph);
    return run_once(graph);
}

START_TEST(the_same_to_third_order)
{
    int64_t count = 0, as_many = 0;
    double *whole = results(right[_i], 1, &count);
    ck_assert_int_eq(asked, right[_i] == two ? 2 : 1);
    for (int64_t n = 2; n <= ROWS + 1; n++) {
        teardown();
        setup();
        double *parts = results(right[_i], n, &as_many);
        ck_assert_int_eq(asked, right[_i] == two ? 2 : 1);
        ck_assert_int_eq(count, as_many);
        for (int64_t i = 0; i < count; i++)
            ck_assert_msg(fabs(whole[i] - parts[i]) <= 1e-12 * fmax(1, fabs(whole[i])), "%d pieces: [%d]: %g, %g",
                          (int)n, (int)i, whole[i], parts[i]);
        free(parts);
    }
    free(whole);
}
END_TEST

/* No array over classes has more rows than a chunk. */
START_TEST(no_more_than_a_piece)
{
    bt_tensor *value;
    wanted = 3;
    bt_graph *graph = chunked(right[_i](), &value);
    int products = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        products += (bt_op_flags(node->op) & BT_OP_PRODUCT) != 0;
        if (!node->op->info->view && node->out->rank == 2 && node->out->dims[1] == CLASSES)
            ck_assert_int_le(node->out->dims[0], 3);
    }
    ck_assert_int_eq(products, right[_i] == two ? 6 : 3);
}
END_TEST

/* ---- losses that cannot ---- */

static bt_tensor *columns(void) { return bt_sum(bt_slice(bt_softmax(logits(), 0), 1, 0, 1), 1); }
static bt_tensor *of_all(void) { return bt_add(weights, bt_sum(bt_square(logits()))); }
static bt_tensor *left_wide(void) { return bt_slice(bt_reshape(logits(), -1), 0, 0, ROWS); }
static bt_tensor *narrow(void) { return bt_sum(bt_linear(x, bt_slice(w, 0, 0, 4), bt_slice(b, 0, 0, 4), false), 1); }
static bt_tensor *dropped(void) { return bt_cross_entropy(bt_dropout(logits(), 0.5), label); }

/* Each row uses the largest logit of all. */
static bt_tensor *lowered(void)
{
    bt_tensor *all = logits();
    return bt_sum(bt_sub(all, bt_max(all)), 1);
}

static bt_tensor *again(void)
{
    bt_tensor *all = logits(), *shares = bt_cross_entropy(all, label);
    return bt_sum(bt_mul(all, bt_unsqueeze(shares, 1)), 1); /* the share of a chunk's losses depends on all of them */
}

static bt_tensor *kept_whole(void)
{
    bt_tensor *all = logits();
    bt_graph_output(s.graph, all);
    return bt_cross_entropy(all, label);
}

static bt_tensor *(*const wrong[])(void) = {columns, of_all, left_wide, dropped, lowered, again, kept_whole, narrow};

START_TEST(stays_whole)
{
    bt_tensor *value;
    wanted = 3;
    s.trace.record = scene_var(&s, "record", BT_I64, NULL, (const int64_t[]){BT_END});
    bt_tensor *rows = wrong[_i]();
    bt_graph *before = s.graph;
    ck_assert_ptr_eq(chunked(rows, &value), before);
    ck_assert_int_eq(asked, 0);
}
END_TEST

/* There may be more chunks than rows; tags stay, and so do the marks of the remaining nodes. */
START_TEST(marks_stay)
{
    bt_tensor *value;
    wanted = 100;
    s.trace.tag.level = "lower";
    bt_tensor *rows = cross_entropy();
    rows->batch_axis = 0;
    s.trace.tag.level = "upper";
    bt_graph *graph = chunked(rows, &value);
    int lower = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        lower += strcmp(node->tag.level, "lower") == 0 && bt_op_flags(node->op) & BT_OP_PRODUCT;
        if (node->op == &bt_op_concat)
            ck_assert_int_eq(node->out->batch_axis, 0);
    }
    ck_assert_int_eq(lower, ROWS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chunk");
    TCase *tests = tcase_create("pieces");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_same_to_third_order, 0, (int)(sizeof right / sizeof *right));
    tcase_add_loop_test(tests, no_more_than_a_piece, 0, (int)(sizeof right / sizeof *right));
    tcase_add_loop_test(tests, stays_whole, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tests, marks_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

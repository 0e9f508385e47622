/* Which losses are means over the examples of a batch, and which op makes the others lose that property. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/additive.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDTH = 3 };

static scene s;
static int64_t N;            /* number of examples in the batch */
static bt_tensor *x, *l, *w; /* [N, WIDTH] and [N] from the examples; [WIDTH] from parameters */

static bt_tensor *field(const char *name, const double *values, int64_t width)
{
    bt_tensor *t = scene_read(&s, name, values, (const int64_t[]){N, width ? width : BT_END, BT_END});
    t->batch_axis = 0;
    return t;
}

/* A batch of `count` examples, beginning with number `from`. */
static void begin(int from, int64_t count)
{
    static const double xs[ROWS][WIDTH] = {{0.3, -1, 0.7}, {1.2, 0.4, -0.6}, {-0.2, 0.9, 1.1}, {0.8, -0.5, 0.1}};
    static const double ls[ROWS] = {0.5, 1.7, 0.9, 2.3};
    N = count;
    scene_begin(&s, BT_F64);
    x = field("x", xs[from], WIDTH);
    l = field("l", ls + from, 0);
    w = VECTOR(&s, "w", 0.2, -0.4, 0.6);
}

static void setup(void) { begin(0, ROWS); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

/* ---- means ---- */

static bt_tensor *mean(void) { return bt_mean(l); }
static bt_tensor *of_rows(void) { return bt_mean(bt_square(bt_sum(bt_mul(x, w), 1))); }
static bt_tensor *all_at_once(void) { return bt_mean(bt_square(x)); }
static bt_tensor *one_after_another(void) { return bt_mean(bt_mean(bt_exp(x), 1)); }
static bt_tensor *by_hand(void) { return bt_div(bt_sum(l), N); }
static bt_tensor *half_of_it(void) { return bt_mul(0.5, bt_div(bt_sum(bt_square(x)), N)); }
static bt_tensor *with_penalty(void) { return bt_add(bt_mean(l), bt_mul(0.1, bt_sum(bt_square(w)))); }
static bt_tensor *times_parameter(void) { return bt_mul(bt_sum(w), bt_sub(1, bt_mean(l))); }
static bt_tensor *of_parameters(void) { return bt_sum(bt_square(w)); }
static bt_tensor *of_softmax(void) { return bt_mean(bt_log(bt_softmax(x, 1))); }
static bt_tensor *in_columns(void) { return bt_sum(bt_mul(bt_mean(x, 0), w)); }
static bt_tensor *turned(void) { return bt_mean(bt_sum(bt_square(bt_transpose(x)), 0)); }
static bt_tensor *weighted(void) { return bt_mean(bt_mul(bt_detach(bt_exp(l)), bt_sum(x, 1))); }
static bt_tensor *clamped(void) { return bt_mean(bt_where(bt_less(l, 1), l, bt_square(l))); }

static bt_tensor *flat_and_back(void)
{
    return bt_mean(bt_square(bt_sum(bt_reshape(bt_exp(bt_reshape(x, N * WIDTH)), N, WIDTH), 1)));
}

static bt_tensor *two_of_each(void)
{
    bt_tensor *both = bt_concat(0, x, bt_square(x));
    return bt_mean(bt_sum(both, 1));
}

/* ---- sums ---- */

static bt_tensor *sum(void) { return bt_sum(l); }
static bt_tensor *sum_and_penalty(void) { return bt_add(bt_sum(bt_square(x)), bt_sum(bt_square(w))); }
static bt_tensor *part_of_sum(void) { return bt_mul(0.3, bt_sum(l)); }
static bt_tensor *sum_by_product(void) { return bt_sum(bt_dot(bt_reshape(l, 1, N), bt_exp(x))); }

/* ---- ops that mix examples ---- */

static bt_tensor *quotient(void) { return bt_div(bt_sum(bt_mul(bt_exp(l), l)), bt_sum(bt_exp(l))); }
static bt_tensor *shares(void) { return bt_sum(bt_mul(bt_div(l, bt_sum(l)), l)); }
static bt_tensor *variance(void) { return bt_sub(bt_mean(bt_square(l)), bt_square(bt_mean(l))); }
static bt_tensor *centred(void) { return bt_mean(bt_square(bt_sub(l, bt_mean(l)))); }
static bt_tensor *largest(void) { return bt_max(l); }
static bt_tensor *over_the_batch(void) { return bt_mean(bt_mul(bt_softmax(l, 0), l)); }
static bt_tensor *root(void) { return bt_sqrt(bt_mean(bt_square(l))); }
static bt_tensor *first_half(void) { return bt_mean(bt_slice(l, 0, 0, N / 2)); }
static bt_tensor *pairs(void) { return bt_mean(bt_square(bt_sub(bt_unsqueeze(l, 0), bt_unsqueeze(l, 1)))); }
static bt_tensor *gram(void) { return bt_mean(bt_dot(x, bt_transpose(x))); }
static bt_tensor *product(void) { return bt_mul(bt_mean(l), bt_mean(x)); }

static const struct {
    const char *name;
    bt_tensor *(*loss)(void);
    bt_split due;
    const char *op; /* the op that is reported; NULL: any, or none if the loss splits */
} cases[] = {
    {"mean", mean, BT_SPLITS, NULL},
    {"of rows", of_rows, BT_SPLITS, NULL},
    {"all at once", all_at_once, BT_SPLITS, NULL},
    {"one after another", one_after_another, BT_SPLITS, NULL},
    {"by hand", by_hand, BT_SPLITS, NULL},
    {"half of it", half_of_it, BT_SPLITS, NULL},
    {"with penalty", with_penalty, BT_SPLITS, NULL},
    {"times a parameter", times_parameter, BT_SPLITS, NULL},
    {"of parameters", of_parameters, BT_SPLITS, NULL},
    {"of softmax", of_softmax, BT_SPLITS, NULL},
    {"in columns", in_columns, BT_SPLITS, NULL},
    {"turned", turned, BT_SPLITS, NULL},
    {"weighted", weighted, BT_SPLITS, NULL},
    {"clamped", clamped, BT_SPLITS, NULL},
    {"flat and back", flat_and_back, BT_SPLITS, NULL},
    {"two of each", two_of_each, BT_SPLITS, NULL},
    {"sum", sum, BT_SPLIT_SUM, "sum"},
    {"sum and penalty", sum_and_penalty, BT_SPLIT_SUM, "sum"},
    {"part of a sum", part_of_sum, BT_SPLIT_SUM, "sum"},
    {"sum by a product", sum_by_product, BT_SPLIT_SUM, "dot"},
    {"quotient", quotient, BT_SPLIT_NOT, "div"},
    {"shares", shares, BT_SPLIT_NOT, "div"},
    {"variance", variance, BT_SPLIT_NOT, "square"},
    {"centred", centred, BT_SPLIT_NOT, "sub"},
    {"largest", largest, BT_SPLIT_NOT, "max"},
    {"over the batch", over_the_batch, BT_SPLIT_NOT, NULL},
    {"root", root, BT_SPLIT_NOT, "sqrt"},
    {"first half", first_half, BT_SPLIT_NOT, "slice"},
    {"pairs", pairs, BT_SPLIT_NOT, "sub"},
    {"gram", gram, BT_SPLIT_NOT, "dot"},
    {"product", product, BT_SPLIT_NOT, "mul"},
};

typedef struct told {
    const char *op;
    int count;
} told;

static void keep_first(void *user, const bt_node *node)
{
    told *all = user;
    if (!all->count++)
        all->op = node->op->name;
}

START_TEST(a_loss)
{
    told all = {0};
    bt_split split;
    bt_tensor *loss = cases[_i].loss();
    ck_assert_msg(s.graph->status == BT_OK, "%s: %s", cases[_i].name, s.graph->message);
    int64_t outputs = s.graph->output_count;
    ck_assert_int_eq(bt_split_of(s.graph, loss, NULL, N, keep_first, &all, &split), BT_OK);
    ck_assert_int_eq(s.graph->output_count, outputs);
    ck_assert_msg(split == cases[_i].due, "%s: %d, told %s", cases[_i].name, (int)split, all.op ? all.op : "nothing");
    ck_assert_msg(!cases[_i].op || (all.op && strcmp(all.op, cases[_i].op) == 0), "%s: told %s", cases[_i].name,
                  all.op ? all.op : "nothing");
    ck_assert_int_eq(all.count, split == BT_SPLITS ? 0 : 1);
}
END_TEST

static double value_of(bt_tensor *(*loss)(void), int from, int64_t count)
{
    begin(from, count);
    bt_graph_output(s.graph, loss());
    scene_end(&s);
    double *found = run_once(s.graph), value = *found;
    free(found);
    scene_free(&s);
    return value;
}

/* The table above, checked by values. */
START_TEST(its_parts)
{
    double half = (double)ROWS / 2, whole = value_of(cases[_i].loss, 0, ROWS);
    double parts = (value_of(cases[_i].loss, 0, ROWS / 2) + value_of(cases[_i].loss, ROWS / 2, ROWS / 2)) * half / ROWS;
    bool same = fabs(whole - parts) < 1e-12;
    ck_assert_msg(same == (cases[_i].due == BT_SPLITS), "%s: %.15g, its parts %.15g", cases[_i].name, whole, parts);
}
END_TEST

/* A metric in addition to the loss is not restricted. */
START_TEST(what_the_loss_does_not_use)
{
    told all = {0};
    bt_split split;
    bt_tensor *loss = bt_mean(l);
    bt_graph_output(s.graph, bt_max(l));
    ck_assert_int_eq(bt_split_of(s.graph, loss, NULL, N, keep_first, &all, &split), BT_OK);
    ck_assert_int_eq(split, BT_SPLITS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transform.additive");
    TCase *tcase = tcase_create("additive");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_loss, 0, (int)(sizeof cases / sizeof *cases));
    TCase *values = tcase_create("values");
    tcase_add_loop_test(values, its_parts, 0, (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(suite, values);
    tcase_add_test(tcase, what_the_loss_does_not_use);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

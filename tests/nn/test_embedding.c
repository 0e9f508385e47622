/* Embeddings, and a linear layer without bias: values, gradients, error messages. */
#include "tests/nn/running.h"

#include "base/base.h"

#include "support/suite.h"
#include <check.h>
#include <string.h>

enum { COUNT = 5, WIDTH = 3, PLACES = 6, PADDING = 2 };

static const int32_t places[PLACES] = {4, 2, 0, 4, 2, 1};

static bt_tensor *look_up(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "index"));
}

/* The gradient of sum(u rows): each row of the table gets the u of the places that read it. */
static bt_tensor *gradient(void *user, const bt_batch *batch)
{
    bt_module *table = user;
    bt_tensor *sum = bt_sum(bt_mul(bt_field(batch, "u"), bt_forward(table, bt_field(batch, "index"))));
    return bt_grad(sum, bt_params(table));
}

/* The table is also the head: sum(rows weight^T) adds the sum of the rows to the gradient of each row of the weight. */
static bt_tensor *tied(void *user, const bt_batch *batch)
{
    bt_module *table = user;
    bt_tensor *rows = bt_detach(bt_forward(table, bt_field(batch, "index")));
    return bt_grad(bt_sum(bt_matmul(rows, bt_permute(bt_param(table, "weight"), 1, 0))), bt_params(table));
}

static void sums(const double *u, bool padded, double *expected)
{
    memset(expected, 0, COUNT * WIDTH * sizeof *expected);
    for (int i = 0; i < PLACES; i++)
        for (int k = 0; k < WIDTH; k++)
            expected[places[i] * WIDTH + k] += padded && places[i] == PADDING ? 0 : u[i * WIDTH + k];
}

START_TEST(test_rows_and_their_gradient)
{
    double u[PLACES * WIDTH], y[PLACES * WIDTH], g[COUNT * WIDTH], expected[COUNT * WIDTH], zero[WIDTH] = {0};
    bt_embedding_options options = {.padding = PADDING};
    bool padded = _i == 1;
    bt_module *table = padded ? bt_nn_embedding(COUNT, WIDTH, &options) : bt_nn_embedding(COUNT, WIDTH);
    ck_assert_msg(bt_module_init(table, BT_CPU, BT_F64, 1) == BT_OK, "%s", bt_error());
    const double *weight = values_of(table, "weight");
    draw(u, PLACES * WIDTH, 1);
    RUN(look_up, table, BT_TRAIN, BT_ARRAY(y, 2, 3, WIDTH), {"index", BT_ARRAY(places, 2, 3)});
    for (int i = 0; i < PLACES; i++)
        CLOSE(y + i * WIDTH, weight + places[i] * WIDTH, WIDTH, 0);
    for (int row = 0; row < COUNT; row++)
        ck_assert_int_eq(memcmp(weight + row * WIDTH, zero, sizeof zero) == 0, padded && row == PADDING);
    RUN(gradient, table, BT_TRAIN, BT_ARRAY(g, COUNT * WIDTH), {"index", BT_ARRAY(places, 2, 3)},
        {"u", BT_ARRAY(u, 2, 3, WIDTH)});
    sums(u, padded, expected);
    CLOSE(g, expected, COUNT * WIDTH, 1e-15);
    RUN(tied, table, BT_TRAIN, BT_ARRAY(g, COUNT * WIDTH), {"index", BT_ARRAY(places, 2, 3)});
    for (int k = 0; k < WIDTH; k++) {
        double sum = 0;
        for (int i = 0; i < PLACES; i++)
            sum += weight[places[i] * WIDTH + k];
        ck_assert_double_eq_tol(g[PADDING * WIDTH + k], sum, 1e-14);
    }
    bt_module_free(table);
}
END_TEST

/* Given initial values are used unchanged, including the padding row. */
START_TEST(test_given_rows)
{
    double rows[COUNT * WIDTH];
    bt_embedding_options options = {.padding = PADDING};
    bt_module *table = bt_nn_embedding(COUNT, WIDTH, &options);
    draw(rows, COUNT * WIDTH, 4);
    bt_module_set_init(table, "weight", bt_init_array(BT_ARRAY(rows, COUNT, WIDTH)));
    ck_assert_msg(bt_module_init(table, BT_CPU, BT_F64, 1) == BT_OK, "%s", bt_error());
    CLOSE(values_of(table, "weight"), rows, COUNT * WIDTH, 0);
    bt_module_free(table);
}
END_TEST

START_TEST(test_mistakes)
{
    static const int64_t wild[] = {0, COUNT};
    double y[2 * WIDTH];
    bt_module *table = bt_nn_embedding(COUNT, WIDTH), *beyond = bt_nn_embedding(3, 2, &(bt_embedding_options){3});
    ck_assert_int_eq(bt_module_init(table, BT_CPU, BT_F64, 1), BT_OK);
    ck_assert_int_eq(TRY(look_up, table, BT_TRAIN, BT_ARRAY(y, 2, WIDTH), {"index", BT_ARRAY(wild, 2)}), BT_ERROR_DATA);
    MESSAGE("5");
    ck_assert_int_eq(bt_module_init(beyond, BT_CPU, BT_F64, 1), BT_ERROR_ARGUMENT);
    MESSAGE("bt_nn_embedding: 3 rows of 2 numbers, padding 3");
    bt_module_free(table);
    bt_module_free(beyond);
}
END_TEST

static bt_tensor *forward(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"));
}

START_TEST(test_linear_without_bias)
{
    enum { N = 4, IN = 5, OUT = 3 };
    double x[N * IN], y[N * OUT], expected[N * OUT] = {0};
    bt_module *net = bt_nn_linear(IN, OUT, &(bt_linear_options){.bias = false});
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 1), BT_OK);
    ck_assert_int_eq(bt_param_count(net), IN * OUT);
    draw(x, N * IN, 2);
    for (int i = 0; i < N * OUT; i++)
        for (int k = 0; k < IN; k++)
            expected[i] += x[i / OUT * IN + k] * values_of(net, "weight")[i % OUT * IN + k];
    RUN(forward, net, BT_TRAIN, BT_ARRAY(y, N, OUT), {"x", BT_ARRAY(x, N, IN)});
    CLOSE(y, expected, N * OUT, 1e-14);
    bt_module_free(net);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("embedding");
    TCase *test = tcase_create("embedding");
    tcase_add_loop_test(test, test_rows_and_their_gradient, 0, 2);
    tcase_add_test(test, test_given_rows);
    tcase_add_test(test, test_mistakes);
    tcase_add_test(test, test_linear_without_bias);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}

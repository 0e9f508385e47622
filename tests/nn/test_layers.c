/* The built-in modules against plain loops; errors for shapes that do not fit; buffers. */
#include "graph/graph.h"
#include "nn/module.h"
#include "support/vars.h"

#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <string.h>

static bt_tensor *forward(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"));
}

static bt_tensor *forward_twice(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"), bt_field(batch, "x"));
}

/* Runs the module on x and stores the result in y. */
static bt_status run_by(bt_function_fn *call, bt_module *module, bt_mode mode, bt_array x, bt_array y)
{
    bt_batch *batch = bt_batch_new();
    bt_function *function = bt_function_new(call, module, mode);
    bt_status status = bt_batch_set(batch, "x", x);
    if (status == BT_OK)
        status = bt_function_run(function, batch, y);
    bt_function_free(function);
    bt_batch_free(batch);
    return status;
}

static bt_status run(bt_module *module, bt_mode mode, bt_array x, bt_array y)
{
    return run_by(forward, module, mode, x, y);
}

static void fill(double *x, int count, uint64_t stream)
{
    for (int i = 0; i < count; i++)
        x[i] = 2 * bt_host_uniform(3, stream, (uint64_t)i) - 1;
}

static const double *values(bt_module *root, const char *path)
{
    bt_slate *slate = bt_module_find(root, path);
    ck_assert_ptr_nonnull(slate);
    return (const double *)(void *)var_near(slate->var);
}

/* y [n, out] = x [n, in] weight^T + bias */
static void linear(const double *x, const double *weight, const double *bias, int n, int in, int out, double *y)
{
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            double sum = bias[o];
            for (int k = 0; k < in; k++)
                sum += x[i * in + k] * weight[o * in + k];
            y[i * out + o] = sum;
        }
}

static void assert_close(const double *found, const double *expected, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i])),
                      "[%d]: found %.17g, expected %.17g", i, found[i], expected[i]);
}

static void assert_message(const char *part)
{
    ck_assert_msg(strstr(bt_error(), part) != NULL, "message \"%s\" lacks \"%s\"", bt_error(), part);
    bt_error_clear();
}

START_TEST(test_linear_of_every_rank)
{
    enum { IN = 5, OUT = 3 };
    double x[24 * IN], y[24 * OUT], expected[24 * OUT];
    bt_module *net = bt_nn_linear(IN, OUT);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 1), BT_OK);
    fill(x, 24 * IN, 1);
    linear(x, values(net, "weight"), values(net, "bias"), 24, IN, OUT, expected);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 24, IN), BT_ARRAY(y, 24, OUT)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, 24 * OUT);
    memset(y, 0, sizeof y);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 4, 2, 3, IN), BT_ARRAY(y, 4, 2, 3, OUT)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, 24 * OUT);
    memset(y, 0, sizeof y);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, IN), BT_ARRAY(y, OUT)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, OUT);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 4, 2), BT_ARRAY(y, 4, 3)), BT_ERROR_SHAPE);
    assert_message("linear expects 5 features, found [4, 2]");
    bt_module_free(net);
}
END_TEST

static double relu(double x) { return x > 0 ? x : 0; }

static void check_mlp(bt_unary_fn *activation, double (*plain)(double))
{
    enum { N = 6, A = 12, B = 7, C = 4, D = 2 };
    double x[N * A], h[N * B], k[N * C], y[N * D], expected[N * D];
    bt_module *net = bt_nn_mlp(activation, A, B, C, D);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    fill(x, N * A, 2);
    linear(x, values(net, "0.weight"), values(net, "0.bias"), N, A, B, h);
    for (int i = 0; i < N * B; i++)
        h[i] = plain(h[i]);
    linear(h, values(net, "1.weight"), values(net, "1.bias"), N, B, C, k);
    for (int i = 0; i < N * C; i++)
        k[i] = plain(k[i]);
    linear(k, values(net, "2.weight"), values(net, "2.bias"), N, C, D, expected); /* no activation at the end */
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, N, 2, 3, 2), BT_ARRAY(y, N, D)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, N * D);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, N, 2, 3, 1), BT_ARRAY(y, N, D)), BT_ERROR_SHAPE);
    assert_message("mlp expects 12 features, found [6, 2, 3, 1]");
    bt_module_free(net);
}

START_TEST(test_mlp_with_the_fused_activation_and_another_one)
{
    check_mlp(bt_relu, relu);
    check_mlp(bt_tanh, tanh);
}
END_TEST

START_TEST(test_mlp_takes_one_number_per_example)
{
    double x[3] = {0.5, -1, 2}, y[3], h[3], expected[3];
    bt_module *net = bt_nn_mlp(bt_relu, 1, 1, 1);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    linear(x, values(net, "0.weight"), values(net, "0.bias"), 3, 1, 1, h);
    for (int i = 0; i < 3; i++)
        h[i] = relu(h[i]);
    linear(h, values(net, "1.weight"), values(net, "1.bias"), 3, 1, 1, expected);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 3), BT_ARRAY(y, 3, 1)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, 3);
    bt_module_free(net);
}
END_TEST

START_TEST(test_layer_norm)
{
    enum { N = 4, F = 9 };
    double x[N * F], y[N * F], expected[N * F];
    bt_module *net = bt_nn_layer_norm(F);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    fill(x, N * F, 3);
    for (int i = 0; i < N; i++) {
        double mean = 0, variance = 0;
        for (int k = 0; k < F; k++)
            mean += x[i * F + k] / F;
        for (int k = 0; k < F; k++)
            variance += (x[i * F + k] - mean) * (x[i * F + k] - mean) / F;
        for (int k = 0; k < F; k++)
            expected[i * F + k] = (x[i * F + k] - mean) / sqrt(variance + 1e-5);
    }
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, N, F), BT_ARRAY(y, N, F)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, N * F);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, F, N), BT_ARRAY(y, F, N)), BT_ERROR_SHAPE);
    assert_message("layer_norm expects 9 features, found [9, 4]");
    bt_module_free(net);
}
END_TEST

static bt_tensor *no_rows(bt_tensor *x) { return bt_slice(x, 0, 0, 0); }

/* A single number is its own mean: normalised, it would always be 0. */
START_TEST(test_norms_of_too_little)
{
    double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[9];
    bt_module *nets[] = {bt_nn_batch_norm(9), bt_nn_instance_norm(9), bt_nn_group_norm(3, 9),
                         bt_nn_sequential(bt_nn_fn(no_rows), bt_nn_group_norm(3, 9))};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(bt_module_init(nets[i], BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_int_eq(run(nets[0], BT_TRAIN, BT_ARRAY(x, 9), BT_ARRAY(y, 9)), BT_ERROR_SHAPE);
    assert_message("batch_norm expects at least 2 axes, found [9]");
    ck_assert_int_eq(run(nets[0], BT_TRAIN, BT_ARRAY(x, 1, 9), BT_ARRAY(y, 1, 9)), BT_ERROR_SHAPE);
    assert_message("batch_norm: a single value per channel has no variance");
    ck_assert_int_eq(run(nets[0], BT_VALID, BT_ARRAY(x, 1, 9), BT_ARRAY(y, 1, 9)), BT_OK);
    ck_assert_int_eq(run(nets[1], BT_TRAIN, BT_ARRAY(x, 1, 1, 1, 9), BT_ARRAY(y, 1, 1, 1, 9)), BT_ERROR_SHAPE);
    assert_message("group_norm: a single value per group has no variance");
    ck_assert_int_eq(run(nets[2], BT_TRAIN, BT_ARRAY(x, 1, 9), BT_ARRAY(y, 1, 9)), BT_ERROR_SHAPE);
    assert_message("group_norm expects at least 3 axes, found [1, 9]");
    ck_assert_int_eq(run(nets[2], BT_TRAIN, BT_ARRAY(x, 1, 1, 1, 9), BT_ARRAY(y, 1, 1, 1, 9)), BT_OK);
    ck_assert_msg(run(nets[3], BT_TRAIN, BT_ARRAY(x, 1, 1, 1, 9), BT_ARRAY(y, 0, 1, 1, 9)) == BT_OK, "%s", bt_error());
    for (int i = 0; i < 4; i++)
        bt_module_free(nets[i]);
}
END_TEST

/* Groups requested by the module itself: rows 0 and 1, and rows 2 and 3. */
START_TEST(test_batch_norm_of_groups)
{
    double x[] = {1, 3, 10, 30}, y[4], one = 5;
    bt_batch_norm_options o = bt_batch_norm_defaults();
    o.groups = 2;
    o.eps = 3;
    bt_module *net = bt_nn_sequential(bt_nn_batch_norm(1, &o));
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 4, 1), BT_ARRAY(y, 4, 1)) == BT_OK, "%s", bt_error());
    assert_close(y, (const double[]){-0.5, 0.5, -10 / sqrt(103), 10 / sqrt(103)}, 4);
    ck_assert_double_eq_tol(*values(net, "0.running_mean"), 0.1 * (2 + 20) / 2, 1e-12);
    ck_assert_double_eq_tol(*values(net, "0.running_var"), 0.9 + 0.1 * (2 + 200) / 2, 1e-12);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 3, 1), BT_ARRAY(y, 3, 1)), BT_ERROR_SHAPE);
    assert_message(
        "0: batch_norm: a batch of 3 rows cannot be divided into 2 groups (batch_norm_groups); use batch sizes");
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 2, 1), BT_ARRAY(y, 2, 1)), BT_ERROR_SHAPE);
    assert_message("0: batch_norm: a single value per channel in each group of rows has no variance");
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 2, 2, 1), BT_ARRAY(y, 2, 2, 1)) == BT_OK, "%s", bt_error());
    assert_close(y, (const double[]){-0.5, 0.5, -10 / sqrt(103), 10 / sqrt(103)}, 4);
    ck_assert_msg(run(net, BT_VALID, BT_ARRAY(&one, 1, 1), BT_ARRAY(y, 1, 1)) == BT_OK, "%s", bt_error());
    bt_module_free(net);
    o.groups = -1;
    net = bt_nn_batch_norm(1, &o);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_ERROR_ARGUMENT);
    assert_message("groups -1; expected at least 1 channel, eps >= 0, a momentum from 0 to 1 and groups >= 0");
    bt_module_free(net);
}
END_TEST

START_TEST(test_dropout_only_trains)
{
    enum { N = 20000 };
    static double x[N], y[N];
    bt_module *net = bt_nn_sequential(bt_nn_dropout(0.25));
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    for (int i = 0; i < N; i++)
        x[i] = 3;
    ck_assert_msg(run(net, BT_VALID, BT_ARRAY(x, N), BT_ARRAY(y, N)) == BT_OK, "%s", bt_error());
    ck_assert_mem_eq(x, y, sizeof x);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, N), BT_ARRAY(y, N)) == BT_OK, "%s", bt_error());
    int dropped = 0;
    for (int i = 0; i < N; i++) {
        ck_assert(y[i] == 0 || fabs(y[i] - 4) < 1e-12);
        dropped += y[i] == 0;
    }
    ck_assert_double_eq_tol(dropped / (double)N, 0.25, 5 * sqrt(0.25 * 0.75 / N));
    bt_module_free(net);
}
END_TEST

START_TEST(test_sequential_passes_on)
{
    double x[6], y[4], h[4], expected[4];
    bt_module *net = bt_nn_sequential(bt_nn_linear(3, 2), bt_nn_fn(bt_square), bt_nn_linear(2, 2));
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    fill(x, 6, 4);
    linear(x, values(net, "0.weight"), values(net, "0.bias"), 2, 3, 2, h);
    for (int i = 0; i < 4; i++)
        h[i] *= h[i];
    linear(h, values(net, "2.weight"), values(net, "2.bias"), 2, 2, 2, expected);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 2, 3), BT_ARRAY(y, 2, 2)) == BT_OK, "%s", bt_error());
    assert_close(y, expected, 4);
    bt_module_free(net);
}
END_TEST

START_TEST(test_messages_name_the_module)
{
    double x[6] = {0}, y[4];
    bt_module *net = bt_nn_sequential(bt_nn_linear(3, 2), bt_nn_sequential(bt_nn_linear(4, 2)));
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 2, 3), BT_ARRAY(y, 2, 2)), BT_ERROR_SHAPE);
    assert_message("1.0: linear expects 4 features, found [2, 2]");
    bt_module_free(net);

    net = bt_module_new(NULL);
    bt_module_add_param(net, "w", bt_init_constant(0));
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 2), BT_ARRAY(y, 2)), BT_ERROR_ARGUMENT);
    assert_message("no forward function");
    bt_module_free(net);

    net = bt_nn_linear(3, 2);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_int_eq(run_by(forward_twice, net, BT_TRAIN, BT_ARRAY(x, 2, 3), BT_ARRAY(y, 2, 2)), BT_ERROR_ARGUMENT);
    assert_message("linear takes one input, but was given more");
    bt_module_free(net);

    net = bt_nn_linear(2, 2); /* never initialised */
    ck_assert_int_eq(run(net, BT_TRAIN, BT_ARRAY(x, 3, 2), BT_ARRAY(y, 2)), BT_ERROR_ARGUMENT);
    assert_message("no storage yet");
    bt_module_free(net);
}
END_TEST

/* A module that calls a grandchild directly: its nodes still have the declared path. */
static bt_tensor *skipping_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *y = bt_forward(bt_child(self, "body.0"), in[0]);
    ck_assert_str_eq(y->node->tag.path, "net.body.0");
    bt_tensor *z = bt_square(y);
    ck_assert_str_eq(z->node->tag.path, "net");
    return z;
}

START_TEST(test_nodes_carry_the_declared_path)
{
    double x[2] = {1, 2}, y[1];
    bt_module *net = bt_module_new(skipping_forward), *root = bt_module_new(NULL);
    bt_module_add(net, bt_nn_sequential(bt_nn_linear(2, 1)), "body");
    bt_module_add(root, net, "net");
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F64, 2), BT_OK);
    ck_assert_msg(run(net, BT_TRAIN, BT_ARRAY(x, 1, 2), BT_ARRAY(y, 1, 1)) == BT_OK, "%s", bt_error());
    double h;
    linear(x, values(root, "net.body.0.weight"), values(root, "net.body.0.bias"), 1, 2, 1, &h);
    ck_assert_double_eq_tol(y[0], h * h, 1e-12);
    bt_module_free(root);
}
END_TEST

/* ---- parameters and buffers ---- */

static bt_tensor *all_params(void *user, const bt_batch *batch)
{
    (void)batch;
    return bt_params((bt_module *)user);
}

START_TEST(test_params_is_one_vector_in_order_of_declaration)
{
    static const int64_t order[] = {2, 0, 1};
    const double a[4] = {1, 2, 3, 4}, b[1] = {5}, c[2] = {6, 7};
    double y[7], part[2];
    bt_module *root = bt_module_new(NULL), *child = bt_module_new(NULL);
    bt_module_add_param(child, "c", bt_init_array(BT_ARRAY(c, 2)), 2);
    bt_module_add(root, child, "child");
    bt_module_add_param(root, "a", bt_init_array(BT_ARRAY(a, 2, 2)), 2, 2);
    bt_module_add_buffer(root, "no", bt_init_constant(0), 3);
    bt_module_add_param(root, "b", bt_init_array(BT_ARRAY(b, 1)), 1);
    ck_assert_int_eq(bt_module_adopt(root, "", BT_F64, 1, order), BT_OK);
    bt_function *function = bt_function_new(all_params, root, BT_TRAIN);
    ck_assert_msg(bt_function_run(function, NULL, BT_ARRAY(y, 7)) == BT_OK, "%s", bt_error());
    for (int i = 0; i < 7; i++)
        ck_assert_double_eq(y[i], i + 1);
    bt_function_free(function);
    function = bt_function_new(all_params, child, BT_TRAIN);
    ck_assert_msg(bt_function_run(function, NULL, BT_ARRAY(part, 2)) == BT_OK, "%s", bt_error());
    ck_assert_double_eq(part[0], 6);
    ck_assert_double_eq(part[1], 7);
    bt_function_free(function);
    bt_module_free(root);
}
END_TEST

static bt_tensor *count_up(void *user, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *before = bt_param((bt_module *)user, "child.count");
    bt_param_set((bt_module *)user, "child.count", bt_add(before, 1));
    return bt_add(bt_param((bt_module *)user, "child.count"), 0.0); /* the old value until the end of the run */
}

static bt_tensor *set_param(void *user, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_param((bt_module *)user, "child.w");
    bt_param_set((bt_module *)user, "child.w", bt_mul(2, w));
    return bt_sum(w);
}

static bt_tensor *set_wrong_shape(void *user, const bt_batch *batch)
{
    (void)batch;
    bt_param_set((bt_module *)user, "child.count", bt_param((bt_module *)user, "child.w"));
    return bt_sum(bt_param((bt_module *)user, "child.w"));
}

START_TEST(test_buffers_are_set_for_the_next_run)
{
    bt_module *root = bt_module_new(NULL), *child = bt_module_new(NULL);
    bt_module_add_buffer(child, "count", bt_init_constant(10));
    bt_module_add_param(child, "w", bt_init_constant(1), 3);
    bt_module_add(root, child, "child");
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F64, 1), BT_OK);
    bt_function *function = bt_function_new(count_up, root, BT_TRAIN);
    for (int i = 0; i < 3; i++) {
        double count = 0;
        ck_assert_msg(bt_function_run(function, NULL, BT_ARRAY(&count)) == BT_OK, "%s", bt_error());
        ck_assert_double_eq(count, 10 + i);
    }
    ck_assert_double_eq(*values(root, "child.count"), 13);
    bt_function_free(function);

    double sum;
    function = bt_function_new(set_param, root, BT_TRAIN);
    ck_assert_int_eq(bt_function_run(function, NULL, BT_ARRAY(&sum)), BT_ERROR_ARGUMENT);
    assert_message("\"child.w\" is a parameter");
    bt_function_free(function);
    function = bt_function_new(set_wrong_shape, root, BT_TRAIN);
    ck_assert_int_eq(bt_function_run(function, NULL, BT_ARRAY(&sum)), BT_ERROR_SHAPE);
    assert_message("the buffer \"child.count\" is [], its new value [3]");
    bt_function_free(function);
    bt_module_free(root);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layers");
    TCase *test = tcase_create("layers");
    tcase_add_test(test, test_linear_of_every_rank);
    tcase_add_test(test, test_mlp_with_the_fused_activation_and_another_one);
    tcase_add_test(test, test_mlp_takes_one_number_per_example);
    tcase_add_test(test, test_layer_norm);
    tcase_add_test(test, test_norms_of_too_little);
    tcase_add_test(test, test_batch_norm_of_groups);
    tcase_add_test(test, test_dropout_only_trains);
    tcase_add_test(test, test_sequential_passes_on);
    tcase_add_test(test, test_messages_name_the_module);
    tcase_add_test(test, test_nodes_carry_the_declared_path);
    tcase_add_test(test, test_params_is_one_vector_in_order_of_declaration);
    tcase_add_test(test, test_buffers_are_set_for_the_next_run);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}

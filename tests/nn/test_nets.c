/* The built-in networks: their published sizes, and their outputs compared with PyTorch's (see golden_nets.py). */
#include "golden_nets.h"
#include "nn/module.h"
#include "support/vars.h"

#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- sizes ---- */

static void assert_params(bt_module *net, int64_t expected, const char *what)
{
    ck_assert_msg(net && net->status == BT_OK, "%s: %s", what, net && net->message ? net->message : "NULL");
    ck_assert_msg(bt_param_count(net) == expected, "%s: %lld parameters, expected %lld", what,
                  (long long)bt_param_count(net), (long long)expected);
    bt_module_free(net);
}

START_TEST(test_published_sizes)
{
    assert_params(bt_nn_resnet_cifar(20, 3, 10), 269722, "ResNet-20"); /* 0.27 M; the count by akamaster */
    assert_params(bt_nn_resnet_cifar(32, 3, 10), 464154, "ResNet-32");
    assert_params(bt_nn_resnet_cifar(44, 3, 10), 658586, "ResNet-44");
    assert_params(bt_nn_resnet_cifar(56, 3, 10), 853018, "ResNet-56");
    assert_params(bt_nn_resnet_cifar(110, 3, 10), 1727962, "ResNet-110");
    assert_params(bt_nn_resnet(18, 3, 1000), 11689512, "ResNet-18"); /* torchvision's table */
    assert_params(bt_nn_resnet(34, 3, 1000), 21797672, "ResNet-34");
    assert_params(bt_nn_resnet(50, 3, 1000), 25557032, "ResNet-50");
    assert_params(bt_nn_wide_resnet(28, 10, 3, 10, 0.3), 36479194, "WRN-28-10");
    assert_params(bt_nn_convnet(28, 28, 1, 64, 4, 5), 112261, "ConvNet"); /* 4 blocks, and 64 features to 5 classes */
    assert_params(bt_nn_convnet_strided(1, 64, 4, 5), 112261, "strided ConvNet");
    assert_params(bt_nn_lenet(28, 28, 1, 10), 61706, "LeNet-5");
}
END_TEST

START_TEST(test_what_there_is_not)
{
    bt_module *wrong[] = {bt_nn_resnet_cifar(21, 3, 10),
                          bt_nn_resnet(19, 3, 10),
                          bt_nn_wide_resnet(28, 0, 3, 10, 0),
                          bt_nn_convnet(28, 28, 1, 0, 4, 5),
                          bt_nn_convnet_strided(1, 64, 65, 5),
                          bt_nn_lenet(8, 28, 1, 10),
                          bt_nn_darts(3, 16, 0, 4, 10),
                          bt_nn_darts(3, 16, 8, 40, 10),
                          bt_nn_conv2d(3, 8, 0),
                          bt_nn_batch_norm(0),
                          bt_nn_group_norm(3, 8),
                          bt_nn_max_pool2d(2, 2, 2),
                          bt_nn_avg_pool2d(0, 1, 0)};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        bt_error_clear();
        ck_assert_msg(bt_module_init(wrong[i], BT_CPU, BT_F32, 1) == BT_ERROR_ARGUMENT, "network %d", i);
        ck_assert_msg(strstr(bt_error(), "bt_nn_") != NULL, "network %d: %s", i, bt_error());
        bt_module_free(wrong[i]);
    }
    bt_error_clear();
}
END_TEST

/* ---- outputs ---- */

static void fill(bt_slate *slate, int64_t t)
{
    bt_array values = bt_var_array(slate->var);
    int64_t count = bt_array_count(values), last = values.dims[values.rank - 1];
    double fan = slate->window ? (double)(count / last) : (double)last;
    const char *name = slate->name;
    for (int64_t e = 0; e < count; e++) {
        double s = sin(0.7 * (double)t + 1.3 * (double)e + 0.1), value;
        if (values.rank > 1)
            value = s / sqrt(fan);
        else if (strcmp(name, "running_var") == 0)
            value = 1 + 0.5 * s * s;
        else
            value = strcmp(name, "weight") == 0 ? 1 + 0.1 * s : 0.1 * s;
        var_put(slate->var, e, value);
    }
}

static bt_tensor *apply(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"));
}

static bt_tensor *apply_weighted(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"), bt_field(batch, "normal"), bt_field(batch, "reduce"));
}

/* Frees the module. x is [n, h, w, c]. */
static void check_net(bt_module *net, bt_dtype dtype, bt_mode mode, const int64_t x_dims[4], const double *golden,
                      int64_t classes, double tolerance)
{
    static double x[32 * 32 * 3], y[64], weights[2][40];
    int64_t n = x_dims[0], count = n * x_dims[1] * x_dims[2] * x_dims[3];
    bt_status status = bt_module_init(net, BT_CPU, dtype, 1);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < net->param_count; i++)
        fill(net->params[i], i);
    for (int64_t i = 0; i < net->buffer_count; i++)
        fill(net->buffers[i], net->param_count + i);
    for (int64_t e = 0; e < count; e++)
        x[e] = cos(0.37 * (double)e);
    for (int k = 0; k < 40; k++)
        for (int kind = 0; kind < 2; kind++)
            weights[kind][k] = cos(0.3 * k + kind);
    bool weighted = bt_module_find_child(net, "stem") != NULL;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(x, n, x_dims[1], x_dims[2], x_dims[3]));
    bt_batch_set(batch, "normal", BT_ARRAY(weights[0], 5, 8));
    bt_batch_set(batch, "reduce", BT_ARRAY(weights[1], 5, 8));
    bt_function *function = bt_function_new(weighted ? apply_weighted : apply, net, mode);
    status = bt_function_run(function, batch, BT_ARRAY(y, n, classes));
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < n * classes; i++)
        ck_assert_msg(fabs(y[i] - golden[i]) <= tolerance * (1 + fabs(golden[i])),
                      "[%lld]: found %.15g, expected %.15g", (long long)i, y[i], golden[i]);
    bt_function_free(function);
    bt_batch_free(batch);
    bt_module_free(net);
}

#define CHECK(net, dtype, mode, golden, classes, tolerance, ...)                                                       \
    check_net((net), (dtype), (mode), (const int64_t[]){__VA_ARGS__}, (golden), (classes), (tolerance))

START_TEST(test_small_images)
{
    CHECK(bt_nn_resnet_cifar(8, 3, 10), BT_F64, BT_TRAIN, golden_resnet_8, 10, 1e-10, 2, 8, 8, 3);
    CHECK(bt_nn_resnet_cifar(8, 3, 10), BT_F64, BT_VALID, golden_resnet_8_eval, 10, 1e-10, 2, 8, 8, 3);
    CHECK(bt_nn_wide_resnet(10, 2, 3, 10, 0), BT_F64, BT_TRAIN, golden_wide_10_2, 10, 1e-10, 2, 8, 8, 3);
}
END_TEST

START_TEST(test_large_images)
{
    CHECK(bt_nn_resnet(18, 3, 10), BT_F32, BT_VALID, golden_resnet_18, 10, 1e-4, 1, 32, 32, 3);
    CHECK(bt_nn_resnet(50, 3, 10), BT_F32, BT_VALID, golden_resnet_50, 10, 1e-4, 1, 32, 32, 3);
}
END_TEST

START_TEST(test_plain_networks)
{
    CHECK(bt_nn_convnet(28, 28, 1, 8, 5, 5), BT_F64, BT_TRAIN, golden_convnet, 5, 1e-9, 3, 28, 28, 1);
    CHECK(bt_nn_convnet_strided(1, 8, 4, 5), BT_F64, BT_TRAIN, golden_convnet_strided, 5, 1e-9, 3, 28, 28, 1);
    CHECK(bt_nn_lenet(28, 28, 1, 10), BT_F64, BT_TRAIN, golden_lenet, 10, 1e-10, 2, 28, 28, 1);
}
END_TEST

START_TEST(test_architecture_search)
{
    ck_assert_int_eq(bt_nn_darts_edges(4), 14);
    CHECK(bt_nn_darts(3, 4, 3, 2, 10), BT_F64, BT_TRAIN, golden_darts, 10, 1e-9, 2, 8, 8, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nn.nets");
    TCase *tcase = tcase_create("nets");
    tcase_add_test(tcase, test_published_sizes);
    tcase_add_test(tcase, test_what_there_is_not);
    tcase_add_test(tcase, test_small_images);
    tcase_add_test(tcase, test_large_images);
    tcase_add_test(tcase, test_plain_networks);
    tcase_add_test(tcase, test_architecture_search);
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

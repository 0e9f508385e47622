/* Networks in 16 bits compared with PyTorch's autocast (see golden_autocast.py). */
#include "golden_autocast.h"
#include "nn/module.h"
#include "ops/ops.h"
#include "support/vars.h"

#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <string.h>

typedef struct net {
    bt_module *module;
    bt_dtype low;
} net;

static void fill(bt_slate *slate, int64_t t)
{
    bt_array values = bt_var_array(slate->var);
    int64_t count = bt_array_count(values), last = values.rank ? values.dims[values.rank - 1] : 1;
    double fan = slate->window ? (double)(count / last) : (double)last;
    for (int64_t e = 0; e < count; e++) {
        double s = sin(0.7 * (double)t + 1.3 * (double)e + 0.1), value = 0.1 * s;
        if (values.rank > 1)
            value = s / sqrt(fan);
        else if (strcmp(slate->name, "running_var") == 0)
            value = 1 + 0.5 * s * s;
        else if (strcmp(slate->name, "weight") == 0)
            value = 1 + 0.1 * s;
        var_put(slate->var, e, value);
    }
}

/* Logits, and the gradients of two weights, concatenated. */
static bt_tensor *apply(void *user, const bt_batch *batch)
{
    net *n = user;
    bt_trace *trace = bt_trace_now();
    bt_tensor *weights[2] = {NULL};
    for (int64_t i = 0; i < n->module->param_count; i++)
        if (n->module->params[i]->shape.rank > 1) {
            weights[1] = bt_trace_read(n->module->params[i]->var);
            weights[0] = weights[0] ? weights[0] : weights[1];
        }
    trace->tag.low = n->low;
    bt_tensor *y = bt_forward(n->module, bt_field(batch, "x"));
    ck_assert_msg(trace->graph->status == BT_OK, "%s", trace->graph->message);
    ck_assert_int_eq(y->dtype, n->low);
    bt_tensor *loss = bt_mean(bt_cross_entropy(y, bt_field(batch, "label")));
    ck_assert_int_eq(loss->dtype, BT_F32);
    trace->tag.low = BT_F32;
    bt_tensor *parts[] = {bt_reshape(bt_cast(y, BT_F32), -1), NULL, NULL, NULL};
    for (int k = 0; k < 2; k++) {
        parts[k + 1] = bt_reshape(bt_grad(loss, weights[k]), -1);
        ck_assert_int_eq(parts[k + 1]->dtype, BT_F32);
    }
    return (bt_concat)(0, parts);
}

/* Frees the module. Each part is compared relative to its largest value; first: for the first weight's gradient. */
static void check_net(bt_module *module, bt_dtype low, bt_array x, int classes, const double *golden, const int *parts,
                      double tolerance, double first)
{
    static float pixels[4 * 8 * 8 * 3], y[2048];
    int32_t label[8];
    net n = {.module = module, .low = low};
    ck_assert_msg(bt_module_init(module, BT_CPU, BT_F32, 1) == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < module->param_count; i++)
        fill(module->params[i], i);
    for (int64_t i = 0; i < module->buffer_count; i++)
        fill(module->buffers[i], module->param_count + i);
    for (int64_t e = 0; e < bt_array_count(x); e++)
        pixels[e] = (float)cos(0.37 * (double)e);
    for (int64_t k = 0; k < x.dims[0]; k++)
        label[k] = (int32_t)((3 * k + 1) % classes);
    x.data = pixels;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", x);
    bt_batch_set(batch, "label", BT_ARRAY(label, x.dims[0]));
    bt_function *function = bt_function_new(apply, &n, BT_VALID);
    int total = parts[0] + parts[1] + parts[2];
    ck_assert_msg(bt_function_run(function, batch, BT_ARRAY(y, total)) == BT_OK, "%s", bt_error());
    for (int p = 0, at = 0; p < 3; at += parts[p++]) {
        double largest = 0;
        for (int e = at; e < at + parts[p]; e++)
            largest = fmax(largest, fabs(golden[e]));
        for (int e = at; e < at + parts[p]; e++)
            ck_assert_msg(fabs((double)y[e] - golden[e]) <= (p == 1 ? first : tolerance) * largest,
                          "part %d, [%d]: found %.9g, expected %.9g; the largest is %.9g", p, e - at, (double)y[e],
                          golden[e], largest);
    }
    bt_function_free(function);
    bt_batch_free(batch);
    bt_module_free(module);
}

/* A unit of bf16 is 2^-8, of fp16 2^-11; PyTorch adds in another order. */
START_TEST(test_perceptron)
{
    static const int parts[] = {30, 192, 80};
    const bt_array x = {BT_F32, 2, {6, 12}, NULL};
    check_net(bt_nn_mlp(bt_relu, 12, 16, 16, 5), BT_BF16, x, 5, golden_perceptron_bf16, parts, 0x1p-6, 0x1p-6);
    check_net(bt_nn_mlp(bt_relu, 12, 16, 16, 5), BT_F16, x, 5, golden_perceptron_f16, parts, 0x1p-9, 0x1p-9);
}
END_TEST

/* The first convolution's gradient passes through gates whose signs depend on rounding: PyTorch's own differs as much
 * from f32, by 0.21 and 0.06. */
START_TEST(test_resnet)
{
    static const int parts[] = {40, 432, 640};
    const bt_array x = {BT_F32, 4, {4, 8, 8, 3}, NULL};
    check_net(bt_nn_resnet_cifar(8, 3, 10), BT_BF16, x, 10, golden_resnet_8_bf16, parts, 0x1p-6, 0.2);
    check_net(bt_nn_resnet_cifar(8, 3, 10), BT_F16, x, 10, golden_resnet_8_f16, parts, 0x1p-9, 0.1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nn: autocast");
    TCase *tests = tcase_create("autocast");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_perceptron);
    tcase_add_test(tests, test_resnet);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

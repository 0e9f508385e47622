/* tests/export/test_onnx.c: ONNX models: compared byte by byte with those of the Python package onnx; every op that has
 * a rule, compared with a model that onnxruntime agreed with; errors and their messages. */
#include "golden_onnx.h"
#include "graph_hash.h"
#include "op_models.h"

#include "export/onnx.h"
#include "nn/module.h"
#include "ops/ops.h"
#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct golden {
    const char *name;
    uint64_t hash;
} golden_ops[] = {
#include "golden_ops.h"
};

static char folder[64], before[4096];

static void setup(void)
{
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/betty-onnx-XXXXXX" : "/tmp/betty-onnx-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    bt_error_clear();
}

static void teardown(void)
{
    unlink("x.onnx");
    ck_assert_int_eq(chdir(before), 0);
    ck_assert_int_eq(rmdir(folder), 0); /* there are no other files */
}

static const bt_array rows = {.dtype = BT_F32, .rank = 2, .dims = {0, 2}};

/* Frees the module. */
static bt_status export_one(bt_module *module, bt_array shape)
{
    bt_status status = bt_module_init(module, BT_CPU, BT_F32, 1);
    if (status == BT_OK)
        status = bt_module_export(module, "x.onnx", &(bt_model_input){"x", shape}, 1);
    bt_module_free(module);
    return status;
}

static void set(bt_module *module, const char *path, bt_array values)
{
    bt_module_set_init(module, path, bt_init_array(values));
}

static void expect_graph(const unsigned char *golden, size_t size)
{
    char *file;
    size_t found;
    const char *graph = graph_of("x.onnx", &file, &found);
    ck_assert_uint_eq(found, size);
    ck_assert_mem_eq(graph, golden, size);
    bt_free(file);
}

/* ---- bytes ---- */

START_TEST(an_mlp)
{
    const float w0[] = {1, -2, 0.5F, 0.25F, 3, -1}, b0[] = {0.5F, -0.5F, 1}, w1[] = {1, 2, 3}, b1[] = {-4};
    bt_module *net = bt_nn_mlp(bt_relu, 2, 3, 1);
    set(net, "0.weight", BT_ARRAY(w0, 3, 2));
    set(net, "0.bias", BT_ARRAY(b0, 3));
    set(net, "1.weight", BT_ARRAY(w1, 1, 3));
    set(net, "1.bias", BT_ARRAY(b1, 1));
    ck_assert_msg(export_one(net, rows) == BT_OK, "%s", bt_error());
    expect_graph(golden_mlp, sizeof golden_mlp);
}
END_TEST

static bt_tensor *flat(bt_tensor *x) { return bt_reshape(x, bt_dim(x, 0), -1); }

/* Attributes that are lists of integers, strings and floats; a variable size in a reshape. */
START_TEST(images)
{
    const float w[] = {1, -1, 2, -2, 3, -3, 4, -4}, b[] = {0.5F, 1}, scale[] = {2, 3}, shift[] = {-1, 1};
    bt_conv2d_options o = bt_conv2d_defaults();
    const bt_layer_norm_options eps = {0.25};
    o.stride = 2, o.padding = 1;
    bt_module *net = bt_nn_sequential(bt_nn_conv2d(1, 2, 2, &o), bt_nn_layer_norm(2, &eps), bt_nn_fn(flat));
    set(net, "0.weight", BT_ARRAY(w, 2, 2, 1, 2));
    set(net, "0.bias", BT_ARRAY(b, 2));
    set(net, "1.weight", BT_ARRAY(scale, 2));
    set(net, "1.bias", BT_ARRAY(shift, 2));
    ck_assert_msg(export_one(net, (bt_array){.dtype = BT_F32, .rank = 4, .dims = {0, 3, 3, 1}}) == BT_OK, "%s",
                  bt_error());
    expect_graph(golden_images, sizeof golden_images);
}
END_TEST

/* The op reads the statistics behind its scale itself; they are not computed by nodes. */
START_TEST(a_batch_norm)
{
    const float scale[] = {2, 3}, shift[] = {-1, 1}, mean[] = {0.5F, 0.25F}, variance[] = {4, 9};
    bt_batch_norm_options o = bt_batch_norm_defaults();
    o.eps = 0.5;
    bt_module *net = bt_nn_batch_norm(2, &o);
    set(net, "weight", BT_ARRAY(scale, 2));
    set(net, "bias", BT_ARRAY(shift, 2));
    set(net, "running_mean", BT_ARRAY(mean, 2));
    set(net, "running_var", BT_ARRAY(variance, 2));
    ck_assert_msg(export_one(net, rows) == BT_OK, "%s", bt_error());
    expect_graph(golden_norm, sizeof golden_norm);
}
END_TEST

/* ---- every op ---- */

static void expect_known(void *user, op_model *model)
{
    int *at = user;
    bt_status status = bt_module_export(model->module, "x.onnx", model->inputs, model->count);
    if (status == BT_ERROR_UNSUPPORTED) { /* an output without an ONNX equivalent; tests/readers/onnx.py skips it,
                                           * too */
        bt_error_clear();
        return;
    }
    ck_assert_msg(status == BT_OK, "%s: %s", model->name, bt_error());
    ck_assert_msg(*at < BT_COUNT_OF(golden_ops) && strcmp(golden_ops[*at].name, model->name) == 0,
                  "%s is not in golden_ops.h: ./dev readers onnx says what belongs there", model->name);
    ck_assert_msg(golden_ops[*at].hash == graph_hash("x.onnx"),
                  "%s is written otherwise: ./dev readers onnx says whether onnxruntime agrees, and the new hash",
                  model->name);
    ++*at;
}

START_TEST(every_op)
{
    int at = 0;
    each_op_model(expect_known, &at);
    ck_assert_int_eq(at, BT_COUNT_OF(golden_ops));
}
END_TEST

/* A new op needs a rule, a body, or an entry here. */
START_TEST(ops_without_a_rule)
{
    static const bt_op *const refused[] = {
        &bt_op_read,          &bt_op_constant,      &bt_op_norm_square,    &bt_op_conv_dx,
        &bt_op_conv_dw,       &bt_op_detach,        &bt_op_stop,           &bt_op_check,
        &bt_op_alias,         &bt_op_uniform,       &bt_op_normal,         &bt_op_channel_dot,
        &bt_op_window_spread, &bt_op_window_gather, &bt_op_window_scatter, &bt_op_solve,
        &bt_op_logdet,        &bt_op_scales,        &bt_op_encode,         &bt_op_decode,
        &bt_op_all_reduce,    &bt_op_all_gather,    &bt_op_reduce_scatter, &bt_op_stochastic_round,
    };
    for (int i = 0; bt_op_table[i]; i++) {
        const bt_op *op = bt_op_table[i];
        bool known = bt_onnx_rule_of(op) != NULL || bt_op_is_composite(op);
        for (int k = 0; k < BT_COUNT_OF(refused); k++)
            known |= op == refused[k];
        ck_assert_msg(known, "%s: a rule (libbetty/export/rules_*.c), or a line here", op->name);
    }
}
END_TEST

/* ---- errors ---- */

static bt_tensor *noise(bt_tensor *x) { return bt_add(x, bt_normal_like(x)); }
static bt_tensor *solved(bt_tensor *x) { return bt_linear_solve(bt_matmul(bt_permute(x, 1, 0), x), bt_max(x, 0)); }
static bt_tensor *mean_of_batch(bt_tensor *x) { return bt_sub(x, bt_mean(x, 0)); }
static bt_tensor *one_more(bt_tensor *x) { return bt_pad(x, 0, 0, 1); }
static bt_tensor *count(bt_tensor *x) { return bt_mul(x, (double)bt_dim(x, 0)); }

static void expect_refused(bt_unary_fn *function, const char *part)
{
    ck_assert_int_ne(export_one(bt_nn_sequential(bt_nn_fn(function)), rows), BT_OK);
    ck_assert_msg(strstr(bt_error(), part) != NULL, "\"%s\" lacks \"%s\"", bt_error(), part);
    bt_error_clear();
}

START_TEST(what_has_no_equal)
{
    expect_refused(noise, "random");
    expect_refused(solved,
                   "x.onnx: 0: the op `solve` has no equivalent in ONNX; NAME.safetensors saves the parameters alone");
    expect_refused(mean_of_batch, "x.onnx: 0: `constant` depends on the number of examples in a batch");
    expect_refused(one_more, "0: `pad` depends on the number of examples in a batch");
    expect_refused(count, "depends on the number of examples in a batch");
}
END_TEST

START_TEST(wrong_arguments)
{
    bt_module *net = bt_nn_linear(2, 3);
    const bt_model_input x = {"x", rows}, twice[] = {{"x", rows}, {"x", rows}}, none = {NULL, rows};
    static const char *const paths[] = {"x", "x.pt", "x.onnx.gz"};
    ck_assert_int_eq(bt_module_export(NULL, "x.onnx", &x, 1), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_module_export(net, NULL, &x, 1), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_module_export(net, "x.onnx", NULL, 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_module_export(net, "x.onnx", &x, 1), BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "no storage yet: call bt_module_init"));
    bt_error_clear();
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F32, 1), BT_OK);
    for (int i = 0; i < BT_COUNT_OF(paths); i++) {
        ck_assert_int_eq(bt_module_export(net, paths[i], &x, 1), BT_ERROR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(bt_error(), "NAME.onnx, for inference, or NAME.safetensors"));
        bt_error_clear();
    }
    ck_assert_int_eq(bt_module_export(net, "x.onnx", twice, 2), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_module_export(net, "x.onnx", &none, 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_module_export(net, "x.onnx", NULL, 0), BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "x.onnx: linear: the input is missing"));
    bt_error_clear();
    ck_assert_int_eq(bt_module_export(net, "missing/x.onnx", &x, 1), BT_ERROR_FILE);
    bt_error_clear();
    bt_module_free(net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export.onnx");
    TCase *cases = tcase_create("models");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, an_mlp);
    tcase_add_test(cases, images);
    tcase_add_test(cases, a_batch_norm);
    tcase_add_test(cases, every_op);
    tcase_add_test(cases, ops_without_a_rule);
    tcase_add_test(cases, what_has_no_equal);
    tcase_add_test(cases, wrong_arguments);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}

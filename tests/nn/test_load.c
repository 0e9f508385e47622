/* Loading parameters and buffers from a file: by name, by rules, with PyTorch's axis order for convolutions; and errors
 * for files that do not fit. */
#include "io/safetensors.h"
#include "nn/module.h"
#include "support/vars.h"

#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "weights.safetensors";

static bt_module *net(void)
{
    bt_module *net = bt_nn_sequential(bt_nn_conv2d(2, 3, 2), bt_nn_batch_norm(3), bt_nn_linear(3, 2));
    ck_assert_msg(bt_module_init(net, BT_CPU, BT_F32, 1) == BT_OK, "%s", bt_error());
    return net;
}

/* PyTorch's arrays for such a network; conv.weight [out, in, h, w] holds 1000 o + 100 i + 10 h + w. */
static float conv_weight[3][2][2][2], conv_bias[3] = {1, 2, 3}, norm_weight[3] = {4, 5, 6}, norm_bias[3] = {7, 8, 9},
                                      running_mean[3] = {-1, -2, -3};
static double running_var[3] = {0.5, 1.5, 2.5}; /* of another dtype */
static float head_weight[2][3] = {{1, 2, 3}, {4, 5, 6}}, head_bias[2] = {-7, -8};
static int64_t tracked[1] = {99};

enum { ALL = 9 };
static bt_stored items[ALL];

static void make_items(const char *conv, const char *norm, const char *head)
{
    static char names[ALL][64];
    static const char *const ends[] = {
        "weight", "bias", "weight", "bias", "running_mean", "running_var", "num_batches_tracked", "weight", "bias"};
    bt_array arrays[] = {BT_ARRAY(&conv_weight[0][0][0][0], 3, 2, 2, 2),
                         BT_ARRAY(conv_bias, 3),
                         BT_ARRAY(norm_weight, 3),
                         BT_ARRAY(norm_bias, 3),
                         BT_ARRAY(running_mean, 3),
                         BT_ARRAY(running_var, 3),
                         BT_ARRAY(tracked, 1),
                         BT_ARRAY(&head_weight[0][0], 2, 3),
                         BT_ARRAY(head_bias, 2)};
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++)
                for (int w = 0; w < 2; w++)
                    conv_weight[o][i][h][w] = (float)(1000 * o + 100 * i + 10 * h + w);
    for (int k = 0; k < ALL; k++) {
        snprintf(names[k], sizeof names[k], "%s.%s", k < 2 ? conv : k < 7 ? norm : head, ends[k]);
        items[k] = (bt_stored){.name = names[k], .array = arrays[k]};
    }
}

static void write_items(int64_t count)
{
    ck_assert_msg(bt_safetensors_write(path, items, count, NULL) == BT_OK, "%s", bt_error());
}

static float at(bt_module *net, const char *name, int64_t i)
{
    bt_slate *slate = bt_module_find(net, name);
    ck_assert_ptr_nonnull(slate);
    return ((const float *)(void *)var_near(slate->var))[i];
}

static void assert_loaded(bt_module *net)
{
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++)
                for (int w = 0; w < 2; w++) /* ours is [h, w, in, out] */
                    ck_assert_float_eq(at(net, "0.weight", ((h * 2 + w) * 2 + i) * 3 + o), conv_weight[o][i][h][w]);
    for (int k = 0; k < 3; k++) {
        ck_assert_float_eq(at(net, "0.bias", k), conv_bias[k]);
        ck_assert_float_eq(at(net, "1.weight", k), norm_weight[k]);
        ck_assert_float_eq(at(net, "1.running_mean", k), running_mean[k]);
        ck_assert_float_eq(at(net, "1.running_var", k), (float)running_var[k]);
    }
    for (int k = 0; k < 6; k++)
        ck_assert_float_eq(at(net, "2.weight", k), head_weight[k / 3][k % 3]);
}

static void assert_refused(bt_status status, bt_status expected, const char *part)
{
    ck_assert_msg(status == expected && strstr(bt_error(), part) != NULL, "%d: \"%s\" lacks \"%s\"", status, bt_error(),
                  part);
    bt_error_clear();
}

START_TEST(test_by_name)
{
    bt_module *module = net();
    bt_text report = {0};
    make_items("0", "1", "2");
    write_items(ALL);
    ck_assert_msg(bt_module_fill(module, path, NULL, &report) == BT_OK, "%s", bt_error());
    assert_loaded(module);
    ck_assert_str_eq(bt_text_get(&report),
                     "8 of 8 parameters and buffers are loaded from the file; 1 of its arrays are "
                     "not used: 1.num_batches_tracked");
    bt_text_free(&report);
    ck_assert_int_eq(bt_module_load(module, path, NULL, NULL), BT_OK);
    bt_module_free(module);
}
END_TEST

/* Half precision is supported; an unsupported dtype only matters if the array is needed. */
START_TEST(test_other_dtypes)
{
    static const char header[] = "{\"0.bias\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]},"
                                 "\"scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[6,8]}}";
    static const unsigned char halves[8] = {0x20, 0x40, 0x00, 0x40, 0x40, 0x40, 1, 2}; /* 2.5, 2, 3 */
    unsigned char length[8] = {sizeof header - 1};
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(length, 1, 8, file) == 8 &&
              fwrite(header, 1, sizeof header - 1, file) == sizeof header - 1);
    ck_assert(fwrite(halves, 1, 8, file) == 8 && fclose(file) == 0);
    bt_module *module = net();
    bt_load_options options = {.partial = true};
    ck_assert_msg(bt_module_load(module, path, &options, NULL) == BT_OK, "%s", bt_error());
    ck_assert_double_eq(at(module, "0.bias", 0), 2.5);
    options.names = "0.bias > , scale > 2.bias";
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_FILE, "\"scale\" is of dtype F8_E4M3");
    bt_module_free(module);
}
END_TEST

START_TEST(test_not_finite)
{
    static const float wrong[] = {(float)NAN, (float)INFINITY};
    for (int i = 0; i < 2; i++) {
        bt_module *module = net();
        make_items("0", "1", "2");
        conv_bias[1] = wrong[i];
        write_items(ALL);
        assert_refused(bt_module_load(module, path, NULL, NULL), BT_ERROR_FILE,
                       "\"0.bias\": 1 of its 3 values are NaN or infinite in f32, the first at place 1");
        conv_bias[1] = 2;
        bt_module_free(module);
    }
}
END_TEST

START_TEST(test_by_rules)
{
    bt_module *module = net();
    make_items("module.features.conv1", "module.features.bn1", "module.fc");
    write_items(ALL);
    bt_load_options options = {.names = "*.num_batches_tracked > , module.features.conv1.* > 0.*,"
                                        "module.*.bn1.* > 1.*x, module.fc.* > 2.*"};
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_FILE, "are not in the file: 1.weight");
    options.names = "*.num_batches_tracked > , module.features.conv1.* > 0.*, *bn1.* > 1.*, module.fc.* > 2.*";
    /* the first * of a rule corresponds to the first * of its target */
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_FILE, "are not in the file: 1.weight");
    options.names =
        "*.num_batches_tracked > , module.features.conv1.* > 0.*, module.features.bn1.* > 1.*, module.fc.* > 2.*";
    bt_text report = {0};
    ck_assert_msg(bt_module_fill(module, path, &options, &report) == BT_OK, "%s", bt_error());
    assert_loaded(module);
    ck_assert_ptr_nonnull(strstr(bt_text_get(&report), "8 of 8"));
    bt_text_free(&report);
    options.names = "module.fc.weight = 2";
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_ARGUMENT, "expected \"FROM > TO\"");
    options.names = "module.fc.* > *.*";
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_ARGUMENT, "more * in its second half");
    options.names = "* > 2.bias";
    assert_refused(bt_module_load(module, path, &options, NULL), BT_ERROR_FILE, "2.bias");
    bt_module_free(module);
}
END_TEST

START_TEST(test_parts)
{
    bt_module *module = net();
    make_items("0", "1", "2");
    write_items(ALL - 2);
    float before = at(module, "2.weight", 0);
    assert_refused(bt_module_load(module, path, NULL, NULL), BT_ERROR_FILE,
                   "2 of 8 parameters and buffers are not in the file: 2.weight, 2.bias");
    bt_load_options options = {.partial = true};
    bt_text report = {0};
    ck_assert_msg(bt_module_fill(module, path, &options, &report) == BT_OK, "%s", bt_error());
    ck_assert_ptr_nonnull(strstr(bt_text_get(&report), "6 of 8 parameters and buffers are loaded from the file; 2 are "
                                                       "not in it and keep their values: 2.weight, 2.bias"));
    ck_assert_float_eq(at(module, "2.weight", 0), before);
    bt_text_free(&report);
    bt_module_free(module);
}
END_TEST

START_TEST(test_plain_layout)
{
    bt_module *module = net();
    make_items("0", "1", "2");
    items[0].array = BT_ARRAY(&conv_weight[0][0][0][0], 2, 2, 2, 3);
    write_items(ALL);
    assert_refused(bt_module_load(module, path, NULL, NULL), BT_ERROR_FILE,
                   "\"0.weight\" is [2, 2, 2, 3], but the module's \"0.weight\" needs [3, 2, 2, 2] there");
    bt_load_options options = {.layout = BT_LAYOUT_PLAIN};
    ck_assert_msg(bt_module_load(module, path, &options, NULL) == BT_OK, "%s", bt_error());
    for (int k = 0; k < 24; k++)
        ck_assert_float_eq(at(module, "0.weight", k), (&conv_weight[0][0][0][0])[k]);
    bt_module_free(module);
}
END_TEST

START_TEST(test_mistakes)
{
    bt_module *module = net(), *bare = bt_nn_linear(1, 1);
    assert_refused(bt_module_load(NULL, path, NULL, NULL), BT_ERROR_ARGUMENT, "NULL");
    assert_refused(bt_module_load(module, NULL, NULL, NULL), BT_ERROR_ARGUMENT, "NULL");
    assert_refused(bt_module_load(bare, path, NULL, NULL), BT_ERROR_ARGUMENT, "bt_module_init first");
    assert_refused(bt_module_load(module, "none.safetensors", NULL, NULL), BT_ERROR_FILE, "none.safetensors");
    FILE *file = fopen(path, "wb");
    fputs("no such thing", file);
    fclose(file);
    assert_refused(bt_module_load(module, path, NULL, NULL), BT_ERROR_FILE, path);
    bt_module_free(bare);
    bt_module_free(module);
}
END_TEST

int main(void)
{
    char folder[] = "/tmp/betty-load-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    Suite *suite = suite_create("nn.load");
    TCase *tcase = tcase_create("load");
    tcase_add_test(tcase, test_by_name);
    tcase_add_test(tcase, test_other_dtypes);
    tcase_add_test(tcase, test_not_finite);
    tcase_add_test(tcase, test_by_rules);
    tcase_add_test(tcase, test_parts);
    tcase_add_test(tcase, test_plain_layout);
    tcase_add_test(tcase, test_mistakes);
    suite_add_tcase(suite, tcase);
    int failed = run_suite(suite);
    unlink(path);
    if (chdir("/") == 0)
        rmdir(folder);
    return failed != 0;
}

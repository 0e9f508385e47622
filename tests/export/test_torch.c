/* tests/export/test_torch.c: parameters for PyTorch: names, dtypes and shapes match its own modules, values are in its
 * layout, and bt_module_load reads the file back. */
#include "base/base.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "nn/module.h"

#include "support/suite.h"
#include "support/vars.h"
#include <betty/betty.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct golden {
    const char *name;
    bt_array array;
} golden[] = {
#include "golden_torch.h"
};

static char folder[64], before[4096], *data;
static size_t size;
static bt_safetensors file;

static void setup(void)
{
    strcpy(folder, "/tmp/betty-torch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    bt_error_clear();
}

static void teardown(void)
{
    unlink("x.safetensors");
    ck_assert_int_eq(chdir(before), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void write_and_read(bt_module *net)
{
    ck_assert_msg(bt_module_export(net, "x.safetensors", NULL, 0) == BT_OK, "%s", bt_error());
    ck_assert_int_eq(bt_file_read("x.safetensors", &data, &size), BT_OK);
    ck_assert_msg(bt_safetensors_parse("x.safetensors", data, size, &file) == BT_OK, "%s", bt_error());
}

static void done(bt_module *net)
{
    bt_safetensors_free(&file);
    bt_free(data);
    bt_module_free(net);
}

/* The modules in golden_torch.py. */
static bt_module *all_kinds(void)
{
    bt_conv2d_options conv = bt_conv2d_defaults();
    bt_batch_norm_options batch = bt_batch_norm_defaults();
    bt_nn_attention_options cross = bt_nn_attention_defaults();
    bt_recurrent_options recurrent = bt_recurrent_defaults();
    bt_transformer_options decoder = bt_transformer_defaults();
    bt_module *net = bt_module_new(NULL);
    conv.groups = 2, cross.source = 3, recurrent.layers = 2, recurrent.bidirectional = true;
    decoder.width = 8, decoder.heads = 2, decoder.cross = true;
    bt_module_add(net, bt_nn_linear(3, 2), "linear");
    bt_module_add(net, bt_nn_conv2d(4, 6, 3, &conv), "conv");
    bt_module_add(net, bt_nn_batch_norm(6), "batch");
    batch.affine = false;
    bt_module_add(net, bt_nn_batch_norm(6, &batch), "frozen");
    batch.affine = true, batch.statistics = BT_STATISTICS_BATCH;
    bt_module_add(net, bt_nn_batch_norm(6, &batch), "few");
    bt_module_add(net, bt_nn_layer_norm(5), "layer");
    bt_module_add(net, bt_nn_group_norm(2, 6), "group");
    bt_module_add(net, bt_nn_embedding(7, 4), "table");
    bt_module_add(net, bt_nn_attention(8, 2), "attention");
    bt_module_add(net, bt_nn_attention(8, 2, &cross), "cross");
    bt_module_add(net, bt_nn_lstm(4, 5, &recurrent), "lstm");
    bt_module_add(net, bt_nn_gru_cell(4, 5), "cell");
    bt_module_add(net, bt_nn_transformer_layer(&decoder), "decoder");
    return net;
}

START_TEST(names_and_shapes)
{
    bt_module *net = all_kinds();
    ck_assert_msg(bt_module_init(net, BT_CPU, BT_F32, 1) == BT_OK, "%s", bt_error());
    write_and_read(net);
    ck_assert_int_eq(file.count, BT_COUNT_OF(golden));
    for (int i = 0; i < BT_COUNT_OF(golden); i++) {
        const bt_stored *stored = bt_safetensors_find(&file, golden[i].name);
        ck_assert_msg(stored != NULL, "%s is not in the file", golden[i].name);
        ck_assert_msg(bt_array_same(stored->array, golden[i].array), "%s is of another shape", golden[i].name);
    }
    done(net);
}
END_TEST

enum { WINDOW = 3, IN = 2, OUT = 4 };

/* PyTorch's [out, in, y, x] is our [y, x, in, out]. */
START_TEST(a_convolution)
{
    bt_module *net = bt_nn_conv2d(IN, OUT, WINDOW);
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F32, 7), BT_OK);
    write_and_read(net);
    const bt_stored *stored = bt_safetensors_find(&file, "weight");
    const float *ours = (const float *)(const void *)var_near(net->params[0]->var);
    for (int64_t o = 0; o < OUT; o++)
        for (int64_t i = 0; i < IN; i++)
            for (int64_t y = 0; y < WINDOW; y++)
                for (int64_t x = 0; x < WINDOW; x++)
                    ck_assert(bt_get(BT_F32, stored->array.data, ((o * IN + i) * WINDOW + y) * WINDOW + x) ==
                              (double)ours[((y * WINDOW + x) * IN + i) * OUT + o]);
    done(net);
}
END_TEST

START_TEST(and_back)
{
    bt_module *net = all_kinds(), *other = all_kinds();
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 1), BT_OK);
    ck_assert_int_eq(bt_module_init(other, BT_CPU, BT_F64, 2), BT_OK);
    write_and_read(net);
    const bt_load_options options = {.layout = BT_LAYOUT_PYTORCH};
    ck_assert_msg(bt_module_load(other, "x.safetensors", &options, NULL) == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < net->param_count; i++)
        ck_assert_mem_eq(var_near(net->params[i]->var), var_near(other->params[i]->var), net->params[i]->var->bytes);
    bt_module_free(other);
    done(net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export.torch");
    TCase *cases = tcase_create("parameters");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, names_and_shapes);
    tcase_add_test(cases, a_convolution);
    tcase_add_test(cases, and_back);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}

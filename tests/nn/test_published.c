/* Published checkpoint layouts: outputs compared with those of transformers (golden_published.py), in f32 and f64;
 * other names for the same arrays; a Transformer inside another module; errors for files that do not fit. */
#include "tests/nn/golden_published.h"
#include "tests/nn/running.h"

#include "io/safetensors.h"
#include "nn/module.h"
#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char changed[] = "/tmp/betty-published-XXXXXX";

static const char *file_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/tests/nn/published/%s.safetensors", getenv("BT_SOURCE_DIR"), name);
    return path;
}

/* ---- the models of golden_published.py ---- */

static bt_transformer_options sizes(void)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.vocabulary = 64;
    o.length = 12;
    o.width = 16;
    o.heads = o.layers = 2;
    return o;
}

static bt_transformer_options gpt2(void)
{
    bt_transformer_options o = sizes();
    o.activation = bt_gelu_tanh;
    return o;
}

static bt_transformer_options bert(void)
{
    bt_transformer_options o = sizes();
    o.inner = 24;
    o.types = 2;
    o.eps = 1e-12;
    o.causal = o.pre_norm = o.final_norm = o.head = false;
    o.embedding_norm = true;
    return o;
}

static bt_module *ready(bt_module *net, bt_dtype dtype)
{
    ck_assert_msg(bt_module_init(net, BT_CPU, dtype, 1) == BT_OK, "%s", bt_error());
    return net;
}

static bt_module *made(bt_transformer_options o, bt_dtype dtype) { return ready(bt_nn_transformer(&o), dtype); }

static bt_tensor *tokens(void)
{
    int32_t numbers[10];
    for (int i = 0; i < 10; i++)
        numbers[i] = (7 * i + 3) % 64;
    return bt_constant(BT_ARRAY(numbers, 2, 5));
}

static bt_tensor *continue_text(void *net, const bt_batch *batch)
{
    (void)batch;
    return bt_cast(bt_forward((bt_module *)net, tokens()), BT_F64);
}

static bt_tensor *read_text(void *net, const bt_batch *batch)
{
    static const int32_t types[] = {0, 0, 1, 1, 1, 0, 1, 1, 0, 0};
    static const uint8_t mask[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
    (void)batch;
    return bt_cast(
        bt_forward((bt_module *)net, tokens(), bt_constant(BT_ARRAY(types, 2, 5)), bt_constant(BT_ARRAY(mask, 2, 5))),
        BT_F64);
}

static void load(bt_module *net, const char *path, bt_layout layout, const char *names, const char *report)
{
    bt_text told = {0};
    bt_load_options options = {.layout = layout, .names = names};
    ck_assert_msg(bt_module_fill(net, path, &options, &told) == BT_OK, "%s", bt_error());
    ck_assert_str_eq(bt_text_get(&told), report);
    bt_text_free(&told);
}

static void assert_gpt2(bt_module *net, double within)
{
    double found[640];
    run_on(continue_text, net, BT_VALID, NULL, 0, BT_ARRAY(found, 2, 5, 64));
    CLOSE(found, golden_gpt2, 640, within);
}

static void assert_bert(bt_module *net, double within)
{
    double found[160];
    run_on(read_text, net, BT_VALID, NULL, 0, BT_ARRAY(found, 2, 5, 16));
    CLOSE(found, golden_bert, 160, within);
}

/* ---- other files with the same arrays ---- */

typedef const char *rename_fn(const char *name, char to[256]); /* NULL: leave it out */

static const char *rewritten(const char *from, rename_fn *rename)
{
    char *data = NULL, names[64][256];
    size_t size = 0;
    bt_safetensors file;
    bt_stored items[64];
    int64_t count = 0;
    ck_assert(bt_file_read(from, &data, &size) == BT_OK && bt_safetensors_parse(from, data, size, &file) == BT_OK);
    ck_assert_int_le(file.count, 64);
    for (int64_t i = 0; i < file.count; i++) {
        items[count] = file.items[i];
        items[count].array.data = bt_alloc(file.items[i].bytes);
        memcpy(items[count].array.data, file.items[i].array.data, file.items[i].bytes);
        items[count].name = rename(file.items[i].name, names[count]);
        if (items[count].name)
            count++;
        else
            bt_free(items[count].array.data);
    }
    ck_assert_msg(bt_safetensors_write(changed, items, count, NULL) == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < count; i++)
        bt_free(items[i].array.data);
    bt_safetensors_free(&file);
    bt_free(data);
    return changed;
}

static const char *without_prefix(const char *name, char to[256])
{
    (void)to;
    return name + strlen("transformer.");
}

/* The names in bert-base-uncased of 2018. */
static const char *older(const char *name, char to[256])
{
    const char *norm = strstr(name, "LayerNorm.");
    const int before = norm ? (int)(norm - name) : (int)strlen(name);
    snprintf(to, 256, "bert.%.*s%s%s", before, name, norm ? "LayerNorm." : "",
             !norm                     ? ""
             : strstr(norm, ".weight") ? "gamma"
                                       : "beta");
    return to;
}

static const char *without_a_key(const char *name, char to[256])
{
    (void)to;
    return strcmp(name, "encoder.layer.1.attention.self.key.bias") == 0 ? NULL : name;
}

/* ---- tests ---- */

static const char all_gpt2[] = "28 of 28 parameters and buffers are loaded from the file",
                  all_bert[] =
                      "29 of 29 parameters and buffers are loaded from the file; 2 of its arrays are not used: "
                      "pooler.dense.bias, pooler.dense.weight";

START_TEST(test_gpt2)
{
    bt_module *single = made(gpt2(), BT_F32), *twice = made(gpt2(), BT_F64);
    load(single, file_of("gpt2"), BT_LAYOUT_GPT2, NULL, all_gpt2);
    load(twice, file_of("gpt2"), BT_LAYOUT_GPT2, NULL, all_gpt2);
    assert_gpt2(single, 1e-5);
    assert_gpt2(twice, 1e-10);
    bt_module_free(single);
    bt_module_free(twice);
}
END_TEST

START_TEST(test_bert)
{
    bt_module *single = made(bert(), BT_F32), *twice = made(bert(), BT_F64);
    load(single, file_of("bert"), BT_LAYOUT_BERT, NULL, all_bert);
    load(twice, file_of("bert"), BT_LAYOUT_BERT, NULL, all_bert);
    assert_bert(single, 1e-5);
    assert_bert(twice, 1e-10);
    bt_module_free(single);
    bt_module_free(twice);
}
END_TEST

START_TEST(test_other_names)
{
    bt_module *a = made(gpt2(), BT_F64), *b = made(bert(), BT_F64);
    load(a, rewritten(file_of("gpt2"), without_prefix), BT_LAYOUT_GPT2, NULL, all_gpt2);
    load(b, rewritten(file_of("bert"), older), BT_LAYOUT_BERT, NULL,
         "29 of 29 parameters and buffers are loaded from the file; 2 of its arrays are not used: "
         "bert.pooler.dense.bias, bert.pooler.dense.weight");
    assert_gpt2(a, 1e-10);
    assert_bert(b, 1e-10);
    bt_module_free(a);
    bt_module_free(b);
}
END_TEST

/* Further rules apply to our names. */
START_TEST(test_inside)
{
    bt_transformer_options o = gpt2();
    bt_module *outer = bt_module_new(NULL), *inner = bt_nn_transformer(&o);
    bt_module_add(outer, inner, "decoder");
    ready(outer, BT_F64);
    load(outer, file_of("gpt2"), BT_LAYOUT_GPT2, "* > decoder.*", all_gpt2);
    assert_gpt2(inner, 1e-10);
    bt_module_free(outer);
}
END_TEST

static void refuse(bt_transformer_options o, const char *path, bt_layout layout, const char *names, const char *message)
{
    bt_module *net = made(o, BT_F32);
    bt_load_options options = {.layout = layout, .names = names};
    ck_assert_int_eq(bt_module_load(net, path, &options, NULL), BT_ERROR_FILE);
    MESSAGE(message);
    bt_module_free(net);
}

START_TEST(test_gpt2_misfits)
{
    bt_transformer_options o = gpt2();
    o.layers = 1;
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, NULL,
           "\"transformer.h.1.attn.c_attn.bias\" of the file, \"layers.1.self_attn.in_proj_bias\" here, has no place");
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, "* > decoder.*, layers.1.* >",
           "before any others, \"layers.0.self_attn.in_proj_bias >\""); /* none has the name decoder */
    o.layers = 3;
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, NULL,
           "12 of 40 parameters and buffers are not in the file: layers.2.self_attn.in_proj_weight "
           "(h.2.attn.c_attn.weight), layers.2.self_attn.in_proj_bias (h.2.attn.c_attn.bias)");
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, NULL, file_of("gpt2"));
    o = gpt2();
    o.inner = 60;
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, NULL,
           "\"transformer.h.0.mlp.c_fc.bias\" is [64], but the module's \"layers.0.linear1.bias\" needs [60]");
    refuse(
        o, file_of("gpt2"), BT_LAYOUT_GPT2, "*.linear1.bias >",
        "\"transformer.h.0.mlp.c_fc.weight\" is [16, 64], but the module's \"layers.0.linear1.weight\" needs [16, 60] "
        "there, [in, out]");
    o = gpt2();
    o.bias = false;
    refuse(o, file_of("gpt2"), BT_LAYOUT_GPT2, NULL, "\"layers.0.self_attn.in_proj_bias\" here, has no place");
    refuse(gpt2(), file_of("bert"), BT_LAYOUT_GPT2, NULL, "\"embeddings.LayerNorm.bias\" of the file");
}
END_TEST

START_TEST(test_bert_misfits)
{
    bt_transformer_options o = bert();
    o.head_width = 9;
    refuse(o, file_of("bert"), BT_LAYOUT_BERT, "*.out_proj.* >",
           "\"encoder.layer.0.attention.self.key.bias\" is [16], but the module's \"layers.0.self_attn.in_proj_bias\", "
           "part 2 of 3, needs [18]");
    o = bert();
    o.types = 0;
    refuse(o, file_of("bert"), BT_LAYOUT_BERT, NULL, "before any others, \"token_type_embeddings.weight >\"");
    refuse(bert(), rewritten(file_of("bert"), without_a_key), BT_LAYOUT_BERT, NULL,
           "1 of 29 parameters and buffers are not in the file: layers.1.self_attn.in_proj_bias "
           "(encoder.layer.1.attention.self.key.bias)");
}
END_TEST

int main(void)
{
    int made_one = mkstemp(changed);
    if (made_one < 0)
        return 1;
    close(made_one);
    Suite *suite = suite_create("nn.published");
    TCase *tcase = tcase_create("published");
    tcase_add_test(tcase, test_gpt2);
    tcase_add_test(tcase, test_bert);
    tcase_add_test(tcase, test_other_names);
    tcase_add_test(tcase, test_inside);
    tcase_add_test(tcase, test_gpt2_misfits);
    tcase_add_test(tcase, test_bert_misfits);
    suite_add_tcase(suite, tcase);
    int failed = run_suite(suite);
    unlink(changed);
    return failed != 0;
}

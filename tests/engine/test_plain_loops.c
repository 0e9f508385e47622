/* tests/engine/test_plain_loops.c: no program uses a plain loop where a kernel should exist: networks of all modules,
 * whole and on halves of their channels, with every method and every product. Loops over few elements are accepted:
 * they take less time than one more step of the program. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 8, SIDE = 8, CHANNELS = 4, CLASSES = 3, BATCH = 4, NODES = 2, FEW = 16 };

/* ---- networks: images to logits ---- */

static bt_module *block(int64_t in, int64_t out)
{
    bt_conv2d_options o = bt_conv2d_defaults();
    o.padding = 1;
    return bt_nn_sequential(bt_nn_conv2d(in, out, 3, &o), bt_nn_batch_norm(out), bt_nn_fn(bt_relu));
}

static bt_tensor *half(bt_tensor *x, int which)
{
    int axis = bt_rank(x) - 1;
    int64_t size = bt_dim(x, axis);
    return bt_slice(x, axis, which ? size / 2 : 0, which ? size : size / 2);
}

/* A separate module for each half of the channels. */
static bt_tensor *halves_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *first = bt_forward(bt_child(self, "first"), half(in[0], 0));
    return bt_concat(bt_rank(first) - 1, first, bt_forward(bt_child(self, "second"), half(in[0], 1)));
}

static bt_module *halves(bt_module *first, bt_module *second)
{
    bt_module *self = bt_module_new(halves_forward);
    bt_module_add(self, first, "first");
    bt_module_add(self, second, "second");
    return self;
}

static bool split; /* on halves of channels */

static bt_module *part(int64_t in, int64_t out)
{
    return split ? halves(block(in / 2, out / 2), block(in / 2, out / 2)) : block(in, out);
}

static bt_tensor *down(bt_tensor *x) { return bt_max_pool2d(x, 2, 2, 0); }

static bt_tensor *mean_of_map(bt_tensor *x) { return bt_mean(x, 1, 2); }

/* Down and up again; upsampled maps are concatenated with earlier ones, first with bilinear, then with nearest
 * interpolation. */
static bt_tensor *unet_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *wide = bt_forward(bt_child(self, "wide"), in[0]);
    bt_tensor *small = bt_forward(bt_child(self, "small"), down(wide));
    bt_tensor *least = bt_forward(bt_child(self, "least"), down(small));
    bt_tensor *up = bt_concat(3, bt_upsample_bilinear(least, SIDE / 2, SIDE / 2), small);
    up = bt_forward(bt_child(self, "up"), up);
    up = bt_forward(bt_child(self, "top"), bt_concat(3, wide, bt_upsample_nearest(up, SIDE, SIDE)));
    return bt_forward(bt_child(self, "head"), mean_of_map(up));
}

static bt_module *unet(void)
{
    bt_module *self = bt_module_new(unet_forward);
    bt_module_add(self, block(CHANNELS, 8), "wide");
    bt_module_add(self, part(8, 12), "small");
    bt_module_add(self, part(12, 16), "least");
    bt_module_add(self, part(28, 12), "up");
    bt_module_add(self, part(20, 12), "top");
    bt_module_add(self, bt_nn_linear(12, CLASSES), "head");
    return self;
}

static bt_module *after_stem(bt_module *(*make)(int64_t channels))
{
    if (!split)
        return make(CHANNELS);
    return bt_nn_sequential(block(CHANNELS, 8), halves(make(4), make(4)), bt_nn_linear(2 * CLASSES, CLASSES));
}

static bt_module *wide(int64_t channels) { return bt_nn_wide_resnet(10, 1, channels, CLASSES, 0.3); }
static bt_module *wide_resnet(void) { return after_stem(wide); }

static bt_module *strided(int64_t channels) { return bt_nn_convnet_strided(channels, 6, 2, CLASSES); }
static bt_module *convnet_strided(void) { return after_stem(strided); }

static bt_module *pooled(int64_t channels) { return bt_nn_convnet(SIDE, SIDE, channels, 6, 2, CLASSES); }
static bt_module *convnet(void) { return after_stem(pooled); }

static bt_tensor *flat(bt_tensor *x) { return bt_reshape(bt_adaptive_max_pool2d(x, 2, 2), BATCH, -1); }
static bt_tensor *fewer(bt_tensor *x) { return bt_adaptive_avg_pool2d(x, 5, 3); }

/* Norms of each example, pools of all kinds. */
static bt_module *grouped(int64_t channels)
{
    bt_conv2d_options o = {.stride = 1, .padding = 2, .dilation = 2, .groups = 2, .bias = true};
    return bt_nn_sequential(bt_nn_conv2d(channels, 8, 3, &o), bt_nn_group_norm(2, 8), bt_nn_fn(bt_gelu),
                            bt_nn_avg_pool2d(3, 1, 1), bt_nn_conv2d(8, 6, 1), bt_nn_instance_norm(6), bt_nn_fn(fewer),
                            bt_nn_fn(bt_softplus), bt_nn_fn(flat), bt_nn_linear(24, CLASSES));
}
static bt_module *group_norms(void) { return after_stem(grouped); }

static bt_module *layer(int64_t in, int64_t out)
{
    return bt_nn_sequential(bt_nn_linear(in, out), bt_nn_layer_norm(out), bt_nn_fn(bt_gelu), bt_nn_dropout(0.2));
}

static bt_module *layers(int64_t in, int64_t out)
{
    return split ? halves(layer(in / 2, out / 2), layer(in / 2, out / 2)) : layer(in, out);
}

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(x, BATCH, -1); }

static bt_module *deep(void)
{
    return bt_nn_sequential(bt_nn_fn(as_rows), layers(SIDE * SIDE * CHANNELS, 24), layers(24, 24), layers(24, 24),
                            layers(24, 20), bt_nn_linear(20, CLASSES));
}

/* Attention over pixels, and a softmax along an axis other than the last. */
static bt_tensor *attention_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_reshape(in[0], BATCH, -1, CHANNELS), *y = bt_forward(bt_child(self, "qkv"), x);
    bt_tensor *q = bt_slice(y, 2, 0, 6), *k = bt_slice(y, 2, 6, 12), *v = bt_slice(y, 2, 12, 18);
    bt_tensor *weight = bt_softmax(bt_matmul(q, bt_permute(k, 0, 2, 1)), split ? 1 : 2);
    y = bt_forward(bt_child(self, "norm"), bt_matmul(weight, v));
    y = bt_mul(y, bt_exp(bt_log_softmax(y, 1)));
    return bt_forward(bt_child(self, "head"), bt_mean(y, 1));
}

static bt_module *attention(void)
{
    bt_module *self = bt_module_new(attention_forward);
    bt_module_add(self, bt_nn_linear(CHANNELS, 18), "qkv");
    bt_module_add(self, bt_nn_layer_norm(6), "norm");
    bt_module_add(self, bt_nn_linear(6, CLASSES), "head");
    return self;
}

static bt_module *darts(void) { return bt_nn_darts(split ? CHANNELS / 2 : CHANNELS, 4, 3, NODES, CLASSES); }

static const struct network {
    const char *name;
    bt_module *(*make)(void);
} networks[] = {
    {"U-Net", unet},
    {"DARTS", darts},
    {"wide ResNet", wide_resnet},
    {"layers", deep},
    {"group norms", group_norms},
    {"ConvNet", convnet},
    {"strided ConvNet", convnet_strided},
    {"attention", attention},
};
static const struct network *now;

/* ---- the problems: the upper one weighs examples, or mixes the candidates of DARTS ---- */

static bt_module *lower_module(bt_problem *self)
{
    (void)self;
    return now->make();
}

static bt_module *upper_module(bt_problem *self)
{
    bt_module *module = bt_module_new(NULL);
    int64_t edges = bt_nn_darts_edges(NODES);
    (void)self;
    bt_module_add(module, bt_nn_mlp(bt_sigmoid, 1, 20, 1), "weigh");
    bt_module_add_param(module, "normal", bt_init_normal(0, 1), edges, BT_NN_DARTS_OPS);
    bt_module_add_param(module, "reduce", bt_init_normal(0, 1), edges, BT_NN_DARTS_OPS);
    return module;
}

static bt_tensor *losses(bt_problem *self, const bt_batch *batch)
{
    bt_problem *upper = bt_peer(self, "upper"), *lower = bt_peer(self, "lower");
    bt_tensor *x = bt_field(batch, "image"), *logits;
    if (now->make == darts)
        logits = bt_forward(lower, split ? half(x, 1) : x, bt_softmax(bt_param(upper, "normal"), -1),
                            bt_softmax(bt_param(upper, "reduce"), -1));
    else
        logits = bt_forward(lower, x);
    return bt_cross_entropy(logits, bt_field(batch, "label"));
}

static bt_tensor *lower_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_tensor *weight = bt_forward(bt_child(bt_peer(self, "upper"), "weigh"), bt_reshape(bt_detach(loss), BATCH, 1));
    return bt_mean(bt_mul(bt_reshape(bt_sigmoid(weight), BATCH), loss));
}

static bt_tensor *upper_loss(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static bt_dataset *data(bt_problem *self)
{
    static float images[IMAGES][SIDE][SIDE][CHANNELS];
    int32_t labels[IMAGES];
    (void)self;
    for (int i = 0; i < IMAGES; i++)
        labels[i] = i % CLASSES;
    for (size_t i = 0; i < sizeof images / sizeof(float); i++)
        (&images[0][0][0][0])[i] = (float)(i * 7919 % 1009) / 500 - 1;
    bt_dataset *set = bt_dataset_new(IMAGES);
    bt_dataset_add(set, "image", BT_ARRAY(&images[0][0][0][0], IMAGES, SIDE, SIDE, CHANNELS));
    bt_dataset_add(set, "label", BT_ARRAY(labels, IMAGES));
    return set;
}

static const bt_problem_def upper = {.name = "upper",
                                     .configure_train_data = data,
                                     .configure_valid_data = data,
                                     .configure_module = upper_module,
                                     .training_step = upper_loss},
                            lower = {.name = "lower",
                                     .configure_train_data = data,
                                     .configure_valid_data = data,
                                     .configure_module = lower_module,
                                     .training_step = lower_loss,
                                     .validation_step = upper_loss};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const char *method, const char *product, const char *precision)
{
    char settings[512];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 2\n"
             "engine.precision = %s\nengine.valid_step = 2\nengine.threads = 1\nlower.prefetch = false\n"
             "upper.optimizer = adam\nupper.batch_size = %d\nlower.batch_size = %d\nlower.valid_batch_size = %d\n"
             "lower.unroll_steps = 2\nlower.lr = 0.01\nlower.momentum = 0.9\nlower.gradient_clipping = 5\n"
             "lower.type = %s\nlower.product = %s",
             precision, BATCH, BATCH, BATCH, method, product);
    return levels_engine(&parts, NULL, settings);
}

static int64_t longest(const bt_call *call)
{
    int64_t most = 0;
    for (int i = 0; i < call->inputs + call->outputs; i++) {
        int64_t count = bt_array_count(bt_view_array(i < call->inputs ? &call->in[i] : &call->out[i - call->inputs]));
        most = count > most ? count : most;
    }
    return most;
}

/* Fails if a program has a plain loop over more than a few elements. */
static void expect_kernels(bt_engine *engine, const char *what)
{
    ck_assert_msg(engine != NULL, "%s: %s", what, bt_error());
    ck_assert_msg(bt_engine_setup(engine) == BT_OK, "%s: %s", what, bt_error());
    const bt_instance *instance = engine->context.instance;
    int64_t steps = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        for (int e = 0; e < instance->phases[i]->entry_count; e++) {
            const bt_program *program = instance->phases[i]->entries[e].program;
            for (int64_t s = 0; s < program->step_count; s++, steps++) {
                const bt_call_step *step = &program->steps[s];
                if (!strstr(step->kernel->name, ".reference") || longest(&step->call) <= FEW)
                    continue;
                bt_text text = {0};
                bt_node_describe(step->node, &text);
                ck_abort_msg("%s: %s, %s: %s for %s", what, instance->phases[i]->name,
                             instance->phases[i]->entries[e].part, step->kernel->name, bt_text_get(&text));
            }
        }
    ck_assert_int_gt(steps, 20);
    bt_engine_free(engine);
}

/* ---- the grid ---- */

static const struct way {
    const char *method, *product, *precision;
} ways[] = {
    {"darts", "jvp", "fp32"}, {"darts", "vjp", "fp32"}, {"darts", "finite", "fp32"},
    {"cg", "jvp", "fp32"},    {"itd", "jvp", "fp32"},   {"sama", "vjp", "fp64"},
};
enum { WAYS = sizeof ways / sizeof *ways, NETWORKS = sizeof networks / sizeof *networks };

/* Loop index: (network * 2 + whether on halves) * ways + way. */
START_TEST(no_plain_loop)
{
    const struct way *way = &ways[_i % WAYS];
    char what[128];
    split = _i / WAYS % 2 != 0;
    now = &networks[_i / WAYS / 2];
    snprintf(what, sizeof what, "%s%s, %s by %s, %s", now->name, split ? " on halves" : "", way->method, way->product,
             way->precision);
    expect_kernels(engine_of(way->method, way->product, way->precision), what);
}
END_TEST

/* ---- reports of --info ---- */

static const char *info_of(bt_engine *engine, char *text, size_t size)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_msg(engine != NULL && bt_engine_print(engine, BT_INFO, file) == BT_OK, "%s", bt_error());
    ck_assert(fseek(file, 0, SEEK_END) == 0);
    long end = ftell(file);
    ck_assert(fseek(file, end > (long)size - 1 ? end - (long)size + 1 : 0, SEEK_SET) == 0);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    bt_engine_free(engine);
    const char *found = strstr(text, "\nplain loops over more than 16 elements");
    return found ? found : "";
}

/* More padding around an image than any kernel supports. */
static bt_module *far_away(void)
{
    bt_conv2d_options o = {.stride = 60, .padding = 200, .dilation = 1, .groups = 1, .bias = true};
    return bt_nn_sequential(bt_nn_conv2d(CHANNELS, 6, 1, &o), bt_nn_fn(mean_of_map), bt_nn_linear(6, CLASSES));
}

START_TEST(info_lists_them)
{
    static const struct network odd = {"far away", far_away};
    char text[1024], name[64];
    long long kernels;
    double operations, bytes;
    split = false;
    now = &networks[0];
    ck_assert_str_eq(info_of(engine_of("darts", "jvp", "fp32"), text, sizeof text),
                     "\nplain loops over more than 16 elements: none\n");
    now = &odd;
    const char *found = info_of(engine_of("darts", "jvp", "fp32"), text, sizeof text);
    const char *row = strstr(found, "\n  conv");
    ck_assert_msg(row != NULL, "%s", text);
    ck_assert_int_eq(sscanf(row, " %63s %lld kernels %lf %% %lf %%", name, &kernels, &operations, &bytes), 4);
    ck_assert_ptr_nonnull(strstr(name, ".reference"));
    ck_assert(kernels >= 1 && operations > 0 && operations < 100 && bytes > 0 && bytes < 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine: plain loops");
    TCase *info = tcase_create("info"), *grid = tcase_create("grid");
    tcase_set_timeout(info, 120);
    tcase_add_test(info, info_lists_them);
    suite_add_tcase(suite, info);
    tcase_set_timeout(grid, 120);
    tcase_add_loop_test(grid, no_plain_loop, 0, NETWORKS * 2 * WAYS);
    suite_add_tcase(suite, grid);
    return run_suite(suite);
}

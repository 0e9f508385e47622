/* bench/libbetty/reweighting.c: Meta-Weight-Net over several kinds of classifiers. */
#include "bench.h"

enum { MOST_LAYERS = 8 };

static bt_module *weigher_module(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_relu, 1, 100, 1);
}

static bt_tensor *weigher_forward(bt_problem *self, bt_tensor *const *in) /* loss [n] to weight [n] */
{
    return bt_sigmoid(bt_squeeze(bt_forward(bt_net(self), in[0]), 1));
}

/* [n]; for a map of classes, the mean over its pixels. */
static bt_tensor *classifier_losses(bt_problem *classifier, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(classifier, bt_field(batch, "image")), *label = bt_field(batch, "label");
    if (bt_rank(label) == 1)
        return bt_cross_entropy(logits, label);
    bt_tensor *each = bt_cross_entropy(bt_reshape(logits, -1, CLASSES), bt_reshape(label, -1));
    return bt_mean(bt_reshape(each, bt_dim(label, 0), -1), 1);
}

static bt_tensor *weigher_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(classifier_losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *classifier_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = classifier_losses(self, batch);
    bt_tensor *weight = bt_forward(bt_peer(self, "upper"), bt_detach(loss));
    return bt_mean(bt_mul(weight, loss));
}

/* ---- the classifiers ---- */

static bt_module *mlp_module(bt_problem *self)
{
    int64_t widths[MOST_LAYERS + 3] = {PIXELS}, count = 1, layers = bt_option_int(self, "layers", 1, 1, MOST_LAYERS);
    while (count <= layers)
        widths[count++] = bt_option_int(self, "hidden", 100, 1, 1000);
    widths[count++] = CLASSES;
    widths[count] = BT_END;
    return (bt_nn_mlp)(bt_relu, widths);
}

static bt_module *resnet_module(bt_problem *self)
{
    return bt_nn_resnet_cifar(bt_option_int(self, "depth", 32, 8, 1000), 3, CLASSES);
}

static bt_module *wrn_module(bt_problem *self)
{
    (void)self;
    return bt_nn_wide_resnet(16, 4, 3, CLASSES, 0);
}

static bt_tensor *small_images(bt_problem *self, bt_tensor *const *in) /* from rows */
{
    return bt_forward(bt_net(self), bt_reshape(in[0], -1, 32, 32, 3));
}

static bt_module *unet_module(bt_problem *self)
{
    (void)self;
    return unet();
}

static bt_module *deep_module(bt_problem *self)
{
    return deep(bt_option_int(self, "layers", 60, 1, 1000), bt_option_int(self, "hidden", 256, 1, 10000),
                bt_option_double(self, "dropout", 0, 0, 0.99));
}

/* ---- the problems ---- */

static const bt_problem_def weigher = {
    .name = "upper",
    .configure_train_data = upper_data,
    .configure_module = weigher_module,
    .forward = weigher_forward,
    .training_step = weigher_step,
};

#define CLASSIFIER(...)                                                                                                \
    {                                                                                                                  \
        .name = "lower", .configure_train_data = lower_data, .training_step = classifier_step,                         \
        .on_inner_loop_start = between_steps, __VA_ARGS__                                                              \
    }

static const bt_problem_def mlp = CLASSIFIER(.configure_module = mlp_module);
static const bt_problem_def resnet = CLASSIFIER(.configure_module = resnet_module, .forward = small_images);
static const bt_problem_def wrn = CLASSIFIER(.configure_module = wrn_module, .forward = small_images);
static const bt_problem_def segmenter = CLASSIFIER(.configure_module = unet_module);
static const bt_problem_def tower = CLASSIFIER(.configure_module = deep_module);

#define WORKLOAD(text, classifier, numbers)                                                                            \
    {                                                                                                                  \
        .name = (text), .problems = {.abi = BT_ABI, .problems = {&weigher, &(classifier)}}, .top = "upper",            \
        .set = "meta", .loss = weigher_step, .input = "image", .features = (numbers), .label = "label",                \
        .classes = true, .unroll = 1                                                                                   \
    }

const workload mwn_workload = WORKLOAD("mwn", mlp, PIXELS);
const workload resnet_workload = WORKLOAD("resnet", resnet, 32 * 32 * 3);
const workload wrn_workload = WORKLOAD("wrn", wrn, 32 * 32 * 3);
const workload unet_workload = WORKLOAD("unet", segmenter, 64 * 64 * 3);
const workload deep_workload = WORKLOAD("deep", tower, PIXELS);

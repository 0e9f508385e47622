/* learning_by_ignoring.c: transfer from a domain that is only partly useful, after Zhao et al. (2020). A network is
 * pretrained on many source images, some of them unlike the target's. Another network stays near it and is fine-tuned
 * on a few target images. Which source images to ignore is learned on other target images. Three levels: ignore >
 * pretrain > finetune.
 *
 * The target images are negatives of Fashion-MNIST, with light backgrounds; half of the source images are like that,
 * and half are the originals. */
#include <betty/betty.h>

/* Data: of each class, `few` images for each of the levels that see the target; `many` for the source. */

static int64_t few(bt_problem *self) { return bt_option_int(bt_peer(self, "ignore"), "few", 20, 1, 1000); }

static bt_dataset *images(bt_problem *self, int64_t from, int64_t to)
{
    const char *name = bt_option_text(bt_peer(self, "ignore"), "data", "fashion-mnist");
    return bt_dataset_per_class(bt_dataset_open(name, "train"), from, to, bt_seed(self));
}

static bt_dataset *ignore_data(bt_problem *self) { return images(self, 0, few(self)); }
static bt_dataset *finetune_data(bt_problem *self) { return images(self, few(self), 2 * few(self)); }

static bt_dataset *source_data(bt_problem *self)
{
    return images(self, 2 * few(self), 2 * few(self) + bt_option_int(self, "many", 500, 2, 5000));
}

static bt_dataset *test_data(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(bt_peer(self, "ignore"), "data", "fashion-mnist"), "test");
}

static bt_tensor *negative(bt_tensor *image) { return bt_sub(1, image); }

/* Both networks. */

static bt_module *network(bt_problem *self)
{
    return bt_nn_lenet(bt_data_dim(self, "image", 1), bt_data_dim(self, "image", 2), bt_data_dim(self, "image", 3), 10);
}

static bt_tensor *losses(bt_problem *network, bt_tensor *image, const bt_batch *batch) /* [n] */
{
    return bt_cross_entropy(bt_forward(network, image), bt_field(batch, "label"));
}

static bt_tensor *target_loss(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "finetune"), negative(bt_field(batch, "image")), batch));
}

/* Lowest level: pretraining, in which some source images count less than others. Which of them are like the target's is
 * drawn once, and no level is told. */

static bt_module *pretrain_module(bt_problem *self)
{
    bt_module *module = bt_module_new(NULL);
    bt_module_add(module, network(self), "net");
    bt_module_add_buffer(module, "kind", bt_init_uniform(0, 1), bt_data_dim(self, "label", 0));
    return module;
}

static bt_tensor *pretrain_forward(bt_problem *self, bt_tensor *const *in)
{
    return bt_forward(bt_child(self, "net"), in[0]);
}

static bt_tensor *pretrain_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *index = bt_field(batch, "index"), *image = bt_field(batch, "image");
    bt_tensor *useful = bt_less(bt_gather(bt_param(self, "kind"), index), 0.5);            /* [n] */
    bt_tensor *weight = bt_sigmoid(bt_gather(bt_forward(bt_peer(self, "ignore")), index)); /* [n] */
    bt_histogram(self, "weight", weight);
    bt_tensor *seen = bt_where(bt_reshape(useful, -1, 1, 1, 1), negative(image), image);
    bt_tensor *count = bt_maximum(bt_sum(bt_mul(1.0, useful)), 1.0);          /* a small batch may have none */
    bt_metric(self, "useful", bt_div(bt_sum(bt_mul(weight, useful)), count)); /* mean weights */
    bt_metric(self, "all", bt_mean(weight));
    return bt_mean(bt_mul(weight, losses(self, seen, batch)));
}

/* Middle level: fine-tuning on a few target images, near the pretrained parameters. */

static bt_tensor *finetune_step(bt_problem *self, const bt_batch *batch)
{
    double proximal = bt_option_double(self, "proximal", 0.1, 0, 1e6);
    bt_tensor *away = bt_sub(bt_params(self), bt_params(bt_child(bt_peer(self, "pretrain"), "net")));
    return bt_add(target_loss(self, batch), bt_mul(proximal / 2, bt_sum(bt_square(away))));
}

static bt_tensor *finetune_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, negative(bt_field(batch, "image")));
    bt_metric(self, "acc", bt_accuracy(logits, bt_field(batch, "label")));
    return target_loss(self, batch);
}

/* Highest level: one number per source image; its sigmoid is the weight. */

static bt_module *ignore_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(0), bt_data_dim(bt_peer(self, "pretrain"), "label", 0));
}

static const bt_problem_def ignore = {
    .name = "ignore",
    .configure_train_data = ignore_data,
    .configure_module = ignore_module,
    .training_step = target_loss,
};

static const bt_problem_def finetune = {
    .name = "finetune",
    .configure_train_data = finetune_data,
    .configure_valid_data = test_data,
    .configure_module = network,
    .training_step = finetune_step,
    .validation_step = finetune_validation,
};

static const bt_problem_def pretrain = {
    .name = "pretrain",
    .configure_train_data = source_data,
    .configure_module = pretrain_module,
    .forward = pretrain_forward,
    .training_step = pretrain_step,
};

BT_EXPORT(.problems = {&ignore, &finetune, &pretrain});

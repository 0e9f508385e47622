/* three_level.c: reweighting (see reweight.c) on so few clean images that the weight net needs a regulariser: an L2
 * penalty with its own strength for each parameter. A third level learns these strengths:
 * strength > reweight > classifier. */
#include <betty/betty.h>

/* Data: of each class, `clean` images for each of the upper levels; the rest with wrong labels, and the test images. */

static bt_dataset *images(bt_problem *self, int64_t from, int64_t to)
{
    return bt_dataset_per_class(bt_dataset_open(bt_option_text(self, "data", "fashion-mnist"), "train"), from, to,
                                bt_seed(self));
}

static int64_t clean(bt_problem *self) { return bt_option_int(bt_peer(self, "reweight"), "clean", 10, 1, 100000); }

static bt_dataset *strength_data(bt_problem *self) { return images(self, 0, clean(self)); }
static bt_dataset *reweight_data(bt_problem *self) { return images(self, clean(self), 2 * clean(self)); }

static bt_dataset *noisy_data(bt_problem *self)
{
    double noise = bt_option_double(self, "noise", 0.4, 0, 1);
    return bt_dataset_label_noise(images(self, 2 * clean(self), BT_REST), noise, bt_seed(self));
}

static bt_dataset *test_data(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(self, "data", "fashion-mnist"), "test");
}

/* Each level's loss is one of the classifier, on the level's own images. */

static bt_tensor *losses(bt_problem *classifier, const bt_batch *batch) /* [n] */
{
    return bt_cross_entropy(bt_forward(classifier, bt_field(batch, "image")), bt_field(batch, "label"));
}

/* Lowest level: the classifier minimises the weighted loss. */

static bt_module *classifier_module(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, 784, bt_option_int(self, "hidden", 100, 1, 10000), 10);
}

static bt_tensor *classifier_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_tensor *weight = bt_forward(bt_peer(self, "reweight"), bt_detach(loss)); /* [n] */
    bt_histogram(self, "weight", weight);
    return bt_mean(bt_mul(weight, loss));
}

static bt_tensor *classifier_validation(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "acc", bt_accuracy(bt_forward(self, bt_field(batch, "image")), bt_field(batch, "label")));
    return bt_mean(losses(self, batch));
}

/* Middle level: the weight net, and the penalty on its parameters. */

static bt_module *weight_net(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, 1, bt_option_int(self, "hidden", 100, 1, 10000), 1);
}

static bt_tensor *weight_of(bt_problem *self, bt_tensor *const *in) /* loss [n] to weight [n], in (0, 1) */
{
    return bt_sigmoid(bt_squeeze(bt_forward(bt_net(self), in[0]), 1));
}

static bt_tensor *reweight_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "strength"))); /* [parameters] */
    bt_tensor *penalty = bt_sum(bt_mul(strength, bt_square(bt_params(self))));
    return bt_add(bt_mean(losses(bt_peer(self, "classifier"), batch)), penalty);
}

/* Highest level: one number per parameter of the weight net, the logarithm of its strength. */

static bt_module *strength_module(bt_problem *self)
{
    double start = bt_option_double(self, "start", -7, -50, 20);
    return bt_nn_parameter(bt_init_constant(start), bt_param_count(bt_peer(self, "reweight")));
}

static bt_tensor *strength_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logarithm = bt_forward(self);
    bt_metric(self, "mean", bt_mean(logarithm));
    bt_metric(self, "max", bt_max(logarithm));
    return bt_mean(losses(bt_peer(self, "classifier"), batch));
}

static const bt_problem_def strength = {
    .name = "strength",
    .configure_train_data = strength_data,
    .configure_module = strength_module,
    .training_step = strength_step,
};

static const bt_problem_def reweight = {
    .name = "reweight",
    .configure_train_data = reweight_data,
    .configure_module = weight_net,
    .forward = weight_of,
    .training_step = reweight_step,
};

static const bt_problem_def classifier = {
    .name = "classifier",
    .configure_train_data = noisy_data,
    .configure_valid_data = test_data,
    .configure_module = classifier_module,
    .training_step = classifier_step,
    .validation_step = classifier_validation,
};

BT_EXPORT(.problems = {&strength, &reweight, &classifier});

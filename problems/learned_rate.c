/* learned_rate.c: the learning rate, the momentum and the weight decay of a classifier are learned while it trains,
 * from images that it does not see: their hypergradient is differentiated through the last steps (type = itd). */
#include <betty/betty.h>
#include <math.h>

static bt_dataset *images(bt_problem *self, double from, double to)
{
    return bt_dataset_part(
        bt_dataset_open(bt_option_text(bt_peer(self, "classifier"), "data", "fashion-mnist"), "train"), from, to,
        bt_seed(self));
}

static bt_dataset *train_images(bt_problem *self) { return images(self, 0, 0.8); }
static bt_dataset *judging_images(bt_problem *self) { return images(self, 0.8, 1); }

static bt_dataset *test_images(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(self, "data", "fashion-mnist"), "test");
}

static bt_tensor *loss(bt_problem *classifier, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(classifier, bt_field(batch, "image"));
    return bt_mean(bt_cross_entropy(logits, bt_field(batch, "label")));
}

/* Upper level: the logarithms of rate and decay, and the momentum as a logit, so that each stays where it belongs. */

static bt_module *settings_module(bt_problem *self)
{
    double lr = bt_option_double(self, "start_lr", 0.01, 1e-6, 10);
    double momentum = bt_option_double(self, "start_momentum", 0.5, 0.01, 0.99);
    double decay = bt_option_double(self, "start_decay", 1e-4, 1e-9, 1);
    bt_module *settings = bt_module_new(NULL);
    bt_module_add_param(settings, "log_lr", bt_init_constant(log(lr)));
    bt_module_add_param(settings, "logit_momentum", bt_init_constant(log(momentum / (1 - momentum))));
    bt_module_add_param(settings, "log_decay", bt_init_constant(log(decay)));
    return settings;
}

static bt_tensor *rate(bt_problem *settings) { return bt_exp(bt_param(settings, "log_lr")); }
static bt_tensor *momentum(bt_problem *settings) { return bt_sigmoid(bt_param(settings, "logit_momentum")); }
static bt_tensor *decay(bt_problem *settings) { return bt_exp(bt_param(settings, "log_decay")); }

static bt_tensor *settings_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "lr", rate(self));
    bt_metric(self, "momentum", momentum(self));
    bt_metric(self, "decay", decay(self));
    return loss(bt_peer(self, "classifier"), batch);
}

/* Lower level: ordinary training, by an optimiser whose settings are the upper parameters. */

static bt_module *classifier_module(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, 784, bt_option_int(self, "hidden", 100, 1, 10000), 10);
}

static void classifier_schedule(bt_problem *self, bt_rule *optimizer)
{
    bt_problem *settings = bt_peer(self, "settings");
    bt_hyper_set(optimizer, "lr", rate(settings));
    bt_hyper_set(optimizer, "momentum", momentum(settings));
    bt_hyper_set(optimizer, "weight_decay", decay(settings));
}

static bt_tensor *classifier_validation(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "acc", bt_accuracy(bt_forward(self, bt_field(batch, "image")), bt_field(batch, "label")));
    return loss(self, batch);
}

static const bt_problem_def settings = {
    .name = "settings",
    .configure_train_data = judging_images,
    .configure_module = settings_module,
    .training_step = settings_step,
};

static const bt_problem_def classifier = {
    .name = "classifier",
    .configure_train_data = train_images,
    .configure_valid_data = test_images,
    .configure_module = classifier_module,
    .training_step = loss,
    .validation_step = classifier_validation,
    .schedule = classifier_schedule,
};

BT_EXPORT(.problems = {&settings, &classifier});

/* bench/problems/cost.c: for ../cost.py, a lower problem so large that only its gradient matters: an MLP 784-h-h-10 on
 * batches of images, each loss weighted by its label. The weights of the ten labels are the upper parameters. */
#include <betty/betty.h>

static bt_dataset *images(bt_problem *self)
{
    return bt_dataset_open(bt_option_text(self, "data", "fashion-mnist"), "train");
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "image")), bt_field(batch, "label"));
}

static bt_module *upper_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1), 10);
}

static bt_module *lower_module(bt_problem *self)
{
    int64_t hidden = bt_option_int(self, "hidden", 500, 1, 10000);
    return bt_nn_mlp(bt_relu, 784, hidden, hidden, 10);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *weights = bt_gather(bt_forward(bt_peer(self, "upper")), bt_field(batch, "label"));
    return bt_mean(bt_mul(weights, losses(self, batch)));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = images, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = images, .configure_module = lower_module, .training_step = lower_step};

BT_EXPORT(.problems = {&upper, &lower});

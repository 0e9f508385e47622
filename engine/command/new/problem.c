/* NAME.c: a problem of two levels, to change into your own.
 *
 *     betty-run NAME.ini                          train; the results are in the folder runs/NAME-1
 *     betty-run NAME.ini --plan                   print how much memory it needs, without training
 *     betty-run NAME.ini --check-hypergradient    compare its hypergradient with differences of retrained losses
 *     betty-run NAME.ini --set model.lr=0.05      override a setting of NAME.ini
 *
 * The lower problem, `model`, is a classifier. The upper problem, `penalty`, learns how strongly to penalise large
 * weights of the classifier, from rows that the classifier is not trained on. Each problem is a set of callbacks. The
 * library traces them once and differentiates what they return.
 *
 * To make it your own, change the places marked HERE. `man betty` lists the functions. */
#include <betty/betty.h>

/* ---- data ---- */

/* HERE: your data. Instead of the name of a data set that comes with the library, give a path such as "table.csv", or
 * a folder of images with one subfolder per class. A table's last column is the field "y", all others are "x".
 * bt_option_text(self, "data", "table.csv") takes the path from the INI file. */
static bt_dataset *part(bt_problem *self, double from, double to)
{
    return bt_dataset_part(bt_dataset_open("breast_cancer", "train"), from, to, bt_seed(self));
}

static bt_dataset *model_data(bt_problem *self) { return part(self, 0, 0.2); }
static bt_dataset *penalty_data(bt_problem *self) { return part(self, 0.2, 0.5); }
static bt_dataset *test_data(bt_problem *self) { return part(self, 0.5, 1); }

/* ---- model: the lower problem ---- */

/* HERE: your network; betty/nn.h has more layers. */
static bt_module *model_module(bt_problem *self)
{
    const int64_t columns = bt_data_dim(self, "x", 1);
    const int64_t width = bt_option_int(self, "width", 16, 1, 4096); /* `width = 32` in the section [model] */
    return bt_nn_sequential(bt_nn_batch_norm(columns), bt_nn_mlp(bt_relu, columns, width, 1));
}

static bt_tensor *logits(bt_problem *model, const bt_batch *batch) /* one number per row: above 0 means class 1 */
{
    return bt_squeeze(bt_forward(model, bt_field(batch, "x")), 1);
}

/* HERE: your loss, a scalar. For regression: bt_mean(bt_mse(prediction, y)). */
static bt_tensor *loss(bt_problem *model, const bt_batch *batch)
{
    return bt_mean(bt_binary_cross_entropy(logits(model, batch), bt_field(batch, "y")));
}

/* The loss that the model minimises. It uses the upper problem's parameter: this is how the levels are connected. */
static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "penalty")));
    bt_tensor *size = bt_sum(bt_square(bt_params(self))); /* bt_params: all of its parameters, as one vector */
    return bt_add(loss(self, batch), bt_mul(strength, size));
}

/* What a validation reports: the loss, and a metric, model.valid.acc. */
static bt_tensor *model_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *found = bt_greater(logits(self, batch), 0);
    bt_metric(self, "acc", bt_equal(found, bt_greater(bt_field(batch, "y"), 0)));
    return loss(self, batch);
}

/* ---- penalty: the upper problem ---- */

/* HERE: what the upper problem learns. Here it is one number, the logarithm of the strength. */
static bt_module *penalty_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(bt_option_double(self, "start", -6, -20, 20)));
}

/* The loss that the upper problem minimises: that of the trained model on other rows. */
static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "strength", bt_exp(bt_forward(self)));
    return loss(bt_peer(self, "model"), batch);
}

/* ---- the problems of this file: the sections of NAME.ini ---- */

static const bt_problem_def penalty = {
    .name = "penalty",
    .configure_train_data = penalty_data,
    .configure_module = penalty_module,
    .training_step = penalty_step,
};

static const bt_problem_def model = {
    .name = "model",
    .configure_train_data = model_data,
    .configure_valid_data = test_data,
    .configure_module = model_module,
    .training_step = model_step,
    .validation_step = model_validation,
};

BT_EXPORT(.problems = {&penalty, &model});

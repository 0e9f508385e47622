/* tutorial.c: a classifier for few examples, whose penalty is learned. docs/writing-a-problem.md explains every line.
 */
#include <betty/betty.h>

/* Data: 569 rows of 30 measurements; y is 1 for benign. One tenth to train, three to choose the penalty, the rest to
 * test. */

static bt_dataset *rows(bt_problem *self, double from, double to)
{
    return bt_dataset_part(bt_dataset_open("breast_cancer", "train"), from, to, bt_seed(self));
}

static bt_dataset *train_rows(bt_problem *self) { return rows(self, 0, 0.1); }
static bt_dataset *choice_rows(bt_problem *self) { return rows(self, 0.1, 0.4); }
static bt_dataset *test_rows(bt_problem *self) { return rows(self, 0.4, 1); }

/* Lower level: logistic regression with a penalty on large weights. */

static bt_module *model_module(bt_problem *self) { return bt_nn_linear(bt_data_dim(self, "x", 1), 1); }

static bt_tensor *standardised(bt_tensor *x) /* each column with mean 0 and deviation 1 */
{
    bt_tensor *from_mean = bt_sub(x, bt_mean(x, 0, BT_KEEP));
    return bt_div(from_mean, bt_sqrt(bt_mean(bt_square(from_mean), 0, BT_KEEP)));
}

static bt_tensor *logits(bt_problem *model, const bt_batch *batch) /* [n]: above 0 means benign */
{
    return bt_squeeze(bt_forward(model, standardised(bt_field(batch, "x"))), 1);
}

static bt_tensor *loss(bt_problem *model, const bt_batch *batch) /* a scalar */
{
    return bt_mean(bt_binary_cross_entropy(logits(model, batch), bt_field(batch, "y")));
}

static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "penalty")));
    bt_tensor *size = bt_sum(bt_square(bt_param(self, "weight")));
    return bt_add(loss(self, batch), bt_mul(strength, size));
}

static bt_tensor *model_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *benign = bt_greater(logits(self, batch), 0);
    bt_metric(self, "acc", bt_equal(benign, bt_greater(bt_field(batch, "y"), 0)));
    return loss(self, batch);
}

/* Upper level: the logarithm of the penalty's strength, judged by rows that the model is not trained on. */

static bt_module *penalty_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(bt_option_double(self, "start", -8, -20, 20)));
}

static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "strength", bt_exp(bt_forward(self)));
    return loss(bt_peer(self, "model"), batch);
}

/* The problems of this file. */

static const bt_problem_def penalty = {
    .name = "penalty",
    .configure_train_data = choice_rows,
    .configure_module = penalty_module,
    .training_step = penalty_step,
};

static const bt_problem_def model = {
    .name = "model",
    .configure_train_data = train_rows,
    .configure_valid_data = test_rows,
    .configure_module = model_module,
    .training_step = model_step,
    .validation_step = model_validation,
};

BT_EXPORT(.problems = {&penalty, &model});

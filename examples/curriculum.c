/* examples/curriculum.c: what may change while a program runs, and the callbacks. docs/extending.md explains it.
 *
 * A fifth of the digits have a wrong label. An example counts if its loss is below a threshold; the upper problem
 * learns the threshold and the learning rate. Noise blurs the images and fades from epoch to epoch, and in the first
 * epochs every example counts. */
#include <betty/betty.h>
#include <math.h>

/* What the callbacks keep between calls; a checkpoint must keep it, too. */
static struct {
    double noise;
    int64_t sorting; /* 1: examples are weighed */
} lesson = {0.5, 0};

static bt_dataset *digits(bt_problem *self, double from, double to)
{
    return bt_dataset_part(bt_dataset_open("digits", "train"), from, to, bt_seed(self));
}

static bt_dataset *train_data(bt_problem *self) /* labelled and unlabelled digits in the same batch */
{
    bt_state(self, "lesson", &lesson, sizeof lesson);
    bt_dataset *labelled = bt_dataset_label_noise(digits(self, 0, 0.4), 0.2, bt_seed(self));
    return bt_dataset_join(labelled, "other", digits(self, 0.4, 0.7));
}

static bt_dataset *clean_data(bt_problem *self) { return digits(self, 0.7, 0.8); }
static bt_dataset *test_data(bt_problem *self) { return digits(self, 0.8, 1); }

static int64_t easy_epochs(bt_problem *self) { return bt_option_int(self, "easy_epochs", 5, 0, 1000); }

/* Host: after each pass over the labelled digits. */
static void next_lesson(bt_problem *self)
{
    lesson.noise *= 0.95;
    lesson.sorting = bt_host_epoch(self) >= easy_epochs(self);
}

static double noise_now(bt_problem *self) { return (void)self, lesson.noise; }
static int64_t sorting_now(bt_problem *self) { return (void)self, lesson.sorting; }

/* ---- upper: the threshold, and how fast the student learns ---- */

static bt_module *pace_module(bt_problem *self)
{
    (void)self;
    bt_module *pace = bt_module_new(NULL);
    bt_module_add_param(pace, "threshold", bt_init_constant(2.3));
    bt_module_add_param(pace, "log_lr", bt_init_constant(log(0.05)));
    bt_module_add_buffer(pace, "average", bt_init_constant(2.3));
    return pace;
}

/* A table's column of digits as [n, 10]: true at each row's digit. */
static bt_tensor *right_one(const bt_batch *batch)
{
    const double digit[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    return bt_equal(bt_unsqueeze(bt_field(batch, "y"), 1), bt_constant(BT_ARRAY(digit, 10)));
}

static bt_tensor *losses(bt_tensor *guess, const bt_batch *batch) /* [n] */
{
    return bt_neg(bt_sum(bt_where(right_one(batch), bt_log_softmax(guess, -1), 0), 1));
}

static bt_tensor *pace_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *guess = bt_forward(bt_peer(self, "student"), bt_div(bt_field(batch, "x"), 16));
    bt_tensor *loss = bt_mean(losses(guess, batch));
    bt_tensor *average = bt_add(bt_mul(0.99, bt_param(self, "average")), bt_mul(0.01, loss));
    bt_param_set(self, "average", bt_detach(average));
    bt_metric(self, "threshold", bt_param(self, "threshold"));
    bt_metric(self, "lr", bt_exp(bt_param(self, "log_lr")));
    return loss;
}

/* ---- lower ---- */

static bt_module *student_module(bt_problem *self)
{
    easy_epochs(self); /* a key must be asked for before the first step */
    return bt_nn_mlp(bt_gelu, 64, bt_option_int(self, "hidden", 32, 1, 10000), 10);
}

static bt_tensor *blurred_guess(void *student, bt_tensor *const *in)
{
    bt_problem *self = student;
    bt_tensor *image = bt_div(in[0], 16);
    bt_tensor *noise = bt_mul(bt_host_scalar(self, "noise", noise_now), bt_normal_like(image));
    return bt_forward(self, bt_add(image, noise));
}

static bt_tensor *student_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *guess = bt_checkpoint(blurred_guess, self, bt_field(batch, "x")); /* its layers are recomputed */
    bt_tensor *loss = losses(guess, batch);
    bt_tensor *spread = bt_mean(bt_log_softmax(bt_forward(self, bt_div(bt_field(batch, "other.x"), 16)), -1));
    if (!bt_static_int(self, "sorting", sorting_now)) /* if it changes, this is traced again */
        return bt_sub(bt_mean(loss), bt_mul(0.01, spread));
    bt_tensor *sharpness = bt_minimum(bt_div(bt_step(self), 200), 5);
    bt_tensor *below = bt_sub(bt_param(bt_peer(self, "pace"), "threshold"), bt_detach(loss));
    bt_tensor *weight = bt_sigmoid(bt_mul(sharpness, below));
    return bt_sub(bt_mean(bt_mul(weight, loss)), bt_mul(0.01, spread));
}

static bt_tensor *student_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *guess = bt_forward(self, bt_div(bt_field(batch, "x"), 16));
    bt_tensor *at_right = bt_sum(bt_where(right_one(batch), guess, 0), 1);
    bt_metric(self, "acc", bt_equal(at_right, bt_max(guess, 1)));
    return bt_mean(losses(guess, batch));
}

static void student_schedule(bt_problem *self, bt_rule *optimizer) /* the upper level gives the learning rate */
{
    bt_hyper_set(optimizer, "lr", bt_exp(bt_param(bt_peer(self, "pace"), "log_lr")));
}

static bt_tensor *student_gradient(bt_problem *self, bt_tensor *grad) /* clipped to length 5 */
{
    bt_tensor *length = bt_sqrt(bt_add(bt_sum(bt_square(grad)), 1e-12));
    (void)self;
    return bt_div(grad, bt_maximum(bt_div(length, 5), 1));
}

static bt_tensor *student_params(bt_problem *self, bt_tensor *params) /* clipped to [-3, 3] */
{
    (void)self;
    return bt_clamp(params, -3, 3);
}

static void student_loop_start(bt_problem *self) /* host: before each inner loop */
{
    bt_metric(self, "noise", lesson.noise);
}

static const bt_problem_def pace = {
    .name = "pace",
    .configure_train_data = clean_data,
    .configure_module = pace_module,
    .training_step = pace_step,
};

static const bt_problem_def student = {
    .name = "student",
    .configure_train_data = train_data,
    .configure_valid_data = test_data,
    .configure_module = student_module,
    .training_step = student_step,
    .validation_step = student_validation,
    .schedule = student_schedule,
    .grad_callback = student_gradient,
    .param_callback = student_params,
    .on_inner_loop_start = student_loop_start,
    .epoch_callback = next_lesson,
};

BT_EXPORT(.problems = {&pace, &student});

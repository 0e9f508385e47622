/* distillation.c: learns ten images, one per class, so that a network trained on nothing else classifies the whole set
 * (Wang et al., "Dataset distillation", 2018). Each inner loop trains a new, random network on the ten images; the
 * hypergradient is differentiated through its steps (type = itd). */
#include <betty/betty.h>
#include <math.h>

static bt_dataset *images(bt_problem *self, const char *split)
{
    return bt_dataset_open(bt_option_text(bt_peer(self, "images"), "data", "fashion-mnist"), split);
}

static bt_dataset *train_images(bt_problem *self) { return images(self, "train"); }
static bt_dataset *test_images(bt_problem *self) { return images(self, "test"); }

/* The only images that a student sees; the upper problem changes them. */
static bt_dataset *ten_images(bt_problem *self)
{
    return bt_dataset_per_class(train_images(self), 0, 1, bt_seed(self));
}

/* Steps of a student in the evaluation. Also called when the module is made: keys must be known before the run. */
static int64_t evaluation_steps(bt_problem *self)
{
    return bt_option_int(bt_peer(self, "student"), "adapt_steps", 10, 0, 1000);
}

/* Upper level: what is added to the image of each class, and how fast the students learn. */

enum { PIXELS = 784, CLASSES = 10 };

static bt_module *images_module(bt_problem *self)
{
    bt_module *learned = bt_module_new(NULL);
    evaluation_steps(self);
    bt_module_add_param(learned, "change", bt_init_constant(0), CLASSES, PIXELS);
    bt_module_add_param(learned, "log_lr", bt_init_constant(log(bt_option_double(self, "start_lr", 0.1, 1e-6, 10))));
    return learned;
}

static bt_tensor *loss(bt_problem *student, bt_tensor *image, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(student, image), bt_field(batch, "label")));
}

static bt_tensor *images_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "rate", bt_exp(bt_param(self, "log_lr")));
    return loss(bt_peer(self, "student"), bt_field(batch, "image"), batch);
}

/* Lower level: a student. */

static bt_module *student_module(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, PIXELS, bt_option_int(self, "hidden", 100, 1, 10000), CLASSES);
}

static bt_tensor *new_layer(bt_problem *self, const char *name) /* its weight [out, in] and bias, one after the other */
{
    bt_tensor *weight = bt_param(self, "%s.weight", name), *bias = bt_param(self, "%s.bias", name);
    bt_tensor *drawn = bt_mul(sqrt(2.0 / (double)bt_dim(weight, 1)), bt_normal_like(weight));
    return bt_concat(0, bt_reshape(drawn, -1), bt_zeros_like(bias));
}

static bt_tensor *new_student(bt_problem *self) { return bt_concat(0, new_layer(self, "0"), new_layer(self, "1")); }

static bt_tensor *student_step(bt_problem *self, const bt_batch *ten)
{
    bt_tensor *change = bt_gather(bt_param(bt_peer(self, "images"), "change"), bt_field(ten, "label"));
    bt_tensor *real = bt_reshape(bt_field(ten, "image"), -1, PIXELS);
    return loss(self, bt_add(real, change), ten);
}

static void student_schedule(bt_problem *self, bt_rule *optimizer)
{
    bt_hyper_set(optimizer, "lr", bt_exp(bt_param(bt_peer(self, "images"), "log_lr")));
}

/* Evaluation, on the host: a new student for each batch of test images. */

static bt_tensor *accuracy(bt_problem *student, const bt_batch *batch)
{
    return bt_mean(bt_accuracy(bt_forward(student, bt_field(batch, "image")), bt_field(batch, "label")));
}

static void images_validation(bt_problem *self)
{
    bt_problem *student = bt_peer(self, "student");
    const bt_batch *ten = bt_valid_batch(student, 0), *batch;
    for (int64_t i = 0; (batch = bt_valid_batch(self, i)) != NULL; i++) {
        double acc = 0;
        bt_adapt(student, ten, evaluation_steps(self)); /* draws another student each time, until bt_restore */
        bt_eval(student, accuracy, batch, BT_ARRAY(&acc));
        bt_metric(self, "acc", acc); /* logged as mean and 95 % interval */
    }
    bt_restore(student);
}

static const bt_problem_def learned_images = {
    .name = "images",
    .configure_train_data = train_images,
    .configure_valid_data = test_images,
    .configure_module = images_module,
    .training_step = images_step,
    .validation_end = images_validation,
};

static const bt_problem_def student = {
    .name = "student",
    .configure_train_data = ten_images,
    .configure_valid_data = ten_images,
    .configure_module = student_module,
    .start = new_student,
    .training_step = student_step,
    .schedule = student_schedule,
};

BT_EXPORT(.problems = {&learned_images, &student});

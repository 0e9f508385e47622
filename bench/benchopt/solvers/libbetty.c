/* libbetty.c: the two problems that libbetty.py supports, with data from memory, behind functions that Python's ctypes
 * can call.
 *
 *   penalties  logistic regression on rows z = label x with the loss mean(log(1 + exp(-z w))) and a penalty of
 *              exp(penalty) w^2 / 2, one for each feature or one for all; chosen for the same loss on other rows
 *   weights    cross-entropy of a linear classifier with each example weighted by sigmoid(weight), plus reg times
 *              the sum of squares; chosen for the plain mean on clean examples */
#include <betty/betty.h>

typedef struct task {
    int64_t features, classes; /* classes 0: penalties */
    const float *x[2];         /* of the lower and of the upper problem: z, or images */
    const int32_t *label[2];
    int64_t counts[2];
    const float *start[2]; /* of the lower and of the upper variable */
    int64_t outer;         /* number of upper variables */
    double reg;
} task;

static bt_dataset *rows(bt_problem *self, int which)
{
    const task *t = bt_user(self);
    bt_dataset *data = bt_dataset_new(t->counts[which]);
    bt_dataset_add(data, "x", BT_ARRAY(t->x[which], t->counts[which], t->features));
    if (t->classes)
        bt_dataset_add(data, "label", BT_ARRAY(t->label[which], t->counts[which]));
    return data;
}

static bt_dataset *lower_rows(bt_problem *self) { return rows(self, 0); }
static bt_dataset *upper_rows(bt_problem *self) { return rows(self, 1); }

static bt_module *lower_module(bt_problem *self)
{
    const task *t = bt_user(self);
    if (!t->classes)
        return bt_nn_parameter(bt_init_array(BT_ARRAY(t->start[0], t->features)), t->features);
    return bt_nn_parameter(bt_init_array(BT_ARRAY(t->start[0], t->features, t->classes)), t->features, t->classes);
}

static bt_module *upper_module(bt_problem *self)
{
    const task *t = bt_user(self);
    return bt_nn_parameter(bt_init_array(BT_ARRAY(t->start[1], t->outer)), t->outer);
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch) /* [n] */
{
    const task *t = bt_user(lower);
    bt_tensor *product = bt_matmul(bt_field(batch, "x"), bt_forward(lower));
    return t->classes ? bt_cross_entropy(product, bt_field(batch, "label")) : bt_softplus(bt_neg(product));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    const task *t = bt_user(self);
    bt_tensor *upper = bt_forward(bt_peer(self, "upper")), *squares = bt_square(bt_forward(self));
    if (!t->classes)
        return bt_add(bt_mean(losses(self, batch)), bt_mul(0.5, bt_sum(bt_mul(bt_exp(upper), squares))));
    bt_tensor *weight = bt_sigmoid(bt_gather(upper, bt_field(batch, "index")));
    return bt_add(bt_mean(bt_mul(weight, losses(self, batch))), bt_mul(t->reg, bt_sum(squares)));
}

static const bt_problem_def upper = {
    .name = "upper",
    .configure_train_data = upper_rows,
    .configure_module = upper_module,
    .training_step = upper_step,
};

static const bt_problem_def lower = {
    .name = "lower",
    .configure_train_data = lower_rows,
    .configure_module = lower_module,
    .training_step = lower_step,
};

BT_EXPORT(.problems = {&upper, &lower});

/* The engine for a task; the task must outlive it. NULL: failed (bt_error). */
bt_engine *task_engine(task *t)
{
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &bt_exported, t);
    bt_engine_set(engine, "dependencies.u2l", "upper > lower");
    bt_engine_set(engine, "dependencies.l2u", "lower > upper");
    bt_engine_set(engine, "engine.train_iters", "1000000000");
    bt_engine_set(engine, "engine.valid_step", "0");
    bt_engine_set(engine, "engine.log_step", "0");
    if (!*bt_error())
        return engine;
    bt_engine_free(engine);
    return NULL;
}

/* The two variables as vectors. Not 0: failed (bt_error). */
int task_read(bt_engine *engine, const task *t, float *inner, float *outer)
{
    int64_t columns = t->classes ? t->classes : 1;
    bt_engine_read(engine, "lower.value", BT_ARRAY(inner, t->features * columns));
    return bt_engine_read(engine, "upper.value", BT_ARRAY(outer, t->outer)) != BT_OK;
}

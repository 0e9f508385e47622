/* embed.c: the library inside another program: no INI file, no betty-run, data from memory.
 * Ridge regression towards a first guess, with the penalty of each feature chosen on held-out rows. */
#include <betty/betty.h>
#include <stdio.h>

enum { ROWS = 200, FEATURES = 5 };

struct table { /* data of the host program */
    double x[ROWS * FEATURES], y[ROWS];
};

static const double guess[FEATURES] = {0.5, 0.5, 1.5, 2.5, 5};

static bt_dataset *rows(bt_problem *self, int from, int count)
{
    struct table *t = bt_user(self);
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "x", BT_ARRAY(t->x + from * FEATURES, count, FEATURES));
    bt_dataset_add(data, "y", BT_ARRAY(t->y + from, count));
    return data;
}

static bt_dataset *train_rows(bt_problem *self) { return rows(self, 0, ROWS / 2); }
static bt_dataset *valid_rows(bt_problem *self) { return rows(self, ROWS / 2, ROWS / 2); }

static bt_module *penalty_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0), FEATURES);
}

static bt_module *model_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(guess, FEATURES)), FEATURES);
}

static bt_tensor *predict(bt_problem *model, const bt_batch *batch)
{
    return bt_matmul(bt_field(batch, "x"), bt_forward(model));
}

static bt_tensor *fit(bt_problem *model, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(predict(model, batch), bt_field(batch, "y"))));
}

static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch) { return fit(bt_peer(self, "model"), batch); }

static bt_tensor *penalties(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_exp(bt_forward(self));
}

static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *penalty = bt_exp(bt_forward(bt_peer(self, "penalty")));
    bt_tensor *change = bt_sub(bt_forward(self), bt_constant(BT_ARRAY(guess, FEATURES)));
    return bt_add(fit(self, batch), bt_sum(bt_mul(penalty, bt_square(change))));
}

static const bt_problem_def penalty = {
    .name = "penalty",
    .configure_train_data = valid_rows,
    .configure_module = penalty_module,
    .training_step = penalty_step,
};

static const bt_problem_def model = {
    .name = "model",
    .configure_train_data = train_rows,
    .configure_module = model_module,
    .training_step = model_step,
};

BT_EXPORT(.problems = {&penalty, &model});

static bt_status learn(bt_engine *engine, struct table *table)
{
    double strength[FEATURES], slope[FEATURES], prediction[1], row[FEATURES] = {1, 0, 0, 0, 0};
    bt_status s;

    /* After a failed call the others do nothing and return its status, so one check is enough. */
    bt_engine_use(engine, &bt_exported, table);
    bt_engine_set(engine, "dependencies.u2l", "penalty > model");
    bt_engine_set(engine, "dependencies.l2u", "model > penalty");
    bt_engine_set(engine, "engine.train_iters", "2000");
    bt_engine_set(engine, "engine.precision", "fp64");
    bt_engine_set(engine, "model.lr", "%g", 0.05);
    bt_engine_set(engine, "model.type", "cg");
    bt_engine_set(engine, "model.unroll_steps", "%d", 20);
    bt_engine_set(engine, "penalty.optimizer", "adam");

    bt_engine_print(engine, BT_PLAN, stdout);
    if ((s = bt_engine_run(engine)) != BT_OK)
        return s;
    if ((s = bt_engine_save(engine, "ridge")) != BT_OK) /* ridge/checkpoints/step-2000.safetensors */
        return s;

    bt_problem *upper = bt_engine_problem(engine, "penalty"), *lower = bt_engine_problem(engine, "model");
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(row, 1, FEATURES));
    bt_eval(lower, predict, batch, BT_ARRAY(prediction, 1));
    bt_eval(upper, penalties, NULL, BT_ARRAY(strength, FEATURES));
    bt_hypergradient(upper, BT_ARRAY(slope, FEATURES));
    bt_batch_free(batch);

    printf("held-out loss %g, first prediction %g\n", bt_engine_metric(engine, "penalty.loss"), prediction[0]);
    for (int j = 0; j < FEATURES; j++)
        printf("penalty %d: %g, hypergradient %g\n", j, strength[j], slope[j]);
    return BT_OK;
}

int main(void)
{
    static struct table table;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < FEATURES; j++) {
            double value = bt_host_uniform(1, (uint64_t)i, (uint64_t)j);
            table.x[i * FEATURES + j] = value;
            table.y[i] += j * value;
        }

    bt_engine *engine = bt_engine_new();
    bt_status s = learn(engine, &table);
    if (s != BT_OK)
        fprintf(stderr, "%s\n", bt_error());
    bt_engine_free(engine);
    return s == BT_OK ? 0 : 1;
}

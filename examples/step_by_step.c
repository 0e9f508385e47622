/* step_by_step.c: a program controls a run: it trains in ten calls instead of one, reads and writes variables, and
 * receives the log. Ridge regression; the upper level learns the penalty on held-out rows. Exit code 0: the ten calls
 * give the same bits as one. */
#include <betty/betty.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 60, FEATURES = 3, CALLS = 10, STEPS = 200, MOST = 64 };

static bt_dataset *rows(bt_problem *self, int from)
{
    double x[ROWS * FEATURES], y[ROWS] = {0};
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < FEATURES; j++) {
            x[i * FEATURES + j] = bt_host_uniform(bt_seed(self), (uint64_t)(from + i), (uint64_t)j);
            y[i] += j * x[i * FEATURES + j];
        }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, FEATURES));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_dataset *train_rows(bt_problem *self) { return rows(self, 0); }
static bt_dataset *valid_rows(bt_problem *self) { return rows(self, ROWS); }

static bt_module *weights(bt_problem *self) /* "model.w", "penalty.w" */
{
    (void)self;
    bt_module *net = bt_module_new(NULL);
    bt_module_add_param(net, "w", bt_init_constant(0), FEATURES);
    return net;
}

static bt_tensor *fit(bt_problem *model, const bt_batch *batch)
{
    bt_tensor *guess = bt_matmul(bt_field(batch, "x"), bt_param(model, "w"));
    return bt_mean(bt_square(bt_sub(guess, bt_field(batch, "y"))));
}

static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch) { return fit(bt_peer(self, "model"), batch); }

static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_param(bt_peer(self, "penalty"), "w"));
    return bt_add(fit(self, batch), bt_sum(bt_mul(strength, bt_square(bt_param(self, "w")))));
}

static const bt_problem_def penalty = {
    .name = "penalty", .configure_train_data = valid_rows, .configure_module = weights, .training_step = penalty_step};
static const bt_problem_def model = {
    .name = "model", .configure_train_data = train_rows, .configure_module = weights, .training_step = model_step};

BT_EXPORT(.problems = {&penalty, &model});

static bt_engine *new_engine(void)
{
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &bt_exported, NULL);
    bt_engine_set(engine, "dependencies.u2l", "penalty > model");
    bt_engine_set(engine, "dependencies.l2u", "model > penalty");
    bt_engine_set(engine, "engine.train_iters", "%d", STEPS);
    bt_engine_set(engine, "engine.valid_step", "0");
    bt_engine_set(engine, "model.type", "sama"); /* uses D, the derivative of the optimiser's update by the gradient */
    bt_engine_set(engine, "model.optimizer", "adam");
    bt_engine_set(engine, "model.lr", "0.05");
    bt_engine_set(engine, "model.batch_size", "10");
    bt_engine_set(engine, "model.unroll_steps", "5");
    bt_engine_set(engine, "penalty.lr", "0.5");
    return engine;
}

static void hear(void *user, bt_line kind, const char *text)
{
    (void)user;
    printf("%s%s\n", kind == BT_LINE_WARNING ? "warning: " : "", text);
}

/* Writes back what it reads, so nothing changes. */
static void look(bt_engine *engine)
{
    static const char *const names[] = {"model.w", "model.w:m", "model.w:slope of the update", "penalty.w"};
    double values[FEATURES], x[FEATURES];
    printf("after step %lld\n", (long long)bt_engine_steps(engine));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bt_engine_read(engine, names[i], BT_ARRAY(values, FEATURES));
        bt_engine_write(engine, names[i], BT_ARRAY(values, FEATURES));
        printf("  %-28s %g %g %g\n", names[i], values[0], values[1], values[2]);
    }
    bt_engine_read(engine, "penalty:x.model", BT_ARRAY(x, FEATURES)); /* as the next step of penalty would have it */
    bt_engine_read(engine, "penalty:gradient", BT_ARRAY(values, FEATURES));
    printf("  x %g %g %g, hypergradient %g %g %g\n", x[0], x[1], x[2], values[0], values[1], values[2]);
}

/* How many of the variables that a checkpoint would keep differ between two engines. */
static int differences(bt_engine *one, bt_engine *other)
{
    int count = 0;
    const char *name;
    bt_array shape;
    for (int64_t i = 0; (name = bt_engine_name(one, i, &shape)) != NULL; i++) {
        double a[MOST] = {0}, b[MOST] = {0};
        int64_t size = bt_array_count(shape);
        if (size > MOST)
            return -1;
        bt_engine_read(one, name, BT_ARRAY(a, size));
        bt_engine_read(other, name, BT_ARRAY(b, size));
        count += memcmp(a, b, sizeof a) != 0;
    }
    return count;
}

static int compare(bt_engine *one, bt_engine *ten)
{
    bt_engine_run(one);
    bt_engine_log(ten, hear, NULL);
    for (int call = 1; call <= CALLS; call++) {
        bt_engine_run_to(ten, (int64_t)call * STEPS / CALLS);
        if (call == 1 || call == CALLS)
            look(ten);
    }
    int differ = differences(one, ten);
    printf("one call and ten: %d variables differ\n", differ);

    const double zero[FEATURES] = {0};
    bt_engine_set(ten, "engine.train_iters", "%d", 2 * STEPS); /* more steps, from another model */
    bt_engine_write(ten, "model.w", BT_ARRAY(zero, FEATURES));
    bt_engine_run(ten);
    printf("step %lld: loss %g\n", (long long)bt_engine_steps(ten), bt_engine_metric(ten, "model.loss"));
    return *bt_error() || differ || bt_engine_steps(ten) != 2 * STEPS;
}

int main(void)
{
    bt_engine *one = new_engine(), *ten = new_engine();
    int bad = compare(one, ten);
    if (*bt_error())
        fprintf(stderr, "%s\n", bt_error());
    bt_engine_free(ten);
    bt_engine_free(one);
    return bad;
}

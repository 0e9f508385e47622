/* Several threads of a program, each with its own engine: they share data read from files and derived derivatives of
 * ops, and get the same bits as a single thread. ThreadSanitizer runs this too. */
#include "levels.h"

#include "support/suite.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4 };

static char path[] = "/tmp/betty-threads-XXXXXX";

static bt_dataset *table(bt_problem *self)
{
    return bt_dataset_part(bt_dataset_open(bt_user(self), "train"), 0, 0.9, bt_seed(self));
}

/* A data set of the program, which every engine registers, opens and removes. */
static bt_dataset *open_rows(const char *split)
{
    (void)split;
    double x[12], y[4] = {1, 0, 0, 1};
    for (int i = 0; i < 12; i++)
        x[i] = (i * 5 % 7) / 7.0;
    bt_dataset *data = bt_dataset_new(4);
    bt_dataset_add(data, "x", BT_ARRAY(x, 4, 3));
    bt_dataset_add(data, "y", BT_ARRAY(y, 4));
    return data;
}

static const bt_dataset_def rows = {.name = "rows-of-threads", .open = open_rows};

static bt_dataset *own_rows(bt_problem *self)
{
    (void)self;
    return bt_dataset_open("rows-of-threads", "train");
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_mlp(bt_relu, 3, 4, 1), bt_nn_dropout(0.1));
}

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-2));
}

/* An op of the program, whose derivatives are created on first use, by any thread. */
static void scaled(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(in[0], bt_exp(in[1]));
}
static const bt_op scale = {.name = "scale", .inputs = 2, .body = scaled};

static bt_tensor *loss(bt_problem *problem, const bt_batch *batch)
{
    bt_tensor *logit = bt_squeeze(bt_forward(problem, bt_field(batch, "x")), 1);
    return bt_mean(bt_binary_cross_entropy(logit, bt_greater(bt_field(batch, "y"), 0)));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *size = bt_sum(bt_square(bt_params(self)));
    return bt_add(loss(self, batch), bt_apply(&scale, NULL, size, bt_param(bt_peer(self, "upper"), "value")));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return loss(bt_peer(self, "lower"), batch); }

static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = table, .configure_module = net, .training_step = lower_step};
static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = own_rows, .configure_module = number, .training_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}, .datasets = {&rows}};

typedef struct outcome {
    uint64_t state;
    double hypergradient;
    char message[512]; /* "": success */
} outcome;

static const char settings[] = "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                               "lower.type = cg\nlower.cg_iterations = 2\nlower.batch_size = 5\n"
                               "lower.optimizer = adam\nlower.lr = 0.05\nupper.lr = 0.1\n"
                               "engine.train_iters = 6\nengine.threads = 1\n";

/* Uses no assertions itself: those belong to the main thread. */
static void *train(void *user)
{
    outcome *result = user;
    bt_engine *engine = levels_engine(&parts, path, settings);
    if (engine && bt_engine_run(engine) == BT_OK &&
        bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&result->hypergradient)) == BT_OK)
        result->state = levels_hash(engine, NULL);
    snprintf(result->message, sizeof result->message, "%s", bt_error());
    bt_engine_free(engine);
    bt_error_clear();
    return NULL;
}

static void write_table(void)
{
    int file = mkstemp(path);
    FILE *text = file >= 0 ? fdopen(file, "w") : NULL;
    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < 12; i++)
        fprintf(text, "%d.5,%d,%d,%d\n", i % 5, i * 7 % 11 - 5, i % 2, i % 3);
    ck_assert_int_eq(fclose(text), 0);
}

START_TEST(engines_in_threads)
{
    pthread_t threads[THREADS];
    outcome together[THREADS] = {{0}}, alone = {0};
    write_table();
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, train, &together[t]), 0);
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
    train(&alone); /* last, so that the threads find nothing created yet */
    unlink(path);
    ck_assert_str_eq(alone.message, "");
    ck_assert(alone.hypergradient != 0);
    for (int t = 0; t < THREADS; t++) {
        ck_assert_str_eq(together[t].message, "");
        ck_assert_uint_eq(together[t].state, alone.state);
        ck_assert(together[t].hypergradient == alone.hypergradient);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads");
    TCase *tests = tcase_create("threads");
    tcase_add_test(tests, engines_in_threads);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

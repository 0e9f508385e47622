/* Batch normalisation in the engine: its buffers are updated once for each micro-batch of their owner's own step, by
 * the formula, and by nothing else: no hypergradient by any method, no step of another level, no validation. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <string.h>

enum { ROWS = 24, WIDTH = 4, BATCH = 6, CHANNELS = 3, STEPS = 8 };

static double rows_of(int set, int row, int k) { return sin(1.1 * set + 0.7 * row + 0.3 * k * (row % 5)); }

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS * WIDTH], y[ROWS];
    int set = strcmp(self->name, "upper") == 0;
    for (int i = 0; i < ROWS; i++) {
        y[i] = cos(2.1 * i + set);
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = rows_of(set, i, k);
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, WIDTH));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

/* The first normalisation sees the data directly, so its statistics are known; the second sees the output of a
 * layer. */
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_batch_norm(WIDTH), bt_nn_linear(WIDTH, CHANNELS), bt_nn_batch_norm(CHANNELS),
                            bt_nn_fn(bt_tanh), bt_nn_linear(CHANNELS, 1));
}

static bt_module *penalty(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-1), 1);
}

static bt_tensor *error(bt_problem *lower, const bt_batch *batch)
{
    bt_tensor *y = bt_squeeze(bt_forward(lower, bt_field(batch, "x")), 1);
    return bt_mean(bt_square(bt_sub(y, bt_field(batch, "y"))));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "upper")));
    return bt_add(error(self, batch), bt_mul(bt_reshape(strength, BT_END), bt_sum(bt_square(bt_params(self)))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return error(bt_peer(self, "lower"), batch); }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = penalty, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = rows,
                                     .configure_valid_data = rows,
                                     .configure_module = net,
                                     .training_step = lower_step,
                                     .validation_step = error};
static const bt_export two_levels = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_with(const char *settings)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = %d\n"
        "lower.batch_size = %d\nupper.batch_size = %d\nlower.lr = 0.05\nupper.lr = 0.01\nlower.shuffle = false\n%s",
        STEPS, BATCH, BATCH, settings);
    bt_engine *engine = levels_engine(&two_levels, NULL, text);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static void buffer(bt_engine *engine, const char *path, double *values, int64_t count)
{
    bt_slate *slate = bt_module_find(bt_problem_find(&engine->context, "lower")->module, path);
    ck_assert_ptr_nonnull(slate);
    EXPECT_OK(bt_store_to_array(NULL, slate->var, BT_ARRAY(values, count)));
}

/* Mean and unbiased variance of the rows from..to-1, as the first normalisation sees them. */
static void statistics(int from, int to, double mean[WIDTH], double variance[WIDTH])
{
    int n = to - from;
    for (int k = 0; k < WIDTH; k++) {
        mean[k] = variance[k] = 0;
        for (int i = from; i < to; i++)
            mean[k] += rows_of(0, i, k) / n;
        for (int i = from; i < to; i++)
            variance[k] += (rows_of(0, i, k) - mean[k]) * (rows_of(0, i, k) - mean[k]) / (n - 1);
    }
}

/* After this many micro-batches in file order, each of which updates the buffers once. */
static void expect_moved(bt_engine *engine, int micro_batches)
{
    double mean[WIDTH] = {0}, variance[WIDTH] = {1, 1, 1, 1}, found[WIDTH], m[WIDTH], v[WIDTH];
    for (int b = 0; b < micro_batches; b++) {
        int from = b * BATCH % ROWS;
        statistics(from, from + BATCH, m, v);
        for (int k = 0; k < WIDTH; k++) {
            mean[k] = 0.9 * mean[k] + 0.1 * m[k];
            variance[k] = 0.9 * variance[k] + 0.1 * v[k];
        }
    }
    buffer(engine, "0.running_mean", found, WIDTH);
    for (int k = 0; k < WIDTH; k++)
        ck_assert_msg(fabs(found[k] - mean[k]) < 1e-12, "mean[%d]: found %.15g, expected %.15g", k, found[k], mean[k]);
    buffer(engine, "0.running_var", found, WIDTH);
    for (int k = 0; k < WIDTH; k++)
        ck_assert_msg(fabs(found[k] - variance[k]) < 1e-12, "variance[%d]: found %.15g, expected %.15g", k, found[k],
                      variance[k]);
}

START_TEST(each_way_of_differentiating)
{
    static const char *const products[] = {"jvp", "vjp", "finite"};
    const bt_method_def *method = bt_method_builtin(_i / 3);
    if (!method || method == &bt_method_none)
        return; /* the loop has spare iterations; the last method asks for nothing */
    char settings[256];
    snprintf(settings, sizeof settings, "lower.type = %s\nlower.product = %s\nlower.unroll_steps = 2\n", method->name,
             products[_i % 3]);
    bt_engine *engine = engine_with(settings);
    for (int step = 1; step <= STEPS; step++) {
        levels_step(engine, 1);
        expect_moved(engine, step);
        uint64_t before = levels_hash(engine, "lower");
        double gradient[1];
        bool there = strcmp(method->name, "itd") != 0 || step % 2; /* itd: not right after an inner loop has ended */
        bt_status status = bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(gradient, 1));
        ck_assert_msg(status == (there ? BT_OK : BT_ERROR_ARGUMENT), "%s: %s", method->name, bt_error());
        bt_error_clear();
        ck_assert_msg(!there || (isfinite(gradient[0]) && gradient[0] != 0), "%s: the hypergradient is %g",
                      method->name, gradient[0]);
        ck_assert_msg(levels_hash(engine, "lower") == before, "%s, %s: a hypergradient has moved the lower level",
                      method->name, products[_i % 3]);
    }
    bt_engine_free(engine);
}
END_TEST

START_TEST(each_micro_batch)
{
    bt_engine *engine = engine_with("lower.gradient_accumulation = 2\nlower.product_batches = all\n");
    for (int step = 1; step <= STEPS; step++) {
        levels_step(engine, 1);
        expect_moved(engine, 2 * step);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- recomputed values ---- */

enum { BLOCKS = 4, BUFFERS = 2 * (BLOCKS + 1) };

/* The first normalisation sees the data, as in `net`; the layers after it have values worth dropping. */
static bt_module *blocks(bt_problem *self)
{
    (void)self;
    bt_module *deep = bt_nn_sequential(bt_nn_batch_norm(WIDTH));
    for (int b = 1; b <= BLOCKS; b++)
        bt_module_add(deep, bt_nn_sequential(bt_nn_linear(WIDTH, WIDTH), bt_nn_batch_norm(WIDTH), bt_nn_fn(bt_gelu)),
                      "%d", b);
    bt_module_add(deep, bt_nn_linear(WIDTH, 1), "%d", BLOCKS + 1);
    return deep;
}

static const bt_problem_def deep = {
    .name = "lower", .configure_train_data = rows, .configure_module = blocks, .training_step = lower_step};
static const bt_export deep_levels = {.abi = BT_ABI, .problems = {&upper, &deep}};

static bt_engine *deep_engine(const char *policy)
{
    char text[512];
    snprintf(text, sizeof text,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = %d\n"
             "upper.batch_size = %d\nlower.lr = 0.05\nupper.lr = 0.01\nlower.shuffle = false\nengine.threads = 1\n%s",
             BATCH, BATCH, policy);
    bt_engine *engine = levels_engine(&deep_levels, NULL, text);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static void all_buffers(bt_engine *engine, double values[BUFFERS][WIDTH])
{
    char path[64];
    for (int i = 0; i < BUFFERS; i++) {
        snprintf(path, sizeof path, "%d%s.running_%s", i / 2, i < 2 ? "" : ".1", i % 2 ? "var" : "mean");
        buffer(engine, path, values[i], WIDTH);
    }
}

static int64_t steps_again(const bt_engine *engine)
{
    const bt_instance *instance = engine->context.instance;
    int64_t count = 0;
    for (int64_t p = 0; p < instance->phase_count; p++)
        for (int64_t e = 0; e < instance->phases[p]->entry_count; e++)
            count += instance->phases[p]->entries[e].program->again;
    return count;
}

static const char *const policies[] = {"lower.checkpointing = every:1\n", "lower.checkpointing = sqrt\n",
                                       "lower.checkpointing = modules:*\n", "lower.checkpointing = ops:*\n",
                                       "lower.checkpointing = cost:1000%\n"};

/* Statistics are updated once per step, however often the values behind them are recomputed, with the same bits as
 * without. */
START_TEST(computed_again)
{
    bt_engine *plain = deep_engine(""), *engine = deep_engine(policies[_i]);
    double expected[BUFFERS][WIDTH], found[BUFFERS][WIDTH];
    for (int step = 1; step <= STEPS; step++) {
        levels_step(plain, 1);
        levels_step(engine, 1);
        all_buffers(plain, expected);
        all_buffers(engine, found);
        ck_assert_mem_eq(found, expected, sizeof found);
        expect_moved(engine, step);
    }
    ck_assert_int_eq(steps_again(plain), 0);
    ck_assert_int_gt(steps_again(engine), 0);
    bt_engine_free(plain);
    bt_engine_free(engine);
}
END_TEST

START_TEST(validation_reads_and_writes_nothing)
{
    bt_engine *engine = engine_with("lower.valid_batch_size = 8\n");
    levels_step(engine, 3);
    double loss, again, before[4][WIDTH], after[4][WIDTH];
    static const char *const paths[] = {"0.running_mean", "0.running_var", "2.running_mean", "2.running_var"};
    for (int i = 0; i < 4; i++)
        buffer(engine, paths[i], before[i], i < 2 ? WIDTH : CHANNELS);
    const bt_batch *batch = bt_valid_batch(bt_engine_problem(engine, "lower"), 0);
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), error, batch, BT_ARRAY(&loss)));
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), error, batch, BT_ARRAY(&again)));
    ck_assert(loss == again && isfinite(loss));
    for (int i = 0; i < 4; i++) {
        buffer(engine, paths[i], after[i], i < 2 ? WIDTH : CHANNELS);
        ck_assert_mem_eq(after[i], before[i], sizeof(double) * (i < 2 ? WIDTH : CHANNELS));
    }
    bt_engine_free(engine);
}
END_TEST

/* A module called twice in a step updates twice in sequence, as in PyTorch. */
static bt_tensor *twice_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(lower_step(self, batch), bt_mul(0, error(self, batch)));
}

START_TEST(two_calls_in_a_step)
{
    static const bt_problem_def twice = {
        .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = twice_step};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &twice}};
    bt_engine *engine = levels_engine(&parts, NULL,
                                      "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                                      "engine.train_iters = 1\nlower.batch_size = 24\nupper.batch_size = 24\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 1);
    double mean[WIDTH], variance[WIDTH], found[WIDTH];
    statistics(0, ROWS, mean, variance);
    buffer(engine, "0.running_mean", found, WIDTH);
    for (int k = 0; k < WIDTH; k++)
        ck_assert_msg(fabs(found[k] - (0.9 * 0.1 + 0.1) * mean[k]) < 1e-12, "[%d]: %.15g, mean %.15g", k, found[k],
                      mean[k]);
    bt_engine_free(engine);
}
END_TEST

/* ---- accumulation differs from the large batch: there is a warning ---- */

static bool warned(const char *settings, const char *part)
{
    bt_engine *engine = engine_with(settings);
    EXPECT_OK(bt_engine_setup(engine));
    bool found = strstr(bt_text_get(&engine->context.warnings), part) != NULL;
    bt_engine_free(engine);
    return found;
}

START_TEST(accumulation_names_the_layers)
{
    ck_assert(warned("lower.gradient_accumulation = 2\n",
                     "in 2 places: lower.0 (channel_moments), lower.2 (channel_moments)"));
    ck_assert(
        warned("lower.gradient_accumulation = 2\nlower.batch_norm_groups = 2\n", "in 1 place: lower.0 (reshape)"));
    ck_assert(!warned("", "micro-batch"));
    ck_assert(!warned("upper.gradient_accumulation = 1\n", "places"));
}
END_TEST

static bt_module *line(bt_problem *self)
{
    (void)self;
    return bt_nn_linear(WIDTH, 1);
}

/* Example weights that sum to 1 over the batch; and a plain loss, which is additive. */
static bt_tensor *normalised_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_square(bt_sub(bt_squeeze(bt_forward(self, bt_field(batch, "x")), 1), bt_field(batch, "y")));
    bt_tensor *weight = bt_exp(bt_neg(bt_detach(away)));
    return bt_sum(bt_mul(bt_div(weight, bt_sum(weight)), away));
}

static bt_tensor *plain_step(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "mean", bt_mean(bt_field(batch, "y")));
    return bt_add(
        bt_mean(bt_square(bt_sub(bt_squeeze(bt_forward(self, bt_field(batch, "x")), 1), bt_field(batch, "y")))),
        bt_sum(bt_square(bt_params(self))));
}

static bool one_level_warns(bt_step_fn *step)
{
    bt_problem_def def = {
        .name = "lower", .configure_train_data = rows, .configure_module = line, .training_step = step};
    bt_export parts = {.abi = BT_ABI, .problems = {&def}};
    bt_engine *engine = levels_engine(&parts, NULL, "lower.gradient_accumulation = 3\nlower.batch_size = 8\n");
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    bool found = strstr(bt_text_get(&engine->context.warnings), "training_step") != NULL;
    bt_engine_free(engine);
    return found;
}

START_TEST(other_sums_over_the_batch)
{
    ck_assert(one_level_warns(normalised_step));
    ck_assert(!one_level_warns(plain_step));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.batch_norm");
    TCase *tcase = tcase_create("batch_norm");
    tcase_add_loop_test(tcase, each_way_of_differentiating, 0, 36);
    tcase_add_test(tcase, each_micro_batch);
    tcase_add_loop_test(tcase, computed_again, 0, BT_COUNT_OF(policies));
    tcase_add_test(tcase, validation_reads_and_writes_nothing);
    tcase_add_test(tcase, two_calls_in_a_step);
    tcase_add_test(tcase, accumulation_names_the_layers);
    tcase_add_test(tcase, other_sums_over_the_batch);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

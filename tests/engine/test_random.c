/* tests/engine/test_random.c: everything that differentiates a step uses the random numbers of that step. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>

enum { COUNT = 6, ROWS = 4 };

static double curvature; /* of the lower loss, per element and mask */

static bt_dataset *rows(bt_problem *self)
{
    static const double x[ROWS] = {1, 2, 3, 4};
    (void)self;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS));
    return data;
}

static bt_module *vector(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_nn_parameter(bt_init_constant(0.5), COUNT);
    bt_module_add(module, bt_nn_dropout(0.5), "drop");
    return module;
}

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1));
}

/* C = sum of m_i (lambda w_i + curvature w_i^2 / 2), m the mask (0 or 2), or noise. */
static bt_tensor *masked(bt_problem *self, bt_tensor *terms) { return bt_forward(bt_child(self, "drop"), terms); }

static bt_tensor *noisy(bt_problem *self, bt_tensor *terms)
{
    (void)self;
    return bt_mul(bt_normal_like(terms), terms);
}

static bt_tensor *terms(bt_problem *self)
{
    bt_tensor *w = bt_forward(self);
    return bt_add(bt_mul(bt_forward(bt_peer(self, "upper")), w), bt_mul(curvature / 2, bt_square(w)));
}

static bt_tensor *mask_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(masked(self, terms(self)));
}

static bt_tensor *noise_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(noisy(self, terms(self)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    static const double digits[COUNT] = {1, 10, 100, 1000, 10000, 100000};
    (void)batch;
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "lower")), bt_constant(BT_ARRAY(digits, COUNT))));
}

static bt_tensor *flat_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(bt_peer(self, "lower"));
    return bt_sum(bt_square(bt_sub(w, bt_detach(w))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = number, .training_step = upper_step};
static const bt_problem_def flat = {
    .name = "upper", .configure_train_data = rows, .configure_module = number, .training_step = flat_step};
static const bt_problem_def with_mask = {
    .name = "lower", .configure_train_data = rows, .configure_module = vector, .training_step = mask_step};
static const bt_problem_def with_noise = {
    .name = "lower", .configure_train_data = rows, .configure_module = vector, .training_step = noise_step};
static const bt_export masks = {.abi = BT_ABI, .problems = {&upper, &with_mask}};
static const bt_export noises = {.abi = BT_ABI, .problems = {&upper, &with_noise}};
static const bt_export flat_masks = {.abi = BT_ABI, .problems = {&flat, &with_mask}};

#define SETTINGS                                                                                                       \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.lr = 1\nupper.lr = 0\n"                 \
    "lower.batch_size = 1\nengine.log_step = 0\nlower.unroll_steps = 1000\nlower.neumann_alpha = 0.25\n"               \
    "lower.product_batches = all\n"

static const char *const variants[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = darts\nlower.detach = field\n",
    "lower.type = neumann\nlower.neumann_iterations = 1\n",
    "lower.type = neumann\nlower.neumann_iterations = 4\n",
    "lower.type = neumann\nlower.neumann_iterations = 4\nlower.product = vjp\n",
    "lower.type = neumann\nlower.neumann_iterations = 4\nlower.product = finite\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* The step moves w by -m (lambda + curvature w): this gives the numbers m that it drew, and from these the
 * hypergradient. */
static void compare(const bt_export *parts, int variant, int micros)
{
    double before[COUNT], after[COUNT], found, expected = 0;
    char settings[800];
    curvature = 0.2;
    snprintf(settings, sizeof settings, "%s%slower.gradient_accumulation = %d\n", SETTINGS, variants[variant], micros);
    bt_engine *engine = levels_engine(parts, NULL, settings);
    double last = 0;
    for (int step = 0; step < 3; step++) {
        levels_step(engine, 1);
        levels_params(engine, "lower", step < 2 ? before : after, COUNT);
    }
    int iterations = variant < 4 ? 0 : variant == 4 ? 1 : 4;
    for (int i = 0; i < COUNT; i++) {
        double m = (before[i] - after[i]) / (1 + curvature * before[i]), v = pow(10, i), x = 0, term = v;
        for (int j = 0; j <= iterations; j++) {
            x += (variant < 4 ? 1 : 0.25) * term;
            term -= 0.25 * m * curvature * term;
        }
        expected -= m * x;
        last += m != 0;
    }
    ck_assert_double_gt(last, 0);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_msg(fabs(found - expected) < 1e-8 * fabs(expected), "%s: %.12g, not %.12g", settings, found, expected);
    bt_engine_free(engine);
}

START_TEST(dropout) { compare(&masks, _i, 1); }
END_TEST

START_TEST(dropout_over_micro_batches) { compare(&masks, _i, 3); }
END_TEST

START_TEST(noise) { compare(&noises, _i, 1); }
END_TEST

START_TEST(noise_over_micro_batches) { compare(&noises, _i, 2); }
END_TEST

/* A different step draws different numbers; the same seed draws the same ones. */
START_TEST(steps_differ)
{
    double first[COUNT], second[COUNT], again[COUNT];
    curvature = 0;
    bt_engine *engine = levels_engine(&masks, NULL, SETTINGS), *other = levels_engine(&masks, NULL, SETTINGS);
    levels_step(engine, 1);
    levels_params(engine, "lower", first, COUNT);
    levels_step(engine, 1);
    levels_params(engine, "lower", second, COUNT);
    bool differ = false;
    for (int i = 0; i < COUNT; i++)
        differ |= fabs((0.5 - first[i]) - (first[i] - second[i])) > 1;
    ck_assert(differ);
    levels_step(other, 2);
    levels_params(other, "lower", again, COUNT);
    ck_assert_mem_eq(second, again, sizeof again);
    bt_engine_free(engine);
    bt_engine_free(other);
}
END_TEST

START_TEST(zero_with_dropout)
{
    double found = 1;
    char settings[800];
    curvature = 0.2;
    snprintf(settings, sizeof settings, "%s%s", SETTINGS, variants[_i]);
    bt_engine *engine = levels_engine(&flat_masks, NULL, settings);
    levels_step(engine, 1);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq(found, 0);
    bt_engine_free(engine);
}
END_TEST

/* ---- a random start: w0 = lambda n, and after k steps w = (1 - lr)^k lambda n, so dF/dlambda = sum(w) / lambda for F
 * = sum(w) ---- */

static bt_status no_data(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double number = (double)index;
    (void)self;
    (void)mode;
    return bt_batch_set(batch, "number", BT_ARRAY(&number, 1));
}

static bt_tensor *drawn_start(bt_problem *self)
{
    return bt_mul(bt_forward(bt_peer(self, "upper")), bt_normal_like(bt_params(self)));
}

static bt_tensor *shrinking_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_forward(self))));
}

static bt_tensor *sum_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_forward(bt_peer(self, "lower")));
}

static bt_module *two(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(2)); }

static const bt_problem_def summing = {
    .name = "upper", .get_batch = no_data, .configure_module = two, .training_step = sum_step};
static const bt_problem_def shrinking = {.name = "lower",
                                         .get_batch = no_data,
                                         .configure_module = vector,
                                         .start = drawn_start,
                                         .training_step = shrinking_step};
static const bt_export drawn = {.abi = BT_ABI, .problems = {&summing, &shrinking}};

enum { LOOPS = 3, UNROLL = 4 };

static bt_engine *drawn_engine(void)
{
    return levels_engine(&drawn, NULL,
                         "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\n"
                         "lower.type = itd\nlower.lr = 0.5\nlower.unroll_steps = 4\nengine.log_step = 0\n");
}

/* The sum of the parameters at the start of the loop, `steps` ago. */
static double began_with(bt_engine *engine, int steps)
{
    double w[COUNT], sum = 0;
    levels_params(engine, "lower", w, COUNT);
    for (int i = 0; i < COUNT; i++)
        sum += w[i];
    return sum / pow(0.5, steps);
}

static double drawn_loop(bt_engine *engine)
{
    double found;
    bt_problem *lower = bt_engine_problem(engine, "lower");
    levels_step(engine, UNROLL - 1);
    double sum = began_with(engine, UNROLL - 1);
    EXPECT_OK(bt_adapt(lower, bt_valid_batch(lower, 0), 1)); /* draws numbers, without side effects */
    EXPECT_OK(bt_restore(lower));
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, pow(0.5, UNROLL - 1) * sum / 2, 1e-12);
    levels_step(engine, 1);
    return sum;
}

START_TEST(starts_are_drawn)
{
    bt_engine *engine = drawn_engine(), *other = drawn_engine();
    double sums[LOOPS + 2];
    for (int k = 0; k < LOOPS; k++) {
        sums[k] = drawn_loop(engine);
        ck_assert_double_eq(drawn_loop(other), sums[k]);
    }
    bt_problem *lower = bt_engine_problem(engine, "lower");
    for (int k = LOOPS; k < LOOPS + 2; k++) { /* each further adaptation draws new numbers */
        EXPECT_OK(bt_adapt(lower, bt_valid_batch(lower, 0), 1));
        sums[k] = began_with(engine, 1);
    }
    EXPECT_OK(bt_restore(lower));
    for (int k = 0; k < LOOPS + 2; k++)
        for (int j = 0; j < k; j++)
            ck_assert_msg(fabs(sums[j] - sums[k]) > 1e-6, "loops %d and %d begin alike", j, k);
    ck_assert_double_eq(drawn_loop(engine), drawn_loop(other));
    bt_engine_free(engine);
    bt_engine_free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("replays");
    tcase_add_loop_test(tests, dropout, 0, VARIANTS);
    tcase_add_loop_test(tests, dropout_over_micro_batches, 0, VARIANTS);
    tcase_add_loop_test(tests, noise, 0, VARIANTS);
    tcase_add_loop_test(tests, noise_over_micro_batches, 0, VARIANTS);
    tcase_add_test(tests, steps_differ);
    tcase_add_loop_test(tests, zero_with_dropout, 0, VARIANTS);
    tcase_add_test(tests, starts_are_drawn);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

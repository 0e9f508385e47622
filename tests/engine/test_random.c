/* tests/engine/test_random.c: the random numbers of a step are those of everything that differentiates it. */
#include "levels.h"

#include "engine/problem.h"
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

/* The step moves w by -m (lambda + curvature w): from that the numbers m it drew, and from these the hypergradient. */
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

/* Another step draws other numbers; the same seed draws the same ones. */
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
    suite_add_tcase(suite, tests);
    return levels_main(suite);
}

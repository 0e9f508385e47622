/* tests/engine/test_after_check.c: a check restores the engine completely, whatever happened while it trained. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <string.h>

/* Two leaves, "low" and "other"; every callback may change something that a check must restore. */

static bt_dataset *rows(bt_problem *self)
{
    static const double x[] = {1, 2, 3, 5, 7, 11};
    (void)self;
    bt_dataset *data = bt_dataset_new(6);
    bt_dataset_add(data, "x", BT_ARRAY(x, 6));
    return data;
}

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_tensor *fit(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(self), bt_field(batch, "x"))));
}

static bt_tensor *up_step(bt_problem *self, const bt_batch *batch) { return fit(bt_peer(self, "low"), batch); }

static bt_tensor *both_step(bt_problem *self, const bt_batch *batch)
{
    return bt_add(fit(bt_peer(self, "low"), batch), fit(bt_peer(self, "other"), batch));
}

static bt_tensor *low_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *penalty = bt_mul(bt_exp(bt_forward(bt_peer(self, "up"))), bt_square(bt_forward(self)));
    return bt_add(fit(self, batch), penalty);
}

static int64_t third(bt_problem *self) { return bt_host_step(self) / 3 % 2; }

static bt_tensor *low_step_by_thirds(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_static_int(self, "third", third) ? 0.5 : 1, low_step(self, batch));
}

static void rewire(bt_problem *self) /* the same dependencies, but the programs are recompiled */
{
    EXPECT_OK(bt_set_dependency(self, "up > low", "low > up"));
}

static const bt_problem_def up = {
    .name = "up", .configure_train_data = rows, .configure_module = number, .training_step = up_step};
static const bt_problem_def up_of_both = {
    .name = "up", .configure_train_data = rows, .configure_module = number, .training_step = both_step};
static const bt_problem_def low = {
    .name = "low", .configure_train_data = rows, .configure_module = number, .training_step = low_step};
static const bt_problem_def other = {
    .name = "other", .configure_train_data = rows, .configure_module = number, .training_step = low_step};
static const bt_problem_def low_by_thirds = {
    .name = "low", .configure_train_data = rows, .configure_module = number, .training_step = low_step_by_thirds};
static const bt_problem_def low_rewired = {.name = "low",
                                           .configure_train_data = rows,
                                           .configure_module = number,
                                           .training_step = low_step,
                                           .epoch_callback = rewire};

#define SETTINGS                                                                                                       \
    "low.type = itd\nlow.lr = 0.05\nlow.batch_size = 2\nlow.unroll_steps = 6\nup.batch_size = 4\nup.lr = 0.1\n"        \
    "engine.log_step = 0\n"
#define ONE_LEAF "dependencies.u2l = up > low\ndependencies.l2u = low > up\n" SETTINGS
#define TWO_LEAVES                                                                                                     \
    "dependencies.u2l = up > low, up > other\ndependencies.l2u = low > up, other > up\nother.lr = 0.05\n" SETTINGS

static double slope(bt_engine *engine)
{
    double value = 0;
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "up"), BT_ARRAY(&value, 1)));
    return value;
}

static void check(bt_engine *engine)
{
    bt_check_result *result = bt_engine_check(engine, NULL, 1);
    ck_assert_msg(result != NULL, "%s", bt_error());
    bt_check_result_free(result);
}

/* Including the changes that callbacks ask for. */
static void take_steps(bt_engine *engine, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        EXPECT_OK(bt_session_step(engine));
}

/* In the middle of an inner loop, after steps that the next hypergradient will go back through; after the third, the
 * programs are new and there are no such steps. */
static const int64_t middles[] = {1, 2, 4, 5};
enum { MIDDLES = sizeof middles / sizeof *middles };

static void expect_same_past(const bt_export *parts, int64_t steps)
{
    double end[2];
    for (int with = 0; with < 2; with++) {
        bt_engine *engine = levels_engine(parts, NULL, ONE_LEAF);
        EXPECT_OK(bt_engine_setup(engine));
        take_steps(engine, steps);
        double before = slope(engine);
        if (with)
            check(engine);
        ck_assert(before == slope(engine));
        take_steps(engine, 9 - steps);
        levels_params(engine, "up", &end[with], 1);
        bt_engine_free(engine);
    }
    ck_assert(end[0] == end[1]);
}

START_TEST(where_static_ints_move)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&up, &low_by_thirds}};
    expect_same_past(&parts, middles[_i]);
}
END_TEST

START_TEST(where_the_hierarchy_would_change)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&up, &low_rewired}};
    expect_same_past(&parts, middles[_i]);
}
END_TEST

/* One inner loop has six steps, the other four: after the first steps, one of them is always within a loop or waits for
 * the other. */
START_TEST(loops_that_never_begin_together)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&up_of_both, &low, &other}};
    uint64_t hashes[2];
    for (int with = 0; with < 2; with++) {
        bt_engine *engine = levels_engine(&parts, NULL, TWO_LEAVES "other.unroll_steps = 4\n");
        if (with)
            check(engine);
        levels_step(engine, 5);
        if (with) {
            ck_assert_ptr_null(bt_engine_check(engine, "up", 1));
            ck_assert_ptr_nonnull(
                strstr(bt_error(), "up: the inner loops of the levels below it no longer begin together"));
            bt_error_clear();
        }
        levels_step(engine, 8);
        hashes[with] = levels_hash(engine, NULL);
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(hashes[0], hashes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("after_check");
    TCase *tests = tcase_create("as it was");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, where_static_ints_move, 0, MIDDLES);
    tcase_add_loop_test(tests, where_the_hierarchy_would_change, 0, MIDDLES);
    tcase_add_test(tests, loops_that_never_begin_together);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

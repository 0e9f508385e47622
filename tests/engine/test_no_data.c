/* Problems without data: their batches have no fields. Lower (w - l)^2 / 2, upper (w - 3)^2 / 2 + l^2 / 2: with w = l
 * the upper loss has its minimum at l = 3/2. */
#include "levels.h"

#include "support/suite.h"
#include <math.h>

static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0)); }

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    ck_assert_int_eq(bt_batch_count(batch), 1);
    return bt_mul(0.5, bt_square(bt_sub(bt_params(self), bt_params(bt_peer(self, "upper")))));
}

static bt_tensor *scalar(bt_tensor *x) { return bt_sum(x); }

static bt_tensor *lower_loss(bt_problem *self, const bt_batch *batch) { return scalar(lower_step(self, batch)); }

static bt_tensor *upper_loss(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *off = bt_square(bt_sub(bt_params(bt_peer(self, "lower")), 3));
    return scalar(bt_mul(0.5, bt_add(off, bt_square(bt_params(self)))));
}

static const bt_problem_def upper = {.name = "upper", .configure_module = one, .training_step = upper_loss},
                            lower = {.name = "lower",
                                     .configure_module = one,
                                     .training_step = lower_loss,
                                     .validation_step = lower_loss};
static const bt_export both = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const char *more)
{
    bt_engine *engine = levels_engine(&both, NULL,
                                      "dependencies.l2u = lower > upper\n"
                                      "dependencies.u2l = upper > lower\n"
                                      "engine.train_iters = 200\n"
                                      "engine.valid_step = 200\n"
                                      "upper.optimizer = sgd\n"
                                      "upper.lr = 0.2\n"
                                      "lower.optimizer = sgd\n"
                                      "lower.lr = 1\n");
    ck_assert_msg(engine && bt_engine_set(engine, "lower.type", "%s", more) == BT_OK, "%s", bt_error());
    return engine;
}

START_TEST(two_levels)
{
    static const char *const types[] = {"darts", "cg", "itd"};
    for (int i = 0; i < 3; i++) {
        double l, w;
        bt_engine *engine = engine_of(types[i]);
        levels_run(engine);
        levels_params(engine, "upper", &l, 1);
        levels_params(engine, "lower", &w, 1);
        ck_assert_msg(fabs(l - 1.5) < 1e-9 && fabs(w - 1.5) < 1e-9, "%s: %.12g, %.12g", types[i], l, w);
        const bt_batch *batch = bt_valid_batch(bt_engine_problem(engine, "lower"), 0);
        ck_assert_msg(batch != NULL, "%s", bt_error());
        ck_assert_ptr_null(bt_valid_batch(bt_engine_problem(engine, "lower"), 1));
        bt_engine_free(engine);
    }
}
END_TEST

static bt_engine *resumed(void *user) { return (void)user, engine_of("darts"); }

START_TEST(goes_on) { levels_expect_resumes(resumed, NULL, 5); }
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.no_data");
    TCase *tests = tcase_create("no_data");
    tcase_add_test(tests, two_levels);
    tcase_add_test(tests, goes_on);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_tolerance.c: an inner loop that stops moving once its gradient is small. The lower loss is (w -
 * u)^2 / 2, starting from w = 0: with lr = 1/2 the gradient is -u / 2^k after k steps, and w = u (1 - 1 / 2^k). The
 * upper loss is w, with lr 1. */
#include "levels.h"

#include "engine/level/context.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <string.h>

enum { LOOP = 12, LOOPS = 3 };

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(3));
}

static bt_tensor *from_zero(bt_problem *self) { return bt_zeros_like(bt_params(self)); }

static bt_tensor *distance(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *apart = bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper")));
    return bt_mul(0.5, bt_square(apart));
}

static bt_tensor *solution(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_forward(bt_peer(self, "lower"));
}

static bt_tensor *broken(bt_problem *self, const bt_batch *batch)
{
    return bt_div(distance(self, batch), bt_mul(0, bt_forward(self)));
}

static const bt_problem_def
    upper = {.name = "upper", .configure_module = number, .training_step = solution},
    lower = {.name = "lower", .configure_module = number, .training_step = distance, .start = from_zero},
    wild = {.name = "lower", .configure_module = number, .training_step = broken, .start = from_zero};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}},
                       wild_parts = {.abi = BT_ABI, .problems = {&upper, &wild}};

static bt_engine *engine_of(const bt_export *from, const char *settings)
{
    char lines[1000];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\nupper.lr = 1\n"
             "lower.lr = 0.5\nlower.unroll_steps = %d\nengine.train_iters = %d\nengine.valid_step = 0\n%s",
             LOOP, LOOP * LOOPS, settings);
    bt_engine *engine = levels_engine(from, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static int64_t rested(bt_engine *engine)
{
    const bt_problem *problem = bt_problem_find(&engine->context, "lower");
    return problem->optimizer->rested ? bt_count_get(&engine->context, problem->optimizer->rested) : -1;
}

/* How many steps of a loop move, and the resulting w, for u. */
static int moves(double u, double tolerance, double *w)
{
    int count = 0;
    for (*w = 0; count < LOOP && fabs(*w - u) > tolerance; count++)
        *w -= 0.5 * (*w - u);
    return count;
}

/* The hypergradient is that of the steps that moved. */
START_TEST(by_hand)
{
    static const double tolerances[] = {0.1, 1e-3, 5, 0};
    const double tolerance = tolerances[_i];
    char settings[64];
    snprintf(settings, sizeof settings, "lower.unroll_tolerance = %g\n", tolerance);
    bt_engine *engine = engine_of(&parts, settings);
    double u = 3, w = 0, found[2];
    int64_t still = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        const int moved = moves(u, tolerance, &w);
        still += LOOP - moved;
        levels_step(engine, LOOP);
        levels_params(engine, "lower", &found[0], 1);
        ck_assert_double_eq_tol(found[0], w, 1e-12);
        u -= 1 - pow(0.5, moved);
        levels_params(engine, "upper", &found[1], 1);
        ck_assert_double_eq_tol(found[1], u, 1e-12);
        ck_assert_int_eq(rested(engine), tolerance > 0 ? still : -1);
    }
    ck_assert_int_eq(levels_skipped(engine, "lower"), 0);
    bt_engine_free(engine);
}
END_TEST

/* A non-finite gradient does not count as small. */
START_TEST(not_finite)
{
    bt_engine *engine = engine_of(&wild_parts, "lower.unroll_tolerance = 0.1\n");
    levels_step(engine, LOOP - 1);
    ck_assert_int_eq(rested(engine), 0);
    ck_assert_int_eq(levels_skipped(engine, "lower"), LOOP - 1);
    bt_engine_free(engine);
}
END_TEST

static bt_engine *made(void *user)
{
    (void)user;
    return engine_of(&parts, "lower.unroll_tolerance = 0.1\nlower.momentum = 0.2\n");
}

START_TEST(resumes) { levels_expect_resumes(made, NULL, LOOP * LOOPS); }
END_TEST

int main(void)
{
    Suite *suite = suite_create("tolerance");
    TCase *tests = tcase_create("tolerance");
    tcase_add_loop_test(tests, by_hand, 0, 4);
    tcase_add_test(tests, not_finite);
    tcase_add_test(tests, resumes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

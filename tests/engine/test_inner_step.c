/* The step within an inner loop: as a tensor in every program that repeats or differentiates a step, and in bt_adapt,
 * which begins a loop as training does. Learned per-step rates against a loop in plain C. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RATES = 3, LOOPS = 2 };

static const double first_rates[RATES] = {0.1, 0.2, 0.05};

static struct {
    bool start;         /* loops start from 3 */
    int called, memory; /* calls of on_inner_loop_start; the memory for bt_adapt */
} now;

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    static const double x[] = {1};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1));
}

static bt_module *rates(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY((double *)first_rates, RATES)), RATES);
}

static bt_module *weight(bt_problem *self)
{
    EXPECT_OK(bt_state(self, "loops", &now.memory, sizeof now.memory));
    return bt_nn_parameter(bt_init_constant(3));
}

/* (w - 1)^2 in both. */
static bt_tensor *distance(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_forward(bt_peer(self, "learner"));
    return bt_mean(bt_square(bt_sub(w, bt_field(batch, "x"))));
}

/* The rate of the step; after the last rate, the last one again. */
static void schedule(bt_problem *self, bt_rule *optimizer)
{
    static const double places[] = {0, 1, 2};
    bt_tensor *at = bt_equal(bt_constant(BT_ARRAY(places, RATES)), bt_minimum(bt_inner_step(self), RATES - 1));
    bt_hyper_set(optimizer, "lr", bt_sum(bt_mul(at, bt_forward(bt_peer(self, "meta")))));
}

static bt_tensor *three(bt_problem *self)
{
    return now.start ? bt_mul(3, bt_add(1, bt_zeros_like(bt_params(self)))) : bt_params(self);
}

static bt_tensor *forwarded(bt_problem *self, const bt_batch *batch) { return (void)batch, bt_forward(self); }

static double value_of(bt_problem *self)
{
    double value = NAN;
    EXPECT_OK(bt_eval(self, forwarded, NULL, BT_ARRAY(&value, 1)));
    return value;
}

static void begins(bt_problem *self)
{
    now.called++;
    now.memory++;
    bt_metric(self, "called", 1);
}

static const bt_problem_def meta = {
    .name = "meta", .get_batch = draw, .configure_module = rates, .training_step = distance};
static const bt_problem_def plain = {.name = "learner",
                                     .get_batch = draw,
                                     .configure_module = weight,
                                     .training_step = distance,
                                     .schedule = schedule,
                                     .on_inner_loop_start = begins};
static const bt_problem_def anew = {.name = "learner",
                                    .get_batch = draw,
                                    .configure_module = weight,
                                    .training_step = distance,
                                    .schedule = schedule,
                                    .start = three,
                                    .on_inner_loop_start = begins};
static const bt_export goes_on = {.abi = BT_ABI, .problems = {&meta, &plain}};
static const bt_export starts_anew = {.abi = BT_ABI, .problems = {&meta, &anew}};

static bt_engine *engine_of(const bt_export *parts, int unroll, const char *more)
{
    char lines[500];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\nmeta.lr = 0.001\n"
             "learner.type = itd\nlearner.unroll_steps = %d\nengine.train_iters = 100\n%s",
             unroll, more);
    return levels_engine(parts, NULL, lines);
}

static int place_of(int step) { return step < RATES ? step : RATES - 1; }

/* ---- training ---- */

/* d = w - 1 is multiplied by 1 - 2 rate in each step, and F = d^2. */
static void plain_loop(double *d, double *rate, int steps)
{
    double slope[RATES] = {0};
    for (int k = 0; k < steps; k++)
        *d *= 1 - 2 * rate[place_of(k)];
    for (int k = 0; k < steps; k++)
        slope[place_of(k)] += *d * *d * -4 / (1 - 2 * rate[place_of(k)]);
    for (int i = 0; i < RATES; i++)
        rate[i] -= 0.001 * slope[i];
}

START_TEST(rates_by_step)
{
    static const char *const more[] = {"", "learner.itd_spacing = 2\n", "learner.itd_spacing = 0\n",
                                       "learner.itd_states = 2\n"};
    const bt_export *parts = _i % 2 ? &starts_anew : &goes_on;
    int unroll = 2 + _i / 2;
    now.start = _i % 2;
    for (int m = 0; m < BT_COUNT_OF(more); m++) {
        double rate[RATES], d = 2, found[RATES], w;
        memcpy(rate, first_rates, sizeof rate);
        bt_engine *engine = engine_of(parts, unroll, more[m]);
        levels_step(engine, (int64_t)LOOPS * unroll);
        for (int loop = 0; loop < LOOPS; loop++) {
            d = now.start ? 2 : d;
            plain_loop(&d, rate, unroll);
        }
        levels_params(engine, "meta", found, RATES);
        levels_params(engine, "learner", &w, 1);
        ck_assert_double_eq_tol(w, 1 + d, 1e-12);
        for (int i = 0; i < RATES; i++)
            ck_assert_msg(fabs(found[i] - rate[i]) < 1e-12, "%d steps%s, rate %d: %.15g, due %.15g", unroll, more[m], i,
                          found[i], rate[i]);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- adapting ---- */

/* From 3, wherever training is within its own loop. */
START_TEST(adapted)
{
    static const double due[] = {3, 2.6, 1.96, 1.864, 1.7776, 1.69984};
    now.start = true;
    bt_engine *engine = engine_of(&starts_anew, 5, "");
    levels_step(engine, _i);
    bt_problem *learner = bt_engine_problem(engine, "learner");
    bt_batch *batch = bt_batch_new();
    EXPECT_OK(bt_batch_set(batch, "x", BT_ARRAY(((double[]){1}), 1)));
    uint64_t before = levels_state(engine);
    int called = now.called, kept = now.memory;
    for (int steps = 0; steps <= 5; steps++) {
        EXPECT_OK(bt_adapt(learner, batch, steps));
        double w;
        levels_params(engine, "learner", &w, 1);
        ck_assert_double_eq_tol(w, due[steps], 1e-12);
        ck_assert_int_eq(now.called, called + steps + 1);
        ck_assert_int_eq(now.memory, kept);
    }
    EXPECT_OK(bt_restore(learner));
    ck_assert(levels_state(engine) == before);
    for (int step = _i; step < 4; step++) /* the interrupted loop continues with its next rates */
        levels_step(engine, 1);
    double w;
    levels_params(engine, "learner", &w, 1);
    ck_assert_double_eq_tol(w, due[4], 1e-12);
    bt_batch_free(batch);
    bt_engine_free(engine);
}
END_TEST

/* Without `start`, a loop continues from the parameters and begins with the first rate. */
START_TEST(adapted_from_where_it_stands)
{
    now.start = false;
    bt_engine *engine = engine_of(&goes_on, 5, "");
    levels_step(engine, 2);
    bt_problem *learner = bt_engine_problem(engine, "learner");
    bt_batch *batch = bt_batch_new();
    double w;
    EXPECT_OK(bt_batch_set(batch, "x", BT_ARRAY(((double[]){1}), 1)));
    EXPECT_OK(bt_adapt(learner, batch, 2));
    EXPECT_OK(bt_adapt(learner, batch, 1));
    levels_params(engine, "learner", &w, 1);
    ck_assert_double_eq_tol(w, 1 + 2 * 0.8 * 0.6 * (0.8 * 0.6) * 0.8, 1e-12);
    EXPECT_OK(bt_restore(learner));
    levels_step(engine, 1);
    levels_params(engine, "learner", &w, 1);
    ck_assert_double_eq_tol(w, 1.864, 1e-12);
    bt_batch_free(batch);
    bt_engine_free(engine);
}
END_TEST

/* ---- a callback that adapts ---- */

static void adapts(bt_problem *self)
{
    bt_batch *batch = bt_batch_new();
    EXPECT_OK(bt_batch_set(batch, "x", BT_ARRAY(((double[]){1}), 1)));
    now.called++;
    EXPECT_OK(bt_adapt(self, batch, 3));
    ck_assert_double_eq_tol(value_of(self), 1.864, 1e-12);
    EXPECT_OK(bt_restore(self));
    bt_batch_free(batch);
}

static const bt_problem_def nested = {.name = "learner",
                                      .get_batch = draw,
                                      .configure_module = weight,
                                      .training_step = distance,
                                      .schedule = schedule,
                                      .start = three,
                                      .on_inner_loop_start = adapts};

START_TEST(a_loop_within_its_own_start)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&meta, &nested}};
    now.start = true;
    now.called = 0;
    bt_engine *engine = engine_of(&parts, 5, "");
    levels_step(engine, 4);
    double w;
    levels_params(engine, "learner", &w, 1);
    ck_assert_double_eq_tol(w, 1.7776, 1e-12);
    ck_assert_int_eq(now.called, 1);
    bt_engine_free(engine);
}
END_TEST

/* ---- products ---- */

/* C = w^2 / 2 - (1 + inner step) w l, F = w: with x = v = 1 the hypergradient is 1 + the last inner step. */
static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_forward(self), *l = bt_forward(bt_peer(self, "meta"));
    (void)batch;
    return bt_sub(bt_mul(0.5, bt_square(w)), bt_mul(bt_add(1, bt_inner_step(self)), bt_mul(w, l)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_forward(bt_peer(self, "learner"));
}

static const bt_problem_def upper = {
    .name = "meta", .get_batch = draw, .configure_module = one, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "learner", .get_batch = draw, .configure_module = one, .training_step = lower_step};

START_TEST(products_see_what_the_step_saw)
{
    static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
    static const char *const methods[] = {"darts", "neumann", "cg"};
    char more[64];
    snprintf(more, sizeof more, "learner.type = %s\nlearner.lr = 0.1\n", methods[_i]);
    bt_engine *engine = engine_of(&parts, 3, more);
    for (int step = 0; step < 8; step++) {
        double found;
        levels_step(engine, 1);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "meta"), BT_ARRAY(&found, 1)));
        ck_assert_double_eq_tol(found, 1 + step % 3, 1e-12);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- resuming ---- */

static bt_engine *make(void *user)
{
    (void)user;
    return engine_of(now.start ? &starts_anew : &goes_on, 5, "learner.itd_spacing = 2\n");
}

START_TEST(resumed)
{
    now.start = _i;
    levels_expect_resumes(make, NULL, 12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inner_step");
    TCase *tc = tcase_create("inner_step");
    tcase_add_loop_test(tc, rates_by_step, 0, 8);
    tcase_add_loop_test(tc, adapted, 0, 4);
    tcase_add_test(tc, adapted_from_where_it_stands);
    tcase_add_test(tc, a_loop_within_its_own_start);
    tcase_add_loop_test(tc, products_see_what_the_step_saw, 0, 3);
    TCase *again = tcase_create("resumed");
    tcase_add_checked_fixture(again, resumable_enter, resumable_leave);
    tcase_add_loop_test(again, resumed, 0, 2);
    suite_add_tcase(suite, tc);
    suite_add_tcase(suite, again);
    return run_suite(suite);
}

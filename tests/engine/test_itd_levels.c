/* tests/engine/test_itd_levels.c: unrolled hypergradients over more than two levels, against central differences of the
 * whole computation: for different orders of steps, and different paths of the dependence. */
#include "resumable.h"

#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 2 };

static double top[SIZE];

static bt_status count_up(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = 1 + 0.1 * (double)index;
    (void)self;
    (void)mode;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

static bt_module *top_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(top, SIZE)), SIZE);
}

static bt_module *module(bt_problem *self)
{
    static const double at[] = {0.4, -0.3};
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY((double *)(uintptr_t)at, SIZE)), SIZE);
}

static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

/* A curved loss of the level `self` under the level `above`. */
static bt_tensor *under(bt_problem *self, bt_tensor *above, const bt_batch *batch)
{
    bt_tensor *x = bt_forward(self), *number = bt_sum(bt_field(batch, "number"));
    bt_tensor *pull = bt_sum(bt_mul(bt_tanh(bt_mul(number, above)), bt_sin(x)));
    return bt_add(pull, bt_sum(bt_mul(bt_exp(above), bt_square(x))));
}

static bt_tensor *a_step(bt_problem *self, const bt_batch *batch) { return under(self, of(self, "top"), batch); }
static bt_tensor *b_step(bt_problem *self, const bt_batch *batch) { return under(self, of(self, "a"), batch); }
static bt_tensor *c_step(bt_problem *self, const bt_batch *batch) { return under(self, of(self, "b"), batch); }

static bt_tensor *b_of_two(bt_problem *self, const bt_batch *batch) /* reads a and top */
{
    return under(self, bt_mul(of(self, "a"), of(self, "top")), batch);
}

static bt_tensor *start_from_a(bt_problem *self) { return bt_sin(bt_params(bt_peer(self, "a"))); }

static bt_tensor *loss_of_b(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = of(self, "b");
    return bt_mul(bt_sum(bt_field(batch, "number")), bt_sum(bt_square(bt_sub(bt_tanh(x), 1))));
}

static bt_tensor *loss_of_a_and_b(bt_problem *self, const bt_batch *batch)
{
    return bt_add(loss_of_b(self, batch), bt_sum(bt_exp(of(self, "a"))));
}

static bt_tensor *loss_of_c(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_square(bt_sub(bt_tanh(of(self, "c")), 1)));
}

#define LEVEL(variable, level_name, level_module, step)                                                                \
    static const bt_problem_def variable = {                                                                           \
        .name = level_name, .configure_module = level_module, .get_batch = count_up, .training_step = step}
LEVEL(top_b, "top", top_module, loss_of_b);
LEVEL(top_ab, "top", top_module, loss_of_a_and_b);
LEVEL(top_c, "top", top_module, loss_of_c);
LEVEL(level_a, "a", module, a_step);
LEVEL(level_b, "b", module, b_step);
LEVEL(level_b2, "b", module, b_of_two);
LEVEL(level_c, "c", module, c_step);
static const bt_problem_def level_b_started = {
    .name = "b", .configure_module = module, .get_batch = count_up, .training_step = b_step, .start = start_from_a};

static const bt_problem_def level_b2_of_top = {
    .name = "b", .configure_module = module, .batch_of = "top", .training_step = b_of_two};

static const struct {
    const bt_problem_def *problems[4];
    const char *settings;
} cases[] = {
    /* a chain whose levels step in sequence: b, b, b, a, b, b, b, a, top */
    {{&top_b, &level_a, &level_b},
     "dependencies.u2l = top > a, a > b\ndependencies.l2u = b > a, a > top\na.unroll_steps = 2\nb.unroll_steps = 3\n"
     "engine.train_iters = 6\n"},
    /* in parallel: a, b, a, b, ..., top */
    {{&top_b, &level_a, &level_b},
     "dependencies.u2l = top > a, a > b\ndependencies.l2u = b > top, a > top\na.unroll_steps = 4\nb.unroll_steps = 4\n"
     "engine.train_iters = 4\n"},
    /* in parallel with inner loops of different lengths: top steps when both are ready */
    {{&top_b, &level_a, &level_b},
     "dependencies.u2l = top > a, a > b\ndependencies.l2u = b > top, a > top\na.unroll_steps = 2\nb.unroll_steps = 3\n"
     "engine.train_iters = 3\n"},
    /* a diamond: two paths from top to its loss */
    {{&top_ab, &level_a, &level_b},
     "dependencies.u2l = top > a, a > b\ndependencies.l2u = b > top, a > top\na.unroll_steps = 3\nb.unroll_steps = 3\n"
     "engine.train_iters = 3\n"},
    /* b reads a and top; a's loss does not read b, but a steps after it */
    {{&top_ab, &level_a, &level_b2},
     "dependencies.u2l = top > a, a > b, top > b\ndependencies.l2u = b > a, b > top, a > top\na.unroll_steps = 2\n"
     "b.unroll_steps = 2\nengine.train_iters = 4\n"},
    /* the same, but each of b's inner loops uses a batch that top has drawn */
    {{&top_ab, &level_a, &level_b2_of_top},
     "dependencies.u2l = top > a, a > b, top > b\ndependencies.l2u = b > a, b > top, a > top\na.unroll_steps = 2\n"
     "b.unroll_steps = 2\nengine.train_iters = 4\n"},
    /* each inner loop of b starts from a */
    {{&top_b, &level_a, &level_b_started},
     "dependencies.u2l = top > a, a > b\ndependencies.l2u = b > a, a > top\na.unroll_steps = 2\nb.unroll_steps = 3\n"
     "engine.train_iters = 6\n"},
    /* four levels */
    {{&top_c, &level_a, &level_b, &level_c},
     "dependencies.u2l = top > a, a > b, b > c\ndependencies.l2u = c > b, b > a, a > top\na.unroll_steps = 2\n"
     "b.unroll_steps = 2\nc.unroll_steps = 2\nc.type = itd\nc.lr = 0.1\nengine.train_iters = 8\n"},
};
enum { CASES = sizeof cases / sizeof *cases };

static const char *const optimizers[] = {
    "a.lr = 0.1\nb.lr = 0.2\n",
    "a.lr = 0.1\nb.lr = 0.2\na.momentum = 0.8\nb.momentum = 0.5\nb.nesterov = true\n",
    "a.optimizer = adam\na.lr = 0.05\na.eps = 0.1\nb.optimizer = adamw\nb.lr = 0.1\nb.eps = 0.1\n",
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static bt_engine *engine_of(int which, const char *settings)
{
    static bt_export parts;
    char lines[1200];
    parts = (bt_export){.abi = BT_ABI};
    memcpy(parts.problems, cases[which].problems, sizeof cases[which].problems);
    snprintf(lines, sizeof lines, "a.type = itd\nb.type = itd\ntop.lr = 1\nengine.valid_step = 0\n%s%s",
             cases[which].settings, settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    ck_assert_msg(engine != NULL, "%s: %s", lines, bt_error());
    return engine;
}

static double run(int which, const char *settings, double *after)
{
    bt_engine *engine = engine_of(which, settings);
    levels_run(engine);
    levels_params(engine, "top", after, SIZE);
    double loss = bt_engine_metric(engine, "top.loss");
    bt_engine_free(engine);
    return loss;
}

static void set_top(int moved, double by)
{
    top[0] = 0.5 + (moved == 0 ? by : 0);
    top[1] = -0.7 + (moved == 1 ? by : 0);
}

START_TEST(against_differences)
{
    const double step = 1e-5;
    static const char *const keys[] = {"spacing = 1", "spacing = 2", "states = 1"};
    for (int k = 0; k < 3; k++) {
        int which = _i / OPTIMIZERS;
        char settings[300];
        double found[SIZE], after[SIZE];
        snprintf(settings, sizeof settings, "%sa.itd_%s\nb.itd_%s\n", optimizers[_i % OPTIMIZERS], keys[k], keys[k]);
        set_top(-1, 0);
        run(which, settings, after);
        for (int i = 0; i < SIZE; i++)
            found[i] = top[i] - after[i];
        for (int i = 0; i < SIZE; i++) {
            set_top(i, step);
            double plus = run(which, settings, after);
            set_top(i, -step);
            double expected = (plus - run(which, settings, after)) / (2 * step);
            ck_assert_msg(fabs(found[i] - expected) < 1e-8 * (1 + fabs(expected)),
                          "case %d, %s: top[%d]: found %.12g, due %.12g", which, settings, i, found[i], expected);
            ck_assert_msg(fabs(expected) > 1e-7, "case %d: top[%d] does not matter: %g", which, i, expected);
        }
    }
}
END_TEST

/* ---- resumed after any step ---- */

static bt_engine *make(void *user)
{
    return engine_of(*(int *)user, "a.optimizer = adam\na.lr = 0.05\nb.lr = 0.2\nb.momentum = 0.5\na.itd_spacing = 2\n"
                                   "b.itd_spacing = 2\nb.itd_steps = 5\n");
}

static bt_engine *make_few(void *user)
{
    return engine_of(*(int *)user, "a.optimizer = adam\na.lr = 0.05\nb.lr = 0.2\nb.momentum = 0.5\na.itd_states = 1\n"
                                   "b.itd_states = 1\n");
}

START_TEST(resumed)
{
    int which = _i / 2;
    set_top(-1, 0);
    levels_expect_resumes(_i % 2 ? make_few : make, &which, 9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.itd_levels");
    TCase *tc = tcase_create("itd_levels");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, against_differences, 0, CASES * OPTIMIZERS);
    TCase *again = tcase_create("resumed");
    tcase_add_checked_fixture(again, resumable_enter, resumable_leave);
    tcase_add_loop_test(again, resumed, 0, 2 * CASES);
    suite_add_tcase(suite, tc);
    suite_add_tcase(suite, again);
    return run_suite(suite);
}

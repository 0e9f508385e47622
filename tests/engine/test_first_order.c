/* type = none: the lower solution counts as a constant, as in a first-order search (DARTS with xi = 0).
 *
 * Two levels: C = (w - b lambda)^2 / 2, F = (w - t)^2 lambda^2 / 2 + s lambda^2 / 2: the direct gradient is ((w - t)^2
 * + s) lambda. Three: C_w = a w^2 / 2 - b theta w, C_v = c v^2 / 2 - d w v, F = v^2 / 2 + w + s theta^2 / 2. */
#include "levels.h"

#include "engine/session/front.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double a = 2, b = 1.5, c = 4, d = 3, t = 0.7, start = 0.9;
static double s;

static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(start)); }

static bt_tensor *value(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(value(self, "lower"), bt_mul(b, value(self, "upper")))));
}

static bt_tensor *decay(bt_tensor *x) { return bt_mul(0.5 * s, bt_square(x)); }

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *lambda = value(self, "upper"), *away = bt_sub(value(self, "lower"), t);
    return bt_add(bt_mul(0.5, bt_square(bt_mul(away, lambda))), decay(lambda));
}

static bt_tensor *apart_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_square(bt_sub(value(self, "lower"), t)));
}

static bt_tensor *w_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = value(self, "w");
    return bt_sub(bt_mul(0.5 * a, bt_square(w)), bt_mul(b, bt_mul(value(self, "theta"), w)));
}

static bt_tensor *v_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *v = value(self, "v");
    return bt_sub(bt_mul(0.5 * c, bt_square(v)), bt_mul(d, bt_mul(value(self, "w"), v)));
}

static bt_tensor *theta_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *below = bt_add(bt_mul(0.5, bt_square(value(self, "v"))), value(self, "w"));
    return bt_add(below, decay(value(self, "theta")));
}

#define LEVEL(variable, called, step)                                                                                  \
    static const bt_problem_def variable = {                                                                           \
        .name = called, .configure_train_data = levels_one_row, .configure_module = number, .training_step = step}
LEVEL(lower, "lower", lower_step);
LEVEL(upper, "upper", upper_step);
LEVEL(apart, "upper", apart_step);
LEVEL(middle, "w", w_step);
LEVEL(bottom, "v", v_step);
LEVEL(top, "theta", theta_step);

static const bt_export pair = {.abi = BT_ABI, .problems = {&upper, &lower}},
                       separate = {.abi = BT_ABI, .problems = {&apart, &lower}},
                       chain = {.abi = BT_ABI, .problems = {&top, &middle, &bottom}};

#define LINKS "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = none\n"
#define CHAIN                                                                                                          \
    "dependencies.u2l = theta > w, w > v\ndependencies.l2u = v > w, w > theta, v > theta\nw.lr = 0.1\nv.lr = 0.1\n"

/* The same as two loops: the upper level steps after every three steps of the lower one, by its direct gradient. */
START_TEST(alternates)
{
    double w = start, lambda = start, found, gradient;
    s = 0.2;
    bt_engine *engine = levels_engine(
        &pair, NULL, LINKS "lower.unroll_steps = 3\nlower.lr = 0.3\nupper.lr = 0.4\nengine.train_iters = 9\n");
    levels_step(engine, 9);
    for (int step = 1; step <= 9; step++) {
        w -= 0.3 * (w - b * lambda);
        if (step % 3 == 0)
            lambda -= 0.4 * ((w - t) * (w - t) + s) * lambda;
    }
    levels_params(engine, "lower", &found, 1);
    ck_assert_double_eq_tol(found, w, 1e-12);
    levels_params(engine, "upper", &found, 1);
    ck_assert_double_eq_tol(found, lambda, 1e-12);
    ck_assert_int_eq(levels_steps(engine, "upper"), 3);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&gradient)));
    ck_assert_double_eq_tol(gradient, ((w - t) * (w - t) + s) * lambda, 1e-12);
    ck_assert_int_eq(bt_engine_problem(engine, "upper")->step->site.solve_count, 0); /* no product, no vector */
    bt_engine_free(engine);
}
END_TEST

/* The solution is a constant for all levels above: no path goes through it; other paths remain. */
START_TEST(three_levels)
{
    static const struct {
        const char *settings;
        int solves;
        double due; /* besides s theta */
    } cases[] = {
        {"w.type = darts\nv.type = darts\n", 2, -1}, /* below */
        {"w.type = darts\nv.type = none\n", 1, 1.5},
        {"w.type = none\nv.type = darts\n", 0, 0},
        {"w.type = none\nv.type = none\n", 0, 0},
    };
    double found, v;
    s = 0.2;
    bt_engine *engine = levels_engine(&chain, NULL, CHAIN "theta.lr = 0\n");
    bt_engine_free(engine);
    char lines[400];
    snprintf(lines, sizeof lines, CHAIN "theta.lr = 0\n%s", cases[_i].settings);
    engine = levels_engine(&chain, NULL, lines);
    levels_step(engine, 5);
    levels_params(engine, "v", &v, 1);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "theta"), BT_ARRAY(&found)));
    double through = _i == 0 ? b * (1 + d * v) : cases[_i].due; /* a_w = 1 + d v, times b */
    ck_assert_double_eq_tol(found, s * start + through, 1e-12);
    ck_assert_int_eq(bt_engine_problem(engine, "theta")->step->site.solve_count, cases[_i].solves);
    bt_engine_free(engine);
}
END_TEST

START_TEST(refused)
{
    s = 0.2;
    levels_expect_error(levels_engine(&separate, NULL, LINKS), "upper: its gradient is zero", "[lower] type = none",
                        "constant", "use another type", NULL);
    levels_expect_error(levels_engine(&separate, NULL, LINKS "lower.type = itd\nlower.itd_second_order = false\n"),
                        "upper: its gradient is zero", "[lower] itd_second_order = false", "as constants", NULL);
    levels_expect_error(levels_engine(&pair, NULL, "dependencies.u2l = upper > lower\n"),
                        "no solution reaches its loss", "l2u = LOWER > upper", "type = none", NULL);
    bt_engine *engine = levels_engine(&pair, NULL, LINKS);
    double x;
    levels_step(engine, 2);
    ck_assert_int_eq(bt_engine_read(engine, "upper:x.lower", BT_ARRAY(&x)), BT_ERROR_ARGUMENT);
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

static const struct {
    const char *settings, *said; /* NULL: no warning of a setting without effect */
} idle[] = {
    {"", NULL},
    {"lower.unroll_steps = 3\nlower.warmup_steps = 3\n", NULL},
    {"lower.product = vjp\n", "product = vjp has no effect: no problem above differentiates its solution"},
    {"lower.cg_iterations = 3\n", "cg_iterations = 3 has no effect: type is none"},
    {"upper.type = none\n", "[upper] type = none has no effect: no problem above differentiates"},
};
enum { IDLE = sizeof idle / sizeof *idle };

START_TEST(keys_that_do_nothing)
{
    char lines[400];
    s = 0.2;
    snprintf(lines, sizeof lines, LINKS "%s", idle[_i].settings);
    bt_engine *engine = levels_engine(&pair, NULL, lines);
    EXPECT_OK(bt_engine_setup(engine));
    const char *found = bt_text_get(&engine->context.warnings);
    ck_assert_msg(idle[_i].said ? strstr(found, idle[_i].said) != NULL : !strstr(found, "no effect"), "%s", found);
    bt_engine_free(engine);
}
END_TEST

/* The check lists the part that was left out, which is not an error; if nothing was, it says that the results agree. */
START_TEST(checked)
{
    char *text;
    size_t size;
    s = _i ? 1e9 : 0.2;
    FILE *file = open_memstream(&text, &size);
    bt_engine *engine = levels_engine(&pair, NULL, LINKS "lower.unroll_steps = 30\nlower.lr = 0.3\nupper.lr = 0\n");
    bt_status status = bt_engine_check_hypergradient(engine, &(bt_checking){.file = file});
    fclose(file);
    ck_assert_msg(status == BT_OK, "%s %s", bt_error(), text);
    ck_assert_msg(strstr(text, _i ? "agrees, in direction"
                                  : "agree; lower: type = none, its solution counts as a constant") != NULL,
                  "%s", text);
    ck_assert_msg(!strstr(text, "more unroll_steps"), "%s", text);
    free(text);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("first order");
    TCase *tests = tcase_create("first order");
    tcase_add_test(tests, alternates);
    tcase_add_loop_test(tests, three_levels, 0, 4);
    tcase_add_test(tests, refused);
    tcase_add_loop_test(tests, keys_that_do_nothing, 0, IDLE);
    tcase_add_loop_test(tests, checked, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

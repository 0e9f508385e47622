/* Detached values in the steps that itd differentiates: in the loss, in the callbacks of the update, in `start`.
 *
 * C = lambda sg(w^2 / 2) w^2 / 2, whose gradient is lambda w^3 / 2, and gradients that grad_callback makes of it with a
 * factor sg(1 + g^2); F = (w - 1)^2 / 2 after K steps. With detach = field the result is the derivative of the actual
 * steps, computed by a plain loop; with frozen, sg is a constant at every order, computed by another plain loop. */
#include "levels.h"

#include "engine/session/front.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 };
static const double rate = 0.1, start = 1.3, lambda = 0.7;

static bt_module *lower_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(start), 1); }
static bt_module *upper_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(lambda), 1); }

static bt_tensor *half_square(bt_problem *self) { return bt_mul(0.5, bt_square(bt_forward(bt_peer(self, "lower")))); }

static bt_tensor *detached_loss(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *half = half_square(self);
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), bt_mul(bt_detach(half), half)));
}

static bt_tensor *quartic(bt_problem *self, const bt_batch *batch) /* with the same gradient */
{
    (void)batch;
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), bt_mul(0.5, bt_square(half_square(self)))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(bt_forward(bt_peer(self, "lower")), 1))));
}

static bt_tensor *stretch(bt_problem *self, bt_tensor *gradient)
{
    return (void)self, bt_mul(gradient, bt_detach(bt_add(1, bt_square(gradient))));
}

static bt_tensor *from_lambda(bt_problem *self)
{
    bt_tensor *l = bt_forward(bt_peer(self, "upper"));
    return bt_add(bt_mul(2, l), bt_detach(l));
}

#define LOWER(variable, step, ...)                                                                                     \
    static const bt_problem_def variable = {.name = "lower",                                                           \
                                            .configure_train_data = levels_one_row,                                    \
                                            .configure_module = lower_module,                                          \
                                            .training_step = step,                                                     \
                                            __VA_ARGS__}
LOWER(in_loss, detached_loss, .start = NULL);
LOWER(in_callback, quartic, .grad_callback = stretch);
LOWER(in_both, detached_loss, .grad_callback = stretch);
LOWER(in_start, quartic, .start = from_lambda);
static const bt_problem_def upper = {.name = "upper",
                                     .configure_train_data = levels_one_row,
                                     .configure_module = upper_module,
                                     .training_step = upper_step};

static const struct {
    const bt_problem_def *lower;
    bool loss, callback, start; /* something is detached there */
    const char *named;
} cases[] = {
    {&in_loss, true, false, false, "lower's loss detaches values of "},
    {&in_callback, false, true, false, "lower's update (grad_callback) detaches values"},
    {&in_both, true, true, false, "lower's update (grad_callback) detaches values"},
    {&in_start, false, false, true, "lower's start detaches values of upper.value"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* dF/dlambda, forward along the steps. */
static double plain(int k, bool frozen)
{
    double w = cases[k].start ? 3 * lambda : start, dw = cases[k].start ? (frozen ? 2 : 3) : 0;
    for (int step = 0; step < STEPS; step++) {
        double g = 0.5 * lambda * w * w * w, dg = 0.5 * w * w * w;
        dg += (frozen && cases[k].loss ? 0.5 : 1.5) * lambda * w * w * dw;
        double scale = cases[k].callback ? 1 + g * g : 1, dscale = cases[k].callback && !frozen ? 2 * g * dg : 0;
        w -= rate * scale * g;
        dw -= rate * (scale * dg + dscale * g);
    }
    return (w - 1) * dw;
}

static bt_engine *engine_of(int k, const char *settings)
{
    char lines[500];
    bt_export parts = {.abi = BT_ABI, .problems = {&upper, cases[k].lower}};
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.lr = 0\nlower.lr = %g\n"
             "lower.type = itd\nlower.unroll_steps = %d\n%s",
             rate, STEPS + 1, settings);
    return levels_engine(&parts, NULL, lines);
}

START_TEST(against_plain_loops)
{
    static const char *const more[] = {"", "lower.itd_spacing = 2\n", "lower.gradient_accumulation = 2\n"};
    for (int frozen = 0; frozen < 2; frozen++)
        for (int m = 0; m < 3; m++) {
            char settings[200];
            double found;
            snprintf(settings, sizeof settings, "lower.detach = %s\n%s", frozen ? "frozen" : "field", more[m]);
            bt_engine *engine = engine_of(_i, settings);
            levels_step(engine, STEPS);
            EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
            ck_assert_double_eq_tol(found, plain(_i, frozen), 1e-12);
            bt_engine_free(engine);
        }
    ck_assert(fabs(plain(_i, true) - plain(_i, false)) > 1e-5);
}
END_TEST

START_TEST(named_by_the_check)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        char *text;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        bt_engine *engine = engine_of(_i, frozen ? "" : "lower.detach = field\n");
        bt_status status = bt_engine_check_hypergradient(engine, &(bt_checking){.file = file});
        fclose(file);
        ck_assert_msg(status == (frozen ? BT_ERROR_NUMERIC : BT_OK), "%s %s", bt_error(), text);
        ck_assert_msg(strstr(text, frozen ? "DISAGREES" : "agrees, in direction") != NULL, "%s", text);
        if (frozen)
            ck_assert_msg(strstr(text, cases[_i].named) && strstr(text, ": detach = field differentiates"), "%s", text);
        bt_error_clear();
        free(text);
        bt_engine_free(engine);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("detached steps");
    TCase *tests = tcase_create("detached steps");
    tcase_add_loop_test(tests, against_plain_loops, 0, CASES);
    tcase_add_loop_test(tests, named_by_the_check, 0, CASES);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

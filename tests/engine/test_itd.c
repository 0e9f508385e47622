/* tests/engine/test_itd.c: hypergradients through unrolled inner loops, with known values, in double precision. The
 * upper problem takes one step of SGD with lr = 1, so its parameters decrease by exactly the hypergradient. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/trajectory.h"
#include "engine/solve/unrolled_inside.h"
#include "engine/step/step.h"
#include "plan/revolve.h"
#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };
#define NEAR(found, expected) ck_assert_double_eq_tol((found), (expected), 1e-10)

typedef struct world {
    double w[MOST], lambda[MOST];
    int ws, lambdas;
    bt_module *(*module)(bt_problem *self); /* of the lower problem; NULL: a single w */
    bt_step_fn *lower, *upper;
    bt_tensor *(*start)(bt_problem *self);
    void (*schedule)(bt_problem *self, bt_rule *optimizer);
    bt_vector_fn *grad_callback, *param_callback;
} world;

static bt_tensor *w(bt_problem *self) { return bt_forward(bt_peer(self, "lower")); }
static bt_tensor *lambda(bt_problem *self) { return bt_forward(bt_peer(self, "upper")); }
static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

static bt_module *lower_module(bt_problem *self)
{
    const world *now = bt_user(self);
    return bt_nn_parameter(bt_init_array(BT_ARRAY((double *)(uintptr_t)now->w, now->ws)), now->ws);
}

static bt_module *upper_module(bt_problem *self)
{
    const world *now = bt_user(self);
    return bt_nn_parameter(bt_init_array(BT_ARRAY((double *)(uintptr_t)now->lambda, now->lambdas)), now->lambdas);
}

/* Numbers that grow from batch to batch: 1, 2, 3, ... */
static bt_status count_up(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = (double)index + 1;
    (void)self;
    (void)mode;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

typedef struct definitions {
    bt_problem_def upper, lower;
} definitions;

static bt_export define(definitions *d, const world *now)
{
    d->upper = (bt_problem_def){
        .name = "upper", .configure_module = upper_module, .get_batch = count_up, .training_step = now->upper};
    d->lower = (bt_problem_def){.name = "lower",
                                .configure_module = now->module ? now->module : lower_module,
                                .get_batch = count_up,
                                .training_step = now->lower,
                                .start = now->start,
                                .schedule = now->schedule,
                                .grad_callback = now->grad_callback,
                                .param_callback = now->param_callback};
    return (bt_export){.abi = BT_ABI, .problems = {&d->upper, &d->lower}};
}

/* Runs one inner loop and the upper step after it; returns the upper loss, and in after[] the upper parameters. */
static double run(const world *now, double *after, const char *settings)
{
    definitions d;
    bt_export parts = define(&d, now);
    char lines[1000];
    snprintf(lines, sizeof lines,
             "engine.precision = fp64\ndependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
             "upper.lr = 1\nengine.valid_step = 0\n%s",
             settings);
    bt_engine *engine = levels_engine(&parts, (world *)(uintptr_t)now, lines);
    ck_assert_msg(engine != NULL, "%s: %s", settings, bt_error());
    levels_run(engine);
    levels_params(engine, "upper", after, now->lambdas);
    double loss = bt_engine_metric(engine, "upper.loss");
    bt_engine_free(engine);
    return loss;
}

/* Checked in double precision; in single precision the result must agree to 1e-5. */
static void hypergradient(const world *now, const char *settings, double *result)
{
    double after[MOST], rounded[MOST];
    char single[900];
    run(now, after, settings);
    snprintf(single, sizeof single, "%sengine.precision = fp32\n", settings);
    if (!strstr(settings, "finite"))
        run(now, rounded, single);
    for (int i = 0; i < now->lambdas; i++) {
        result[i] = now->lambda[i] - after[i];
        if (!strstr(settings, "finite"))
            ck_assert_msg(fabs(rounded[i] - after[i]) <= 1e-5 * fmax(1, fabs(result[i])), "%s: %.9g, not %.9g", single,
                          now->lambda[i] - rounded[i], result[i]);
    }
}

/* Compares with central differences of the whole computation. */
static void check_differences(const world *now, const char *settings)
{
    double found[MOST], after[MOST];
    hypergradient(now, settings, found);
    for (int i = 0; i < now->lambdas; i++) {
        const double step = 1e-5;
        world plus = *now, minus = *now;
        plus.lambda[i] += step;
        minus.lambda[i] -= step;
        double expected = (run(&plus, after, settings) - run(&minus, after, settings)) / (2 * step);
        ck_assert_msg(fabs(found[i] - expected) < 1e-8 * (1 + fabs(expected)), "%s: lambda[%d]: found %.12g, due %.12g",
                      settings, i, found[i], expected);
        ck_assert_msg(fabs(expected) > 1e-6, "%s: lambda[%d] does not matter", settings, i);
    }
}

/* ---- R2: C = a w^2 / 2 - b lambda w, F = (w - t)^2 / 2; a = 2, b = 3, t = 1, lambda = 1, w0 = 0, lr = 0.1 ---- */

static bt_tensor *r2_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sub(dot(w(self), w(self)), bt_mul(3, dot(lambda(self), w(self))));
}

static bt_tensor *r2_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(w(self), 1))));
}

static const world r2 = {.lambda = {1}, .ws = 1, .lambdas = 1, .lower = r2_lower, .upper = r2_upper};

START_TEST(r2_unrolled)
{
    static const struct {
        int steps, last;
        double expected;
    } cases[] = {{1, 0, -0.21},    {2, 0, -0.2484},   {5, 0, 0.0085519104}, {10, 0, 0.453818186653654},
                 {5, 1, 0.002544}, {5, 2, 0.0045792}, {5, 3, 0.00620736},   {5, 7, 0.0085519104}};
    static const char *const products[] = {"jvp", "vjp", "finite"};
    for (int p = 0; p < 3; p++) {
        char settings[300];
        double found;
        snprintf(settings, sizeof settings,
                 "lower.type = itd\nlower.lr = 0.1\nlower.product = %s\nlower.unroll_steps = %d\n"
                 "engine.train_iters = %d\nlower.itd_steps = %d\n",
                 products[p], cases[_i].steps, cases[_i].steps, cases[_i].last);
        hypergradient(&r2, settings, &found);
        NEAR(found, cases[_i].expected);
    }
}
END_TEST

/* Steps between kept states are recomputed: the same result, bit for bit. */
START_TEST(spacing_changes_nothing)
{
    static const char *const optimizers[] = {"sgd", "sgd\nlower.momentum = 0.9", "adam"};
    for (int o = 0; o < 3; o++)
        for (int last = 0; last < 11; last += 5) {
            double all = 0;
            for (int spacing = 1; spacing < 13; spacing++) {
                char settings[400];
                double found;
                snprintf(settings, sizeof settings,
                         "lower.type = itd\nlower.lr = 0.1\nlower.optimizer = %s\nlower.unroll_steps = 10\n"
                         "engine.train_iters = 10\nlower.itd_steps = %d\nlower.itd_spacing = %d\n",
                         optimizers[o], last, spacing == 12 ? 0 : spacing);
                hypergradient(&r2, settings, &found);
                all = spacing == 1 ? found : all;
                ck_assert_msg(found == all, "%s: found %.17g, due %.17g", settings, found, all);
            }
        }
}
END_TEST

/* Revolve's schedule: the same bits, with the requested number of states plus two in use, and at most as many repeated
 * steps as the closed form says. */
START_TEST(states_change_nothing)
{
    static const char *const optimizers[] = {"sgd", "sgd\nlower.momentum = 0.9", "adam"};
    for (int last = 0; last < 11; last += 5) {
        double all = 0;
        for (int states = 0; states <= 10; states++) {
            char settings[400], more[40] = "";
            double found;
            if (states)
                snprintf(more, sizeof more, "lower.itd_states = %d\n", states);
            snprintf(settings, sizeof settings,
                     "lower.type = itd\nlower.lr = 0.1\nlower.optimizer = %s\nlower.unroll_steps = 10\n"
                     "engine.train_iters = 10\nlower.itd_steps = %d\n%s",
                     optimizers[_i], last, more);
            hypergradient(&r2, settings, &found);
            all = states ? all : found;
            ck_assert_msg(found == all, "%s: found %.17g, due %.17g", settings, found, all);
        }
    }
}
END_TEST

START_TEST(as_many_states_as_were_asked_for)
{
    enum { STEPS = 12 };
    definitions d;
    bt_export parts = define(&d, &r2);
    double work[STEPS + 1] = {0}, step = 0;
    for (int states = 1; states <= STEPS; states++) {
        char lines[400];
        snprintf(lines, sizeof lines,
                 "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\n"
                 "lower.lr = 0.1\nlower.momentum = 0.9\nlower.unroll_steps = %d\nlower.itd_states = %d\n",
                 STEPS, states);
        bt_engine *engine = levels_engine(&parts, (world *)(uintptr_t)&r2, lines);
        levels_step(engine, 2 * STEPS - 1);
        double before = engine->context.instance->work;
        levels_step(engine, 1); /* and all the way back */
        work[states] = engine->context.instance->work - before;
        const bt_trajectory *t = bt_engine_problem(engine, "lower")->trajectory;
        const bt_step_phase *back = bt_engine_problem(engine, "upper")->step;
        const bt_unrolled *state = back->site.solves[0].state;
        step = states < STEPS ? back->phase->entries[state->replay[0]].program->work : step;
        int own = 0;
        for (int64_t i = 0; i < t->track_count; own += t->tracks[i++].own)
            ck_assert(!t->tracks[i].own || t->tracks[i].store->dims[0] == (states < STEPS ? states + 2 : STEPS));
        ck_assert_int_ge(own, 2);
        bt_engine_free(engine);
    }
    for (int states = 1; states < STEPS; states++) {
        double made = (work[states] - work[STEPS]) / step;
        ck_assert_msg(made <= (double)bt_revolve_again(STEPS, states), "%d states: %g steps", states, made);
        ck_assert(states == STEPS - 1 || made > 0);
    }
}
END_TEST

START_TEST(states_that_cannot_be)
{
    static const char *const cases[][3] = {
        {"lower.itd_states = 6\n", "itd_states = 6", "has only 5 steps"},
        {"lower.itd_states = 2\nlower.itd_spacing = 2\n", "itd_states", "itd_spacing"}};
    definitions d;
    bt_export parts = define(&d, &r2);
    char lines[400];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\n"
             "lower.unroll_steps = 5\n%s",
             cases[_i][0]);
    bt_engine *engine = bt_engine_new();
    levels_fill(engine, &parts, (world *)(uintptr_t)&r2, lines);
    levels_expect_error(engine, cases[_i][1], cases[_i][2], NULL);
}
END_TEST

/* A new program in the middle of a loop cuts off the steps before it, whichever states are kept. */
static int64_t stage(bt_problem *self) { return bt_host_step(self) >= 4; }

static bt_tensor *staged(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(1 + 0.5 * (double)bt_static_int(self, "stage", stage), r2_lower(self, batch));
}

START_TEST(a_cut_in_mid_loop)
{
    world now = r2;
    double all = 0;
    now.lower = staged;
    for (int spacing = 1; spacing < 10; spacing++) {
        char settings[200];
        double found;
        snprintf(settings, sizeof settings,
                 "lower.type = itd\nlower.lr = 0.1\nlower.unroll_steps = 9\nengine.train_iters = 9\n"
                 "lower.itd_spacing = %d\n",
                 spacing);
        hypergradient(&now, settings, &found);
        all = spacing == 1 ? found : all;
        ck_assert_msg(found == all && fabs(found) > 0.01, "%s: found %.17g, due %.17g", settings, found, all);
    }
}
END_TEST

/* ---- R9: MAML; grad L = (18 u + 16 v, 16 u + 18 v), from (0.1, 0.2), lr = 1e-3, two steps ---- */

static bt_tensor *r9_loss(bt_tensor *p)
{
    static const double h[] = {18, 16, 16, 18};
    return bt_mul(0.5, dot(p, bt_matmul(bt_constant(BT_ARRAY(h, 2, 2)), p)));
}

static bt_tensor *r9_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return r9_loss(w(self));
}

static bt_tensor *start_from_upper(bt_problem *self) { return bt_params(bt_peer(self, "upper")); }

static const world r9 = {.w = {7, 7},
                         .lambda = {0.1, 0.2},
                         .ws = 2,
                         .lambdas = 2,
                         .lower = r9_step,
                         .upper = r9_step,
                         .start = start_from_upper};

START_TEST(r9_maml)
{
    static const char settings[] =
        "lower.type = itd\nlower.lr = 1e-3\nlower.unroll_steps = 2\nengine.train_iters = 2\n";
    char first_order[200];
    double found[2];
    hypergradient(&r9, settings, found);
    NEAR(found[0], 4.341776216912);
    NEAR(found[1], 4.5401810105152);
    snprintf(first_order, sizeof first_order, "%slower.itd_second_order = 0\n", settings);
    hypergradient(&r9, first_order, found);
    NEAR(found[0], 4.6594952);
    NEAR(found[1], 4.858696);
}
END_TEST

/* ---- R12: w_K = (1 - lr a)^K w0, F = w_K^2 / 2, a = 2; the upper level learns the learning rate and the start ---- */

static bt_tensor *half_square(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0.5, dot(w(self), w(self)));
}

static bt_tensor *r12_lower(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return dot(w(self), w(self));
}

static void learned_lr(bt_problem *self, bt_rule *optimizer) { bt_hyper_set(optimizer, "lr", lambda(self)); }

START_TEST(r12_learning_rate)
{
    static const struct {
        int steps;
        double expected;
    } cases[] = {{1, -1.6}, {3, -1.96608}};
    const world now = {.w = {1},
                       .lambda = {0.1},
                       .ws = 1,
                       .lambdas = 1,
                       .lower = r12_lower,
                       .upper = half_square,
                       .schedule = learned_lr};
    char settings[200];
    double found;
    snprintf(settings, sizeof settings, "lower.type = itd\nlower.unroll_steps = %d\nengine.train_iters = %d\n",
             cases[_i].steps, cases[_i].steps);
    hypergradient(&now, settings, &found);
    NEAR(found, cases[_i].expected);
}
END_TEST

START_TEST(r12_start)
{
    const world now = {.w = {5},
                       .lambda = {1.5},
                       .ws = 1,
                       .lambdas = 1,
                       .lower = r12_lower,
                       .upper = half_square,
                       .start = start_from_upper};
    double found;
    hypergradient(&now, "lower.type = itd\nlower.lr = 0.1\nlower.unroll_steps = 3\nengine.train_iters = 3\n", &found);
    NEAR(found, pow(0.8, 6) * 1.5);
    /* cut off before it reaches the start */
    hypergradient(&now,
                  "lower.type = itd\nlower.lr = 0.1\nlower.unroll_steps = 3\nengine.train_iters = 3\n"
                  "lower.itd_steps = 2\nupper.allow_unused = true\n",
                  &found);
    ck_assert_double_eq(found, 0);
}
END_TEST

/* ---- R15: momentum as in PyTorch; a = 1, w0 = 1, lr = 0.1, momentum = 0.9, two steps, F = w ---- */

static bt_tensor *value(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(w(self));
}

static void learned_lr_and_momentum(bt_problem *self, bt_rule *optimizer)
{
    bt_hyper_set(optimizer, "lr", bt_at(lambda(self), 0));
    bt_hyper_set(optimizer, "momentum", bt_at(lambda(self), 1));
}

START_TEST(r15_momentum)
{
    const world now = {.w = {1},
                       .lambda = {0.1, 0.9},
                       .ws = 1,
                       .lambdas = 2,
                       .lower = half_square,
                       .upper = value,
                       .schedule = learned_lr_and_momentum};
    double found[2], after[2];
    static const char settings[] =
        "lower.type = itd\nlower.momentum = 0.5\nlower.unroll_steps = 2\nengine.train_iters = 2\n";
    NEAR(run(&now, after, settings), 0.72);
    hypergradient(&now, settings, found);
    NEAR(found[0], -2.7);
    NEAR(found[1], -0.1);
}
END_TEST

/* ---- R13: Adam where the gradient is 0, or nearly; C = lambda w, F = sum of w, one step from w = 0: the update is
 * lr g / (|g| + eps), of slope lr eps / (|g| + eps)^2, which is 1e5 at 0 ---- */

static bt_tensor *line(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return dot(lambda(self), w(self));
}

START_TEST(r13_adam_at_zero)
{
    static const double slopes[] = {1e5, 2.5e4, 9.99800029996e-4, 1e5};
    static const char *const settings[] = {"lower.optimizer = adam\n", "lower.optimizer = adamw\n",
                                           "lower.optimizer = adam\nlower.product = vjp\n",
                                           "lower.optimizer = adam\nlower.itd_spacing = 0\n"};
    const world now = {
        .w = {0, 0, 0, 1}, .lambda = {0, 1e-8, 1e-4, 0}, .ws = 4, .lambdas = 4, .lower = line, .upper = value};
    char lines[300];
    double found[4];
    snprintf(lines, sizeof lines,
             "lower.type = itd\nlower.lr = 1e-3\nlower.weight_decay = 0\nengine.train_iters = 1\n%s", settings[_i]);
    hypergradient(&now, lines, found);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs(-found[i] / slopes[i] - 1) < 1e-9, "%s: lambda[%d]: %.12g, expected %.12g", lines, i,
                      found[i], -slopes[i]);
}
END_TEST

/* Over several steps, an element whose gradient stays 0 has slots of 0, too: there m / (sqrt(v) + eps) is m / eps to
 * first order. */
static bt_tensor *curved_at_zero(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(dot(lambda(self), bt_sin(w(self))), bt_mul(0.5, dot(w(self), w(self))));
}

START_TEST(adam_stays_at_zero)
{
    static const double eps[] = {1, 1e-3, 1e-7}; /* five steps at 1e-8 would give 1e23, too much for single precision */
    const world now = {
        .w = {0, 0.3}, .lambda = {0, 0.2}, .ws = 2, .lambdas = 2, .lower = curved_at_zero, .upper = value};
    double found[2], slope = 0, mean = 0;
    char lines[300];
    for (int t = 1; t <= 5; t++) { /* of the gradient: 1 + slope */
        mean = 0.9 * mean + 0.1 * (1 + slope);
        slope -= 1e-3 / eps[_i] * mean / (1 - pow(0.9, t));
    }
    snprintf(lines, sizeof lines,
             "lower.type = itd\nlower.lr = 1e-3\nlower.optimizer = adam\nlower.eps = %g\nlower.unroll_steps = 5\n"
             "engine.train_iters = 5\n",
             eps[_i]);
    hypergradient(&now, lines, found);
    ck_assert_msg(fabs(found[0] / slope - 1) < 1e-9, "%s: found %.12g, expected %.12g", lines, found[0], slope);
    ck_assert(isfinite(found[1]));
}
END_TEST

/* ---- complete updates, against finite differences: batches, optimisers, clipping, decay, callbacks ---- */

static bt_tensor *curved(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_slice(lambda(self), 0, 0, 2)), *number = bt_sum(bt_field(batch, "number"));
    bt_tensor *bent = bt_sum(bt_tanh(bt_mul(bt_add(w(self), bt_mul(0.1, number)), w(self))));
    return bt_add(bent, bt_mul(0.5, bt_sum(bt_mul(strength, bt_square(w(self))))));
}

static bt_tensor *curved_upper(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *number = bt_sum(bt_field(batch, "number"));
    return bt_add(bt_sum(bt_square(bt_sub(w(self), number))), bt_mul(0.1, dot(lambda(self), lambda(self))));
}

static void third_is_lr(bt_problem *self, bt_rule *optimizer)
{
    bt_hyper_set(optimizer, "lr", bt_exp(bt_at(lambda(self), 2)));
    bt_hyper_set(optimizer, "weight_decay", bt_square(bt_at(lambda(self), 2)));
}

static bt_tensor *bend_gradient(bt_problem *self, bt_tensor *gradient)
{
    return bt_mul(bt_add(1, bt_square(bt_at(lambda(self), 2))), bt_tanh(gradient));
}

static bt_tensor *shrink(bt_problem *self, bt_tensor *params)
{
    return bt_mul(params, bt_sub(1, bt_mul(0.01, bt_square(bt_at(lambda(self), 2)))));
}

static bt_tensor *start_bent(bt_problem *self) { return bt_sin(bt_slice(lambda(self), 0, 1, 3)); }

static const char *const optimizers[] = {
    "lower.optimizer = sgd\n",
    "lower.optimizer = sgd\nlower.momentum = 0.9\n",
    "lower.optimizer = sgd\nlower.momentum = 0.9\nlower.nesterov = true\nlower.dampening = 0\n",
    "lower.optimizer = adam\n",
    "lower.optimizer = adamw\n",
    "lower.optimizer = adam\nlower.amsgrad = true\n",
    "lower.optimizer = rmsprop\nlower.momentum = 0.5\nlower.centered = true\nlower.alpha = 0.8\n",
    "lower.optimizer = adagrad\nlower.initial_accumulator_value = 0.1\n",
    "lower.optimizer = radam\nlower.beta2 = 0.8\n",
    "lower.optimizer = nadam\n",
    "lower.optimizer = adafactor\nlower.relative_step = false\nlower.lr = 0.01\n",
    "lower.optimizer = lamb\n",
};

static const char *const extras[] = {
    "",
    "lower.gradient_clipping = 0.5\n",
    "lower.gradient_clipping_value = 0.3\nlower.scheduler = cosine\nlower.scheduler_t_max = 9\n",
    "lower.gradient_accumulation = 3\n",
    "lower.itd_spacing = 0\nlower.product = vjp\n",
};

START_TEST(whole_updates)
{
    int variant = _i % 4, optimizer = _i / 4;
    world now = {.w = {0.3, -0.4},
                 .lambda = {0.2, -0.5, -2.5},
                 .ws = 2,
                 .lambdas = 3,
                 .lower = curved,
                 .upper = curved_upper,
                 .schedule = third_is_lr};
    now.grad_callback = variant == 1 ? bend_gradient : NULL;
    now.param_callback = variant == 2 ? shrink : NULL;
    now.start = variant == 3 ? start_bent : NULL;
    for (int e = 0; e < (int)(sizeof extras / sizeof *extras); e++) {
        char settings[500];
        snprintf(settings, sizeof settings, "lower.type = itd\nlower.unroll_steps = 6\nengine.train_iters = 6\n%s%s",
                 optimizers[optimizer], extras[e]);
        check_differences(&now, settings);
    }
}
END_TEST

/* ---- a buffer that every micro-batch updates, and that the next one reads ---- */

static bt_module *with_buffer(bt_problem *self)
{
    const world *now = bt_user(self);
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "w", bt_init_array(BT_ARRAY((double *)(uintptr_t)now->w, now->ws)), now->ws);
    bt_module_add_buffer(module, "seen", bt_init_constant(0.5), 1);
    return module;
}

static bt_tensor *moving(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *seen = bt_param(self, "seen"), *v = bt_param(self, "w");
    bt_tensor *next = bt_add(bt_mul(0.8, seen), bt_mul(0.1, bt_reshape(bt_field(batch, "number"), 1)));
    bt_param_set(self, "seen", next);
    return bt_mean(bt_mul(bt_exp(bt_mul(0.3, seen)), bt_square(bt_sub(v, bt_mul(lambda(self), next)))));
}

static bt_tensor *moving_upper(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_square(bt_param(bt_peer(self, "lower"), "w")));
}

START_TEST(buffers_over_micro_batches)
{
    static const char *const cases[] = {"", "lower.gradient_accumulation = 3\n",
                                        "lower.gradient_accumulation = 3\nlower.itd_spacing = 3\n"};
    world now = {.w = {0.3, -0.4},
                 .lambda = {0.2, -0.5},
                 .ws = 2,
                 .lambdas = 2,
                 .module = with_buffer,
                 .lower = moving,
                 .upper = moving_upper};
    char settings[300];
    snprintf(settings, sizeof settings, "lower.type = itd\nlower.unroll_steps = 6\nengine.train_iters = 6\n%s",
             cases[_i]);
    check_differences(&now, settings);
}
END_TEST

/* ---- C = w^2 / 2 + b w, where the third batch has b = infinity: that update is skipped; w_0 = lambda ---- */

static bt_tensor *broken_once(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *b = bt_div(1, bt_square(bt_sub(bt_field(batch, "number"), 3)));
    return bt_add(bt_mul(0.5, dot(w(self), w(self))), dot(b, w(self)));
}

START_TEST(a_step_that_was_left_out)
{
    static const char *const cases[] = {"", "lower.itd_spacing = 2\n", "lower.itd_spacing = 5\n",
                                        "lower.product = vjp\n"};
    const world now = {
        .lambda = {0.7}, .ws = 1, .lambdas = 1, .lower = broken_once, .upper = r2_upper, .start = lambda};
    double place = 0.7, found[MOST];
    for (int k = 1; k <= 5; k++)
        place -= k == 3 ? 0 : 0.1 * (place + 1 / ((k - 3.0) * (k - 3)));
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        char settings[300];
        snprintf(settings, sizeof settings,
                 "lower.type = itd\nlower.unroll_steps = 5\nengine.train_iters = 5\nlower.lr = 0.1\n%s", cases[i]);
        hypergradient(&now, settings, found);
        NEAR(found[0], (place - 1) * pow(0.9, 4));
    }
}
END_TEST

/* ---- messages ---- */

static void expect_equation(const world *now, const char *settings, const char *part)
{
    definitions d;
    bt_export parts = define(&d, now);
    char lines[300], *text = NULL;
    size_t size;
    snprintf(lines, sizeof lines, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s", settings);
    bt_engine *engine = levels_engine(&parts, (world *)(uintptr_t)now, lines);
    FILE *file = open_memstream(&text, &size);
    EXPECT_OK(bt_engine_print(engine, BT_EQUATION, file));
    fclose(file);
    ck_assert_msg(strstr(text, part) != NULL, "%s", text);
    free(text);
    bt_engine_free(engine);
}

START_TEST(the_equation_says_how_far)
{
    expect_equation(&r9, "lower.type = itd\n",
                    "x_lower = itd(a_lower): back through its steps since the upper problem's last, and through start, "
                    "product jvp, detach frozen; a_lower = dC_upper/d(lower)\n");
    expect_equation(&r9, "lower.type = itd\nlower.itd_steps = 3\nlower.itd_second_order = 0\n",
                    "back through the last 3 of its steps since the upper problem's last, and through start, product "
                    "left out (second_order = 0), detach frozen");
    expect_equation(&r2, "lower.type = itd\n", "its steps since the upper problem's last, product jvp");
}
END_TEST

/* ---- one parameter is frozen at its initial value: steps use a gradient of 0 for it, also before grad_callback
 * ---- */

static bt_module *moving_and_frozen(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "moving", bt_init_constant(0));
    bt_module_add_param(module, "frozen", bt_init_constant(0));
    return module;
}

static bt_tensor *frozen_lower(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *moving = bt_param(self, "moving"), *frozen = bt_param(self, "frozen");
    (void)batch;
    return bt_add(bt_sin(bt_mul(moving, frozen)), bt_square(bt_sub(moving, bt_at(lambda(self), 0))));
}

static bt_tensor *frozen_upper(bt_problem *self, const bt_batch *batch)
{
    bt_problem *lower = bt_peer(self, "lower");
    (void)batch;
    return bt_mul(bt_param(lower, "moving"), bt_exp(bt_param(lower, "frozen")));
}

static bt_tensor *mix_gradients(bt_problem *self, bt_tensor *gradient)
{
    (void)self;
    return bt_add(gradient, bt_mul(0.5, bt_sum(gradient)));
}

START_TEST(frozen_at_the_start)
{
    world now = {.lambda = {0.4, -0.7},
                 .lambdas = 2,
                 .module = moving_and_frozen,
                 .start = start_from_upper,
                 .lower = frozen_lower,
                 .upper = frozen_upper};
    now.grad_callback = _i ? mix_gradients : NULL;
    check_differences(&now, "lower.type = itd\nlower.lr = 0.1\nlower.unroll_steps = 3\nengine.train_iters = 3\n"
                            "lower.trainable = moving\n");
}
END_TEST

/* ---- refused ---- */

START_TEST(implicit_methods_refuse_what_they_cannot_see)
{
    const world now = {.w = {1},
                       .lambda = {0.1},
                       .ws = 1,
                       .lambdas = 1,
                       .lower = r12_lower,
                       .upper = half_square,
                       .schedule = learned_lr};
    definitions d;
    bt_export parts = define(&d, &now);
    static const char *const types[] = {"darts", "neumann", "cg"};
    for (int i = 0; i < 3; i++) {
        bt_engine *engine = bt_engine_new();
        bt_engine_use(engine, &parts, (world *)(uintptr_t)&now);
        bt_engine_set(engine, "dependencies.u2l", "upper > lower");
        bt_engine_set(engine, "dependencies.l2u", "lower > upper");
        bt_engine_set(engine, "lower.type", "%s", types[i]);
        ck_assert_int_eq(bt_engine_run(engine), BT_ERROR_CONFIG);
        ck_assert_ptr_nonnull(strstr(bt_error(), "[lower]"));
        ck_assert_ptr_nonnull(strstr(bt_error(), "itd"));
        bt_error_clear();
        bt_engine_free(engine);
    }
}
END_TEST

START_TEST(more_steps_than_anybody_keeps)
{
    definitions d;
    bt_export parts = define(&d, &r2);
    static const char lines[] = "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                                "lower.type = itd\nlower.unroll_steps = 1000000000000000\n";
    levels_expect_error(levels_engine(&parts, (world *)(uintptr_t)&r2, lines), "[lower]", "itd_steps", NULL);
    char few[300];
    snprintf(few, sizeof few, "%slower.itd_steps = 5\n", lines);
    bt_engine *engine = levels_engine(&parts, (world *)(uintptr_t)&r2, few);
    levels_step(engine, 7);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.itd");
    TCase *tc = tcase_create("itd");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, r2_unrolled, 0, 8);
    tcase_add_test(tc, spacing_changes_nothing);
    tcase_add_loop_test(tc, states_change_nothing, 0, 3);
    tcase_add_test(tc, as_many_states_as_were_asked_for);
    tcase_add_loop_test(tc, states_that_cannot_be, 0, 2);
    tcase_add_test(tc, a_cut_in_mid_loop);
    tcase_add_test(tc, r9_maml);
    tcase_add_loop_test(tc, r12_learning_rate, 0, 2);
    tcase_add_test(tc, r12_start);
    tcase_add_test(tc, r15_momentum);
    tcase_add_loop_test(tc, r13_adam_at_zero, 0, 4);
    tcase_add_loop_test(tc, adam_stays_at_zero, 0, 3);
    tcase_add_loop_test(tc, buffers_over_micro_batches, 0, 3);
    tcase_add_loop_test(tc, whole_updates, 0, 4 * (int)(sizeof optimizers / sizeof *optimizers));
    tcase_add_test(tc, a_step_that_was_left_out);
    tcase_add_test(tc, the_equation_says_how_far);
    tcase_add_test(tc, more_steps_than_anybody_keeps);
    tcase_add_loop_test(tc, frozen_at_the_start, 0, 2);
    tcase_add_test(tc, implicit_methods_refuse_what_they_cannot_see);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}

/* tests/engine/test_updates.c: from a gradient to new parameters: callbacks, groups, frozen parameters, clipping. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Parameters a [2], b [1], c.d [2]; the loss is linear, so the gradient is (1, 2, 3, 4, 5), or `gradient`. */
enum { COUNT = 5 };

static double gradient[COUNT];
static const double start[COUNT] = {0.5, -1, 2, 0.25, -3};
static bool unused_b;

static bt_dataset *one_row(bt_problem *self)
{
    double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_module *three(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL), *child = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_array(BT_ARRAY(start, 2)), 2);
    bt_module_add_param(module, "b", bt_init_array(BT_ARRAY(start + 2, 1)), 1);
    bt_module_add_param(child, "d", bt_init_array(BT_ARRAY(start + 3, 2)), 2);
    bt_module_add(module, child, "c");
    return module;
}

static bt_tensor *linear_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *a = bt_sum(bt_mul(bt_param(self, "a"), bt_constant(BT_ARRAY(gradient, 2))));
    bt_tensor *b = bt_sum(bt_mul(bt_param(self, "b"), gradient[2]));
    bt_tensor *d = bt_sum(bt_mul(bt_param(self, "c.d"), bt_constant(BT_ARRAY(gradient + 3, 2))));
    return bt_add(unused_b ? a : bt_add(a, b), d);
}

/* A different factor for every element, in order of declaration. */
static bt_tensor *weigh(bt_problem *self, bt_tensor *vector)
{
    static const double factors[] = {10, 20, 30, 40, 50};
    (void)self;
    return bt_mul(vector, bt_constant(BT_ARRAY(factors, COUNT)));
}

static bt_tensor *limit(bt_problem *self, bt_tensor *vector)
{
    static const double low[] = {-1, -2, -3, -4, -5}, high[] = {1, 2, 1, 0, 1};
    (void)self;
    return bt_maximum(bt_constant(BT_ARRAY(low, COUNT)), bt_minimum(vector, bt_constant(BT_ARRAY(high, COUNT))));
}

static bt_tensor *too_short(bt_problem *self, bt_tensor *vector)
{
    (void)self;
    return bt_slice(vector, 0, 0, 3);
}

static bt_tensor *nothing(bt_problem *self, bt_tensor *vector)
{
    (void)self, (void)vector;
    return NULL;
}

static bt_tensor *same(bt_problem *self, bt_tensor *vector)
{
    (void)self;
    return bt_mul(vector, 1);
}

#define MODEL(...)                                                                                                     \
    {                                                                                                                  \
        .name = "model", .configure_train_data = one_row, .configure_module = three, .training_step = linear_step,     \
        __VA_ARGS__                                                                                                    \
    }
static const bt_problem_def plain = MODEL(.epoch_callback = NULL), weighed = MODEL(.grad_callback = weigh),
                            limited = MODEL(.param_callback = limit), kept = MODEL(.param_callback = same),
                            passed = MODEL(.grad_callback = same),
                            both = MODEL(.grad_callback = weigh, .param_callback = limit),
                            short_grad = MODEL(.grad_callback = too_short), no_grad = MODEL(.grad_callback = nothing),
                            no_param = MODEL(.param_callback = nothing);

static bt_engine *engine_of(const bt_problem_def *def, const char *settings)
{
    static bt_export parts;
    for (int i = 0; i < COUNT; i++)
        gradient[i] = i + 1;
    parts = (bt_export){.abi = BT_ABI, .problems = {def}};
    char lines[800];
    snprintf(lines, sizeof lines,
             "model.optimizer = sgd\nmodel.lr = 0.1\nengine.log_step = 0\nengine.train_iters = 1\n%s", settings);
    return levels_engine(&parts, NULL, lines);
}

static void expect(bt_engine *engine, const double *expected)
{
    double found[COUNT];
    levels_run(engine);
    levels_params(engine, "model", found, COUNT);
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) < 1e-12, "element %d: %.15g, not %.15g", i, found[i], expected[i]);
    bt_engine_free(engine);
}

/* p - rate g factor (1 if NULL), with a rate for each element. */
static void expect_descent(bt_engine *engine, const double *rates, const double *factors)
{
    double expected[COUNT];
    for (int i = 0; i < COUNT; i++)
        expected[i] = start[i] - rates[i] * (i + 1) * (factors ? factors[i] : 1);
    expect(engine, expected);
}

START_TEST(groups)
{
    static const struct {
        const char *settings;
        double rates[COUNT];
    } cases[] = {
        {"", {0.1, 0.1, 0.1, 0.1, 0.1}},
        {"model.late.params = a\nmodel.late.lr = 0.3\n", {0.3, 0.3, 0.1, 0.1, 0.1}},
        {"model.late.params = b, c.*\nmodel.late.lr = 0.3\n", {0.1, 0.1, 0.3, 0.3, 0.3}},
        {"model.one.params = *.d\nmodel.one.lr = 0\nmodel.two.params = a\nmodel.two.lr = 1\n", {1, 1, 0.1, 0, 0}},
        {"model.one.params = *\nmodel.one.lr = 1\nmodel.two.params = a\nmodel.two.lr = 2\n", {2, 2, 1, 1, 1}},
        {"model.cold.params = a\nmodel.cold.frozen = true\n", {0, 0, 0.1, 0.1, 0.1}},
        {"model.cold.params = a, c.d\nmodel.cold.frozen = true\n", {0, 0, 0.1, 0, 0}},
        {"model.trainable = b\n", {0, 0, 0.1, 0, 0}},
        {"model.trainable = a, c.d\n", {0.1, 0.1, 0, 0.1, 0.1}},
        {"model.trainable = c.d, b\nmodel.late.params = b\nmodel.late.lr = 0.7\n", {0, 0, 0.7, 0.1, 0.1}},
    };
    static const bt_problem_def *const defs[] = {&plain, &weighed};
    static const double factors[] = {10, 20, 30, 40, 50};
    for (int d = 0; d < 2; d++)
        expect_descent(engine_of(defs[d], cases[_i].settings), cases[_i].rates, d ? factors : NULL);
}
END_TEST

START_TEST(decay_by_group)
{
    double expected[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double decay = i < 2 ? 0.01 : i == 2 ? 0.5 : 0;
        expected[i] = start[i];
        for (int step = 0; step < 2; step++)
            expected[i] -= 0.1 * (i + 1 + decay * expected[i]);
    }
    expect(engine_of(&plain, "model.one.params = a\nmodel.one.weight_decay = 0.01\nmodel.two.params = b\n"
                             "model.two.weight_decay = 0.5\nengine.train_iters = 2\n"),
           expected);
}
END_TEST

/* ---- callbacks ---- */

START_TEST(parameters_are_limited)
{
    static const double high[] = {1, 2, 1, 0, 1}, low[] = {-1, -2, -3, -4, -5}, factors[] = {10, 20, 30, 40, 50};
    static const bt_problem_def *const defs[] = {&limited, &both};
    for (int d = 0; d < 2; d++) {
        double expected[COUNT];
        for (int i = 0; i < COUNT; i++)
            expected[i] = fmin(high[i], fmax(low[i], start[i] - 0.1 * (i + 1) * (d ? factors[i] : 1)));
        expect(engine_of(defs[d], ""), expected);
        expected[0] = start[0], expected[1] = start[1]; /* a frozen one stays as it is, whatever the callback does */
        expected[2] = fmin(high[2], fmax(low[2], start[2] - 0.1 * 3 * (d ? 30 : 1)));
        expect(engine_of(defs[d], "model.trainable = b, c.d\n"), expected);
    }
}
END_TEST

/* A skipped update changes nothing, whatever the callback would do. */
START_TEST(nothing_is_limited_without_an_update)
{
    bt_engine *engine = engine_of(&limited, "");
    double found[COUNT];
    gradient[4] = NAN;
    levels_step(engine, 1);
    levels_params(engine, "model", found, COUNT);
    ck_assert_mem_eq(found, start, sizeof found); /* 2 and 0.25 stay outside its limits */
    bt_engine_free(engine);
}
END_TEST

START_TEST(callbacks_that_return_the_wrong)
{
    levels_expect_error(engine_of(&short_grad, ""), "model", "grad_callback", "[3]", "[5]", NULL);
    levels_expect_error(engine_of(&no_grad, ""), "model", "grad_callback", "nothing", NULL);
    levels_expect_error(engine_of(&no_param, ""), "model", "param_callback", "nothing", NULL);
}
END_TEST

/* ---- clipping: by value, then by norm; both after grad_callback; frozen elements do not count ---- */

START_TEST(clipping)
{
    static const struct {
        const char *settings;
        double norm, value;
        bool callback, frozen_a;
    } cases[] = {
        {"model.gradient_clipping = 2\n", 2, 0, false, false},
        {"model.gradient_clipping = 100\n", 100, 0, false, false},
        {"model.gradient_clipping_value = 2.5\n", 0, 2.5, false, false},
        {"model.gradient_clipping_value = 2.5\nmodel.gradient_clipping = 3\n", 3, 2.5, false, false},
        {"model.gradient_clipping = 2\n", 2, 0, true, false},
        {"model.gradient_clipping_value = 50\nmodel.gradient_clipping = 60\n", 60, 50, true, false},
        {"model.gradient_clipping = 2\nmodel.trainable = b, c.d\n", 2, 0, false, true},
        {"model.gradient_clipping = 2\nmodel.trainable = b, c.d\n", 2, 0, true, true},
        {"model.gradient_clipping = 2\nmodel.late.params = b\nmodel.late.weight_decay = 0\n", 2, 0, false, false},
    };
    static const double factors[] = {10, 20, 30, 40, 50};
    double g[COUNT], expected[COUNT], square = 0;
    for (int i = 0; i < COUNT; i++) {
        g[i] = (i + 1) * (cases[_i].callback ? factors[i] : 1);
        if (i < 2 && cases[_i].frozen_a)
            g[i] = 0;
        if (cases[_i].value > 0)
            g[i] = fmin(cases[_i].value, fmax(-cases[_i].value, g[i]));
        square += g[i] * g[i];
    }
    double scale = cases[_i].norm > 0 ? fmin(1, cases[_i].norm / (sqrt(square) + 1e-6)) : 1;
    for (int i = 0; i < COUNT; i++)
        expected[i] = start[i] - 0.1 * g[i] * scale;
    expect(engine_of(cases[_i].callback ? &weighed : &plain, cases[_i].settings), expected);
}
END_TEST

/* ---- parameters that the loss does not use ---- */

START_TEST(unused_parameters)
{
    double expected[COUNT];
    unused_b = true;
    for (int i = 0; i < COUNT; i++)
        expected[i] = start[i] - (i == 2 ? 0 : 0.1 * (i + 1));
    expect(engine_of(&plain, ""), expected);
    expect(engine_of(&plain, "model.allow_unused = false\nmodel.trainable = a, c.d\n"), expected);
    levels_expect_error(engine_of(&plain, "model.allow_unused = false\n"), "model", "parameter b", "allow_unused",
                        NULL);
    expect(engine_of(&kept, "model.weight_decay = 0\n"), expected);
    for (int i = 0; i < COUNT; i++)
        expected[i] = start[i] - (i == 2 ? 0 : 0.1 * (i + 1 + 0.5 * start[i]));
    expect(engine_of(&plain, "model.weight_decay = 0.5\n"), expected);
    expect(engine_of(&kept, "model.weight_decay = 0.5\n"), expected);
    expected[2] = start[2] - 0.1 * 0.5 * start[2]; /* a gradient of zero is still a gradient */
    expect(engine_of(&passed, "model.weight_decay = 0.5\n"), expected);
    unused_b = false;
    for (int i = 0; i < COUNT; i++)
        expected[i] = start[i] - 0.1 * (i + 1);
    expect(engine_of(&plain, "model.allow_unused = false\n"), expected);
}
END_TEST

/* Frozen parameters take no optimiser memory; trained ones move by the rate, as in Adam's first step. */
static bt_engine *partly_frozen(void *user) { return engine_of(&plain, user); }

START_TEST(frozen_parameters_have_no_slots)
{
    static const struct {
        const char *settings;
        bool trained[3]; /* a, b, c.d */
    } cases[] = {{"", {1, 1, 1}},
                 {"model.trainable = c.d\n", {0, 0, 1}},
                 {"model.cold.params = b\nmodel.cold.frozen = true\n", {1, 0, 1}},
                 {"model.trainable = b\nmodel.late.params = b\nmodel.late.lr = 0.1\n", {0, 1, 0}}};
    static const int first[] = {0, 2, 3, COUNT};
    char settings[256];
    snprintf(settings, sizeof settings, "model.optimizer = adam\n%s", cases[_i].settings);
    bt_engine *engine = engine_of(&plain, settings);
    EXPECT_OK(bt_engine_setup(engine));
    const bt_problem *model = bt_engine_problem(engine, "model");
    size_t trained = 0;
    double expected[COUNT];
    for (int i = 0; i < 3; i++) {
        trained += cases[_i].trained[i];
        ck_assert_int_eq(model->slots[0].windows[i] != NULL, cases[_i].trained[i]);
        ck_assert_int_eq(model->slots[1].windows[i] != NULL, cases[_i].trained[i]);
        for (int k = first[i]; k < first[i + 1]; k++)
            expected[k] = start[k] - (cases[_i].trained[i] ? 0.1 * (k + 1) / (k + 1 + 1e-8) : 0);
    }
    ck_assert_uint_eq(model->slots[0].flat->bytes, 64 * trained); /* each begins a new line */
    expect(engine, expected);
    strcat(settings, "engine.train_iters = 5\n");
    levels_expect_resumes(partly_frozen, settings, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("updates");
    TCase *tests = tcase_create("parameters");
    tcase_add_loop_test(tests, groups, 0, 10);
    tcase_add_test(tests, decay_by_group);
    tcase_add_test(tests, parameters_are_limited);
    tcase_add_test(tests, nothing_is_limited_without_an_update);
    tcase_add_test(tests, callbacks_that_return_the_wrong);
    tcase_add_loop_test(tests, clipping, 0, 9);
    tcase_add_test(tests, unused_parameters);
    tcase_add_loop_test(tests, frozen_parameters_have_no_slots, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

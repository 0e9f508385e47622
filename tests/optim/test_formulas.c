/* Every variant of SGD, Adam and AdamW for 30 steps against plain formulas, to 1e-12; PyTorch's own numbers; R13. */
#include "plain.h"

#include "nn/module.h"
#include "ops/ops.h"
#include "optim/optim.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

#define ADAM_DEFAULTS .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

static const plain_settings variants[] = {
    {.name = "sgd", .lr = 0.05},
    {.name = "sgd", .lr = 0.05, .weight_decay = 0.1},
    {.name = "sgd", .lr = 0.05, .momentum = 0.9},
    {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.1},
    {.name = "sgd", .lr = 0.05, .momentum = 0.9, .dampening = 0.3},
    {.name = "sgd", .lr = 0.05, .momentum = 0.8, .dampening = 1, .weight_decay = 0.01},
    {.name = "sgd", .lr = 0.05, .momentum = 1},
    {.name = "sgd", .lr = 0.02, .momentum = 0.9, .nesterov = true},
    {.name = "sgd", .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4},
    {.name = "sgd", .lr = 0},
    {.name = "adam", .lr = 0.01, ADAM_DEFAULTS},
    {.name = "adam", .lr = 0.1, .weight_decay = 0.1, ADAM_DEFAULTS},
    {.name = "adam", .lr = 0.1, .beta1 = 0, .beta2 = 0, .eps = 1e-3},
    {.name = "adam", .lr = 0.1, .beta1 = 0.5, .beta2 = 0.7, .eps = 1e-2, .weight_decay = 1e-3},
    {.name = "adam", .lr = 0, ADAM_DEFAULTS},
    {.name = "adamw", .lr = 0.01, .weight_decay = 0.01, ADAM_DEFAULTS},
    {.name = "adamw", .lr = 0.1, .weight_decay = 0, ADAM_DEFAULTS},
    {.name = "adamw", .lr = 0.3, .weight_decay = 0.5, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4},
};

START_TEST(test_thirty_steps)
{
    const plain_settings *settings = &variants[_i];
    plain_training training = plain_training_new(plain_optimizer(settings));
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE];
    char what[32];
    snprintf(what, sizeof what, "variant %d, %s", _i, settings->name);
    plain_start(&state);
    for (int step = 1; step <= 30; step++) {
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        plain_update(&state, settings, settings->lr, grad);
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, what, step);
    }
    plain_training_free(&training);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

/* ---- PyTorch's numbers ---- */

typedef struct golden {
    plain_settings settings;
    double after[2][4];
} golden;

/* Origin: PyTorch, float64; p = (1, 2, 3, 4), g = (.1, -.2, .3, -.4), then (.3, .1, -.2, .05). */
static const golden goldens[] = {
    {{.name = "adam", .lr = 0.1, ADAM_DEFAULTS},
     {{.900000010, 2.099999995, 2.900000003, 4.099999998}, {.808221902, 2.126633697, 2.885547951, 4.157253453}}},
    {{.name = "adam", .lr = 0.1, .weight_decay = 0.1, ADAM_DEFAULTS},
     {{.900000005, 2.000000000, 2.900000002, 4.000000000}, {.803214755, 1.925586321, 2.822692275, 3.925586320}}},
    {{.name = "adamw", .lr = 0.1, .weight_decay = 0.1, ADAM_DEFAULTS},
     {{.890000010, 2.079999995, 2.870000003, 4.059999998}, {.789321902, 2.085833697, 2.826847951, 4.076653453}}},
    {{.name = "sgd", .lr = 0.1, .momentum = 0.9}, {{.99, 2.02, 2.97, 4.04}, {.951, 2.028, 2.963, 4.071}}},
    {{.name = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4},
     {{.980905, 2.03781, 2.942715, 4.07562}, {.915671314, 2.034735408, 2.956013942, 4.097970816}}},
};

typedef struct slope_job {
    bt_module *module;
    bt_optimizer *optimizer;
} slope_job;

static bt_tensor *slope_step(void *user, const bt_batch *batch) /* the batch itself is the gradient */
{
    slope_job *job = user;
    bt_tensor *loss = bt_sum(bt_mul(bt_field(batch, "g"), bt_forward(job->module)));
    bt_optimizer_minimize(job->optimizer, loss, job->module);
    return loss;
}

static const double *slope_run(slope_job *job, bt_function *function, bt_array g)
{
    double loss;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "g", g);
    ck_assert_msg(bt_function_run(function, batch, BT_ARRAY(&loss)) == BT_OK, "%s", bt_error());
    bt_batch_free(batch);
    return (const double *)(void *)var_near(job->module->params[0]->var);
}

START_TEST(test_golden_values)
{
    static const double p[4] = {1, 2, 3, 4}, g[2][4] = {{.1, -.2, .3, -.4}, {.3, .1, -.2, .05}};
    const golden *golden = &goldens[_i];
    slope_job job = {bt_nn_parameter(bt_init_array(BT_ARRAY(p, 4)), 4), plain_optimizer(&golden->settings)};
    ck_assert_int_eq(bt_module_init(job.module, BT_CPU, BT_F64, 1), BT_OK);
    bt_function *function = bt_function_new(slope_step, &job, BT_TRAIN);
    for (int step = 0; step < 2; step++) {
        const double *found = slope_run(&job, function, BT_ARRAY(g[step], 4));
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq_tol(found[i], golden->after[step][i], 0.5001e-9);
    }
    bt_function_free(function);
    bt_optimizer_free(job.optimizer);
    bt_module_free(job.module);
}
END_TEST

/* ---- Adam's first step: lr g / (|g| + eps), and its derivative in g, lr eps / (|g| + eps)^2 ---- */

static const double first_g[3] = {0, 1e-8, 1e-4};
static const double first_step[3] = {0, 5e-4, 9.99900009999e-4};
static const double first_slope[3] = {1e5, 2.5e4, 9.99800029996e-4};

START_TEST(test_first_step_of_adam)
{
    slope_job job = {bt_nn_parameter(bt_init_constant(0), 3), bt_optimizer_new("adam")};
    ck_assert_int_eq(bt_module_init(job.module, BT_CPU, BT_F64, 1), BT_OK);
    bt_function *function = bt_function_new(slope_step, &job, BT_TRAIN);
    const double *found = slope_run(&job, function, BT_ARRAY(first_g, 3));
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(-found[i], first_step[i], 1e-11 * first_step[i] + 1e-300);
    bt_function_free(function);
    bt_optimizer_free(job.optimizer);
    bt_module_free(job.module);
}
END_TEST

static bt_tensor *adam_slope(void *user, const bt_batch *batch)
{
    (void)user;
    const bt_adam_attr attr = {0};
    bt_tensor *g = bt_field(batch, "g"), *zero = bt_zeros_like(g), *one = bt_number(1, BT_F64);
    bt_tensor *next =
        BT_RECORD(&bt_op_adam_update, &attr, zero, g, zero, zero, bt_less(0.0, one), bt_number(1e-3, BT_F64),
                  bt_number(0.9, BT_F64), bt_number(0.999, BT_F64), bt_number(1e-8, BT_F64), bt_number(0, BT_F64), one);
    return bt_grad(bt_neg(bt_sum(next)), g);
}

START_TEST(test_slope_of_the_first_step_of_adam)
{
    double found[3];
    bt_function *function = bt_function_new(adam_slope, NULL, BT_TRAIN);
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "g", BT_ARRAY(first_g, 3));
    ck_assert_msg(bt_function_run(function, batch, BT_ARRAY(found, 3)) == BT_OK, "%s", bt_error());
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(found[i], first_slope[i], 1e-10 * first_slope[i]);
    bt_batch_free(batch);
    bt_function_free(function);
}
END_TEST

START_TEST(test_nothing_comes_of_nothing)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    static const double zero[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) {
        slope_job job = {bt_nn_parameter(bt_init_constant(0.5), 3), bt_optimizer_new(names[k])};
        ck_assert_int_eq(bt_module_init(job.module, BT_CPU, BT_F64, 1), BT_OK);
        ck_assert_int_eq(bt_optimizer_set(job.optimizer, "lr", 0), BT_OK);
        bt_function *function = bt_function_new(slope_step, &job, BT_TRAIN);
        for (int step = 0; step < 3; step++) {
            const double *found = slope_run(&job, function, BT_ARRAY(zero, 3));
            for (int i = 0; i < 3; i++)
                ck_assert_double_eq(found[i], 0.5);
        }
        bt_function_free(function);
        bt_optimizer_free(job.optimizer);
        bt_module_free(job.module);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("formulas");
    TCase *test = tcase_create("formulas");
    tcase_add_loop_test(test, test_thirty_steps, 0, (int)(sizeof variants / sizeof *variants));
    tcase_add_loop_test(test, test_golden_values, 0, (int)(sizeof goldens / sizeof *goldens));
    tcase_add_test(test, test_first_step_of_adam);
    tcase_add_test(test, test_slope_of_the_first_step_of_adam);
    tcase_add_test(test, test_nothing_comes_of_nothing);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}

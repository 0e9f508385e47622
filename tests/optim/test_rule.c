/* Rules: user-defined optimisers, groups, `schedule`, bytes of state, and error messages. */
#include "plain.h"

#include "nn/module.h"
#include "optim/optim.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

static void assert_message(const char *part)
{
    ck_assert_msg(strstr(bt_error(), part) != NULL, "message \"%s\" lacks \"%s\"", bt_error(), part);
    bt_error_clear();
}

/* ---- a user-defined optimiser: the sign of a running mean ---- */

static bt_tensor *lion_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *m = bt_slot(rule, "m"), *beta1 = bt_hyper(rule, "beta1"), *beta2 = bt_hyper(rule, "beta2");
    bt_tensor *direction = bt_sign(bt_add(bt_mul(beta1, m), bt_mul(bt_sub(1, beta1), grad)));
    bt_slot_set(rule, "m", bt_add(bt_mul(beta2, m), bt_mul(bt_sub(1, beta2), grad)));
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), direction));
}

static const bt_optimizer_def lion = {
    .name = "lion",
    .hypers = {{"lr", 0.01, 0, 10, "", BT_HYPER_REAL},
               {"beta1", 0.9, 0, 1, "", BT_HYPER_REAL},
               {"beta2", 0.99, 0, 1, "", BT_HYPER_REAL}},
    .slots = {"m"},
    .update = lion_update,
};

START_TEST(test_an_optimizer_of_ones_own)
{
    plain_training training = plain_training_new(bt_optimizer_of(&lion));
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE];
    plain_start(&state);
    for (int step = 0; step < 30; step++) {
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        if (step == 4 || step == 11)
            noise[3] = (double)NAN; /* skipped, including the slot, although the update does not handle that */
        else
            for (int i = 0; i < PLAIN_SIZE; i++) {
                double direction = 0.9 * state.m[i] + 0.1 * grad[i];
                state.m[i] = 0.99 * state.m[i] + 0.01 * grad[i];
                state.p[i] -= 0.01 * ((direction > 0) - (direction < 0));
            }
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, "lion", step);
    }
    plain_training_free(&training);
}
END_TEST

/* ---- errors in an update ---- */

static bt_tensor *no_such_hyper(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return bt_sub(param, bt_mul(bt_hyper(rule, "beta"), grad));
}

static bt_tensor *no_such_slot(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)grad;
    return bt_sub(param, bt_slot(rule, "velocity"));
}

static bt_tensor *wrong_slot_shape(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_slot_set(rule, "m", bt_sum(grad));
    return param;
}

static bt_tensor *wrong_shape(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)rule, (void)grad;
    return bt_sum(param);
}

static bt_tensor *sets_a_hyper(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)grad;
    bt_hyper_set(rule, "lr", bt_sum(param));
    return param;
}

static bt_tensor *returns_null(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)rule, (void)param, (void)grad;
    return NULL;
}

static bt_tensor *asks_for_the_hessian(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    (void)param;
    return bt_hvp(rule, grad);
}

static bt_tensor *faulty_step(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = plain_loss(training->module, batch);
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return loss;
}

static void assert_run_fails(bt_function_fn *step, void *user, const char *message)
{
    double noise[PLAIN_SIZE] = {0}, loss;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "noise", BT_ARRAY(noise, PLAIN_SIZE));
    bt_function *function = bt_function_new(step, user, BT_TRAIN);
    ck_assert_int_ne(bt_function_run(function, batch, BT_ARRAY(&loss)), BT_OK);
    assert_message(message);
    bt_function_free(function);
    bt_batch_free(batch);
}

START_TEST(test_faulty_updates_are_explained)
{
    static const struct {
        bt_tensor *(*update)(bt_rule *rule, bt_tensor *param, bt_tensor *grad);
        const char *message;
    } faults[] = {
        {no_such_hyper, "optimizer mine has no hyperparameter \"beta\"; did you mean \"beta1\"? It has: lr, beta1"},
        {no_such_slot, "optimizer mine has no slot \"velocity\"; it has: m"},
        {wrong_slot_shape, "the slot \"m\" is [2, 3], but its new value is []"},
        {wrong_shape, "a parameter is [2, 3], but the value that `update` returned is []"},
        {sets_a_hyper, "in the callback `schedule`"},
        {returns_null, "`update` returned NULL"},
        {asks_for_the_hessian, "only a hypergradient method"},
    };
    bt_optimizer_def mine = lion;
    mine.name = "mine";
    mine.hypers[2].name = NULL;
    mine.update = faults[_i].update;
    plain_training training = plain_training_new(bt_optimizer_of(&mine));
    assert_run_fails(faulty_step, &training, faults[_i].message);
    plain_training_free(&training);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

START_TEST(test_malformed_records_are_refused)
{
    bt_optimizer_def def = lion;
    def.update = NULL;
    ck_assert_ptr_null(bt_optimizer_of(&def));
    assert_message("no `update`");
    def = lion;
    def.hypers[1].value = 2;
    ck_assert_ptr_null(bt_optimizer_of(&def));
    assert_message("the default of \"beta1\", 2, is not between 0 and 1");
    ck_assert_ptr_null(bt_optimizer_of(NULL));
    assert_message("NULL");
}
END_TEST

/* ---- settings ---- */

START_TEST(test_settings_are_checked)
{
    ck_assert_ptr_null(bt_optimizer_new("adm"));
    assert_message("did you mean \"adam\"? There are: sgd, adam, adamw");
    ck_assert_ptr_null(bt_optimizer_new(NULL));
    assert_message("there is no optimizer");
    bt_optimizer *sgd = bt_optimizer_new("sgd");
    ck_assert_int_eq(bt_optimizer_set(sgd, "momentun", 0.9), BT_ERROR_ARGUMENT);
    assert_message("\"momentun\"; did you mean \"momentum\"? It has: lr, momentum, dampening, weight_decay, nesterov");
    ck_assert_int_eq(bt_optimizer_set(sgd, "lr", -1), BT_ERROR_ARGUMENT);
    assert_message("\"lr\" is -1; expected 0 to 1e+06");
    ck_assert_int_eq(bt_optimizer_set(sgd, "lr", (double)NAN), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_optimizer_set(NULL, "lr", 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_optimizer_set(sgd, "nesterov", 1), BT_OK);
    ck_assert_int_eq(bt_optimizer_start(sgd, ""), BT_ERROR_CONFIG);
    assert_message("nesterov = 1 needs momentum above 0");
    ck_assert_int_eq(bt_optimizer_set(sgd, "momentum", 0.9), BT_OK);
    ck_assert_int_eq(bt_optimizer_start(sgd, ""), BT_OK);
    ck_assert_int_eq(bt_optimizer_set(sgd, "nesterov", 0), BT_ERROR_ARGUMENT);
    assert_message("programs were compiled for 1");
    ck_assert_int_eq(bt_optimizer_set(sgd, "momentum", 0.5), BT_OK);
    bt_optimizer_free(sgd);

    sgd = bt_optimizer_new("sgd");
    ck_assert_int_eq(bt_optimizer_start(sgd, ""), BT_OK);
    ck_assert_int_eq(bt_optimizer_set(sgd, "momentum", 0.9), BT_ERROR_ARGUMENT); /* it has no slot for this */
    assert_message("\"momentum\" can no longer become 0.9");
    bt_optimizer_free(sgd);
    bt_optimizer_free(NULL);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

START_TEST(test_settings_may_change_between_runs)
{
    plain_settings settings = {.name = "sgd", .lr = 0.1, .momentum = 0.9};
    plain_training training = plain_training_new(plain_optimizer(&settings));
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE];
    plain_start(&state);
    for (int step = 0; step < 10; step++) {
        settings.lr = 0.1 / (1 + step);
        settings.weight_decay = step > 5 ? 0.3 : 0;
        settings.momentum = step > 7 ? 0.2 : 0.9;
        bt_optimizer_set(training.optimizer, "lr", settings.lr);
        bt_optimizer_set(training.optimizer, "weight_decay", settings.weight_decay);
        bt_optimizer_set(training.optimizer, "momentum", settings.momentum);
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        plain_update(&state, &settings, settings.lr, grad);
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, "changing settings", step);
    }
    plain_training_free(&training);
}
END_TEST

/* ---- bytes: SGD 0, with momentum 4, Adam 8 for each parameter in f32 ---- */

static bt_tensor *f32_step(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    (void)batch;
    bt_tensor *loss = bt_sum(bt_square(bt_params(training->module)));
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return loss;
}

START_TEST(test_bytes_of_state)
{
    static const struct {
        const char *name;
        double momentum;
        size_t bytes;
    } cases[] = {{"sgd", 0, 0}, {"sgd", 0.9, 4}, {"adam", -1, 8}, {"adamw", -1, 8}};
    enum { ROWS = 32, COLUMNS = 48 };
    for (int k = 0; k < 4; k++) {
        plain_training training = {.module = bt_nn_linear(COLUMNS, ROWS), .optimizer = bt_optimizer_new(cases[k].name)};
        float loss;
        if (cases[k].momentum >= 0)
            bt_optimizer_set(training.optimizer, "momentum", cases[k].momentum);
        ck_assert_int_eq(bt_module_init(training.module, BT_CPU, BT_F32, 1), BT_OK);
        training.function = bt_function_new(f32_step, &training, BT_TRAIN);
        ck_assert_msg(bt_function_run(training.function, NULL, BT_ARRAY(&loss)) == BT_OK, "%s", bt_error());
        size_t bytes = 0;
        for (int s = 0; s < BT_MAX_ITEMS; s++)
            bytes += training.optimizer->blocks[s].flat ? training.optimizer->blocks[s].flat->bytes : 0;
        ck_assert_uint_eq(bytes, cases[k].bytes * (ROWS * COLUMNS + ROWS)); /* multiples of 16: no gaps */
        ck_assert_int_eq(bt_optimizer_slot_count(training.optimizer), (int)cases[k].bytes / 4);
        plain_training_free(&training);
    }
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

/* ---- unused parameters stay unchanged: they neither decay nor continue to move ---- */

static bool weight_alone;

static bt_tensor *one_of_two(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    (void)batch;
    bt_tensor *loss = bt_sum(weight_alone ? bt_param(training->module, "weight") : bt_params(training->module));
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return loss;
}

START_TEST(test_unused_parameters)
{
    plain_training training = {.module = bt_nn_linear(2, 1), .optimizer = bt_optimizer_new("sgd")};
    double before[3], after[3], loss;
    bt_optimizer_set(training.optimizer, "lr", 0.1);
    bt_optimizer_set(training.optimizer, "momentum", 0.9);
    bt_optimizer_set(training.optimizer, "weight_decay", 0.5);
    ck_assert_int_eq(bt_module_init(training.module, BT_CPU, BT_F64, 1), BT_OK);
    const bt_block *block = &training.module->param_block;
    for (int step = 0; step < 3; step++) {
        weight_alone = step > 0; /* the first step gives both a momentum */
        training.function = bt_function_new(one_of_two, &training, BT_TRAIN);
        for (int i = 0; i < 3; i++)
            before[i] = bt_get(BT_F64, var_near(block->windows[i / 2]), i % 2);
        ck_assert_msg(bt_function_run(training.function, NULL, BT_ARRAY(&loss)) == BT_OK, "%s", bt_error());
        for (int i = 0; i < 3; i++) {
            after[i] = bt_get(BT_F64, var_near(block->windows[i / 2]), i % 2);
            ck_assert_msg((after[i] == before[i]) == (i == 2 && step > 0), "step %d: parameter %d went from %g to %g",
                          step, i, before[i], after[i]);
        }
        bt_function_free(training.function);
        training.function = NULL;
    }
    plain_training_free(&training);
}
END_TEST

/* ---- minimize: errors ---- */

static bt_tensor *twice(void *user, const bt_batch *batch)
{
    faulty_step(user, batch);
    return faulty_step(user, batch);
}

static bt_tensor *not_a_scalar(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = bt_mul(bt_field(batch, "noise"), bt_params(training->module));
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return bt_sum(loss);
}

static bt_tensor *independent(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = bt_sum(bt_field(batch, "noise"));
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return loss;
}

static bt_tensor *without_optimizer(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = plain_loss(training->module, batch);
    bt_optimizer_minimize(NULL, loss, training->module);
    return loss;
}

static bt_tensor *with_another_module(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = faulty_step(user, batch);
    bt_module *other = plain_module(); /* nothing of this one is recorded, as the state belongs to the first one */
    bt_optimizer_minimize(training->optimizer, loss, other);
    bt_module_free(other);
    return loss;
}

START_TEST(test_minimize_refuses)
{
    static const struct {
        bt_function_fn *step;
        const char *message;
    } cases[] = {
        {twice, "called twice"},
        {not_a_scalar, "the loss is not a scalar but [11]; take its bt_mean"},
        {independent, "does not depend on any"},
        {without_optimizer, "the optimiser is NULL"},
        {with_another_module, "belongs to another module"},
    };
    plain_training training = plain_training_new(bt_optimizer_new("adam"));
    assert_run_fails(cases[_i].step, &training, cases[_i].message);
    plain_training_free(&training);
    bt_optimizer_minimize(NULL, NULL, NULL); /* outside of a trace */
    assert_message("NULL");
}
END_TEST

/* ---- groups and `schedule`, as the engine uses them ---- */

typedef struct grouped {
    plain_training training;
    void (*schedule)(void *context, bt_rule *rule);
    bt_var *slots[2];
} grouped;

/* "a" is in group 0, "b" in group 1; each is one segment. */
static bt_tensor *grouped_step(void *user, const bt_batch *batch)
{
    grouped *g = user;
    bt_module *module = g->training.module;
    bt_optimizer *optimizer = g->training.optimizer;
    bt_tensor *loss = plain_loss(module, batch);
    bt_segment segments[2] = {{.group = 0}, {.group = 1}};
    bt_update update = {.segments = segments, .count = 2, .schedule = g->schedule, .context = g};
    for (int i = 0; i < 2; i++) {
        segments[i].param = bt_trace_read(module->params[i]->var);
        segments[i].grad = bt_grad(loss, segments[i].param);
        segments[i].slots[0] = g->slots[i] ? bt_trace_read(g->slots[i]) : NULL;
    }
    bt_optimizer_update(optimizer, &update);
    for (int i = 0; i < 2; i++) {
        bt_graph_assign(bt_trace_now()->graph, module->params[i]->var, segments[i].next_param);
        if (g->slots[i])
            bt_graph_assign(bt_trace_now()->graph, g->slots[i], segments[i].next_slots[0]);
    }
    bt_optimizer_advance(optimizer, &update);
    return update.lr;
}

static grouped grouped_new(bt_optimizer *optimizer)
{
    grouped g = {.training = plain_training_new(optimizer)};
    ck_assert_msg(bt_optimizer_start(optimizer, "p") == BT_OK, "%s", bt_error());
    for (int i = 0; i < 2 && bt_optimizer_slot_count(optimizer); i++)
        g.slots[i] = bt_var_new(BT_RUN, BT_OPTIMIZER, "p", "slot", g.training.module->params[i]->shape);
    return g;
}

static void grouped_free(grouped *g)
{
    plain_training_free(&g->training);
    bt_var_free(g->slots[0]);
    bt_var_free(g->slots[1]);
}

/* Two plain states, of "a" and of "b"; lr[k] is the rate of group k at this step. Returns the lr reported for group
 * 0. */
static double grouped_run(grouped *g, plain_state *both, const plain_settings *settings, const double *lr, int step)
{
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE], reported = 0;
    plain_state whole = {.count = PLAIN_SIZE};
    memcpy(whole.p, both[0].p, 6 * sizeof *whole.p);
    memcpy(whole.p + 6, both[1].p, 5 * sizeof *whole.p);
    plain_noise(step, noise);
    plain_grad(&whole, noise, grad);
    plain_update(&both[0], &settings[0], lr[0], grad);
    plain_update(&both[1], &settings[1], lr[1], grad + 6);
    memcpy(whole.p, both[0].p, 6 * sizeof *whole.p);
    memcpy(whole.p + 6, both[1].p, 5 * sizeof *whole.p);
    if (!g->training.function)
        g->training.function = bt_function_new(grouped_step, g, BT_TRAIN);
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "noise", BT_ARRAY(noise, PLAIN_SIZE));
    ck_assert_msg(bt_function_run(g->training.function, batch, BT_ARRAY(&reported)) == BT_OK, "%s", bt_error());
    bt_batch_free(batch);
    plain_assert_close(plain_found(&g->training, found), &whole, "groups", step);
    return reported;
}

static void grouped_start(plain_state *both)
{
    plain_state whole;
    plain_start(&whole);
    memset(both, 0, 2 * sizeof *both);
    both[0].count = 6;
    both[1].count = 5;
    memcpy(both[0].p, whole.p, 6 * sizeof *whole.p);
    memcpy(both[1].p, whole.p + 6, 5 * sizeof *whole.p);
}

START_TEST(test_groups_have_their_own_settings)
{
    plain_settings settings[2] = {{.name = "sgd", .lr = 0.1, .weight_decay = 0.2},
                                  {.name = "sgd", .lr = 0.03, .weight_decay = 0, .momentum = 0.9}};
    bt_optimizer *optimizer = plain_optimizer(&settings[0]);
    ck_assert_int_eq(bt_optimizer_group_add(optimizer, "biases"), 1);
    ck_assert_int_eq(bt_optimizer_group_set(optimizer, 1, "lr", 0.03), BT_OK);
    ck_assert_int_eq(bt_optimizer_group_set(optimizer, 1, "weight_decay", 0), BT_OK);
    ck_assert_int_eq(bt_optimizer_group_set(optimizer, 1, "momentum", 0.9), BT_OK);
    optimizer->scheduler = (bt_scheduler){.kind = BT_SCHEDULER_STEP, .step_size = 5, .gamma = 0.5};
    grouped g = grouped_new(optimizer);
    ck_assert_int_eq(bt_optimizer_slot_count(optimizer), 1); /* one group needs it */
    plain_state both[2];
    grouped_start(both);
    for (int step = 0; step < 20; step++) {
        double factor = pow(0.5, step / 5), lr[2] = {0.1 * factor, 0.03 * factor};
        ck_assert_double_eq_tol(grouped_run(&g, both, settings, lr, step), lr[0], 1e-15);
    }
    settings[0].weight_decay = 0.4; /* affects only group 0, since group 1 has its own */
    ck_assert_int_eq(bt_optimizer_set(optimizer, "weight_decay", 0.4), BT_OK);
    double lr[2] = {0.1 / 16, 0.03 / 16};
    grouped_run(&g, both, settings, lr, 20);
    ck_assert_int_eq(bt_optimizer_group_add(optimizer, "late"), -1);
    assert_message("already in use");
    grouped_free(&g);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

static void halve(void *context, bt_rule *rule) /* lr = half of the scheduler's, plus 0.01 times the step */
{
    grouped *g = context;
    bt_tensor *applied = bt_trace_read(g->training.optimizer->applied);
    ck_assert_ptr_nonnull(bt_hyper(rule, "weight_decay"));
    bt_hyper_set(rule, "lr", bt_add(bt_mul(0.5, bt_hyper(rule, "lr")), bt_mul(0.01, bt_as(applied, BT_F64))));
}

START_TEST(test_schedule_sets_hyperparameters)
{
    const plain_settings settings[2] = {{.name = "sgd", .lr = 0.08}, {.name = "sgd", .lr = 0.08}};
    for (int own = 0; own < 2; own++) { /* a group follows `schedule`, unless it has its own value */
        bt_optimizer *optimizer = bt_optimizer_new("sgd");
        ck_assert_int_eq(bt_optimizer_set(optimizer, "lr", 0.08), BT_OK);
        ck_assert_int_eq(bt_optimizer_group_add(optimizer, "b"), 1);
        if (own)
            ck_assert_int_eq(bt_optimizer_group_set(optimizer, 1, "lr", 0.02), BT_OK);
        optimizer->groups[1].lr_factor = 0.1;
        grouped g = grouped_new(optimizer);
        g.schedule = halve;
        plain_state both[2];
        grouped_start(both);
        for (int step = 0; step < 8; step++) {
            double scheduled = 0.04 + 0.01 * step, lr[2] = {scheduled, 0.1 * (own ? 0.02 : scheduled)};
            ck_assert_double_eq_tol(grouped_run(&g, both, settings, lr, step), scheduled, 1e-15);
        }
        grouped_free(&g);
    }
}
END_TEST

static void set_momentum(void *context, bt_rule *rule)
{
    (void)context;
    bt_hyper_set(rule, "momentum", bt_hyper(rule, "lr"));
}

static void set_nesterov(void *context, bt_rule *rule)
{
    (void)context;
    bt_hyper_set(rule, "nesterov", bt_hyper(rule, "lr"));
}

static void set_vector(void *context, bt_rule *rule)
{
    bt_hyper_set(rule, "lr", bt_params(((grouped *)context)->training.module));
}

START_TEST(test_what_schedule_cannot_set)
{
    static const struct {
        void (*schedule)(void *context, bt_rule *rule);
        const char *message;
    } cases[] = {
        {set_momentum, "\"momentum\" is 0 in the settings, so no slot is kept"},
        {set_nesterov, "\"nesterov\" is fixed"},
        {set_vector, "\"lr\" is one number, but its new value is [11]"},
    };
    bt_optimizer *optimizer = bt_optimizer_new("sgd");
    ck_assert_int_eq(bt_optimizer_group_add(optimizer, "b"), 1);
    grouped g = grouped_new(optimizer);
    g.schedule = cases[_i].schedule;
    assert_run_fails(grouped_step, &g, cases[_i].message);
    grouped_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rule");
    TCase *test = tcase_create("rule");
    tcase_add_test(test, test_an_optimizer_of_ones_own);
    tcase_add_loop_test(test, test_faulty_updates_are_explained, 0, 7);
    tcase_add_test(test, test_malformed_records_are_refused);
    tcase_add_test(test, test_settings_are_checked);
    tcase_add_test(test, test_settings_may_change_between_runs);
    tcase_add_test(test, test_bytes_of_state);
    tcase_add_test(test, test_unused_parameters);
    tcase_add_loop_test(test, test_minimize_refuses, 0, 5);
    tcase_add_test(test, test_groups_have_their_own_settings);
    tcase_add_test(test, test_schedule_sets_hyperparameters);
    tcase_add_loop_test(test, test_what_schedule_cannot_set, 0, 3);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}

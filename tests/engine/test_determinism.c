/* tests/engine/test_determinism.c: the same seed gives the same bits: in every run, with or without a plan, retracing
 * or validation. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 190, FEATURES = 300, BATCH = 64, STEPS = 12 };

static int64_t tick;
static bool ticking, asking;

static bt_dataset *rows(bt_problem *self)
{
    static float x[ROWS * FEATURES];
    static int32_t label[ROWS];
    uint64_t stream = strcmp(self->name, "upper") == 0;
    for (uint64_t i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)(2 * bt_host_uniform(11, stream, i) - 1);
    for (uint64_t i = 0; i < ROWS; i++)
        label[i] = (int32_t)(3 * bt_host_uniform(12, stream, i));
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, FEATURES));
    bt_dataset_add(data, "label", BT_ARRAY(label, ROWS));
    return data;
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_nn_sequential(bt_nn_linear(FEATURES, 33), bt_nn_fn(bt_relu), bt_nn_dropout(0.3),
                                      bt_nn_layer_norm(33), bt_nn_linear(33, 3));
    bt_module_add_buffer(net, "mean", bt_init_constant(0), FEATURES);
    return net;
}

static bt_module *weight_net(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_tanh, 1, 7, 1);
}

static bt_tensor *weights(bt_problem *self, bt_tensor *const *in)
{
    return bt_sigmoid(bt_squeeze(bt_forward(bt_net(self), bt_unsqueeze(in[0], 1)), 1));
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

/* A static int: its changes recompile all programs, and it has no other use. */
static int64_t next_tick(bt_problem *self)
{
    (void)self;
    return ticking ? ++tick / 3 : 0;
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_static_int(self, "tick", next_tick);
    bt_tensor *loss = losses(self, batch), *mean = bt_mean(bt_field(batch, "x"), 0);
    bt_param_set(self, "mean", bt_add(bt_mul(0.9, bt_param(self, "mean")), bt_mul(0.1, mean)));
    return bt_mean(bt_mul(bt_forward(bt_peer(self, "upper"), bt_detach(loss)), loss));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, bt_field(batch, "x"));
    bt_metric(self, "accuracy", bt_accuracy(logits, bt_field(batch, "label")));
    return bt_mean(bt_cross_entropy(logits, bt_field(batch, "label")));
}

/* Requests move the loaders, whose threads prefetch batches, and restore them. */
static void valid_end(bt_problem *self)
{
    double values[22];
    const bt_batch *batch;
    if (!asking)
        return;
    EXPECT_OK(bt_hypergradient(bt_peer(self, "upper"), BT_ARRAY(values, 22)));
    for (int64_t i = 0; (batch = bt_valid_batch(self, i)) != NULL; i++)
        ck_assert_int_gt(bt_batch_count(batch), 0);
}

static const bt_problem_def upper = {.name = "upper",
                                     .configure_train_data = rows,
                                     .configure_module = weight_net,
                                     .forward = weights,
                                     .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = rows,
                                     .configure_valid_data = rows,
                                     .configure_module = net,
                                     .training_step = lower_step,
                                     .validation_step = valid_step,
                                     .validation_end = valid_end};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const char *const variants[] = {
    "lower.type = darts\n",
    "lower.type = cg\nlower.cg_iterations = 3\nupper.meta_batch = 2\n",
    ("lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 2\nlower.gradient_accumulation = 2\n"
     "lower.product_batches = all\nupper.gradient_accumulation = 2\n"),
    "lower.product = finite\nlower.unroll_steps = 2\nengine.roll_back = true\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

typedef struct outcome {
    uint64_t state; /* of parameters, optimisers, buffers */
    double loss, upper_loss, valid_loss, accuracy;
} outcome;

static void hash(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    uint64_t *sum = user;
    bool of_metric = strstr(var->name, ".sum") || strstr(var->name, ".weight");
    if (!of_metric && var->category != BT_BATCH)
        *sum += bt_hash(bt_hash_text(bt_hash_text(0, var->owner), var->name), var_near(var), var->bytes);
}

static outcome run(int variant, const char *more, bool retrace)
{
    char settings[900];
    outcome result = {0};
    tick = 0;
    ticking = retrace;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = %d\n"
             "upper.batch_size = %d\nlower.lr = 0.05\nlower.momentum = 0.9\nupper.optimizer = adam\nupper.lr = 0.01\n"
             "engine.precision = fp32\nengine.train_iters = %d\nengine.log_step = 5\nengine.valid_step = 4\n"
             "engine.threads = 1\n%s%s",
             BATCH, BATCH, STEPS, variants[variant], more);
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    levels_run(engine);
    bt_visit_vars(&engine->context, NULL, hash, &result.state);
    result.loss = bt_engine_metric(engine, "lower.loss");
    result.upper_loss = bt_engine_metric(engine, "upper.loss");
    result.valid_loss = bt_engine_metric(engine, "lower.valid.loss");
    result.accuracy = bt_engine_metric(engine, "lower.valid.accuracy");
    ck_assert_double_gt(result.loss, 0);
    bt_engine_free(engine);
    return result;
}

static void expect_same(outcome a, outcome b)
{
    ck_assert_uint_eq(a.state, b.state);
    ck_assert_mem_eq(&a, &b, sizeof a);
}

START_TEST(same_seed_same_bits)
{
    expect_same(run(_i, "", false), run(_i, "", false));
    expect_same(run(_i, "engine.threads = 2\n", false), run(_i, "engine.threads = 2\n", false));
    expect_same(run(_i, "engine.precision = fp64\n", false), run(_i, "engine.precision = fp64\n", false));
}
END_TEST

START_TEST(another_seed_other_bits)
{
    ck_assert_uint_ne(run(_i, "", false).state, run(_i, "engine.seed = 2\n", false).state);
}
END_TEST

START_TEST(without_a_plan)
{
    outcome planned = run(_i, "", false);
    setenv("BETTY_PLAN", "off", 1);
    outcome alone = run(_i, "", false);
    setenv("BETTY_PLAN", "guard", 1);
    outcome guarded = run(_i, "", false);
    unsetenv("BETTY_PLAN");
    expect_same(planned, alone);
    expect_same(planned, guarded);
}
END_TEST

START_TEST(with_retraces)
{
    outcome plain = run(_i, "", false), retraced = run(_i, "", true);
    ck_assert_int_gt(tick, STEPS); /* there were some ticks */
    expect_same(plain, retraced);
}
END_TEST

START_TEST(with_questions)
{
    outcome without = run(_i, "engine.valid_step = 1\n", false);
    asking = true;
    outcome with = run(_i, "engine.valid_step = 1\n", false);
    asking = false;
    expect_same(without, with);
}
END_TEST

START_TEST(with_other_validation)
{
    outcome often = run(_i, "engine.valid_step = 1\nlower.valid_batch_size = 7\n", false);
    ck_assert_uint_eq(often.state, run(_i, "engine.valid_step = 0\n", false).state);
    ck_assert_uint_eq(often.state, run(_i, "engine.log_step = 0\n", false).state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("determinism");
    TCase *tests = tcase_create("bits");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, same_seed_same_bits, 0, VARIANTS);
    tcase_add_loop_test(tests, another_seed_other_bits, 0, VARIANTS);
    tcase_add_loop_test(tests, without_a_plan, 0, VARIANTS);
    tcase_add_loop_test(tests, with_retraces, 0, VARIANTS);
    tcase_add_loop_test(tests, with_questions, 0, VARIANTS);
    tcase_add_loop_test(tests, with_other_validation, 0, VARIANTS);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* Bytes worked out by hand: parameters, gradients, optimiser state and saved activations of a classifier 784-100-10 on
 * batches of 100, exactly; the report is the same every time. */
#include "engine/session/session.h"
#include "support/vars.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT_STATUS(call) ck_assert_msg((call) == BT_OK, "%s", bt_error())

enum { BATCH = 100, PIXELS = 784, HIDDEN = 100, CLASSES = 10 };

static bt_dataset *images(bt_problem *self)
{
    (void)self;
    static float image[2 * BATCH * PIXELS];
    static int64_t label[2 * BATCH];
    for (int i = 0; i < 2 * BATCH * PIXELS; i++)
        image[i] = (float)(i % 251) / 251;
    for (int i = 0; i < 2 * BATCH; i++)
        label[i] = i % CLASSES;
    bt_dataset *data = bt_dataset_new(2 * BATCH);
    bt_dataset_add(data, "image", BT_ARRAY(image, 2 * BATCH, PIXELS));
    bt_dataset_add(data, "label", BT_ARRAY(label, 2 * BATCH));
    return data;
}

static bt_module *module(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_relu, PIXELS, HIDDEN, CLASSES);
}

static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "image")), bt_field(batch, "label")));
}

static const bt_problem_def classifier = {
    .name = "classifier", .configure_train_data = images, .configure_module = module, .training_step = step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&classifier}};

static bt_engine *engine_with(const char *optimizer, const char *momentum, const char *precision)
{
    bt_error_clear();
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &parts, NULL);
    bt_engine_set(engine, "engine.precision", "%s", precision);
    bt_engine_set(engine, "engine.threads", "1");
    bt_engine_set(engine, "classifier.batch_size", "%d", BATCH);
    bt_engine_set(engine, "classifier.optimizer", "%s", optimizer);
    if (momentum)
        bt_engine_set(engine, "classifier.momentum", "%s", momentum);
    bt_status status = bt_engine_setup(engine);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    return engine;
}

static bt_phase *step_phase(bt_engine *engine) { return bt_engine_problem(engine, "classifier")->step->phase; }

/* Bytes of the phase's values of this category, without rounding up to whole lines. */
static size_t of_category(const bt_phase *phase, bt_category category)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].category == category)
            bytes += phase->values[i].used;
    return bytes;
}

/* Each parameter begins at a multiple of 64 bytes: 784 * 100 * 4 = 313,600 is one; 100 * 4 becomes 448; 100 * 10 * 4
 * becomes 4,032; 10 * 4 becomes 64. */
enum { BLOCK32 = 313600 + 448 + 4032 + 64, BLOCK64 = 627200 + 832 + 8000 + 128 };

/* Besides its slots, an optimiser keeps its hyperparameters (sgd: lr, momentum, dampening, weight_decay; adam: lr,
 * beta1, beta2, eps, weight_decay) and the counts of updates applied and skipped: 8 bytes each. */
static const struct {
    const char *optimizer, *momentum, *precision;
    size_t block, slots, numbers;
} cases[] = {
    {"sgd", NULL, "fp32", BLOCK32, 0, 6},  {"sgd", "0.9", "fp32", BLOCK32, 1, 6},
    {"adam", NULL, "fp32", BLOCK32, 2, 7}, {"adamw", NULL, "fp32", BLOCK32, 2, 7},
    {"sgd", "0.9", "fp64", BLOCK64, 1, 6}, {"adam", NULL, "fp64", BLOCK64, 2, 7},
};

START_TEST(parameters_gradients_and_state)
{
    ck_assert_int_eq(BLOCK32, 318144);
    bt_engine *engine = engine_with(cases[_i].optimizer, cases[_i].momentum, cases[_i].precision);
    size_t kept[BT_CATEGORIES];
    bt_persistent_bytes(&engine->context, kept, bt_engine_problem(engine, "classifier"));
    ck_assert_uint_eq(kept[BT_PARAMETERS], cases[_i].block);
    ck_assert_uint_eq(kept[BT_OPTIMIZER], cases[_i].slots * cases[_i].block + 8 * cases[_i].numbers);
    ck_assert_uint_eq(kept[BT_GRADIENTS], 0); /* they are in the arena */
    ck_assert_uint_eq(of_category(step_phase(engine), BT_GRADIENTS), cases[_i].block);
    bt_engine_free(engine);
}
END_TEST

/* The backward pass reads from the forward pass: the hidden layer after relu, which also gives relu's own derivative,
 * and the logits. The images belong to the batch. */
START_TEST(saved_activations)
{
    bool wide = _i;
    bt_engine *engine = engine_with("sgd", "0.9", wide ? "fp64" : "fp32");
    bt_problem *problem = bt_engine_problem(engine, "classifier");
    size_t number = wide ? 8 : 4, expected = (BATCH * HIDDEN + BATCH * CLASSES) * number;
    ck_assert(wide || expected == 44000);
    bt_saved saved;
    ck_assert_int_eq(bt_phase_saved(problem->step->phase, problem->step->gradient.each[0], &saved), BT_OK);
    ck_assert_uint_eq(saved.held, expected);
    ck_assert_uint_eq(saved.all, expected);
    bt_engine_free(engine);
}
END_TEST

/* ---- the report is the same every time ---- */

typedef struct report {
    size_t arena, used, bound, kept;
} report;

static report report_of(bt_engine *engine)
{
    size_t kept[BT_CATEGORIES];
    const bt_phase *phase = step_phase(engine);
    return (report){phase->arena, phase->used, phase->bound, bt_persistent_bytes(&engine->context, kept, NULL)};
}

static report fresh(void)
{
    bt_engine *engine = engine_with("adam", NULL, "fp32");
    report result = report_of(engine);
    bt_engine_free(engine);
    return result;
}

static report in_child(void)
{
    int ends[2];
    report result = {0};
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        result = fresh();
        _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &result, sizeof result), sizeof result);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return result;
}

START_TEST(reports_agree)
{
    report first = fresh(), second = fresh(), child = in_child(), other_child = in_child();
    ck_assert(first.arena && first.used && first.bound && first.kept);
    ck_assert(first.bound <= first.arena && first.used <= first.arena);
    ck_assert_mem_eq(&first, &second, sizeof first);
    ck_assert_mem_eq(&first, &child, sizeof first);
    ck_assert_mem_eq(&first, &other_child, sizeof first);
}
END_TEST

/* The memory of an engine stays constant over many steps, and all of it is freed. */
START_TEST(live_bytes_stay)
{
    size_t before = bt_live_bytes();
    bt_engine *engine = engine_with("adam", NULL, "fp32");
    bt_problem *problem = bt_engine_problem(engine, "classifier");
    ck_assert_int_eq(bt_leaf_step(problem), BT_OK);
    size_t after = bt_live_bytes();
    ck_assert_uint_gt(after, before);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(bt_leaf_step(problem), BT_OK);
    ck_assert_uint_eq(bt_live_bytes(), after);
    bt_engine_free(engine);
    ck_assert_uint_eq(bt_live_bytes(), before);
}
END_TEST

/* ---- a plan without memory ---- */

/* As with memory, byte for byte; but there is no arena, no module values, and nothing can be run. */
START_TEST(a_dry_engine_plans_the_same)
{
    bt_engine *engine = engine_with("adam", NULL, "fp32"), *dry = bt_engine_new();
    EXPECT_STATUS(bt_engine_attach(dry, &(bt_front){.dry = true}));
    bt_engine_use(dry, &parts, NULL);
    bt_engine_set(dry, "engine.threads", "1");
    bt_engine_set(dry, "classifier.batch_size", "%d", BATCH);
    bt_engine_set(dry, "classifier.optimizer", "adam");
    EXPECT_STATUS(bt_engine_setup(dry));
    size_t kept[BT_CATEGORIES];
    ck_assert_uint_eq(bt_arena_planned(&dry->context), bt_arena_planned(&engine->context));
    ck_assert_uint_eq(bt_persistent_bytes(&dry->context, kept, NULL),
                      bt_persistent_bytes(&engine->context, kept, NULL));
    ck_assert_ptr_null(dry->context.instance->arena);
    ck_assert_ptr_nonnull(engine->context.instance->arena);
    const bt_problem *problem = bt_engine_problem(dry, "classifier");
    const float *weight = (const float *)(const void *)var_near(problem->module->params[0]->var);
    for (int i = 0; i < HIDDEN * PIXELS; i++)
        ck_assert_float_eq(weight[i], 0);
    ck_assert_int_eq(bt_phase_run(step_phase(dry), 0), BT_ERROR_INTERNAL);
    bt_error_clear();
    bt_engine_free(dry);
    bt_engine_free(engine);
}
END_TEST

/* ---- a short batch ---- */

static bt_module *decay(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(-5), 1);
}

static bt_tensor *decayed(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *rate = bt_sum(bt_exp(bt_forward(bt_peer(self, "penalty"))));
    return bt_add(step(self, batch), bt_mul(rate, bt_sum(bt_square(bt_params(self)))));
}

static bt_tensor *judged(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_square(bt_params(bt_peer(self, "classifier"))));
}

/* The upper step with conjugate gradients over batches of 150 of 200 images: the remaining 50 are dropped, or used. */
static size_t solve_arena(const char *drop_last)
{
    static const bt_problem_def lower = {.name = "classifier",
                                         .configure_train_data = images,
                                         .configure_module = module,
                                         .training_step = decayed},
                                upper = {.name = "penalty", .configure_module = decay, .training_step = judged};
    static const bt_export both = {.abi = BT_ABI, .problems = {&upper, &lower}};
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &both, NULL);
    bt_engine_set(engine, "engine.threads", "1");
    bt_engine_set(engine, "dependencies.u2l", "penalty > classifier");
    bt_engine_set(engine, "dependencies.l2u", "classifier > penalty");
    bt_engine_set(engine, "classifier.type", "cg");
    bt_engine_set(engine, "classifier.cg_iterations", "3");
    bt_engine_set(engine, "classifier.batch_size", "150");
    bt_engine_set(engine, "classifier.drop_last", "%s", drop_last);
    EXPECT_STATUS(bt_engine_setup(engine));
    size_t arena = bt_engine_problem(engine, "penalty")->step->phase->bound;
    bt_engine_free(engine);
    return arena;
}

/* A step solves on one of the two batches. For the short batch, which is second in the plan, the adjoint is kept
 * longer; the values that the loop over a whole batch keeps are not. */
START_TEST(a_short_batch_takes_no_activations)
{
    size_t adjoint = (PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES + 16) * sizeof(float);
    ck_assert_uint_le(solve_arena("false"), solve_arena("true") + bt_align_up(adjoint));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bytes");
    TCase *tests = tcase_create("bytes");
    tcase_add_loop_test(tests, parameters_gradients_and_state, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(tests, saved_activations, 0, 2);
    tcase_add_test(tests, a_dry_engine_plans_the_same);
    tcase_add_test(tests, a_short_batch_takes_no_activations);
    tcase_add_test(tests, reports_agree);
    tcase_add_test(tests, live_bytes_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

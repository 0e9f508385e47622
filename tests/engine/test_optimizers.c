/* tests/engine/test_optimizers.c: each optimiser in two levels: resumed, rolled back, with groups and frozen
 * parameters; the bytes of its state; which methods work with it. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 70, COLUMNS = 64, MANY = ROWS * COLUMNS };

static bt_module *lower_module(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "w", bt_init_normal(0, 1), ROWS, COLUMNS);
    bt_module_add_param(module, "b", bt_init_normal(0, 1), COLUMNS);
    return module;
}

static bt_module *table(bt_problem *self) { return (void)self, bt_nn_embedding(ROWS, COLUMNS); }

static bt_module *upper_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.3), 2);
}

static bt_status count_up(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double value = sin((double)index + 1);
    (void)self, (void)mode;
    return bt_batch_set(batch, "number", BT_ARRAY(&value, 1));
}

/* sum (e^l0 p^2 / 2 - number l1 p), whose scale varies widely */
static bt_tensor *bowl(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *lambda = bt_forward(bt_peer(self, "upper")), *p = bt_params(self);
    bt_tensor *curved = bt_mul(bt_exp(bt_at(lambda, 0)), bt_mul(0.5, bt_square(p)));
    bt_tensor *pull = bt_mul(bt_mul(bt_field(batch, "number"), bt_at(lambda, 1)), bt_sin(bt_mul(3, p)));
    return bt_sum(bt_sub(curved, pull));
}

static bt_tensor *far(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mean(bt_square(bt_sub(bt_params(bt_peer(self, "lower")), 0.2)));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_module = upper_module, .get_batch = count_up, .training_step = far};
static const bt_problem_def lower = {
    .name = "lower", .configure_module = lower_module, .get_batch = count_up, .training_step = bowl};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
static const bt_problem_def lower_table = {
    .name = "lower", .configure_module = table, .get_batch = count_up, .training_step = bowl};
static const bt_export with_table = {.abi = BT_ABI, .problems = {&upper, &lower_table}};

static bt_engine *engine_for(const bt_export *export, const char *settings)
{
    char lines[1000];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.precision = fp32\n"
             "engine.train_iters = 6\nupper.lr = 0.1\nlower.unroll_steps = 2\n%s",
             settings);
    return levels_engine(export, NULL, lines);
}

static bt_engine *engine_of(const char *settings) { return engine_for(&parts, settings); }

/* For each slot: the bytes of `w` and of `b`, in whole lines of 64. */
#define LIKE   (4 * (MANY + COLUMNS))
#define HALF   (2 * (MANY + COLUMNS))
#define BF16   "lower.optimizer_state = bf16\n"
#define CODES  (MANY + 4 * COLUMNS)
#define SCALES 128 /* 18 blocks */

static const struct {
    const char *settings;
    size_t bytes;
    int numbers;      /* of 8 bytes each: hyperparameters other than switches, updates applied and skipped */
    const char *sama; /* why sama does not work; NULL: it does */
} optimizers[] = {
    {"lower.optimizer = sgd\nlower.lr = 0.1\nlower.momentum = 0.9\n", LIKE, 6, NULL},
    {"lower.optimizer = adam\nlower.amsgrad = true\n", 3 * LIKE, 7, NULL},
    {"lower.optimizer = adamw\nlower.amsgrad = true\n", 3 * LIKE, 7, NULL},
    {"lower.optimizer = rmsprop\nlower.momentum = 0.5\nlower.centered = true\n", 3 * LIKE, 7, NULL},
    {"lower.optimizer = rmsprop\n", LIKE, 7, NULL},
    {"lower.optimizer = adagrad\n", LIKE, 7, NULL},
    {"lower.optimizer = lion\n", LIKE, 6, "which is 0 everywhere here"},
    {"lower.optimizer = radam\nlower.beta2 = 0.8\n", 2 * LIKE, 7, NULL},
    {"lower.optimizer = nadam\n", 2 * LIKE + 2 * 64, 8, NULL},
    {"lower.optimizer = adafactor\n", 320 + 256 + 256, 8, "mixes the elements of the gradient"},
    {"lower.optimizer = lamb\n", 2 * LIKE, 7, "mixes the elements of the gradient"},
    {"lower.optimizer = adam8bit\n", 2 * (CODES + SCALES), 7, NULL},
    {"lower.optimizer = adamw8bit\n", 2 * (CODES + SCALES), 7, NULL},
    {"lower.optimizer = lion8bit\n", CODES + SCALES, 6, "which is 0 everywhere here"},
    {"lower.optimizer = sgd\nlower.lr = 0.1\nlower.momentum = 0.9\n" BF16, HALF, 6, NULL},
    {"lower.optimizer = adam\n" BF16, 2 * HALF, 7, NULL},
    {"lower.optimizer = adamw\nlower.amsgrad = true\n" BF16, 3 * HALF, 7, NULL},
    {"lower.optimizer = lion\n" BF16, HALF, 6, "which is 0 everywhere here"},
    {"lower.optimizer = adafactor\n" BF16, 192 + 128 + 128, 8, "mixes the elements of the gradient"},
};
enum { COUNT = sizeof optimizers / sizeof *optimizers };

START_TEST(bytes_of_state)
{
    bt_engine *engine = engine_of(optimizers[_i].settings);
    EXPECT_OK(bt_engine_setup(engine));
    size_t kept[BT_CATEGORIES];
    bt_persistent_bytes(&engine->context, kept, bt_engine_problem(engine, "lower"));
    ck_assert_msg(kept[BT_OPTIMIZER] == optimizers[_i].bytes + 8 * (size_t)optimizers[_i].numbers, "%s: %zu, due %zu",
                  optimizers[_i].settings, kept[BT_OPTIMIZER],
                  optimizers[_i].bytes + 8 * (size_t)optimizers[_i].numbers);
    bt_engine_free(engine);
}
END_TEST

static bt_engine *make(void *settings) { return engine_of(settings); }

/* The peak of live bytes while the update runs. */
static size_t most_in_update(const bt_phase *phase, int entry)
{
    const int64_t from = phase->entries[entry].base, to = from + phase->entries[entry].program->step_count;
    size_t most = 0;
    for (int64_t s = from; s < to; s++) {
        size_t alive = 0;
        for (int64_t i = 0; i < phase->value_count; i++)
            alive += bt_phase_lives(phase, i, s) ? phase->intervals[i].bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

/* Besides the gradient, an update has numbers, rows and columns, but no other matrix: it works in place of the
 * gradient. Only PyTorch's form of adafactor needs one. */
START_TEST(no_matrix_beside_the_gradient)
{
    static const char *const forms[] = {"sgd\nlower.momentum = 0.9\nlower.lr = 0.1",
                                        "adam",
                                        "adam\nlower.amsgrad = true",
                                        "rmsprop\nlower.centered = true",
                                        "adagrad",
                                        "lion",
                                        "radam",
                                        "nadam",
                                        "lamb",
                                        "adafactor",
                                        "adam8bit",
                                        "lion8bit",
                                        "adafactor\nlower.relative_step = false\nlower.lr = 0.01"};
    char settings[200];
    snprintf(settings, sizeof settings, "lower.optimizer = %s\n", forms[_i]);
    bt_engine *engine = engine_of(settings);
    EXPECT_OK(bt_engine_setup(engine));
    const bt_problem *problem = bt_engine_problem(engine, "lower");
    const size_t most = most_in_update(problem->step->phase, problem->step->update);
    ck_assert_msg(most >= LIKE && most < LIKE * (_i == 12 ? 2 : 1) + MANY, "%s: %zu bytes, the gradient has %d",
                  forms[_i], most, LIKE);
    bt_engine_free(engine);
}
END_TEST

/* An embedding's table keeps its state in 32 bits: the same slots as adam and lion, without scales. */
START_TEST(a_table_has_no_codes)
{
    static const char *const pairs[3][2] = {{"adam8bit", "adam"}, {"adamw8bit", "adamw"}, {"lion8bit", "lion"}};
    size_t bytes[2];
    for (int k = 0; k < 2; k++) {
        char settings[64];
        snprintf(settings, sizeof settings, "lower.optimizer = %s\n", pairs[_i][k]);
        bt_engine *engine = engine_for(&with_table, settings);
        ck_assert_msg(engine != NULL, "%s", bt_error());
        ck_assert_msg(bt_engine_setup(engine) == BT_OK, "%s", bt_error());
        const bt_problem *problem = bt_engine_problem(engine, "lower");
        bytes[k] = 0;
        for (int s = 0; s < bt_optimizer_slot_count(problem->optimizer); s++)
            bytes[k] += problem->slots[s].flat ? problem->slots[s].flat->bytes : 0;
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(bytes[0], bytes[1]);
    ck_assert_uint_eq(bytes[1], (_i < 2 ? 8 : 4) * MANY);
}
END_TEST

START_TEST(resumes)
{
    static const char *const extras[] = {
        "", "engine.roll_back = true\nlower.scheduler = cosine\n",
        "lower.gradient_clipping = 0.5\nlower.bias.params = b\nlower.bias.weight_decay = 0.1\n",
        "lower.trainable = w\n"};
    for (int e = 0; e < (int)(sizeof extras / sizeof *extras); e++) {
        char settings[500];
        snprintf(settings, sizeof settings, "%s%s", optimizers[_i].settings, extras[e]);
        levels_expect_resumes(make, settings, 6);
    }
}
END_TEST

/* The state matters: a run differs if it is cleared. */
START_TEST(state_matters)
{
    uint64_t end[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = engine_of(optimizers[_i].settings);
        levels_step(engine, 3);
        bt_problem *problem = bt_engine_problem(engine, "lower");
        for (int s = 0; k && s < BT_MAX_ITEMS && problem->slots[s].flat; s++)
            ck_assert_int_eq(bt_store_clear(NULL, problem->slots[s].flat), BT_OK);
        levels_step(engine, 2);
        end[k] = levels_hash(engine, "lower");
        bt_engine_free(engine);
    }
    ck_assert(end[0] != end[1]);
}
END_TEST

START_TEST(sama)
{
    char settings[400];
    snprintf(settings, sizeof settings, "%slower.type = sama\n", optimizers[_i].settings);
    bt_engine *engine = engine_of(settings);
    if (optimizers[_i].sama)
        levels_expect_error(engine, "type = sama needs", optimizers[_i].sama, NULL);
    else {
        levels_run(engine);
        bt_engine_free(engine);
    }
}
END_TEST

/* The slope of the first step is Adam's own; later ones differ by the error of 8 bits. */
START_TEST(sama_of_adam_in_8_bits)
{
    double found[2][2];
    for (int k = 0; k < 2; k++) {
        char settings[300];
        snprintf(settings, sizeof settings,
                 "lower.type = sama\nlower.optimizer = %s\nlower.lr = 0.01\nlower.unroll_steps = 1000\n",
                 k ? "adam" : "adam8bit");
        bt_engine *engine = engine_of(settings);
        levels_step(engine, _i);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found[k], 2)));
        bt_engine_free(engine);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq_tol(found[0][i] / found[1][i], 1, _i == 1 ? 1e-6 : 0.05);
}
END_TEST

static const char *const coded[] = {"adam8bit", "adamw8bit", "lion8bit"};

START_TEST(itd_goes_through_no_codes)
{
    char settings[200], due[100];
    snprintf(settings, sizeof settings, "lower.type = itd\nlower.optimizer = %s\n", coded[_i]);
    snprintf(due, sizeof due, "optimizer = %s keeps `m` as u8", coded[_i]);
    levels_expect_error(engine_of(settings), "[lower] type = itd", due, "as adam or sgd", NULL);
}
END_TEST

/* Settings that relative steps do not use. */
START_TEST(adafactor_is_told_one_rate)
{
    levels_expect_error(engine_of("lower.optimizer = adafactor\nlower.lr = 0.1\n"), "lr is 0.1", "relative_step", NULL);
    levels_expect_error(engine_of("lower.optimizer = adafactor\nlower.relative_step = false\nlower.lr = 0.1\n"
                                  "lower.warmup_init = true\n"),
                        "warmup_init works only with relative_step = true", NULL);
    bt_engine *engine = engine_of("lower.optimizer = adafactor\nlower.relative_step = false\nlower.lr = 0.1\n");
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizers");
    TCase *tests = tcase_create("optimizers");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, bytes_of_state, 0, COUNT);
    tcase_add_loop_test(tests, no_matrix_beside_the_gradient, 0, 13);
    tcase_add_loop_test(tests, a_table_has_no_codes, 0, 3);
    tcase_add_loop_test(tests, resumes, 0, COUNT);
    tcase_add_loop_test(tests, state_matters, 0, COUNT);
    tcase_add_loop_test(tests, sama, 0, COUNT);
    tcase_add_loop_test(tests, sama_of_adam_in_8_bits, 1, 4);
    tcase_add_loop_test(tests, itd_goes_through_no_codes, 0, 3);
    tcase_add_test(tests, adafactor_is_told_one_rate);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

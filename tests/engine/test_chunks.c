/* tests/engine/test_chunks.c: `chunks`: two levels give the same results if their logits come in chunks of rows; and
 * the bytes of a head with 10,000 classes.
 *
 * The lower level is a network with 24 classes, whose losses the upper level weighs by class; the upper loss uses the
 * same network, so the lower level's `chunks` applies there, too. */
#include "levels.h"

#include "engine/session/front.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 18, SIZE = 4, CLASSES = 24 };

static bt_dataset *rows(bt_problem *self, uint64_t stream)
{
    double x[ROWS * SIZE];
    int64_t y[ROWS];
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = 2 * bt_host_uniform(11, stream, (uint64_t)i) - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = (int64_t)(CLASSES * bt_host_uniform(11, stream + 1, (uint64_t)i));
    (void)self;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, SIZE));
    bt_dataset_add(data, "label", BT_ARRAY(y, ROWS));
    return data;
}

static bt_dataset *some_rows(bt_problem *self) { return rows(self, 0); }
static bt_dataset *other_rows(bt_problem *self) { return rows(self, 2); }

static bt_module *network(bt_problem *self)
{
    return bt_nn_mlp(bt_relu, SIZE, bt_option_bool(self, "wide", false) ? 200 : 5, CLASSES);
}

static bt_module *shares(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.2), CLASSES); }

static bt_tensor *losses(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(bt_peer(self, "lower"), bt_field(batch, "x")), *label = bt_field(batch, "label");
    bt_metric(self, "accuracy", bt_accuracy(logits, label));
    return bt_cross_entropy(logits, label);
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *share = bt_sigmoid(bt_gather(bt_forward(bt_peer(self, "upper")), bt_field(batch, "label")));
    return bt_add(bt_mean(bt_mul(share, losses(self, batch))), bt_mul(0.05, bt_sum(bt_square(bt_params(self)))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = other_rows, .configure_module = shares, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = some_rows,
                                     .configure_valid_data = other_rows,
                                     .configure_module = network,
                                     .training_step = lower_step,
                                     .validation_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const struct {
    const char *settings;
    double within; /* in double precision */
} methods[] = {
    {"lower.type = darts\n", 1e-12},
    {"lower.type = darts\nlower.product = vjp\n", 1e-12},
    {"lower.type = darts\nlower.product = finite\n", 1e-9}, /* rounding, over the step of the difference */
    {"lower.type = cg\nlower.cg_iterations = 3\nlower.cg_damping = 0.1\n", 1e-12},
    {"lower.type = itd\nlower.unroll_steps = 2\n", 1e-12},
    {"lower.type = sama\n", 1e-12},
    {"lower.type = penalty\nlower.penalty_lambda = 10\n", 1e-12},
    {"lower.type = darts\nlower.gradient_accumulation = 2\nlower.batch_size = 9\n", 1e-12},
};

enum {
    METHODS = sizeof methods / sizeof *methods,
    PARAMS = SIZE * 5 + 5 + 5 * CLASSES + CLASSES,
    ALL = PARAMS + CLASSES + 3
};

static void run(int method, const char *precision, const char *chunks, double *values)
{
    char lines[900];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.log_step = 1\n"
             "engine.train_iters = 4\nengine.valid_step = 2\nlower.lr = 0.2\nupper.lr = 0.5\nlower.batch_size = 18\n"
             "upper.batch_size = 18\nlower.optimizer = sgd\nengine.precision = %s\nlower.chunks = %s\n%s",
             precision, chunks, methods[method].settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    levels_run(engine);
    const char *warnings = bt_text_get(&engine->context.warnings);
    ck_assert_msg(!strstr(warnings, "chunks") && !strstr(warnings, "gradient_accumulation"), "%s", warnings);
    levels_params(engine, "lower", values, PARAMS);
    levels_params(engine, "upper", values + PARAMS, CLASSES);
    values[ALL - 3] = bt_engine_metric(engine, "lower.loss");
    values[ALL - 2] = bt_engine_metric(engine, "lower.valid.loss");
    values[ALL - 1] = bt_engine_metric(engine, "lower.valid.accuracy");
    bt_engine_free(engine);
}

START_TEST(in_pieces_it_is_the_same)
{
    static const char *const counts[] = {"2", "5", "18", "auto"};
    const int method = _i / 2, single = _i % 2;
    const char *precision = single ? "fp32" : "fp64";
    double whole[ALL], pieces[ALL], within = single ? 1e-6 : methods[method].within, largest = 0;
    if (single && strstr(methods[method].settings, "finite"))
        return; /* the error of the finite difference alone is larger */
    run(method, precision, "1", whole);
    for (int k = 0; k < ALL; k++)
        largest = fmax(largest, fabs(whole[k]));
    for (int c = 0; c < 4; c++) {
        run(method, precision, counts[c], pieces);
        for (int k = 0; k < ALL; k++)
            ck_assert_msg(fabs(whole[k] - pieces[k]) <= within * largest, "%s%s pieces: [%d]: %.17g, %.17g",
                          methods[method].settings, counts[c], k, whole[k], pieces[k]);
    }
}
END_TEST

/* ---- bytes: 5,120 tokens, 10,000 classes, width 20, as in a language model ---- */

enum { TOKENS = 5120, WORDS = 10000, WIDTH = 20 };

static bt_dataset *tokens(bt_problem *self)
{
    static float x[TOKENS * WIDTH];
    static int32_t y[TOKENS];
    (void)self;
    bt_dataset *data = bt_dataset_new(TOKENS);
    bt_dataset_add(data, "x", BT_ARRAY(x, TOKENS, WIDTH));
    bt_dataset_add(data, "label", BT_ARRAY(y, TOKENS));
    return data;
}

static bt_module *language(bt_problem *self) { return (void)self, bt_nn_mlp(bt_relu, WIDTH, WIDTH, WORDS); }

static bt_tensor *word_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "label")));
}

static const bt_problem_def words = {
    .name = "words", .configure_train_data = tokens, .configure_module = language, .training_step = word_step};
static const bt_export head = {.abi = BT_ABI, .problems = {&words}};

static bt_engine *planned(const char *precision, const char *chunks)
{
    char lines[200];
    snprintf(lines, sizeof lines,
             "engine.precision = %s\nwords.batch_size = 5120\nwords.chunks = %s\nengine.threads = 1\n", precision,
             chunks);
    bt_engine *engine = levels_engine(&head, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_attach(engine, &(bt_front){.reports = true, .dry = true}));
    EXPECT_OK(bt_engine_setup(engine));
    return engine;
}

/* The logits of one chunk, overwritten by their gradient; also the gradients of 212,420 parameters, a second one of the
 * head's weights, both hidden values, losses: 2.5 MB. auto: the largest number of chunks. */
START_TEST(bytes_of_a_head)
{
    static const char *const counts[] = {"1", "8", "16", "32", "auto", "7", "30"}; /* the last two: uneven */
    static const int64_t pieces[] = {1, 8, 16, 32, 64, 7, 30};
    bt_engine *engine = planned("fp32", counts[_i]);
    const int64_t arena = (int64_t)bt_engine_problem(engine, "words")->step->phase->arena;
    const int64_t logits = (TOKENS + pieces[_i] - 1) / pieces[_i] * WORDS * 4;
    ck_assert_msg(arena >= logits && arena <= logits + 3000000, "%s pieces: %lld bytes, %lld of logits", counts[_i],
                  (long long)arena, (long long)logits);
    bt_engine_free(engine);
}
END_TEST

/* The head's gradient is f32 and summed in place, chunk by chunk: no 16-bit gradient has to wait for the others. */
START_TEST(fewer_in_16_bits)
{
    static const char *const counts[] = {"1", "8", "16"}, *const precisions[] = {"fp32", "bf16", "fp16"};
    int64_t arena[3];
    for (int p = 0; p < 3; p++) {
        bt_engine *engine = planned(precisions[p], counts[_i]);
        arena[p] = (int64_t)bt_engine_problem(engine, "words")->step->phase->arena;
        bt_engine_free(engine);
    }
    ck_assert_msg(arena[1] < arena[0] && arena[2] < arena[0], "%s pieces: %lld bytes, %lld, %lld", counts[_i],
                  (long long)arena[0], (long long)arena[1], (long long)arena[2]);
}
END_TEST

/* Each chunk rounds the head's weights again: only one rounded copy exists at a time, however many chunks there are. */
START_TEST(more_pieces_take_no_more)
{
    static const char *const counts[] = {"8", "16", "32", "64"}, *const precisions[] = {"fp32", "bf16", "fp16"};
    int64_t before = INT64_MAX;
    for (int k = 0; k < 4; k++) {
        bt_engine *engine = planned(precisions[_i], counts[k]);
        const int64_t arena = (int64_t)bt_engine_problem(engine, "words")->step->phase->arena;
        ck_assert_msg(arena <= before, "%s pieces: %lld bytes, with fewer %lld", counts[k], (long long)arena,
                      (long long)before);
        before = arena;
        bt_engine_free(engine);
    }
}
END_TEST

/* Logits that are small compared with the rest are not split; but there is no warning that the key has no effect. */
START_TEST(small_heads_stay)
{
    size_t bytes[2];
    for (int k = 0; k < 2; k++) {
        char lines[300];
        snprintf(lines, sizeof lines,
                 "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 18\n"
                 "upper.batch_size = 18\nlower.wide = true\nlower.chunks = %s\n",
                 k ? "auto" : "1");
        bt_engine *engine = levels_engine(&parts, NULL, lines);
        ck_assert_msg(engine != NULL, "%s", bt_error());
        EXPECT_OK(bt_engine_setup(engine));
        bytes[k] = bt_engine_problem(engine, "lower")->step->phase->arena;
        ck_assert(!strstr(bt_text_get(&engine->context.warnings), "chunks"));
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(bytes[0], bytes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chunks");
    TCase *tests = tcase_create("pieces");
    tcase_add_loop_test(tests, in_pieces_it_is_the_same, 0, 2 * METHODS);
    tcase_add_loop_test(tests, bytes_of_a_head, 0, 7);
    tcase_add_loop_test(tests, fewer_in_16_bits, 0, 3);
    tcase_add_loop_test(tests, more_pieces_take_no_more, 0, 3);
    tcase_add_test(tests, small_heads_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_prune.c: pruning: the scheduled number of weights is 0, the smallest ones first; they stay 0,
 * whatever the optimiser keeps; a resumed run has the same bits; and derivatives through a solution take it into
 * account. */
#include "levels.h"

#include "engine/level/prune.h"
#include "engine/session/session.h"
#include "runtime/store.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, SIZE = 5, HIDDEN = 7, WEIGHTS = SIZE * HIDDEN + HIDDEN, PARAMS = WEIGHTS + HIDDEN + 1 };

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS * SIZE], y[ROWS];
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = 2 * bt_host_uniform(3, 0, (uint64_t)i) - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = bt_host_uniform(3, 1, (uint64_t)i);
    (void)self;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, SIZE));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_module *net(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, SIZE, HIDDEN, 1); }
static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.1)); }

static bt_tensor *fit(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *guess = bt_squeeze(bt_forward(bt_peer(self, "lower"), bt_field(batch, "x")), 1);
    return bt_mean(bt_mse(guess, bt_field(batch, "y")));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "upper")));
    return bt_add(fit(self, batch), bt_mul(0.05, bt_mul(strength, bt_sum(bt_square(bt_params(self))))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = number, .training_step = fit};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = lower_step};
static const bt_problem_def narrow = {
    .name = "lower", .configure_train_data = rows, .configure_module = number, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}},
                       vectors = {.abi = BT_ABI, .problems = {&upper, &narrow}};

#define LINES                                                                                                          \
    "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.log_step = 0\nlower.batch_size = 12\n" \
    "upper.batch_size = 12\nlower.lr = 0.05\nlower.prune = 0.9\nlower.prune_begin = 2\nlower.prune_end = 8\n"

static bt_engine *engine_of(const char *settings)
{
    char lines[900];
    snprintf(lines, sizeof lines, LINES "%s", settings);
    return levels_engine(&parts, NULL, lines);
}

static int zeros(bt_engine *engine, double *weights)
{
    int count = 0;
    levels_params(engine, "lower", weights, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        count += weights[i] == 0;
    return count;
}

/* s_f + (s_i - s_f) (1 - (t - t0) / T)^3 from 0 to .9: half way .7875. */
static int due(int step)
{
    static const double parts_of_9[] = {
        0, 0, 0, 0.37916666666666665, 0.6333333333333333, 0.7875, 0.8666666666666667, 0.8958333333333334, 0.9};
    return (int)lround(parts_of_9[step < 8 ? step : 8] * WEIGHTS);
}

START_TEST(as_many_as_are_due)
{
    static const char *const optimizers[] = {"lower.optimizer = sgd\nlower.momentum = 0.9\nlower.weight_decay = 0.1\n",
                                             "lower.optimizer = adam\n", "lower.optimizer = adam8bit\n",
                                             "lower.optimizer = lion\nlower.lr = 0.01\n"};
    bt_engine *engine = engine_of(optimizers[_i]);
    double before[PARAMS], after[PARAMS];
    bool gone[PARAMS] = {false};
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    zeros(engine, before);
    for (int step = 1; step <= 12; step++) {
        levels_step(engine, 1);
        ck_assert_int_eq(zeros(engine, after), due(step));
        for (int i = 0; i < PARAMS; i++) {
            ck_assert(!gone[i] || after[i] == 0);
            gone[i] |= after[i] == 0;
        }
    }
    bt_problem *problem = bt_engine_problem(engine, "lower");
    for (int64_t p = 0; p < problem->module->param_count; p++) {
        const bt_slate *param = problem->module->params[p];
        ck_assert(!problem->masks.windows[p] == (param->shape.rank < 2));
        for (int64_t e = 0; _i != 2 && e < bt_array_count(param->shape); e++)
            for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++) {
                double slot, value;
                EXPECT_OK(bt_store_get(engine->context.instance, problem->slots[k].windows[p], e, &slot));
                EXPECT_OK(bt_store_get(engine->context.instance, param->var, e, &value));
                if (problem->masks.windows[p] && value == 0)
                    ck_assert_double_eq(slot, 0);
            }
    }
    size_t kept = 0;
    for (int64_t p = 0; p < problem->module->param_count; p++)
        kept += problem->masks.windows[p] ? problem->masks.windows[p]->bytes : 0;
    ck_assert_uint_eq(kept, 5 + 1); /* 35 bits and 7 */
    bt_engine_free(engine);
}
END_TEST

START_TEST(the_plan_says_so)
{
    bt_engine *engine = engine_of("");
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    ck_assert(engine && file);
    EXPECT_OK(bt_engine_print(engine, BT_PLAN, file));
    fclose(file);
    ck_assert_msg(strstr(text, "0.9  of the weights at the end, which saves no memory during training") != NULL, "%s",
                  text);
    free(text);
    bt_engine_free(engine);
}
END_TEST

/* With a rate that moves nothing, the smallest initial weights are pruned first. */
START_TEST(the_smallest_go_first)
{
    bt_engine *engine = engine_of("lower.optimizer = sgd\nlower.lr = 1e-300\n");
    double before[PARAMS], after[PARAMS], largest = 0, least = 1e300;
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    zeros(engine, before);
    levels_step(engine, 4);
    zeros(engine, after);
    for (int i = 0; i < PARAMS; i++) {
        const bool bias = (i >= SIZE * HIDDEN && i < SIZE * HIDDEN + HIDDEN) || i == PARAMS - 1;
        if (after[i] == 0)
            largest = fmax(largest, fabs(before[i]));
        else if (!bias)
            least = fmin(least, fabs(before[i]));
        ck_assert(!bias || after[i] != 0);
    }
    ck_assert_double_lt(largest, least);
    bt_engine_free(engine);
}
END_TEST

static bt_engine *half_way(void *user) { return (void)user, engine_of("lower.optimizer = adam\nlower.type = cg\n"); }

START_TEST(resumes) { levels_expect_resumes(half_way, NULL, 7); }
END_TEST

/* The x of a damped solve is 0 where the solution cannot move. */
START_TEST(no_part_of_the_solution)
{
    static const char *const types[] = {"cg", "neumann", "nystrom", "darts"};
    char lines[200];
    snprintf(lines, sizeof lines, "lower.optimizer = sgd\nlower.type = %s\n%s", types[_i],
             _i == 2 ? "lower.nystrom_rank = 42\nlower.nystrom_rho = 0.1\n" : "");
    bt_engine *engine = engine_of(lines);
    levels_step(engine, 8);
    double weights[PARAMS], x[PARAMS], some = 0;
    ck_assert_int_gt(zeros(engine, weights), 30);
    EXPECT_OK(bt_solution(bt_engine_problem(engine, "upper"), bt_engine_problem(engine, "lower"), false,
                          BT_ARRAY(x, PARAMS)));
    for (int i = 0; i < PARAMS; i++) {
        ck_assert(weights[i] != 0 || x[i] == 0);
        some += fabs(x[i]);
    }
    ck_assert_double_gt(some, 0);
    bt_engine_free(engine);
}
END_TEST

/* ---- errors ---- */

START_TEST(refused)
{
    static const struct {
        const bt_export *problems;
        const char *lines, *message;
    } cases[] = {{&vectors, "", "no parameter with two axes"},
                 {&parts, "lower.trainable = *.bias\n", "no parameter with two axes"},
                 {&parts, "lower.prune_begin = 8\n", "must be above prune_begin"},
                 {&parts, "lower.type = itd\n", "differentiates through the steps"},
                 {&parts, "lower.prune = 1.5\n", "from 0 to 1"}};
    char lines[900];
    snprintf(lines, sizeof lines, LINES "%s", cases[_i].lines);
    levels_expect_error(levels_engine(cases[_i].problems, NULL, lines), "prune", cases[_i].message, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prune");
    TCase *tests = tcase_create("weights");
    tcase_add_loop_test(tests, as_many_as_are_due, 0, 4);
    tcase_add_test(tests, the_plan_says_so);
    tcase_add_test(tests, the_smallest_go_first);
    tcase_add_test(tests, resumes);
    tcase_add_loop_test(tests, no_part_of_the_solution, 0, 4);
    tcase_add_loop_test(tests, refused, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

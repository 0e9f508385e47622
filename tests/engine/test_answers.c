/* Requests of a program to an engine: the check of its hypergradients, its memory, batches for its problems.
 *
 *   lower  C(w) = |w|^2 - lambda w     upper  F = |w - 1|^2 / 2: with cg, exact at the solution */
#include "levels.h"

#include "engine/level/level.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 3 };

typedef struct world {
    bool detaches;     /* the upper loss does not see w move */
    bt_engine *engine; /* the engine to ask in the middle of a step */
    bt_status asked;
} world;

static bt_status no_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double zero = 0;
    (void)mode, (void)index;
    world *w = bt_user(self);
    if (w->engine) {
        bt_check_result_free(bt_engine_check(w->engine, NULL, 1));
        double values[SIZE];
        w->asked = bt_engine_read(w->engine, "lower.0", BT_ARRAY(values, SIZE));
        bt_error_clear();
    }
    return bt_batch_set(batch, "zero", BT_ARRAY(&zero));
}

static bt_module *values_of(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_module_new(NULL);
    bt_module_add_param(net, "v", bt_init_constant(0.25), SIZE);
    return net;
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_param(self, "v"), *lambda = bt_param(bt_peer(self, "upper"), "v");
    return bt_sub(bt_sum(bt_square(w)), bt_sum(bt_mul(lambda, w)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    const world *world = bt_user(self);
    bt_tensor *w = bt_param(bt_peer(self, "lower"), "v");
    bt_tensor *away = bt_square(bt_sub(w, 1));
    if (world->detaches)
        away = bt_mul(bt_detach(bt_sub(w, 1)), bt_sub(w, 1));
    return bt_mul(0.5, bt_sum(away));
}

static const bt_problem_def upper = {
    .name = "upper", .get_batch = no_batch, .configure_module = values_of, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .get_batch = no_batch, .configure_module = values_of, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(world *world, const char *more)
{
    char lines[600];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 40\n"
             "lower.lr = 0.4\nlower.unroll_steps = 20\nlower.type = cg\nupper.lr = 0.1\n%s",
             more);
    return levels_engine(&parts, world, lines);
}

START_TEST(the_check_as_structs)
{
    world world = {0};
    bt_engine *engine = engine_of(&world, "");
    EXPECT_OK(bt_engine_run_to(engine, 7));
    uint64_t before = levels_state(engine);
    bt_check_result *result = bt_engine_check(engine, NULL, 2);
    ck_assert_msg(result != NULL, "%s", bt_error());
    ck_assert_int_eq(result->count, 1);
    const bt_check_level_result *level = &result->levels[0];
    ck_assert_str_eq(level->level, "upper");
    ck_assert_msg(level->verdict == BT_AGREES, "%s", level->text);
    ck_assert_double_eq_tol(level->cosine, 1, 1e-6);
    ck_assert_double_eq_tol(level->ratio, 1, 1e-4);
    ck_assert_int_eq(level->lower_count, 1);
    ck_assert_str_eq(level->lowers[0].level, "lower");
    ck_assert_str_eq(level->lowers[0].method, "cg");
    ck_assert_double_eq_tol(level->lowers[0].cosine, 1, 1e-6);
    ck_assert_int_gt(level->part_count, 2);
    for (int64_t i = 0; i < level->part_count; i++) {
        ck_assert_str_eq(level->parts[i].cause, "none");
        ck_assert_double_lt(level->parts[i].error, 1e-4);
    }
    bt_check_result_free(result);
    ck_assert_uint_eq(levels_state(engine), before);
    ck_assert_ptr_null(bt_engine_check(engine, "lower", 1));
    ck_assert_ptr_nonnull(strstr(bt_error(), "there is no upper level lower"));
    bt_error_clear();
    EXPECT_OK(bt_engine_run(engine));
    bt_engine_free(engine);
}
END_TEST

START_TEST(verdicts)
{
    world world = {.detaches = true};
    bt_engine *engine = engine_of(&world, "");
    bt_check_result *result = bt_engine_check(engine, "upper", 0);
    ck_assert_msg(result != NULL, "%s", bt_error());
    ck_assert_str_eq(bt_error(), "");
    ck_assert_msg(result->levels[0].verdict == BT_DISAGREES, "%s", result->levels[0].text);
    ck_assert_ptr_nonnull(strstr(result->levels[0].text, "detaches values"));
    bool found = false;
    for (int64_t i = 0; i < result->levels[0].part_count; i++)
        found |= strcmp(result->levels[0].parts[i].cause, "rule") == 0 && result->levels[0].parts[i].error > 0.1;
    ck_assert(found);
    bt_check_result_free(result);
    bt_engine_free(engine);

    world.detaches = false;
    engine = engine_of(&world, "lower.type = darts\n"); /* x = v in place of v / 2 */
    result = bt_engine_check(engine, NULL, 0);
    ck_assert_msg(result->levels[0].verdict == BT_APPROXIMATION, "%s", result->levels[0].text);
    ck_assert_double_eq_tol(result->levels[0].ratio, 2, 1e-4);
    ck_assert_double_eq_tol(result->levels[0].lowers[0].ratio, 2, 1e-4);
    bt_check_result_free(result);
    bt_engine_free(engine);
}
END_TEST

START_TEST(within_a_step)
{
    world world = {0};
    bt_engine *engine = engine_of(&world, "");
    EXPECT_OK(bt_engine_run_to(engine, 1));
    world.engine = engine;
    EXPECT_OK(bt_engine_run_to(engine, 2));
    ck_assert_int_eq(world.asked, BT_ERROR_ARGUMENT);
    bt_engine_free(engine);
}
END_TEST

/* Parameters of 3 doubles take one cache line; sgd's momentum another. */
START_TEST(memory)
{
    world world = {0};
    bt_engine *engine = engine_of(&world, "lower.momentum = 0.9\n");
    bt_memory_table *table = bt_engine_memory(engine);
    ck_assert_msg(table != NULL, "%s", bt_error());
    size_t kept = 0, parameters = 0, phases = 0;
    for (int64_t i = 0; i < table->count; i++) {
        const bt_memory_row *row = &table->rows[i];
        if (row->phase) {
            phases += row->bytes;
            ck_assert_uint_le(row->bytes, table->arena);
            continue;
        }
        kept += row->bytes;
        if (strcmp(row->level, "lower") == 0 && strcmp(row->category, bt_category_name(BT_PARAMETERS)) == 0)
            parameters = row->bytes;
    }
    ck_assert_uint_eq(parameters, 64);
    ck_assert_uint_eq(kept, table->persistent);
    ck_assert_uint_gt(phases, 0);
    ck_assert_uint_le(table->arena_used, table->arena);
    bt_memory_table_free(table);
    bt_engine_free(engine);
}
END_TEST

static bt_tensor *sum_of(bt_problem *self, const bt_batch *batch)
{
    (void)self;
    return bt_sum(bt_field(batch, "x"));
}

/* 1/3 in double precision, which a float would lose. */
START_TEST(batches_in_the_precision_of_the_problem)
{
    world world = {0};
    const double third[2] = {1.0 / 3, 1.0 / 3};
    bt_engine *engine = engine_of(&world, "");
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "x", BT_ARRAY(third, 2));
    bt_loader *loader = bt_loader_for(bt_engine_problem(engine, "lower"), data, 1, 1);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    const bt_batch *batch;
    double sum = 0;
    EXPECT_OK(bt_loader_next(loader, &batch));
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), sum_of, batch, BT_ARRAY(&sum)));
    ck_assert_double_eq(sum, 1.0 / 3);
    bt_loader_free(loader);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("answers");
    tcase_add_test(tests, the_check_as_structs);
    tcase_add_test(tests, verdicts);
    tcase_add_test(tests, within_a_step);
    tcase_add_test(tests, memory);
    tcase_add_test(tests, batches_in_the_precision_of_the_problem);
    Suite *suite = suite_create("answers");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

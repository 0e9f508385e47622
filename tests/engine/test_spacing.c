/* tests/engine/test_spacing.c: itd_spacing = auto: chooses the smallest spacing between the kept states of an inner
 * loop that meets a budget: compared with every fixed spacing. No bit changes. */
#include "decayed.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "engine/solve/trajectory.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, LOOP = 9, PARAMS = 4096, WHOLE = 0, OWN = 1 };

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(bt_adaptive_avg_pool2d(x, 2, 2), bt_dim(x, 0), -1); }

static bt_module *mlp(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_fn(as_rows), bt_nn_linear(4 * DECAYED_CHANNELS, 24), bt_nn_fn(bt_tanh),
                            bt_nn_linear(24, DECAYED_CLASSES));
}

static const bt_problem_def upper = DECAYED_UPPER(images), lower = DECAYED_LOWER(images, mlp);
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
static const char *const keys[] = {"engine.memory_budget", "lower.memory_budget"};

/* budget: 0: none. */
static bt_engine *engine_of(const char *spacing, int key, size_t budget, const char *more)
{
    char lines[1024], last[64] = "";
    if (budget)
        snprintf(last, sizeof last, "%s = %zu\n", keys[key], budget);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 12\n"
             "lower.lr = 0.05\nlower.momentum = 0.9\nupper.lr = 0.1\nupper.batch_size = 12\nengine.threads = 1\n"
             "lower.type = itd\nlower.unroll_steps = %d\nlower.itd_spacing = %s\n%s%s",
             LOOP, spacing, more, last);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static int64_t spacing_of(bt_engine *engine) { return bt_engine_problem(engine, "lower")->trajectory->spacing; }

/* The bytes that count in the budget of that key. */
static size_t planned(bt_engine *engine, int key)
{
    const bt_instance *instance = engine->context.instance;
    size_t categories[BT_CATEGORIES], most = 0;
    const bt_problem *of = key == OWN ? bt_engine_problem(engine, "lower") : NULL;
    for (int64_t i = 0; i < instance->phase_count; i++)
        if ((!of || strcmp(instance->phases[i]->owner, of->name) == 0) && instance->phases[i]->arena > most)
            most = instance->phases[i]->arena;
    return most + bt_persistent_bytes(&engine->context, categories, of);
}

/* The bytes named in the error for a budget; 0: it can be met. */
static size_t refused(const char *spacing, int key, size_t budget)
{
    bt_engine *engine = engine_of(spacing, key, budget, "");
    size_t least = 0;
    if (bt_engine_setup(engine) != BT_OK) {
        const char *found = strstr(bt_error(), "the smallest plan found needs ");
        ck_assert_msg(found && strstr(bt_error(), "memory_budget = "), "%s", bt_error());
        least = (size_t)strtoull(found + strlen("the smallest plan found needs "), NULL, 10);
        ck_assert_uint_eq(engine->context.proposal.over,
                          least - budget); /* the bytes that are missing, counting everything kept for the run */
        ck_assert_ptr_null(engine->context.instance->arena);
    }
    bt_engine_free(engine);
    bt_error_clear();
    return least;
}

static size_t refused_with(int spacing, int key, size_t budget)
{
    char text[16];
    snprintf(text, sizeof text, "%d", spacing);
    return refused(text, key, budget);
}

/* Parameters of both levels after `steps` more leaf steps. */
static int64_t run(bt_engine *engine, int64_t steps, double *values)
{
    int64_t count = bt_params_elements(bt_engine_problem(engine, "lower"));
    ck_assert_int_lt(count, PARAMS);
    levels_step(engine, steps);
    levels_params(engine, "lower", values, count);
    levels_params(engine, "upper", values + count, 1);
    return count + 1;
}

/* The engine has made all but `steps` of the steps for two upper steps. */
static void expect_bits(bt_engine *engine, int64_t steps, const char *more)
{
    static double due[PARAMS], found[PARAMS];
    bt_engine *plain = engine_of("1", WHOLE, 0, more);
    int64_t count = run(plain, 2 * LOOP, due);
    ck_assert_int_eq(run(engine, steps, found), count);
    ck_assert_msg(memcmp(due, found, (size_t)count * sizeof *due) == 0, "other bits");
    bt_engine_free(plain);
}

START_TEST(without_a_budget)
{
    bt_engine *engine = engine_of("auto", WHOLE, 0, ""), *plain = engine_of("1", WHOLE, 0, "");
    ck_assert_int_eq(spacing_of(engine), 1);
    levels_step(engine, 2 * LOOP);
    levels_step(plain, 2 * LOOP);
    ck_assert_uint_eq(levels_hash(engine, NULL), levels_hash(plain, NULL));
    bt_engine_free(engine);
    bt_engine_free(plain);
}
END_TEST

static int64_t least_that_fits(int key, size_t budget)
{
    for (int spacing = 1; spacing <= LOOP; spacing++)
        if (refused_with(spacing, key, budget) == 0)
            return spacing;
    return 0;
}

/* _i: the key. From the minimum over all spacings to the bytes of the smallest one. */
START_TEST(the_least_that_fits)
{
    size_t least = refused("auto", _i, 1), close = refused("1", _i, 1), fewest = close;
    for (int spacing = 2; spacing <= LOOP; spacing++) {
        const size_t bytes = refused_with(spacing, _i, 1);
        fewest = bytes < fewest ? bytes : fewest;
    }
    ck_assert_uint_eq(least, fewest);
    ck_assert_uint_lt(least, close);
    bool seen[LOOP + 1] = {false};
    for (int part = 0; part <= 4; part++) {
        const size_t budget = least + (close - least) * (size_t)part / 4;
        bt_engine *engine = engine_of("auto", _i, budget, "");
        const int64_t spacing = spacing_of(engine);
        ck_assert_int_eq(spacing, least_that_fits(_i, budget));
        ck_assert_uint_le(planned(engine, _i), budget);
        seen[spacing] = true;
        bt_engine_free(engine);
    }
    ck_assert(seen[1] && seen[2] && seen[3]); /* the square root of the loop's length needs the fewest states */
}
END_TEST

START_TEST(same_bits_and_bytes)
{
    const size_t least = refused("auto", _i, 1);
    bt_engine *engine = engine_of("auto", _i, least, "");
    EXPECT_OK(bt_engine_setup(engine));
    ck_assert_int_gt(spacing_of(engine), 1);
    ck_assert_uint_le(planned(engine, _i), least);
    bt_instance_fill(engine->context.instance);
    expect_bits(engine, 2 * LOOP, "");
    const bt_memory_sizes plan = bt_engine_planned(engine), measured = bt_engine_measured(engine);
    ck_assert_uint_eq(plan.persistent, measured.persistent);
    ck_assert_uint_eq(plan.arena, measured.arena);
    bt_engine_free(engine);
}
END_TEST

/* The upper level's budget does not cover the lower level's states: a smaller spacing would not help. */
START_TEST(a_budget_of_another)
{
    bt_engine *engine = engine_of("auto", WHOLE, 0, "upper.memory_budget = 1\n");
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    ck_assert_int_eq(bt_problem_find(&engine->context, "lower")->spacing, 1);
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

START_TEST(what_the_plan_says)
{
    bt_engine *engine = engine_of("auto", WHOLE, refused("auto", WHOLE, 1), "");
    char text[16384] = "", due[100];
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    EXPECT_OK(bt_engine_print(engine, BT_PLAN, file));
    fclose(file);
    snprintf(due, sizeof due, "the state is saved every %lld steps of the inner loop", (long long)spacing_of(engine));
    ck_assert_msg(strstr(text, due) != NULL, "%s", text);
    json_t *plan = bt_plan_json(engine), *level = json_array_get(json_object_get(plan, "levels"), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(level, "spacing")), spacing_of(engine));
    ck_assert_int_gt(spacing_of(engine), 1);
    json_decref(plan);
    bt_engine_free(engine);
}
END_TEST

/* ---- a different budget after a checkpoint ---- */

enum { BEFORE = LOOP + 5 }; /* in the middle of an inner loop */

/* A run with the budget `before` (0: none) continues with `after`. */
static bt_engine *go_on(size_t before, size_t after, const char *more, bt_status *status)
{
    bt_engine *engine = engine_of("auto", WHOLE, before, more);
    levels_step(engine, BEFORE);
    EXPECT_OK(bt_engine_save(engine, "saved"));
    bt_engine_free(engine);
    engine = engine_of("auto", WHOLE, after, more);
    *status = bt_engine_resume(engine, "saved");
    return engine;
}

/* The states in a checkpoint keep their own spacing. */
START_TEST(the_spacing_that_it_had)
{
    bt_status status;
    bt_engine *engine = go_on(refused("auto", WHOLE, 1), _i ? 1000000000 : 0, "", &status);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    ck_assert_int_gt(spacing_of(engine), 1);
    expect_bits(engine, 2 * LOOP - BEFORE, "");
    bt_engine_free(engine);
}
END_TEST

START_TEST(too_little_for_the_states_that_are_kept)
{
    bt_status status;
    bt_engine *engine = go_on(0, refused("auto", WHOLE, 1), "", &status);
    ck_assert_int_eq(status, BT_ERROR_CONFIG);
    ck_assert_msg(strstr(bt_error(), "memory_budget = ") != NULL, "%s", bt_error());
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* Without kept states the budget may decrease or increase. */
START_TEST(less_or_more)
{
    static const char darts[] = "lower.type = darts\n";
    bt_status status;
    bt_engine *engine = engine_of("1", WHOLE, 0, darts);
    EXPECT_OK(bt_engine_setup(engine));
    const size_t most = planned(engine, WHOLE);
    bt_engine_free(engine);
    engine = _i ? go_on(0, most - 64, darts, &status) : go_on(most - 64, 0, darts, &status);
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    ck_assert_int_eq(planned(engine, WHOLE) < most, _i);
    expect_bits(engine, 2 * LOOP - BEFORE, darts);
    bt_engine_free(engine);
}
END_TEST

/* ---- values ---- */

static const struct {
    const char *text;
    int64_t spacing; /* 0: refused */
    const char *printed;
} values[] = {{"auto", 1, "auto"}, {"sqrt", 3, "sqrt"}, {"0", 3, "sqrt"}, {"4", 4, "4"},
              {"-1", 0, ""},       {"root", 0, ""},     {"1.5", 0, ""}};

START_TEST(texts)
{
    char lines[300], text[16384] = "", due[64];
    bt_engine *engine = bt_engine_new();
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\n"
             "lower.unroll_steps = %d\n",
             LOOP);
    levels_fill(engine, &parts, NULL, lines);
    EXPECT_OK(bt_engine_set(engine, "lower.itd_spacing", "%s", values[_i].text));
    if (values[_i].spacing == 0) {
        levels_expect_error(engine, "itd_spacing", "sqrt | auto", NULL);
        return;
    }
    EXPECT_OK(bt_engine_setup(engine));
    ck_assert_int_eq(spacing_of(engine), values[_i].spacing);
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    EXPECT_OK(bt_engine_print(engine, BT_CONFIG, file));
    fclose(file);
    snprintf(due, sizeof due, "itd_spacing = %s\n", values[_i].printed);
    ck_assert_msg(strstr(text, due) != NULL, "%s", text);
    bt_engine_free(engine);
}
END_TEST

START_TEST(not_with_states)
{
    char lines[300];
    bt_engine *engine = bt_engine_new();
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = itd\n"
             "lower.unroll_steps = %d\nlower.itd_spacing = auto\nlower.itd_states = 3\n",
             LOOP);
    levels_fill(engine, &parts, NULL, lines);
    levels_expect_error(engine, "itd_states = 3", "itd_spacing", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.spacing");
    TCase *tests = tcase_create("spacing");
    tcase_add_test(tests, without_a_budget);
    tcase_add_loop_test(tests, the_least_that_fits, 0, 2);
    tcase_add_loop_test(tests, same_bits_and_bytes, 0, 2);
    tcase_add_test(tests, a_budget_of_another);
    tcase_add_test(tests, what_the_plan_says);
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, the_spacing_that_it_had, 0, 2);
    tcase_add_test(tests, too_little_for_the_states_that_are_kept);
    tcase_add_loop_test(tests, less_or_more, 0, 2);
    tcase_add_loop_test(tests, texts, 0, BT_COUNT_OF(values));
    tcase_add_test(tests, not_with_states);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_curve.c: --plan --curve: the cost of using less memory. Each point can be reached with its
 * memory_budget: the same bytes, and the same work as a run counts. */
#include "decayed.h"

#include "engine/output/json.h"
#include "engine/session/session.h"
#include "engine/step/step.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 24, LAYERS = 3, CLASSES = 4, ROWS = 384 };

/* ---- two levels and a network whose values take more memory than its parameters ---- */

static bt_dataset *rows(bt_problem *self)
{
    static float x[ROWS * WIDE];
    static int32_t y[ROWS];
    (void)self;
    for (int i = 0; i < BT_COUNT_OF(x); i++)
        x[i] = (float)((i * 37 % 101) / 50.0 - 1);
    for (int i = 0; i < ROWS; i++)
        y[i] = i * 5 % CLASSES;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, WIDE));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_module *network(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_nn_sequential(bt_nn_linear(WIDE, WIDE), bt_nn_fn(bt_gelu));
    for (int i = 1; i < LAYERS; i++)
        bt_module_add(net, bt_nn_sequential(bt_nn_linear(WIDE, WIDE), bt_nn_fn(bt_gelu)), "more%d", i);
    bt_module_add(net, bt_nn_linear(WIDE, CLASSES), "head");
    return net;
}

static const bt_problem_def upper = DECAYED_UPPER(rows);
static const bt_problem_def lower = DECAYED_LOWER(rows, network);
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

/* Batches all have the same size; three lower steps for each upper one. */
static bt_engine *engine_of(const char *more, const char *budget)
{
    char lines[1024];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 192\n"
             "lower.lr = 0.01\nupper.lr = 0.1\nupper.batch_size = 192\nlower.unroll_steps = 3\nengine.precision = "
             "fp32\n%s\n%s",
             more, budget);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static const char *const settings[] = {"lower.type = cg\nlower.cg_iterations = 3", "lower.checkpointing = sqrt",
                                       "lower.gradient_accumulation = 2\nlower.product_batches = all",
                                       "engine.roll_back = true"};

/* ---- the curve ---- */

static json_t *curve_of(bt_engine *engine, double step)
{
    char text[1 << 16];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    EXPECT_OK(bt_engine_curve(engine, &(bt_curve){.json = true, .file = file, .step = step}));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    json_t *plan = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(plan);
    return plan;
}

static void expect_falling(const json_t *points)
{
    for (size_t i = 1; i < json_array_size(points); i++) {
        const json_t *a = json_array_get(points, i - 1), *b = json_array_get(points, i);
        const double more = bt_json_read_number(b, "extra_work") - bt_json_read_number(a, "extra_work");
        ck_assert(bt_json_read_number(b, "bytes") < bt_json_read_number(a, "bytes"));
        ck_assert(i == 1 ? more >= 0 : more > 0);
        ck_assert(bt_json_read_number(b, "memory_budget") >= bt_json_read_number(b, "bytes"));
    }
}

static size_t sum_of(bt_engine *engine)
{
    size_t by_category[BT_CATEGORIES];
    return bt_arena_planned(&engine->context) + bt_persistent_bytes(&engine->context, by_category, NULL);
}

/* The operations of six leaf steps, two of which trigger steps above. */
static double run_with(const char *more, const char *budget, size_t *bytes)
{
    bt_engine *engine = engine_of(more, budget);
    EXPECT_OK(bt_engine_setup(engine));
    *bytes = sum_of(engine);
    levels_step(engine, 6);
    const double work = engine->context.instance->work;
    bt_engine_free(engine);
    return work;
}

/* _i: settings */
START_TEST(each_point_is_had_by_its_budget)
{
    bt_engine *engine = engine_of(settings[_i], "");
    EXPECT_OK(bt_engine_setup(engine));
    const size_t before = sum_of(engine);
    json_t *plan = curve_of(engine, _i ? 0 : .5), *run = json_object_get(json_object_get(plan, "curve"), "run");
    ck_assert_uint_eq(sum_of(engine), before);
    bt_engine_free(engine);
    const json_t *first = json_array_get(run, 0);
    size_t bytes;
    const double extra = bt_json_read_number(first, "extra_work"), base = run_with(settings[_i], "", &bytes);
    ck_assert_uint_eq(bytes, (size_t)bt_json_read_number(first, "bytes"));
    ck_assert_ptr_null(json_object_get(first, "memory_budget"));
    ck_assert(extra == 0 || strstr(settings[_i], "checkpointing"));
    ck_assert_uint_ge(json_array_size(run), extra > 0 ? 1 : _i ? 3 : 2); /* a level with a policy keeps it */
    expect_falling(run);
    const size_t count = json_array_size(run), some = count > 2 ? count / 2 : 1;
    for (size_t i = some; i < count; i += count - 1 - some ? count - 1 - some : 1) {
        const json_t *point = json_array_get(run, i);
        char line[64];
        snprintf(line, sizeof line, "engine.memory_budget = %.0f", bt_json_read_number(point, "memory_budget"));
        const double work = run_with(settings[_i], line, &bytes),
                     more = (1 + bt_json_read_number(point, "extra_work")) / (1 + extra);
        ck_assert_uint_eq(bytes, (size_t)bt_json_read_number(point, "bytes"));
        ck_assert_msg(fabs(work / base - more) <= 2e-3 * more, "%s: %.5f times the work, not %.5f", line, work / base,
                      more);
    }
    json_decref(plan);
}
END_TEST

START_TEST(phases_have_theirs)
{
    bt_engine *engine = engine_of("lower.type = darts", "");
    EXPECT_OK(bt_engine_setup(engine));
    json_t *plan = curve_of(engine, 0), *phases = json_object_get(json_object_get(plan, "curve"), "phases");
    ck_assert_uint_eq(json_array_size(phases), (size_t)engine->context.instance->phase_count);
    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i), *points = json_object_get(phase, "points"),
                     *last = json_array_get(points, json_array_size(points) - 1);
        ck_assert_uint_eq(engine->context.instance->phases[i]->arena,
                          (size_t)bt_json_read_number(json_array_get(points, 0), "bytes"));
        expect_falling(points);
        char line[64];
        ck_assert_uint_ge(json_array_size(points), 3);
        snprintf(line, sizeof line, "%s.memory_budget = %.0f", bt_json_read_text(phase, "level"),
                 bt_json_read_number(last, "memory_budget"));
        bt_engine *within = engine_of("lower.type = darts", line);
        EXPECT_OK(bt_engine_setup(within));
        ck_assert_uint_eq(within->context.instance->phases[i]->arena, (size_t)bt_json_read_number(last, "bytes"));
        bt_engine_free(within);
    }
    json_decref(plan);
    bt_engine_free(engine);
}
END_TEST

/* The error for an impossible budget names the minimum: the curve ends there, or lower. */
START_TEST(ends_at_the_least)
{
    const char *name = "the smallest plan found needs ";
    bt_engine *engine = engine_of("lower.type = darts", "engine.memory_budget = 1");
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    const char *found = strstr(bt_error(), name);
    ck_assert_msg(found != NULL, "%s", bt_error());
    const double least = strtod(found + strlen(name), NULL);
    bt_engine_free(engine);
    bt_error_clear();
    engine = engine_of("lower.type = darts", "");
    EXPECT_OK(bt_engine_setup(engine));
    json_t *plan = curve_of(engine, 0), *run = json_object_get(json_object_get(plan, "curve"), "run");
    const double last = bt_json_read_number(json_array_get(run, json_array_size(run) - 1), "bytes");
    ck_assert_msg(last <= least, "the curve ends at %.0f bytes, %.0f are enough", last, least);
    json_decref(plan);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.curve");
    TCase *tests = tcase_create("curve");
    tcase_set_timeout(tests, 900);
    tcase_add_loop_test(tests, each_point_is_had_by_its_budget, 0, BT_COUNT_OF(settings));
    tcase_add_test(tests, phases_have_theirs);
    tcase_add_test(tests, ends_at_the_least);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

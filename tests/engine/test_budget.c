/* tests/engine/test_budget.c: memory_budget and checkpointing = budget. Recomputation changes no bit; plans meet their
 * budgets and are used to the last byte; an impossible budget is refused before anything is allocated, with the bytes
 * that would be enough. */
#include "decayed.h"

#include "engine/session/session.h"
#include "engine/step/step.h"
#include "runtime/fit.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8 };

/* ---- the runs ---- */

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(bt_adaptive_avg_pool2d(x, 2, 2), bt_dim(x, 0), -1); }

static bt_module *mlp(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_fn(as_rows), decayed_layer(4 * DECAYED_CHANNELS, 24), decayed_layer(24, 24),
                            bt_nn_linear(24, DECAYED_CLASSES));
}

static const bt_problem_def upper = DECAYED_UPPER(images);
static const bt_problem_def lowers[] = {DECAYED_LOWER(images, mlp), DECAYED_LOWER(images, decayed_resnet)};
static const bt_export nets[] = {{.abi = BT_ABI, .problems = {&upper, &lowers[0]}},
                                 {.abi = BT_ABI, .problems = {&upper, &lowers[1]}}};

static bt_engine *engine_of(int net, const char *more)
{
    char lines[1024];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 12\n"
             "lower.lr = 0.05\nupper.lr = 0.1\nupper.batch_size = 12\nengine.threads = 1\n%s",
             more);
    bt_engine *engine = levels_engine(&nets[net], NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static bt_engine *with_budget(int net, const char *more, const char *key, size_t bytes)
{
    char lines[512];
    snprintf(lines, sizeof lines, "%s\n%s = %zu\n", more, key, bytes);
    return engine_of(net, lines);
}

#define WHOLE "engine.memory_budget"

/* ---- what is planned ---- */

static size_t kept(bt_engine *engine, const char *problem)
{
    size_t categories[BT_CATEGORIES];
    return bt_persistent_bytes(&engine->context, categories,
                               problem ? bt_problem_find(&engine->context, problem) : NULL);
}

/* The arena of this problem's largest phase; NULL: of all problems. */
static size_t arena(const bt_engine *engine, const char *owner)
{
    const bt_instance *instance = engine->context.instance;
    size_t most = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        if ((!owner || strcmp(instance->phases[i]->owner, owner) == 0) && instance->phases[i]->arena > most)
            most = instance->phases[i]->arena;
    return most;
}

static size_t whole(bt_engine *engine) { return kept(engine, NULL) + arena(engine, NULL); }

/* The number of rerun steps: of the level's own forward pass (own), or of anything else. */
static int64_t again(const bt_engine *engine, const char *owner, bool own)
{
    const bt_instance *instance = engine->context.instance;
    int64_t count = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        for (int64_t e = 0; e < instance->phases[i]->entry_count && strcmp(instance->phases[i]->owner, owner) == 0;
             e++) {
            const bt_program *program = instance->phases[i]->entries[e].program;
            for (int64_t s = 0; s < program->step_count; s++) {
                const bt_tag *tag = &program->steps[s].node->tag;
                count += program->steps[s].again && (tag->order == 0 && strcmp(tag->level, "lower") == 0) == own;
            }
        }
    return count;
}

static size_t unlimited(int net, const char *more)
{
    bt_engine *engine = engine_of(net, more);
    EXPECT_OK(bt_engine_setup(engine));
    size_t bytes = whole(engine);
    bt_engine_free(engine);
    return bytes;
}

/* The bytes named in the error for a budget of `bytes`. */
static size_t refused(int net, const char *more, const char *key, size_t bytes)
{
    bt_engine *engine = with_budget(net, more, key, bytes);
    ck_assert_msg(bt_engine_setup(engine) == BT_ERROR_CONFIG, "%s = %zu fits:\n%s", key, bytes, more);
    ck_assert_uint_eq(engine->context.instance->arena_size, 0);
    ck_assert_ptr_null(engine->context.instance->arena);
    const char *found = strstr(bt_error(), "the smallest plan found needs ");
    ck_assert_msg(found != NULL && strstr(bt_error(), key + strcspn(key, ".") + 1), "%s", bt_error());
    size_t least = (size_t)strtoull(found + strlen("the smallest plan found needs "), NULL, 10);
    bt_engine_free(engine);
    bt_error_clear();
    return least;
}

/* ---- bits, bytes ---- */

static const char *const methods[] = {
    "lower.type = darts",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.cg_damping = 1",
    "lower.type = neumann\nlower.neumann_iterations = 3\nlower.neumann_alpha = 0.1",
    "lower.type = itd\nlower.unroll_steps = 3",
    "lower.type = sama",
    "lower.type = penalty\nlower.penalty_iterations = 3\nlower.penalty_lr = 0.05",
};
enum { METHODS = BT_COUNT_OF(methods), STEPS = 3 };

static uint64_t run(bt_engine *engine)
{
    EXPECT_OK(bt_engine_setup(engine));
    bt_instance_fill(engine->context.instance);
    levels_step(engine, STEPS);
    return levels_hash(engine, NULL);
}

static void expect_same(int net, const char *method, size_t budget, uint64_t expected)
{
    bt_engine *engine = with_budget(net, method, WHOLE, budget);
    uint64_t hash = run(engine);
    ck_assert_msg(hash == expected, "other bits with %zu bytes: %s", budget, method);
    ck_assert_msg(whole(engine) <= budget, "%zu bytes, not %zu: %s", whole(engine), budget, method);
    bt_memory_sizes planned = bt_engine_planned(engine), measured = bt_engine_measured(engine);
    ck_assert_uint_eq(measured.arena, planned.arena);
    ck_assert_uint_eq(measured.persistent, planned.persistent);
    bt_engine_free(engine);
}

/* The minimum is less than the bytes without a budget, and fits. */
START_TEST(same_bits)
{
    static const double parts[] = {0.9, 0.7};
    const char *method = methods[0];
    bt_engine *engine = engine_of(0, method);
    uint64_t expected = run(engine);
    size_t base = whole(engine), least = refused(0, method, WHOLE, 1);
    bt_engine_free(engine);
    ck_assert_uint_lt(least, base);
    for (int i = 0; i < BT_COUNT_OF(parts); i++)
        if ((size_t)(parts[i] * (double)base) >= least)
            expect_same(0, method, (size_t)(parts[i] * (double)base), expected);
    expect_same(0, method, least, expected);
}
END_TEST

/* _i: METHODS of one network, then the first with the other network. */
START_TEST(same_bits_of_each)
{
    int net = _i / METHODS;
    const char *method = methods[_i % METHODS];
    bt_engine *engine = engine_of(net, method);
    uint64_t expected = run(engine);
    size_t base = whole(engine);
    bt_engine_free(engine);
    size_t budget = base - 1;
    engine = with_budget(net, method, WHOLE, budget);
    bool fits = bt_engine_setup(engine) == BT_OK;
    bt_engine_free(engine);
    bt_error_clear();
    expect_same(net, method, fits ? budget : refused(net, method, WHOLE, budget), expected);
}
END_TEST

/* The work of one run of each phase. */
static double work_of(const bt_engine *engine)
{
    double sum = 0;
    for (int64_t i = 0; i < engine->context.instance->phase_count; i++)
        sum += bt_phase_count(engine->context.instance->phases[i]).all;
    return sum;
}

/* The least work within the budget, over all holdings of the upper problem's solve. */
static double least_work(bt_engine *engine, size_t budget)
{
    static const int all[] = {BT_HOLD_ALL, BT_HOLD_FORWARD, BT_HOLD_CUTS, BT_HOLD_NOTHING};
    double least = INFINITY;
    for (int i = 0; i < BT_COUNT_OF(all); i++) {
        bt_problem_find(&engine->context, "upper")->holding = all[i];
        EXPECT_OK(bt_levels_plan(&engine->context));
        EXPECT_OK(bt_budget_fit(&engine->context));
        least = arena(engine, NULL) <= budget ? fmin(least, work_of(engine)) : least;
    }
    return least;
}

START_TEST(more_bytes_never_take_more_work)
{
    enum { PARTS = 40 };
    bt_engine *engine = engine_of(0, methods[1]);
    EXPECT_OK(bt_engine_setup(engine));
    bt_context *context = &engine->context;
    double before = work_of(engine);
    const size_t most = arena(engine, NULL);
    bt_status status = BT_OK;
    context->instance->known = bt_known_new(); /* searches for one budget must not help the next */
    bt_stage_enter(context, BT_STAGE_PROGRAM);
    for (size_t part = PARTS; status == BT_OK; part--) {
        const size_t budget = most * part / PARTS;
        context->proposal = (bt_proposal){.arena = budget ? budget : 1};
        status = bt_levels_compile(context);
        const double work = work_of(engine);
        ck_assert_msg(work >= (1 - 1e-9) * before, "%.0f operations, with %zu of %d parts less %.0f", before, part,
                      PARTS, work);
        before = work;
        if (status == BT_OK)
            ck_assert_double_eq(work, least_work(engine, budget));
    }
    ck_assert_int_eq(status, BT_ERROR_CONFIG);
    bt_stage_leave(context);
    bt_known_free(context->instance->known);
    context->instance->known = NULL;
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* A budget below what is kept for the whole run is refused with the same minimum. */
START_TEST(less_than_what_is_kept)
{
    bt_engine *engine = engine_of(0, methods[0]);
    EXPECT_OK(bt_engine_setup(engine));
    size_t always = kept(engine, NULL);
    bt_engine_free(engine);
    size_t least = refused(0, methods[0], WHOLE, 1);
    ck_assert_uint_eq(refused(0, methods[0], WHOLE, always / 2), least);
    ck_assert_uint_gt(least, always);
}
END_TEST

/* The copies for roll_back are also kept for the run. */
START_TEST(roll_back_counts)
{
    char lines[256];
    snprintf(lines, sizeof lines, "%s\nengine.roll_back = true\n", methods[0]);
    bt_engine *engine = engine_of(0, lines);
    uint64_t expected = run(engine);
    bt_engine_free(engine);
    size_t least = refused(0, lines, WHOLE, 1);
    expect_same(0, lines, least, expected);
}
END_TEST

/* ---- which phases ---- */

START_TEST(of_one_problem)
{
    const char *method = methods[0];
    bt_engine *engine = engine_of(1, method);
    uint64_t expected = run(engine);
    size_t lower = kept(engine, "lower") + arena(engine, "lower"), above = arena(engine, "upper");
    bt_engine_free(engine);
    size_t least = refused(1, method, "lower.memory_budget", 1), work = (least + lower) / 2;
    engine = with_budget(1, method, "lower.memory_budget", work);
    ck_assert_uint_eq(run(engine), expected);
    ck_assert_uint_le(kept(engine, "lower") + arena(engine, "lower"), work);
    ck_assert_uint_eq(arena(engine, "upper"), above);
    ck_assert(again(engine, "lower", true) > 0 && !again(engine, "upper", true) && !again(engine, "upper", false));
    bt_engine_free(engine);
    engine = with_budget(1, method, "lower.memory_budget", least);
    ck_assert_uint_eq(run(engine), expected);
    ck_assert_uint_le(kept(engine, "lower") + arena(engine, "lower"), least);
    bt_engine_free(engine);
}
END_TEST

START_TEST(both_at_once)
{
    char lines[256];
    size_t base = unlimited(1, methods[0]), both = base * 9 / 10;
    bt_engine *engine = engine_of(1, methods[0]);
    uint64_t expected = run(engine);
    bt_engine_free(engine);
    size_t lower = refused(1, methods[0], "lower.memory_budget", 1);
    snprintf(lines, sizeof lines, "%s\nlower.memory_budget = %zu\n", methods[0], lower);
    engine = with_budget(1, lines, WHOLE, both);
    ck_assert_uint_eq(run(engine), expected);
    ck_assert_uint_le(whole(engine), both);
    ck_assert_uint_le(kept(engine, "lower") + arena(engine, "lower"), lower);
    bt_engine_free(engine);
}
END_TEST

/* ---- checkpointing ---- */

/* Only forward values of the level are recomputed, in every phase that has some, of both levels. */
START_TEST(checkpointing_on_one_level)
{
    bt_engine *engine = engine_of(0, methods[0]);
    uint64_t expected = run(engine);
    size_t most = arena(engine, NULL) * 5 / 6;
    bt_engine_free(engine);
    char lines[256];
    snprintf(lines, sizeof lines, "%s\nlower.checkpointing = budget:%zu\n", methods[0], most);
    engine = engine_of(0, lines);
    ck_assert_uint_eq(run(engine), expected);
    ck_assert_uint_le(arena(engine, NULL), most);
    ck_assert_int_gt(again(engine, "lower", true) + again(engine, "upper", true), 0);
    ck_assert_int_eq(again(engine, "lower", false) + again(engine, "upper", false), 0);
    bt_engine_free(engine);
    snprintf(lines, sizeof lines, "%s\nlower.checkpointing = budget:1\n", methods[0]);
    levels_expect_error(engine_of(0, lines), "checkpointing = budget:1", "the smallest plan found needs ", NULL);
}
END_TEST

/* A level whose policy keeps everything still does, whatever the budget. */
START_TEST(policies_stay)
{
    char lines[256];
    snprintf(lines, sizeof lines, "%s\nlower.checkpointing = none\n", methods[0]);
    size_t least = refused(0, lines, WHOLE, 1);
    ck_assert_uint_gt(least, refused(0, methods[0], WHOLE, 1));
    bt_engine *engine = engine_of(0, lines);
    uint64_t expected = run(engine);
    bt_engine_free(engine);
    engine = with_budget(0, lines, WHOLE, least);
    ck_assert_uint_eq(run(engine), expected);
    ck_assert_int_eq(again(engine, "lower", true) + again(engine, "upper", true), 0);
    bt_engine_free(engine);
}
END_TEST

/* ---- requests ---- */

static bt_tensor *field_loss(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    static double x[40 * SIDE * SIDE * DECAYED_CHANNELS]; /* more rows than a batch has */
    return bt_mean(bt_square(bt_forward(self, bt_constant(BT_ARRAY(x, 40, SIDE, SIDE, DECAYED_CHANNELS)))));
}

/* Requests count in the budget, too: they fit or are refused, and the run continues. */
START_TEST(questions_too)
{
    double value, expected;
    bt_engine *engine = engine_of(0, methods[0]);
    EXPECT_OK(bt_engine_setup(engine));
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), field_loss, NULL, BT_ARRAY(&expected)));
    bt_engine_free(engine);
    size_t least = refused(0, methods[0], WHOLE, 1);
    engine = with_budget(0, methods[0], WHOLE, least);
    EXPECT_OK(bt_engine_setup(engine));
    size_t before = arena(engine, NULL);
    bt_status status = bt_eval(bt_engine_problem(engine, "lower"), field_loss, NULL, BT_ARRAY(&value));
    ck_assert_uint_le(engine->context.instance->arena_size, before);
    if (status == BT_OK)
        ck_assert_double_eq(value, expected);
    else
        ck_assert_ptr_nonnull(strstr(bt_error(), "memory_budget"));
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* ---- requests during a run ---- */

static void check(bt_engine *engine)
{
    bt_check_result *result = bt_engine_check(engine, NULL, 2);
    ck_assert_msg(result && result->levels[0].verdict == BT_AGREES, "%s", result ? result->levels[0].text : bt_error());
    bt_check_result_free(result);
}

static void adapt(bt_engine *engine)
{
    bt_problem *problem = bt_engine_problem(engine, "lower");
    const bt_batch *batch = bt_stream_newest(problem->train, 1, 0);
    double before, adapted, after;
    EXPECT_OK(bt_eval(problem, decayed_loss, batch, BT_ARRAY(&before)));
    EXPECT_OK(bt_adapt(problem, batch, 2));
    EXPECT_OK(bt_eval(problem, decayed_loss, batch, BT_ARRAY(&adapted)));
    EXPECT_OK(bt_restore(problem));
    EXPECT_OK(bt_eval(problem, decayed_loss, batch, BT_ARRAY(&after)));
    ck_assert(before == after && adapted != before);
}

/* Recompiles the programs of all levels in the middle of an inner loop. */
static void rewire(bt_engine *engine)
{
    EXPECT_OK(bt_set_dependency(bt_engine_problem(engine, "upper"), "upper > lower", "lower > upper"));
}

static void (*const requests[])(bt_engine *engine) = {check, adapt, rewire};

static uint64_t run_with(bt_engine *engine, void (*request)(bt_engine *engine), size_t budget)
{
    double params[2048];
    const int64_t count = bt_params_elements(bt_engine_problem(engine, "lower"));
    ck_assert_int_le(count, BT_COUNT_OF(params));
    levels_step(engine, STEPS);
    request(engine);
    ck_assert_msg(!budget || whole(engine) <= budget, "%zu and %zu bytes", whole(engine), budget);
    levels_step(engine, STEPS);
    levels_params(engine, "lower", params, count);
    return bt_hash(0, params, (size_t)count * sizeof *params);
}

/* The same bits as without the budget, and a plan that meets it. */
START_TEST(whatever_is_asked)
{
    static const char method[] = "lower.type = itd\nlower.unroll_steps = 2\n";
    bt_engine *engine = engine_of(0, method);
    EXPECT_OK(bt_engine_setup(engine));
    const size_t budget = whole(engine) * 9 / 10;
    const uint64_t expected = run_with(engine, requests[_i], 0);
    bt_engine_free(engine);
    engine = with_budget(0, method, WHOLE, budget);
    ck_assert_uint_eq(run_with(engine, requests[_i], budget), expected);
    bt_engine_free(engine);
}
END_TEST

/* ---- values ---- */

static const struct {
    const char *text;
    int64_t bytes; /* 0: refused */
} values[] = {{"0", 0},
              {"1EiB", 0},
              {"-1", 0},
              {"1e3", 0},
              {"64 MiB", 67108864},
              {"64mib", 0},
              {"1KiB", 1024},
              {"1.5GB", 1500000000},
              {"nan", 0},
              {"inf", 0},
              {"9999999TiB", 0},
              {"1..5", 0},
              {"0.1", 1},
              {".", 0},
              {"MiB", 0},
              {"100B", 100},
              {"1 2", 0},
              {"0x10", 0},
              {"1.2.3KiB", 0}};

START_TEST(texts)
{
    int64_t bytes = 0;
    bool good = bt_bytes_read(values[_i].text, &bytes);
    ck_assert_msg(good == (values[_i].bytes > 0), "%s", values[_i].text);
    ck_assert(!good || bytes == values[_i].bytes);
    if (good && bytes < 10000)
        return;
    bt_engine *engine = bt_engine_new();
    levels_fill(engine, &nets[0], NULL, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n");
    bt_engine_set(engine, WHOLE, "%s", values[_i].text);
    bt_status status = bt_engine_setup(engine);
    if (values[_i].bytes == 0)
        ck_assert_ptr_nonnull(strstr(bt_error(), "memory_budget"));
    ck_assert_int_eq(status, good ? BT_OK : BT_ERROR_CONFIG);
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.budget");
    TCase *tests = tcase_create("budget");
    tcase_add_test(tests, same_bits);
    tcase_add_loop_test(tests, same_bits_of_each, 0, METHODS + 1);
    tcase_add_test(tests, more_bytes_never_take_more_work);
    tcase_add_test(tests, less_than_what_is_kept);
    tcase_add_test(tests, roll_back_counts);
    tcase_add_test(tests, of_one_problem);
    tcase_add_test(tests, both_at_once);
    tcase_add_test(tests, checkpointing_on_one_level);
    tcase_add_test(tests, policies_stay);
    tcase_add_test(tests, questions_too);
    tcase_add_loop_test(tests, whatever_is_asked, 0, BT_COUNT_OF(requests));
    tcase_add_loop_test(tests, texts, 0, BT_COUNT_OF(values));
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/runtime/test_witnesses.c: the plan is true. Four witnesses, none of which shares code with the planner, for the
 * shipped problems with every method, f32 on one thread and two, and f64; and again with every policy of checkpointing
 * and with budgets, each problem and method with some of them (BT_TEST_ALL=1: with all):
 *   1. every value its own allocation: the peak of live bytes under a counting malloc is the plan's lower bound
 *   2. the arena between guard pages, filled with a pattern: the last byte touched is the last byte planned
 *   3. a run makes no allocation
 *   4. a child process's peak of resident memory grows from one problem size to another as the plan says */
#include "counting.h"
#include "engine/session/session.h"

#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FASHION "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"

typedef struct subject {
    const char *problems, *upper, *lower, *settings;
    bool fashion; /* needs Fashion-MNIST */
} subject;

static const subject subjects[] = {
    {"reweight", "reweight", "classifier", "classifier.hidden = 32\nreweight.hidden = 100\nclassifier.noise = 0.4\n",
     true},
    {"reweight", "reweight", "classifier", "classifier.hidden = 500\nreweight.hidden = 100\nclassifier.noise = 0.4\n",
     true},
    {"logistic_hpo", "penalty", "model", "model.unroll_steps = 1\nmodel.batch_size = 6000\npenalty.batch_size = 6000\n",
     false},
    {"hyper_cleaning", "weights", "classifier", "classifier.unroll_steps = 1\nclassifier.hidden = 64\n", true},
    {"reweight", "reweight", "classifier",
     "classifier.resnet = 8\nclassifier.colours = false\nclassifier.batch_size = 8\nreweight.batch_size = 8\n"
     "classifier.valid_batch_size = 8\nreweight.hidden = 10\n",
     true},
};
static const char *const methods[] = {"darts", "neumann", "cg"};
enum { SUBJECTS = 5, METHODS = 3, CASES = SUBJECTS * METHODS * 3 };

/* The settings with recomputation: a key of the lower level, or of the whole run. */
static const struct {
    bool whole;
    const char *key, *value;
    bool bytes; /* whose value is a number of bytes: four fifths of the bytes without it, or the minimum */
} policies[] = {
    {false, "checkpointing", "none", false},
    {false, "checkpointing", "sqrt", false},
    {false, "checkpointing", "cost:20%", false},
    {false, "checkpointing", "every:2", false},
    {false, "checkpointing", "cost:200%", false},
    {false, "checkpointing", "ops:relu, tanh", false},
    {false, "checkpointing", "cheap", false},
    {false, "checkpointing", "modules:*", false},
    {false, "checkpointing", "budget:", true},
    {false, "memory_budget", "", true},
    {true, "memory_budget", "", true},
};
enum { POLICIES = BT_COUNT_OF(policies), ALL = POLICIES * CASES, PART = 15 };

static void set_lines(bt_engine *engine, const char *settings)
{
    while (*settings) {
        char line[128] = {0};
        size_t length = strcspn(settings, "\n");
        memcpy(line, settings, length);
        settings += length + 1;
        char *equals = strstr(line, " = ");
        *equals = 0;
        bt_engine_set(engine, line, "%s", equals + 3);
    }
}

static bt_engine *engine_of(const subject *s, const char *method, const char *precision, int threads)
{
    bt_engine *engine = bt_engine_new();
    char key[64];
    bt_engine_set(engine, "engine.problems", "%s", s->problems);
    bt_engine_set(engine, "engine.precision", "%s", precision);
    bt_engine_set(engine, "engine.threads", "%d", threads);
    bt_engine_set(engine, "dependencies.u2l", "%s > %s", s->upper, s->lower);
    bt_engine_set(engine, "dependencies.l2u", "%s > %s", s->lower, s->upper);
    snprintf(key, sizeof key, "%s.valid_batches", s->lower);
    bt_engine_set(engine, key, "3");
    snprintf(key, sizeof key, "%s.type", s->lower);
    bt_engine_set(engine, key, "%s", method);
    if (strcmp(method, "darts") != 0) {
        snprintf(key, sizeof key, "%s.%s_iterations", s->lower, method);
        bt_engine_set(engine, key, "3");
    }
    if (strcmp(method, "neumann") == 0) {
        snprintf(key, sizeof key, "%s.neumann_alpha", s->lower);
        bt_engine_set(engine, key, "0.01");
    }
    set_lines(engine, s->settings);
    return engine;
}

/* The bytes that the policy is about: the arena, and, if it counts, what is kept for the whole run. */
static size_t bytes_now(bt_engine *engine, const subject *s, int policy)
{
    const bt_instance *instance = engine->context.instance;
    const bool whole = policies[policy].whole, kept = strcmp(policies[policy].key, "memory_budget") == 0;
    size_t categories[BT_CATEGORIES], most = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        if ((whole || !kept || strcmp(instance->phases[i]->owner, s->lower) == 0) && instance->phases[i]->arena > most)
            most = instance->phases[i]->arena;
    bt_problem *lower = whole ? NULL : bt_problem_find(&engine->context, s->lower);
    return most + (kept ? bt_persistent_bytes(&engine->context, categories, lower) : 0);
}

static void set_policy(bt_engine *engine, const subject *s, int policy, size_t bytes)
{
    char key[64], number[24] = "";
    snprintf(key, sizeof key, "%s.%s", policies[policy].whole ? "engine" : s->lower, policies[policy].key);
    if (policies[policy].bytes)
        snprintf(number, sizeof number, "%zu", bytes);
    bt_engine_set(engine, key, "%s%s", policies[policy].value, number);
}

typedef struct setting {
    const subject *subject;
    const char *method, *precision;
    int threads, policy;
} setting;

static bt_engine *engine_with(const setting *s, size_t bytes, bt_status *status)
{
    bt_engine *engine = engine_of(s->subject, s->method, s->precision, s->threads);
    if (bytes)
        set_policy(engine, s->subject, s->policy, bytes);
    *status = bt_engine_setup(engine);
    return engine;
}

/* The value in bytes for the policy; 1 if it has none. */
static size_t bytes_for(const setting *s)
{
    static const char least[] = "the smallest plan found needs ";
    bt_status status;
    if (!policies[s->policy].bytes)
        return 1;
    bt_engine *engine = engine_with(s, 0, &status);
    size_t bytes = bytes_now(engine, s->subject, s->policy) / 5 * 4;
    bt_engine_free(engine);
    bt_engine_free(engine_with(s, bytes, &status));
    const char *found = status == BT_OK ? NULL : strstr(bt_error(), least);
    bytes = found ? (size_t)strtoull(found + sizeof least - 1, NULL, 10) : bytes;
    bt_error_clear();
    return bytes;
}

/* number: CASES for each policy. NULL: skipped this time. */
static bt_engine *case_engine(int number, const char *plan)
{
    const int which = number % CASES, subject = which % SUBJECTS, rest = which / SUBJECTS, policy = number / CASES;
    const setting s = {&subjects[subject], methods[rest % METHODS], rest / METHODS % 2 ? "fp64" : "fp32",
                       rest / METHODS / 2 + 1, policy};
    if ((s.subject->fashion && access(FASHION, R_OK) != 0) ||
        (policy && !getenv("BT_TEST_ALL") && (policy + subject + 3 * rest) % PART))
        return NULL;
    bt_status status;
    setenv("BETTY_PLAN", plan, 1);
    bt_engine *engine = engine_with(&s, bytes_for(&s), &status);
    unsetenv("BETTY_PLAN");
    ck_assert_msg(status == BT_OK, "%s, %s, %s: %s", s.subject->problems, s.method, s.precision, bt_error());
    return engine;
}

static bt_problem *leaf(bt_engine *engine)
{
    for (int i = 0; i < engine->context.problem_count; i++)
        if (!engine->context.problems[i]->child_count)
            return engine->context.problems[i];
    return NULL;
}

static void steps(bt_engine *engine, int count)
{
    bool any;
    for (int i = 0; i < count; i++)
        ck_assert_msg(bt_leaf_step(leaf(engine)) == BT_OK, "%s", bt_error());
    ck_assert_msg(bt_validate(&engine->context, &any) == BT_OK, "%s", bt_error());
}

static size_t largest_bound(const bt_engine *engine)
{
    size_t most = 0;
    for (int64_t i = 0; i < engine->context.instance->phase_count; i++)
        if (engine->context.instance->phases[i]->bound > most)
            most = engine->context.instance->phases[i]->bound;
    return most;
}

/* 1, and a part of 3: without the plan every kernel stays within its values. */
START_TEST(peak_of_own_allocations_is_the_bound)
{
    bt_engine *engine = case_engine(_i, "off");
    if (!engine || !counting_works()) {
        bt_engine_free(engine);
        return;
    }
    steps(engine, 1); /* one-time allocations of libraries */
    counting_start();
    steps(engine, 2);
    counting_stop();
    ck_assert_uint_eq(counting_peak(), largest_bound(engine));
    bt_engine_free(engine);
}
END_TEST

START_TEST(red_zones_stay_intact)
{
    bt_engine *engine = case_engine(_i, "guard");
    if (engine)
        steps(engine, 1);
    bt_engine_free(engine);
}
END_TEST

/* 2. The arena is between guard pages and filled with a pattern. */
static void check_touched(bt_engine *engine)
{
    bt_instance *instance = engine->context.instance;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = instance->arena_size, room = (size + page - 1) / page * page;
    char *pages = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page, room, PROT_READ | PROT_WRITE), 0);
    char *own = instance->arena;
    instance->arena = pages + page + (room - size); /* its end is the guard page's start */
    ck_assert_int_eq(bt_instance_bind(instance), BT_OK);
    bt_instance_fill(instance);
    steps(engine, 3); /* these include the short last batch of an epoch */
    size_t touched = bt_instance_touched(instance);
    instance->arena = own;
    ck_assert_int_eq(bt_instance_bind(instance), BT_OK);
    munmap(pages, room + 2 * page);
    ck_assert_uint_eq(touched, bt_arena_used(&engine->context));
    ck_assert_uint_le(largest_bound(engine), size);
}

/* 3. The phases alone: the loader's thread and the engine's bookkeeping are idle. */
static void check_allocations(bt_engine *engine)
{
    bt_problem *lower = leaf(engine), *upper = lower->parents[0];
    usleep(20000); /* the loaders have prefetched and sleep */
    counting_start();
    bt_status status = bt_step_again(lower, false);
    if (status == BT_OK)
        status = bt_phase_run(lower->step->phase, lower->step->update);
    bt_phase_end(lower->step->phase);
    if (status == BT_OK)
        status = bt_step_again(upper, true);
    if (status == BT_OK)
        status = bt_phase_run(upper->step->phase, upper->step->update);
    counting_stop();
    ck_assert_int_eq(status, BT_OK);
    ck_assert_uint_eq(counting_calls(), 0);
}

START_TEST(the_arena_is_all_that_is_used)
{
    bt_engine *engine = case_engine(_i, "on");
    if (!engine)
        return;
    check_touched(engine);
    if (counting_works())
        check_allocations(engine);
    bt_engine_free(engine);
}
END_TEST

/* 4. */
typedef struct measured {
    size_t planned, peak;
} measured;

/* bytes 0: determines them. */
static measured in_child(const char *hidden, int policy, size_t bytes)
{
    int ends[2];
    measured result = {0};
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char settings[128];
        size_t by_category[BT_CATEGORIES];
        bt_engine *engine;
        snprintf(settings, sizeof settings, "classifier.hidden = %s\n", hidden);
        subject s = {"reweight", "reweight", "classifier", settings, true};
        const setting setting = {&s, "cg", "fp32", 1, policy};
        bt_status status;
        if (!bytes) {
            result.planned = bytes_for(&setting);
        } else if (engine = engine_with(&setting, bytes, &status), status == BT_OK) {
            for (int i = 0; i < 3; i++)
                bt_leaf_step(leaf(engine));
            result.planned =
                bt_arena_planned(&engine->context) + bt_persistent_bytes(&engine->context, by_category, NULL);
            result.peak = bt_resident_peak();
        }
        ssize_t written = write(ends[1], &result, sizeof result);
        _exit(written == sizeof result ? 0 : 1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &result, sizeof result), sizeof result);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return result;
}

START_TEST(resident_memory_grows_as_planned)
{
    if (access(FASHION, R_OK) != 0 || !counting_works())
        return;
    measured small = in_child("32", _i, in_child("32", _i, 0).planned);
    measured large = in_child("2000", _i, in_child("2000", _i, 0).planned);
    ck_assert_uint_gt(large.planned, small.planned + (16u << 20));
    double planned = (double)(large.planned - small.planned), grown = (double)large.peak - (double)small.peak;
    ck_assert_msg(grown > planned - 2 * 1048576.0 && grown < planned + 2 * 1048576.0,
                  "planned %.0f more bytes, the process grew by %.0f", planned, grown);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("witnesses");
    TCase *tests = tcase_create("plan");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, peak_of_own_allocations_is_the_bound, 0, ALL);
    tcase_add_loop_test(tests, the_arena_is_all_that_is_used, 0, ALL);
    for (int policy = 0; policy < POLICIES; policy++)
        tcase_add_loop_test(tests, red_zones_stay_intact, policy * CASES, policy * CASES + SUBJECTS * METHODS);
    tcase_add_loop_test(tests, resident_memory_grows_as_planned, 0, POLICIES);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

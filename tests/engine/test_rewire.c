/* tests/engine/test_rewire.c: bt_set_dependency: changes the hierarchy in the middle of a run, without losing
 * anything. */
#include "linear.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* b reads a and t, a reads t, t reads both. */
static linear_reads reads = {{0, 0.5, 2}, {0.75}, {-0.5, 0.25}};

typedef struct wiring { /* the dependencies, for the engine and for the plain loops below */
    const char *u2l, *l2u;
    bool upper[LINEAR_LEVELS][LINEAR_LEVELS];
    int order[3]; /* the order in which the three levels step */
} wiring;

enum { T, A, B };
static const wiring chain = {"t > a, a > b", "b > a, a > t", {{false, true}, {false, false, true}}, {B, A, T}};
static const wiring flat = {"t > a, t > b", "a > t, b > t", {{false, true, true}}, {A, B, T}};
static const wiring alone = {"", "", {{false}}, {T, A, B}};

#define SETTINGS                                                                                                       \
    "engine.levels = t, a, b\ndependencies.u2l = t > a, a > b\ndependencies.l2u = b > a, a > t\nt.lr = 0.1\n"          \
    "a.lr = 0.2\nb.lr = 0.3\nt.momentum = 0.5\na.momentum = 0.6\nb.momentum = 0.7\nt.batch_size = 1\n"                 \
    "a.batch_size = 1\nb.batch_size = 1\nengine.log_step = 0\nengine.threads = 1\n"

static bt_engine *engine_of(const char *more)
{
    char settings[1000];
    snprintf(settings, sizeof settings, "%s%s", SETTINGS, more);
    return levels_engine(&linear_parts, &reads, settings);
}

static bt_status set(bt_engine *engine, const wiring *to)
{
    return bt_set_dependency(bt_engine_problem(engine, "t"), to->u2l, to->l2u);
}

typedef struct plain {
    double p[LINEAR_LEVELS], velocity[LINEAR_LEVELS];
} plain;

static void plain_step(plain *s, const wiring *by)
{
    static const double lr[] = {0.1, 0.2, 0.3}, momentum[] = {0.5, 0.6, 0.7};
    for (int k = 0; k < 3; k++) {
        int i = by->order[k];
        double g = s->p[i];
        for (int j = 0; j < 3; j++)
            g -= reads[i][j] * s->p[j];
        if (i == T)
            g = linear_derivative(reads, by->upper, s->p);
        s->velocity[i] = momentum[i] * s->velocity[i] + g;
        s->p[i] -= lr[i] * s->velocity[i];
    }
}

/* Parameters, momenta and counters continue unchanged. */
START_TEST(a_schedule_of_hierarchies)
{
    static const struct {
        const wiring *wiring;
        int steps;
    } schedule[] = {{&chain, 4}, {&flat, 3}, {&chain, 2}, {&alone, 2}, {&flat, 3}};
    static const char *const names[] = {"t", "a", "b"};
    plain s = {{0.5, 0.5, 0.5}, {0}};
    bt_engine *engine = engine_of("");
    int steps = 0;
    for (size_t k = 0; k < sizeof schedule / sizeof *schedule; k++) {
        if (k)
            EXPECT_OK(set(engine, schedule[k].wiring));
        levels_step(engine, schedule[k].steps);
        steps += schedule[k].steps;
        for (int i = 0; i < schedule[k].steps; i++)
            plain_step(&s, schedule[k].wiring);
        for (int i = 0; i < 3; i++) {
            double found;
            levels_params(engine, names[i], &found, 1);
            ck_assert_msg(fabs(found - s.p[i]) < 1e-12, "%s, part %d: %.15g, not %.15g", names[i], (int)k, found,
                          s.p[i]);
            ck_assert_int_eq(levels_steps(engine, names[i]), steps);
        }
        ck_assert_int_eq(bt_stream_position(bt_engine_problem(engine, "a")->train), steps);
    }
    bt_engine_free(engine);
}
END_TEST

/* Levels that are ready stay ready: a after three steps, b after four, and then t steps. */
START_TEST(readiness)
{
    bt_engine *engine = engine_of("a.unroll_steps = 3\nb.unroll_steps = 4\ndependencies.u2l = t > a, t > b\n"
                                  "dependencies.l2u = a > t, b > t\n");
    levels_step(engine, 3);
    EXPECT_OK(bt_set_dependency(bt_engine_problem(engine, "a"), "t > a, t > b, a > b", NULL));
    levels_step(engine, 1);
    ck_assert_int_eq(levels_steps(engine, "t"), 1);
    bt_engine_free(engine);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *u2l, *l2u, *words[3];
    } cases[] = {
        {"t > a, a > b, b > t", NULL, {"bt_set_dependency: u2l has a cycle", "b > t"}},
        {NULL, "b > a, a > b", {"l2u has a cycle"}},
        {"t > a", NULL, {"l2u: b > a", "add a > b to u2l"}},
        {"t > a, a > bb", NULL, {"there is no problem `bb`"}},
        {"t > a, t", NULL, {"a problem cannot depend on itself", "t > t"}},
        {"t >", NULL, {"expected upper > lower"}},
        {NULL, "", {"t is upper to a problem", "no solution reaches its loss"}},
        {"t > b", "b > t, b > a", {"b > a"}},
    };
    bt_engine *engine = engine_of(""), *other = engine_of("");
    levels_step(engine, 3);
    levels_step(other, 3);
    ck_assert_int_eq(bt_set_dependency(bt_engine_problem(engine, "t"), cases[_i].u2l, cases[_i].l2u), BT_ERROR_CONFIG);
    for (int k = 0; k < 3 && cases[_i].words[k]; k++)
        ck_assert_msg(strstr(bt_error(), cases[_i].words[k]) != NULL, "%s", bt_error());
    bt_error_clear();
    levels_step(engine, 3);
    levels_step(other, 3);
    ck_assert_uint_eq(levels_hash(engine, NULL), levels_hash(other, NULL));
    bt_engine_free(engine);
    bt_engine_free(other);
}
END_TEST

/* ---- errors that only occur when programs are made: an implicit method cannot differentiate a learned learning rate
 * ---- */

static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5)); }

static bt_dataset *row(bt_problem *self)
{
    static const double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_tensor *z_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_square(bt_sub(bt_forward(self), bt_forward(bt_peer(self, "t"))));
}

static void z_schedule(bt_problem *self, bt_rule *optimizer)
{
    bt_hyper_set(optimizer, "lr", bt_mul(0.1, bt_exp(bt_forward(bt_peer(self, "t")))));
}

static const bt_problem_def z = {.name = "z",
                                 .configure_train_data = row,
                                 .configure_module = number,
                                 .training_step = z_step,
                                 .schedule = z_schedule};

START_TEST(refused_late)
{
    bt_export parts = {.abi = BT_ABI,
                       .problems = {linear_parts.problems[0], linear_parts.problems[1], linear_parts.problems[2], &z}};
    bt_engine *engines[2];
    for (int k = 0; k < 2; k++) {
        engines[k] = levels_engine(&parts, &reads, SETTINGS "engine.levels = t, a, b, z\n");
        levels_step(engines[k], 3);
        if (k) {
            bt_problem *t = bt_engine_problem(engines[k], "t");
            ck_assert_int_eq(bt_set_dependency(t, "t > z, t > a, a > b", "z > t, b > a, a > t"), BT_ERROR_CONFIG);
            ck_assert_msg(strstr(bt_error(), "itd") != NULL, "%s", bt_error());
            bt_error_clear();
        }
        levels_step(engines[k], 3);
    }
    ck_assert_uint_eq(levels_hash(engines[0], NULL), levels_hash(engines[1], NULL));
    bt_engine_free(engines[0]);
    bt_engine_free(engines[1]);
}
END_TEST

/* ---- from callbacks, and through checkpoints ---- */

static void alternate(bt_problem *self)
{
    const wiring *to = bt_host_epoch(self) % 2 ? &flat : &chain;
    if (strcmp(((const bt_problem *)self)->name, "b") == 0)
        ck_assert_int_eq(bt_set_dependency(self, to->u2l, to->l2u), BT_OK);
}

static void after_validation(bt_problem *self)
{
    if (strcmp(((const bt_problem *)self)->name, "b") == 0)
        ck_assert_int_eq(bt_set_dependency(self, flat.u2l, flat.l2u), BT_OK);
}

enum { STEPS = 11 };

static void add(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    uint64_t *sum = user;
    if (var->category != BT_BATCH) /* without values that are written before they are read; independent of the order of
                                    * creation */
        *sum += bt_hash(bt_hash_text(bt_hash_text(0, var->owner), var->name), var_near(var), var->bytes);
}

static uint64_t state_of(bt_engine *engine)
{
    uint64_t sum = 0;
    bt_visit_vars(&engine->context, NULL, add, &sum);
    return sum;
}

static bt_engine *run_to(int steps, const char *resumed_from, const char *save_as)
{
    char iterations[64];
    snprintf(iterations, sizeof iterations, "engine.train_iters = %d\nengine.valid_step = 4\n", steps);
    bt_engine *engine = engine_of(iterations);
    if (resumed_from)
        EXPECT_OK(bt_engine_resume(engine, resumed_from));
    levels_run(engine);
    if (save_as)
        EXPECT_OK(bt_engine_save(engine, save_as));
    return engine;
}

/* The change takes effect at the next step; a resumed run has the hierarchy with which it stopped. */
START_TEST(from_a_callback)
{
    static const char *const names[] = {"t", "a", "b"};
    plain s = {{0.5, 0.5, 0.5}, {0}};
    char folder[32];
    linear_epoch = _i ? NULL : alternate;
    linear_validated = _i ? after_validation : NULL;
    for (int step = 0; step < STEPS; step++)
        plain_step(&s, _i ? (step < 4 ? &chain : &flat) : step / 3 % 2 ? &flat : &chain);
    bt_engine *whole = run_to(STEPS, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        double found;
        levels_params(whole, names[i], &found, 1);
        ck_assert_double_eq_tol(found, s.p[i], 1e-12);
    }
    for (int stop = _i ? 4 : 1; stop < STEPS; stop++) { /* the end of a run is validated, too */
        snprintf(folder, sizeof folder, "rewired-%d-%d", _i, stop);
        bt_engine_free(run_to(stop, NULL, folder));
        bt_engine *engine = run_to(STEPS, folder, NULL);
        ck_assert_msg(state_of(engine) == state_of(whole), "stopped after %d", stop);
        bt_engine_free(engine);
    }
    bt_engine_free(whole);
}
END_TEST

/* b comes and goes, and with it the state that t's method keeps for it. Saved before and after each change, and after
 * each step, a run continues to the same bits. */
static const wiring part = {"t > a", "a > t", {{false, true}}, {B, A, T}};
static const wiring *const by_step[] = {&part, &part, &flat, &flat, &part, &part, &flat, &flat, &part, &part};
enum { COMES_AND_GOES = sizeof by_step / sizeof *by_step };

static const char *const keepers[] = {
    "b.type = cg\nb.cg_warm_start = true\n",
    "a.type = cg\na.cg_warm_start = true\nb.type = neumann\nb.neumann_alpha = 3\nb.neumann_iterations = 4\n",
    "b.type = nystrom\nb.nystrom_rank = 1\nengine.roll_back = true\na.unroll_steps = 2\nb.unroll_steps = 2\n",
    "b.type = itd\nt.meta_batch = 2\n",
    "b.type = cg\nb.cg_warm_start = true\na.type = itd\nengine.roll_back = true\n",
};

static bt_engine *keeper(int which)
{
    char settings[400];
    snprintf(settings, sizeof settings, "dependencies.u2l = t > a\ndependencies.l2u = a > t\n%s", keepers[which]);
    return engine_of(settings);
}

/* The dependencies of step k, if they differ from those before it. */
static void rewire_for(bt_engine *engine, int k)
{
    if (k > 0 && k < COMES_AND_GOES && by_step[k] != by_step[k - 1])
        EXPECT_OK(set(engine, by_step[k]));
}

START_TEST(what_methods_keep)
{
    char at[2][32];
    bt_engine *engine = keeper(_i);
    for (int k = 0; k <= COMES_AND_GOES; k++) {
        for (int changed = 0; changed < 2; changed++) {
            snprintf(at[changed], sizeof at[changed], "keeps-%d-%d", k, changed);
            EXPECT_OK(bt_engine_save(engine, at[changed]));
            if (!changed)
                rewire_for(engine, k);
        }
        levels_step(engine, k < COMES_AND_GOES);
    }
    uint64_t end = state_of(engine);
    bt_engine_free(engine);
    for (int from = 0; from <= COMES_AND_GOES; from++)
        for (int changed = 0; changed < 2; changed++) {
            engine = keeper(_i);
            snprintf(at[0], sizeof at[0], "keeps-%d-%d", from, changed);
            EXPECT_OK(bt_engine_resume(engine, at[0]));
            for (int k = from; k < COMES_AND_GOES; k++) {
                if (k > from || !changed)
                    rewire_for(engine, k);
                levels_step(engine, 1);
            }
            ck_assert_msg(state_of(engine) == end, "resumed after %d steps, %d: another run", from, changed);
            bt_engine_free(engine);
        }
}
END_TEST

/* If a change is refused, the method's state is kept, even after programs were made for the other dependencies. */
START_TEST(what_methods_keep_when_refused)
{
    bt_export with_z = {.abi = BT_ABI,
                        .problems = {linear_parts.problems[0], linear_parts.problems[1], linear_parts.problems[2], &z}};
    bt_engine *engine =
        levels_engine(&with_z, &reads,
                      SETTINGS "engine.levels = t, a, b, z\na.type = cg\na.cg_warm_start = true\nb.type = cg\n"
                               "b.cg_warm_start = true\ndependencies.u2l = t > a\ndependencies.l2u = a > t\n");
    levels_step(engine, 3);
    uint64_t before = state_of(engine);
    bt_problem *t = bt_engine_problem(engine, "t");
    ck_assert_int_eq(bt_set_dependency(t, "t > a, t > b, t > z", "a > t, b > t, z > t"), BT_ERROR_CONFIG);
    bt_error_clear();
    ck_assert_uint_eq(state_of(engine), before);
    EXPECT_OK(bt_engine_save(engine, "refused"));
    bt_engine_free(engine);
}
END_TEST

static bt_status asked;

static void impossible(bt_problem *self) { asked = bt_set_dependency(self, "a > a", NULL); }

static void impossible_and_cleared(bt_problem *self)
{
    impossible(self);
    bt_error_clear();
}

/* A callback that requests an impossible change ends the run, unless it clears the error. */
START_TEST(refused_in_a_callback)
{
    linear_epoch = _i ? impossible_and_cleared : impossible;
    bt_engine *engine = engine_of("engine.train_iters = 5\n");
    ck_assert_int_eq(bt_engine_run(engine), _i ? BT_OK : BT_ERROR_CONFIG);
    ck_assert_int_eq(asked, BT_ERROR_CONFIG);
    ck_assert(_i || strstr(bt_error(), "cannot depend on itself"));
    bt_engine_free(engine);
}
END_TEST

/* A callback that is traced for the new dependencies finds the engine busy. */
static bt_engine *traced_in;

static bt_tensor *running_step(bt_problem *self, const bt_batch *batch)
{
    bt_engine *engine = traced_in;
    traced_in = NULL;
    if (engine)
        bt_engine_run(engine);
    return bt_mul(bt_sum(bt_square(bt_params(self))), bt_mean(bt_field(batch, "x")));
}

static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }

START_TEST(runs_while_it_is_traced)
{
    static const bt_problem_def running = {.name = "running",
                                           .configure_train_data = levels_one_row,
                                           .configure_module = one,
                                           .training_step = running_step};
    const bt_export parts = {.abi = BT_ABI, .problems = {&running}};
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 2\n");
    bt_problem *problem = bt_engine_problem(engine, "running");
    ck_assert_msg(problem != NULL, "%s", bt_error());
    traced_in = engine;
    ck_assert_int_eq(bt_set_dependency(problem, "", ""), BT_ERROR_ARGUMENT);
    ck_assert_msg(strstr(bt_error(), "running, training_step: bt_engine_run: the engine is running"), "%s", bt_error());
    ck_assert_int_eq(bt_engine_steps(engine), 0);
    bt_error_clear();
    levels_run(engine);
    ck_assert_int_eq(bt_engine_steps(engine), 2);
    bt_engine_free(engine);
}
END_TEST

START_TEST(misuse)
{
    bt_engine *engine = engine_of("");
    ck_assert_int_eq(bt_set_dependency(NULL, "", ""), BT_ERROR_ARGUMENT);
    bt_error_clear();
    levels_step(engine, 1);
    EXPECT_OK(bt_set_dependency(bt_engine_problem(engine, "t"), NULL, NULL));
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rewire");
    TCase *tests = tcase_create("bt_set_dependency");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, a_schedule_of_hierarchies);
    tcase_add_test(tests, readiness);
    tcase_add_loop_test(tests, refused, 0, 8);
    tcase_add_test(tests, refused_late);
    tcase_add_loop_test(tests, from_a_callback, 0, 2);
    tcase_add_loop_test(tests, what_methods_keep, 0, 5);
    tcase_add_test(tests, what_methods_keep_when_refused);
    tcase_add_loop_test(tests, refused_in_a_callback, 0, 2);
    tcase_add_test(tests, runs_while_it_is_traced);
    tcase_add_test(tests, misuse);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

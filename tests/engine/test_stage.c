/* tests/engine/test_stage.c: every public call in every stage from which it can be reached. */
#include "levels.h"

#include "engine/level/level.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

/* ---- the calls ---- */

typedef struct world {
    bt_stage at; /* the stage in which to make the call */
    int call;
    bool made, frees;
    bt_stage before, after; /* of the call */
    bt_status status;
    char message[512];
    bt_engine *engine;
    bt_problem *lower;
    double found[2];
    int64_t memory;
} world;

static bt_tensor *parameters(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_params(self);
}

static bt_status valid_batch(world *w)
{
    return bt_valid_batch(w->lower, 0) || bt_error_status() == BT_OK ? BT_OK : bt_error_status();
}

static bt_status adapt(world *w)
{
    double x = 0;
    bt_batch *batch = bt_batch_new();
    bt_status status = bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
    status = status == BT_OK ? bt_adapt(w->lower, batch, 1) : status;
    bt_batch_free(batch);
    return status;
}

static bt_status print(world *w)
{
    FILE *nowhere = fopen("/dev/null", "w");
    bt_status status = bt_engine_print(w->engine, BT_INFO, nowhere);
    fclose(nowhere);
    return status;
}

static bt_status check(world *w)
{
    FILE *nowhere = fopen("/dev/null", "w");
    bt_status status = bt_engine_check_hypergradient(w->engine, &(bt_checking){.samples = 1, .file = nowhere});
    fclose(nowhere);
    return status;
}

static bt_status use(world *w)
{
    static const bt_export nothing = {.abi = BT_ABI};
    return bt_engine_use(w->engine, &nothing, NULL);
}

static bt_status name(world *w)
{
    return bt_engine_name(w->engine, 0, NULL) || bt_error_status() == BT_OK ? BT_OK : bt_error_status();
}

static bt_status read_value(world *w) { return bt_engine_read(w->engine, "lower.value", BT_ARRAY(w->found, 2)); }
static bt_status write_value(world *w) { return bt_engine_write(w->engine, "lower.value", BT_ARRAY(w->found, 2)); }
static bt_status run_to(world *w) { return bt_engine_run_to(w->engine, 1); }
static bt_status step(world *w) { return bt_engine_step(w->engine); }
static bt_status lengthen(world *w) { return bt_engine_set(w->engine, "engine.train_iters", "3"); }
static bt_status listen(world *w) { return bt_engine_log(w->engine, NULL, NULL); }
static bt_status load(world *w) { return bt_engine_load(w->engine, "/nowhere/none.ini"); }
static bt_status set(world *w) { return bt_engine_set(w->engine, "lower.lr", "0.1"); }
static bt_status problem(world *w) { return bt_engine_problem(w->engine, "lower") ? BT_OK : bt_error_status(); }
static bt_status run(world *w) { return bt_engine_run(w->engine); }
static bt_status save(world *w) { return bt_engine_save(w->engine, "/nowhere/run"); }
static bt_status resume(world *w) { return bt_engine_resume(w->engine, "/nowhere/run"); }
static bt_status state(world *w) { return bt_state(w->lower, "memory", &w->memory, sizeof w->memory); }
static bt_status rewire(world *w) { return bt_set_dependency(w->lower, NULL, NULL); }
static bt_status eval(world *w) { return bt_eval(w->lower, parameters, NULL, BT_ARRAY(w->found, 2)); }
static bt_status question(world *w) { return bt_hypergradient(w->lower, BT_ARRAY(w->found, 2)); }
static bt_status restore(world *w) { return bt_restore(w->lower); }

/* What each stage allows: NEW, SETUP, READY, RUN, STEP, VALIDATION, PROGRAM, QUESTION, SAYING, FAILED. No callback runs
 * in RUN, and in NEW there are no problems yet. */
static const struct {
    const char *name;
    bt_status (*make)(world *w);
    bt_request request;
    const char *allowed;
    bool of_problem;
} calls[] = {
    {"bt_engine_load", load, BT_REQUEST_CONFIGURE, "+---------", false},
    {"bt_engine_use", use, BT_REQUEST_CONFIGURE, "+---------", false},
    {"bt_engine_set", set, BT_REQUEST_CHANGE, "+-+-------", false},
    {"bt_engine_set, train_iters", lengthen, BT_REQUEST_CHANGE, "+-+-------", false},
    {"bt_engine_log", listen, BT_REQUEST_LOG, "++++++++-+", false},
    {"bt_engine_read", read_value, BT_REQUEST_VALUES, "+-++++----", false},
    {"bt_engine_write", write_value, BT_REQUEST_VALUES, "+-++++----", false},
    {"bt_engine_name", name, BT_REQUEST_VALUES, "+-++++----", false},
    {"bt_engine_problem", problem, BT_REQUEST_LOOK, "+-++++++--", false},
    {"bt_engine_print", print, BT_REQUEST_LOOK, "+-++++++--", false},
    {"bt_engine_run", run, BT_REQUEST_RUN, "+-+-------", false},
    {"bt_engine_run_to", run_to, BT_REQUEST_RUN, "+-+-------", false},
    {"bt_engine_step", step, BT_REQUEST_RUN, "+-+-------", false},
    {"bt_engine_check_hypergradient", check, BT_REQUEST_RUN, "+-+-------", false},
    {"bt_engine_save", save, BT_REQUEST_SAVE, "+-+-------", false},
    {"bt_engine_resume", resume, BT_REQUEST_SAVE, "+-+-------", false},
    {"bt_state", state, BT_REQUEST_STATE, "++--------", true},
    {"bt_set_dependency", rewire, BT_REQUEST_REWIRE, "--++++++--", true},
    {"bt_eval", eval, BT_REQUEST_EVAL, "--++++++--", true},
    {"bt_hypergradient", question, BT_REQUEST_QUESTION, "--++++----", true},
    {"bt_valid_batch", valid_batch, BT_REQUEST_QUESTION, "--++++----", true},
    {"bt_adapt", adapt, BT_REQUEST_QUESTION, "--++++----", true},
    {"bt_restore", restore, BT_REQUEST_QUESTION, "--++++----", true},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Makes the call once, in its stage; its result must not end the run. */
static void make(world *w)
{
    if (w->made || !w->engine || bt_stage_now(&w->engine->context) != w->at)
        return;
    w->made = true;
    w->before = bt_stage_now(&w->engine->context);
    w->status = calls[w->call].make(w);
    w->after = bt_stage_now(&w->engine->context);
    snprintf(w->message, sizeof w->message, "%s", bt_error());
    bt_error_clear();
}

/* ---- two levels that make the call ---- */

static bt_module *net(bt_problem *self)
{
    world *w = bt_user(self);
    if (strcmp(self->name, "lower") == 0)
        w->lower = self;
    if (w->lower)
        make(w);
    return bt_nn_parameter(bt_init_constant(0.5), 2);
}

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = (double)(index + mode) * 0.01;
    make(bt_user(self));
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static void between(bt_problem *self)
{
    world *w = bt_user(self);
    if (w->frees) {
        bt_engine_free(w->engine);
        snprintf(w->message, sizeof w->message, "%s", bt_error());
        bt_error_clear();
    }
    make(w);
}

static bt_tensor *lower_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *off = bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper")));
    return bt_add(bt_sum(bt_square(off)), bt_mul(0.0, bt_sum(bt_field(batch, "x"))));
}

static bt_tensor *upper_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = bt_sum(bt_square(bt_forward(bt_peer(self, "lower"))));
    return bt_add(loss, bt_mul(0.0, bt_sum(bt_field(batch, "x"))));
}

static bt_engine *engine_new(world *w)
{
    static const bt_problem_def upper = {.name = "upper",
                                         .configure_module = net,
                                         .get_batch = draw,
                                         .training_step = upper_loss,
                                         .validation_step = upper_loss,
                                         .validation_end = between};
    static const bt_problem_def lower = {.name = "lower",
                                         .configure_module = net,
                                         .get_batch = draw,
                                         .training_step = lower_loss,
                                         .on_inner_loop_start = between};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
    return levels_engine(&parts, w,
                         "engine.train_iters = 2\nengine.valid_step = 1\ndependencies.u2l = upper > lower\n"
                         "dependencies.l2u = lower > upper\nlower.lr = 0.1\n");
}

static void said(void *user, bt_line kind, const char *text)
{
    (void)kind;
    (void)text;
    make(user);
}

/* With public calls only. */
static void go_there(world *w)
{
    double found[2];
    if (w->at == BT_STAGE_SAYING)
        bt_engine_log(w->engine, said, w);
    if (w->at == BT_STAGE_FAILED)
        bt_engine_set(w->engine, "lower.weights", "/nowhere/none.safetensors");
    if (w->at != BT_STAGE_NEW)
        bt_engine_setup(w->engine);
    if (w->at == BT_STAGE_FAILED)
        bt_error_clear();
    if (w->at == BT_STAGE_QUESTION)
        bt_hypergradient(bt_engine_problem(w->engine, "upper"), BT_ARRAY(found, 2));
    else if (w->at == BT_STAGE_STEP || w->at == BT_STAGE_VALIDATION || w->at == BT_STAGE_PROGRAM ||
             w->at == BT_STAGE_SAYING)
        bt_engine_run(w->engine);
    else
        make(w);
}

START_TEST(every_call_in_every_stage)
{
    int call = _i / BT_STAGES, stage = _i % BT_STAGES;
    if (stage == BT_STAGE_RUN || (stage == BT_STAGE_NEW && calls[call].of_problem))
        return;
    world w = {.at = (bt_stage)stage, .call = call};
    w.engine = engine_new(&w);
    ck_assert_ptr_nonnull(w.engine);
    go_there(&w);
    const char *refusal = bt_stage_refusal((bt_stage)stage, calls[call].request);
    bool allowed = calls[call].allowed[stage] == '+';
    ck_assert_msg(w.made, "%s: stage %d is never reached", calls[call].name, stage);
    ck_assert_msg(allowed == !refusal, "%s in stage %d: the table has %s", calls[call].name, stage,
                  refusal ? refusal : "no refusal");
    if (!allowed) {
        ck_assert_int_ne(w.status, BT_OK);
        const char *word = stage == BT_STAGE_FAILED ? "none.safetensors" : refusal;
        ck_assert_msg(strstr(w.message, word) != NULL, "%s in stage %d: %s", calls[call].name, stage, w.message);
    } else if (w.status != BT_OK) { /* for another reason */
        for (int s = 0; s < BT_STAGES; s++) {
            const char *other = bt_stage_refusal((bt_stage)s, calls[call].request);
            ck_assert_msg(!other || !strstr(w.message, other), "%s in stage %d: %s", calls[call].name, stage,
                          w.message);
        }
    }
    if (w.before != BT_STAGE_NEW && w.after != BT_STAGE_FAILED)
        ck_assert_int_eq(w.after, w.before);
    bt_engine_free(w.engine);
    bt_error_clear();
}
END_TEST

/* Every stage within a run is left again, whatever the result. */
START_TEST(stages_are_left)
{
    world w = {.at = BT_STAGE_VALIDATION};
    while (calls[w.call].make != question)
        w.call++;
    double found[2];
    w.engine = engine_new(&w);
    bt_context *context = &w.engine->context;
    ck_assert_int_eq(bt_stage_now(context), BT_STAGE_NEW);
    levels_run(w.engine);
    ck_assert(w.made && w.after == BT_STAGE_VALIDATION);
    ck_assert_int_eq(bt_stage_now(context), BT_STAGE_READY);
    ck_assert_int_eq(context->stages.depth, 0);
    EXPECT_OK(bt_hypergradient(w.lower, BT_ARRAY(found, 2)));
    ck_assert_int_eq(bt_hypergradient(w.lower, BT_ARRAY(found, 1)), BT_ERROR_SHAPE);
    ck_assert_int_eq(context->stages.depth, 0);
    bt_engine_free(w.engine);
}
END_TEST

/* A running call continues, with an engine that still exists. */
START_TEST(freed_in_a_callback)
{
    world w = {.at = BT_STAGE_FAILED, .frees = true};
    w.engine = engine_new(&w);
    levels_run(w.engine);
    ck_assert_ptr_nonnull(strstr(w.message, "bt_engine_free: a call of the engine is under way"));
    ck_assert_int_eq(bt_engine_steps(w.engine), 2);
    bt_engine_free(w.engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stage");
    TCase *tests = tcase_create("stage");
    tcase_add_loop_test(tests, every_call_in_every_stage, 0, CALLS * BT_STAGES);
    tcase_add_test(tests, stages_are_left);
    tcase_add_test(tests, freed_in_a_callback);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

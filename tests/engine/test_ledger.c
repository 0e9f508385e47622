/* tests/engine/test_ledger.c: a test room, unknown to the engine, enters a counter and a run variable in the ledger.
 * From that alone they are saved, resumed, rolled back, preserved by requests and the check, restored by bt_restore,
 * and counted. */
#include "resumable.h"

#include "engine/level/level.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the room ---- */

enum { WIDTH = 3 };

typedef struct room {
    bool open;       /* whether it enters something */
    bool moves;      /* whether drawing a batch changes it */
    int64_t counter; /* "room.count" */
    bt_var *var;     /* "room" */
} room;

static void room_set(room *r, int64_t counter, const double values[WIDTH])
{
    r->counter = counter;
    var_write(r->var, values);
}

static void room_expect(const room *r, int64_t counter, const double values[WIDTH])
{
    ck_assert_int_eq(r->counter, counter);
    ck_assert_mem_eq(var_near(r->var), values, WIDTH * sizeof *values);
}

static void room_open(room *r, bt_problem *problem)
{
    bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {WIDTH}};
    r->var = bt_ledger_var(problem->context, problem, BT_ROLE_BUFFER, BT_BUFFERS, "room", shape);
    ck_assert_ptr_nonnull(r->var);
    EXPECT_OK(bt_ledger_enter_number(problem->context, problem, BT_ROLE_BUFFER, "room.count", BT_ROW_INT, &r->counter));
}

/* Removes the room's entries from the ledger, and frees the engine. */
static void leave(bt_engine *engine, room *r)
{
    if (r->open) {
        bt_problem *lower = bt_engine_problem(engine, "lower");
        bt_ledger_leave(lower->context, &r->counter);
        bt_ledger_var_free(lower->context, r->var);
    }
    bt_engine_free(engine);
}

/* ---- two levels ---- */

static bt_module *net(bt_problem *self)
{
    room *r = bt_user(self);
    if (r->open && strcmp(self->name, "lower") == 0)
        room_open(r, self);
    return bt_nn_parameter(bt_init_constant(0.5), 2);
}

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    static const double other[WIDTH] = {-1, -2, -3};
    room *r = bt_user(self);
    double x = 0.1 * (double)((index + mode) % 3);
    if (r->moves)
        room_set(r, r->counter + 1, other);
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static bt_tensor *lower_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *off = bt_sub(bt_forward(self), bt_forward(bt_peer(self, "upper")));
    return bt_add(bt_sum(bt_square(off)), bt_mul(bt_sum(bt_field(batch, "x")), bt_sum(bt_forward(self))));
}

static bt_tensor *upper_loss(bt_problem *self, const bt_batch *batch)
{
    (void)self;
    return bt_add(bt_sum(bt_square(bt_forward(bt_peer(self, "lower")))), bt_mul(0.0, bt_sum(bt_field(batch, "x"))));
}

static bt_engine *engine_new(room *r, const char *settings)
{
    static const bt_problem_def upper = {
        .name = "upper", .configure_module = net, .get_batch = draw, .training_step = upper_loss};
    static const bt_problem_def lower = {
        .name = "lower", .configure_module = net, .get_batch = draw, .training_step = lower_loss};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
    char all[512];
    snprintf(all, sizeof all,
             "engine.train_iters = 4\ndependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
             "lower.unroll_steps = 2\nlower.lr = 0.1\n%s",
             settings);
    bt_engine *engine = levels_engine(&parts, r, all);
    EXPECT_OK(bt_engine_setup(engine));
    return engine;
}

static const double some[WIDTH] = {0.1, -0.0, 1e-310}, others[WIDTH] = {4, 5, 6};

/* ---- reports ---- */

START_TEST(saved_and_resumed)
{
    const double odd[WIDTH] = {0.1, -0.0, NAN};
    room first = {.open = true}, second = {.open = true};
    bt_engine *engine = engine_new(&first, "");
    levels_step(engine, 1);
    room_set(&first, INT64_MAX - 1, odd);
    EXPECT_OK(bt_engine_save(engine, "saved"));
    leave(engine, &first);
    engine = engine_new(&second, "");
    room_expect(&second, 0, (const double[WIDTH]){0});
    EXPECT_OK(bt_engine_resume(engine, "saved"));
    room_expect(&second, INT64_MAX - 1, odd);
    leave(engine, &second);
}
END_TEST

/* A run without the room is a different run. */
START_TEST(missing_from_a_run)
{
    room first = {.open = true}, second = {0};
    bt_engine *engine = engine_new(&first, "");
    EXPECT_OK(bt_engine_save(engine, "saved"));
    leave(engine, &first);
    engine = engine_new(&second, "");
    ck_assert_int_eq(bt_engine_resume(engine, "saved"), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "lower: the checkpoint has "));
    bt_error_clear();
    leave(engine, &second);
    engine = engine_new(&second, "");
    EXPECT_OK(bt_engine_save(engine, "without"));
    leave(engine, &second);
    engine = engine_new(&first, "");
    ck_assert_int_eq(bt_engine_resume(engine, "without"), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "lower: the checkpoint has no number room.count, which this run needs"));
    bt_engine_free(engine);
    bt_error_clear();
    bt_var_free(first.var);
}
END_TEST

START_TEST(rolled_back)
{
    room r = {.open = true};
    bt_engine *engine = engine_new(&r, "engine.roll_back = true\n");
    room_set(&r, 5, some);
    levels_step(engine, 1); /* of two: the inner loop has begun */
    room_set(&r, 6, others);
    levels_step(engine, 1); /* the upper level steps, and the lower one returns to the start of its loop */
    ck_assert_int_eq(levels_steps(engine, "upper"), 1);
    room_expect(&r, 5, some);
    leave(engine, &r);
}
END_TEST

/* The copies for roll_back are part of the run too. */
START_TEST(resumed_within_an_inner_loop)
{
    room r = {.open = true}, again = {.open = true};
    bt_engine *engine = engine_new(&r, "engine.roll_back = true\n");
    room_set(&r, 5, some);
    levels_step(engine, 1);
    room_set(&r, 6, others);
    EXPECT_OK(bt_engine_save(engine, "saved"));
    leave(engine, &r);
    engine = engine_new(&again, "engine.roll_back = true\n");
    EXPECT_OK(bt_engine_resume(engine, "saved"));
    room_expect(&again, 6, others);
    levels_step(engine, 1);
    room_expect(&again, 5, some);
    leave(engine, &again);
}
END_TEST

START_TEST(kept_through_questions)
{
    room r = {.open = true};
    double found[2];
    char *text = NULL;
    size_t size = 0;
    bt_engine *engine = engine_new(&r, "");
    levels_step(engine, 2);
    r.moves = true;
    room_set(&r, 7, some);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    room_expect(&r, 7, some);
    FILE *file = open_memstream(&text, &size);
    EXPECT_OK(bt_engine_check_hypergradient(engine, &(bt_checking){.samples = 1, .file = file}));
    fclose(file);
    free(text);
    room_expect(&r, 7, some);
    levels_step(engine, 1); /* the calls above would have changed it, as a step does */
    ck_assert_int_ne(r.counter, 7);
    leave(engine, &r);
}
END_TEST

START_TEST(put_back_by_restore)
{
    room r = {.open = true};
    bt_engine *engine = engine_new(&r, "");
    bt_problem *lower = bt_engine_problem(engine, "lower");
    levels_step(engine, 1);
    room_set(&r, 8, some);
    const bt_batch *batch = bt_valid_batch(lower, 0);
    ck_assert_ptr_nonnull(batch);
    EXPECT_OK(bt_adapt(lower, batch, 1));
    room_set(&r, 9, others);
    EXPECT_OK(bt_restore(lower));
    room_expect(&r, 8, some);
    leave(engine, &r);
}
END_TEST

static int64_t planned(bt_engine *engine)
{
    char *text = NULL;
    size_t size = 0;
    long long bytes = -1;
    FILE *file = open_memstream(&text, &size);
    EXPECT_OK(bt_engine_report(engine, BT_PLAN, true, file));
    fclose(file);
    const char *at = strstr(text, "\"planned_bytes\"");
    at = at ? strstr(at, "\"persistent\":") : NULL;
    ck_assert(at && sscanf(at, "\"persistent\": %lld", &bytes) == 1);
    free(text);
    return bytes;
}

START_TEST(counted)
{
    size_t with[BT_CATEGORIES], without[BT_CATEGORIES];
    room r = {.open = true}, none = {0};
    bt_engine *engine = engine_new(&r, ""), *other = engine_new(&none, "");
    size_t bytes = bt_persistent_bytes(&engine->context, with, NULL);
    ck_assert_uint_eq(bytes - bt_persistent_bytes(&other->context, without, NULL), WIDTH * sizeof(double));
    ck_assert_uint_eq(with[BT_BUFFERS] - without[BT_BUFFERS], WIDTH * sizeof(double));
    ck_assert_int_eq(planned(engine) - planned(other), WIDTH * sizeof(double));
    leave(engine, &r);
    leave(other, &none);
}
END_TEST

/* A checkpoint identifies entries by name, whatever their kind. */
START_TEST(one_name_twice)
{
    room r = {.open = true};
    int64_t number = 0;
    bt_engine *engine = engine_new(&r, "");
    bt_problem *lower = bt_engine_problem(engine, "lower");
    bt_context *context = &engine->context;
    ck_assert_int_eq(bt_ledger_enter_number(context, lower, BT_ROLE_CLOCK, "room.count", BT_ROW_INT, &number),
                     BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "lower: a checkpoint would keep two things as `room.count`"));
    bt_error_clear();
    ck_assert_ptr_null(bt_ledger_var(context, lower, BT_ROLE_SOLVER, BT_BUFFERS, "room", (bt_array){.dtype = BT_F64}));
    ck_assert_ptr_nonnull(strstr(bt_error(), "keep two things as `room`"));
    bt_error_clear();
    ck_assert_int_eq(bt_ledger_enter_bytes(context, lower, "room", &number, sizeof number), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_ledger_enter_number(context, NULL, BT_ROLE_CLOCK, "step", BT_ROW_INT, &number),
                     BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(bt_error(), "the run: a checkpoint would keep two things"));
    bt_error_clear();
    EXPECT_OK(bt_ledger_enter_number(context, bt_engine_problem(engine, "upper"), BT_ROLE_CLOCK, "room.count",
                                     BT_ROW_INT, &number)); /* belongs to another problem */
    bt_ledger_leave(context, &number);
    leave(engine, &r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tests = tcase_create("ledger");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, saved_and_resumed);
    tcase_add_test(tests, missing_from_a_run);
    tcase_add_test(tests, rolled_back);
    tcase_add_test(tests, resumed_within_an_inner_loop);
    tcase_add_test(tests, kept_through_questions);
    tcase_add_test(tests, put_back_by_restore);
    tcase_add_test(tests, counted);
    tcase_add_test(tests, one_name_twice);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

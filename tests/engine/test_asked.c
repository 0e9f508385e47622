/* tests/engine/test_asked.c: requests of a program to an engine: reports, its own data sets, validation batches; and
 * error messages for wrong requests. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_dataset *counted_rows(const char *split)
{
    double x[6];
    int count = strcmp(split, "test") == 0 ? 3 : 6;
    for (int i = 0; i < count; i++)
        x[i] = i + 1;
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "x", BT_ARRAY(x, count));
    return data;
}

static const bt_dataset_def rows = {.name = "asked-rows", .open = counted_rows};

static bt_dataset *train_rows(bt_problem *self) { return (void)self, bt_dataset_open("asked-rows", "train"); }
static bt_dataset *test_rows(bt_problem *self) { return (void)self, bt_dataset_open("asked-rows", "test"); }

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(2));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_param(self, "value"), bt_field(batch, "x"));
    return bt_mul(bt_exp(bt_param(bt_peer(self, "upper"), "value")), bt_mean(bt_square(away)));
}

/* One element, though not a scalar: it counts as one. */
static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_param(bt_peer(self, "lower"), "value"), bt_field(batch, "x"));
    return bt_reshape(bt_mean(bt_square(away)), 1);
}

static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = train_rows,
                                     .configure_valid_data = test_rows,
                                     .configure_module = number,
                                     .training_step = lower_step};
static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = train_rows, .configure_module = number, .training_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}, .datasets = {&rows}};

#define LINKS "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"

static char *printed(bt_engine *engine, bt_report what)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(file);
    EXPECT_OK(bt_engine_print(engine, what, file));
    fclose(file);
    return text;
}

START_TEST(equation)
{
    bt_engine *engine = levels_engine(&parts, NULL, LINKS "lower.type = cg\nlower.detach = field\n");
    char *text = printed(engine, BT_EQUATION);
    ck_assert_str_eq(text, "upper: d/d(upper) = dC_upper/d(upper) - (d2C_lower/d(upper)d(lower))^T x_lower\n"
                           "  x_lower = cg(a_lower), product vjp, detach field; a_lower = dC_upper/d(lower)\n"
                           "lower: d/d(lower) = dC_lower/d(lower)\n");
    free(text);
    bt_engine_free(engine);
}
END_TEST

START_TEST(reports)
{
    bt_engine *engine = levels_engine(&parts, NULL, LINKS "lower.lr = 0.125\n");
    static const char *const expected[] = {
        [BT_PLAN] = "memory plan for ", [BT_INFO] = "device cpu", [BT_CONFIG] = "lr = 0.125\n", [BT_EQUATION] = "d/d("};
    for (int what = BT_PLAN; what <= BT_EQUATION; what++) {
        char *text = printed(engine, (bt_report)what);
        ck_assert_msg(strstr(text, expected[what]) != NULL, "`%s` is not in: %s", expected[what], text);
        free(text);
    }
    FILE *full = fopen("/dev/full", "w");
    ck_assert_ptr_nonnull(full);
    ck_assert_int_eq(bt_engine_print(engine, BT_INFO, full), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "the report cannot be written");
    fclose(full);
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* A set that comes with the problems exists as long as their engine. */
START_TEST(own_data_set)
{
    bt_engine *engine = levels_engine(&parts, NULL, LINKS);
    levels_step(engine, 2);
    bt_dataset *data = bt_dataset_open("asked-rows", "train");
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(bt_dataset_count(data), 6);
    bt_dataset_free(data);
    bt_engine_free(engine);
    ck_assert_ptr_null(bt_dataset_open("asked-rows", "train"));
    ck_assert_ptr_nonnull(strstr(bt_error(), "asked-rows"));
    bt_error_clear();
}
END_TEST

/* Validation data without a validation_step: for a program that evaluates on its own. */
START_TEST(validation_batches)
{
    bt_engine *engine = levels_engine(&parts, NULL, LINKS "lower.valid_batch_size = 2\n");
    bt_problem *problem = bt_engine_problem(engine, "lower");
    int64_t count = 0;
    for (const bt_batch *batch; (batch = bt_valid_batch(problem, count)) != NULL; count++)
        ck_assert_int_eq(bt_batch_count(batch), count == 0 ? 2 : 1);
    ck_assert_int_eq(count, 2);
    ck_assert_str_eq(bt_error(), "");
    ck_assert_ptr_null(bt_valid_batch(problem, -1));
    ck_assert_str_eq(bt_error(), "bt_valid_batch: found batch -1; expected 0 or more");
    bt_engine_free(engine);
    bt_error_clear();

    engine = levels_engine(&parts, NULL, LINKS);
    ck_assert_ptr_null(bt_valid_batch(bt_engine_problem(engine, "upper"), 0));
    ck_assert_str_eq(bt_error(), "upper has no validation data: it needs configure_valid_data or get_batch");
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* ---- wrong requests ---- */

static void expect_said(bt_engine *engine, const char *text)
{
    ck_assert_msg(strstr(bt_error(), text) != NULL, "found: %s\nexpected: %s", bt_error(), text);
    bt_engine_free(engine);
    bt_error_clear();
}

static bt_tensor *sum_of_params(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_sum(bt_params(self));
}

static bt_tensor *alone_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_mul(bt_param(self, "value"), bt_field(batch, "x")));
}

START_TEST(wrong_questions)
{
    double room[3];
    bt_engine *engine = levels_engine(&parts, NULL, LINKS);
    ck_assert_ptr_null(bt_engine_problem(engine, "lowre"));
    expect_said(engine, "there is no problem `lowre`; there are upper, lower");

    engine = levels_engine(&parts, NULL, LINKS);
    EXPECT_OK(bt_engine_setup(engine));
    ck_assert_int_eq(bt_engine_set(engine, "lower.lr", "1"), BT_ERROR_ARGUMENT);
    expect_said(engine,
                "bt_engine_set: lower.lr cannot change after the engine is set up: set it before the first call "
                "that runs. These can change: engine.train_iters, engine.valid_step, engine.early_stopping_tolerance, "
                "engine.log_step, engine.checkpoint_step, engine.checkpoint_minutes, engine.checkpoint_keep, "
                "PROBLEM.log_step");

    engine = levels_engine(&parts, NULL, LINKS);
    ck_assert_int_eq(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(room, 3)), BT_ERROR_SHAPE);
    expect_said(engine, "bt_hypergradient: upper has 1 parameters, but the result has room for 3");

    engine = levels_engine(&parts, NULL, LINKS);
    ck_assert_int_eq(bt_engine_print(engine, (bt_report)44, stdout), BT_ERROR_ARGUMENT);
    expect_said(engine, "bt_engine_print: there is no report 44");

    engine = levels_engine(&parts, NULL, LINKS);
    bt_array odd = BT_ARRAY(room, 1);
    odd.dtype = (bt_dtype)99;
    ck_assert_int_eq(bt_engine_read(engine, "lower.value", odd), BT_ERROR_ARGUMENT);
    expect_said(engine, "bt_engine_read: lower.value: there is no dtype 99");

    engine = levels_engine(&parts, NULL, LINKS "engine.levels = lower\n");
    ck_assert_int_ne(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(room, 1)), BT_OK);
    expect_said(engine, "upper is not part of this run");
}
END_TEST

/* The engine still trains, answers and saves. */
static void expect_alive(bt_engine *engine)
{
    double value;
    bt_error_clear();
    levels_step(engine, 1);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&value, 1)));
    EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), sum_of_params, NULL, BT_ARRAY(&value)));
    EXPECT_OK(bt_engine_save(engine, "asked-saved"));
}

START_TEST(an_engine_survives_wrong_questions)
{
    double room[3];
    bt_engine *engine = levels_engine(&parts, NULL, LINKS "engine.train_iters = 3\n");
    levels_run(engine);
    bt_problem *problem = bt_engine_problem(engine, "upper"), *below = bt_engine_problem(engine, "lower");
    for (int question = 0; question < 12; question++) {
        bt_status status[] = {
            question == 0 ? bt_eval(problem, sum_of_params, NULL, BT_ARRAY(room, 2)) : BT_OK,
            question == 1 ? bt_eval(problem, NULL, NULL, BT_ARRAY(room)) : BT_OK,
            question == 2 ? bt_eval(problem, lower_step, NULL, BT_ARRAY(room)) : BT_OK, /* needs a batch */
            question == 3 ? bt_hypergradient(problem, BT_ARRAY(room, 3)) : BT_OK,
            question == 4 ? bt_engine_set(engine, "lower.lr", "8") : BT_OK,
            question == 5 ? bt_engine_load(engine, "none.ini") : BT_OK,
            question == 6 ? bt_engine_use(engine, &parts, NULL) : BT_OK,
            question == 7 ? bt_engine_print(engine, BT_PLAN, NULL) : BT_OK,
            question == 8 ? bt_adapt(problem, NULL, 1) : BT_OK,
            question == 9 ? bt_restore(problem) : BT_OK,
            question == 10 ? bt_engine_save(engine, NULL) : BT_OK,
            question == 11 ? bt_engine_resume(engine, "no-such-folder") : BT_OK,
        };
        ck_assert_msg(status[question] != BT_OK, "question %d", question);
        ck_assert_int_eq(bt_engine_run(engine), status[question]); /* until it is cleared */
        expect_alive(engine);
    }
    ck_assert_ptr_null(bt_valid_batch(below, -1));
    expect_alive(engine);
    FILE *nowhere = fopen("/dev/null", "w");
    ck_assert_int_ne(
        bt_engine_check_hypergradient(engine, &(bt_checking){.level = "no such level", .samples = 1, .file = nowhere}),
        BT_OK);
    expect_alive(engine);
    fclose(nowhere);
    bt_engine_free(engine);
}
END_TEST

/* An earlier, unrelated failure. */
START_TEST(an_earlier_failure)
{
    bt_engine *engine = levels_engine(&parts, NULL, LINKS "engine.train_iters = 3\n");
    ck_assert_ptr_null(bt_dataset_new(-3));
    char *said = strdup(bt_error());
    ck_assert_int_ne(bt_engine_run(engine), BT_OK);
    ck_assert_str_eq(bt_error(), said);
    bt_error_clear();
    levels_run(engine);
    expect_alive(engine);
    bt_engine_free(engine);
    free(said);
}
END_TEST

/* A failed step is incomplete: the engine cannot continue, and says why. */
static bt_status no_third_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x = (double)index;
    (void)self, (void)mode;
    return index == 2 ? bt_fail(BT_ERROR_DATA, "row 2: no label") : bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

START_TEST(an_engine_that_failed_half_way)
{
    static const bt_problem_def made = {
        .name = "lower", .get_batch = no_third_batch, .configure_module = number, .training_step = alone_step};
    static const bt_export alone = {.abi = BT_ABI, .problems = {&made}};
    bt_engine *engine = levels_engine(&alone, NULL, "engine.train_iters = 3\n");
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(bt_engine_run(engine), BT_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(bt_error(), "row 2: no label"));
        bt_error_clear();
    }
    ck_assert_ptr_null(bt_engine_problem(engine, "lower"));
    ck_assert_int_eq(bt_engine_save(engine, "asked-saved"), BT_ERROR_DATA);
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

static double one(bt_problem *self) { return (void)self, 1; }
static double two(bt_problem *self) { return (void)self, 2; }
static int64_t whole_one(bt_problem *self) { return (void)self, 1; }
static int64_t whole_two(bt_problem *self) { return (void)self, 2; }

static bt_tensor *two_scalars(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(lower_step(self, batch), bt_add(bt_host_scalar(self, "s", one), bt_host_scalar(self, "s", two)));
}

static bt_tensor *two_integers(bt_problem *self, const bt_batch *batch)
{
    bt_static_int(self, "n", whole_one);
    bt_static_int(self, "n", whole_two);
    return lower_step(self, batch);
}

static bt_tensor *wrong_default(bt_problem *self, const bt_batch *batch)
{
    bt_option_double(self, "strength", 5, 0, 1);
    return lower_step(self, batch);
}

static bt_tensor *wrong_key(bt_problem *self, const bt_batch *batch)
{
    bt_option_bool(self, "a key", true);
    return lower_step(self, batch);
}

START_TEST(wrong_callbacks)
{
    static const struct {
        bt_step_fn *step;
        const char *said;
    } cases[] = {{two_scalars, "bt_host_scalar `s` is defined twice"},
                 {two_integers, "bt_static_int `n` is defined twice"},
                 {wrong_default, "the code asks for [lower] strength with the default 5 and the range 0 to 1"},
                 {wrong_key, "the code asks for [lower] `a key`: a key is a name of letters, digits, _ and -"}};
    bt_problem_def def = lower;
    def.training_step = cases[_i].step;
    const bt_export wrong = {.abi = BT_ABI, .problems = {&upper, &def}, .datasets = {&rows}};
    levels_expect_error(levels_engine(&wrong, NULL, LINKS), cases[_i].said, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asked");
    TCase *tests = tcase_create("asked");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave); /* saved files disappear with the folder */
    tcase_add_test(tests, equation);
    tcase_add_test(tests, reports);
    tcase_add_test(tests, own_data_set);
    tcase_add_test(tests, validation_batches);
    tcase_add_test(tests, wrong_questions);
    tcase_add_test(tests, an_engine_survives_wrong_questions);
    tcase_add_test(tests, an_earlier_failure);
    tcase_add_test(tests, an_engine_that_failed_half_way);
    tcase_add_loop_test(tests, wrong_callbacks, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_far.c: a run on a device, whose memory the host cannot touch and which does its work late, equals
 * the run on the processor, bit for bit; and no step waits for the device. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "runtime/device_bytes.h"
#include "support/far.h"
#include "support/suite.h"
#include <stdlib.h>
#include <string.h>

/* For instances created from here on. */
static void go(bool far)
{
    if (far)
        setenv("BETTY_TEST_BACKEND", "far", 1);
    else
        unsetenv("BETTY_TEST_BACKEND");
}

/* The problems are those of resumable.c: they use dropout, schedules, batches of several shapes, numbers that the host
 * sets, programs that are compiled again, buffers, validations, and questions from within a callback. */
static const char *const variants[] = {
    "lower.type = darts\n",
    ("lower.type = cg\nlower.cg_iterations = 2\nlower.cg_warm_start = true\nlower.unroll_steps = 3\n"
     "upper.meta_batch = 2\nside.unroll_steps = 2\n"),
    ("lower.type = neumann\nlower.gradient_accumulation = 3\nlower.product_batches = all\n"
     "upper.gradient_accumulation = 2\nlower.warmup_steps = 4\n"),
    ("lower.product = finite\nlower.unroll_steps = 4\nside.unroll_steps = 3\nengine.roll_back = true\n"
     "lower.scheduler = cosine\n"),
    "engine.precision = fp32\nlower.nesterov = true\nlower.unroll_steps = 2\nlower.batch_size = all\n",
    ("lower.type = itd\nlower.unroll_steps = 4\nlower.itd_spacing = 2\nlower.gradient_accumulation = 2\n"
     "side.unroll_steps = 4\nside.type = itd\nside.itd_steps = 3\nside.optimizer = adam\nupper.meta_batch = 2\n"),
    ("engine.valid_step = 1\nlower.type = itd\nlower.unroll_steps = 3\nlower.scheduler = plateau\n"
     "lower.scheduler_patience = 1\nlower.scheduler_threshold = 0.9\n"),
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static uint64_t run(const char *settings, bool far)
{
    resumable world = {0};
    go(far);
    bt_engine *engine = resumable_engine(&world, settings, "", NULL);
    resumable_finish(engine, &world);
    ck_assert_int_eq(engine->context.instance->queue != NULL, far);
    uint64_t state = resumable_hash(engine, &world);
    bt_engine_free(engine);
    return state;
}

START_TEST(the_same_bits)
{
    uint64_t near = run(variants[_i], false);
    ck_assert_msg(run(variants[_i], true) == near, "another run on the device");
}
END_TEST

/* A checkpoint does not depend on where it was written. */
START_TEST(resumed_elsewhere)
{
    const char *settings = variants[5];
    uint64_t whole = run(settings, false);
    for (int far = 0; far < 2; far++) {
        resumable first = {0}, second = {0};
        go(far);
        bt_engine *engine = resumable_engine(&first, settings, "", NULL);
        for (int step = 0; step < 6; step++)
            resumable_step(engine, &first);
        EXPECT_OK(bt_engine_save(engine, far ? "far" : "near"));
        bt_engine_free(engine);
        go(!far);
        engine = resumable_engine(&second, settings, "", NULL);
        EXPECT_OK(bt_engine_resume(engine, far ? "far" : "near"));
        resumable_finish(engine, &second);
        ck_assert_uint_eq(resumable_hash(engine, &second), whole);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- waiting ---- */

static const char *const plain[] = {
    "lower.type = darts\nlower.unroll_steps = 2\n",
    "lower.type = cg\nlower.cg_iterations = 2\n",
    "lower.type = neumann\nupper.meta_batch = 2\n",
    "lower.type = itd\nlower.unroll_steps = 4\nside.unroll_steps = 4\nlower.itd_spacing = 2\n",
    "lower.type = sama\nlower.gradient_accumulation = 3\n",
    "lower.product = finite\nlower.unroll_steps = 4\nside.unroll_steps = 3\nengine.roll_back = true\n",
};

START_TEST(no_step_waits)
{
    resumable world = {0};
    go(true);
    bt_engine *engine = resumable_engine(&world, plain[_i], "", NULL);
    levels_step(engine, 6);
    int64_t before = bt_instance_waits(engine->context.instance);
    levels_step(engine, 3); /* then bt_static_int changes */
    ck_assert_int_eq(bt_instance_waits(engine->context.instance) - before, 0);
    EXPECT_OK(bt_instance_wait(engine->context.instance));
    ck_assert_int_eq(bt_instance_waits(engine->context.instance) - before, 1);
    bt_engine_free(engine);
}
END_TEST

/* Once each program has run twice, the host submits each run to the queue as a single recording. */
START_TEST(runs_are_repeated)
{
    resumable world = {.one_stage = true};
    go(true);
    bt_engine *engine = resumable_engine(&world, plain[_i], "", NULL);
    levels_step(engine, 60);
    far_forget();
    levels_step(engine, 6);
    ck_assert_int_eq(far_counted().launches, 0);
    ck_assert_int_gt(far_counted().replays, 0);
    bt_engine_free(engine);
}
END_TEST

/* After everything has run, a device holds exactly the planned bytes. */
START_TEST(bytes_of_the_device)
{
    resumable world = {.one_stage = true};
    bt_device_bytes planned;
    go(true);
    bt_engine *engine = resumable_engine(&world, plain[_i], "", NULL);
    resumable_finish(engine, &world);
    const bt_instance *instance = engine->context.instance;
    EXPECT_OK(bt_engine_device_bytes(engine, &planned));
    ck_assert_uint_eq(planned.arena, instance->arena_size);
    ck_assert_uint_gt(planned.variables, BT_MAIL_BYTES);
    ck_assert_uint_gt(planned.batches, 0);
    ck_assert_uint_gt(planned.constants, 0);
    ck_assert_uint_eq(bt_queue_bytes(instance->queue), bt_device_sum(&planned));
    bt_engine_free(engine);
}
END_TEST

/* ---- failures ---- */

static bt_dataset *labelled(bt_problem *self)
{
    double x[8] = {0};
    int32_t label[8] = {0, 1, 1, 0, 1, 0, 7, 1};
    (void)self;
    bt_dataset *data = bt_dataset_new(8);
    bt_dataset_add(data, "x", BT_ARRAY(x, 8, 1));
    bt_dataset_add(data, "label", BT_ARRAY(label, 8));
    return data;
}

static bt_module *classes(bt_problem *self)
{
    (void)self;
    return bt_nn_linear(1, 2);
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "label")));
}

static const bt_problem_def only = {
    .name = "only", .configure_train_data = labelled, .configure_module = classes, .training_step = loss};
static const bt_export parts = {.abi = BT_ABI, .problems = {&only}};

/* The message has the source and the value; it is the same in host and device memory. */
START_TEST(a_label_that_is_none)
{
    char messages[2][1000];
    for (int far = 0; far < 2; far++) {
        go(far);
        bt_engine *engine =
            levels_engine(&parts, NULL, "only.batch_size = 2\nonly.shuffle = false\nengine.train_iters = 50\n");
        bt_status status = bt_engine_run(engine);
        ck_assert_int_eq(status, BT_ERROR_DATA);
        snprintf(messages[far], sizeof messages[far], "%s", bt_error());
        bt_error_clear();
        bt_engine_free(engine);
    }
    ck_assert_ptr_nonnull(strstr(messages[0], "is 7; expected 0 to 1"));
    ck_assert_str_eq(messages[1], messages[0]);
}
END_TEST

/* A caller that makes a single step gets the error at once. */
START_TEST(at_the_step_itself)
{
    go(true);
    bt_engine *engine =
        levels_engine(&parts, NULL, "only.batch_size = 2\nonly.shuffle = false\nengine.train_iters = 50\n");
    for (int step = 0; step < 3; step++)
        EXPECT_OK(bt_engine_step(engine));
    ck_assert_int_eq(bt_engine_step(engine), BT_ERROR_DATA);
    ck_assert_int_eq(bt_engine_steps(engine), 3);
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("far");
    TCase *tests = tcase_create("far");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, the_same_bits, 0, VARIANTS);
    tcase_add_test(tests, resumed_elsewhere);
    tcase_add_loop_test(tests, no_step_waits, 0, (int)(sizeof plain / sizeof *plain));
    tcase_add_loop_test(tests, bytes_of_the_device, 0, (int)(sizeof plain / sizeof *plain));
    tcase_add_loop_test(tests, runs_are_repeated, 0, (int)(sizeof plain / sizeof *plain));
    tcase_add_test(tests, a_label_that_is_none);
    tcase_add_test(tests, at_the_step_itself);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

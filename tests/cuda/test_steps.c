/* tests/cuda/test_steps.c: the requests that a training step makes to a device, and its numbers, which are the
 * processor's. */
#include "engine/levels.h"
#include "engine/resumable.h"

#include "engine/session/session.h"
#include "fake.h"
#include "support/far.h"
#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNTIL = 60, STEPS = 6 };

static const char *const variants[] = {
    "lower.type = darts\nlower.unroll_steps = 2\n",
    "lower.type = cg\nlower.cg_iterations = 2\n",
    "lower.type = neumann\nupper.meta_batch = 2\n",
    "lower.type = itd\nlower.unroll_steps = 4\nside.unroll_steps = 4\nlower.itd_spacing = 2\n",
    "lower.type = sama\nlower.gradient_accumulation = 3\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

typedef struct asked {
    int64_t runs, up, down, waits, launches, allocations;
} asked;

/* The requests during some steps of a run that has become repetitive. */
static asked ask(const char *settings, const char *backend)
{
    resumable world = {.one_stage = true};
    setenv("BETTY_TEST_BACKEND", backend, 1);
    bt_engine *engine = resumable_engine(&world, settings, "", NULL);
    levels_step(engine, UNTIL);
    EXPECT_OK(bt_instance_wait(engine->context.instance));
    const int64_t waits = bt_instance_waits(engine->context.instance);
    fake_forget();
    far_forget();
    levels_step(engine, STEPS);
    const int64_t waited = bt_instance_waits(engine->context.instance) - waits;
    const fake_counts fake = fake_counted();
    const far_counts far = far_counted();
    bt_engine_free(engine);
    if (strcmp(backend, "far") == 0)
        return (asked){.runs = far.replays, .up = far.sent, .launches = far.launches, .waits = waited};
    return (asked){.runs = fake.graphs,
                   .up = fake.up,
                   .down = fake.down,
                   .allocations = fake.allocations,
                   .launches = fake.kernels + fake.host_calls,
                   .waits = waited};
}

/* One graph for each program run, batches and mail to the device, nothing back, and no wait except for the memory from
 * which the next batch is sent. */
START_TEST(a_step)
{
    const asked far = ask(variants[_i], "far"), cuda = ask(variants[_i], "cuda");
    ck_assert_int_eq(far.launches, 0);
    ck_assert_int_eq(cuda.launches, 0);
    ck_assert_int_gt(far.runs, 0);
    ck_assert_int_eq(cuda.runs, far.runs);
    ck_assert_int_gt(far.up, 0);
    ck_assert_int_eq(cuda.up, far.up);
    ck_assert_int_eq(cuda.down, 0);
    ck_assert_int_eq(cuda.allocations, 0);
    ck_assert_int_eq(cuda.waits, 0);
}
END_TEST

static uint64_t run(const char *settings, const char *backend, const char *order, double values[2])
{
    resumable world = {0};
    if (backend)
        setenv("BETTY_TEST_BACKEND", backend, 1);
    else
        unsetenv("BETTY_TEST_BACKEND");
    fake_order(order);
    bt_engine *engine = resumable_engine(&world, settings, "", NULL);
    resumable_finish(engine, &world);
    levels_params(engine, "upper", values, 2);
    const uint64_t hash = resumable_hash(engine, &world);
    bt_engine_free(engine);
    return hash;
}

/* In double precision: the processor's numbers except for the order of sums; the same bits in any order. */
START_TEST(a_run)
{
    static const char *const orders[] = {"lazy", "1", "2", "3"};
    double near[2], first[2], other[2];
    run(variants[_i], NULL, "eager", near);
    const uint64_t bits = run(variants[_i], "cuda", "eager", first);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(fabs(first[i] - near[i]) <= 1e-10 * (1 + fabs(near[i])), "%.17g, not %.17g", first[i], near[i]);
    for (int o = 0; o < BT_COUNT_OF(orders); o++)
        ck_assert_msg(run(variants[_i], "cuda", orders[o], other) == bits, "other bits in order %s", orders[o]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CUDA: steps");
    TCase *tests = tcase_create("steps");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_step, 0, VARIANTS);
    tcase_add_loop_test(tests, a_run, 0, VARIANTS);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

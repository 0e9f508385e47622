/* `offload`: values that are kept in host memory and copied to the device for computation have the same bits as in a
 * run entirely on the device. Tested on the processor, which has two memories with BETTY_SPACES=2, and on a device that
 * does everything as late as it may. Both memories hold exactly the planned bytes. */
#include "levels.h"
#include "resumable.h"

#include "base/footprint.h"
#include "engine/session/session.h"
#include "runtime/device_bytes.h"
#include "support/far.h"
#include "support/on_device.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERYTHING                                                                                                     \
    "lower.offload = optimizer, activations, trajectory\nupper.offload = optimizer, activations\n"                     \
    "side.offload = optimizer, activations, trajectory\nengine.offload_unit = 64\nengine.offload_ahead = 1\n"

typedef enum way { ONE, TWO, FAR } way; /* one or two memories of the processor; a device's and the host's */
static bool on_cuda;                    /* everything runs on CUDA; ONE then means without offload */

static void go(way way)
{
    if (on_cuda)
        return;
    unsetenv("BETTY_TEST_BACKEND");
    unsetenv("BETTY_SPACES");
    if (way == TWO)
        setenv("BETTY_SPACES", "2", 1);
    if (way == FAR)
        setenv("BETTY_TEST_BACKEND", "far", 1);
}

static void leave(void)
{
    go(ONE);
    resumable_leave();
}

/* ---- runs of several levels ---- */

static const char *const variants[] = {
    "lower.type = darts\nside.optimizer = adam\n",
    ("lower.type = cg\nlower.cg_iterations = 2\nlower.cg_warm_start = true\nlower.unroll_steps = 3\n"
     "upper.meta_batch = 2\nside.unroll_steps = 2\nlower.gradient_clipping = 0.1\n"),
    ("lower.type = neumann\nlower.gradient_accumulation = 3\nlower.product_batches = all\n"
     "upper.gradient_accumulation = 2\nlower.warmup_steps = 4\nupper.gradient_clipping_value = 0.01\n"
     "upper.gradient_clipping = 0.01\n"),
    ("lower.product = finite\nlower.unroll_steps = 4\nside.unroll_steps = 3\nengine.roll_back = true\n"
     "lower.scheduler = cosine\n"),
    "engine.precision = fp32\nlower.nesterov = true\nlower.unroll_steps = 2\nlower.batch_size = all\n",
    ("lower.type = itd\nlower.unroll_steps = 4\nlower.itd_spacing = 2\nlower.gradient_accumulation = 2\n"
     "side.unroll_steps = 4\nside.type = itd\nside.itd_steps = 3\nside.optimizer = adam\nupper.meta_batch = 2\n"),
    "lower.type = itd\nlower.unroll_steps = 5\nlower.itd_states = 3\nside.unroll_steps = 5\n",
    "lower.type = sama\nside.optimizer = adam\nlower.gradient_clipping_value = 0.02\n",
    "lower.type = nystrom\nlower.product = vjp\nengine.precision = bf16\nlower.checkpointing = every:1\n",
    "lower.type = penalty\nengine.precision = fp32\nlower.optimizer_state = bf16\nlower.checkpointing = sqrt\n",
    "engine.precision = bf16-true\nlower.type = darts\n",
    "lower.prune = 0.5\nlower.prune_end = 6\nlower.chunks = 2\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static uint64_t run(const char *settings, const char *more, way way)
{
    resumable world = {0};
    go(way);
    bt_engine *engine = resumable_engine(&world, settings, more, NULL);
    resumable_finish(engine, &world);
    uint64_t state = resumable_hash(engine, &world);
    bt_engine_free(engine);
    ck_assert_uint_eq(bt_live_host_bytes(), 0);
    return state;
}

START_TEST(the_same_bits)
{
    const uint64_t one = run(variants[_i], "", ONE);
    if (!on_cuda)
        ck_assert_msg(run(variants[_i], EVERYTHING, ONE) == one, "another run where there is one memory");
    ck_assert_msg(run(variants[_i], EVERYTHING, TWO) == one, "another run with two memories");
    ck_assert_msg(run(variants[_i], EVERYTHING, FAR) == one, "another run on the device");
    far_hurry(true);
    ck_assert_msg(run(variants[_i], EVERYTHING, FAR) == one, "another run on the device that does all at once");
    far_hurry(false);
}
END_TEST

/* With a separate allocation for every value, and with red zones. */
START_TEST(without_a_plan)
{
    static const char *const modes[] = {"off", "guard"};
    const uint64_t one = run(variants[5], "", ONE);
    for (int m = 0; m < 2; m++)
        for (way way = TWO; way <= FAR; way++) {
            setenv("BETTY_PLAN", modes[m], 1);
            const uint64_t other = run(variants[5], EVERYTHING, way);
            unsetenv("BETTY_PLAN");
            ck_assert_msg(other == one, "BETTY_PLAN=%s: another run", modes[m]);
        }
}
END_TEST

/* Ranks that divide the optimiser state, and also the parameters. */
START_TEST(on_ranks)
{
    static const char *const strategies[] = {"distributed", "zero1", "zero2", "zero3"};
    char settings[400];
    for (int k = 0; k < 4; k++) {
        snprintf(settings, sizeof settings, "%sengine.ranks = 3\nengine.executor = lockstep\nengine.strategy = %s\n",
                 variants[0], strategies[k]);
        const uint64_t one = run(settings, "", ONE);
        ck_assert_msg(run(settings, EVERYTHING, TWO) == one, "strategy = %s: another run", strategies[k]);
    }
}
END_TEST

/* A checkpoint does not depend on where values were kept. */
START_TEST(resumed_elsewhere)
{
    const char *settings = variants[5];
    const uint64_t whole = run(settings, "", ONE);
    for (way way = ONE; way <= FAR; way++) {
        resumable first = {0}, second = {0};
        go(way);
        bt_engine *engine = resumable_engine(&first, settings, way == ONE ? "" : EVERYTHING, NULL);
        for (int step = 0; step < 6; step++)
            resumable_step(engine, &first);
        EXPECT_OK(bt_engine_save(engine, "saved"));
        bt_engine_free(engine);
        go(way == TWO ? ONE : TWO);
        engine = resumable_engine(&second, settings, way == TWO ? "" : EVERYTHING, NULL);
        EXPECT_OK(bt_engine_resume(engine, "saved"));
        resumable_finish(engine, &second);
        ck_assert_uint_eq(resumable_hash(engine, &second), whole);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- bytes ---- */

/* After everything has run, both memories hold the planned bytes. */
START_TEST(bytes_of_both)
{
    for (way way = TWO; way <= FAR; way++) {
        resumable world = {.one_stage = true};
        bt_device_bytes device;
        go(way);
        bt_engine *engine = resumable_engine(&world, variants[_i], EVERYTHING, NULL);
        resumable_finish(engine, &world);
        const bt_instance *instance = engine->context.instance;
        const bt_memory_sizes planned = bt_engine_planned(engine), measured = bt_engine_measured(engine);
        ck_assert_uint_gt(planned.host, 0);
        ck_assert_uint_eq(measured.host, planned.host);
        ck_assert_uint_eq(measured.persistent, planned.persistent);
        ck_assert_uint_eq(measured.arena, planned.arena);
        EXPECT_OK(bt_engine_device_bytes(engine, &device));
        ck_assert_uint_eq(device.host, planned.host);
        if (way == FAR) {
            ck_assert_uint_eq(bt_queue_bytes(instance->queue), bt_device_sum(&device));
            ck_assert_uint_eq(bt_queue_pinned(instance->queue), planned.host);
        }
        bt_engine_free(engine);
        ck_assert_uint_eq(bt_live_host_bytes(), 0);
    }
}
END_TEST

/* Whatever moves to the host no longer takes memory on the device. */
START_TEST(what_moves)
{
    static const struct {
        const char *more;
        bt_category category;
    } cases[] = {{"lower.offload = optimizer\nside.offload = optimizer\nupper.offload = optimizer\n", BT_OPTIMIZER},
                 {"lower.offload = trajectory\nside.offload = trajectory\n", BT_TRAJECTORY}};
    for (int k = 0; k < 2; k++) {
        size_t kept[2][BT_CATEGORIES], host[BT_CATEGORIES], sums[2], moved = 0;
        for (int with = 0; with < 2; with++) {
            resumable world = {.one_stage = true};
            go(TWO);
            bt_engine *engine = resumable_engine(&world, variants[5], with ? cases[k].more : "", NULL);
            EXPECT_OK(bt_engine_setup(engine));
            sums[with] = bt_persistent_bytes(&engine->context, kept[with], NULL);
            moved = bt_host_bytes(&engine->context, host, NULL);
            ck_assert_int_eq(moved > 0, with);
            bt_engine_free(engine);
        }
        ck_assert_uint_eq(sums[0] - sums[1], moved);
        ck_assert_uint_eq(host[cases[k].category], moved);
        for (int c = 0; c < BT_CATEGORIES; c++)
            ck_assert_uint_eq(kept[0][c], kept[1][c] + host[c]);
    }
}
END_TEST

/* ---- one level with predictable sizes ---- */

enum { MOST = 1 << 14, LAYERS = 12 };
static int64_t examples = 64, width = 32; /* of the next network */

static bt_dataset *rows(bt_problem *self)
{
    static double x[MOST];
    (void)self;
    for (uint64_t i = 0; i < MOST; i++)
        x[i] = 2 * bt_host_uniform(31, 0, i) - 1;
    bt_dataset *data = bt_dataset_new(examples);
    bt_dataset_add(data, "x", BT_ARRAY(x, examples, width));
    return data;
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    bt_module *net = bt_module_new(NULL);
    for (int i = 0; i < LAYERS; i++)
        bt_module_add(net, bt_nn_linear(width, width), "layer%d", i);
    return net;
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    for (int i = 0; i < LAYERS; i++)
        x = bt_tanh(bt_forward(bt_child(bt_net(self), "layer%d", i), x));
    return bt_mean(bt_square(x));
}

static const bt_problem_def only = {
    .name = "only", .configure_train_data = rows, .configure_module = net, .training_step = loss};
static const bt_export parts = {.abi = BT_ABI, .problems = {&only}};

static bt_engine *only_engine(const char *settings, const char *more)
{
    char all[1000];
    snprintf(all, sizeof all,
             "only.batch_size = all\nonly.lr = 0.01\nengine.train_iters = 4\nengine.precision = fp32\n%s%s", settings,
             more);
    return levels_engine(&parts, NULL, all);
}

static const char *const optimizers[] = {
    "only.optimizer = sgd\nonly.momentum = 0.9\nonly.gradient_clipping = 0.01\n",
    "only.optimizer = adam\nonly.gradient_clipping = 0.01\n",
    "only.optimizer = adamw\nonly.gradient_clipping_value = 1e-4\nonly.gradient_clipping = 0.001\n",
    "only.optimizer = adam\nonly.amsgrad = true\n",
    "only.optimizer = adam8bit\n",
    "only.optimizer = lion\n",
    "only.optimizer = lion8bit\n",
    "only.optimizer = rmsprop\nonly.centered = true\nonly.momentum = 0.5\n",
    "only.optimizer = adagrad\n",
    "only.optimizer = radam\n",
    "only.optimizer = nadam\n",
    "only.optimizer = lamb\n",
    "only.optimizer = adafactor\nonly.relative_step = false\n",
    "only.optimizer = adam\nonly.optimizer_state = bf16\n",
    "only.optimizer = adam\nonly.precision = bf16-true\n",
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

START_TEST(every_optimizer)
{
    uint64_t hash[3];
    for (way way = ONE; way <= FAR; way++) {
        go(way);
        bt_engine *engine = only_engine(
            optimizers[_i],
            on_cuda && way == ONE ? "" : "only.offload = optimizer, activations\nengine.offload_unit = 5000\n");
        levels_run(engine);
        hash[way] = levels_hash(engine, "only");
        ck_assert_int_eq(bt_engine_planned(engine).host > 0, way != ONE);
        bt_engine_free(engine);
        ck_assert_uint_eq(hash[way], hash[ONE]);
    }
}
END_TEST

static size_t arena_of(const char *settings, const char *more, size_t *host)
{
    go(TWO);
    bt_engine *engine = only_engine(settings, more);
    EXPECT_OK(bt_engine_setup(engine));
    const bt_phase *phase = bt_engine_problem(engine, "only")->step->phase;
    const size_t arena = phase->arena;
    *host = phase->host;
    bt_engine_free(engine);
    return arena;
}

/* In a chain of equal layers all outputs are kept for the backward pass, the last one only while it is read. The host
 * has those that are away for long enough; at the peak, the device has those in transit. */
START_TEST(activations_of_a_chain)
{
    size_t host, none;
    examples = 512;
    width = 16;
    const size_t map = (size_t)(examples * width) * sizeof(float);
    const size_t whole = arena_of("", "", &none),
                 away = arena_of("", "only.offload = activations\nengine.offload_ahead = 1\n", &host);
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_eq(host % map, 0);
    ck_assert_uint_ge(host / map, LAYERS - 3);
    ck_assert_uint_le(away + (LAYERS - 6) * map, whole);
}
END_TEST

/* In chunks, the update needs only a few of them on the device at a time. */
START_TEST(state_in_pieces)
{
    const char *adam = "only.optimizer = adam\nonly.offload = optimizer\n";
    size_t host;
    examples = 2;
    width = 64;
    const size_t block = (size_t)(LAYERS * (width * width + width)) * sizeof(float), unit = 8192;
    const size_t whole = arena_of("only.optimizer = adam\n", "", &host);
    const size_t at_once = arena_of(adam, "engine.offload_unit = 1GiB\n", &host);
    const size_t pieces = arena_of(adam, "engine.offload_unit = 8192\nengine.offload_ahead = 1\n", &host);
    ck_assert_uint_ge(at_once, 2 * block);
    ck_assert_uint_le(pieces, whole + 6 * unit);
}
END_TEST

/* With a single memory the key has no effect, and there is one warning. */
START_TEST(one_memory)
{
    go(ONE);
    bt_engine *engine = only_engine("only.optimizer = adam\nonly.offload = optimizer\n", "");
    EXPECT_OK(bt_engine_setup(engine));
    ck_assert_uint_eq(bt_engine_planned(engine).host, 0);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("offload");
    on_cuda = device_is_chosen();
    TCase *tests = tcase_create("offload");
    tcase_add_checked_fixture(tests, resumable_enter, leave);
    tcase_add_loop_test(tests, the_same_bits, 0, VARIANTS);
    tcase_add_test(tests, without_a_plan);
    if (!on_cuda)
        tcase_add_test(tests, on_ranks);
    tcase_add_test(tests, resumed_elsewhere);
    tcase_add_loop_test(tests, bytes_of_both, 0, VARIANTS);
    tcase_add_test(tests, what_moves);
    tcase_add_loop_test(tests, every_optimizer, 0, OPTIMIZERS);
    tcase_add_test(tests, activations_of_a_chain);
    tcase_add_test(tests, state_in_pieces);
    if (!on_cuda)
        tcase_add_test(tests, one_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

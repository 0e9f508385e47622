/* tests/cuda/test_profile.c: a profile on a device: the same calls as on the processor, timed with device events. The
 * host waits for these once in each run of a program, however many calls it has. */
#include "engine/levels.h"

#include "engine/output/profile.h"
#include "engine/session/session.h"
#include "fake.h"
#include "support/scene.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 12, SHORT = 2, LONG = 20, RUNS = 4, MOST = 8, STEPS = 5 };

typedef struct counts {
    int64_t calls[MOST], waits, events;
    double seconds, within; /* of the kernels; of the runs, by the host's clock */
} counts;

static const char *const ops[MOST] = {"dot", "tanh", "softmax", "sum"};

static int op_of(const char *kernel)
{
    const size_t length = strcspn(kernel, ".");
    for (int i = 0; i < MOST && ops[i]; i++)
        if (strlen(ops[i]) == length && strncmp(kernel, ops[i], length) == 0)
            return i;
    return MOST - 1;
}

/* Layers softmax(tanh(x) w), and the sum. */
static bt_phase *record(scene *s, bt_instance *instance, int layers)
{
    scene_begin(s, BT_F32);
    const int64_t dims[] = {SIDE, SIDE, BT_END};
    bt_tensor *x = bt_trace_read(scene_var(s, "x", BT_F32, NULL, dims));
    bt_tensor *w = bt_trace_read(scene_var(s, "w", BT_F32, NULL, dims));
    for (int i = 0; i < layers; i++)
        x = bt_softmax(bt_dot(bt_tanh(x), w), -1);
    bt_graph_output(s->graph, bt_sum(x));
    scene_end(s);
    instance->options.rows = instance->options.strips = instance->options.chain = false; /* one call an op */
    bt_phase *phase = bt_phase_new(instance, "level", "step");
    ck_assert_int_eq(bt_phase_add(phase, s->graph, 0, "layers"), 0);
    EXPECT_OK(bt_phase_plan(phase));
    return phase;
}

static counts profiled(const char *backend, const char *order, int layers)
{
    scene s;
    counts found = {.waits = 0};
    if (backend)
        setenv("BETTY_TEST_BACKEND", backend, 1);
    else
        unsetenv("BETTY_TEST_BACKEND");
    fake_order(order);
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = record(&s, instance, layers);
    bt_profile *profile = instance->profile = bt_profile_new();
    const int64_t waits = bt_instance_waits(instance);
    const double begin = bt_seconds();
    for (int i = 0; i < RUNS; i++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, 0));
        bt_phase_end(phase);
    }
    found.within = bt_seconds() - begin;
    found.waits = bt_instance_waits(instance) - waits;
    int64_t count;
    const bt_profile_row *row = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++) {
        ck_assert(row[i].seconds >= 0);
        found.calls[op_of(row[i].name)] += row[i].calls;
        found.seconds += row[i].seconds;
    }
    const bt_profile_event *event = bt_profile_events(profile, &found.events);
    for (int64_t i = 1; i < found.events; i++) /* in sequence */
        ck_assert(event[i].begin >= event[i - 1].begin + event[i - 1].seconds - 1e-9);
    instance->profile = NULL;
    bt_profile_free(profile);
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    return found;
}

START_TEST(calls_and_waits)
{
    static const char *const orders[] = {"eager", "lazy", "1", "2"};
    for (int layers = SHORT; layers <= LONG; layers += LONG - SHORT) {
        const counts near = profiled(NULL, "eager", layers), far = profiled("far", "eager", layers);
        ck_assert_int_eq(near.calls[0], RUNS * layers);
        ck_assert_int_ge(far.waits, RUNS * layers); /* a device without events: the host waits for each call */
        for (int o = 0; o < BT_COUNT_OF(orders); o++) {
            const counts cuda = profiled("cuda", orders[o], layers);
            for (int i = 0; i < MOST; i++)
                ck_assert_msg(cuda.calls[i] == near.calls[i], "%s: %lld calls, not %lld", ops[i] ? ops[i] : "others",
                              (long long)cuda.calls[i], (long long)near.calls[i]);
            ck_assert_int_eq(cuda.events, near.events);
            ck_assert_int_eq(cuda.waits, RUNS);
            ck_assert(cuda.seconds > 0 && cuda.seconds <= cuda.within);
        }
    }
}
END_TEST

/* ---- reports about a run ---- */

static bt_module *weights(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp(bt_tanh, 1, 3, 1);
}

static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_forward(self, bt_unsqueeze(bt_field(batch, "x"), 1))));
}

static const bt_problem_def model = {
    .name = "model", .configure_train_data = levels_one_row, .configure_module = weights, .training_step = slope};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

START_TEST(shares)
{
    char text[1 << 14];
    double kernels, batches, elsewhere;
    setenv("BETTY_TEST_BACKEND", "cuda", 1);
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 1000\n");
    EXPECT_OK(bt_engine_setup(engine));
    bt_profile *profile = engine->context.instance->profile = bt_profile_new();
    const double begin = bt_seconds();
    levels_step(engine, STEPS);
    const bt_profile_total total = {STEPS, bt_seconds() - begin};
    FILE *file = tmpfile();
    EXPECT_OK(bt_profile_print(profile, &total, file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = strstr(text, "each: ");
    ck_assert_msg(at && sscanf(at, "each: %lf %% in kernels, %lf %% in drawing batches, %lf %% elsewhere", &kernels,
                               &batches, &elsewhere) == 3,
                  "%s", text);
    ck_assert_msg(kernels > 0 && batches >= 0 && elsewhere >= 0, "%s", text);
    ck_assert_double_eq_tol(kernels + batches + elsewhere, 100, 0.2);
    ck_assert_msg(strstr(text, "by events of the device"), "%s", text);
    engine->context.instance->profile = NULL;
    bt_profile_free(profile);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CUDA: profile");
    TCase *tests = tcase_create("profile");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, calls_and_waits);
    tcase_add_test(tests, shares);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_ablation_memory.c: rows of --ablate that recompute values: a perceptron, a ResNet and a ConvNet,
 * with every policy of checkpointing and with budgets. Each measures exactly the planned bytes, and has the first
 * hypergradient of the row as configured, bit for bit. */
#include "decayed.h"
#include "resumable.h"

#include "engine/ablation/ablation_inside.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, STEPS = 3 }; /* a window of 3 leaves 6, 4 and 2 pixels of 8 */

/* ---- the networks ---- */

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(x, bt_dim(x, 0), -1); }
static bt_tensor *pooled(bt_tensor *x) { return bt_reshape(bt_adaptive_avg_pool2d(x, 1, 1), bt_dim(x, 0), -1); }

static bt_module *mlp(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_fn(as_rows), decayed_layer(SIDE * SIDE * DECAYED_CHANNELS, 32), decayed_layer(32, 32),
                            decayed_layer(32, 32), bt_nn_linear(32, DECAYED_CLASSES));
}

static bt_module *block(int64_t in, int64_t out)
{
    return bt_nn_sequential(bt_nn_conv2d(in, out, 3), bt_nn_batch_norm(out), bt_nn_fn(bt_relu));
}

static bt_module *convnet(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(block(DECAYED_CHANNELS, 8), block(8, 8), block(8, 8), bt_nn_fn(pooled),
                            bt_nn_linear(8, DECAYED_CLASSES));
}

static const bt_problem_def upper = DECAYED_UPPER(images);
static const bt_problem_def lowers[] = {DECAYED_LOWER(images, mlp), DECAYED_LOWER(images, decayed_resnet),
                                        DECAYED_LOWER(images, convnet)};
static const bt_export nets[] = {{.abi = BT_ABI, .problems = {&upper, &lowers[0]}},
                                 {.abi = BT_ABI, .problems = {&upper, &lowers[1]}},
                                 {.abi = BT_ABI, .problems = {&upper, &lowers[2]}}};
enum { NETS = BT_COUNT_OF(nets) };

static bt_status load(void *user, bt_engine *engine)
{
    levels_fill(engine, user, NULL,
                "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = darts\n"
                "lower.batch_size = 12\nupper.batch_size = 12\nlower.lr = 0.05\nupper.lr = 0.1\nengine.threads = 1\n");
    return bt_error_status();
}

/* ---- rows ---- */

/* A row of this choice, or the row as configured, run in a child; its plan and its result. */
typedef struct taken {
    bt_turn turn;
    json_t *plan, *result;
} taken;

static bt_status take(void *user, FILE *tell) { return bt_turn_take(&((taken *)user)->turn, tell); }

static bt_status hear(void *user, json_t *line)
{
    taken *t = user;
    if (json_object_get(line, "plan"))
        t->plan = json_deep_copy(json_object_get(line, "plan"));
    if (json_object_get(line, "result"))
        t->result = json_deep_copy(json_object_get(line, "result"));
    return BT_OK;
}

static taken take_row(int net, const bt_choice *choice, FILE *reference, char *why, size_t room)
{
    const bt_ablation ablation = {.load = load, .user = (void *)(uintptr_t)&nets[net], .steps = STEPS};
    const bt_ablation_row row = {"", &choice, 1};
    taken t = {.turn = {&ablation, choice ? &row : NULL, STEPS, !choice, fileno(reference)}};
    bt_process process = {.run = take, .hear = hear, .user = &t}, *list[] = {&process}, *ended = NULL;
    EXPECT_OK(bt_process_start(&process));
    while (!ended)
        EXPECT_OK(bt_process_listen(list, 1, &ended));
    snprintf(why, room, "%s", process.failed == BT_OK ? "" : bt_text_get(&process.why));
    bt_process_free(&process);
    return t;
}

static void drop(taken *t)
{
    json_decref(t->plan);
    json_decref(t->result);
}

static size_t planned(const taken *t) { return (size_t)bt_ablation_sum(json_object_get(t->plan, "planned_bytes")); }

static void expect_measured(const taken *t, const char *what, const char *why)
{
    ck_assert_msg(t->result != NULL, "%s: %s", what, why);
    char *text = json_dumps(t->result, 0);
    const json_t *plan = json_object_get(t->result, "planned_bytes");
    ck_assert_msg(json_equal(plan, json_object_get(t->result, "measured_bytes")), "%s: %s", what, text);
    ck_assert(json_equal(plan, json_object_get(t->plan, "planned_bytes")));
    ck_assert_msg(json_is_true(json_object_get(json_object_get(t->result, "gradient"), "same_bits")), "%s: %s", what,
                  text);
    free(text);
}

static const struct {
    const char *level, *key, *value;
    double part; /* the budget as a fraction of the planned bytes of the row as configured; 0: no budget */
} rows[] = {
    {"lower", "checkpointing", "none", 0},     {"lower", "checkpointing", "cheap", 0},
    {"lower", "checkpointing", "cost:20%", 0}, {"lower", "checkpointing", "cost:200%", 0},
    {"lower", "checkpointing", "every:1", 0},  {"lower", "checkpointing", "every:2", 0},
    {"lower", "checkpointing", "sqrt", 0},     {"lower", "checkpointing", "modules:*", 0},
    {"lower", "checkpointing", "ops:*", 0},    {"lower", "checkpointing", "budget:", 0.8},
    {"engine", "memory_budget", "", 0.9},      {"engine", "memory_budget", "", 0.8},
    {"engine", "memory_budget", "", 0.5},      {"lower", "memory_budget", "", 0.8},
};

/* One row for each network; for a budget that is too small, the message has the minimum. */
START_TEST(measured_as_planned)
{
    const int net = _i % NETS, r = _i / NETS;
    char why[1024], value[64];
    FILE *reference = tmpfile();
    taken base = take_row(net, NULL, reference, why, sizeof why);
    expect_measured(&base, "as configured", why);
    size_t bytes = (size_t)(rows[r].part * (double)planned(&base));
    bt_choice choice = {rows[r].level, rows[r].key, rows[r].part > 0 ? value : rows[r].value, "", "", true, 0, 0};
    snprintf(value, sizeof value, "%s%zu", rows[r].value, bytes);
    taken t = take_row(net, &choice, reference, why, sizeof why);
    const char *least = strstr(why, "the smallest plan found needs ");
    if (!t.result && least) {
        snprintf(value, sizeof value, "%s%s", rows[r].value, least + strlen("the smallest plan found needs "));
        value[strcspn(value + strlen(rows[r].value), "B") + strlen(rows[r].value)] = 0;
        drop(&t);
        t = take_row(net, &choice, reference, why, sizeof why);
    }
    expect_measured(&t, choice.value, why);
    ck_assert_uint_le(planned(&t), planned(&base));
    ck_assert(strcmp(rows[r].key, "memory_budget") != 0 || strcmp(rows[r].level, "engine") != 0 ||
              planned(&t) <= strtoull(value, NULL, 10));
    drop(&base);
    drop(&t);
    fclose(reference);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ablation_memory");
    TCase *tests = tcase_create("ablation_memory");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, measured_as_planned, 0, BT_COUNT_OF(rows) * NETS);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* Two memories: random programs with some variables in host memory, and forward values that are moved there and back,
 * give the same bits as with one memory. Kernels only get device memory, and every copy is awaited, however late it is
 * done. */
#include "support/random_graph.h"

#include "compile/spaces.h"
#include "runtime/evaluate.h"
#include "runtime/store.h"
#include "runtime/variable.h"
#include "support/far.h"
#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAPS = 12,
    WIDE = 200,
    ROOM = 1 << 16,
    RUNS = 3,
    NODES = 80,
    WHAT = RANDOM_ASSIGNS | RANDOM_SMOOTH | RANDOM_COMPOSITES | RANDOM_GRADIENTS
};

typedef enum how { ONE, NEAR, OFF, GUARD, LATE, AT_ONCE, WAYS } how; /* LATE, AT_ONCE: on far memory */

static scene s;
static bt_instance *instance;
static int64_t moves, outs, activations;

static void teardown(void)
{
    bt_instance_free(instance);
    instance = NULL;
    if (s.graph)
        scene_free(&s);
    s = (scene){0};
    unsetenv("BETTY_SPACES");
    unsetenv("BETTY_PLAN");
    far_hurry(false);
}

/* Some variables, the same ones in each mode. */
static void offload(uint64_t seed)
{
    for (int v = 0; v < s.count; v++)
        if (!s.vars[v]->base && s.vars[v]->lifetime == BT_RUN && bt_host_uniform(seed, 3, (uint64_t)v) < 0.5)
            bt_var_offload(s.vars[v]);
}

static void make_instance(how way)
{
    if (way != ONE)
        setenv("BETTY_SPACES", "2", 1);
    if (way == OFF || way == GUARD)
        setenv("BETTY_PLAN", way == OFF ? "off" : "guard", 1);
    far_hurry(way == AT_ONCE);
    instance = bt_instance_new(way >= LATE ? far_backend() : bt_backend_cpu(), 1);
    ck_assert_ptr_nonnull(instance);
}

static void count(const bt_program *program)
{
    moves += program->moves;
    for (int64_t i = 0; i < program->step_count; i++) {
        const bt_call_step *step = &program->steps[i];
        outs += step->move && bt_move_to(&step->call) == BT_SPACE_HOST;
        activations += step->move && bt_move_to(&step->call) == BT_SPACE_HOST &&
                       program->buffers[step->out[0].buffer].home == BT_HOME_ARENA;
    }
}

static size_t take(char *to, size_t at, const void *from, size_t bytes)
{
    ck_assert_uint_le(at + bytes, ROOM);
    if (bytes)
        memcpy(to + at, from, bytes);
    return at + bytes;
}

/* Appends a chain to the random graph, forward and backward, with maps that are held in between, some of them
 * longer. */
static void add_chain(uint64_t seed)
{
    bt_tensor *maps[MAPS], *x = bt_broadcast(bt_sin(bt_sum(s.graph->outputs[0])), 1, (const int64_t[]){WIDE}, NULL);
    for (int i = 0; i < MAPS; i++)
        maps[i] = x = bt_sin(bt_add(0.5 + i, i % 3 == 1 ? bt_add(x, maps[i - 1]) : x));
    const int64_t turn = s.graph->node_count;
    for (int i = MAPS - 1; i >= 0; i--) {
        x = bt_mul(bt_add(x, 0.25), maps[i]);
        if (bt_host_uniform(seed, 5, (uint64_t)i) < 0.3)
            x = bt_add(x, maps[(int)(bt_host_uniform(seed, 6, (uint64_t)i) * MAPS)]);
    }
    bt_graph_output(s.graph, x);
    for (int64_t n = turn; n < s.graph->node_count; n++)
        s.graph->nodes[n]->tag.order = 1;
}

/* Runs it a few times; `found`: the outputs, and the final values of all variables. */
static size_t run(uint64_t seed, how way, char *found)
{
    size_t at = 0;
    random_graph(&s, seed, BT_F64, NODES, WHAT);
    bt_trace_begin(&s.trace, s.graph, BT_TRAIN, BT_F64);
    s.tracing = true;
    add_chain(seed);
    scene_end(&s);
    make_instance(way);
    bt_level_checkpointing level = {.level = s.graph->nodes[0]->tag.level, .offloads = way != ONE && seed % 3 != 0};
    instance->options.levels = &level;
    instance->options.level_count = 1;
    instance->options.rows = instance->options.strips = seed % 5 == 0;
    instance->options.ahead = 1 + (int64_t)(seed / 3 % 4);
    if (way != ONE)
        offload(seed);
    bt_phase *phase = bt_phase_new(instance, "spaces", "random");
    const int entry = bt_phase_add(phase, s.graph, 0, "all");
    ck_assert_msg(entry == 0, "seed %llu: %s", (unsigned long long)seed, bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    EXPECT_OK(bt_spaces_verify(phase->entries[0].program));
    count(phase->entries[0].program);
    bt_instance_fill(instance);
    for (int r = 0; r < RUNS; r++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, 0));
        for (int64_t o = 0; instance->planned && o < s.graph->output_count; o++) {
            const bt_array result = bt_phase_result(phase, 0, o);
            at = take(found, at, result.data, bt_array_bytes(result));
        }
        bt_phase_end(phase);
    }
    if (instance->planned)
        ck_assert_uint_eq(bt_instance_touched(instance), phase->used);
    for (int v = 0; v < s.count; v++) {
        char room[ROOM];
        EXPECT_OK(bt_store_read(instance, s.vars[v], 0, room, s.vars[v]->bytes));
        at = take(found, at, room, s.vars[v]->bytes);
    }
    bt_phase_free(phase);
    bt_instance_free(instance);
    instance = NULL;
    scene_free(&s);
    s = (scene){0};
    unsetenv("BETTY_PLAN");
    unsetenv("BETTY_SPACES");
    return at;
}

START_TEST(the_same_bits)
{
    static char one[ROOM], two[ROOM];
    enum { SEEDS = 25 };
    moves = outs = activations = 0;
    for (uint64_t seed = (uint64_t)_i * SEEDS; seed < (uint64_t)(_i + 1) * SEEDS; seed++) {
        const size_t size = run(seed, ONE, one);
        const how end = device_backend() || far_is_chosen() ? LATE : WAYS; /* all variables are on that device */
        for (how way = NEAR; way < end; way++) {
            const size_t other = run(seed, way, two);
            const bool all = way != OFF && way != GUARD; /* otherwise only the final values of variables */
            ck_assert_uint_eq(all ? other : size, size);
            ck_assert_msg(memcmp(one + size - other, two, other) == 0, "seed %llu, way %d: other bits",
                          (unsigned long long)seed, (int)way);
        }
    }
    ck_assert_int_gt(outs, 0);
    ck_assert_int_gt(activations, 0);
    ck_assert_int_gt(moves, outs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spaces");
    TCase *cases = tcase_create("random");
    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_add_loop_test(cases, the_same_bits, 0, 8);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}

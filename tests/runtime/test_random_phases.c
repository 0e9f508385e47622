/* Phases of several random programs, some of them repeated, that share variables in the arena. Run as planned, with
 * separate allocations, and with red zones: compared with plain loops, and bit for bit with reruns of steps. */
#include "support/random_graph.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 4, KEPT = 5, WINDOWS = 3, VARS = 7, MOST = 64, ROUNDS = 2, ROOM = 1 << 14 };

static const char *const modes[] = {"on", "off", "guard"};

static uint64_t seed, next;
static double uniform(void) { return bt_host_uniform(seed, 9, next++); }
static bool chance(double probability) { return uniform() < probability; }

static scene scenes[PROGRAMS];
static bt_block block;
static bt_var *kept[KEPT];        /* variables of the phase, f64 vectors: three windows of the block, two others cleared
                                   * at first */
static double values[KEPT][MOST]; /* their values, by the plain loops */
static int64_t sizes[KEPT];
static double start[PROGRAMS][VARS][4 * MOST];

/* x as a vector of `size` small numbers. */
static bt_tensor *fit(bt_tensor *x, int64_t size)
{
    int64_t count = bt_tensor_count(x);
    x = bt_tanh(x);
    if (count < size)
        return bt_broadcast(bt_sum(x), 1, &size, NULL);
    return bt_slice(bt_reshape(x, count), 0, 0, size);
}

/* Connects the program with the variables: reads some, writes some. */
static void tie(scene *s, bool *written)
{
    bt_trace_begin(&s->trace, s->graph, BT_TRAIN, BT_F64);
    s->tracing = true;
    bt_tensor *some = s->graph->outputs[0], *sum = bt_number(0, BT_F64);
    for (int k = 0; k < KEPT; k++)
        if (written[k] && chance(0.6))
            sum = bt_add(sum, bt_sum(bt_sin(bt_trace_read(kept[k]))));
    if (written[0] && written[1] && written[2] && chance(0.6))
        sum = bt_add(sum, bt_sum(bt_sin(bt_trace_read(block.flat))));
    for (int k = 0; k < KEPT; k++) {
        if (!chance(0.6))
            continue;
        bt_tensor *y = bt_add(fit(some, sizes[k]), bt_mul(0.125, sum));
        if (written[k])
            y = bt_add(bt_mul(0.5, bt_trace_read(kept[k])), y);
        if (chance(0.2))
            y = bt_tanh(y);
        bt_graph_assign(s->graph, kept[k], y);
        written[k] = true;
    }
    bt_graph_output(s->graph, bt_add(sum, 1));
    scene_end(s);
}

static void make(int number)
{
    bool written[KEPT] = {false, false, false, true, true};
    seed = (uint64_t)number + 1;
    next = 0;
    bt_array shapes[KEPT];
    for (int k = 0; k < KEPT; k++) {
        sizes[k] = 1 + (int64_t)(uniform() * 30);
        shapes[k] = (bt_array){.dtype = BT_F64, .rank = 1, .dims = {sizes[k]}};
    }
    EXPECT_OK(bt_block_new(&block, BT_PHASE, BT_VECTORS, "", "block", BT_F64, shapes,
                           (const char *const[]){"a", "b", "c"}, NULL, WINDOWS));
    for (int k = 0; k < KEPT; k++) {
        kept[k] = k < WINDOWS ? block.windows[k] : bt_var_new(BT_PHASE, BT_VECTORS, "", "kept", shapes[k]);
        kept[k]->clear = k >= WINDOWS;
    }
    for (int p = 0; p < PROGRAMS; p++) {
        unsigned what = RANDOM_ASSIGNS | RANDOM_SMOOTH | (chance(0.5) ? RANDOM_COMPOSITES : 0) |
                        (chance(0.5) ? RANDOM_GRADIENTS : 0);
        random_graph(&scenes[p], seed * PROGRAMS + (uint64_t)p, BT_F64, 12 + (int)(uniform() * 20), what);
        tie(&scenes[p], written);
        for (int v = 0; v < VARS; v++)
            for (int64_t i = 0; i < bt_array_count(bt_var_array(scenes[p].vars[v])); i++)
                start[p][v][i] = var_get(scenes[p].vars[v], i);
    }
}

/* Before each program: with repeated runs, some would drive their own variables to infinity. */
static void restore(void)
{
    for (int p = 0; p < PROGRAMS; p++)
        for (int v = 0; v < VARS; v++)
            var_set(scenes[p].vars[v], start[p][v]);
}

static void drop(void)
{
    for (int p = 0; p < PROGRAMS; p++)
        scene_free(&scenes[p]);
    for (int k = WINDOWS; k < KEPT; k++)
        bt_var_free(kept[k]);
    bt_block_free(&block);
}

/* The order of a run: 0, then 1 and 2 three times, then 3. */
static const int order[] = {0, 1, 2, 1, 2, 1, 2, 3};

static void collect(double *to, int *count, const double *from, int64_t size)
{
    ck_assert_int_le(*count + size, ROOM);
    for (int64_t i = 0; i < size; i++)
        to[(*count)++] = from[i];
}

/* ---- with plain loops ---- */

static void set_leaf(interpreter *in, const bt_node *node)
{
    const bt_var *var = ((const bt_read_attr *)node->attr)->var;
    double room[4 * MOST] = {0};
    for (int64_t i = 0; var->lifetime == BT_RUN && i < bt_tensor_count(node->out); i++)
        room[i] = var_get(var, i);
    for (int k = 0; k < KEPT; k++)
        if (var == kept[k])
            memcpy(room, values[k], sizeof values[k]);
    for (int k = 0; var == block.flat && k < WINDOWS; k++) /* with zeros between them */
        memcpy(room + kept[k]->offset / sizeof *room, values[k], (size_t)sizes[k] * sizeof *room);
    interpreter_set(in, node->out, room);
}

static void plain_run(scene *s, double *to, int *count)
{
    const bt_graph *graph = s->graph;
    interpreter *in = interpreter_new(graph);
    for (int64_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n]->op == &bt_op_read)
            set_leaf(in, graph->nodes[n]);
    interpreter_run(in);
    for (int64_t o = 0; o < graph->output_count; o++)
        collect(to, count, interpreter_value(in, graph->outputs[o]), bt_tensor_count(graph->outputs[o]));
    for (int64_t a = 0; a < graph->assign_count; a++) {
        const double *value = interpreter_value(in, graph->assigns[a].value);
        for (int k = 0; k < KEPT; k++)
            if (graph->assigns[a].var == kept[k])
                memcpy(values[k], value, (size_t)sizes[k] * sizeof *value);
        if (graph->assigns[a].var->lifetime == BT_RUN)
            var_set(graph->assigns[a].var, value);
    }
    interpreter_free(in);
}

static int plain(double *to)
{
    int count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memset(values, 0, sizeof values);
        for (int r = 0; r < BT_COUNT_OF(order); r++) {
            restore();
            plain_run(&scenes[order[r]], to, &count);
        }
    }
    return count;
}

/* ---- as a phase ---- */

/* What is recomputed; with `rows`, many of these steps would be in one call. */
static const bt_checkpointing policies[] = {
    {.kind = BT_CHECKPOINTING_NONE},         {BT_CHECKPOINTING_COST, .cost = 10},
    {BT_CHECKPOINTING_CHEAP, .cost = 0.5},   {BT_CHECKPOINTING_BUDGET, .number = 1},
    {BT_CHECKPOINTING_EVERY, .number = 2},   {.kind = BT_CHECKPOINTING_SQRT},
    {BT_CHECKPOINTING_OPS, .patterns = "*"},
};
static bt_level_checkpointing level;
static int64_t again; /* rerun steps, in all phases */

static void choose(bt_compile_options *options, const bt_checkpointing *policy)
{
    level = (bt_level_checkpointing){.level = "", .how = *policy};
    options->rows = false;
    options->levels = &level;
    options->level_count = 1;
}

/* bt_checkpoints around arbitrary nodes, however they are connected. */
static void draw_regions(void)
{
    for (int p = 0; p < PROGRAMS; p++)
        for (int64_t n = 0; n < scenes[p].graph->node_count; n++)
            scenes[p].graph->nodes[n]->tag.region = chance(0.7) ? 1 + (uint32_t)(3 * uniform()) : 0;
}

static int planned(double *to, const char *mode, const bt_checkpointing *policy)
{
    int count = 0;
    setenv("BETTY_PLAN", mode, 1);
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    unsetenv("BETTY_PLAN");
    if (policy)
        choose(&instance->options, policy);
    bt_phase *phase = bt_phase_new(instance, "test", "random");
    for (int p = 0; p < PROGRAMS; p++)
        ck_assert_msg(bt_phase_add(phase, scenes[p].graph, p == 1 || p == 2, "part") == p, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    for (int round = 0; round < ROUNDS; round++) {
        bt_instance_fill(instance);
        bt_phase_begin(phase);
        for (int r = 0; r < BT_COUNT_OF(order); r++) {
            restore();
            EXPECT_OK(bt_phase_run(phase, order[r]));
            for (int64_t o = 0; o < scenes[order[r]].graph->output_count; o++) {
                bt_array result = bt_phase_result(phase, order[r], o);
                collect(to, &count, result.data, bt_array_count(result));
            }
        }
        bt_phase_end(phase);
    }
    ck_assert(!instance->planned || bt_instance_touched(instance) <= phase->used);
    for (int64_t e = 0; e < phase->entry_count; e++)
        again += phase->entries[e].program->again;
    bt_phase_free(phase);
    bt_instance_free(instance);
    return count;
}

START_TEST(phases_of_several_programs)
{
    static double expected[ROOM], found[BT_COUNT_OF(modes)][ROOM];
    make(_i);
    int count = plain(expected);
    for (int m = 0; m < BT_COUNT_OF(modes); m++) {
        ck_assert_int_eq(planned(found[m], modes[m], NULL), count);
        expect_values(__FILE__, __LINE__, found[m], expected, count, 1e-8);
        ck_assert_msg(memcmp(found[m], found[0], (size_t)count * sizeof(double)) == 0, "BETTY_PLAN=%s: other bits",
                      modes[m]);
    }
    for (int k = 0; k < 2 * BT_COUNT_OF(policies); k++) {
        if (k == BT_COUNT_OF(policies))
            draw_regions();
        int m = k % BT_COUNT_OF(modes);
        ck_assert_int_eq(planned(found[1], modes[m], &policies[k % BT_COUNT_OF(policies)]), count);
        ck_assert_msg(memcmp(found[1], found[0], (size_t)count * sizeof(double)) == 0, "policy %d: other bits", k);
    }
    drop();
}
END_TEST

/* Checks that the phases above do rerun steps; cuts are rare in them. */
START_TEST(steps_run_again)
{
    static double found[ROOM];
    again = 0;
    for (int number = 0; number < 20; number++) {
        make(number);
        planned(found, "on", &policies[1 + number % 3]);
        drop();
    }
    ck_assert_int_gt(again, 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random_phases");
    TCase *tests = tcase_create("random_phases");
    tcase_add_loop_test(tests, phases_of_several_programs, 0, 60);
    tcase_add_test(tests, steps_run_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

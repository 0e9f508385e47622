/* Random graphs with random assigns, run in three ways: as planned, with a separate allocation for every value, and
 * with red zones, in each order of their steps. All give the same bits, and match plain loops node by node. */
#include "counting.h"
#include "support/random_graph.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { VARS = 7, ROOM = 1 << 16 };

static const char *const modes[] = {"on", "off", "guard"};

/* The complete result of a run: outputs and variables, byte by byte. */
typedef struct image {
    _Alignas(8) char bytes[ROOM];
    size_t size;
} image;

static void take(image *to, const void *data, size_t size)
{
    ck_assert_uint_le(to->size + size, ROOM);
    if (size)
        memcpy(to->bytes + to->size, data, size);
    to->size += size;
}

static void take_vars(image *to, const scene *s)
{
    for (int i = 0; i < VARS; i++)
        if (!s->vars[i]->base)
            take(to, var_near(s->vars[i]), s->vars[i]->bytes);
}

static void give_vars(const image *from, const scene *s)
{
    size_t at = 0;
    for (int i = 0; i < VARS; i++)
        if (!s->vars[i]->base) {
            var_write(s->vars[i], from->bytes + at);
            at += s->vars[i]->bytes;
        }
}

/* A separate allocation has bytes even if the value has none. */
static bool any_empty(const bt_phase *phase)
{
    for (int64_t i = 0; i < phase->value_count; i++)
        if (!phase->intervals[i].bytes)
            return true;
    return false;
}

/* Runs the graph twice in a phase, in an arena filled with a pattern. With a separate allocation for every value, the
 * peak of their bytes is the plan's bound. */
static void run_by(const bt_graph *graph, const scene *s, const char *mode, int threads, bool rows, bt_order_rule rule,
                   image *result)
{
    setenv("BETTY_PLAN", mode, 1);
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), threads);
    unsetenv("BETTY_PLAN");
    instance->options.rows = rows;
    bt_phase *phase = bt_phase_new(instance, "test", "random");
    phase->options.rule = rule;
    ck_assert_msg(bt_phase_add(phase, graph, 0, "whole") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    bt_instance_fill(instance);
    for (int i = 0; i < 2; i++) {
        bool counts = i == 1 && strcmp(mode, "off") == 0 && counting_works() && !any_empty(phase) && !instance->queue;
        bt_phase_begin(phase);
        if (counts)
            counting_start();
        EXPECT_OK(bt_phase_run(phase, 0));
        if (counts) {
            counting_stop();
            ck_assert_uint_eq(counting_peak(), phase->bound);
        }
        for (int64_t o = 0; o < graph->output_count; o++) {
            bt_array array = bt_phase_result(phase, 0, o);
            take(result, array.data, bt_array_bytes(array));
        }
        bt_phase_end(phase);
        take_vars(result, s);
    }
    ck_assert(strcmp(mode, "on") != 0 || bt_instance_touched(instance) <= phase->used);
    bt_phase_free(phase);
    bt_instance_free(instance);
}

static void run(const bt_graph *graph, const scene *s, const char *mode, int threads, bool rows, image *result)
{
    run_by(graph, s, mode, threads, rows, BT_ORDERS, result);
}

static void expect_same(const image *a, const image *b, const char *mode)
{
    ck_assert_uint_eq(a->size, b->size);
    ck_assert_msg(memcmp(a->bytes, b->bytes, a->size) == 0, "%s gives other bits", mode);
}

START_TEST(every_way_gives_the_same_bits)
{
    static image start, first, other;
    scene s;
    bt_dtype dtype = _i % 3 == 2 ? BT_F32 : BT_F64;
    unsigned what = RANDOM_ASSIGNS | (_i % 2 ? RANDOM_COMPOSITES : 0) | (_i % 4 == 3 ? RANDOM_GRADIENTS : 0);
    random_graph(&s, (uint64_t)_i + 1, dtype, 20 + _i % 60, what);
    start.size = first.size = 0;
    take_vars(&start, &s);
    for (int m = 0; m < 2 * BT_COUNT_OF(modes); m++) {
        image *result = m ? &other : &first;
        const char *mode = modes[m / 2];
        result->size = 0;
        give_vars(&start, &s);
        run(s.graph, &s, mode, 1 + _i % 2, m % 2 == 0, result);
        if (m)
            expect_same(&first, result, mode);
    }
    scene_free(&s);
}
END_TEST

START_TEST(every_order_gives_the_same_bits)
{
    static image start, first, other;
    scene s;
    random_graph(&s, (uint64_t)_i + 1, BT_F64, 20 + _i % 60, RANDOM_ASSIGNS | (_i % 2 ? RANDOM_GRADIENTS : 0));
    start.size = first.size = 0;
    take_vars(&start, &s);
    for (int rule = 0; rule < BT_ORDERS; rule++)
        for (int m = 0; m < BT_COUNT_OF(modes); m++) {
            image *result = rule || m ? &other : &first;
            result->size = 0;
            give_vars(&start, &s);
            run_by(s.graph, &s, modes[m], 1, _i % 4 < 2, (bt_order_rule)rule, result);
            if (result != &first)
                expect_same(&first, result, bt_order_name((bt_order_rule)rule));
        }
    scene_free(&s);
}
END_TEST

/* Each variable gets the assigned value, computed from the old values of all of them; outputs too. */
START_TEST(plain_loops_give_the_same_values)
{
    scene s;
    random_graph(&s, (uint64_t)_i + 1, BT_F64, 20 + _i % 60, RANDOM_ASSIGNS | (_i % 2 ? RANDOM_COMPOSITES : 0));
    interpreter *in = interpret(s.graph);
    bool assigned[VARS] = {false};
    double before[VARS][128];
    for (int v = 0; v < VARS; v++)
        for (int64_t i = 0; i < bt_array_count(bt_var_array(s.vars[v])); i++)
            before[v][i] = var_get(s.vars[v], i);
    double *values = run_once(s.graph), *next = values;
    for (int64_t o = 0; o < s.graph->output_count; o++) {
        int64_t count = bt_tensor_count(s.graph->outputs[o]);
        expect_values(__FILE__, __LINE__, next, interpreter_value(in, s.graph->outputs[o]), count, 1e-10);
        next += count;
    }
    for (int64_t a = 0; a < s.graph->assign_count; a++) {
        const bt_assign *assign = &s.graph->assigns[a];
        expect_var(__FILE__, __LINE__, assign->var, interpreter_value(in, assign->value),
                   bt_tensor_count(assign->value), 1e-10);
        for (int v = 0; v < VARS; v++) /* a block changes with its windows, and vice versa */
            assigned[v] |= bt_var_root(s.vars[v]) == bt_var_root(assign->var) &&
                           (s.vars[v] == assign->var || !s.vars[v]->base || !assign->var->base);
    }
    for (int v = 0; v < VARS; v++)
        if (!assigned[v])
            expect_var(__FILE__, __LINE__, s.vars[v], before[v], bt_array_count(bt_var_array(s.vars[v])), 0);
    free(values);
    interpreter_free(in);
    scene_free(&s);
}
END_TEST

/* With every node an output, nothing can be merged, placed in a variable or dropped: the values stay the same (except
 * for the order of sums, if a kernel gets a dense copy instead of a view). */
START_TEST(whatever_is_kept)
{
    scene s;
    random_graph(&s, (uint64_t)_i + 1, BT_F64, 30, RANDOM_ASSIGNS | RANDOM_COMPOSITES);
    static image start, first, other;
    start.size = first.size = other.size = 0;
    take_vars(&start, &s);
    double *values = run_once(s.graph);
    int64_t outputs = s.graph->output_count, count = output_elements(s.graph);
    take_vars(&first, &s);
    give_vars(&start, &s);
    for (int64_t n = 0; n < s.graph->node_count; n++)
        for (int o = 0; o < s.graph->nodes[n]->outputs; o++)
            bt_graph_output(s.graph, &s.graph->nodes[n]->out[o]);
    double *all = run_once(s.graph);
    take_vars(&other, &s);
    expect_values(__FILE__, __LINE__, (const double *)(const void *)other.bytes,
                  (const double *)(const void *)first.bytes, (int64_t)(first.size / 8), 1e-10);
    expect_values(__FILE__, __LINE__, all, values, count, 1e-10);
    ck_assert_int_gt(s.graph->output_count, outputs);
    free(values);
    free(all);
    scene_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("modes");
    TCase *tests = tcase_create("modes");
    tcase_add_loop_test(tests, every_way_gives_the_same_bits, 0, 200);
    tcase_add_loop_test(tests, every_order_gives_the_same_bits, 0, 100);
    tcase_add_loop_test(tests, plain_loops_give_the_same_values, 0, 200);
    tcase_add_loop_test(tests, whatever_is_kept, 0, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

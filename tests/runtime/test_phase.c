/* Phases: programs planned together. Variables in the arena, loops, clearing, results, outside memory, an arena shared
 * by several phases. Every test runs as planned and with a separate allocation for every value. */
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const modes[] = {"on", "off", "guard"};

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static bt_graph *graphs[32];
static int graph_count;

static void begin(int mode)
{
    scene_begin(&s, BT_F64);
    scene_end(&s); /* each test creates its graphs */
    setenv("BETTY_PLAN", modes[mode], 1);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    unsetenv("BETTY_PLAN");
    phase = bt_phase_new(instance, "lower", "step");
    ck_assert_ptr_nonnull(phase);
    graph_count = 0;
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    for (int i = 0; i < graph_count; i++)
        bt_graph_free(graphs[i]);
    scene_free(&s);
    bt_error_clear();
}

static bt_trace trace;

static bt_graph *open_graph(void)
{
    bt_graph *graph = graphs[graph_count++] = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    return graph;
}

static int close_graph(int loop)
{
    bt_graph *graph = trace.graph;
    bt_trace_end(&trace);
    ck_assert_msg(graph->status == BT_OK, "%s", graph->message);
    int entry = bt_phase_add(phase, graph, loop, "part");
    ck_assert_msg(entry >= 0, "%s", bt_error());
    return entry;
}

static void plan(void)
{
    EXPECT_OK(bt_phase_plan(phase));
    bt_instance_fill(instance);
}

static bt_var *phase_var(const char *name, int64_t size, bool clear)
{
    bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {size}};
    bt_var *var = bt_phase_own(phase, bt_var_new(BT_PHASE, BT_VECTORS, "lower", name, shape));
    ck_assert_ptr_nonnull(var);
    var->clear = clear;
    return var;
}

static bt_var *run_var(const char *name, int64_t size, const double *values)
{
    return scene_var(&s, name, BT_F64, values, (const int64_t[]){size, BT_END});
}

/* The first window is written before the wide value, the second is computed from it: the wide value is placed where the
 * second window will be. A reader of the whole block sees zeros after each window. */
START_TEST(windows_live_one_by_one)
{
    begin(_i);
    bt_block block;
    const bt_array shapes[] = {{.dtype = BT_F64, .rank = 1, .dims = {3}}, {.dtype = BT_F64, .rank = 2, .dims = {8, 8}}};
    EXPECT_OK(bt_block_new(&block, BT_PHASE, BT_GRADIENTS, "lower", "gradients", BT_F64, shapes,
                           (const char *const[]){"narrow", "wide"}, NULL, 2));
    bt_var *x = run_var("x", 8, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8)), *y = run_var("y", 72, NULL);
    bt_graph *graph = open_graph();
    bt_tensor *column = bt_reshape(bt_trace_read(x), 8, 1), *row = bt_reshape(bt_trace_read(x), 1, 8);
    bt_graph_assign(graph, block.windows[0], bt_neg(bt_slice(bt_trace_read(x), 0, 0, 3)));
    bt_tensor *sums = bt_sum(bt_dot(column, row), 1); /* 36 x */
    bt_graph_assign(graph, block.windows[1], bt_dot(bt_reshape(sums, 8, 1), row));
    int first = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_mul(2, bt_trace_read(block.flat)));
    int second = close_graph(0);
    plan();
    ck_assert_uint_eq(phase->bound, 64 + 512 + 64); /* both windows, and the sums */
    ck_assert(!instance->planned || phase->arena == phase->bound);
    for (int round = 0; round < 2; round++) {
        double expected[72] = {-2, -4, -6};
        for (int i = 0; i < 64; i++)
            expected[8 + i] = 2 * 36.0 * (i / 8 + 1) * (i % 8 + 1);
        var_set(y, NULL);
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, first));
        double held[72];
        bt_phase_read(phase, second, block.flat, (char *)held); /* without the gaps after the windows */
        for (int i = 0; i < 72; i++)
            ck_assert((i >= 3 && i < 8) || 2 * held[i] == expected[i]);
        EXPECT_OK(bt_phase_run(phase, second));
        bt_phase_end(phase);
        expect_var(__FILE__, __LINE__, y, expected, 72, 1e-15);
    }
    end();
    bt_block_free(&block);
}
END_TEST

/* first: kept := exp(x). second: other work. third: y := kept + 1. */
START_TEST(a_variable_lives_from_program_to_program)
{
    begin(_i);
    bt_var *x = run_var("x", 3, NUMBERS(1, 2, 3)), *y = run_var("y", 3, NULL), *kept = phase_var("kept", 3, false);
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, kept, bt_exp(bt_trace_read(x)));
    int first = close_graph(0);
    graph = open_graph();
    bt_tensor *much = bt_trace_read(x);
    for (int i = 0; i < 4; i++)
        much = bt_add(bt_sin(much), bt_cos(much));
    bt_graph_output(graph, much);
    int second = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_add(bt_trace_read(kept), 1));
    int third = close_graph(0);
    plan();
    for (int round = 0; round < 2; round++) {
        var_set(y, NULL);
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, first));
        EXPECT_OK(bt_phase_run(phase, second));
        EXPECT_OK(bt_phase_run(phase, third));
        bt_phase_end(phase);
        EXPECT_VAR(y, 1e-15, exp(1) + 1, exp(2) + 1, exp(3) + 1);
    }
    end();
}
END_TEST

/* first: kept := exp(x). second: t = sin(kept), y := t sum(t), and z := a part of kept, times sum(t). Nothing reads
 * kept after the second, so t is placed over it, unless the second itself still needs the part. */
static size_t arena_where_spent(bool spent, bool part)
{
    enum { MANY = 64, FEW = 8 };
    double values[MANY], sum = 0;
    phase->options.rows = false;
    for (int i = 0; i < MANY; i++)
        values[i] = 0.01 * i;
    bt_var *x = run_var("x", MANY, values), *y = run_var("y", MANY, NULL), *z = run_var("z", FEW, NULL);
    bt_var *kept = phase_var("kept", MANY, false);
    bt_var *window =
        bt_phase_own(phase, bt_var_window(kept, 0, "part", (bt_array){.dtype = BT_F64, .rank = 1, .dims = {FEW}}));
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, kept, bt_exp(bt_trace_read(x)));
    int first = close_graph(0);
    graph = open_graph();
    bt_tensor *t = bt_sin(bt_trace_read(kept)), *all = bt_sum(t);
    bt_graph_assign(graph, y, bt_mul(t, all));
    bt_graph_assign(graph, z, bt_mul(part ? bt_trace_read(window) : bt_slice(t, 0, 0, FEW), all));
    phase->spent = spent ? kept : NULL;
    int second = close_graph(0);
    plan();
    for (int i = 0; i < MANY; i++)
        sum += sin(exp(values[i]));
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, first));
    EXPECT_OK(bt_phase_run(phase, second));
    bt_phase_end(phase);
    for (int i = 0; i < MANY; i++)
        ck_assert_double_eq_tol(var_get(y, i), sin(exp(values[i])) * sum, 1e-12);
    for (int i = 0; i < FEW; i++)
        ck_assert_double_eq_tol(var_get(z, i), (part ? exp(values[i]) : sin(exp(values[i]))) * sum, 1e-12);
    return phase->arena;
}

START_TEST(what_is_spent_is_written_over)
{
    static const size_t due[2][2] = {{2 * 512, 2 * 512}, {512 + 64, 2 * 512}};
    for (int spent = 0; spent < 2; spent++)
        for (int part = 0; part < 2; part++) {
            begin(_i);
            ck_assert_uint_eq(arena_where_spent(spent, part), due[spent][part]);
            end();
        }
}
END_TEST

/* A loop of two programs, three times: sum += term; term *= x. Other values need memory in between. */
START_TEST(variables_live_through_loops)
{
    begin(_i);
    bt_var *x = run_var("x", 2, NUMBERS(0.5, 3)), *y = run_var("y", 2, NULL);
    bt_var *term = phase_var("term", 2, false), *sum = phase_var("sum", 2, false);
    bt_graph *graph = open_graph();
    bt_tensor *one = bt_ones_like(bt_trace_read(x));
    bt_graph_assign(graph, term, one);
    bt_graph_assign(graph, sum, bt_zeros_like(one));
    int start = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, sum, bt_add(bt_trace_read(sum), bt_trace_read(term)));
    int add = close_graph(1);
    graph = open_graph();
    bt_tensor *t = bt_trace_read(term), *wide = bt_exp(bt_concat(0, t, t, t, t)); /* wrong reuse would corrupt it */
    bt_tensor *same = bt_log(bt_slice(wide, 0, 0, 2));
    bt_graph_assign(graph, term, bt_mul(same, bt_trace_read(x)));
    int multiply = close_graph(1);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_trace_read(sum));
    int finish = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, start));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(bt_phase_run(phase, add));
        EXPECT_OK(bt_phase_run(phase, multiply));
    }
    EXPECT_OK(bt_phase_run(phase, finish));
    bt_phase_end(phase);
    EXPECT_VAR(y, 1e-14, 1 + 0.5 + 0.25, 1 + 3 + 9);
    end();
}
END_TEST

/* A sum over micro-batches, which is zeroed once in every run of the phase. */
START_TEST(cleared_once_a_run)
{
    begin(_i);
    bt_var *x = run_var("x", 2, NUMBERS(1, 10)), *y = run_var("y", 2, NULL), *sum = phase_var("sum", 2, true);
    bt_graph *graph = open_graph(); /* comes before the variable's first use */
    bt_graph_output(graph, bt_exp(bt_concat(0, bt_trace_read(x), bt_trace_read(x))));
    int before = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, sum, bt_add(bt_trace_read(sum), bt_trace_read(x)));
    int add = close_graph(1);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_trace_read(sum));
    int finish = close_graph(0);
    plan();
    for (int round = 0; round < 3; round++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, before));
        for (int i = 0; i <= round; i++)
            EXPECT_OK(bt_phase_run(phase, add));
        EXPECT_OK(bt_phase_run(phase, finish));
        bt_phase_end(phase);
        EXPECT_VAR(y, 0, round + 1, 10 * (round + 1));
    }
    bt_phase_begin(phase); /* no batch at all: zeros, not the old contents */
    EXPECT_OK(bt_phase_run(phase, before));
    EXPECT_OK(bt_phase_run(phase, finish));
    bt_phase_end(phase);
    EXPECT_VAR(y, 0, 0, 0);
    end();
}
END_TEST

/* c += 1, y += c at the start of a program that repeats, and much memory used afterwards: c must survive. Traced order,
 * step by step: otherwise c might be used at the end, or everything might be one call. */
START_TEST(a_variable_of_a_loop_outlives_its_last_use)
{
    begin(_i / 2);
    phase->options.rule = BT_ORDER_WRITTEN;
    phase->options.rows = false;
    bt_var *x = run_var("x", 8, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8)), *y = run_var("y", 8, NULL),
           *z = run_var("z", 8, NULL);
    bool clear = _i % 2; /* otherwise a program before the loop sets it */
    bt_var *c = phase_var("c", 8, clear);
    bt_graph *graph = open_graph();
    if (!clear)
        bt_graph_assign(graph, c, bt_zeros_like(bt_trace_read(x)));
    int start = close_graph(0);
    graph = open_graph();
    bt_tensor *next = bt_add(bt_trace_read(c), 1), *much = bt_trace_read(x);
    bt_graph_assign(graph, c, next);
    bt_graph_assign(graph, y, bt_add(bt_trace_read(y), next));
    for (int i = 0; i < 3; i++)
        much = bt_mul(bt_exp(much), bt_sum(bt_sin(much)));
    bt_graph_assign(graph, z, bt_tanh(much));
    int entry = close_graph(1);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, start));
    for (int i = 0; i < 4; i++)
        EXPECT_OK(bt_phase_run(phase, entry));
    bt_phase_end(phase);
    EXPECT_VAR(y, 0, 10, 10, 10, 10, 10, 10, 10, 10); /* 1 + 2 + 3 + 4 */
    end();
}
END_TEST

/* A variable that is cleared when its program begins and used when it ends: nothing else may use its memory in
 * between. */
START_TEST(cleared_and_used_late)
{
    begin(_i);
    bt_var *x = run_var("x", 8, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8)), *y = run_var("y", 8, NULL),
           *sum = phase_var("sum", 8, true);
    bt_graph *graph = open_graph();
    bt_tensor *much = bt_trace_read(x);
    for (int i = 0; i < 3; i++)
        much = bt_add(bt_exp(bt_mul(much, 0.1)), bt_cos(much));
    bt_tensor *total = bt_mul(bt_sum(much), 0);
    bt_graph_assign(graph, sum, bt_add(bt_trace_read(sum), bt_add(total, 1)));
    int entry = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_trace_read(sum));
    int finish = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, entry));
    EXPECT_OK(bt_phase_run(phase, finish));
    bt_phase_end(phase);
    EXPECT_VAR(y, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    end();
}
END_TEST

/* Windows of a block in the arena: gaps are zero for a reader of the whole block; other values may be placed after
 * it. */
START_TEST(blocks_in_the_arena)
{
    begin(_i);
    bt_array shapes[2] = {{.dtype = BT_F64, .rank = 1, .dims = {3}}, {.dtype = BT_F64, .rank = 1, .dims = {2}}};
    const char *const names[] = {"a", "b"};
    bt_block block;
    EXPECT_OK(bt_block_new(&block, BT_PHASE, BT_GRADIENTS, "lower", "gradients", BT_F64, shapes, names, NULL, 2));
    bt_var *x = run_var("x", 3, NUMBERS(1, 2, 3)), *y = run_var("y", 16, NULL);
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, block.windows[0], bt_mul(bt_trace_read(x), 10));
    bt_graph_assign(graph, block.windows[1], bt_slice(bt_trace_read(x), 0, 0, 2));
    int first = close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_add(bt_trace_read(block.flat), 0.5));
    int second = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, first));
    EXPECT_OK(bt_phase_run(phase, second));
    bt_phase_end(phase);
    EXPECT_VAR(y, 0, 10.5, 20.5, 30.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 2.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5);
    bt_phase_free(phase);
    phase = NULL;
    bt_block_free(&block);
    end();
}
END_TEST

/* A window that nothing reads again: the gap that is cleared at the end still belongs to it. */
START_TEST(the_gap_of_a_window_that_is_not_read)
{
    begin(_i);
    bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {1}};
    const char *const names[] = {"a"};
    bt_block block;
    EXPECT_OK(bt_block_new(&block, BT_PHASE, BT_GRADIENTS, "lower", "gradients", BT_F64, &shape, names, NULL, 1));
    bt_var *x = run_var("x", 1, NUMBERS(2)), *z = run_var("z", 8, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8));
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, block.windows[0], bt_exp(bt_trace_read(x)));
    bt_graph_output(graph, bt_mul(bt_add(bt_trace_read(z), 1), 10));
    int entry = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, entry));
    EXPECT_VALUES(bt_phase_result(phase, entry, 0).data, 0, 20, 30, 40, 50, 60, 70, 80, 90);
    bt_phase_end(phase);
    bt_phase_free(phase);
    phase = NULL;
    bt_block_free(&block);
    end();
}
END_TEST

/* Step by step: in one call with all others, a result would survive to the end anyway. */
START_TEST(results_stay_to_the_end_of_their_program)
{
    begin(_i);
    phase->options.rule = BT_ORDER_WRITTEN;
    phase->options.rows = false;
    bt_var *x = run_var("x", 4, NUMBERS(1, 2, 3, 4));
    bt_graph *graph = open_graph();
    bt_tensor *y = bt_trace_read(x);
    for (int i = 0; i < 6; i++) {
        y = bt_add(y, 1);
        bt_graph_output(graph, y);
    }
    int entry = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, entry));
    for (int i = 0; i < 6; i++)
        EXPECT_VALUES(bt_phase_result(phase, entry, i).data, 0, 2 + i, 3 + i, 4 + i, 5 + i);
    bt_phase_end(phase);
    end();
}
END_TEST

/* ---- memory from outside ---- */

START_TEST(outside_memory_is_bound_anew)
{
    begin(_i);
    bt_array shape = {.dtype = BT_F64, .rank = 1, .dims = {2}};
    bt_var *batch = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "lower", "batch", shape)),
           *y = run_var("y", 2, NULL);
    bt_graph *graph = open_graph();
    bt_tensor *x = bt_trace_read(batch);
    bt_graph_assign(graph, y, bt_add(bt_mul(x, x), bt_concat(0, bt_slice(x, 0, 1, 2), bt_slice(x, 0, 0, 1))));
    int entry = close_graph(0);
    plan();
    bt_phase_begin(phase);
    ck_assert_int_eq(bt_phase_run(phase, entry), BT_ERROR_INTERNAL); /* nothing is bound yet */
    ck_assert_str_eq(bt_error(), "batch is not bound to data");
    bt_error_clear();
    double first[] = {2, 3}, second[] = {5, 7};
    for (int round = 0; round < 4; round++) {
        double *data = round % 2 ? second : first;
        bt_store_point(batch, data);
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, entry));
        bt_phase_end(phase);
        EXPECT_VAR(y, 0, data[0] * data[0] + data[1], data[1] * data[1] + data[0]);
    }
    bt_store_point(batch, NULL);
    end();
}
END_TEST

/* ---- an arena shared by phases ---- */

static bt_phase *other_phase(int64_t size, bt_var *out)
{
    bt_phase *first = phase;
    phase = bt_phase_new(instance, "upper", "step");
    bt_var *kept = phase_var("kept", size, true);
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, kept, bt_add(bt_trace_read(kept), 1));
    close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, out, bt_sum(bt_exp(bt_mul(bt_trace_read(kept), 2))));
    close_graph(0);
    EXPECT_OK(bt_phase_plan(phase));
    bt_phase *made = phase;
    phase = first;
    return made;
}

static void run_other(bt_phase *other, bt_var *out, int64_t size)
{
    bt_phase_begin(other);
    EXPECT_OK(bt_phase_run(other, 0));
    EXPECT_OK(bt_phase_run(other, 1));
    bt_phase_end(other);
    EXPECT_VAR(out, 1e-14, (double)size * exp(2));
}

/* Phases planned in sequence, each larger than the last: the arena moves, and the older ones still work. */
START_TEST(the_arena_grows_under_older_phases)
{
    begin(_i);
    bt_phase *others[4];
    bt_var *out = scene_var(&s, "out", BT_F64, NULL, (const int64_t[]){BT_END});
    size_t live = bt_live_bytes();
    for (int i = 0; i < 4; i++) {
        others[i] = other_phase(100 << (4 * i), out);
        bt_instance_fill(instance);
        for (int j = 0; j <= i; j++)
            run_other(others[j], out, 100 << (4 * j));
    }
    size_t largest = others[3]->arena;
    ck_assert_uint_eq(instance->planned ? instance->arena_size : largest, largest);
    ck_assert_uint_eq(bt_live_bytes(), live + (instance->planned ? largest : 0));
    bt_phase_free(others[1]); /* any of them may be freed */
    bt_phase *small = other_phase(10, out);
    run_other(small, out, 10);
    ck_assert_uint_eq(instance->planned ? instance->arena_size : largest, largest); /* it fits: nothing is moved */
    for (int i = 0; i < 4; i++)
        if (i != 1) {
            run_other(others[i], out, 100 << (4 * i));
            bt_phase_free(others[i]);
        }
    bt_phase_free(small);
    end();
}
END_TEST

/* Two phases that begin with x and add to their own sum, so each needs its memory between its parts. */
static void add_sum(bt_phase *to, bt_var *kept, bt_var *x, bt_var *y)
{
    bt_phase *before = phase;
    phase = to;
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, kept, bt_exp(bt_trace_read(x)));
    close_graph(0);
    graph = open_graph();
    bt_graph_assign(graph, y, bt_add(bt_trace_read(kept), bt_trace_read(x)));
    close_graph(0);
    plan();
    phase = before;
}

START_TEST(one_phase_at_a_time)
{
    begin(_i);
    bt_phase *other = bt_phase_new(instance, "upper", "evaluation");
    bt_var *x = run_var("x", 2, NUMBERS(1, 2)), *y = run_var("y", 2, NULL), *large = run_var("large", 64, NULL);
    bt_var *result = run_var("result", 64, NULL), *mine = phase_var("mine", 2, false);
    bt_var *theirs = bt_phase_own(other, bt_var_new(BT_PHASE, BT_VECTORS, "upper", "theirs",
                                                    (bt_array){.dtype = BT_F64, .rank = 1, .dims = {64}}));
    add_sum(phase, mine, x, y);
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, 0));
    bt_aside aside;
    EXPECT_OK(bt_instance_set_aside(instance, &aside));
    add_sum(other, theirs, large, result); /* needs a larger arena */
    EXPECT_OK(bt_phase_run(other, 0));
    EXPECT_OK(bt_phase_run(other, 1));
    bt_phase_end(other);
    EXPECT_OK(bt_instance_put_back(instance, &aside));
    bt_phase_begin(other);
    ck_assert_int_eq(bt_phase_run(other, 0), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "upper, evaluation: it cannot run while lower, step is running in the same arena");
    bt_error_clear();
    EXPECT_OK(bt_phase_run(phase, 1));
    bt_phase_end(phase);
    EXPECT_VAR(y, 1e-15, exp(1) + 1, exp(2) + 2);
    EXPECT_OK(bt_phase_run(other, 0));
    bt_phase_free(other);
    end();
}
END_TEST

/* A phase that is planned again (after adding a program, or losing the arena) works like a new one. */
START_TEST(planned_again)
{
    begin(_i);
    bt_var *x = run_var("x", 3, NUMBERS(1, 2, 3)), *y = run_var("y", 3, NULL), *kept = phase_var("kept", 3, true);
    bt_graph *graph = open_graph();
    bt_graph_assign(graph, kept, bt_exp(bt_trace_read(x)));
    int first = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, first)); /* and is not ended */
    graph = open_graph();
    bt_graph_assign(graph, y, bt_add(bt_trace_read(kept), bt_exp(bt_mul(2, bt_trace_read(x)))));
    int second = close_graph(0);
    plan();
    for (int round = 0; round < 2; round++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, first));
        EXPECT_OK(bt_phase_run(phase, second));
        bt_phase_end(phase);
        EXPECT_VAR(y, 1e-15, exp(1) + exp(2), exp(2) + exp(4), exp(3) + exp(6));
    }
    end();
}
END_TEST

/* Two graphs with equal counts and sizes but different edges, in turn on one instance. */
START_TEST(two_graphs_that_look_alike)
{
    begin(_i);
    bt_var *x = run_var("x", 2, NUMBERS(1, 2)), *y = run_var("y", 2, NUMBERS(30, 40));
    int entries[2];
    for (int i = 0; i < 2; i++) {
        bt_graph *graph = open_graph();
        bt_tensor *a = bt_mul(bt_trace_read(x), 2), *b = bt_mul(bt_trace_read(y), 2), *c = bt_sub(i ? b : a, i ? a : b);
        bt_graph_output(graph, bt_add(bt_mul(c, i ? b : a), i ? a : b));
        entries[i] = close_graph(i + 1);
    }
    ck_assert_int_eq(graphs[0]->node_count, graphs[1]->node_count);
    plan();
    for (int round = 0; round < 3; round++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, entries[0]));
        EXPECT_VALUES(bt_phase_result(phase, entries[0], 0).data, 0, -58.0 * 2 + 60, -76.0 * 4 + 80);
        EXPECT_OK(bt_phase_run(phase, entries[1]));
        EXPECT_VALUES(bt_phase_result(phase, entries[1], 0).data, 0, 58.0 * 60 + 2, 76.0 * 80 + 4);
        bt_phase_end(phase);
    }
    end();
}
END_TEST

/* ---- reports ---- */

START_TEST(saved_activations_are_counted)
{
    begin(0);
    bt_var *x = scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){5, 7, BT_END});
    bt_var *w = scene_var(&s, "w", BT_F64, NULL, (const int64_t[]){7, 3, BT_END});
    bt_var *dw = scene_var(&s, "dw", BT_F64, NULL, (const int64_t[]){7, 3, BT_END});
    bt_graph *graph = open_graph();
    bt_tensor *weight = bt_trace_read(w), *h = bt_tanh(bt_matmul(bt_trace_read(x), weight));
    bt_graph_assign(graph, dw, bt_grad(bt_sum(bt_sin(h)), weight));
    int entry = close_graph(0);
    plan();
    bt_saved saved;
    EXPECT_OK(bt_phase_saved(phase, entry, &saved));
    ck_assert_uint_eq(saved.held, 5 * 3 * 8); /* tanh's output, which sin's derivative reads too */
    ck_assert_uint_eq(saved.all, 5 * 3 * 8);
    ck_assert(phase->bound > 0 && phase->bound <= phase->arena && phase->used <= phase->arena);
    size_t arena = phase->arena, bound = phase->bound;
    bt_phase *again = bt_phase_new(instance, "lower", "again");
    ck_assert_int_eq(bt_phase_add(again, graph, 0, "part"), 0);
    EXPECT_OK(bt_phase_plan(again));
    ck_assert(again->arena == arena && again->bound == bound);
    bt_phase_free(again);
    end();
}
END_TEST

/* A phase without programs, and one with an empty program. */
START_TEST(nothing)
{
    begin(_i);
    plan();
    ck_assert(phase->arena == 0 && phase->bound == 0);
    bt_phase_begin(phase);
    bt_phase_end(phase);
    open_graph();
    int entry = close_graph(0);
    plan();
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, entry));
    bt_phase_end(phase);
    ck_assert_ptr_null(bt_phase_own(phase, NULL));
    bt_phase_free(NULL);
    bt_instance_free(NULL);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("phase");
    TCase *tests = tcase_create("phase");
    int ways = BT_COUNT_OF(modes);
    tcase_add_loop_test(tests, windows_live_one_by_one, 0, BT_COUNT_OF(modes));
    tcase_add_loop_test(tests, a_variable_lives_from_program_to_program, 0, ways);
    tcase_add_loop_test(tests, what_is_spent_is_written_over, 0, ways);
    tcase_add_loop_test(tests, variables_live_through_loops, 0, ways);
    tcase_add_loop_test(tests, cleared_once_a_run, 0, ways);
    tcase_add_loop_test(tests, a_variable_of_a_loop_outlives_its_last_use, 0, 2 * ways);
    tcase_add_loop_test(tests, cleared_and_used_late, 0, ways);
    tcase_add_loop_test(tests, blocks_in_the_arena, 0, ways);
    tcase_add_loop_test(tests, the_gap_of_a_window_that_is_not_read, 0, ways);
    tcase_add_loop_test(tests, results_stay_to_the_end_of_their_program, 0, ways);
    tcase_add_loop_test(tests, outside_memory_is_bound_anew, 0, ways);
    tcase_add_loop_test(tests, the_arena_grows_under_older_phases, 0, ways);
    tcase_add_loop_test(tests, one_phase_at_a_time, 0, ways);
    tcase_add_loop_test(tests, planned_again, 0, ways);
    tcase_add_loop_test(tests, two_graphs_that_look_alike, 0, ways);
    tcase_add_test(tests, saved_activations_are_counted);
    tcase_add_loop_test(tests, nothing, 0, ways);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

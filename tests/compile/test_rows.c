/* Arithmetic on a few numbers becomes one call: the same bits as its single steps, whatever variables it reads and
 * returns; larger arrays are not included. */
#include "support/scene.h"

#include "compile/joined.h"
#include "compile/rows.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_instance *instance;
static bt_phase *phase;

static void begin(bt_dtype dtype, bool rows)
{
    scene_begin(&s, dtype);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->options.rows = instance->options.strips = rows;
    instance->options.chain = false;
    phase = bt_phase_new(instance, "test", "rows");
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static int batches(const bt_program *program)
{
    int count = 0;
    for (int64_t i = 0; i < program->step_count; i++)
        count += program->steps[i].call.joined != NULL;
    return count;
}

/* |w - g|, its sum, and w := w - 0.5 g: five steps. */
START_TEST(many_steps_are_one)
{
    begin(BT_F64, true);
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *g = VECTOR(&s, "g", 10, 20);
    bt_tensor *sum = SCALAR(&s, "sum", 0);
    (void)sum;
    bt_graph_assign(s.graph, s.vars[2], bt_sum(bt_sqrt(bt_square(bt_sub(w, g)))));
    bt_graph_assign(s.graph, s.vars[0], bt_sub(w, bt_mul(0.5, g)));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(program->step_count, 1);
    ck_assert_int_eq(program->steps[0].call.joined->count, 6);
    ck_assert_uint_eq(phase->arena, 0);
    EXPECT_VAR(s.vars[2], 0, 27);
    EXPECT_VAR(s.vars[0], 0, -4, -8);
    end();
}
END_TEST

/* w + g becomes the new w, and g - w reads the old w later: w must not be written too early. */
START_TEST(the_old_value_is_read_before_the_new_one)
{
    begin(BT_F64, true);
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *g = VECTOR(&s, "g", 10, 20), *next = bt_add(w, g);
    bt_graph_assign(s.graph, s.vars[0], next);
    bt_graph_assign(s.graph, s.vars[1], bt_sub(bt_mul(g, next), w));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(batches(program), 1);
    EXPECT_VAR(s.vars[0], 0, 11, 22);
    EXPECT_VAR(s.vars[1], 0, 109, 438);
    end();
}
END_TEST

START_TEST(only_few_numbers)
{
    for (int64_t n = BT_ROWS_FEW; n <= BT_ROWS_FEW + 1; n++) {
        begin(BT_F64, true);
        bt_tensor *x = scene_read(&s, "x", NULL, (const int64_t[]){n, BT_END});
        bt_graph_assign(s.graph, s.vars[0], bt_add(bt_mul(x, 3), bt_tanh(x)));
        ck_assert_int_eq(batches(scene_run_in(&s, phase)), n == BT_ROWS_FEW);
        end();
    }
}
END_TEST

/* ---- any program ---- */

enum { VARS = 9, NODES = 300, SIZES = 3, MOST = 600, MANY = 130 };

static uint32_t state;

static int any(int below)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)below);
}

static bt_tensor *random_node(bt_tensor *const *vectors, bt_tensor *const *scalars, int count, bool *scalar)
{
    bt_tensor *x = vectors[any(count)], *y = vectors[any(count)], *a = scalars[any(count)];
    *scalar = false;
    switch (any(8)) {
    case 0:
        return bt_tanh(bt_add(x, y));
    case 1:
        return bt_tanh(bt_sub(a, y));
    case 2:
        return bt_mul(x, bt_tanh(y));
    case 3:
        return bt_div(x, bt_add(1, bt_square(y)));
    case 4:
        return bt_concat(0, bt_slice(x, 0, 1, x->dims[0]), bt_slice(y, 0, 0, 1));
    case 5:
        *scalar = true;
        return bt_tanh(bt_sum(x));
    case 6:
        *scalar = true;
        return bt_mul(a, scalars[any(count)]);
    default:
        *scalar = true;
        return bt_sqrt(bt_square(bt_sub(bt_reshape(bt_slice(y, 0, 2, 3), BT_END), a)));
    }
}

/* A random program: vectors and scalars, some of them assigned to variables that other steps read. */
static void record(bt_dtype dtype, int64_t n)
{
    bt_trace_now()->tag.update = n >= MANY; /* like an optimiser: processed in strips */
    bt_tensor *vectors[VARS + NODES], *scalars[VARS + NODES];
    double values[MOST];
    int count = 0;
    for (int i = 0; i < VARS; i++) {
        for (int k = 0; k < MOST; k++)
            values[k] = (any(2001) - 1000) / 500.0;
        bool vector = i < VARS / 2;
        bt_var *var =
            scene_var(&s, "v", dtype, values, vector ? (const int64_t[]){n, BT_END} : (const int64_t[]){BT_END});
        (vector ? vectors : scalars)[vector ? i : i - VARS / 2] = bt_trace_read(var);
    }
    scalars[VARS / 2 - 1] = scalars[0];
    count = VARS / 2;
    for (int i = 0; i < NODES; i++) {
        bool scalar;
        bt_tensor *x = random_node(vectors, scalars, count, &scalar);
        vectors[count] = vectors[any(count)];
        scalars[count] = scalars[any(count)];
        (scalar ? scalars : vectors)[count++] = x;
    }
    for (int i = 0; i < VARS; i++)
        if (any(4))
            bt_graph_assign(s.graph, s.vars[i],
                            i < VARS / 2 ? vectors[count - 1 - any(40)] : scalars[count - 1 - any(40)]);
}

/* The variables after two runs; returns the number of steps. */
static int64_t run(uint32_t seed, bt_dtype dtype, int64_t n, bool rows, double *found)
{
    state = seed;
    begin(dtype, rows);
    record(dtype, n);
    int64_t steps = scene_run_in(&s, phase)->step_count;
    EXPECT_OK(bt_phase_run(phase, 0));
    for (int i = 0; i < VARS; i++)
        for (int64_t k = 0; k < (i < VARS / 2 ? n : 1); k++)
            *found++ = var_get(s.vars[i], k);
    end();
    return steps;
}

START_TEST(any_program_computes_the_same)
{
    static const int64_t sizes[SIZES] = {5, 128, 129};
    int64_t less = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        double one[VARS * MOST] = {0}, many[VARS * MOST] = {0};
        bt_dtype dtype = seed % 2 ? BT_F32 : BT_F64;
        int64_t n = sizes[seed % SIZES], few = run(seed, dtype, n, true, one), all = run(seed, dtype, n, false, many);
        less += all - few;
        ck_assert_msg(memcmp(one, many, sizeof one) == 0, "program %u: other bits", seed);
    }
    ck_assert_int_gt(less, 1000);
}
END_TEST

/* Long rows of an optimiser: strip by strip, on one thread or on three. */
START_TEST(any_long_program_computes_the_same)
{
    static const int64_t sizes[] = {MANY, 256, 257, MOST};
    int64_t less = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        static double one[VARS * MOST], many[VARS * MOST];
        memset(one, 0, sizeof one);
        memset(many, 0, sizeof many);
        bt_dtype dtype = seed % 2 ? BT_F32 : BT_F64;
        int64_t n = sizes[seed % 4], few = run(seed, dtype, n, true, one), all = run(seed, dtype, n, false, many);
        less += all - few;
        ck_assert_msg(memcmp(one, many, sizeof one) == 0, "program %u: other bits", seed);
    }
    ck_assert_int_gt(less, 500);
}
END_TEST

/* w := w - sqrt((g + m)^2), m := g + m, for a hundred thousand numbers: two calls become one, which writes in place. */
START_TEST(an_update_is_one_call)
{
    enum { N = 100003 };
    static double w[N], g[N], m[N];
    for (int strips = 0; strips < 2; strips++)
        for (int threads = 1; threads <= 3; threads += 2) {
            scene_begin(&s, BT_F64);
            instance = bt_instance_new(bt_backend_cpu(), threads);
            instance->options.strips = strips;
            instance->options.chain = false;
            phase = bt_phase_new(instance, "test", "strips");
            for (int i = 0; i < N; i++) {
                w[i] = i;
                g[i] = i % 7;
                m[i] = -(i % 5);
            }
            bt_trace_now()->tag.update = true;
            const int64_t size[] = {N, BT_END};
            bt_tensor *old = bt_trace_read(scene_var(&s, "w", BT_F64, w, size));
            bt_tensor *grad = bt_trace_read(scene_var(&s, "g", BT_F64, g, size));
            bt_tensor *moved = bt_add(grad, bt_trace_read(scene_var(&s, "m", BT_F64, m, size)));
            bt_graph_assign(s.graph, s.vars[0], bt_sub(old, bt_mul(0.5, bt_sqrt(bt_square(moved)))));
            bt_graph_assign(s.graph, s.vars[2], moved);
            const bt_program *program = scene_run_in(&s, phase);
            ck_assert_int_eq(program->step_count, strips ? 1 : 5);
            ck_assert_int_eq(phase->arena > 0, !strips);
            const double *sums = var_near(s.vars[2]), *left = var_near(s.vars[0]);
            for (int i = 0; i < N; i++) {
                double sum = i % 7 - i % 5;
                if (sums[i] != sum || left[i] != i - 0.5 * fabs(sum))
                    ck_abort_msg("element %d: %g and %g of %g", i, sums[i], left[i], sum);
            }
            end();
        }
}
END_TEST

/* Long rows: a step needs one number for all its elements, so that number must stay until the last strip, whether it is
 * computed in strips itself (0), or results could be stored over its row (1). */
START_TEST(one_number_of_many)
{
    enum { N = 1000 };
    static double w[2 * N], g[N], m[N];
    begin(BT_F64, true);
    for (int i = 0; i < N; i++) {
        w[2 * i] = w[2 * i + 1] = i + 3;
        g[i] = i + 2;
    }
    bt_trace_now()->tag.update = true;
    const int64_t size[] = {N, BT_END};
    bt_tensor *x = bt_trace_read(scene_var(&s, "w", BT_F64, w, (const int64_t[]){N, 2, BT_END}));
    bt_tensor *grad = bt_trace_read(scene_var(&s, "g", BT_F64, g, size));
    scene_var(&s, "m", BT_F64, m, size);
    bt_tensor *row = _i ? bt_sum(x, 1) : bt_mul(2, bt_reshape(bt_sum(bt_reshape(grad, N, 1), 1), N));
    bt_tensor *product = bt_sqrt(bt_mul(grad, bt_slice(row, 0, 0, 1)));
    bt_graph_assign(s.graph, s.vars[2], bt_cumsum(product, 0));
    scene_run_in(&s, phase);
    const double *found = var_near(s.vars[2]);
    double due = 0;
    for (int i = 0; i < N; i++) {
        due += sqrt((i + 2) * (_i ? 6 : 4));
        ck_assert_msg(found[i] == due, "element %d: %g, not %g", i, found[i], due);
    }
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows");
    TCase *tests = tcase_create("rows");
    tcase_add_test(tests, many_steps_are_one);
    tcase_add_test(tests, the_old_value_is_read_before_the_new_one);
    tcase_add_test(tests, only_few_numbers);
    tcase_add_test(tests, any_program_computes_the_same);
    tcase_add_test(tests, any_long_program_computes_the_same);
    tcase_add_test(tests, an_update_is_one_call);
    tcase_add_loop_test(tests, one_number_of_many, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

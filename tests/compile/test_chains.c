/* Consecutive elementwise steps become one call if the device has a kernel for that: the result equals that of the
 * single steps, bit for bit, and intermediate values need no memory. */
#include "support/scene.h"

#include "compile/chain.h"
#include "runtime/store.h"
#include "support/chains.h"
#include "support/on_device.h"
#include "support/random_graph.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, SEEDS = 80, NODES = 40, MOST = 1 << 12 };

static scene s;
static bt_instance *instance;
static bt_phase *phase;

static void prepare(bool chain)
{
    instance = bt_instance_new(device_backend() ? device_backend() : chains_backend(), 1);
    instance->options.chain = chain;
    instance->options.rows = instance->options.strips = false;
    phase = bt_phase_new(instance, "test", "chains");
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static const bt_joined *only(const bt_program *program)
{
    const bt_joined *found = NULL;
    for (int64_t i = 0; i < program->step_count; i++)
        if (program->steps[i].call.joined) {
            ck_assert_ptr_null(found);
            found = program->steps[i].call.joined;
        }
    ck_assert_ptr_nonnull(found);
    return found;
}

static bt_tensor *row(const char *name, double first)
{
    static double values[N];
    for (int i = 0; i < N; i++)
        values[i] = first + i;
    return bt_trace_read(scene_var(&s, name, BT_F32, values, (const int64_t[]){N, BT_END}));
}

/* m := (w g + 1)^2, in which only the values of the last step are needed: no other memory, and one call. */
START_TEST(inner_values_need_no_memory)
{
    scene_begin(&s, BT_F32);
    bt_tensor *w = row("w", 0), *g = row("g", 1);
    row("m", 0);
    bt_graph_assign(s.graph, s.vars[2], bt_square(bt_add(bt_mul(w, g), 1)));
    prepare(true);
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(program->step_count, 1);
    ck_assert_int_eq(only(program)->count, 3);
    ck_assert_uint_eq(phase->arena, 0);
    for (int i = 0; i < N; i++) {
        const float inner = (float)i * (float)(i + 1) + 1;
        ck_assert_float_eq((float)var_get(s.vars[2], i), inner * inner);
    }
    end();
}
END_TEST

/* w := w + g, and m := tanh(w) of the old w, which is read after the new one is known. */
START_TEST(the_old_value_is_read)
{
    scene_begin(&s, BT_F32);
    bt_tensor *w = row("w", -3), *g = row("g", 1), *next = bt_add(w, g);
    row("m", 0);
    bt_graph_assign(s.graph, s.vars[0], next);
    bt_graph_assign(s.graph, s.vars[2], bt_add(bt_square(w), bt_mul(next, 2)));
    prepare(true);
    scene_run_in(&s, phase);
    for (int i = 0; i < N; i++) {
        const double old = i - 3, new = 2 * i - 2;
        ck_assert_double_eq(var_get(s.vars[0], i), new);
        ck_assert_double_eq(var_get(s.vars[2], i), old * old + 2 * new);
    }
    end();
}
END_TEST

/* All elements need one number of a row: of a row that the chain would compute (0), so the chain ends before it; or of
 * a row that the chain would overwrite (1). */
START_TEST(one_number_of_many)
{
    scene_begin(&s, BT_F32);
    bt_tensor *w = row("w", 3), *g = row("g", 1), *first;
    row("m", 0);
    if (_i) {
        bt_tensor *sum = bt_cumsum(w, 0);
        first = bt_sqrt(bt_mul(g, bt_slice(sum, 0, 0, 1)));
    } else {
        bt_tensor *product = bt_mul(bt_add(w, g), bt_add(g, 2));
        first = bt_sqrt(bt_mul(bt_slice(bt_mul(product, product), 0, 0, 1), g));
    }
    bt_graph_assign(s.graph, s.vars[2], bt_cumsum(first, 0));
    prepare(true);
    scene_run_in(&s, phase);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        sum += sqrt((_i ? 3.0 : 144.0) * (i + 1));
        ck_assert_double_eq_tol(var_get(s.vars[2], i), sum, 1e-4 * sum);
    }
    end();
}
END_TEST

/* More links than one call may have. */
START_TEST(many_links)
{
    scene_begin(&s, BT_F32);
    bt_tensor *x = row("w", 1);
    for (int i = 0; i < 3 * BT_CHAIN_LINKS; i++)
        x = i % 2 ? bt_tanh(x) : bt_add(x, bt_sigmoid(x));
    bt_graph_assign(s.graph, s.vars[0], x);
    prepare(true);
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_gt(program->step_count, 3);
    ck_assert_int_lt(program->step_count, 8);
    for (int64_t i = 0; i < program->step_count; i++)
        ck_assert_int_le(program->steps[i].call.joined->count, BT_CHAIN_LINKS);
    end();
}
END_TEST

/* ---- any program ---- */

/* The variables after two runs; returns the number of steps. */
static int64_t run(bool chain, size_t *bytes, char *found)
{
    prepare(chain);
    const int64_t steps = scene_run_in(&s, phase)->step_count;
    EXPECT_OK(bt_phase_run(phase, 0));
    *bytes = 0;
    for (int i = 0; i < s.count; i++) {
        ck_assert_uint_le(*bytes + s.vars[i]->bytes, MOST);
        EXPECT_OK(bt_store_read(instance, s.vars[i], 0, found + *bytes, s.vars[i]->bytes));
        *bytes += s.vars[i]->bytes;
    }
    end();
    return steps;
}

START_TEST(any_program_computes_the_same)
{
    int64_t less = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        static char one[MOST], many[MOST];
        size_t bytes, again;
        const bt_dtype dtype = seed % 4 == 3 ? BT_F64 : BT_F32;
        const unsigned what = RANDOM_ASSIGNS | (seed % 2 ? RANDOM_GRADIENTS : 0);
        random_graph(&s, seed, dtype, NODES, what);
        const int64_t few = run(true, &bytes, one);
        random_graph(&s, seed, dtype, NODES, what);
        less += run(false, &again, many) - few;
        ck_assert_uint_eq(bytes, again);
        ck_assert_msg(memcmp(one, many, bytes) == 0, "program %d: other bits", (int)seed);
    }
    ck_assert_int_gt(less, 100);
}
END_TEST

/* Numbers stored in 16 bits, comparisons, choices: the result of a link is rounded as if it had been stored. */
static bt_tensor *stored(bt_tensor *x, bt_tensor *y, uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    switch (*state >> 60) {
    case 0:
    case 1:
        return bt_cast(bt_cast(x, BT_BF16), BT_F32);
    case 2:
    case 3:
        return bt_cast(bt_cast(bt_tanh(x), BT_F16), BT_F32);
    case 4:
    case 5:
        return bt_where(bt_greater(x, y), x, bt_mul(y, 0.7));
    case 6:
        return bt_relu(bt_sub(x, y));
    case 7:
        return bt_cast(bt_less(x, y), BT_F32);
    case 8:
        return bt_where(bt_isfinite(bt_div(x, y)), y, x);
    case 9:
        return bt_softplus(bt_minimum(x, y));
    case 10:
        return bt_gelu(bt_maximum(x, 0.1));
    default:
        return bt_add(bt_mul(x, 0.3), y);
    }
}

START_TEST(stored_numbers)
{
    static char one[3 * N * 4], many[3 * N * 4];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t steps[2];
        for (int chain = 0; chain < 2; chain++) {
            uint64_t state = seed * 77;
            scene_begin(&s, BT_F32);
            bt_tensor *x[24] = {bt_mul(row("w", -400), 0.013), row("g", -900)};
            row("m", 0);
            x[1] = bt_mul(x[1], 0.0021);
            for (int i = 2; i < 24; i++)
                x[i] = stored(x[i - 1], x[i - 2 - (i > 4 ? (int)(state >> 33) % 3 : 0)], &state);
            for (int v = 0; v < 3; v++)
                bt_graph_assign(s.graph, s.vars[v], x[23 - 4 * v]);
            prepare(chain);
            steps[chain] = scene_run_in(&s, phase)->step_count;
            for (int v = 0; v < 3; v++)
                EXPECT_OK(bt_store_read(instance, s.vars[v], 0, (chain ? many : one) + v * N * 4, N * 4));
            end();
        }
        ck_assert_int_lt(steps[1], steps[0] / (device_backend() ? 3 : 1)); /* the CPU's 16-bit kernels need scratch */
        ck_assert_msg(memcmp(one, many, sizeof one) == 0, "program %d: other bits", (int)seed);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chains");
    TCase *tests = tcase_create("chains");
    tcase_add_test(tests, inner_values_need_no_memory);
    tcase_add_test(tests, the_old_value_is_read);
    tcase_add_loop_test(tests, one_number_of_many, 0, 2);
    tcase_add_test(tests, many_links);
    tcase_add_test(tests, any_program_computes_the_same);
    tcase_add_test(tests, stored_numbers);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/runtime/test_fit.c: phases of several programs under budgets: a larger budget never takes more work, the
 * reported minimum fits, and what already fits is left unchanged. */
#include "support/scene.h"

#include "runtime/fit.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>

enum { PROGRAMS = 3, BUDGETS = 24, CASES = 6 };

static scene scenes[PROGRAMS];
static bt_instance *instance;
static bt_phase *phase;
static bt_known *known; /* shared by all budgets of a test */

/* The gradient of layers of different widths; the loss reads some of their values directly. */
static void record(scene *s, int seed)
{
    const int64_t rows = 8 + 8 * (seed % 3), wide = 16 + 16 * (seed % 2);
    double x[24 * 32], w[32 * 32];
    for (int i = 0; i < BT_COUNT_OF(x); i++)
        x[i] = sin(i);
    for (int i = 0; i < BT_COUNT_OF(w); i++)
        w[i] = cos(i) / (double)wide;
    scene_begin(s, BT_F64);
    bt_tensor *in = scene_read(s, "x", x, (const int64_t[]){rows, wide, BT_END}), *y = in,
              *weights = scene_read(s, "w", w, (const int64_t[]){wide, wide, BT_END}), *loss = bt_number(0, BT_F64);
    scene_var(s, "slope", BT_F64, NULL, (const int64_t[]){wide, wide, BT_END});
    for (int i = 0; i < 7 + seed; i++) {
        y = bt_sin(bt_softplus(bt_matmul(y, weights)));
        if (i % 3 == seed % 3)
            loss = bt_add(loss, bt_sum(bt_square(y)));
    }
    bt_graph_assign(s->graph, s->vars[2], bt_grad(bt_add(loss, bt_sum(y)), weights));
    scene_end(s);
}

static void begin(int seed)
{
    instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->dry = true;
    instance->known = known = known ? known : bt_known_new();
    phase = bt_phase_new(instance, "test", "fit");
    for (int p = 0; p < PROGRAMS; p++) {
        record(&scenes[p], seed + p);
        ck_assert_int_ge(bt_phase_add(phase, scenes[p].graph, p > 0, "part"), 0);
    }
    EXPECT_OK(bt_phase_plan(phase));
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    for (int p = 0; p < PROGRAMS; p++)
        scene_free(&scenes[p]);
    bt_error_clear();
}

/* Plans again within the budget; returns the bytes, and in *work the repeated work of the programs, as a fraction of
 * each. */
static size_t fit(int seed, size_t budget, double *work)
{
    begin(seed);
    const double once = bt_phase_count(phase).all;
    EXPECT_OK(bt_phase_fit(phase, budget, true));
    const size_t arena = phase->arena;
    *work = 0;
    double repeated = 0;
    for (int p = 0; p < PROGRAMS; p++) {
        *work += phase->entries[p].program->extra;
        repeated += phase->entries[p].runs * phase->entries[p].program->repeated;
    }
    const bt_phase_work counted = bt_phase_count(phase);
    ck_assert_double_eq(counted.again, repeated);
    ck_assert_double_eq_tol(counted.all, once + repeated, 1e-9 * once);
    ck_assert(*work > 0 ? repeated > 0 : repeated == 0);
    end();
    return arena;
}

static void forget(void)
{
    bt_known_free(known);
    known = NULL;
}

START_TEST(more_bytes_never_take_more_work)
{
    double work, before;
    const size_t whole = fit(_i, SIZE_MAX, &before), least = fit(_i, 1, &work);
    ck_assert_uint_lt(least, whole);
    int refused = 0;
    for (int i = BUDGETS; i >= 1; i--) {
        const size_t budget = whole * (size_t)i / BUDGETS, arena = fit(_i, budget, &work);
        ck_assert_msg(arena <= budget || budget < least, "%zu bytes are more than the least, %zu", budget, least);
        ck_assert_double_ge(work, before);
        if (arena > budget)
            ck_assert_uint_eq(arena, least);
        refused += arena > budget;
        before = work;
    }
    ck_assert_int_gt(refused, 0);
    ck_assert_uint_eq(fit(_i, least, &work), least);
    ck_assert_uint_gt(fit(_i, least - 1, &work), least - 1);
}
END_TEST

/* The programs themselves are kept. */
START_TEST(what_fits_stays)
{
    begin(0);
    const bt_program *programs[PROGRAMS];
    for (int p = 0; p < PROGRAMS; p++)
        programs[p] = phase->entries[p].program;
    const size_t arena = phase->arena;
    EXPECT_OK(bt_phase_fit(phase, arena, true));
    for (int p = 0; p < PROGRAMS; p++)
        ck_assert_ptr_eq(programs[p], phase->entries[p].program);
    EXPECT_OK(bt_phase_fit(phase, arena - 1, true));
    ck_assert_uint_lt(phase->arena, arena);
    int same = 0;
    for (int p = 0; p < PROGRAMS; p++)
        same += programs[p] == phase->entries[p].program;
    ck_assert_int_eq(same, PROGRAMS - 1); /* all but the largest one */
    end();
}
END_TEST

/* `anything` false: only levels with checkpointing = budget count, and there are none. */
START_TEST(nothing_may_run_again)
{
    begin(0);
    const size_t arena = phase->arena;
    EXPECT_OK(bt_phase_fit(phase, 1, false));
    ck_assert_uint_eq(phase->arena, arena);
    ck_assert_double_eq(bt_phase_extra(phase), 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime.fit");
    TCase *tests = tcase_create("fit");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, forget);
    tcase_add_loop_test(tests, more_bytes_never_take_more_work, 0, CASES);
    tcase_add_test(tests, what_fits_stays);
    tcase_add_test(tests, nothing_may_run_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

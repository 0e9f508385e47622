/* The two parts of a linearised graph give the same bits when less is held between them: every holding, on random
 * graphs; a variable that changes in between is read with its old value. */
#include "support/random_graph.h"

#include "compile/hold.h"
#include "runtime/phase.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>

enum { VALUES = 200 };

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static bt_graph *lowered, *once, *each;
static bt_parts parts;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    phase = bt_phase_new(instance, "test", "hold");
    ck_assert_ptr_nonnull(phase);
    lowered = once = each = NULL;
    parts = (bt_parts){0};
}

static void free_graphs(void)
{
    bt_graph_free(lowered);
    bt_graph_free(parts.once);
    bt_graph_free(parts.each);
    bt_graph_free(once);
    bt_graph_free(each);
    lowered = once = each = NULL;
    parts = (bt_parts){0};
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    free_graphs();
    scene_free(&s);
    bt_error_clear();
}

static bt_var *keep(void *user, const bt_tensor *value)
{
    (void)user;
    return bt_phase_own(phase, bt_var_new(BT_PHASE, BT_ACTIVATIONS, "", "kept", bt_tensor_array(value)));
}

static void split(bt_var *const *moving, int count, bt_holding holding)
{
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    bt_graph *first, *second;
    lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_msg(lowered != NULL, "%s", bt_error());
    EXPECT_OK(bt_linearize(lowered, moving, count, keep, NULL, &first, &second));
    parts = (bt_parts){bt_compile_settled(first, &options), bt_compile_settled(second, &options), phase->vars,
                       phase->var_count};
    bt_graph_free(first);
    bt_graph_free(second);
    ck_assert(parts.once && parts.each);
    EXPECT_OK(bt_hold(&parts, holding, keep, NULL, &once, &each));
    EXPECT_OK(bt_graph_verify(once, "hold"));
    EXPECT_OK(bt_graph_verify(each, "hold"));
}

static void run_parts(int times)
{
    phase->options = bt_compile_settle(&phase->options);
    int first = bt_phase_add(phase, once, 0, "once"), second = bt_phase_add(phase, each, 1, "each");
    ck_assert_msg(first >= 0 && second >= 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    bt_instance_fill(instance);
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, first));
    for (int i = 0; i < times; i++)
        EXPECT_OK(bt_phase_run(phase, second));
    bt_phase_end(phase);
}

static size_t held(void)
{
    size_t sum = 0;
    for (int64_t a = 0; a < once->assign_count; a++)
        if (once->assigns[a].var->category == BT_ACTIVATIONS)
            sum += once->assigns[a].var->bytes;
    return sum;
}

/* If an intermediate value has fewer bytes, that one is held, and only the steps after it are recomputed. */
START_TEST(the_fewest_bytes)
{
    enum { WIDE = 2000, NARROW = 1000 };
    static double x[WIDE * 2];
    bt_tensor *w = scene_read(&s, "w", x, (const int64_t[]){WIDE, 2, BT_END});
    bt_tensor *y = scene_read(&s, "y", x, (const int64_t[]){2, NARROW, BT_END});
    bt_tensor *p = scene_read(&s, "p", x, (const int64_t[]){NARROW, BT_END});
    bt_var *moving = s.vars[2];
    bt_tensor *product = bt_sum(bt_matmul(w, y), 0); /* [NARROW] */
    bt_tensor *wide = bt_exp(bt_add(bt_reshape(product, 1, NARROW), bt_reshape(bt_slice(w, 1, 0, 1), WIDE, 1)));
    bt_graph_assign(s.graph, moving, bt_add(p, bt_sum(bt_mul(wide, p), 0)));
    scene_end(&s);
    for (bt_holding h = BT_HOLD_ALL; h < BT_HOLDINGS; h++) {
        split(&moving, 1, h);
        ck_assert_uint_eq(held(), h == BT_HOLD_ALL       ? WIDE * NARROW * sizeof(double)
                                  : h == BT_HOLD_NOTHING ? 0
                                                         : NARROW * sizeof(double));
        ck_assert_int_eq(count_op(each, &bt_op_dot), h >= BT_HOLD_CUTS && !held());
        free_graphs();
    }
}
END_TEST

/* A variable that the first part changes is read by the second with its old value. */
START_TEST(what_the_first_part_overwrites)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *x = VECTOR(&s, "x", 3, 4);
    bt_var *weight = s.vars[0], *moving = s.vars[1];
    bt_graph_assign(s.graph, weight, bt_mul(w, 10));
    bt_graph_assign(s.graph, moving, bt_add(x, bt_exp(bt_reshape(bt_reshape(w, 2, 1), 2))));
    scene_end(&s);
    split(&moving, 1, BT_HOLD_NOTHING);
    run_parts(1);
    EXPECT_VAR(weight, 0, 10, 20);
    EXPECT_VAR(moving, 1e-15, 3 + 2.718281828459045, 4 + 7.38905609893065);
}
END_TEST

/* ---- random graphs ---- */

static void get(double values[7][VALUES])
{
    for (int v = 0; v < 7; v++)
        for (int i = 0; i < (int)bt_array_count(bt_var_array(s.vars[v])); i++)
            values[v][i] = var_get(s.vars[v], i);
}

/* Two runs of the second part with everything held, against two with less. Only moving variables are assigned. */
START_TEST(random_graphs)
{
    bt_var *moving[7];
    int count = 0;
    scene_free(&s);
    random_graph(&s, (uint64_t)_i + 900, BT_F64, 50, RANDOM_ASSIGNS | (_i % 2 ? RANDOM_COMPOSITES : 0));
    for (int64_t a = 0; a < s.graph->assign_count; a += 2) /* some that do not move are assigned, too */
        moving[count++] = s.graph->assigns[a].var;
    if (!count)
        return;
    static double before[7][VALUES], expected[7][VALUES];
    get(before);
    for (bt_holding h = BT_HOLD_ALL; h < BT_HOLDINGS; h++) {
        split(moving, count, h);
        run_parts(2);
        if (h == BT_HOLD_ALL)
            get(expected);
        for (int v = 0; v < 7; v++)
            expect_var(__FILE__, __LINE__, s.vars[v], expected[v], bt_array_count(bt_var_array(s.vars[v])), 0);
        for (int v = 0; v < 7; v++)
            var_set(s.vars[v], before[v]);
        free_graphs();
        bt_phase_free(phase);
        phase = bt_phase_new(instance, "test", "hold");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile.hold");
    TCase *tests = tcase_create("hold");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_fewest_bytes);
    tcase_add_test(tests, what_the_first_part_overwrites);
    tcase_add_loop_test(tests, random_graphs, 0, 100);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

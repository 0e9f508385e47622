/* The list of passes: with any one switched off, a graph computes the same; each pass that ran has a time; and a
 * program contains no addresses, so it can run in two places at once. */
#include "support/scene.h"

#include "runtime/phase.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_compile_options options;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    options.overlap = options.spaces = true;
}

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

/* w := w - (A B x + 1) / 2, also read as a result. A B x = A (1, 1) = (3, 7). */
static void record(void)
{
    bt_tensor *w = VECTOR(&s, "w", 10, 20), *a = MATRIX(&s, "a", 2, 2, 1, 2, 3, 4),
              *b = MATRIX(&s, "b", 2, 2, 0, 1, 1, 0), *x = MATRIX(&s, "x", 2, 1, 1, 1);
    bt_tensor *product = bt_reshape(bt_dot(bt_dot(a, b), x), 2);
    bt_tensor *next = bt_sub(w, bt_mul(0.5, bt_add(product, 1)));
    bt_graph_output(s.graph, bt_mul(next, 1));
    bt_graph_assign(s.graph, s.vars[0], next);
    scene_end(&s);
}

static bool *const switches[] = {
    NULL,          &options.simplify, &options.reassociate, &options.fuse,    &options.absorb, &options.order,
    &options.rows, &options.chain,    &options.merge,       &options.overlap, &options.spaces};
static const bt_pass passes[] = {BT_PASSES,      BT_PASS_SIMPLIFY, BT_PASS_REASSOCIATE, BT_PASS_FUSE,
                                 BT_PASS_ABSORB, BT_PASS_ORDER,    BT_PASS_ROWS,        BT_PASS_CHAIN,
                                 BT_PASS_MERGE,  BT_PASS_FLIGHT,   BT_PASS_SPACES};

START_TEST(each_can_be_switched_off)
{
    record();
    if (switches[_i])
        *switches[_i] = false;
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = bt_phase_new(instance, "test", "passes");
    phase->options = options;
    ck_assert_msg(bt_phase_add(phase, s.graph, 0, "whole") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, 0));
    EXPECT_VAR(s.vars[0], 0, 8, 16);
    for (int p = 0; p < BT_PASSES; p++) {
        ck_assert_uint_gt(strlen(bt_pass_name((bt_pass)p)), 0);
        /* There is one rank, and one memory. */
        if (p != BT_PASS_SHARD && p != BT_PASS_BUCKET && p != BT_PASS_SPACES)
            ck_assert((phase->entries[0].program->seconds[p] > 0) == (p != (int)passes[_i]));
    }
    bt_phase_free(phase);
    bt_instance_free(instance);
}
END_TEST

typedef struct places { /* where a bound program has its values, in sequence */
    char memory[4096];
} places;

static char *place(void *user, int64_t value, size_t start) { return ((places *)user)->memory + 256 * value + start; }

/* A counter in the arena: each place has its own. */
START_TEST(in_two_places)
{
    bt_var *count = bt_var_new(BT_PHASE, BT_BUFFERS, "", "count", (bt_array){.dtype = BT_F64});
    bt_graph_assign(s.graph, count, bt_add(bt_trace_read(count), 1));
    scene_end(&s);
    static places at[2];
    bt_program *program = bt_compile_graph(s.graph, &options);
    ck_assert_msg(program != NULL, "%s", bt_error());
    bt_bound *bound[2];
    int64_t counted = -1;
    for (int i = 0; i < 2; i++) {
        bound[i] = bt_bound_new(program);
        for (int64_t b = 0; b < program->buffer_count; b++) {
            bool var = program->buffers[b].home == BT_HOME_VAR;
            bound[i]->values[b] = var ? 0 : b + 1;
            counted = var ? 0 : counted;
        }
        bt_bound_set(bound[i], place, &at[i]);
    }
    ck_assert_int_eq(counted, 0);
    for (int run = 0; run < 5; run++)
        EXPECT_OK(bt_bound_run(bound[run > 1]));
    for (int i = 0; i < 2; i++) {
        double found;
        memcpy(&found, at[i].memory, sizeof found);
        ck_assert_double_eq(found, i ? 3 : 2);
        bt_bound_free(bound[i]);
    }
    bt_program_free(program);
    bt_var_free(count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipeline");
    TCase *tests = tcase_create("pipeline");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, each_can_be_switched_off, 0, BT_COUNT_OF(switches));
    tcase_add_test(tests, in_two_places);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* Profiles: which calls are counted, and their work; profiling does not change any result. */
#include "runtime/profile.h"

#include "ops/ops.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { M = 3, K = 4, N = 5 };

static bt_instance *instance;
static bt_phase *phase;
static bt_var *a, *b, *c;

static bt_var *matrix(const char *name, int64_t rows, int64_t columns)
{
    bt_array shape = {.dtype = BT_F64, .rank = 2, .dims = {rows, columns}};
    bt_var *var = bt_var_new(BT_RUN, BT_PARAMETERS, "lower", name, shape);
    ck_assert_ptr_nonnull(var);
    for (int64_t i = 0; i < rows * columns; i++)
        var_put(var, i, (double)(i * 7 % 5) - 1);
    return var;
}

/* c = a b - c */
static void begin(void)
{
    bt_trace trace;
    instance = bt_instance_new(bt_backend_cpu(), 1);
    phase = bt_phase_new(instance, "lower", "step");
    a = matrix("a", M, K), b = matrix("b", K, N), c = matrix("c", M, N);
    bt_graph *graph = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    bt_tensor *product = bt_dot(bt_graph_read(graph, a), bt_graph_read(graph, b));
    bt_graph_assign(graph, c, bt_sub(product, bt_graph_read(graph, c)));
    bt_trace_end(&trace);
    ck_assert_int_eq(bt_phase_add(phase, graph, 0, "product"), 0);
    ck_assert_int_eq(bt_phase_plan(phase), BT_OK);
    bt_graph_free(graph);
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    bt_var_free(a);
    bt_var_free(b);
    bt_var_free(c);
}

static void run(void)
{
    bt_phase_begin(phase);
    ck_assert_int_eq(bt_phase_run(phase, 0), BT_OK);
    bt_phase_end(phase);
}

static const bt_profile_row *row(const bt_profile *profile, const char *name)
{
    int64_t count;
    const bt_profile_row *rows = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++)
        if (strncmp(rows[i].name, name, strlen(name)) == 0)
            return &rows[i];
    ck_abort_msg("no row %s", name);
}

START_TEST(calls_and_their_work)
{
    double expected[M * N];
    begin();
    run();
    run();
    run();
    memcpy(expected, var_near(c), sizeof expected);
    end();

    begin();
    bt_profile *profile = instance->profile = bt_profile_new();
    ck_assert_ptr_nonnull(profile);
    for (int i = 0; i < 3; i++)
        run();
    ck_assert_mem_eq(var_near(c), expected, sizeof expected);
    int64_t rows, events, steps = phase->entries[0].program->step_count;
    bt_profile_rows(profile, &rows);
    const bt_profile_event *event = bt_profile_events(profile, &events);
    ck_assert_int_eq(rows, steps);
    ck_assert_int_eq(events, 3 * steps);
    for (int64_t i = 0; i < events; i++) {
        ck_assert_int_eq(event[i].row, i % steps);
        ck_assert(event[i].seconds >= 0 && event[i].begin >= (i ? event[i - 1].begin + event[i - 1].seconds : 0));
    }
    end(); /* counts outlive the programs */
    const bt_profile_row *dot = row(profile, "dot"), *sub = row(profile, "sub");
    ck_assert_int_eq(dot->calls, 3);
    ck_assert_double_eq(dot->flops, 2.0 * M * K * N);
    ck_assert_double_eq(dot->bytes, 8.0 * (M * K + K * N + M * N));
    ck_assert_double_eq(sub->flops, M * N);
    ck_assert_double_eq(sub->bytes, 8.0 * 3 * M * N);
    ck_assert_str_eq(dot->owner, "lower");
    ck_assert_str_eq(dot->phase, "step");
    ck_assert_str_eq(dot->part, "product");
    ck_assert(dot->seconds > 0);
    bt_profile_free(profile);
}
END_TEST

/* A new program at the address of a freed one gets its own rows. */
START_TEST(programs_are_told_apart)
{
    bt_profile *profile = bt_profile_new();
    for (int i = 0; i < 4; i++) {
        begin();
        instance->profile = profile;
        run();
        int64_t rows, steps = phase->entries[0].program->step_count;
        bt_profile_rows(profile, &rows);
        ck_assert_int_eq(rows, (i + 1) * steps);
        end();
    }
    bt_profile_free(profile);
}
END_TEST

START_TEST(other_work)
{
    bt_profile *profile = bt_profile_new();
    double start = bt_seconds();
    ck_assert_int_eq(bt_profile_add(NULL, "lower", "batches", start), BT_OK);
    ck_assert_int_eq(bt_profile_add(profile, "lower", "batches", start), BT_OK);
    ck_assert_int_eq(bt_profile_add(profile, "upper", "batches", start), BT_OK);
    ck_assert_int_eq(bt_profile_add(profile, "lower", "batches", start), BT_OK);
    int64_t rows, events;
    const bt_profile_row *first = bt_profile_rows(profile, &rows);
    bt_profile_events(profile, &events);
    ck_assert_int_eq(rows, 2);
    ck_assert_int_eq(events, 3);
    ck_assert_int_eq(first->calls, 2);
    ck_assert_str_eq(first->owner, "lower");
    ck_assert_str_eq(first->phase, "");
    ck_assert_double_eq(first->flops, 0);
    bt_profile_free(profile);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile");
    TCase *all = tcase_create("all");
    tcase_add_test(all, calls_and_their_work);
    tcase_add_test(all, programs_are_told_apart);
    tcase_add_test(all, other_work);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}

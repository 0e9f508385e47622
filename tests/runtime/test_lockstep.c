/* Ranks within one process: what each of them holds, the results of their collectives, and mismatched ranks. */
#include "support/scene.h"

#include "runtime/copies.h"
#include "runtime/fit.h"
#include "runtime/profile.h"
#include "support/far.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, RANKS = 3 };

typedef struct world {
    scene scene;
    bt_instance *instance;
    bt_phase *phase;
    bt_var *x, *sum, *w;
    double rows[2 * ROWS];
    int add, use;
} world;

/* The first program adds the sum over the rows of x to a variable of the phase, the second subtracts it from w. */
static void begin(world *u, int ranks)
{
    *u = (world){.rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    scene_begin(&u->scene, BT_F64);
    scene_end(&u->scene);
    u->instance = bt_instance_new(bt_backend_cpu(), 1);
    EXPECT_OK(bt_instance_spread(u->instance, ranks));
    u->phase = bt_phase_new(u->instance, "lower", "step");
    u->w = scene_var(&u->scene, "w", BT_F64, NUMBERS(100, 200), (const int64_t[]){2, BT_END});
    u->x = bt_var_new(BT_EXTERNAL, BT_BATCH, "", "x", (bt_array){.dtype = BT_F64, .rank = 2, .dims = {ROWS, 2}});
    u->sum = bt_phase_own(u->phase, bt_var_new(BT_PHASE, BT_VECTORS, "lower", "sum",
                                               (bt_array){.dtype = BT_F64, .rank = 1, .dims = {2}}));
    u->sum->clear = true;
}

static int add_program(world *u, bool uses, bool largest)
{
    bt_graph *graph = bt_graph_new();
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    if (uses) {
        bt_graph_assign(graph, u->w, bt_sub(bt_trace_read(u->w), bt_trace_read(u->sum)));
    } else {
        bt_tensor *x = bt_trace_read(u->x);
        x->batch_axis = 0;
        bt_tensor *each = largest ? bt_max(x, 0) : bt_sum(bt_mul(x, 1), 0);
        bt_graph_assign(graph, u->sum, bt_add(bt_trace_read(u->sum), each));
    }
    bt_trace_end(&trace);
    ck_assert_msg(graph->status == BT_OK, "%s", graph->message);
    const int entry = bt_phase_add(u->phase, graph, !uses, uses ? "use" : "add");
    ck_assert_msg(entry >= 0, "%s", bt_error());
    bt_graph_free(graph);
    return entry;
}

/* Both programs, planned, on the rows. */
static void begin_both(world *u, int ranks)
{
    begin(u, ranks);
    u->add = add_program(u, false, false);
    u->use = add_program(u, true, false);
    EXPECT_OK(bt_phase_plan(u->phase));
    bt_store_point(u->x, u->rows);
}

static void end(world *u)
{
    bt_phase_free(u->phase);
    bt_instance_free(u->instance);
    bt_var_free(u->x);
    scene_free(&u->scene);
    bt_error_clear();
}

static void expect_sums(world *u)
{
    double between[2];
    for (int round = 0; round < 2; round++) {
        bt_phase_begin(u->phase);
        EXPECT_OK(bt_phase_run(u->phase, u->add));
        EXPECT_OK(bt_phase_run(u->phase, u->add));
        EXPECT_OK(bt_store_read(u->instance, u->sum, 0, between, sizeof between));
        ck_assert(between[0] == 50 && between[1] == 60); /* twice 25 and 30, however they are split */
        EXPECT_OK(bt_phase_run(u->phase, u->use));
        bt_phase_end(u->phase);
        EXPECT_VAR(u->w, 0, 50 - 50 * round, 140 - 60 * round);
        for (int r = 1; r < bt_var_ranks(u->w); r++)
            ck_assert_mem_eq(bt_var_data_of(u->w, r), var_near(u->w), u->w->bytes);
    }
}

static const char *const modes[] = {"on", "off", "guard"};

START_TEST(as_on_one)
{
    const int ranks[] = {1, 2, 3, 8};
    world u;
    setenv("BETTY_PLAN", modes[_i % 3], 1);
    begin_both(&u, ranks[_i / 3]);
    expect_sums(&u);
    end(&u);
    unsetenv("BETTY_PLAN");
}
END_TEST

/* Five rows, split 2, 2, 1: each rank has the sum of its own, and only the sum of these is complete. */
START_TEST(parts_of_a_sum)
{
    world u;
    bt_spread how;
    char copy[16];
    begin_both(&u, RANKS);
    bt_phase_begin(u.phase);
    EXPECT_OK(bt_phase_run(u.phase, u.add));
    ck_assert(bt_var_layout(u.sum, &how) && how.kind == BT_PARTIAL);
    const double due[RANKS][2] = {{4, 6}, {12, 14}, {9, 10}};
    for (int r = 0; r < RANKS; r++)
        ck_assert_mem_eq(bt_var_data_of(u.sum, r), due[r], sizeof due[r]);
    ck_assert_int_eq(bt_phase_read(u.phase, u.use, u.sum, copy), BT_ERROR_INTERNAL);
    ck_assert_msg(strstr(bt_error(), "sum is divided among 3 ranks"), "%s", bt_error());
    bt_error_clear();
    ck_assert_int_eq(bt_phase_keep(u.phase, u.use, u.sum, u.w, 0), BT_ERROR_INTERNAL);
    bt_error_clear();
    bt_phase_end(u.phase);
    end(&u);
}
END_TEST

/* Another phase runs in the middle of this one, in the same arenas. */
START_TEST(set_aside)
{
    world u;
    bt_aside aside;
    double between[2];
    begin_both(&u, RANKS);
    bt_phase_begin(u.phase);
    EXPECT_OK(bt_phase_run(u.phase, u.add));
    EXPECT_OK(bt_instance_set_aside(u.instance, &aside));
    bt_instance_fill(u.instance);
    for (int r = 1; r < RANKS; r++)
        bt_instance_fill(u.instance->others[r - 1]);
    EXPECT_OK(bt_instance_put_back(u.instance, &aside));
    EXPECT_OK(bt_store_read(u.instance, u.sum, 0, between, sizeof between));
    ck_assert(between[0] == 25 && between[1] == 30);
    EXPECT_OK(bt_phase_run(u.phase, u.use));
    EXPECT_VAR(u.w, 0, 75, 170);
    bt_phase_end(u.phase);
    end(&u);
}
END_TEST

/* Rank 1 gets a program with a different collective. */
START_TEST(all_must_meet)
{
    world u;
    begin(&u, RANKS);
    u.add = add_program(&u, false, true);
    EXPECT_OK(bt_phase_plan(u.phase));
    bt_store_point(u.x, u.rows);
    bt_phase_entry *entry = &u.phase->others[0]->entries[u.add];
    int found = -1;
    for (int64_t s = 0; s < entry->program->step_count; s++)
        if (bt_op_flags(entry->program->steps[s].call.op) & BT_OP_COLLECTIVE)
            found = (int)s;
    ck_assert_int_ge(found, 0);
    bt_collective_attr other;
    memcpy(&other, entry->bound->calls[found].attr, sizeof other);
    other.reduction = BT_REDUCE_MIN;
    entry->bound->calls[found].attr = &other;
    entry->program->steps[found].call.attr = &other;
    bt_phase_begin(u.phase);
    ck_assert_int_eq(bt_phase_run(u.phase, u.add), BT_ERROR_INTERNAL);
    ck_assert_msg(strstr(bt_error(), "the ranks do not meet: rank 0 is at all_reduce, rank 1 at all_reduce"), "%s",
                  bt_error());
    bt_phase_end(u.phase);
    end(&u);
}
END_TEST

/* Layers whose rows are divided, and the gradient of their weights. */
static void record_layers(world *u, bt_graph *graph)
{
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    trace.tag.level = "net";
    bt_tensor *y = bt_trace_read(u->x), *w = bt_trace_read(u->w);
    y->batch_axis = 0;
    for (int i = 0; i < 5; i++)
        y = bt_sin(bt_softplus(bt_mul(y, w)));
    bt_graph_assign(graph, u->w, bt_grad(bt_sum(bt_square(y)), w));
    bt_trace_end(&trace);
}

/* Each rank recompiles its own program to fit a budget; it sends the same data and gives the same results. */
START_TEST(within_a_budget)
{
    double found[2][2];
    for (int less = 0; less < 2; less++) {
        world u;
        begin(&u, RANKS);
        bt_known *known = u.instance->known = bt_known_new();
        bt_graph *graph = bt_graph_new();
        record_layers(&u, graph);
        ck_assert_int_eq(bt_phase_add(u.phase, graph, 0, "slope"), 0);
        EXPECT_OK(bt_phase_plan(u.phase));
        const size_t whole = u.phase->arena;
        if (less)
            EXPECT_OK(bt_phase_fit(u.phase, whole * 2 / 3, true));
        ck_assert(less ? u.phase->arena <= whole * 2 / 3 && u.phase->entries[0].program->again > 0 : whole > 0);
        for (int r = 0; r < RANKS; r++) {
            const bt_phase *own = r ? u.phase->others[r - 1] : u.phase;
            ck_assert_int_eq(own->entries[0].program->sharded.reduced, 2);
        }
        bt_store_point(u.x, u.rows);
        bt_phase_begin(u.phase);
        EXPECT_OK(bt_phase_run(u.phase, 0));
        bt_phase_end(u.phase);
        memcpy(found[less], var_near(u.w), sizeof found[less]);
        bt_graph_free(graph);
        end(&u);
        bt_known_free(known);
    }
    ck_assert_mem_eq(found[0], found[1], sizeof found[0]);
}
END_TEST

/* The times are those of rank 0, including collectives. */
START_TEST(profiled)
{
    world u;
    int64_t count, collectives = 0;
    bt_profile *profile = bt_profile_new();
    begin_both(&u, RANKS);
    u.instance->profile = profile;
    expect_sums(&u);
    const bt_profile_row *rows = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++)
        collectives += strncmp(rows[i].name, "all_reduce", 10) == 0 ? rows[i].calls : 0;
    ck_assert_int_eq(collectives, 2);
    end(&u);
    bt_profile_free(profile);
}
END_TEST

/* Two instances use the same variable on different numbers of ranks. */
START_TEST(as_many_for_all)
{
    world u;
    begin(&u, RANKS);
    u.use = add_program(&u, true, false);
    bt_spread split = {.kind = BT_SHARDED, .axis = 1, .rows = 2};
    ck_assert_ptr_null(bt_var_of_rank(u.w, 4, 0, 5));
    ck_assert_msg(strstr(bt_error(), "w has copies on 3 ranks, but is needed on 5"), "%s", bt_error());
    bt_error_clear();
    ck_assert_int_eq(bt_var_decide(u.x, 0, RANKS, &split), BT_ERROR_INTERNAL);
    ck_assert_msg(strstr(bt_error(), "x is split along axis 1"), "%s", bt_error());
    end(&u);
}
END_TEST

START_TEST(where_there_are_none)
{
    world u;
    begin(&u, 1);
    ck_assert_ptr_null(u.instance->others);
    ck_assert_int_eq(bt_instance_spread(u.instance, 2), BT_ERROR_INTERNAL); /* it has a phase */
    bt_error_clear();
    end(&u);
    bt_instance *planned = bt_instance_new(bt_backend_cpu(), 1);
    planned->dry = true;
    EXPECT_OK(bt_instance_spread(planned, 1024));
    ck_assert_ptr_null(planned->others);
    bt_instance_free(planned);
    bt_instance *far = bt_instance_new(far_backend(), 1);
    ck_assert_int_eq(bt_instance_spread(far, 2), BT_ERROR_UNSUPPORTED);
    bt_error_clear();
    bt_instance_free(far);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lockstep");
    TCase *tests = tcase_create("lockstep");
    tcase_add_loop_test(tests, as_on_one, 0, 12);
    tcase_add_test(tests, parts_of_a_sum);
    tcase_add_test(tests, set_aside);
    tcase_add_test(tests, all_must_meet);
    tcase_add_test(tests, within_a_budget);
    tcase_add_test(tests, profiled);
    tcase_add_test(tests, as_many_for_all);
    tcase_add_test(tests, where_there_are_none);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

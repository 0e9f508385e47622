/* Linearising: a graph is split in two, the first part for one run and the second for many. Together they compute what
 * the whole graph does; cheap values are not kept, and values that do not change are not recomputed. */
#include "support/random_graph.h"

#include "runtime/phase.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/grad.h"
#include "transform/linearize.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static bt_graph *lowered, *once, *each;
static bt_var *kept[64];
static int kept_count;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    phase = bt_phase_new(instance, "test", "linearize");
    ck_assert_ptr_nonnull(phase);
    lowered = once = each = NULL;
    kept_count = 0;
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    bt_graph_free(lowered);
    bt_graph_free(once);
    bt_graph_free(each);
    scene_free(&s);
    bt_error_clear();
}

static bt_var *keep(void *user, const bt_tensor *value)
{
    (void)user;
    ck_assert_int_lt(kept_count, BT_COUNT_OF(kept));
    bt_var *var = bt_phase_own(phase, bt_var_new(BT_PHASE, BT_ACTIVATIONS, "", "kept", bt_tensor_array(value)));
    kept[kept_count++] = var;
    return var;
}

static void split(bt_var *const *moving, int count)
{
    scene_end(&s);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_msg(lowered != NULL, "%s", bt_error());
    EXPECT_OK(bt_linearize(lowered, moving, count, keep, NULL, &once, &each));
    EXPECT_OK(bt_graph_verify(once, "linearize"));
    EXPECT_OK(bt_graph_verify(each, "linearize"));
}

static bool overlap(const bt_var *a, const bt_var *b)
{
    size_t start_a = bt_var_start(a), start_b = bt_var_start(b);
    return (a->base ? a->base : a) == (b->base ? b->base : b) && start_a < start_b + b->bytes &&
           start_b < start_a + a->bytes;
}

static bool reads_var(const bt_node *node, const bt_var *var)
{
    return node->op == &bt_op_read && overlap(((const bt_read_attr *)node->attr)->var, var);
}

static bool reads(const bt_graph *graph, const bt_var *var)
{
    for (int64_t n = 0; n < graph->node_count; n++)
        if (reads_var(graph->nodes[n], var))
            return true;
    return false;
}

/* Nothing in `once` depends on moving variables; in `each`, whatever does not is a leaf or cheap. */
static void check_split(bt_var *const *moving, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert(!reads(once, moving[i]));
    bool *moves = calloc((size_t)each->node_count + 1, sizeof *moves);
    for (int64_t n = 0; n < each->node_count; n++) {
        const bt_node *node = each->nodes[n];
        for (int i = 0; i < count; i++)
            moves[n] |= reads_var(node, moving[i]);
        for (int i = 0; i < node->inputs; i++)
            moves[n] |= moves[node->in[i]->node->index];
        ck_assert_msg(moves[n] || bt_op_flags(node->op) & (BT_OP_LEAF | BT_OP_CHEAP), "%s is computed again",
                      node->op->name);
    }
    free(moves);
    for (int64_t a = 0; a < once->assign_count; a++) /* no kept value would be free to compute */
        for (int k = 0; k < kept_count; k++)
            if (once->assigns[a].var == kept[k])
                ck_assert(!(bt_op_flags(once->assigns[a].value->node->op) & (BT_OP_LEAF | BT_OP_CHEAP)));
}

static void run_parts(int times)
{
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

static void run_whole(int times)
{
    for (int i = 0; i < times; i++)
        free(run_once(s.graph));
}

/* ---- conjugate gradients ---- */

enum { N = 4, ROWS = 6 };

/* C(w) = sum(tanh(M w)^2) + |w|^2; one step of CG on its Hessian: x, r, p move. */
static void cg_step(bt_var **x, bt_var **r, bt_var **p)
{
    double m[ROWS * N], w[N], b[N], zero[N] = {0};
    for (int i = 0; i < ROWS * N; i++)
        m[i] = 2 * bt_host_uniform(3, 0, (uint64_t)i) - 1;
    for (int i = 0; i < N; i++) {
        w[i] = bt_host_uniform(3, 1, (uint64_t)i);
        b[i] = bt_host_uniform(3, 2, (uint64_t)i);
    }
    bt_tensor *matrix = scene_read(&s, "M", m, (const int64_t[]){ROWS, N, BT_END});
    bt_tensor *weight = scene_read(&s, "w", w, (const int64_t[]){N, BT_END});
    *x = scene_var(&s, "x", BT_F64, zero, (const int64_t[]){N, BT_END});
    *r = scene_var(&s, "r", BT_F64, b, (const int64_t[]){N, BT_END});
    *p = scene_var(&s, "p", BT_F64, b, (const int64_t[]){N, BT_END});
    bt_tensor *loss = bt_add(bt_sum(bt_square(bt_tanh(bt_matmul(matrix, weight)))), bt_sum(bt_square(weight)));
    bt_tensor *g = bt_grad(loss, weight), *xs = bt_trace_read(*x), *rs = bt_trace_read(*r), *ps = bt_trace_read(*p),
              *hp;
    bt_jvp(s.graph, &weight, &ps, 1, &g, 1, &hp, false);
    bt_tensor *rr = bt_sum(bt_square(rs)), *alpha = bt_div(rr, bt_sum(bt_mul(ps, hp)));
    bt_tensor *next = bt_sub(rs, bt_mul(alpha, hp));
    bt_graph_assign(s.graph, *x, bt_add(xs, bt_mul(alpha, ps)));
    bt_graph_assign(s.graph, *r, next);
    bt_graph_assign(s.graph, *p, bt_add(next, bt_mul(bt_div(bt_sum(bt_square(next)), rr), ps)));
}

START_TEST(conjugate_gradients)
{
    bt_var *moving[3];
    cg_step(&moving[0], &moving[1], &moving[2]);
    split(moving, 3);
    check_split(moving, 3);
    ck_assert_int_gt(kept_count, 0);
    ck_assert(count_op(once, &bt_op_tanh) == 1 && count_op(each, &bt_op_tanh) == 0);
    double start[N], expected[3 * N];
    for (int i = 0; i < N; i++)
        start[i] = var_get(moving[1], i);
    run_whole(3);
    for (int v = 0; v < 3; v++)
        for (int i = 0; i < N; i++)
            expected[v * N + i] = var_get(moving[v], i);
    var_set(moving[0], NULL);
    var_set(moving[1], start);
    var_set(moving[2], start);
    run_parts(3);
    for (int v = 0; v < 3; v++)
        expect_var(__FILE__, __LINE__, moving[v], expected + v * N, N, 1e-13);
}
END_TEST

/* N steps solve: the residual is gone. */
START_TEST(conjugate_gradients_converge)
{
    bt_var *moving[3];
    cg_step(&moving[0], &moving[1], &moving[2]);
    split(moving, 3);
    run_parts(N);
    double square = 0;
    for (int i = 0; i < N; i++)
        square += var_get(moving[1], i) * var_get(moving[1], i);
    ck_assert_double_lt(square, 1e-20);
}
END_TEST

/* ---- kept values ---- */

START_TEST(cheap_values_are_computed_again)
{
    bt_tensor *w = MATRIX(&s, "w", 2, 3, 1, 2, 3, 4, 5, 6), *x = MATRIX(&s, "x", 3, 2, 1, 1, 1, 1, 1, 1);
    bt_var *moving = s.vars[1], *out = scene_var(&s, "out", BT_F64, NULL, (const int64_t[]){3, 2, BT_END});
    bt_tensor *e = bt_exp(w), *views = bt_permute(bt_broadcast_like(bt_slice(e, 0, 1, 2), w), 1, 0);
    bt_graph_assign(s.graph, out, bt_mul(bt_add(x, bt_permute(w, 1, 0)), bt_mul(views, 2)));
    split(&moving, 1);
    check_split(&moving, 1);
    ck_assert_int_eq(kept_count, 1); /* 2 exp(w)..., before or after it is transposed; not w, nor its views */
    run_parts(2);
    double expected[6];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            expected[i * 2 + j] = (1 + (1 + i + 3 * j)) * 2 * exp(4 + i);
    expect_var(__FILE__, __LINE__, out, expected, 6, 1e-15);
}
END_TEST

START_TEST(what_stands_is_assigned_once)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *x = VECTOR(&s, "x", 3, 4);
    bt_var *count = scene_var(&s, "count", BT_F64, NULL, (const int64_t[]){BT_END});
    bt_var *moving = s.vars[1], *a = scene_var(&s, "a", BT_F64, NULL, (const int64_t[]){2, BT_END});
    bt_graph_assign(s.graph, a, bt_exp(w));
    bt_graph_assign(s.graph, count, bt_add(bt_trace_read(count), 1)); /* reads no moving variable: in the first part */
    bt_graph_assign(s.graph, moving, bt_mul(x, bt_exp(w)));
    split(&moving, 1);
    ck_assert(once->assign_count == 3 && each->assign_count == 1 && each->assigns[0].var == moving);
    run_parts(3);
    EXPECT_VAR(a, 1e-15, exp(1), exp(2));
    EXPECT_VAR(count, 0, 1);
    EXPECT_VAR(moving, 1e-14, 3 * exp(3), 4 * exp(6));
}
END_TEST

/* A variable that the first part changes is read by the second with its old value. */
START_TEST(what_the_first_part_overwrites)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *x = VECTOR(&s, "x", 3, 4);
    bt_var *weight = s.vars[0], *moving = s.vars[1];
    bt_graph_assign(s.graph, weight, bt_mul(w, 10));
    bt_graph_assign(s.graph, moving, bt_add(x, bt_reshape(bt_reshape(w, 2, 1), 2)));
    split(&moving, 1);
    run_parts(1);
    EXPECT_VAR(weight, 0, 10, 20);
    EXPECT_VAR(moving, 0, 4, 6);
}
END_TEST

/* Moving variables are identified by their bytes: their windows move, too, and so does the block of a moving window. */
START_TEST(windows_of_what_moves)
{
    bt_var *block = scene_var(&s, "block", BT_F64, NUMBERS(1, 2, 3, 4), (const int64_t[]){4, BT_END});
    bt_array pair = {.dtype = BT_F64, .rank = 1, .dims = {2}};
    bt_var *low = scene_own(&s, bt_var_window(block, 0, "low", pair));
    bt_var *high = scene_own(&s, bt_var_window(block, 16, "high", pair));
    bt_var *out = scene_var(&s, "out", BT_F64, NULL, (const int64_t[]){2, BT_END});
    bt_var *sum = scene_var(&s, "sum", BT_F64, NULL, (const int64_t[]){BT_END});
    bt_graph_assign(s.graph, out, bt_exp(bt_trace_read(low)));
    bt_graph_assign(s.graph, sum, bt_sum(bt_exp(bt_trace_read(block))));
    bt_var *other = scene_var(&s, "other", BT_F64, NULL, (const int64_t[]){2, BT_END});
    bt_graph_assign(s.graph, other, bt_exp(bt_trace_read(high)));
    split(&low, 1);
    ck_assert(!reads(once, low) && reads(once, high) && count_op(once, &bt_op_read) == 1);
    ck_assert_int_eq(each->assign_count, 2);
    bt_graph_free(once);
    bt_graph_free(each);
    EXPECT_OK(bt_linearize(lowered, &block, 1, keep, NULL, &once, &each));
    ck_assert_int_eq(count_op(once, &bt_op_read), 0);
}
END_TEST

START_TEST(effects_are_of_the_second_part)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *x = VECTOR(&s, "x", 3, 4);
    bt_var *moving = s.vars[1];
    bt_check(bt_greater(bt_exp(w), 0), "positive");
    bt_graph_assign(s.graph, moving, bt_neg(x));
    split(&moving, 1);
    ck_assert(count_op(once, &bt_op_check) == 0 && count_op(each, &bt_op_check) == 1);
    ck_assert(count_op(once, &bt_op_exp) == 1 && count_op(each, &bt_op_exp) == 0);
    run_parts(2);
    EXPECT_VAR(moving, 0, 3, 4);
}
END_TEST

START_TEST(everything_moves_or_nothing)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2);
    bt_var *weight = s.vars[0], *unused = scene_var(&s, "unused", BT_F64, NULL, (const int64_t[]){BT_END});
    bt_graph_assign(s.graph, weight, bt_exp(w));
    split(&weight, 1);
    ck_assert(once->node_count == 0 && each->node_count == 2);
    bt_graph_free(once);
    bt_graph_free(each);
    EXPECT_OK(bt_linearize(lowered, &unused, 1, keep, NULL, &once, &each));
    ck_assert(once->node_count == 2 && each->node_count == 0 && kept_count == 0);
}
END_TEST

static bt_var *keep_nothing(void *user, const bt_tensor *value)
{
    (void)user, (void)value;
    bt_fail(BT_ERROR_MEMORY, "out of memory");
    return NULL;
}

START_TEST(no_variable_to_keep_a_value)
{
    bt_tensor *w = VECTOR(&s, "w", 1, 2), *x = VECTOR(&s, "x", 3, 4);
    bt_var *moving = s.vars[1];
    bt_graph_assign(s.graph, moving, bt_mul(x, bt_exp(w)));
    scene_end(&s);
    ck_assert_int_eq(bt_linearize(s.graph, &moving, 1, keep_nothing, NULL, &once, &each), BT_ERROR_MEMORY);
    ck_assert(!once && !each);
}
END_TEST

/* A chain of views too long for recursion. */
START_TEST(long_chains_of_views)
{
    bt_tensor *w = MATRIX(&s, "w", 1, 2, 1, 2), *x = MATRIX(&s, "x", 1, 2, 3, 4), *y = w;
    bt_var *moving = s.vars[1];
    for (int i = 0; i < 200000; i++)
        y = bt_permute(y, 1, 0);
    bt_graph_assign(s.graph, moving, bt_add(x, y));
    scene_end(&s);
    EXPECT_OK(bt_linearize(s.graph, &moving, 1, keep, NULL, &once, &each));
    ck_assert_int_eq(kept_count, 0);
}
END_TEST

/* ---- random graphs ---- */

/* Two runs of the whole graph against one of the first part and two of the second: every variable, bit for bit. Only
 * moving variables may be both read and assigned, or the first part would change from run to run. */
START_TEST(random_graphs)
{
    bt_var *moving[7];
    int count = 0;
    scene_free(&s);
    random_graph(&s, (uint64_t)_i + 500, BT_F64, 50, RANDOM_ASSIGNS | (_i % 2 ? RANDOM_COMPOSITES : 0));
    for (int64_t a = 0; a < s.graph->assign_count; a++)
        moving[count++] = s.graph->assigns[a].var;
    if (!count)
        return;
    split(moving, count);
    check_split(moving, count);
    double before[7][200], expected[7][200];
    for (int v = 0; v < 7; v++)
        for (int i = 0; i < (int)bt_array_count(bt_var_array(s.vars[v])); i++)
            before[v][i] = var_get(s.vars[v], i);
    free(run_once(lowered));
    for (int v = 0; v < 7; v++)
        for (int i = 0; i < (int)bt_array_count(bt_var_array(s.vars[v])); i++)
            expected[v][i] = var_get(s.vars[v], i);
    for (int v = 0; v < 7; v++)
        var_set(s.vars[v], before[v]);
    run_parts(1);
    for (int v = 0; v < 7; v++)
        expect_var(__FILE__, __LINE__, s.vars[v], expected[v], bt_array_count(bt_var_array(s.vars[v])), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linearize");
    TCase *tests = tcase_create("linearize");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, conjugate_gradients);
    tcase_add_test(tests, conjugate_gradients_converge);
    tcase_add_test(tests, cheap_values_are_computed_again);
    tcase_add_test(tests, what_stands_is_assigned_once);
    tcase_add_test(tests, what_the_first_part_overwrites);
    tcase_add_test(tests, windows_of_what_moves);
    tcase_add_test(tests, effects_are_of_the_second_part);
    tcase_add_test(tests, everything_moves_or_nothing);
    tcase_add_test(tests, no_variable_to_keep_a_value);
    tcase_add_test(tests, long_chains_of_views);
    tcase_add_loop_test(tests, random_graphs, 0, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

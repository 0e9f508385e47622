/* Graphs on several ranks: what lies how, what is sent, and the values of one rank. */
#include "support/ranks.h"
#include "support/scene.h"

#include "runtime/variable.h"
#include "transform/grad.h"
#include "transform/inline.h"
#include "transform/simplify.h"
#include <check.h>
#include <stdlib.h>

static scene s;
static ranks r;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    ranks_free(&r);
    scene_free(&s);
}

/* A batch of the binder's, whose rows are along axis 0. */
static bt_tensor *batch(const char *name, int64_t rows, int64_t columns, const double *values)
{
    bt_array shape = {.dtype = BT_F64, .rank = columns ? 2 : 1, .dims = {rows, columns}};
    bt_var *var = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "", name, shape));
    var->data = calloc((size_t)bt_array_count(shape) + 1, sizeof(double));
    var_set(var, values);
    bt_tensor *x = bt_graph_read(s.graph, var);
    x->batch_axis = 0;
    return x;
}

/* What the compiler makes of it before. */
static void lower(void)
{
    scene_end(&s);
    bt_graph *inlined = bt_inline(s.graph, NULL, NULL), *simple = inlined ? bt_simplify(inlined, true) : NULL;
    ck_assert_ptr_nonnull(simple);
    bt_graph_free(inlined);
    bt_graph_free(s.graph);
    s.graph = simple;
}

/* mean(x w + b): the cotangent is a number repeated, which no batch axis shows. */
START_TEST(the_mean_of_a_line)
{
    static const double rows[] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, weights[] = {2, -1}, none[] = {0};
    bt_tensor *x = batch("x", 5, 2, rows), *w = scene_read(&s, "w", weights, (const int64_t[]){2, 1, BT_END}),
              *b = scene_read(&s, "b", none, (const int64_t[]){1, BT_END});
    bt_tensor *loss = bt_mean(bt_add(bt_matmul(x, w), b));
    bt_graph_output(s.graph, bt_grad(loss, w));
    bt_graph_output(s.graph, bt_grad(loss, b));
    lower();
    ranks_begin(&r, s.graph, 1 + _i);
    ranks_shard(&r);
    ranks_run(&r);
    EXPECT_VALUES(ranks_output(&r, 0), 1e-15, 17.6, 28.6);
    EXPECT_VALUES(ranks_output(&r, 1), 1e-15, 1);
    ranks_expect_whole(&r, 1e-14, "line");
    ck_assert_int_eq(r.reports[0].gathers, 0);
    ck_assert_int_eq(r.reports[0].reduced, _i ? 2 : 0); /* b's is a number that all know */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard");
    TCase *tests = tcase_create("shard");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_mean_of_a_line, 0, 5);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

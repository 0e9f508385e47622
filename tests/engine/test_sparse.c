/* Sparse rows: hypergradients of a linear model against the closed form, and the same run as with dense rows; a product
 * with a matrix; errors. */
#include "ridge.h"

#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Before the first step each level requests its first batch; then 20 steps. */
static void look(ridge *data, const char *settings, double *found, double *w)
{
    bt_engine *engine = ridge_engine(data, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 0);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    levels_step(engine, 20);
    levels_params(engine, "lower", w, 2);
    levels_params(engine, "upper", w + 2, 2);
    bt_engine_free(engine);
}

START_TEST(hypergradients)
{
    static const struct {
        const char *settings;
        plain_method method;
    } cases[] = {{"lower.type = darts\n", {.kind = PLAIN_DARTS}},
                 {"lower.type = neumann\nlower.neumann_iterations = 4\nlower.neumann_alpha = 0.3\n",
                  {.kind = PLAIN_NEUMANN, .iterations = 4, .alpha = 0.3}},
                 {"lower.type = cg\nlower.cg_iterations = 2\n", {.kind = PLAIN_CG, .iterations = 2}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char settings[512];
        snprintf(settings, sizeof settings,
                 "engine.train_iters = 20\nlower.batch_size = all\nupper.batch_size = all\nlower.lr = 0.1\n"
                 "upper.lr = 0.1\n%s",
                 cases[k].settings);
        ridge data = ridge_data();
        double dense[2], sparse[2], due[2], w_dense[4], w_sparse[4];
        look(&data, settings, dense, w_dense);
        data.sparse = true;
        look(&data, settings, sparse, w_sparse);
        const rows lower = {0, RIDGE_ROWS}, upper = {0, RIDGE_UPPER_ROWS};
        plain_hypergradient(&data, &lower, 1, &upper, 1, data.w, data.lambda, cases[k].method, due);
        for (int i = 0; i < 2; i++) {
            ck_assert_double_eq_tol(sparse[i], due[i], 1e-12);
            ck_assert_double_eq_tol(sparse[i], dense[i], 1e-13);
        }
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq_tol(w_sparse[i], w_dense[i], 1e-12);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.sparse");
    TCase *tests = tcase_create("ridge");
    tcase_add_test(tests, hypergradients);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_grid.c: every method of the library, in hierarchies of two to four levels, with each optimiser, at
 * solved and unsolved lower problems, against the dense algebra of dense.h; and properties of every method: the levels
 * below do not change, the same request gives the same answer, and memory does not grow.
 *
 * The loops cover bt_method_builtin, so a new method is included automatically, and fails here until dense.c knows it.
 *
 * Tolerances, relative to the largest element of a hypergradient: dense.c is exact to rounding, so 1e-10 in double
 * precision and 1e-5 in single. Methods that differentiate the inner loop are also compared with central differences of
 * the loop run again, in double precision and plain C. product = finite moves the parameters by 0.01 (darts_alpha), so
 * on each level its error is about the square of that times third derivatives: 1e-3. */
#include "dense.h"
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "runtime/profile.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- hierarchies: for each level the levels that its loss reads; 0 is the uppermost ---- */

typedef struct shape {
    const char *name;
    int levels;
    const char *reads[LEVELS]; /* digits */
} shape;

static const shape shapes[] = {
    {"chain", 2, {"1", "0"}},
    {"diamond", 2 + 1, {"12", "0", "0"}},      /* two problems below one */
    {"shared lower", 2 + 1, {"2", "2", "01"}}, /* one problem below two */
    {"chain", 3, {"2", "0", "1"}},
    {"diamond", 4, {"3", "0", "0", "12"}},
    {"shared lower", 3, {"12", "02", "01"}},
    {"chain", 4, {"3", "0", "1", "2"}},
    {"diamond", 4, {"13", "0", "1", "12"}},
    {"shared lower", 4, {"3", "03", "13", "012"}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char *const names[LEVELS] = {"top", "second", "third", "fourth"};
static const shape *now; /* the shape that the callbacks below build */

static bool reads(int level, int other) { return strchr(now->reads[level], '0' + other) != NULL; }

static int level_of(bt_problem *self)
{
    int level = 0;
    while (self != bt_peer(self, names[level]))
        level++;
    return level;
}

/* ---- the same losses, traced ---- */

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS][INPUTS], target[ROWS];
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < INPUTS; i++)
            x[r][i] = dense_row(r, i);
        target[r] = dense_target(level_of(self), r);
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(&x[0][0], ROWS, INPUTS));
    bt_dataset_add(data, "target", BT_ARRAY(target, ROWS));
    return data;
}

static bt_module *weights(bt_problem *self)
{
    bt_module *module = bt_module_new(NULL);
    (void)self;
    bt_module_add_param(module, "W", bt_init_constant(0), INPUTS, HIDDEN);
    bt_module_add_param(module, "b", bt_init_constant(0), HIDDEN);
    bt_module_add_param(module, "out", bt_init_constant(0), HIDDEN);
    return module;
}

static bt_tensor *net(bt_problem *problem, const bt_batch *batch)
{
    bt_tensor *sum = bt_add(bt_matmul(bt_field(batch, "x"), bt_param(problem, "W")), bt_param(problem, "b"));
    return bt_matmul(bt_tanh(sum), bt_param(problem, "out"));
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    int level = level_of(self);
    bt_tensor *y = net(self, batch), *others = NULL;
    for (int r = 0; r < now->levels; r++)
        if (r != level && reads(level, r)) {
            bt_tensor *part = bt_mul(dense_share(level, r), net(bt_peer(self, names[r]), batch));
            others = others ? bt_add(others, part) : part;
        }
    bt_tensor *residual = bt_sub(bt_add(y, bt_mul(bt_add(1, bt_mul(0.5, y)), others)), bt_field(batch, "target"));
    bt_tensor *error = bt_mean(bt_sub(bt_sqrt(bt_add(1, bt_square(residual))), 1));
    double centre[N];
    for (int i = 0; i < N; i++)
        centre[i] = dense_centre(level, i);
    bt_tensor *off = bt_sub(bt_params(self), bt_constant(BT_ARRAY(centre, N)));
    return bt_add(error, bt_mul(RIDGE / 2, bt_sum(bt_square(off))));
}

#define LEVEL(n)                                                                                                       \
    {                                                                                                                  \
        .name = n, .configure_train_data = rows, .configure_module = weights, .training_step = loss                    \
    }
static const bt_problem_def levels[LEVELS] = {LEVEL("top"), LEVEL("second"), LEVEL("third"), LEVEL("fourth")};

/* ---- engines ---- */

static void add_links(bt_text *lines)
{
    const char *between = "";
    bt_text_add(lines, "dependencies.u2l = ");
    for (int q = 0; q < now->levels; q++)
        for (int r = 0; r < q; r++)
            if (reads(q, r)) {
                bt_text_add(lines, "%s%s > %s", between, names[r], names[q]);
                between = ", ";
            }
    between = "";
    bt_text_add(lines, "\ndependencies.l2u = ");
    for (int q = 0; q < now->levels; q++)
        for (int r = 0; r < q; r++)
            if (reads(r, q) || reads(q, r)) {
                bt_text_add(lines, "%s%s > %s", between, names[q], names[r]);
                between = ", ";
            }
    bt_text_add(lines, "\n");
}

static void add_optimizer(bt_text *lines, const char *name, optimizer_kind optimizer)
{
    bt_text_add(lines, "%s.optimizer = %s\n%s.lr = %g\n", name, optimizer == ADAM ? "adam" : "sgd", name, LR);
    if (optimizer == MOMENTUM)
        bt_text_add(lines, "%s.momentum = %g\n%s.dampening = %g\n", name, MOMENTUM_, name, DAMPENING_);
}

static void add_method(bt_text *lines, const char *name, const char *method, const char *product)
{
    bt_text_add(lines, "%s.type = %s\n%s.product = %s\n", name, method, name, product);
    bt_text_add(lines, "%s.neumann_alpha = %g\n%s.neumann_iterations = %d\n", name, NEUMANN_ALPHA, name, ITERATIONS);
    bt_text_add(lines, "%s.cg_damping = %g\n%s.cg_iterations = %d\n", name, CG_DAMPING, name, ITERATIONS);
    bt_text_add(lines, "%s.nystrom_rho = %g\n%s.nystrom_rank = %d\n", name, NYSTROM_RHO, name, N);
    bt_text_add(lines, "%s.penalty_lambda = %g\n%s.penalty_lr = %g\n", name, PENALTY, name, PENALTY_LR);
    bt_text_add(lines, "%s.penalty_iterations = %d\n%s.sama_adam_alpha = %g\n", name, ITERATIONS, name, SAMA_ALPHA);
}

static bt_engine *engine_of(const dense *d, const char *product, const char *more)
{
    static bt_export parts;
    bt_text lines = {0};
    parts = (bt_export){.abi = BT_ABI};
    for (int q = 0; q < now->levels; q++) {
        parts.problems[q] = &levels[q];
        bt_text_add(&lines, "%s.batch_size = all\n%s.unroll_steps = 2\n", names[q], names[q]);
        add_optimizer(&lines, names[q], d->optimizer);
        add_method(&lines, names[q], d->method[q], product);
    }
    add_links(&lines);
    bt_text_add(&lines, "engine.log_step = 0\nengine.threads = 1\n%s", more);
    bt_engine *engine = levels_engine(&parts, NULL, bt_text_get(&lines));
    bt_text_free(&lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    ck_assert_msg(bt_engine_setup(engine) == BT_OK, "%s of %d levels, type = %s, %s: %s", now->name, now->levels,
                  d->method[now->levels - 1], product, bt_error());
    return engine;
}

static void set_parameters(bt_engine *engine, int level, const double *theta)
{
    const bt_module *module = bt_engine_problem(engine, names[level])->module;
    for (int64_t i = 0; i < module->param_count; i++) {
        bt_array window = bt_var_array(module->params[i]->var);
        for (int64_t k = 0; k < bt_array_count(window); k++)
            var_put(module->params[i]->var, k, *theta++);
    }
}

/* ---- the comparison ---- */

static bool has_lower(int level)
{
    for (int q = level + 1; q < now->levels; q++)
        if (reads(q, level))
            return true;
    return false;
}

/* False if it is refused, as for type = itd if no lower problem has stepped since. */
static bool asked(bt_engine *engine, int level, double *found)
{
    bt_status status = bt_hypergradient(bt_engine_problem(engine, names[level]), BT_ARRAY(found, N));
    if (status == BT_ERROR_ARGUMENT && strstr(bt_error(), "type = itd), and there are none")) {
        bt_error_clear();
        return false;
    }
    ck_assert_msg(status == BT_OK, "%s", bt_error());
    return true;
}

static void compare(bt_engine *engine, const dense *d, int level, const char *what, double tolerance)
{
    double found[N], expected[N], largest = 0.05; /* if the gradient is 0, only rounding remains */
    if (!has_lower(level) || !asked(engine, level, found))
        return;
    ck_assert(dense_hypergradient(d, level, expected));
    for (int i = 0; i < N; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) <= tolerance * largest,
                      "%s of %d levels, %s, type = %s: element %d of %s is %.15g, expected %.15g (largest %.3g)",
                      now->name, now->levels, what, d->method[now->levels - 1], i, names[level], found[i], expected[i],
                      largest);
}

static void begin(bt_engine *engine, dense *d)
{
    dense_open(d);
    for (int q = 0; q < d->levels; q++)
        set_parameters(engine, q, d->theta[q]);
}

static void step(bt_engine *engine, dense *d, int level)
{
    ck_assert_msg(dense_step(d, level), "dense.c has no reference for a method here: %s", d->method[d->levels - 1]);
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[level])));
}

/* Engine and reference do the same, from below: a step of each level, then two of each but the uppermost. Each is
 * compared before its last step, when the levels below have stepped since its previous one, and again with all lower
 * problems solved. */
static void walk(dense *d, const char *product, bool single)
{
    bt_engine *engine = engine_of(d, product, single ? "engine.precision = fp32\n" : "");
    double tolerance = single ? 1e-5 : strcmp(product, "finite") == 0 ? 1e-3 : 1e-10;
    begin(engine, d);
    for (int q = d->levels - 1; q >= 0; q--)
        step(engine, d, q);
    for (int q = d->levels - 1; q > 0; q--)
        step(engine, d, q);
    for (int q = d->levels - 1; q >= 0; q--) {
        compare(engine, d, q, single ? "unsolved, fp32" : "unsolved", tolerance);
        if (q)
            step(engine, d, q);
    }
    for (int q = 1; q < d->levels; q++) {
        dense_solve(d, q);
        set_parameters(engine, q, d->theta[q]);
    }
    for (int q = 0; q < d->levels; q++)
        compare(engine, d, q, single ? "solved, fp32" : "solved", tolerance);
    bt_engine_free(engine);
}

/* The methods that differentiate: all but the last, none. */
static int method_count(void)
{
    int count = 0;
    while (bt_method_builtin(count) != &bt_method_none)
        count++;
    return count;
}

/* It differentiates the actual updates, and has no x of its own. */
static bool is_exact(int method) { return !bt_method_builtin(method)->start && !bt_method_builtin(method)->step; }

static dense dense_of(optimizer_kind optimizer)
{
    dense d = {.levels = now->levels, .optimizer = optimizer};
    for (int q = 0; q < d.levels; q++)
        for (int r = 0; r < d.levels; r++)
            d.reads[q][r] = reads(q, r);
    return d;
}

/* The method of each level; beyond the last method, a different one on every level. */
static void choose(dense *d, int method)
{
    int count = method_count();
    for (int q = 0; q < d->levels; q++)
        d->method[q] = bt_method_builtin(method < count ? method : (method + q) % count)->name;
}

/* Sanitizers are slow, and find as much with one optimiser as with all. */
static bool takes_part(int method, int optimizer)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return optimizer == method % OPTIMIZERS;
#else
    (void)method, (void)optimizer;
    return true;
#endif
}

START_TEST(against_dense_algebra)
{
    now = &shapes[_i];
    for (int method = 0; method < method_count() + 4; method++)
        for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++) {
            dense d = dense_of((optimizer_kind)optimizer);
            if (!takes_part(method, optimizer))
                continue;
            choose(&d, method);
            walk(&d, (method + optimizer) % 2 ? "vjp" : "jvp", false);
            if (optimizer == method % OPTIMIZERS)
                walk(&d, "jvp", true);
        }
}
END_TEST

/* ---- exact methods: against central differences of the inner loop run again ---- */

/* Levels that are trained by their own gradient alone; the others stay where they are. */
static bool moves(int level)
{
    for (int q = level + 1; q < now->levels; q++)
        if (reads(level, q))
            return false;
    return level > 0;
}

/* This many steps of each, from below; so does the engine (NULL: none), in which fixed levels have lr = 0. */
static void train(dense *d, bt_engine *engine, int steps)
{
    for (int step = 0; step < steps; step++)
        for (int q = d->levels - 1; q > 0; q--) {
            ck_assert(!moves(q) || dense_step(d, q));
            if (engine)
                EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[q])));
        }
}

static double loss_again(const dense *before, int steps, int element, double shift)
{
    dense d = *before;
    d.theta[0][element] += shift;
    train(&d, NULL, steps);
    return dense_loss(&d, 0);
}

enum { INNER = 3 };

static void compare_exact(bt_engine *engine, dense *d)
{
    const double step = 1e-4; /* its error is its square plus rounding divided by it: about 1e-8 and 1e-11 */
    double found[N], largest = 0;
    dense before = *d;
    train(d, engine, INNER);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, names[0]), BT_ARRAY(found, N)));
    for (int i = 0; i < N; i++)
        largest = fmax(largest, fabs(found[i]));
    for (int i = 0; i < N; i++) {
        double change = loss_again(&before, INNER, i, step) - loss_again(&before, INNER, i, -step);
        ck_assert_msg(fabs(found[i] - change / (2 * step)) <= 1e-7 * largest,
                      "%s of %d levels, %s: element %d is %.12g, by differences %.12g", now->name, now->levels,
                      d->method[0], i, found[i], change / (2 * step));
    }
}

START_TEST(against_the_loop_run_again)
{
    now = &shapes[_i];
    for (int method = 0; method < method_count(); method++)
        for (int optimizer = 0; optimizer < OPTIMIZERS && is_exact(method); optimizer++) {
            dense d = dense_of((optimizer_kind)optimizer);
            bt_text more = {0};
            choose(&d, method);
            for (int q = 1; q < d.levels; q++)
                bt_text_add(&more, "%s.unroll_steps = %d\n%s%s", names[q], INNER, moves(q) ? "" : names[q],
                            moves(q) ? "" : ".lr = 0\n");
            bt_text_add(&more, "%s.lr = 0\n", names[0]); /* its step then only ends an inner loop */
            bt_engine *engine = engine_of(&d, "jvp", bt_text_get(&more));
            bt_text_free(&more);
            begin(engine, &d);
            train(&d, engine, 1);
            EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[0])));
            compare_exact(engine, &d);
            bt_engine_free(engine);
        }
}
END_TEST

/* The difference of gradients, whose error decreases with the square of its step. */
START_TEST(by_differences)
{
    now = &shapes[_i];
    for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++) {
        dense d = dense_of((optimizer_kind)optimizer);
        choose(&d, method_count() + optimizer);
        walk(&d, "finite", false);
    }
}
END_TEST

/* ---- properties of every method ---- */

static bt_engine *trained(dense *d, int method)
{
    *d = dense_of(ADAM);
    choose(d, method);
    bt_engine *engine = engine_of(d, "jvp", "");
    begin(engine, d);
    for (int q = d->levels - 1; q >= 0; q--)
        EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[q])));
    return engine;
}

/* A step of a level changes no bit of another one; a request changes nothing, and repeats with the same answer. */
START_TEST(all_others_stay)
{
    now = &shapes[_i];
    for (int method = 0; method < method_count() + 1; method++) {
        dense d;
        bt_engine *engine = trained(&d, method);
        for (int level = 0; level < d.levels; level++) {
            double once[N], twice[N];
            uint64_t before[LEVELS];
            for (int q = 0; q < d.levels; q++)
                before[q] = levels_hash(engine, names[q]);
            bool answered = asked(engine, level, once);
            ck_assert(asked(engine, level, twice) == answered);
            if (answered)
                ck_assert_mem_eq(once, twice, sizeof once);
            for (int q = 0; q < d.levels; q++)
                ck_assert_uint_eq(levels_hash(engine, names[q]), before[q]);
            EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[level])));
            for (int q = 0; q < d.levels; q++)
                ck_assert_msg((levels_hash(engine, names[q]) == before[q]) == (q != level),
                              "type = %s: after a step of %s, %s has %schanged", d.method[d.levels - 1], names[level],
                              names[q], q == level ? "not " : "");
        }
        bt_engine_free(engine);
    }
}
END_TEST

START_TEST(memory_stays)
{
    now = &shapes[0];
    dense d;
    bt_engine *engine = trained(&d, _i);
    bt_problem *top = bt_engine_problem(engine, names[0]), *lower = bt_engine_problem(engine, names[1]);
    EXPECT_OK(bt_step_alone(top));
    size_t bytes = bt_live_bytes();
    for (int i = 0; i < 1000; i++) {
        EXPECT_OK(bt_step_alone(lower));
        EXPECT_OK(bt_step_alone(top));
        ck_assert_uint_eq(bt_live_bytes(), bytes);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- cost grows linearly with depth ---- */

static double flops_of_top(int chain, int method)
{
    now = &shapes[chain];
    dense d;
    bt_engine *engine = trained(&d, method);
    for (int q = d.levels - 1; q > 0; q--) /* an inner loop of one step */
        EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[q])));
    bt_profile *profile = engine->context.instance->profile = bt_profile_new();
    int64_t count;
    double sum = 0;
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, names[0])));
    const bt_profile_row *row = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(row[i].part, "update") != 0 && strcmp(row[i].part, "gradient") != 0)
            sum += row[i].flops * (double)row[i].calls;
    engine->context.instance->profile = NULL;
    bt_profile_free(profile);
    bt_engine_free(engine);
    return sum;
}

/* A chain with k levels below the uppermost costs no more than k chains with one. */
START_TEST(chains_cost_the_sum)
{
    double one = flops_of_top(0, _i), two = flops_of_top(3, _i), three = flops_of_top(6, _i);
    ck_assert_msg(one > 0 && two <= 2.02 * one && three <= 3.02 * one, "%s: %g, %g, %g flops at 2, 3, 4 levels",
                  bt_method_builtin(_i)->name, one, two, three);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grid");
    TCase *tests = tcase_create("methods");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, against_dense_algebra, 0, SHAPES);
    tcase_add_loop_test(tests, against_the_loop_run_again, 0, SHAPES);
    tcase_add_loop_test(tests, by_differences, 0, SHAPES);
    tcase_add_loop_test(tests, all_others_stay, 0, SHAPES);
    tcase_add_loop_test(tests, memory_stays, 0, method_count());
    tcase_add_loop_test(tests, chains_cost_the_sum, 0, method_count());
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

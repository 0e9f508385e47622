/* tests/engine/test_cost.c: the cost of hypergradients, in flops of the programs that run: in gradients of the lower
 * loss, and in passes, a pass being one forward evaluation of the lower net.
 *
 * The net has three layers. The upper problem trains a weight for each example; or, if `moves_inputs` is true, a vector
 * that is added to every example, so that derivatives pass through all layers. */
#include "levels.h"

#include "engine/session/session.h"
#include "runtime/profile.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum { BATCH = 32, FIRST = 60, SECOND = 50, THIRD = 40, LAST = 10 };

static const double passes = 2.0 * BATCH * (FIRST * SECOND + SECOND * THIRD + THIRD * LAST); /* flops of one */

static bt_dataset *rows(bt_problem *self)
{
    static float x[BATCH * FIRST];
    int64_t label[BATCH];
    (void)self;
    for (int i = 0; i < BATCH * FIRST; i++)
        x[i] = (float)bt_host_uniform(3, 1, (uint64_t)i) - 0.5F;
    for (int i = 0; i < BATCH; i++)
        label[i] = i % LAST;
    bt_dataset *data = bt_dataset_new(BATCH);
    bt_dataset_add(data, "x", BT_ARRAY(x, BATCH, FIRST));
    bt_dataset_add(data, "label", BT_ARRAY(label, BATCH));
    return data;
}

static bt_module *net(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, FIRST, SECOND, THIRD, LAST); }

static bool moves_inputs;

static bt_module *weights(bt_problem *self)
{
    return (void)self, bt_nn_parameter(bt_init_constant(0), moves_inputs ? FIRST : BATCH);
}

static bt_tensor *losses(bt_problem *lower, bt_tensor *x, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, x), bt_field(batch, "label"));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x"), *taught = bt_forward(bt_peer(self, "upper"));
    if (moves_inputs)
        return bt_mean(losses(self, bt_add(x, taught), batch));
    return bt_mean(bt_mul(bt_sigmoid(taught), losses(self, x, batch)));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), bt_field(batch, "x"), batch));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = weights, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

/* ---- a chain: levels that no loss reaches are not solved ---- */

enum { CHAIN = 5 };

static bt_tensor *chain_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    int place = self->name[1] - '0';
    bt_tensor *x = bt_forward(self), *loss = bt_square(bt_sub(x, 1));
    for (int next = place - 1; next <= place + 1; next += 2)
        if (next >= 0 && next < CHAIN) {
            char name[] = {'p', (char)('0' + next), 0};
            loss = bt_add(loss, bt_square(bt_sub(x, bt_forward(bt_peer(self, name)))));
        }
    return loss;
}

static const double begins[CHAIN] = {0.5, -1, 2, 0.25, 3};

static bt_module *number(bt_problem *self)
{
    return (bt_nn_parameter)(bt_init_constant(begins[self->name[1] - '0']), (const int64_t[]){BT_END});
}

static double chain_gradient(int i)
{
    double x = begins[i], gradient = 2 * (x - 1);
    if (i > 0)
        gradient += 2 * (x - begins[i - 1]);
    if (i + 1 == CHAIN)
        return gradient;
    double apart = x - begins[i + 1], answer = 2.0 / (i + 2 == CHAIN ? 4 : 6);
    return gradient + 2 * apart - 2 * apart * answer;
}

/* Each level's loss only uses its neighbours' numbers: exactly one solve per level, whatever the depth. Its second
 * derivatives are 6 by its own number (4 at the end) and -2 by the one above, so d p(k+1) / d p(k) = 2 / 6. */
START_TEST(one_solve_to_a_level_of_a_chain)
{
    bt_problem_def defs[CHAIN];
    static char names[CHAIN][3];
    bt_export all = {.abi = BT_ABI};
    bt_text settings = {0}, down = {0}, up = {0};
    for (int i = 0; i < CHAIN; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        defs[i] = (bt_problem_def){.name = names[i],
                                   .configure_train_data = levels_one_row,
                                   .configure_module = number,
                                   .training_step = chain_step};
        all.problems[i] = &defs[i];
        if (i) {
            bt_text_add(&settings, "p%d.type = cg\n", i);
            bt_text_add(&down, "%sp%d > p%d", i > 1 ? ", " : "", i - 1, i);
            bt_text_add(&up, "%sp%d > p%d", i > 1 ? ", " : "", i, i - 1);
        }
    }
    bt_text_add(&settings, "dependencies.u2l = %s\ndependencies.l2u = %s\nengine.train_iters = 1\n", bt_text_get(&down),
                bt_text_get(&up));
    bt_engine *engine = levels_engine(&all, NULL, bt_text_get(&settings));
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    for (int i = 0; i < CHAIN; i++) {
        bt_problem *problem = bt_engine_problem(engine, names[i]);
        double found;
        int products = 0;
        for (int64_t e = 0; e < problem->step->phase->entry_count; e++)
            products += strstr(problem->step->phase->entries[e].part, "product") != NULL;
        ck_assert_int_eq(products, i + 1 < CHAIN);
        EXPECT_OK(bt_hypergradient(problem, BT_ARRAY(&found)));
        ck_assert_double_eq_tol(found, chain_gradient(i), 1e-12);
        for (int k = i + 1; k < CHAIN; k++) {
            double adjoint = k == i + 1 ? -2 * (begins[i] - begins[k]) : 0;
            char name[32];
            snprintf(name, sizeof name, "p%d:adjoint.p%d", i, k);
            EXPECT_OK(bt_engine_read(engine, name, BT_ARRAY(&found)));
            ck_assert_double_eq_tol(found, adjoint, 1e-12);
            snprintf(name, sizeof name, "p%d:x.p%d", i, k);
            EXPECT_OK(bt_engine_read(engine, name, BT_ARRAY(&found)));
            ck_assert_double_eq_tol(found, adjoint / (k + 1 == CHAIN ? 4 : 6), 1e-12);
        }
    }
    bt_engine_free(engine);
    bt_text_free(&settings);
    bt_text_free(&down);
    bt_text_free(&up);
}
END_TEST

/* The flops of one step of a level, over its programs whose names have this prefix. */
static double flops(bt_engine *engine, const char *level, const char *part)
{
    bt_profile *profile = engine->context.instance->profile = bt_profile_new();
    int64_t count;
    double sum = 0;
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, level)));
    const bt_profile_row *row = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++)
        if (strncmp(row[i].part, part, strlen(part)) == 0)
            sum += row[i].flops * (double)row[i].calls;
    engine->context.instance->profile = NULL;
    bt_profile_free(profile);
    return sum;
}

static bt_engine *engine_of(const char *settings)
{
    char lines[600];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.log_step = 0\n"
             "engine.threads = 1\nlower.batch_size = all\nupper.batch_size = all\nengine.reassociate = false\n%s",
             settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 1);
    return engine;
}

static void expect_at_most(const char *settings, const char *what, double found, double most)
{
    ck_assert_msg(found > 0 && found <= most, "%s: %s costs %.2f, at most %.2f", settings, what, found, most);
}

/* The last product of a hypergradient, in gradients of the lower loss. */
START_TEST(one_product)
{
    static const struct {
        const char *settings;
        bool moves_inputs;
        double gradients;
    } cases[] = {
        {"lower.product = finite\n", true, 2.1},  {"lower.product = jvp\n", true, 3},
        {"lower.product = vjp\n", true, 3},       {"lower.type = sama\n", true, 2.1},
        {"lower.product = finite\n", false, 2.1}, {"lower.product = jvp\n", false, 1.5}, /* only forward passes */
    };
    moves_inputs = cases[_i].moves_inputs;
    bt_engine *engine = engine_of(cases[_i].settings);
    double gradient = flops(engine, "lower", "gradient");
    expect_at_most(cases[_i].settings, "a product", flops(engine, "upper", "product") / gradient, cases[_i].gradients);
    expect_at_most("a gradient", "in passes", gradient / passes, 3.1);
    bt_engine_free(engine);
}
END_TEST

/* One H x, including the part that does not depend on x: at most three gradients; each further one at most six
 * passes. */
START_TEST(iterations)
{
    static const char *const settings[] = {"lower.type = cg\nlower.cg_iterations = %d\n",
                                           "lower.type = neumann\nlower.neumann_iterations = %d\n",
                                           "lower.type = nystrom\nlower.nystrom_rank = %d\n"};
    static const int counts[] = {1, 2, 5, 10};
    moves_inputs = false;
    for (int i = 0; i < 4; i++) {
        char lines[100];
        snprintf(lines, sizeof lines, settings[_i], counts[i]);
        bt_engine *engine = engine_of(lines);
        double solve = flops(engine, "upper", "solve") / passes;
        expect_at_most(lines, "a solve", solve, 3 + 6 * counts[i]);
        if (counts[i] == 1)
            expect_at_most(lines, "H x", solve / flops(engine, "lower", "gradient") * passes, 3);
        bt_engine_free(engine);
    }
}
END_TEST

/* Gradients only: one of each loss in a step, and two of the lower one for the product. */
START_TEST(penalty)
{
    static const char settings[] = "lower.type = penalty\nlower.penalty_iterations = 5\n";
    moves_inputs = true;
    bt_engine *engine = engine_of(settings);
    double gradient = flops(engine, "lower", "gradient");
    expect_at_most(settings, "a solve", flops(engine, "upper", "solve") / gradient, 2.1 * 5);
    expect_at_most(settings, "the product", flops(engine, "upper", "product") / gradient, 2.1);
    bt_engine_free(engine);
}
END_TEST

/* ---- itd: T steps backwards; with those of the inner loop itself at most 4.2 gradients each ---- */

static bt_engine *unrolled(int steps, const char *more)
{
    char lines[200];
    snprintf(lines, sizeof lines, "lower.type = itd\nlower.unroll_steps = %d\n%s", steps, more);
    bt_engine *engine = engine_of(lines);
    levels_step(engine, 2 * steps - 1); /* the upper problem has stepped, and is about to again */
    return engine;
}

START_TEST(unrolled_steps)
{
    static const int counts[] = {1, 4, 9};
    const int steps = counts[_i / 2];
    moves_inputs = _i % 2;
    bt_engine *engine = unrolled(steps, "");
    double gradient = flops(engine, "lower", "gradient"); /* the last step of the loop */
    expect_at_most("type = itd", "the way back", flops(engine, "upper", "step, backwards") / gradient, 3.2 * steps);
    bt_engine_free(engine);
    engine = unrolled(steps, "lower.itd_spacing = 0\n");
    EXPECT_OK(bt_step_alone(bt_engine_problem(engine, "lower")));
    double back = flops(engine, "upper", "step, ") / gradient;
    expect_at_most("itd_spacing = 0", "the way back, with steps made again", back, 4.3 * steps);
    bt_engine_free(engine);
}
END_TEST

static double bytes_of(const char *type, int steps, const char *more)
{
    char lines[200];
    size_t by_category[BT_CATEGORIES];
    snprintf(lines, sizeof lines, "lower.type = %s\nlower.unroll_steps = %d\n%s", type, steps, more);
    bt_engine *engine = engine_of(lines);
    double persistent = (double)bt_persistent_bytes(&engine->context, by_category, NULL);
    double measured = (double)(bt_live_bytes() - engine->baseline - engine->context.instance->arena_size);
    ck_assert_msg(measured == persistent, "%s: %g bytes are live, %g are planned", lines, measured, persistent);
    double bytes = persistent + (double)bt_arena_planned(&engine->context);
    bt_engine_free(engine);
    return bytes;
}

/* The bytes grow linearly with the steps; not at all if only the solution counts; with the square root of their number
 * if steps are rerun. */
START_TEST(bytes_by_steps)
{
    static const char *const more[] = {"", "lower.optimizer = adam\n", "lower.momentum = 0.9\nlower.nesterov = true\n"};
    double one, two;
    moves_inputs = _i;
    one = bytes_of("itd", 1, more[_i]);
    two = bytes_of("itd", 2, more[_i]);
    ck_assert_double_gt(two, one);
    for (int steps = 4; steps <= 16; steps *= 2)
        ck_assert_double_eq(bytes_of("itd", steps, more[_i]), one + (steps - 1) * (two - one));
    ck_assert_double_eq(bytes_of("cg", 1, more[_i]), bytes_of("cg", 16, more[_i]));
    char roots[100];
    snprintf(roots, sizeof roots, "lower.itd_spacing = 0\n%s", more[_i]);
    double few = bytes_of("itd", 16, roots), some = bytes_of("itd", 64, roots), many = bytes_of("itd", 256, roots);
    ck_assert_msg(many - some <= 2.1 * (some - few), "%g, %g, %g bytes at 16, 64, 256 steps", few, some, many);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cost");
    TCase *tests = tcase_create("two levels");
    tcase_add_loop_test(tests, one_product, 0, 6);
    tcase_add_loop_test(tests, iterations, 0, 3);
    tcase_add_test(tests, one_solve_to_a_level_of_a_chain);
    tcase_add_test(tests, penalty);
    tcase_add_loop_test(tests, unrolled_steps, 0, 6);
    tcase_add_loop_test(tests, bytes_by_steps, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

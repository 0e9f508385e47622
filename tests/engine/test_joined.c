/* Upper gradient and product as one program: if that saves matrix products, the results are the same, with the number
 * of products counted by hand; otherwise nothing changes. */
#include "levels.h"

#include "engine/session/session.h"
#include "ops/ops.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a classifier whose examples are weighted by a small net, optionally with a penalty level above it ---- */

typedef struct made {
    int64_t features, hidden, rows;
    bool smooth, counts_lower, counts_upper; /* tanh; bt_step of the lower problem is used in that loss */
    double bad;                              /* replaces one number of the upper data, unless it is 0 */
} made;

static const made usual = {.features = 200, .hidden = 90, .rows = 30};
enum { CLASSES = 10, UPPER = 25 };

static bt_dataset *points(bt_problem *self, int64_t rows, uint64_t stream, double bad)
{
    const made *m = bt_user(self);
    double *x = calloc((size_t)(rows * m->features), sizeof *x);
    int32_t *label = calloc((size_t)rows, sizeof *label);
    ck_assert(x && label);
    for (int64_t i = 0; i < rows * m->features; i++)
        x[i] = bt_host_uniform(3, stream, (uint64_t)i) - 0.5;
    for (int64_t i = 0; i < rows; i++)
        label[i] = (int32_t)(bt_host_uniform(4, stream, (uint64_t)i) * CLASSES);
    if (bad != 0)
        x[3 * m->features + 2] = bad;
    bt_dataset *data = bt_dataset_new(rows);
    bt_dataset_add(data, "x", BT_ARRAY(x, rows, m->features));
    bt_dataset_add(data, "label", BT_ARRAY(label, rows));
    free(x);
    free(label);
    return data;
}

static bt_dataset *lower_data(bt_problem *self) { return points(self, ((const made *)bt_user(self))->rows, 1, 0); }
static bt_dataset *upper_data(bt_problem *self)
{
    const made *m = bt_user(self);
    return points(self, m->rows, 2, m->bad);
}

static bt_module *lower_module(bt_problem *self)
{
    const made *m = bt_user(self);
    return bt_nn_mlp(m->smooth ? bt_tanh : bt_relu, m->features, m->hidden, CLASSES);
}
static bt_module *upper_module(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, 1, 8, 1); }
static bt_module *top_module(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(-2)); }

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(bt_forward(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

static bt_tensor *weighted(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_tensor *weight = bt_sigmoid(bt_squeeze(bt_forward(bt_peer(self, "upper"), bt_unsqueeze(bt_detach(loss), 1)), 1));
    return bt_mean(bt_mul(weight, loss));
}

static bt_tensor *counted(bt_tensor *loss, bt_problem *lower, bool counts)
{
    return counts ? bt_mul(loss, bt_add(1, bt_mul(0.5, bt_step(lower)))) : loss;
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    return counted(weighted(self, batch), self, ((const made *)bt_user(self))->counts_lower);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_problem *lower = bt_peer(self, "lower");
    return counted(bt_mean(losses(lower, batch)), lower, ((const made *)bt_user(self))->counts_upper);
}

static bt_tensor *penalised_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "top")));
    return bt_add(upper_step(self, batch), bt_mul(strength, bt_sum(bt_square(bt_params(self)))));
}

static bt_tensor *top_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = lower_data, .configure_module = lower_module, .training_step = lower_step};
static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = upper_data, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def middle = {.name = "upper",
                                      .configure_train_data = upper_data,
                                      .configure_module = upper_module,
                                      .training_step = penalised_step};
static const bt_problem_def top = {
    .name = "top", .configure_train_data = upper_data, .configure_module = top_module, .training_step = top_step};
static const bt_export two = {.abi = BT_ABI, .problems = {&upper, &lower}};
static const bt_export three = {.abi = BT_ABI, .problems = {&top, &middle, &lower}};

static bt_engine *engine_of(const made *m, const char *settings, bool reassociate)
{
    char lines[1200];
    bool is_three = strstr(settings, "top.") != NULL;
    snprintf(lines, sizeof lines,
             "%sengine.log_step = 0\nengine.threads = 1\nengine.reassociate = %s\nlower.lr = 0.1\nupper.lr = 0.3\n"
             "lower.batch_size = 12\nupper.batch_size = 12\n%s",
             is_three ? "dependencies.u2l = top > upper, upper > lower\ndependencies.l2u = lower > upper, upper > top\n"
                      : "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n",
             reassociate ? "true" : "false", settings);
    bt_engine *engine = levels_engine(is_three ? &three : &two, (void *)(uintptr_t)m, lines);
    ck_assert_msg(engine && bt_engine_setup(engine) == BT_OK, "%s", bt_error());
    return engine;
}

static bool joins(bt_engine *engine, const char *level) { return bt_engine_problem(engine, level)->step->joins; }

/* ---- work ---- */

static double multiplications(bt_engine *engine, const char *level)
{
    const bt_phase *phase = bt_engine_problem(engine, level)->step->phase;
    double sum = 0;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_graph *graph = phase->entries[e].program->graph;
        for (int64_t n = 0; n < graph->node_count; n++) {
            const bt_node *node = graph->nodes[n];
            if (node->op == &bt_op_dot || node->op == &bt_op_dot_add || node->op == &bt_op_linear)
                sum += (double)bt_tensor_count(node->out) * (double)node->in[0]->dims[1];
        }
    }
    return sum;
}

static bool plans(bt_engine *engine, const char *level, const char *name)
{
    const bt_phase *phase = bt_engine_problem(engine, level)->step->phase;
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && strcmp(phase->values[i].var->name, name) == 0)
            return true;
    return false;
}

#define SHAPE "lower.batch_size = 100\nupper.batch_size = 100\n"

/* Meta-Weight-Net with 784 inputs: six products of 100 x 784 x hidden in a step (two of the lower step; a layer's
 * output twice, v, and x with v). Z (X^T d) = (Z X^T) d leaves four and a third; v is not computed at all. */
START_TEST(products_of_a_step)
{
    const made m = {.features = 784, .hidden = 500, .rows = 200};
    const double one = 100.0 * 784 * 500, less = 100.0 * 784 * 100 + 100.0 * 100 * 500;
    const char *precision = _i ? SHAPE "engine.precision = fp32\n" : SHAPE;
    bt_engine *with = engine_of(&m, precision, true), *without = engine_of(&m, precision, false);
    double lower_part = multiplications(without, "lower"), upper_part = multiplications(without, "upper");
    double now = multiplications(with, "upper");
    ck_assert(joins(with, "upper") && !joins(without, "upper"));
    ck_assert_double_eq(multiplications(with, "lower"), lower_part);
    ck_assert(lower_part + upper_part > 6 * one && lower_part + upper_part < 6.15 * one);
    ck_assert(lower_part + now > 4.3 * one && lower_part + now < 4.5 * one);
    ck_assert_double_eq(upper_part - now, 2 * one - less);
    ck_assert(plans(without, "upper", "adjoint") && !plans(with, "upper", "adjoint"));
    bt_engine_free(with);
    bt_engine_free(without);
}
END_TEST

/* Ranks divide these products, and the ones without joining: v is not computed and so not summed; its factors are
 * gathered. */
START_TEST(products_on_ranks)
{
    const made m = {.features = 784, .hidden = 500, .rows = 200};
    static const int counts[] = {2, 4};
    char settings[100];
    snprintf(settings, sizeof settings, SHAPE "engine.ranks = %d\n", counts[_i]);
    bt_engine *one = engine_of(&m, SHAPE, true), *ranks = engine_of(&m, settings, true);
    const double due = multiplications(one, "upper") / counts[_i], found = multiplications(ranks, "upper");
    ck_assert(joins(ranks, "upper") && !plans(ranks, "upper", "adjoint"));
    ck_assert_msg(found >= due && found < 1.02 * due, "%g multiplications, not %g", found, due);
    const bt_phase *phase = bt_engine_problem(ranks, "upper")->step->phase;
    int64_t sent = 0;
    for (int64_t e = 0; e < phase->entry_count; e++)
        sent += phase->entries[e].program->sharded.reduced + phase->entries[e].program->sharded.gathered;
    ck_assert_int_lt(sent, 784 * 500 / 2);
    bt_engine_free(one);
    bt_engine_free(ranks);
}
END_TEST

/* With 32 hidden units, 100 x 784 x 100 products would cost more than the ones they replace. */
START_TEST(a_small_layer_is_left_alone)
{
    const made m = {.features = 784, .hidden = 32, .rows = 200};
    bt_engine *engines[2];
    bt_text dumps[2] = {{0}, {0}};
    for (int k = 0; k < 2; k++) {
        engines[k] = engine_of(&m, _i ? SHAPE "engine.precision = fp32\n" : SHAPE, k);
        const bt_phase *phase = bt_engine_problem(engines[k], "upper")->step->phase;
        for (int64_t e = 0; e < phase->entry_count; e++)
            bt_graph_dump(phase->entries[e].program->graph, &dumps[k]);
        ck_assert(!joins(engines[k], "upper"));
    }
    ck_assert_str_eq(bt_text_get(&dumps[0]), bt_text_get(&dumps[1]));
    for (int k = 0; k < 2; k++) {
        bt_text_free(&dumps[k]);
        bt_engine_free(engines[k]);
    }
}
END_TEST

/* ---- results ---- */

static void expect_close(const double *x, const double *y, int64_t count, double tolerance)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(y[i]));
    ck_assert(most > 0);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(x[i] - y[i]) <= tolerance * most, "%lld: %.17g, not %.17g", (long long)i, x[i], y[i]);
}

/* Compares the next hypergradient, and the result of a few steps, with and without joining. */
static void expect_same(const made *m, const char *settings, bool joined)
{
    bt_engine *engines[] = {engine_of(m, settings, true), engine_of(m, settings, false)};
    double hypergradient[2][UPPER], learned[2][UPPER];
    int64_t count = m->features * m->hidden + m->hidden + m->hidden * CLASSES + CLASSES;
    double *weights[] = {calloc((size_t)count, sizeof(double)), calloc((size_t)count, sizeof(double))};
    ck_assert(weights[0] && weights[1]);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(joins(engines[k], "upper"), joined && k == 0);
        levels_step(engines[k], 5);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engines[k], "upper"), BT_ARRAY(hypergradient[k], UPPER)));
        levels_params(engines[k], "upper", learned[k], UPPER);
        levels_params(engines[k], "lower", weights[k], count);
    }
    ck_assert_int_eq(levels_skipped(engines[0], "upper"), levels_skipped(engines[1], "upper"));
    expect_close(hypergradient[0], hypergradient[1], UPPER, 1e-10);
    expect_close(learned[0], learned[1], UPPER, 1e-10);
    expect_close(weights[0], weights[1], count, 1e-10);
    for (int k = 0; k < 2; k++) {
        free(weights[k]);
        bt_engine_free(engines[k]);
    }
}

static const struct {
    const char *settings;
    bool joined;
} cases[] = {
    {"", true},
    {"lower.product = vjp\n", true},
    {"lower.product = vjp\nlower.detach = field\n", true},
    {"lower.detach = follow\n", true},
    {"lower.product = finite\n", false}, /* v is added to the weights, so it must exist */
    {"lower.product = finite\nlower.detach = follow\n", false},
    {"lower.type = neumann\nlower.neumann_alpha = 0.1\n", false},
    {"lower.type = cg\nlower.cg_iterations = 3\n", false},
    {"lower.type = neumann\nlower.neumann_alpha = 0.5\nlower.neumann_iterations = 0\n", false},
    {"lower.unroll_steps = 2\nupper.meta_batch = 2\n", true},
    {"upper.gradient_accumulation = 2\n", false},            /* a sum over micro-batches */
    {"lower.batch_size = 7\nupper.batch_size = 11\n", true}, /* 30 rows: short batches of 2 and 8 */
    {"lower.gradient_accumulation = 3\nlower.batch_size = 7\nlower.product_batches = all\nupper.batch_size = 11\n",
     false},
    {"upper.optimizer = adam\nlower.momentum = 0.9\nupper.gradient_clipping = 0.1\n", true},
    {"lower.meta_trainable = *.bias\n", false}, /* the gradient of the large layer is not requested */
    {"engine.roll_back = true\n", true},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(the_same_is_computed) { expect_same(&usual, cases[_i].settings, cases[_i].joined); }
END_TEST

/* The product reads the step count as of the last lower step, the upper gradient the current one: if the upper loss
 * uses it, they stay separate. */
START_TEST(steps_that_losses_count)
{
    made m = usual;
    m.counts_lower = _i & 1;
    m.counts_upper = _i & 2;
    expect_same(&m, "", !m.counts_upper);
}
END_TEST

/* The levels above the first product get their gradients as before. */
START_TEST(three_levels)
{
    double found[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = engine_of(&usual, "top.lr = 0.1\ntop.batch_size = 12\nupper.type = darts\n", k);
        ck_assert(joins(engine, "upper") == k && joins(engine, "top") == k);
        levels_step(engine, 4);
        levels_params(engine, "top", &found[k], 1);
        bt_engine_free(engine);
    }
    ck_assert_double_ne(found[0], -2);
    ck_assert_double_eq_tol(found[0], found[1], 1e-12);
}
END_TEST

/* A non-finite v never takes effect, although v itself is not checked. */
static void expect_finite(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    (void)user;
    bt_array array = bt_var_array(var);
    for (int64_t i = 0; i < bt_array_count(array) && !strstr(var->name, ".sum"); i++)
        ck_assert_msg(isfinite(var_get(var, i)), "%s of %s is not finite", var->name, var->owner);
}

START_TEST(a_batch_that_is_not_finite)
{
    static const double bad[] = {NAN, INFINITY, 1e300};
    made m = usual;
    m.bad = bad[_i];
    bt_engine *engine = engine_of(&m, "upper.shuffle = false\nupper.batch_size = 10\n", true);
    ck_assert(joins(engine, "upper"));
    levels_step(engine, 7); /* the bad row is in the first of three batches */
    ck_assert_int_eq(levels_skipped(engine, "upper"), 3);
    ck_assert_int_eq(levels_steps(engine, "upper"), 7);
    bt_visit_vars(&engine->context, NULL, expect_finite, NULL);
    bt_engine_free(engine);
}
END_TEST

/* --check-hypergradient reads v and the direct gradient, so it separates the two; afterwards they are joined again, and
 * nothing has changed. */
START_TEST(a_check)
{
    made m = usual;
    m.smooth = true;
    uint64_t hashes[2];
    for (int with = 0; with < 2; with++) {
        bt_engine *engine = engine_of(&m, "lower.product = vjp\nlower.detach = field\nengine.seed = 5\n", true);
        levels_step(engine, 3);
        if (with) {
            FILE *file = tmpfile();
            char text[4096] = "";
            ck_assert_ptr_nonnull(file);
            bt_engine_check_hypergradient(engine,
                                          &(bt_checking){.level = "upper", .samples = 2, .json = true, .file = file});
            rewind(file);
            size_t length = fread(text, 1, sizeof text - 1, file);
            fclose(file);
            text[length] = 0;
            const char *error = strstr(text, "\"the product of lower with upper\"");
            error = error ? strstr(error, "\"error\": ") : NULL;
            ck_assert_msg(error && strtod(error + 9, NULL) < 1e-6, "%s %s", text, bt_error());
            ck_assert(joins(engine, "upper"));
        }
        bt_error_clear();
        levels_step(engine, 3);
        hashes[with] = levels_hash(engine, NULL);
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(hashes[0], hashes[1]);
}
END_TEST

/* Recompiling the programs of `upper`, separated or joined, keeps the steps that `top` differentiates. */
START_TEST(steps_of_a_level_that_is_looked_into)
{
    double before, after, *x = malloc(100000 * sizeof *x);
    made m = usual;
    m.smooth = true;
    bt_engine *engine =
        engine_of(&m, "top.lr = 0.1\ntop.batch_size = 12\nupper.type = itd\nupper.unroll_steps = 3\n", _i < 2);
    ck_assert(x && joins(engine, "upper") == (_i < 2));
    bt_problem *above = bt_engine_problem(engine, "top");
    levels_step(engine, 2);
    EXPECT_OK(bt_hypergradient(above, BT_ARRAY(&before, 1)));
    if (_i) {
        bt_check_result *result = bt_engine_check(engine, "upper", 1);
        ck_assert_msg(result != NULL, "%s", bt_error());
        bt_check_result_free(result);
    } else {
        int64_t count = bt_param_count(bt_engine_problem(engine, "lower"));
        EXPECT_OK(bt_engine_read(engine, "upper:x.lower", BT_ARRAY(x, count)));
    }
    EXPECT_OK(bt_hypergradient(above, BT_ARRAY(&after, 1)));
    ck_assert(before != 0 && before == after);
    bt_engine_free(engine);
    free(x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joined");
    TCase *tests = tcase_create("one program");
    tcase_add_loop_test(tests, steps_of_a_level_that_is_looked_into, 0, 3);
    tcase_add_loop_test(tests, products_of_a_step, 0, 2);
    tcase_add_loop_test(tests, products_on_ranks, 0, 2);
    tcase_add_loop_test(tests, a_small_layer_is_left_alone, 0, 2);
    tcase_add_loop_test(tests, the_same_is_computed, 0, CASES);
    tcase_add_loop_test(tests, steps_that_losses_count, 0, 4);
    tcase_add_test(tests, three_levels);
    tcase_add_loop_test(tests, a_batch_that_is_not_finite, 0, 3);
    tcase_add_test(tests, a_check);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* batch_norm_groups: each group of rows is normalised as if by a separate call, at every order of derivative; the
 * buffers move by the mean over the groups; and ranks with whole groups need nothing of each other's statistics. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "runtime/copies.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 26, PIXELS = 2, WIDTH = 3, CHANNELS = 4, BATCH = 12, STEPS = 4, MANY = 64 };

static double number(int set, int row, int pixel, int k)
{
    return sin(1.1 * set + 0.7 * row + 0.3 * k * (row % 5) + pixel);
}

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS * PIXELS * WIDTH], y[ROWS];
    int set = strcmp(self->name, "upper") == 0;
    for (int i = 0; i < ROWS; i++) {
        y[i] = cos(2.1 * i + set);
        for (int p = 0; p < PIXELS; p++)
            for (int k = 0; k < WIDTH; k++)
                x[(i * PIXELS + p) * WIDTH + k] = number(set, i, p, k);
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, PIXELS, WIDTH));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_tensor *over_pixels(bt_tensor *x) { return bt_mean(x, 1); }

static bt_module *net_of(bt_module *first, bt_module *second)
{
    return bt_nn_sequential(first, bt_nn_linear(WIDTH, CHANNELS), second, bt_nn_fn(bt_tanh), bt_nn_fn(over_pixels),
                            bt_nn_linear(CHANNELS, 1));
}

/* The first normalisation sees the data directly, so its statistics are known. */
static bt_module *net(bt_problem *self)
{
    return (void)self, net_of(bt_nn_batch_norm(WIDTH), bt_nn_batch_norm(CHANNELS));
}

static bt_module *penalty(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(-1), 1); }

static bt_tensor *error(bt_problem *lower, const bt_batch *batch)
{
    bt_tensor *y = bt_squeeze(bt_forward(lower, bt_field(batch, "x")), 1);
    return bt_mean(bt_square(bt_sub(y, bt_field(batch, "y"))));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_forward(bt_peer(self, "upper")));
    return bt_add(error(self, batch), bt_mul(bt_reshape(strength, BT_END), bt_sum(bt_square(bt_params(self)))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch) { return error(bt_peer(self, "lower"), batch); }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = penalty, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = rows,
                                     .configure_valid_data = rows,
                                     .configure_module = net,
                                     .training_step = lower_step,
                                     .validation_step = error};
static const bt_export levels = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const bt_export *parts, const char *settings, int groups, int ranks)
{
    char text[1024];
    snprintf(text, sizeof text,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = %d\n"
             "lower.batch_size = %d\nupper.batch_size = %d\nlower.lr = 0.05\nupper.lr = 0.01\nlower.shuffle = false\n"
             "lower.drop_last = true\nupper.drop_last = true\nlower.batch_norm_groups = %d\nengine.ranks = %d\n%s",
             STEPS, BATCH, BATCH, groups, ranks, settings);
    bt_engine *engine = levels_engine(parts, NULL, text);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

/* ---- each group by a separate call ---- */

enum { GROUPS = 3 };

static bt_module *of_batch(int64_t channels, int64_t groups)
{
    bt_batch_norm_options o = bt_batch_norm_defaults();
    o.statistics = BT_STATISTICS_BATCH;
    o.groups = groups;
    return bt_nn_batch_norm(channels, &o);
}

static bt_module *grouped(bt_problem *self)
{
    return (void)self, net_of(of_batch(WIDTH, 0), of_batch(CHANNELS, GROUPS));
}

static bt_tensor *sliced_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *parts[GROUPS];
    int64_t each = bt_dim(in[0], 0) / GROUPS;
    for (int g = 0; g < GROUPS; g++)
        parts[g] = bt_forward(bt_child(self, "norm"), bt_slice(in[0], 0, g * each, (g + 1) * each));
    return bt_concat(0, parts[0], parts[1], parts[2]);
}

static bt_module *sliced_norm(int64_t channels)
{
    bt_module *module = bt_module_new(sliced_forward);
    bt_module_add(module, of_batch(channels, 1), "norm");
    return module;
}

static bt_module *sliced(bt_problem *self) { return (void)self, net_of(sliced_norm(WIDTH), sliced_norm(CHANNELS)); }

static const bt_problem_def grouped_lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = grouped, .training_step = lower_step};
static const bt_problem_def sliced_lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = sliced, .training_step = lower_step};
static const bt_export by_key = {.abi = BT_ABI, .problems = {&upper, &grouped_lower}};
static const bt_export by_hand = {.abi = BT_ABI, .problems = {&upper, &sliced_lower}};

/* The lower level's parameters after some steps, and the hypergradient at that point. */
static int64_t trained(bt_engine *engine, double values[MANY])
{
    levels_step(engine, 3);
    int64_t count = bt_params_elements(bt_engine_problem(engine, "lower"));
    ck_assert_int_lt(count, MANY);
    levels_params(engine, "lower", values, count);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(values + count, 1)));
    bt_engine_free(engine);
    return count + 1;
}

START_TEST(each_group_by_itself)
{
    static const char *const products[] = {"jvp", "vjp", "finite"};
    const bt_method_def *method = bt_method_builtin(_i / 3);
    double found[MANY], due[MANY];
    char settings[128];
    if (!method || method == &bt_method_none)
        return; /* the loop has spare iterations; the last method asks for nothing */
    snprintf(settings, sizeof settings, "lower.type = %s\nlower.product = %s\nlower.unroll_steps = 2\n", method->name,
             products[_i % 3]);
    int64_t count = trained(engine_of(&by_key, settings, GROUPS, 1), found);
    ck_assert_int_eq(trained(engine_of(&by_hand, settings, 1, 1), due), count);
    ck_assert(due[count - 1] != 0);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(found[i] - due[i]) <= 1e-9 * (1 + fabs(due[i])), "%s[%d] is %.17g, not %.17g", settings,
                      (int)i, found[i], due[i]);
}
END_TEST

/* ---- buffers ---- */

static bt_var *buffer_of(bt_engine *engine, const char *path)
{
    bt_slate *slate = bt_module_find(bt_problem_find(&engine->context, "lower")->module, path);
    ck_assert_ptr_nonnull(slate);
    return slate->var;
}

static void expect_buffer(bt_engine *engine, const char *path, const double due[WIDTH])
{
    const bt_var *var = buffer_of(engine, path);
    const double *near = (const double *)(void *)var_near(var);
    for (int k = 0; k < WIDTH; k++)
        ck_assert_msg(fabs(near[k] - due[k]) < 1e-12, "%s[%d] is %.17g, not %.17g", path, k, near[k], due[k]);
    for (int r = 1; r < bt_var_ranks(var->base ? var->base : var); r++)
        ck_assert_mem_eq(bt_var_data_of(var, r), near, var->bytes);
}

/* By one tenth towards the mean over the groups of their batch norm statistics, once per batch. */
START_TEST(buffers)
{
    static const int groups[] = {1, 2, 4, 12};
    double mean[WIDTH] = {0}, variance[WIDTH] = {1, 1, 1};
    const int count = groups[_i % 4], each = BATCH / count, values = each * PIXELS;
    bt_engine *engine = engine_of(&levels, "", count, 1 + _i / 4);
    for (int step = 0; step < 2; step++) {
        levels_step(engine, 1);
        for (int k = 0; k < WIDTH; k++) {
            double means = 0, variances = 0;
            for (int first = step * BATCH; first < (step + 1) * BATCH; first += each) {
                double m = 0, v = 0;
                for (int i = 0; i < values; i++)
                    m += number(0, first + i / PIXELS, i % PIXELS, k) / values;
                for (int i = 0; i < values; i++)
                    v += pow(number(0, first + i / PIXELS, i % PIXELS, k) - m, 2) / (values - 1);
                means += m / count;
                variances += v / count;
            }
            mean[k] = 0.9 * mean[k] + 0.1 * means;
            variance[k] = 0.9 * variance[k] + 0.1 * variances;
        }
        expect_buffer(engine, "0.running_mean", mean);
        expect_buffer(engine, "0.running_var", variance);
    }
    bt_engine_free(engine);
}
END_TEST

/* One group equals no key, bit for bit; validation reads the buffers, whatever its batch size. */
START_TEST(what_it_leaves)
{
    bt_engine *one = engine_of(&levels, "", 1, 1), *none = engine_of(&levels, "lower.batch_norm_groups = \n", 1, 1);
    bt_engine *four = engine_of(&levels, "lower.valid_batch_size = 7\n", 4, 1);
    double losses[2];
    levels_step(none, STEPS);
    levels_step(one, STEPS);
    ck_assert_uint_eq(levels_hash(one, NULL), levels_hash(none, NULL));
    bt_engine_free(one);
    bt_engine_free(none);
    one = engine_of(&levels, "lower.valid_batch_size = 7\n", 1, 1);
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = k ? four : one;
        EXPECT_OK(bt_engine_setup(engine));
        const bt_batch *batch = bt_valid_batch(bt_engine_problem(engine, "lower"), 0);
        EXPECT_OK(bt_eval(bt_engine_problem(engine, "lower"), error, batch, BT_ARRAY(&losses[k])));
        bt_engine_free(engine);
    }
    ck_assert(losses[0] == losses[1] && losses[0] > 0);
}
END_TEST

/* ---- ranks ---- */

/* The elements that one step of the owner sends in a phase: reduced and gathered. */
static void sent(const bt_engine *engine, const char *owner, const char *name, int64_t *reduced, int64_t *gathered)
{
    *reduced = *gathered = 0;
    for (int64_t p = 0; p < engine->context.instance->phase_count; p++) {
        const bt_phase *phase = engine->context.instance->phases[p];
        if (strcmp(phase->owner, owner) != 0 || strcmp(phase->name, name) != 0)
            continue;
        for (int64_t e = 0; e < phase->entry_count; e++) {
            *reduced += (int64_t)phase->entries[e].runs * phase->entries[e].program->sharded.reduced;
            *gathered += (int64_t)phase->entries[e].runs * phase->entries[e].program->sharded.gathered;
        }
    }
}

/* Four groups on as many ranks, on fewer, on more, and on three, with unequal shares: the same run. With equal
 * shares, a step sends its gradient, its loss and the change of its buffers; the upper level's step sends vectors
 * and its loss. */
START_TEST(on_ranks)
{
    static const char *const settings[] = {"lower.type = darts\n", "lower.type = cg\nlower.cg_iterations = 1\n"};
    double due[MANY] = {0}, found[MANY];
    const int64_t vectors = _i ? 2 : 1;
    for (int ranks = 1; ranks <= 8; ranks++) {
        int64_t reduced, gathered, count;
        bt_engine *engine = engine_of(&levels, settings[_i], 4, ranks);
        levels_step(engine, STEPS);
        count = bt_params_elements(bt_engine_problem(engine, "lower"));
        levels_params(engine, "lower", found, count);
        levels_params(engine, "upper", found + count, 1);
        memcpy(found + count + 1, var_near(buffer_of(engine, "2.running_var")), CHANNELS * sizeof *found);
        for (int64_t i = 0; i < count + 1 + CHANNELS; i++) {
            due[i] = ranks == 1 ? found[i] : due[i];
            ck_assert_msg(fabs(found[i] - due[i]) <= 1e-10 * (1 + fabs(due[i])), "%d ranks: [%d] is %.17g, not %.17g",
                          ranks, (int)i, found[i], due[i]);
        }
        if (4 % ranks == 0 && ranks > 1) {
            sent(engine, "lower", "train step", &reduced, &gathered);
            ck_assert_int_eq(reduced, count + 1 + 2 * (WIDTH + CHANNELS));
            ck_assert_int_eq(gathered, 0);
            sent(engine, "upper", "hypergradient step", &reduced, &gathered);
            ck_assert_int_eq(reduced, vectors * count + 1); /* the penalty does not depend on rows */
            ck_assert_int_eq(gathered, 0);
        }
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- batches that do not fit ---- */

START_TEST(does_not_fit)
{
    levels_expect_error(engine_of(&levels, "", 5, 1),
                        "lower.0: batch_norm: a batch of 12 rows cannot be divided into 5 groups (batch_norm_groups)",
                        NULL);
    levels_expect_error(engine_of(&levels, "lower.drop_last = false\n", 4, 1), "a batch of 2 rows", "4 groups",
                        "drop_last = true", NULL);
    levels_expect_error(engine_of(&levels, "upper.batch_size = 6\n", 4, 1), "lower.0: batch_norm: a batch of 6 rows",
                        NULL);
    levels_expect_error(engine_of(&levels, "", 0, 1), "batch_norm_groups", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.norm_groups");
    TCase *tests = tcase_create("groups");
    tcase_add_loop_test(tests, each_group_by_itself, 0, 36);
    tcase_add_loop_test(tests, buffers, 0, 16);
    tcase_add_test(tests, what_it_leaves);
    tcase_add_loop_test(tests, on_ranks, 0, 2);
    tcase_add_test(tests, does_not_fit);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

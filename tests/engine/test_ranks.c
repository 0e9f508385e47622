/* tests/engine/test_ranks.c: ranks only change where a run is computed: for any number of ranks, every number that the
 * run keeps equals that of one rank, up to rounding of sums in double precision; and replicated values have the same
 * bits on every rank. */
#include "levels.h"
#include "resumable.h"
#include "two_nets.h"

#include "engine/session/session.h"
#include "runtime/copies.h"
#include "runtime/store.h"
#include "support/suite.h"
#include "support/vars.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Batches are not divisible by the ranks, and the last one is short. */
static const char *const variants[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\nlower.unroll_steps = 2\n",
    "lower.type = penalty\n",
    "lower.type = penalty\nupper.gradient_accumulation = 2\nupper.batch_size = 3\n",
    "lower.type = penalty\nlower.gradient_accumulation = 2\nlower.product_batches = all\n",
    "lower.type = sama\n",
    "lower.type = cg\nlower.cg_iterations = 3\nlower.unroll_steps = 3\n",
    ("lower.type = cg\nlower.cg_iterations = 2\nlower.cg_warm_start = true\nlower.unroll_steps = 3\n"
     "upper.meta_batch = 2\nside.unroll_steps = 2\n"),
    "lower.type = neumann\nlower.neumann_iterations = 3\nlower.product_batches = all\nlower.unroll_steps = 3\n",
    "lower.type = nystrom\nlower.nystrom_rank = 3\nlower.unroll_steps = 2\n",
    ("lower.type = neumann\nlower.gradient_accumulation = 3\nlower.product_batches = all\n"
     "upper.gradient_accumulation = 2\nlower.warmup_steps = 4\n"),
    ("lower.product = finite\nlower.unroll_steps = 4\nside.unroll_steps = 3\nengine.roll_back = true\n"
     "lower.scheduler = cosine\n"),
    "lower.type = itd\nlower.unroll_steps = 4\nside.unroll_steps = 4\n",
    ("lower.type = itd\nlower.unroll_steps = 4\nlower.itd_spacing = 2\nlower.gradient_accumulation = 2\n"
     "side.unroll_steps = 4\nside.type = itd\nside.itd_steps = 3\nside.optimizer = adam\nupper.meta_batch = 2\n"),
    ("engine.valid_step = 1\nlower.type = itd\nlower.unroll_steps = 3\nlower.scheduler = plateau\n"
     "lower.scheduler_patience = 1\nlower.scheduler_threshold = 0.9\n"),
    "lower.gradient_clipping = 0.01\nlower.type = cg\nlower.cg_iterations = 2\nupper.gradient_clipping_value = 0.001\n",
    "lower.batch_size = all\nlower.lr = 0.01\n", /* a larger rate would amplify rounding errors */
    "lower.checkpointing = sqrt\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants, ROOM = 4096 };

typedef struct state {
    double values[ROOM];
    int64_t count;
    const bt_instance *instance;
} state;

static void take(void *user, const bt_var *var, const bt_block *block)
{
    state *s = user;
    (void)block;
    const int64_t count = bt_array_count(bt_var_array(var));
    if (var->category == BT_BATCH)
        return;
    ck_assert_int_le(s->count + count, ROOM);
    EXPECT_OK(bt_store_to_array(s->instance, var, BT_ARRAY(s->values + s->count, count)));
    s->count += count;
    if (bt_var_is_parted(var))
        return;
    const char *near = var_near(var);
    const bt_var *root = var->base ? var->base : var;
    for (int r = 1; root->lifetime == BT_RUN && r < bt_var_ranks(root); r++) {
        const char *own = bt_var_data_of(var, r);
        if (own && memcmp(own, near, var->bytes) != 0)
            ck_abort_msg("%s of %s: rank %d has other bits", var->name, var->owner, r);
    }
}

static void look(bt_engine *engine, state *s)
{
    s->count = 0;
    s->instance = engine->context.instance;
    bt_visit_vars(&engine->context, NULL, take, s);
}

static bt_engine *engine_as(resumable *world, const char *settings, int ranks, const char *strategy)
{
    char more[80];
    snprintf(more, sizeof more, "engine.ranks = %d\nengine.strategy = %s\n", ranks, strategy);
    bt_engine *engine = resumable_engine(world, settings, more, NULL);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

static bt_engine *engine_of(resumable *world, const char *settings, int ranks)
{
    return engine_as(world, settings, ranks, "default");
}

/* The result of a whole run. */
static void finish(const char *settings, int ranks, const char *strategy, state *s)
{
    resumable world = {0};
    bt_engine *engine = engine_as(&world, settings, ranks, strategy);
    resumable_finish(engine, &world);
    look(engine, s);
    bt_engine_free(engine);
}

/* Reductions over the ranks in all programs. */
static int64_t meetings(const bt_engine *engine)
{
    int64_t sum = 0;
    for (int64_t p = 0; p < engine->context.instance->phase_count; p++)
        for (int64_t e = 0; e < engine->context.instance->phases[p]->entry_count; e++)
            sum += engine->context.instance->phases[p]->entries[e].program->sharded.reductions;
    return sum;
}

static void expect_same(const state *found, const state *due, int ranks)
{
    ck_assert_int_eq(found->count, due->count);
    ck_assert_int_gt(found->count, 20);
    for (int64_t i = 0; i < due->count; i++)
        if (!(fabs(found->values[i] - due->values[i]) <= 1e-10 * (1 + fabs(due->values[i]))))
            ck_abort_msg("%d ranks: value %lld is %.17g, not %.17g", ranks, (long long)i, found->values[i],
                         due->values[i]);
}

START_TEST(the_same_run)
{
    static const int ranks[] = {2, 3, 8};
    static state due, found;
    finish(variants[_i], 1, "default", &due);
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        finish(variants[_i], ranks[k], "default", &found);
        expect_same(&found, &due, ranks[k]);
    }
}
END_TEST

/* Joined reductions give the same bits. */
START_TEST(in_buckets)
{
    static const int ranks[] = {2, 3, 8};
    static const char *const buckets[] = {"0", "1KiB", "25MiB"};
    static state due, found;
    char settings[400];
    int64_t met[3] = {0};
    for (int k = getenv("BT_TEST_ALL") ? 0 : 2; k < 3; k++)
        for (int b = 0; b < 3; b++) {
            resumable world = {0};
            snprintf(settings, sizeof settings, "%sengine.bucket = %s\n", variants[_i], buckets[b]);
            bt_engine *engine = engine_of(&world, settings, ranks[(_i + k) % 3]);
            resumable_finish(engine, &world);
            met[b] += meetings(engine);
            look(engine, b ? &found : &due);
            for (int64_t i = 0; b && i < due.count; i++)
                ck_assert_msg(memcmp(&found.values[i], &due.values[i], sizeof(double)) == 0,
                              "bucket = %s: value %lld is %.17g, not %.17g", buckets[b], (long long)i, found.values[i],
                              due.values[i]);
            bt_engine_free(engine);
        }
    ck_assert_msg(met[2] < met[0] && met[2] <= met[1] && met[1] <= met[0], "%lld, %lld, %lld meetings",
                  (long long)met[0], (long long)met[1], (long long)met[2]);
}
END_TEST

/* One strategy, on several numbers of ranks; with BT_TEST_ALL on all of them. */
START_TEST(divided)
{
    const bool all = getenv("BT_TEST_ALL") != NULL;
    static const char *const strategies[] = {"zero1", "zero2", "zero3"};
    static const int ranks[] = {2, 3, 8};
    static state due, found;
    finish(variants[_i], 1, "default", &due);
    for (int k = 0; k < (all ? 9 : 1); k++) {
        const int strategy = (_i + k / 3) % 3, count = ranks[(_i / 3 + k) % 3];
        finish(variants[_i], count, strategies[strategy], &found);
        expect_same(&found, &due, count);
    }
}
END_TEST

/* A checkpoint does not depend on the number of ranks that wrote it, nor on what they divided: 4, then 2, then 3. */
START_TEST(resumed_by_others)
{
    static const int ranks[] = {4, 2, 3};
    static const char *const strategies[][3] = {{"default", "default", "default"}, {"zero3", "zero1", "zero2"}};
    static state due, found;
    const char *settings = variants[12];
    finish(settings, 1, "default", &due);
    for (int part = 0; part < 3; part++) {
        resumable world = {0};
        bt_engine *engine = engine_as(&world, settings, ranks[part], strategies[_i][part]);
        if (part)
            EXPECT_OK(bt_engine_resume(engine, "part"));
        for (int step = 0; part < 2 && step < 4; step++)
            resumable_step(engine, &world);
        if (part < 2)
            EXPECT_OK(bt_engine_save(engine, "part"));
        else
            resumable_finish(engine, &world);
        look(engine, &found);
        bt_engine_free(engine);
    }
    expect_same(&found, &due, 3);
}
END_TEST

/* ---- the mean of products is not the product of means ---- */

static bt_dataset *one_and_three(bt_problem *self)
{
    double x[2] = {1, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "x", BT_ARRAY(x, 2));
    return data;
}

static bt_module *number(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(1), 1);
}

static bt_tensor *times_the_mean(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_sum(bt_params(self)), bt_mean(bt_field(batch, "x")));
}

static bt_tensor *pulled(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(times_the_mean(self, batch), bt_sum(bt_params(bt_peer(self, "upper"))));
}

static bt_tensor *of_the_lower(bt_problem *self, const bt_batch *batch)
{
    return times_the_mean(bt_peer(self, "lower"), batch);
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = one_and_three, .configure_module = number, .training_step = of_the_lower};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = one_and_three, .configure_module = number, .training_step = pulled};
static const bt_export means = {.abi = BT_ABI, .problems = {&upper, &lower}};

/* The mean of x is 1 on one rank and 3 on the other, and so is that of v: 2 x 2. A product with a rank's own v would
 * give 5, separate ranks 1 and 9, a sum instead of a mean 10 or more. */
START_TEST(product_of_means)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        char settings[512];
        snprintf(settings, sizeof settings,
                 "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 3\n"
                 "upper.lr = 0\nlower.lr = 0\nupper.batch_size = all\nlower.batch_size = all\nlower.type = darts\n"
                 "engine.ranks = %d\n",
                 ranks);
        bt_engine *engine = levels_engine(&means, NULL, settings);
        ck_assert_msg(engine != NULL, "%s", bt_error());
        double found;
        levels_step(engine, 2);
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found, 1)));
        ck_assert_double_eq(fabs(found), 4);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- 16-bit numbers ---- */

static void train_in(const char *precision, int ranks, double values[TWO_NETS_UPPER], int64_t *skipped)
{
    char settings[200];
    snprintf(settings, sizeof settings,
             "engine.train_iters = 6\nlower.unroll_steps = 2\nlower.type = cg\nlower.cg_iterations = 2\n"
             "engine.ranks = %d\n%s",
             ranks, strcmp(precision, "fp16") == 0 ? "lower.initial_dynamic_scale = 16777216\n" : "");
    bt_engine *engine = two_nets_engine(precision, precision, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 6);
    levels_params(engine, "upper", values, TWO_NETS_UPPER);
    *skipped = levels_skipped(engine, "lower");
    bt_engine_free(engine);
}

/* Each rank rounds the sum of its rows before the ranks are added; a scale that is too large is reduced on all
 * ranks. */
START_TEST(of_any_precision)
{
    static const char *const precisions[] = {"bf16", "fp16", "bf16-true"};
    double one[TWO_NETS_UPPER], three[TWO_NETS_UPPER], away = 0, size = 0;
    int64_t skipped[2];
    train_in(precisions[_i], 1, one, &skipped[0]);
    train_in(precisions[_i], 3, three, &skipped[1]);
    ck_assert_int_eq(skipped[0], skipped[1]);
    ck_assert((skipped[0] > 0) == (_i == 1));
    for (int k = 0; k < TWO_NETS_UPPER; k++) {
        away += pow(three[k] - one[k], 2);
        size += pow(one[k], 2);
    }
    ck_assert_msg(sqrt(away) < 0x1p-6 * sqrt(size), "%s: %g of %g", precisions[_i], sqrt(away), sqrt(size));
}
END_TEST

static bt_tensor *neighbours(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *h = bt_forward(self, bt_field(batch, "x"));
    return bt_mean(bt_square(bt_sub(bt_roll(h, 1, 0), h)));
}

/* An op that needs all rows, in 16 bits: they are gathered unchanged. */
START_TEST(gathered_in_any_precision)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "bf16-true"};
    static const bt_problem_def one = {.name = "lower",
                                       .configure_train_data = two_nets_rows,
                                       .configure_module = two_nets_classifier,
                                       .training_step = neighbours};
    static const bt_export alone = {.abi = BT_ABI, .problems = {&one}};
    enum { MOST = 4096 };
    static double found[2][MOST];
    int64_t count = 0;
    for (int k = 0; k < 2; k++) {
        char settings[200];
        snprintf(settings, sizeof settings, "engine.train_iters = 2\nengine.precision = %s\nengine.ranks = %d\n",
                 precisions[_i], k ? 3 : 1);
        bt_engine *engine = levels_engine(&alone, NULL, settings);
        ck_assert_msg(engine != NULL, "%s", bt_error());
        levels_step(engine, 2);
        count = bt_params_elements(bt_engine_problem(engine, "lower"));
        ck_assert_int_le(count, MOST);
        levels_params(engine, "lower", found[k], count);
        bt_engine_free(engine);
    }
    for (int64_t i = 0; i < count; i++)
        ck_assert_double_eq_tol(found[0][i], found[1][i], _i ? 0.02 : 1e-5);
}
END_TEST

/* ---- bytes and elements ---- */

static int64_t reduced(const bt_engine *engine, const char *owner, const char *name)
{
    int64_t sum = 0;
    for (int64_t p = 0; p < engine->context.instance->phase_count; p++) {
        const bt_phase *phase = engine->context.instance->phases[p];
        if (strcmp(phase->owner, owner) != 0 || strcmp(phase->name, name) != 0)
            continue;
        for (int64_t e = 0; e < phase->entry_count; e++) {
            sum += (int64_t)phase->entries[e].runs * phase->entries[e].program->sharded.reduced;
            ck_assert_int_eq(phase->entries[e].program->sharded.gathered, 0);
        }
    }
    return sum;
}

/* Every rank keeps exactly what a single rank keeps; measured bytes equal planned ones. */
START_TEST(bytes_of_a_rank)
{
    static const char *const settings[] = {"lower.type = darts\n", "lower.type = cg\nlower.cg_iterations = 2\n",
                                           "lower.type = itd\nlower.unroll_steps = 4\nside.unroll_steps = 4\n",
                                           "lower.gradient_accumulation = 3\n"};
    resumable world[2] = {{0}, {0}};
    size_t kept[2], arena[2];
    for (int k = 0; k < 2; k++) {
        bt_engine *engine = engine_of(&world[k], settings[_i], k ? 3 : 1);
        EXPECT_OK(bt_engine_setup(engine));
        bt_instance_fill(engine->context.instance);
        resumable_finish(engine, &world[k]);
        const bt_memory_sizes plan = bt_engine_planned(engine), measured = bt_engine_measured(engine);
        ck_assert_uint_eq(plan.arena, measured.arena);
        ck_assert_uint_eq(plan.persistent, measured.persistent);
        kept[k] = plan.persistent;
        arena[k] = plan.arena;
        bt_engine_free(engine);
    }
    ck_assert_uint_eq(kept[0], kept[1]);
    ck_assert_uint_lt(arena[1], arena[0]);
}
END_TEST

enum { WIDE = 5, EXAMPLES = 12 };

static bt_dataset *wide_rows(bt_problem *self)
{
    double x[EXAMPLES * WIDE], y[EXAMPLES];
    for (int i = 0; i < EXAMPLES * WIDE; i++)
        x[i] = sin(1.3 * i);
    for (int i = 0; i < EXAMPLES; i++)
        y[i] = cos(0.7 * i);
    bt_dataset *data = bt_dataset_new(EXAMPLES);
    bt_dataset_add(data, "x", BT_ARRAY(x, EXAMPLES, WIDE));
    bt_dataset_add(data, "y", BT_ARRAY(y, EXAMPLES));
    return (void)self, data;
}

static bt_module *wide(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5), WIDE); }
static bt_module *three(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.1), 3); }

static bt_tensor *misses(bt_problem *of, const bt_batch *batch)
{
    bt_tensor *guess = bt_squeeze(bt_matmul(bt_field(batch, "x"), bt_unsqueeze(bt_params(of), 1)), 1);
    return bt_square(bt_sub(guess, bt_field(batch, "y")));
}

/* The three numbers above are the weights of the rows. */
static bt_tensor *weighed(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *at = bt_slice(bt_field(batch, "x"), 1, 0, 3), *by = bt_unsqueeze(bt_params(bt_peer(self, "upper")), 1);
    return bt_mean(bt_mul(bt_sigmoid(bt_squeeze(bt_matmul(at, by), 1)), misses(self, batch)));
}

static bt_tensor *missed(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(misses(bt_peer(self, "lower"), batch));
}

static const bt_problem_def sent_upper = {
    .name = "upper", .configure_train_data = wide_rows, .configure_module = three, .training_step = missed};
static const bt_problem_def sent_lower = {
    .name = "lower", .configure_train_data = wide_rows, .configure_module = wide, .training_step = weighed};
static const bt_export sending = {.abi = BT_ABI, .problems = {&sent_upper, &sent_lower}};

/* A leaf step sends its gradient once, over however many micro-batches; a darts step also v and the upper gradient;
 * each iteration of cg one more vector. Reported losses are sent once a batch. */
START_TEST(elements_sent)
{
    static const struct {
        const char *settings;
        int64_t leaf, upper;
    } cases[] = {
        {"lower.type = darts\n", WIDE + 1, WIDE + 3 + 1},
        {"lower.type = cg\nlower.cg_iterations = 1\n", WIDE + 1, WIDE + WIDE + 3 + 1},
        {"lower.type = cg\nlower.cg_iterations = 4\n", WIDE + 1, WIDE + 4 * WIDE + 3 + 1},
        {"lower.type = neumann\nlower.neumann_iterations = 4\n", WIDE + 1, WIDE + 4 * WIDE + 3 + 1},
        {"lower.type = darts\nlower.gradient_accumulation = 3\n", 8 + 3, WIDE + 3 + 1}, /* a block of 64 bytes */
    };
    char settings[512];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nengine.train_iters = 3\n"
             "upper.batch_size = 4\nlower.batch_size = 4\nengine.ranks = 3\n%s",
             cases[_i].settings);
    bt_engine *engine = levels_engine(&sending, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    levels_step(engine, 2);
    ck_assert_int_eq(reduced(engine, "lower", "train step"), cases[_i].leaf);
    ck_assert_int_eq(reduced(engine, "upper", "hypergradient step"), cases[_i].upper);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tests = tcase_create("ranks");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, the_same_run, 0, VARIANTS);
    tcase_add_loop_test(tests, resumed_by_others, 0, 2);
    tcase_add_loop_test(tests, divided, 0, VARIANTS);
    tcase_add_loop_test(tests, in_buckets, 0, VARIANTS);
    tcase_add_test(tests, product_of_means);
    tcase_add_loop_test(tests, of_any_precision, 0, 3);
    tcase_add_loop_test(tests, gathered_in_any_precision, 0, 4);
    tcase_add_loop_test(tests, bytes_of_a_rank, 0, 4);
    tcase_add_loop_test(tests, elements_sent, 0, 5);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

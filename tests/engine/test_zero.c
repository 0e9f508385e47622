/* tests/engine/test_zero.c: the exact sizes of what ranks divide: bytes kept and in the arena, elements sent. With
 * parameters of B bytes, padded, an optimiser that keeps K numbers for each, and N ranks (Rajbhandari et al. 2020):
 *
 *                 kept                 gradients    sent in a step
 *   distributed   B (1 + K)            B            the gradient, n
 *   zero1         B + K B/N            B            B summed, B gathered
 *   zero2         B + K B/N            B/N          n summed, B gathered
 *   zero3         (1 + K) B/N          B/N          n summed, n gathered twice: for forward values and derivatives
 *
 * where B/N is the largest part, of whole lines of 64 bytes. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 24, HIDDEN = 100, OUT = 7, EXAMPLES = 120, SLOTS = 2 };
enum { FIRST = IN * HIDDEN, SECOND = HIDDEN * OUT, ELEMENTS = FIRST + HIDDEN + SECOND + OUT };
enum { NUMBER = 4, LINE = 64 / NUMBER };

/* Each parameter is padded to a full line. */
#define PADDED(n) (((n) + LINE - 1) / LINE * LINE)
enum { BLOCK = PADDED(FIRST) + PADDED(HIDDEN) + PADDED(SECOND) + PADDED(OUT) };

static bt_dataset *rows(bt_problem *self)
{
    static double x[EXAMPLES * IN], y[EXAMPLES * OUT];
    for (int i = 0; i < EXAMPLES * IN; i++)
        x[i] = sin(1.3 * i);
    for (int i = 0; i < EXAMPLES * OUT; i++)
        y[i] = cos(0.7 * i);
    bt_dataset *data = bt_dataset_new(EXAMPLES);
    bt_dataset_add(data, "x", BT_ARRAY(x, EXAMPLES, IN));
    bt_dataset_add(data, "y", BT_ARRAY(y, EXAMPLES, OUT));
    return (void)self, data;
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_mlp((bt_relu), IN, HIDDEN, OUT);
}

static bt_tensor *misses(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "y"))));
}

static const bt_problem_def wide = {
    .name = "wide", .configure_train_data = rows, .configure_module = net, .training_step = misses};
static const bt_export alone = {.abi = BT_ABI, .problems = {&wide}};

static const char *const strategies[] = {"distributed", "zero1", "zero2", "zero3"};

static bt_engine *engine_of(int ranks, const char *strategy, const char *more)
{
    char settings[512];
    snprintf(
        settings, sizeof settings,
        "engine.precision = fp32\nengine.train_iters = 4\nengine.valid_step = 0\nengine.log_step = "
        "0\nengine.ranks = %d\n"
        "engine.strategy = %s\nwide.batch_size = 5\nwide.drop_last = true\nwide.optimizer = adam\nwide.lr = 0.01\n%s",
        ranks, strategy, more);
    bt_engine *engine = levels_engine(&alone, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

/* The elements of the largest of N parts. */
static size_t part(int ranks) { return (size_t)((BLOCK / LINE + ranks - 1) / ranks * LINE); }

static const bt_phase *steps_of(const bt_engine *engine)
{
    const bt_instance *instance = engine->context.instance;
    for (int64_t p = 0; p < instance->phase_count; p++)
        if (strcmp(instance->phases[p]->name, "train step") == 0)
            return instance->phases[p];
    ck_abort_msg("there is no step");
    return NULL;
}

static size_t planned(const bt_phase *phase, bt_category category)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < phase->value_count; i++)
        bytes += phase->values[i].category == category ? phase->intervals[i].bytes : 0;
    return bytes;
}

static void sent(const bt_phase *phase, int64_t *reduced, int64_t *gathered)
{
    *reduced = *gathered = 0;
    for (int64_t e = 0; e < phase->entry_count; e++) {
        *reduced += phase->entries[e].program->sharded.reduced;
        *gathered += phase->entries[e].program->sharded.gathered;
    }
}

START_TEST(bytes)
{
    static const int counts[] = {2, 3, 8};
    const int ranks = counts[_i / 4], stage = _i % 4;
    size_t kept[BT_CATEGORIES], whole[BT_CATEGORIES];
    bt_engine *base = engine_of(1, "distributed", ""), *engine = engine_of(ranks, strategies[stage], "");
    EXPECT_OK(bt_engine_setup(base));
    EXPECT_OK(bt_engine_setup(engine));
    bt_persistent_bytes(&base->context, whole, base->context.problems[0]);
    bt_persistent_bytes(&engine->context, kept, engine->context.problems[0]);
    const size_t block = BLOCK * NUMBER, own = part(ranks) * NUMBER;
    const size_t counters = whole[BT_OPTIMIZER] - SLOTS * block;
    ck_assert_uint_eq(whole[BT_PARAMETERS], block);
    ck_assert_uint_lt(counters, 64);
    ck_assert_uint_eq(kept[BT_PARAMETERS], stage == 3 ? own : block);
    ck_assert_uint_eq(kept[BT_OPTIMIZER], SLOTS * (stage ? own : block) + counters);
    /* If each rank has all gradients, they share one block of memory with the products that compute them. */
    const size_t gradients = planned(steps_of(engine), BT_GRADIENTS);
    if (stage >= 2)
        ck_assert_uint_eq(gradients, own);
    else
        ck_assert_uint_le(gradients, block);
    int64_t reduced, gathered, again, other;
    sent(steps_of(engine), &reduced, &gathered);
    const int64_t norm = stage ? 1 : 0; /* whether the gradient is finite */
    ck_assert_int_eq(reduced, (stage == 1 ? BLOCK : ELEMENTS) + norm + 1);
    ck_assert_int_eq(gathered, stage == 0 ? 0 : stage == 3 ? ELEMENTS : BLOCK);
    bt_engine_free(base);
    bt_engine_free(engine);
    engine = engine_of(ranks, strategies[stage], "engine.zero_unit = 1\n");
    EXPECT_OK(bt_engine_setup(engine));
    sent(steps_of(engine), &other, &again);
    ck_assert_int_eq(other, reduced);
    ck_assert_int_eq(again, gathered + (stage == 3 ? SECOND : 0)); /* the first layer's input has no derivative */
    bt_engine_free(engine);
}
END_TEST

static double *trained(int ranks, const char *strategy, const char *more)
{
    double *values = calloc(ELEMENTS, sizeof *values);
    bt_engine *engine = engine_of(ranks, strategy, more);
    EXPECT_OK(bt_engine_setup(engine));
    bt_instance_fill(engine->context.instance);
    levels_step(engine, 4);
    const bt_memory_sizes plan = bt_engine_planned(engine), measured = bt_engine_measured(engine);
    ck_assert_uint_eq(plan.arena, measured.arena);
    ck_assert_uint_eq(plan.persistent, measured.persistent);
    EXPECT_OK(bt_engine_read(engine, "wide.0.weight", BT_ARRAY(values, HIDDEN, IN)));
    EXPECT_OK(bt_engine_read(engine, "wide.1.weight", BT_ARRAY(values + FIRST, OUT, HIDDEN)));
    bt_engine_free(engine);
    return values;
}

/* The same bits as on ranks that each have everything; measured bytes equal planned ones. */
static void expect_bits(int ranks, const char *more)
{
    double *due = trained(ranks, "distributed", more);
    for (int stage = 1; stage < 4; stage++) {
        double *found = trained(ranks, strategies[stage], more);
        for (int i = 0; i < FIRST + SECOND; i++)
            ck_assert_msg(memcmp(&found[i], &due[i], sizeof *due) == 0, "%s, %s: [%d] is %.9g, not %.9g",
                          strategies[stage], more, i, found[i], due[i]);
        free(found);
    }
    free(due);
}

START_TEST(bits)
{
    static const int counts[] = {2, 3, 8};
    expect_bits(counts[_i], "");
}
END_TEST

/* With other precisions, and with optimisers that keep other state. */
START_TEST(bits_of_any_kind)
{
    static const char *const kinds[] = {"wide.precision = bf16\n",
                                        "wide.precision = fp16\n",
                                        "wide.precision = bf16-true\n",
                                        "wide.optimizer_state = bf16\n",
                                        "wide.optimizer = adam8bit\n",
                                        "wide.optimizer = nadam\n",
                                        "wide.optimizer = sgd\n",
                                        "wide.optimizer = lion\n",
                                        "wide.optimizer = rmsprop\n",
                                        "wide.trainable = 0.*\n",
                                        "wide.gradient_clipping_value = 0.001\n",
                                        "wide.prune = 0.5\nwide.prune_end = 3\n",
                                        "wide.precision = bf16\nwide.checkpointing = every:1\nengine.zero_unit = 1\n"};
    for (int ranks = 2; ranks < 4; ranks++)
        expect_bits(ranks, kinds[_i]);
}
END_TEST

/* ---- vectors of a hypergradient ---- */

static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(-3)); }

static bt_tensor *decayed(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *strength = bt_exp(bt_params(bt_peer(self, "above")));
    return bt_add(misses(self, batch), bt_mul(bt_sum(strength), bt_mean(bt_square(bt_params(self)))));
}

static bt_tensor *missed(bt_problem *self, const bt_batch *batch) { return misses(bt_peer(self, "wide"), batch); }

static const bt_problem_def above = {
    .name = "above", .configure_train_data = rows, .configure_module = number, .training_step = missed};
static const bt_problem_def below = {
    .name = "wide", .configure_train_data = rows, .configure_module = net, .training_step = decayed};
static const bt_export two = {.abi = BT_ABI, .problems = {&above, &below}};

/* Each is as long as the parameters without padding, or, from zero2 on, a part of that. */
START_TEST(vectors)
{
    static const int counts[] = {2, 3, 8};
    const int ranks = counts[_i / 4], stage = _i % 4;
    char settings[512];
    snprintf(settings, sizeof settings,
             "dependencies.u2l = above > wide\ndependencies.l2u = wide > above\nengine.precision = fp32\n"
             "engine.ranks = %d\nwide.strategy = %s\nwide.type = cg\nwide.cg_iterations = 2\n",
             ranks, strategies[stage]);
    bt_engine *engine = levels_engine(&two, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    const size_t due = stage < 2 ? ELEMENTS : (size_t)((ELEMENTS + ranks - 1) / ranks);
    int found = 0;
    for (int64_t p = 0; p < engine->context.instance->phase_count; p++) {
        const bt_phase *phase = engine->context.instance->phases[p];
        for (int64_t i = 0; i < phase->value_count; i++) {
            const bt_var *var = phase->values[i].var;
            if (phase->values[i].category != BT_VECTORS || !var || bt_array_count(bt_var_array(var)) == 1)
                continue;
            ck_assert_uint_eq(var->bytes, due * NUMBER);
            found++;
        }
    }
    ck_assert_int_ge(found, 4); /* v, x, r, p */
    bt_engine_free(engine);
}
END_TEST

enum { DEEP = 10, SIDE = 24 };

static bt_module *deep(bt_problem *self)
{
    bt_module *layers[DEEP + 3];
    (void)self;
    layers[0] = bt_nn_linear(IN, SIDE);
    for (int i = 1; i <= DEEP; i++)
        layers[i] = bt_nn_mlp((bt_tanh), SIDE, SIDE, SIDE);
    layers[DEEP + 1] = bt_nn_linear(SIDE, OUT);
    layers[DEEP + 2] = NULL;
    return (bt_nn_sequential)(layers);
}

static const bt_problem_def tower = {
    .name = "wide", .configure_train_data = rows, .configure_module = deep, .training_step = misses};
static const bt_export towers = {.abi = BT_ABI, .problems = {&tower}};

static uint64_t towered(int ranks, const char *strategy, size_t *arena, int64_t *again)
{
    char settings[512];
    snprintf(settings, sizeof settings,
             "engine.precision = fp32\nengine.train_iters = 3\nengine.valid_step = 0\nengine.ranks = %d\n"
             "wide.strategy = %s\nengine.zero_unit = 1\nwide.batch_size = 120\nwide.optimizer = adam\nwide.lr = 0.01\n"
             "wide.checkpointing = every:2\n",
             ranks, strategy);
    bt_engine *engine = levels_engine(&towers, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    bt_instance_fill(engine->context.instance);
    levels_step(engine, 3);
    const bt_memory_sizes plan = bt_engine_planned(engine), measured = bt_engine_measured(engine);
    ck_assert_uint_eq(plan.arena, measured.arena);
    int64_t gathers, gathered;
    const bt_program *program = steps_of(engine)->entries[0].program;
    bt_program_gathered(program, &gathers, &gathered);
    *again = gathers - program->sharded.gathers;
    *arena = plan.arena;
    static double values[SIDE * SIDE];
    EXPECT_OK(bt_engine_read(engine, "wide.5.0.weight", BT_ARRAY(values, SIDE, SIDE)));
    bt_engine_free(engine);
    return bt_hash(0, values, sizeof values);
}

/* For rerun steps parameters are gathered again, if all ranks would do so at the same places; bit for bit. */
START_TEST(gathered_for_what_runs_again)
{
    static const int counts[] = {2, 3, 4, 7, 8, 11};
    size_t arena, whole;
    int64_t again, none;
    const uint64_t due = towered(counts[_i], "distributed", &whole, &none);
    ck_assert_int_eq(none, 0);
    ck_assert_uint_eq(towered(counts[_i], "zero3", &arena, &again), due);
    if (counts[_i] <= 4) /* with more ranks, rows take little memory compared with parameters */
        ck_assert_int_gt(again, 0);
    if (again && counts[_i] > 2) /* with two ranks, gathered parameters take more than recomputation saves */
        ck_assert_uint_lt(arena, whole);
}
END_TEST

/* Names used by other programs. */
START_TEST(names)
{
    size_t kept[BT_CATEGORIES], other[BT_CATEGORIES];
    bt_engine *engine = engine_of(3, _i ? "fsdp" : "zero", ""), *same = engine_of(3, strategies[_i ? 3 : 1], "");
    EXPECT_OK(bt_engine_setup(engine));
    EXPECT_OK(bt_engine_setup(same));
    bt_persistent_bytes(&engine->context, kept, NULL);
    bt_persistent_bytes(&same->context, other, NULL);
    ck_assert_int_eq(memcmp(kept, other, sizeof kept), 0);
    bt_engine_free(engine);
    bt_engine_free(same);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("zero");
    TCase *tests = tcase_create("zero");
    tcase_add_loop_test(tests, bytes, 0, 12);
    tcase_add_loop_test(tests, bits, 0, 3);
    tcase_add_loop_test(tests, bits_of_any_kind, 0, 13);
    tcase_add_loop_test(tests, vectors, 0, 12);
    tcase_add_loop_test(tests, gathered_for_what_runs_again, 0, 6);
    tcase_add_loop_test(tests, names, 0, 2);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

/* tests/engine/test_holding.c: what the loop of a solve keeps of loop-invariant values changes no bit: every holding,
 * in networks with dropout, layer norm, batch norm and residual connections, with each iterative method, in both
 * precisions, on one thread and two. And each holding keeps at most as many bytes as the previous one. */
#include "decayed.h"

#include "engine/session/session.h"
#include "engine/step/step.h"
#include "graph/graph.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum { SIDE = 6, WIDE = 256, LAYERS = 60 };

static bt_holding holding; /* of the next engine */

/* ---- the networks ---- */

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(x, bt_dim(x, 0), -1); }

static bt_module *mlp(bt_problem *self)
{
    self->context->instance->options.holding = holding;
    return bt_nn_sequential(bt_nn_fn(as_rows), decayed_layer(SIDE * SIDE * DECAYED_CHANNELS, 160),
                            decayed_layer(160, 160), decayed_layer(160, 160), bt_nn_linear(160, DECAYED_CLASSES));
}

static bt_module *convnet(bt_problem *self)
{
    self->context->instance->options.holding = holding;
    return decayed_resnet(self);
}

static bt_module *plain(int64_t in, int64_t out)
{
    return bt_nn_sequential(bt_nn_linear(in, out), bt_nn_layer_norm(out), bt_nn_fn(bt_gelu));
}

static bt_module *deep(bt_problem *self)
{
    self->context->instance->options.holding = holding;
    bt_module *net = bt_nn_sequential(bt_nn_fn(as_rows), plain(SIDE * SIDE * DECAYED_CHANNELS, WIDE));
    for (int i = 1; i < LAYERS; i++)
        bt_module_add(net, plain(WIDE, WIDE), "more%d", i);
    bt_module_add(net, bt_nn_linear(WIDE, DECAYED_CLASSES), "head");
    return net;
}

static const bt_problem_def upper = DECAYED_UPPER(images);
static const bt_problem_def lowers[] = {DECAYED_LOWER(images, mlp), DECAYED_LOWER(images, convnet),
                                        DECAYED_LOWER(images, deep)};
static const bt_export nets[] = {{.abi = BT_ABI, .problems = {&upper, &lowers[0]}},
                                 {.abi = BT_ABI, .problems = {&upper, &lowers[1]}},
                                 {.abi = BT_ABI, .problems = {&upper, &lowers[2]}}};

static bt_engine *engine_of(int net, const char *more)
{
    char lines[1024];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 10\n"
             "lower.lr = 0.05\nupper.lr = 0.1\nupper.batch_size = 8\n%s",
             more);
    bt_engine *engine = levels_engine(&nets[net], NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    return engine;
}

/* ---- bits ---- */

static const char *const methods[] = {"cg\nlower.cg_iterations = 3\nlower.cg_damping = 1",
                                      "neumann\nlower.neumann_iterations = 3\nlower.neumann_alpha = 0.1",
                                      "nystrom\nlower.nystrom_rank = 3\nlower.nystrom_rho = 1"};

/* _i: network, method, precision, threads. Three steps, with batches of different sizes. */
START_TEST(same_bits)
{
    char lines[256];
    int net = _i % 2, method = _i / 2 % 3;
    snprintf(lines, sizeof lines, "lower.type = %s\nengine.precision = %s\nengine.threads = %d\n", methods[method],
             _i / 6 % 2 ? "fp64" : "fp32", 1 + _i / 12);
    uint64_t expected = 0;
    for (holding = BT_HOLD_ALL; holding < BT_HOLDINGS; holding++) {
        bt_engine *engine = engine_of(net, lines);
        levels_step(engine, 3);
        uint64_t hash = levels_hash(engine, NULL);
        expected = holding == BT_HOLD_ALL ? hash : expected;
        ck_assert_msg(hash == expected, "%s: other bits\n%s", bt_holding_names[holding], lines);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- bytes ---- */

static const bt_phase *phase_of(bt_engine *engine) { return engine->context.problems[0]->step->phase; }

/* The bytes of variables that carry values from the first program of a solve to the second. */
static size_t held_by(const bt_phase *phase)
{
    size_t sum = 0;
    for (int64_t i = 0; i < phase->value_count; i++)
        if (phase->values[i].var && phase->values[i].category == BT_ACTIVATIONS)
            sum += phase->values[i].used;
    return sum;
}

/* The number of products in the programs with that name. */
static int products_of(const bt_phase *phase, const char *part)
{
    int count = 0;
    for (int64_t e = 0; e < phase->entry_count; e++)
        for (int64_t s = 0; !strcmp(phase->entries[e].part, part) && s < phase->entries[e].program->step_count; s++)
            count += (bt_op_flags(phase->entries[e].program->steps[s].call.op) & BT_OP_PRODUCT) != 0;
    return count;
}

static void look(int net, bt_holding which, size_t *bytes, int *products)
{
    holding = which;
    bt_engine *engine = engine_of(net, "lower.type = cg\nlower.cg_iterations = 3\n");
    EXPECT_OK(bt_engine_setup(engine));
    const bt_phase *phase = phase_of(engine);
    *bytes = held_by(phase);
    *products = products_of(phase, "solve, each");
    ck_assert(which != BT_HOLD_NOTHING || !products_of(phase, "solve, once"));
    bt_engine_free(engine);
}

START_TEST(each_holds_at_most_what_the_one_before_does)
{
    size_t bytes[BT_HOLDINGS];
    int products[BT_HOLDINGS];
    for (int h = 0; h < BT_HOLDINGS; h++)
        look(_i, (bt_holding)h, &bytes[h], &products[h]);
    for (int h = 1; h < BT_HOLDINGS; h++)
        ck_assert_msg(bytes[h] <= bytes[h - 1] && products[h] >= products[h - 1], "%s", bt_holding_names[h]);
    ck_assert_uint_lt(10 * bytes[BT_HOLD_PRODUCTS], 6 * bytes[BT_HOLD_ALL]);
    ck_assert(bytes[BT_HOLD_FORWARD] < bytes[BT_HOLD_PRODUCTS] && bytes[BT_HOLD_NOTHING] == 0);
    ck_assert_int_eq(products[BT_HOLD_PRODUCTS], products[BT_HOLD_ALL]);
    ck_assert_int_gt(products[BT_HOLD_FORWARD], products[BT_HOLD_PRODUCTS]);
}
END_TEST

/* For each layer the result of its product, and the cotangent of that, in batches of 10 and of 4 (there are 24 rows);
 * also row statistics. Forward values only: the first of the two. */
START_TEST(two_values_a_layer)
{
    const size_t map = (10 + 4) * WIDE * sizeof(double) * LAYERS, small = map / 16;
    size_t bytes;
    int products;
    look(2, BT_HOLD_PRODUCTS, &bytes, &products);
    ck_assert(bytes > 2 * map - small && bytes < 2 * map + small);
    look(2, BT_HOLD_FORWARD, &bytes, &products);
    ck_assert(bytes > map - small && bytes < map + small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.holding");
    TCase *tests = tcase_create("holding");
    tcase_add_loop_test(tests, same_bits, 0, 2 * 3 * 2 * 2);
    tcase_add_loop_test(tests, each_holds_at_most_what_the_one_before_does, 0, BT_COUNT_OF(nets));
    tcase_add_test(tests, two_values_a_layer);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
